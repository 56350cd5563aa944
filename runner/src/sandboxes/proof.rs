//! The proof that a container is clean. The worker asks for it after a job, and gets it once no run goes on and no
//! sandbox is being made.
//!
//! By the kernel's own rules, everything of a job ends with its sandbox. The proof checks that it did. It looks at
//! every process of the container, at the mounts that sandboxes are copied from, and at the descriptors and memory of
//! the long-lived processes, and compares them with a look before the first job.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use super::Sandboxes;
use super::deaths::{DEATH_TIMEOUT, pid_of};
use super::sandbox::Stage;
use crate::error::Result;
use crate::frames::{self, Kind};
use crate::inner::{Look, own_mounts};
use crate::io::Io;
use crate::procfs;

/// How long a job's leftovers may take to vanish: the kernel ends the rest of a sandbox after its init has ended.
const VANISH_TIMEOUT: Duration = Duration::from_secs(2);

/// Time between two looks while something is left.
const AGAIN: Duration = Duration::from_millis(10);

/// Most bytes by which the resident memory of one process may grow. A process does not return its freed memory at once.
const GROWTH: u64 = 32 << 20;

/// The state of proofs: requests, looks, and how a clean container looks.
#[derive(Default)]
pub(crate) struct Proof {
    /// Number of the last request without an answer.
    asked: Option<u32>,
    /// Since when the container is quiet, while a request waits.
    quiet_since: Option<Instant>,
    /// When the nursery was asked to look at itself; `None` when no answer is due.
    looking: Option<Instant>,
    /// The time of the next look, after one that found something.
    again_at: Option<Instant>,
    /// How the container looked before its first job.
    base: Option<Snapshot>,
    /// As [`frames::Ready::memory_bytes`], at the last look.
    pub(crate) memory: u64,
}

/// What a look at a container between two jobs shows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Snapshot {
    /// Processes that belong to no sandbox and are no zygote, with their names.
    strangers: BTreeMap<i32, String>,
    /// Digests of the mount tables that the runner and the nursery see.
    mounts: [u64; 2],
    /// For each long-lived process: the number of its open descriptors (without those of sandboxes), and its resident
    /// memory in bytes.
    long_lived: BTreeMap<String, (usize, u64)>,
}

impl Snapshot {
    /// What is there now and was not there in `base`, in words.
    fn findings(&self, base: &Self) -> Vec<String> {
        let mut found = Vec::new();
        for (pid, name) in &self.strangers {
            if base.strangers.get(pid) != Some(name) {
                found.push(format!("process {pid} ({name:?}) belongs to no sandbox"));
            }
        }
        for (who, now, before) in
            [("runner", self.mounts[0], base.mounts[0]), ("nursery", self.mounts[1], base.mounts[1])]
        {
            if now != before {
                found.push(format!("the {who}'s mounts are not what they were"));
            }
        }
        for (who, (fds, memory)) in &self.long_lived {
            let Some((fds_before, memory_before)) = base.long_lived.get(who) else { continue };
            if fds > fds_before {
                found.push(format!("the {who} holds {} descriptors more than it did", fds - fds_before));
            }
            let grown = memory.saturating_sub(*memory_before);
            if grown > GROWTH {
                found.push(format!("the {who}'s memory has grown by {} MiB", grown >> 20));
            }
        }
        found
    }

    /// Adds the long-lived processes that this look lacks, such as a zygote that was started later.
    fn learn(&mut self, now: &Self) {
        for (who, figures) in &now.long_lived {
            self.long_lived.entry(who.clone()).or_insert(*figures);
        }
    }
}

impl Proof {
    /// Notes that the worker wants a proof, under this number.
    pub(crate) fn ask(&mut self, number: u32) {
        self.asked = Some(number);
        self.quiet_since = None;
    }

    /// Whether it is known how a clean container looks. If not, begins to find out. `busy` is whether any run goes on
    /// or waits, or its files are collected.
    pub(crate) fn knows_clean(&mut self, sandboxes: &Sandboxes, busy: bool) -> Result<bool> {
        if !sandboxes.nested() || self.base.is_some() {
            return Ok(true);
        }
        if self.looking.is_none() && quiet(sandboxes, busy) {
            self.look(sandboxes)?;
        }
        Ok(false)
    }

    /// When [`Proof::prove`] has something to do next.
    pub(crate) fn deadline(&self, sandboxes: &Sandboxes) -> Option<Instant> {
        self.asked?;
        self.again_at.into_iter().chain(sandboxes.death_due()).min()
    }

