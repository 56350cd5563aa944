//! The job's system-call filter: its table as data, and the compilation of the table to three stacked programs.
//!
//! seccompiler has one action per filter, and a filter costs time to load, so the work is split:
//!
//! 1. `base`, loaded once into each zygote and inherited by its children: it allows the table and denies the rest
//!    (EPERM);
//! 2. `absent`, likewise: it makes some calls look unknown to libc (ENOSYS), so that libc falls back to others;
//! 3. `seal`, small, loaded into each child as its last step: it takes back what only joining a sandbox needed.
//!
//! A native container has one more filter around them ([`confine_container`]), as a Docker container has
//! `images/seccomp.json`.

mod arguments;
mod entry;
mod sealed;
mod table;

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};

use crate::error::{Context, Error, Result};
use crate::sys;
use entry::{Arg, Entry, Test};

/// The three programs as the kernel takes them: arrays of `struct sock_filter` in this machine's byte order.
pub(crate) struct Programs {
    /// Denies everything that its table doesn't allow.
    pub(crate) base: Vec<u8>,
    /// Answers some calls with ENOSYS.
    pub(crate) absent: Vec<u8>,
    /// Loaded as the last step of a child.
    pub(crate) seal: Vec<u8>,
}

impl Programs {
    /// Compiles the tables.
    ///
    /// # Errors
    /// When a table is malformed: a unit test keeps that from happening.
    pub(crate) fn compile() -> Result<Self> {
        let deny = SeccompAction::Errno(libc::EPERM as u32);
        let absent = SeccompAction::Errno(libc::ENOSYS as u32);
        let (allowed, missing, sealed) = (table::allowed(), sealed::absent(), sealed::sealed());
        Ok(Self {
            base: bytes(&program(&allowed, deny.clone(), SeccompAction::Allow)?),
            absent: bytes(&program(&missing, SeccompAction::Allow, absent)?),
            seal: bytes(&program(&sealed, SeccompAction::Allow, deny)?),
        })
    }
}

impl Programs {
    /// Loads the two filters that a zygote has into this process. Sets `no_new_privs`.
    ///
    /// # Errors
    /// If the kernel refuses a filter.
    pub(crate) fn load_base(&self) -> Result<()> {
        rustix::thread::set_no_new_privs(true).map_err(std::io::Error::from).step("set no_new_privs")?;
        [&self.base, &self.absent].into_iter().try_for_each(|program| sys::load_filter(program).step("load a filter"))
    }

    /// Loads the seal into this process: the last step of joining a sandbox.
    ///
    /// # Errors
    /// If the kernel refuses the filter.
    pub(crate) fn load_seal(&self) -> Result<()> {
        sys::load_filter(&self.seal).step("load the seal")
    }
}

/// Allows this process and all that it starts only what a container needs. This can't be undone. It needs
/// `no_new_privs`.
///
/// # Errors
/// If the kernel refuses the filter.
pub(crate) fn confine_container() -> Result<()> {
    let deny = SeccompAction::Errno(libc::EPERM as u32);
    let program = program(&table::outer(), deny, SeccompAction::Allow)?;
    seccompiler::apply_filter(&program).map_err(|e| Error::Confine(e.to_string()))
}

fn program(entries: &[Entry], otherwise: SeccompAction, on_match: SeccompAction) -> Result<BpfProgram> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for entry in entries {
        for &call in entry.calls {
            let chain = rules.entry(call).or_default();
            if !entry.when.is_empty() {
                let conditions = entry.when.iter().map(condition).collect::<Result<Vec<_>>>()?;
                chain.push(SeccompRule::new(conditions)?);
            }
        }
    }
    let arch: TargetArch = std::env::consts::ARCH.try_into()?;
    Ok(SeccompFilter::new(rules, otherwise, on_match, arch)?.try_into()?)
}

fn condition(arg: &Arg) -> Result<SeccompCondition> {
    let (width, op, value) = match arg.test {
        Test::Is(v) => (SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, v),
        Test::Not(v) => (SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, v),
        Test::AtMost(v) => (SeccompCmpArgLen::Dword, SeccompCmpOp::Le, v),
        Test::Masked(mask, v) => (SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(mask), v),
        Test::Null => (SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, 0),
    };
    SeccompCondition::new(arg.index, width, op, value).map_err(Error::from)
}

fn bytes(program: &BpfProgram) -> Vec<u8> {
    program
        .iter()
        .flat_map(|i| {
            let [a, b] = i.code.to_ne_bytes();
            let [c, d, e, f] = i.k.to_ne_bytes();
            [a, b, i.jt, i.jf, c, d, e, f]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_compile_within_the_kernels_bound() {
        let programs = Programs::compile().unwrap();
        for (name, code) in [("base", &programs.base), ("absent", &programs.absent), ("seal", &programs.seal)] {
            assert!((8..=4096 * 8).contains(&code.len()), "{name}: {} instructions", code.len() / 8);
        }
    }

    #[test]
    fn no_call_is_both_free_and_conditional() {
        // An unconditional entry would silently swallow the condition of another.
        for table in [table::allowed(), table::outer()] {
            let mut seen: BTreeMap<i64, bool> = BTreeMap::new();
            for entry in table {
                for &call in entry.calls {
                    let free = entry.when.is_empty();
                    assert_eq!(*seen.entry(call).or_insert(free), free, "call {call} ({})", entry.why);
                }
            }
        }
    }

    #[test]
    fn a_containers_own_filter_leaves_it_what_it_needs_and_nothing_else() {
        // In a thread of its own, because the filter holds for its thread and can't be removed.
        let answers = std::thread::spawn(|| {
            confine_container().unwrap();
            let missing = "/nowhere/at/all";
            (
                rustix::process::pivot_root(missing, missing),
                rustix::mount::mount_bind(missing, missing),
                rustix::net::socket(rustix::net::AddressFamily::NETLINK, rustix::net::SocketType::RAW, None).map(drop),
                rustix::net::socket(rustix::net::AddressFamily::UNIX, rustix::net::SocketType::STREAM, None).map(drop),
            )
        });
        let (pivot, mount, netlink, unix) = answers.join().unwrap();
        assert_eq!(pivot, Err(rustix::io::Errno::PERM));
        assert!(matches!(mount, Err(rustix::io::Errno::NOENT | rustix::io::Errno::PERM)), "{mount:?}");
        assert_eq!((netlink, unix), (Err(rustix::io::Errno::PERM), Ok(())));
    }
}
