//! System calls that are allowed only with certain arguments. Each entry lists what programs need. Whatever else the
//! call can do, in this kernel or a later one, is refused.
//!
//! Every such call of every job runs through all comparisons for it. A range takes one comparison for each aligned
//! block of a power of two, so numbers side by side cost little. What is asked most often comes first.

use std::ops::RangeInclusive;

use libc::c_long;

use super::entry::{Arg, Entry, Test, when};

/// All entries of this module.
pub(super) fn allowed() -> Vec<Entry> {
    let mut table = Vec::new();
    table.extend(memory());
    table.extend(files());
    table.extend(descriptors());
    table.extend(sockets());
    table.extend(socket_options());
    table.extend(messages());
    table.extend(process());
    table
}

fn one_of(why: &'static str, calls: &'static [c_long], index: u8, wanted: &[RangeInclusive<u32>]) -> Vec<Entry> {
    wanted.iter().cloned().flat_map(blocks).map(|test| when(why, calls, index, test)).collect()
}

/// Allows nothing but these flags.
fn only(why: &'static str, calls: &'static [c_long], index: u8, flags: i32) -> Entry {
    when(why, calls, index, Test::Masked(u64::from(!flags.cast_unsigned()), 0))
}

/// Converts a range to comparisons: one for each aligned block of a power of two.
fn blocks(range: RangeInclusive<u32>) -> Vec<Test> {
    let (mut at, last) = (u64::from(*range.start()), u64::from(*range.end()));
    let mut tests = Vec::new();
    while at <= last {
        let mut size = 1_u64;
        while at.is_multiple_of(size * 2) && at + size * 2 - 1 <= last {
            size *= 2;
        }
        let mask = u64::from(u32::MAX) & !(size - 1);
        tests.push(if size == 1 { Test::Is(at) } else { Test::Masked(mask, at) });
        at += size;
    }
    tests
}

fn memory() -> Vec<Entry> {
    let advice = "advice on its own memory; not to merge pages (which tells who has the same), nor to throw files out of the cache";
    let mut table = one_of(
        advice,
        &[libc::SYS_madvise],
        2,
        &[
            0..=4,     // normal, random, sequential, will need, don't need
            8..=11,    // free, remove, don't fork, do fork
            14..=19,   // huge pages or not, dump or not, wipe on fork or not
            22..=24,   // populate; don't need what is locked
            102..=103, // guard pages
        ],
    );
    let huge = "the machine's huge pages are few, and no control group of the container's counts them";
    table.push(when(huge, &[libc::SYS_mmap], 3, Test::Masked(libc::MAP_HUGETLB as u64, 0)));
    table.push(when(huge, &[libc::SYS_shmget], 2, Test::Masked(libc::SHM_HUGETLB as u64, 0)));
    // 0x18: MFD_NOEXEC_SEAL and MFD_EXEC, which are newer than the libc crate's list.
    let flags = (libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING).cast_signed() | 0x18;
    table.push(only(huge, &[libc::SYS_memfd_create], 1, flags));
    // A semaphore takes 64 bytes of the kernel's memory, and 32,000 sets of 32,000 are allowed by default.
    table.push(when("small sets of semaphores", &[libc::SYS_semget], 1, Test::AtMost(256)));
    table
}

fn files() -> Vec<Entry> {
    let advice =
        "advice on files; not to throw them out of the cache, which others feel and which tells what they read";
    let mut table = one_of(advice, &[libc::SYS_fadvise64], 3, &[0..=3, 5..=5]);
    let flags = libc::RWF_HIPRI | libc::RWF_DSYNC | libc::RWF_SYNC | libc::RWF_APPEND;
    let why = "no RWF_NOWAIT, which tells whether others have read a file, and no RWF_DONTCACHE";
    table.push(only(why, &[libc::SYS_preadv2, libc::SYS_pwritev2], 5, flags));
    table
}

