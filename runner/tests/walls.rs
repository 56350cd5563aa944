//! Attacks on the walls. Each is really tried, and each failure comes with the errno that shows that it was.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{Runner, program, session};
use thermae_runner::frames::{Run, Setup};

/// Python: prints the error of each attempt, or what the attempt got.
const TRY: &str = "
import os, sys, ctypes, errno, socket
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *args):
    r = getattr(libc, name)(*args)
    print(name, errno.errorcode[ctypes.get_errno()] if r == -1 else 'WORKED')
def attempt(name, f):
    try:
        print(name, 'WORKED', f())
    except OSError as e:
        print(name, errno.errorcode.get(e.errno, e.errno))
";

fn attack(code: &str) -> Run {
    program(&format!("{TRY}\n{code}"))
}

#[test]
fn one_job_leaves_nothing_for_the_next() {
    let mut runner = Runner::new();
    let leave = "
import os, subprocess, multiprocessing.shared_memory as m, socket
for f in ['/tmp/left', '/workspace/left', '/dev/shm/left']: open(f, 'w').write('x')
os.environ['LEFT'] = '1'
subprocess.Popen(['sleep', '777'], start_new_session=True)
import builtins; builtins.left = 1
os.mkfifo('/tmp/fifo')
import ctypes
print(ctypes.CDLL(None).shmget(4242, 4096, 0o1600) >= 0)
";
    assert_eq!(runner.python(leave).ok(), "True\n");
    let look = "
import os, builtins, ctypes
print(os.listdir('/tmp'), sorted(os.listdir('/workspace')), os.listdir('/dev/shm'))
print('LEFT' in os.environ, hasattr(builtins, 'left'), ctypes.CDLL(None).shmget(4242, 4096, 0))
print(sorted(p for p in os.listdir('/proc') if p.isdigit()))
";
    assert_eq!(runner.python(look).ok(), "[] ['artifacts', 'main.py'] []\nFalse False -1\n['1', '2']\n");
}

#[test]
fn daemons_die_with_their_job() {
    let mut runner = Runner::new();
    let mark = format!("thermae-daemon-{}", std::process::id());
    let daemon = format!(
        "import os, time\nready, tells = os.pipe()\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        import ctypes\n        ctypes.CDLL(None).prctl(15, b'{}')\n        print('up', flush=True)\n        os.write(tells, b'x')\n        time.sleep(600)\n    os._exit(0)\nos.read(ready, 1)\nprint('bye')",
        &mark[..15]
    );
    let outcome = runner.python(&daemon).ok();
    assert!(outcome.contains("up") && outcome.ends_with("bye\n"), "{outcome}");
    let alive = || {
        std::fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .any(|e| std::fs::read_to_string(e.path().join("comm")).is_ok_and(|c| c.trim() == &mark[..15]))
    };
    // The runner sends the exit and kills the sandbox. The kernel needs a moment for that.
    let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while alive() {
        assert!(std::time::Instant::now() < until, "the daemon lives on");
        std::thread::yield_now();
    }
}

#[test]
fn the_next_job_starts_when_every_process_of_the_last_is_dead() {
    let spec = common::spec();
    let mut runner = Runner::start(&spec, Setup { spares: 4, ..common::setup(&spec) });
    // All sandboxes share a network namespace. Many processes take their time to die, and the last one of them listens.
    let leave = "
import os, socket, time
ready, tells = os.pipe()
for last in range(24):
    if os.fork() == 0:
        os.setsid()
        if last == 23:
            listens = socket.socket(socket.AF_UNIX)
            listens.bind('\\0left')
            listens.listen()
            os.write(tells, b'x')
        time.sleep(600)
os.read(ready, 1)
";
    let meet = attack("attempt('meet', lambda: socket.socket(socket.AF_UNIX).connect('\\0left'))");
    // On a busy machine a killed process has to wait for its turn to die.
    let (over, at_last) = (AtomicBool::new(false), Instant::now() + Duration::from_secs(60));
    let busy = || {
        while !over.load(Ordering::Relaxed) && Instant::now() < at_last {
            std::hint::spin_loop();
        }
    };
    std::thread::scope(|scope| {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        (0..2 * cores).for_each(|_| drop(scope.spawn(busy)));
        let met = (0..20).find_map(|_| {
            runner.python(leave).ok();
            Some(runner.run(&meet).out()).filter(|out| out != "meet ECONNREFUSED\n")
        });
        over.store(true, Ordering::Relaxed);
        assert_eq!(met, None);
    });
}