    /// Goes on with the proof that was asked for.
    pub(crate) fn prove(&mut self, sandboxes: &Sandboxes, busy: bool, io: &mut Io) -> Result<()> {
        let now = Instant::now();
        if self.asked.is_none() || self.looking.is_some() || self.again_at.is_some_and(|at| now < at) {
            return Ok(());
        }
        if !sandboxes.nested() {
            return self.send_proof(vec!["there is no inner wall, so nothing can be proven".into()], now, io);
        }
        if sandboxes.death_due().is_some_and(|due| due <= now) {
            return self.send_proof(
                vec![format!("a sandbox is not dead {} s after its end", DEATH_TIMEOUT.as_secs())],
                now,
                io,
            );
        }
        // The time is past, and as a deadline it would keep the loop awake. The next look is taken now, or as soon as
        // the container is quiet.
        self.again_at = None;
        if !quiet(sandboxes, busy) {
            self.quiet_since = None;
            return Ok(());
        }
        self.quiet_since.get_or_insert(now);
        self.look(sandboxes)
    }

    fn look(&mut self, sandboxes: &Sandboxes) -> Result<()> {
        self.looking = Some(Instant::now());
        sandboxes.ask_to_look()
    }

    /// Takes the nursery's look at itself, looks at the rest of the container, and answers a request if one waits.
    pub(super) fn looked(&mut self, nursery: &str, sandboxes: &Sandboxes, busy: bool, io: &mut Io) -> Result<()> {
        let Some(began) = self.looking.take() else { return Ok(()) };
        // A run has come meanwhile, and its sandbox would count as left over. The next look comes after the run.
        if !quiet(sandboxes, busy) {
            return Ok(());
        }
        let (snapshot, memory) = snapshot(sandboxes, serde_json::from_str(nursery)?);
        self.memory = memory;
        let Some(base) = &mut self.base else {
            self.base = Some(snapshot);
            return Ok(());
        };
        base.learn(&snapshot);
        let findings = snapshot.findings(base);
        let now = Instant::now();
        // For a request that came during this look, the time begins now.
        let since = *self.quiet_since.get_or_insert(now);
        if !findings.is_empty() && now - since < VANISH_TIMEOUT {
            self.again_at = Some(now + AGAIN);
            return Ok(());
        }
        self.send_proof(findings, began, io)
    }

    fn send_proof(&mut self, findings: Vec<String>, began: Instant, io: &mut Io) -> Result<()> {
        let Some(number) = self.asked.take() else { return Ok(()) };
        (self.quiet_since, self.again_at) = (None, None);
        let took_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        let proof = frames::Proof { findings, took_us, memory_bytes: self.memory };
        Ok(io.link.push_json(Kind::Verified, number, &proof)?)
    }
}

/// Whether the container is quiet: no run goes on or waits, no files are collected, there is no session, and no sandbox
/// is being made or is dying.
fn quiet(sandboxes: &Sandboxes, busy: bool) -> bool {
    !busy && !sandboxes.any_dying() && sandboxes.by_id.values().all(|sandbox| sandbox.stage == Stage::Spare)
}

/// Looks at the container. Also returns the memory of the long-lived processes that no file backs. The processes of
/// sandboxes are left out: they share nearly all memory with their zygote, and finding out which part would cost more
/// than the rest of the look.
fn snapshot(sandboxes: &Sandboxes, nursery: Look) -> (Snapshot, u64) {
    let me = std::process::id() as i32;
    let zygotes = || sandboxes.zygotes.iter();
    let wall = sandboxes.wall.as_ref().map(|wall| wall.pid);
    let mut known: BTreeSet<i32> = zygotes().map(|z| z.pid).chain(wall).chain([me]).collect();
    for sandbox in sandboxes.by_id.values() {
        known.insert(sandbox.pid);
        known.extend(sandbox.handles.as_ref().and_then(|h| pid_of(h.init.as_fd())));
    }
    let own: usize = zygotes().count() + sandboxes.by_id.values().map(|s| s.descriptors()).sum::<usize>();
    let (runner, inits) = (memory(me), wall.map_or_else(Memory::default, memory));
    let mut held = runner.own + inits.own;
    let mut long_lived = BTreeMap::from([
        ("runner".to_string(), (descriptors("/proc/self/fd").saturating_sub(own), runner.resident)),
        ("nursery".to_string(), (nursery.descriptors, inits.resident)),
    ]);
    for zygote in zygotes() {
        let memory = memory(zygote.pid);
        held += memory.own;
        // A zygote that is still loading grows with what it loads.
        if zygote.is_ready() {
            let open = descriptors(&format!("/proc/{}/fd", zygote.pid));
            long_lived.insert(format!("zygote {}", zygote.pid), (open, memory.resident));
        }
    }
    (Snapshot { strangers: strangers(&known), mounts: [own_mounts(), nursery.mounts], long_lived }, held)
}