fn descriptors() -> Vec<Entry> {
    let why =
        "flags, copies, locks, owners, pipes' sizes, seals; no leases and no watches on files that are the machine's";
    let mut table = one_of(
        why,
        &[libc::SYS_fcntl],
        1,
        &[
            0..=9,       // F_DUPFD to F_GETOWN
            16..=16,     // F_GETOWN_EX, with which libc makes F_GETOWN
            36..=38,     // locks of open files
            1030..=1034, // F_DUPFD_CLOEXEC, sizes of pipes, seals
        ],
    );
    let why = "terminals' settings, waiting bytes, blocking or not; no typing into a terminal, nothing of file systems and devices";
    table.extend(one_of(
        why,
        &[libc::SYS_ioctl],
        1,
        &[
            0x5401..=0x5404,           // TCGETS, TCSETS and their waiting forms
            0x5421..=0x5421,           // FIONBIO
            0x5450..=0x5452,           // FIONCLEX, FIOCLEX, FIOASYNC
            0x541b..=0x541b,           // FIONREAD
            0x540f..=0x5411,           // TIOCGPGRP, TIOCSPGRP, TIOCOUTQ
            0x5413..=0x5414,           // TIOCGWINSZ, TIOCSWINSZ
            0x5409..=0x540b,           // TCSBRK, TCXONC, TCFLSH
            0x540e..=0x540e,           // TIOCSCTTY
            0x5422..=0x5422,           // TIOCNOTTY
            0x5425..=0x5425,           // TCSBRKP
            0x5429..=0x5429,           // TIOCGSID
            0x802c_542a..=0x802c_542a, // TCGETS2
            0x402c_542b..=0x402c_542d, // TCSETS2 and its waiting forms
            0x8905..=0x8905,           // SIOCATMARK
            0x8910..=0x8910,           // SIOCGIFNAME
            0x8912..=0x8913,           // SIOCGIFCONF, SIOCGIFFLAGS
            0x8915..=0x8915,           // SIOCGIFADDR
            0x8927..=0x8927,           // SIOCGIFHWADDR
            0x8933..=0x8933,           // SIOCGIFINDEX
        ],
    ));
    table
}

/// Mask for `type` without `SOCK_CLOEXEC` and `SOCK_NONBLOCK`.
const KIND: u64 = 0xf;

fn sockets() -> Vec<Entry> {
    let arg = |index, value: i32| Arg { index, test: Test::Is(value as u64) };
    let kind = |kind: i32| Arg { index: 1, test: Test::Masked(KIND, kind as u64) };
    let why = "TCP and UDP; not MPTCP, SCTP, DCCP, SMC, ping sockets, nor what the kernel would load a module for";
    let unix = &[libc::SYS_socket, libc::SYS_socketpair];
    let mut table = vec![Entry { calls: unix, when: vec![arg(0, libc::AF_UNIX)], why: "Unix sockets" }];
    for family in [libc::AF_INET, libc::AF_INET6] {
        for (of, protocol) in [
            (libc::SOCK_STREAM, 0),
            (libc::SOCK_STREAM, libc::IPPROTO_TCP),
            (libc::SOCK_DGRAM, 0),
            (libc::SOCK_DGRAM, libc::IPPROTO_UDP),
            (libc::SOCK_DGRAM, libc::IPPROTO_UDPLITE),
        ] {
            table.push(Entry {
                calls: &[libc::SYS_socket],
                when: vec![arg(0, family), kind(of), arg(2, protocol)],
                why,
            });
        }
    }
    table
}

fn socket_options() -> Vec<Entry> {
    let levels: [(&str, i32, &[RangeInclusive<u32>]); 4] = [
        (
            "of all sockets: no filters (BPF) of its own, no marks, no timestamps by hardware, no cookies",
            libc::SOL_SOCKET,
            // SO_REUSEADDR to SO_OOBINLINE; SO_PRIORITY, SO_LINGER; SO_REUSEPORT to SO_SNDTIMEO; SO_TIMESTAMP,
            // SO_ACCEPTCONN; SO_TIMESTAMPNS; SO_PROTOCOL, SO_DOMAIN; SO_PEEK_OFF; SO_INCOMING_CPU.
            &[2..=10, 12..=13, 15..=21, 29..=30, 35..=35, 38..=39, 42..=42, 49..=49],
        ),
        (
            "of TCP: no repair, no other layer on top (kernel TLS), no fast open, no signatures",
            libc::IPPROTO_TCP,
            &[1..=12, 18..=18, 25..=25],
        ),
        (
            "of IPv4: no raw options, no netfilter, no IPsec, no routing of multicast",
            libc::IPPROTO_IP,
            // IP_TOS, IP_TTL; IP_PKTINFO; IP_MTU_DISCOVER to IP_MTU; IP_BIND_ADDRESS_NO_PORT; IP_MULTICAST_IF to
            // IP_DROP_MEMBERSHIP.
            &[1..=2, 8..=8, 10..=14, 24..=24, 32..=36],
        ),
        (
            "of IPv6: no routing headers, no flow labels (they outlive the job), no netfilter, no IPsec",
            libc::IPPROTO_IPV6,
            // IPV6_UNICAST_HOPS to IPV6_LEAVE_GROUP; IPV6_MTU_DISCOVER to IPV6_V6ONLY; IPV6_RECVPKTINFO to
            // IPV6_HOPLIMIT; IPV6_RECVTCLASS, IPV6_TCLASS.
            &[16..=21, 23..=26, 49..=52, 66..=67],
        ),
    ];
    let mut table = Vec::new();
    for (why, level, options) in levels {
        for test in options.iter().cloned().flat_map(blocks) {
            let when = vec![Arg { index: 1, test: Test::Is(level as u64) }, Arg { index: 2, test }];
            table.push(Entry { calls: &[libc::SYS_getsockopt, libc::SYS_setsockopt], when, why });
        }
    }
    table
}