#[test]
fn two_jobs_draw_different_random_numbers() {
    let mut runner = Runner::new();
    let draw = "import random, uuid, os, ssl, secrets, tempfile\nprint(random.random(), uuid.uuid4(), os.urandom(4), ssl.RAND_bytes(8), secrets.token_hex(4), next(tempfile._get_candidate_names()))";
    let (a, b) = (runner.python(draw).ok(), runner.python(draw).ok());
    for (x, y) in a.split(' ').zip(b.split(' ')) {
        assert_ne!(x, y, "{a}{b}");
    }
}

#[test]
fn kernel_settings_and_other_peoples_doings_are_out_of_reach() {
    let mut runner = Runner::new();
    let code = "
for f in ['/proc/sys/kernel/shmmax', '/proc/sys/kernel/pid_max', '/proc/sys/vm/overcommit_memory', '/proc/self/oom_score_adj', '/proc/1/oom_score_adj', '/proc/self/timerslack_ns']:
    attempt(f, lambda: open(f, 'r+'))
print(repr(open('/proc/kallsyms').read()), repr(open('/proc/keys').read()), os.listdir('/proc/pressure') if os.path.exists('/proc/pressure') else [], os.listdir('/sys'))
print(open('/proc/self/oom_score_adj').read().strip())
";
    let got = runner.run(&attack(code)).ok();
    let lines: Vec<_> = got.lines().collect();
    for line in &lines[..6] {
        assert!(line.ends_with("EROFS") || line.ends_with("EACCES") || line.ends_with("EPERM"), "{got}");
    }
    assert_eq!(lines[6], "'' '' [] []", "{got}");
    assert_eq!(lines[7], "900");
}

#[test]
fn there_is_no_network_and_nothing_of_the_hosts() {
    let mut runner = Runner::new();
    let code = "
attempt('connect', lambda: socket.create_connection(('192.0.2.1', 80), 3))
attempt('netlink', lambda: socket.socket(16, socket.SOCK_RAW, 0))
attempt('packet', lambda: socket.socket(17, socket.SOCK_RAW, 0))
attempt('vsock', lambda: socket.socket(40, socket.SOCK_STREAM, 0))
attempt('alg', lambda: socket.socket(38, socket.SOCK_SEQPACKET, 0))
print(sorted(os.listdir('/')))
print(sorted(os.listdir('/etc')))
attempt('shadow', lambda: open('/etc/shadow'))
print(os.listdir('/home') if os.path.exists('/home') else None, os.path.exists('/var'), os.path.exists('MANIFEST'), os.path.exists('/root/.bashrc'), os.path.exists('/root/.cargo'))
print(sorted(os.listdir('/dev')))
print(sorted(os.environ))
";
    let got = runner.run(&attack(&code.replace("MANIFEST", env!("CARGO_MANIFEST_DIR")))).ok();
    let lines: Vec<_> = got.lines().collect();
    assert_eq!(
        lines[..5],
        ["connect ENETUNREACH", "netlink EPERM", "packet EPERM", "vsock EPERM", "alg EPERM"],
        "{got}"
    );
    for hidden in ["'var'", "'home'", "'opt'", "'boot'", "'srv'", "'run'", "'mnt'"] {
        assert!(!lines[5].contains(hidden), "{}", lines[5]);
    }
    assert!(!lines[6].contains("shadow") && lines[6].contains("passwd"), "{}", lines[6]);
    assert_eq!(lines[7], "shadow ENOENT");
    assert_eq!(lines[8], "None False False False False");
    assert_eq!(lines[9], "['fd', 'full', 'null', 'random', 'shm', 'stderr', 'stdin', 'stdout', 'urandom', 'zero']");
    assert!(!lines[10].contains("CARGO") && !lines[10].contains("THERMAE"), "{}", lines[10]);
}