/// All processes of the container except `known`, with their names. A process that vanishes meanwhile does not count.
fn strangers(known: &BTreeSet<i32>) -> BTreeMap<i32, String> {
    let pids = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| !known.contains(pid))
        .filter_map(|pid| Some((pid, procfs::text(format!("/proc/{pid}/comm")).ok()?.trim_end().to_owned())))
        .collect()
}

/// Number of open descriptors, as [`procfs::descriptors`]; 0 if the process is gone.
fn descriptors(directory: &str) -> usize {
    procfs::descriptors(directory).unwrap_or(0)
}

/// Memory of a process, in bytes.
#[derive(Default)]
struct Memory {
    resident: u64,
    /// The part of `resident` that neither a file nor a memory file backs.
    own: u64,
}

fn memory(pid: i32) -> Memory {
    let statm = procfs::text(format!("/proc/{pid}/statm")).unwrap_or_default();
    let mut fields = statm.split_whitespace().skip(1).map(|f| f.parse::<u64>().unwrap_or(0) * crate::watch::PAGE);
    let (resident, backed) = (fields.next().unwrap_or(0), fields.next().unwrap_or(0));
    Memory { resident, own: resident.saturating_sub(backed) }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::io::{Read, Write};
    use std::os::unix::ffi::OsStrExt;
    use std::process::Stdio;

    use super::*;

    fn snapshot() -> Snapshot {
        Snapshot {
            strangers: BTreeMap::from([(7, "dumb-init".into())]),
            mounts: [1, 2],
            long_lived: BTreeMap::from([("runner".into(), (12, 4 << 20)), ("zygote 3".into(), (5, 20 << 20))]),
        }
    }

    #[test]
    fn a_stranger_of_any_name_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join(OsStr::from_bytes(b"\xff\xfe"));
        std::fs::copy("/bin/cat", &program).unwrap();
        let mut child =
            std::process::Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // The kernel lets the parent go on before it gives the child its new name. Once the program answers, it has it.
        child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let seen = strangers(&BTreeSet::new());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(seen[&(child.id() as i32)], "\u{fffd}\u{fffd}");
    }

    #[test]
    fn what_a_process_holds_itself_grows_with_its_heap() {
        let me = std::process::id() as i32;
        let before = memory(me);
        assert!(before.own > 0 && before.own < before.resident, "a program's text is a file's");
        let heap = std::hint::black_box(vec![1_u8; 64 << 20]);
        let grown = memory(me).own - before.own;
        assert!(grown >= heap.len() as u64 / 2, "{grown}");
    }

    #[test]
    fn what_was_there_before_the_first_job_is_clean() {
        let mut now = snapshot();
        now.long_lived.insert("runner".into(), (11, 30 << 20));
        assert_eq!(now.findings(&snapshot()), Vec::<String>::new());
    }

    #[test]
    fn each_kind_of_leftover_is_found() {
        let mut now = snapshot();
        now.strangers.insert(99, "miner".into());
        // A pid that was known is another process now.
        now.strangers.insert(7, "sleeper".into());
        now.mounts[1] = 3;
        now.long_lived.insert("runner".into(), (13, 4 << 20));
        now.long_lived.insert("zygote 3".into(), (5, 60 << 20));
        let found = now.findings(&snapshot());
        for (finding, part) in
            found.iter().zip(["sleeper", "miner", "nursery's mounts", "1 descriptors more", "40 MiB"])
        {
            assert!(finding.contains(part), "{found:?}");
        }
        assert_eq!(found.len(), 5, "{found:?}");
    }

    #[test]
    fn a_zygote_that_was_started_anew_is_measured_from_then_on() {
        let (mut base, mut now) = (snapshot(), snapshot());
        now.long_lived.insert("zygote 9".into(), (6, 100 << 20));
        base.learn(&now);
        assert_eq!(now.findings(&base), Vec::<String>::new());
        now.long_lived.insert("zygote 9".into(), (7, 100 << 20));
        assert_eq!(now.findings(&base).len(), 1);
    }
}