fn messages() -> Vec<Entry> {
    let flags = libc::MSG_PEEK
        | libc::MSG_DONTROUTE
        | libc::MSG_CTRUNC
        | libc::MSG_TRUNC
        | libc::MSG_DONTWAIT
        | libc::MSG_EOR
        | libc::MSG_WAITALL
        | libc::MSG_CONFIRM
        | libc::MSG_ERRQUEUE
        | libc::MSG_NOSIGNAL
        | libc::MSG_MORE
        | libc::MSG_WAITFORONE
        | libc::MSG_CMSG_CLOEXEC;
    let why =
        "messages; not urgent bytes (on Unix sockets a source of faults), without copying, nor ahead of a connection";
    vec![
        only(why, &[libc::SYS_sendto, libc::SYS_recvfrom, libc::SYS_sendmmsg, libc::SYS_recvmmsg], 3, flags),
        only(why, &[libc::SYS_sendmsg, libc::SYS_recvmsg], 2, flags),
    ]
}

/// `prctl` options that programs and libraries use, and those with which a child joins its sandbox (the seal takes the
/// latter back).
const PRCTL: [i32; 18] = [
    libc::PR_SET_VMA,
    libc::PR_SET_NAME,
    libc::PR_CAPBSET_DROP,
    libc::PR_GET_NAME,
    libc::PR_SET_PDEATHSIG,
    libc::PR_GET_PDEATHSIG,
    libc::PR_GET_DUMPABLE,
    libc::PR_SET_DUMPABLE,
    libc::PR_SET_TIMERSLACK,
    libc::PR_GET_TIMERSLACK,
    libc::PR_SET_NO_NEW_PRIVS,
    libc::PR_GET_NO_NEW_PRIVS,
    libc::PR_SET_CHILD_SUBREAPER,
    libc::PR_GET_CHILD_SUBREAPER,
    libc::PR_SET_THP_DISABLE,
    libc::PR_GET_THP_DISABLE,
    libc::PR_CAPBSET_READ,
    libc::PR_SET_SECCOMP,
];

fn process() -> Vec<Entry> {
    let mut table = Vec::new();
    for option in PRCTL {
        table.push(when("a process names and limits itself", &[libc::SYS_prctl], 0, Test::Is(option as u64)));
    }
    let core = "any limit but that on core dumps: at 1, and only at 1, the kernel starts no handler of the machine's";
    let not_core = Test::Not(u64::from(libc::RLIMIT_CORE));
    table.push(when(core, &[libc::SYS_setrlimit], 0, not_core));
    table.push(when(core, &[libc::SYS_prlimit64], 1, not_core));
    table.push(when("every limit may be read", &[libc::SYS_prlimit64], 2, Test::Null));
    // SCHED_OTHER, SCHED_BATCH, SCHED_IDLE.
    let classes = [0..=0, 3..=3, 5..=5];
    table.extend(one_of("no real-time class", &[libc::SYS_sched_setscheduler], 1, &classes));
    #[cfg(target_arch = "x86_64")]
    table.extend(one_of(
        "its thread's memory; what the processor can do",
        &[libc::SYS_arch_prctl],
        0,
        &[
            0x1001..=0x1004, // segments
            0x1021..=0x1023, // wide registers
            0x5005..=0x5005, // whether there is a shadow stack
        ],
    ));
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passes(tests: &[Test], value: u64) -> bool {
        tests.iter().any(|test| match *test {
            Test::Is(v) => value == v,
            Test::Masked(mask, v) => value & mask == v,
            _ => unreachable!(),
        })
    }

    #[test]
    fn blocks_are_the_range_and_nothing_beyond() {
        for (first, last) in
            [(0, 0), (0, 9), (2, 10), (15, 21), (1030, 1034), (0x5401, 0x5404), (3, 3), (u32::MAX - 2, u32::MAX)]
        {
            let tests = blocks(first..=last);
            let (low, high) = (u64::from(first), u64::from(last));
            for value in low.saturating_sub(70)..=(high + 70).min(u64::from(u32::MAX)) {
                assert_eq!(passes(&tests, value), (low..=high).contains(&value), "{value} in {first}..={last}");
            }
        }
        assert_eq!(blocks(0..=9).len(), 2);
    }
}