#[test]
fn the_file_tree_is_read_only_and_mounts_stay() {
    let mut runner = Runner::new();
    let code = "
for f in ['/x', '/etc/x', '/usr/x', '/usr/bin/env', sys.executable, '/dev/x', '/proc/x', '/sys/x']:
    attempt('write ' + f, lambda: open(f, 'a'))
call('mount', b'none', b'/tmp', b'tmpfs', 0, None)
call('umount2', b'/proc', 2)
call('umount2', b'/tmp', 2)
call('unshare', 0x10000000)
call('unshare', 0x00020000)
call('setns', 0, 0)
call('chroot', b'/tmp')
call('pivot_root', b'/tmp', b'/tmp') if hasattr(libc, 'pivot_root') else print('pivot_root EPERM')
call('syscall', 165, b'none', b'/proc', None, 32 | 4096, None)
call('syscall', 428, -100, b'/', 1)
call('syscall', 442, -100, b'/', 0, None, 0)
call('sethostname', b'x', 1)
call('syscall', 56, 0x10000000 | 17, 0, 0, 0, 0)
call('syscall', 56, 0x8000 | 17, 0, 0, 0, 0)
call('syscall', 435, 0, 0)
";
    let got = runner.run(&attack(code)).ok();
    for line in got.lines() {
        let refused = ["EPERM", "EACCES", "EROFS", "ENOENT"].iter().any(|e| line.ends_with(e));
        assert!(refused || line == "syscall ENOSYS", "{line}\n{got}");
    }
    assert_eq!(got.lines().last(), Some("syscall ENOSYS"), "clone3: {got}");
}

#[test]
fn no_other_process_can_be_read_or_driven() {
    let mut runner = Runner::new();
    let code = "
call('ptrace', 16, 1, 0, 0)
call('process_vm_readv', 1, None, 0, None, 0, 0)
for f in ['/proc/1/mem', '/proc/1/environ', '/proc/1/maps']:
    attempt(f, lambda: open(f, 'rb').read())
attempt('root', lambda: os.listdir('/proc/1/root'))
attempt('fd', lambda: os.listdir('/proc/1/fd'))
os.kill(1, 9); os.kill(1, 15)
print(os.listdir('/proc/1') != [])
for n, name in [(321, 'bpf'), (425, 'io_uring'), (250, 'keyctl'), (323, 'userfaultfd'), (298, 'perf'), (438, 'pidfd_getfd'), (175, 'init_module'), (246, 'kexec'), (304, 'open_by_handle'), (310, 'vm_readv'), (312, 'kcmp'), (154, 'modify_ldt'), (227, 'clock_settime'), (159, 'adjtimex')]:
    r = libc.syscall(n, 0, 0, 0, 0, 0)
    print(name, errno.errorcode[ctypes.get_errno()] if r == -1 else 'WORKED')
import fcntl
try: fcntl.ioctl(0, 0x5412, b'x')
except OSError as e: print('TIOCSTI', errno.errorcode[e.errno])
";
    let got = runner.run(&attack(code)).ok();
    for line in got.lines().filter(|l| *l != "True") {
        assert!(line.ends_with("EPERM") || line.ends_with("EACCES"), "{line}\n{got}");
    }
    assert!(got.contains("\nTrue\n") && got.lines().count() == 23, "{got}");
}

#[test]
fn privileges_are_gone_for_good() {
    let mut runner = Runner::new();
    let code = "
s = dict(l.split(':', 1) for l in open('/proc/self/status').read().splitlines())
print([s[k].strip() for k in ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb', 'NoNewPrivs', 'Seccomp']])
print(os.getresuid(), os.getgroups())
attempt('setuid', lambda: os.setuid(0))
import subprocess
print(subprocess.run(['/bin/sh', '-c', 'grep -c ^Cap.*0000000000000000 /proc/self/status; id -u'], capture_output=True, text=True).stdout.split())
open('/workspace/s', 'w').write('#!/bin/sh\\nid -u'); os.chmod('/workspace/s', 0o4755)
print(subprocess.run(['/workspace/s'], capture_output=True, text=True).stdout.strip())
call('prctl', 22, 2, 0, 0, 0)
";
    let got = runner.run(&attack(code)).ok();
    let zeros = "'0000000000000000', ".repeat(5);
    let lines: Vec<_> = got.lines().collect();
    assert_eq!(lines[0], format!("[{zeros}'1', '2']"));
    assert!(lines[1].starts_with("(1000, 1000, 1000)"), "{got}");
    assert!(lines[2] == "setuid EPERM" || lines[2] == "setuid EINVAL", "{got}");
    assert_eq!(lines[3..], ["['5', '1000']", "1000", "prctl EPERM"], "{got}");
}

#[test]
fn a_job_stands_behind_the_filters_of_both_walls() {
    let mut runner = Runner::new();
    let code = "print([l.split()[1] for l in open('/proc/self/status') if l.startswith('Seccomp_filters')])";
    // The container's own filter, and the job's three: base, absent and seal.
    assert_eq!(runner.python(code).ok(), "['4']\n");
}

#[test]
fn of_a_home_with_the_interpreters_link_only_that_link_is_there() {
    // Not below /tmp, where every sandbox has storage of its own.
    let home = tempfile::tempdir_in("/var/tmp").unwrap();
    let bin = home.path().join("bin");
    std::fs::create_dir_all(home.path().join(".ssh")).unwrap();
    std::fs::create_dir(&bin).unwrap();
    std::fs::write(bin.join("secret"), "secret").unwrap();
    std::os::unix::fs::symlink("/usr/bin/python3", bin.join("python3")).unwrap();
    let mut spec = thermae_runner::outer::Spec::for_python(Some(&bin.join("python3"))).unwrap();
    spec.memory_bytes = Some(1 << 30);
    let mut runner = Runner::start(&spec, common::setup(&spec));
    let home = home.path().display();
    let code = format!("import os, sys\nprint(sys.executable, os.listdir('{home}'), os.listdir('{home}/bin'))");
    assert_eq!(runner.python(&code).ok(), format!("{home}/bin/python3 ['bin'] ['python3']\n"));
}

#[test]
fn open_descriptors_are_the_standard_three_and_the_channel() {
    let mut runner = Runner::new();
    let code = "
import os
fds = []
for f in range(4096):
    try: fds.append((f, os.readlink(f'/proc/self/fd/{f}').split(':')[0]))
    except OSError: pass
print(fds)";
    assert_eq!(runner.python(code).ok(), "[(0, '/dev/null'), (1, 'pipe'), (2, 'pipe'), (200, 'socket')]\n");
}

#[test]
fn code_of_an_earlier_job_is_in_nobodys_memory() {
    let mut runner = Runner::new();
    let secret = format!("s3cr3t-{}-", std::process::id());
    let plant = format!("x = ['{secret}' + str(i) for i in range(1000)]\nprint(len(x))");
    assert_eq!(runner.python(&plant).ok(), "1000\n");
    runner.run(&session("keep", &plant)).ok();
    let search = format!(
        "
needle = b''.join([b's3cr3t-', b'{}', b'-'])
found = 0
with open('/proc/self/maps') as maps, open('/proc/self/mem', 'rb', 0) as mem:
    for line in list(maps):
        span, mode, *rest = line.split()
        if mode[0] == 'r' and '[v' not in line:
            a, b = (int(x, 16) for x in span.split('-'))
            try:
                mem.seek(a)
                found += mem.read(b - a).count(needle + b'7')
            except (OSError, OverflowError): pass
print(found)",
        std::process::id()
    );
    assert_eq!(runner.python(&search).ok(), "0\n");
}

#[test]
fn abstract_sockets_and_processes_of_another_sandbox_are_invisible() {
    let mut runner = Runner::new();
    let one = runner.begin(&program("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(60)"));
    runner.wait_output(one, "2");
    let code = "import os\nprint(sorted(p for p in os.listdir('/proc') if p.isdigit()), os.getppid(), os.getpgrp(), os.getsid(0))";
    assert_eq!(runner.python(code).ok(), "['1', '2'] 0 2 2\n");
}
