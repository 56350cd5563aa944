//! Memory is bounded for a job as a whole, whichever of its processes holds it and in whatever form. The usage that is
//! reported counts the same.

mod common;

use common::{Outcome, Runner, limits, program, session};
use thermae_runner::frames::{End, Limits, Run};

const MIB: u64 = 1 << 20;

/// Python: defines `fill`, which writes to the first `size` bytes of `memory`, page by page.
const FILL: &str = "\ndef fill(memory, size):\n    for at in range(0, size, 4096): memory[at] = 1\n";

fn bounded(code: &str, mib: u64) -> Run {
    Run {
        limits: Limits { memory_bytes: mib * MIB, ..limits() },
        ..program(&format!("import mmap, os, time{FILL}{code}"))
    }
}

/// Runs a test as root, with a control group, and as an ordinary user, without one.
fn on_both(what: impl Fn(&mut Runner)) {
    what(&mut Runner::new());
    if let Some(mut runner) = Runner::ordinary() {
        what(&mut runner);
    }
}

fn usage(outcome: &Outcome) -> u64 {
    outcome.exit.as_ref().expect("an exit").usage.memory_bytes
}

#[test]
fn shared_memory_counts() {
    on_both(|runner| {
        let anonymous = "m = mmap.mmap(-1, 450 << 20)\nfill(m, 450 << 20)\ntime.sleep(60)";
        assert_eq!(runner.run(&bounded(anonymous, 256)).end(), &End::OutOfMemory);
        let files = "held = []\nfor _ in range(10):\n    held.append(os.memfd_create('hoard'))\n    os.write(held[-1], b'x' * (24 << 20))\ntime.sleep(60)";
        assert_eq!(runner.run(&bounded(files, 32)).end(), &End::OutOfMemory);
        let family = "m = mmap.mmap(-1, 100 << 20)\nfill(m, 100 << 20)\nr, w = os.pipe()\nfor _ in range(6):\n    if os.fork() == 0:\n        fill(m, 100 << 20)\n        os.write(w, b'x')\n        time.sleep(60)\nfor _ in range(6): os.read(r, 1)\ntime.sleep(1)\nprint('held')";
        let outcome = runner.run(&bounded(family, 256));
        assert_eq!(outcome.ok(), "held\n", "what processes share counts once");
        assert!(usage(&outcome) > 100 * MIB, "{}", usage(&outcome));
        assert_eq!(runner.python("print(1)").ok(), "1\n");
    });
}

#[test]
fn memory_files_that_nobody_maps_count_where_there_is_a_group() {
    let mut runner = Runner::new();
    if !runner.ready.warnings.is_empty() {
        return;
    }
    let let_go = "m = mmap.mmap(-1, 450 << 20)\nfor at in range(0, 450 << 20, 1 << 20):\n    fill(memoryview(m)[at:], 1 << 20)\n    m.madvise(mmap.MADV_DONTNEED, at, 1 << 20)\ntime.sleep(60)";
    assert_eq!(runner.run(&bounded(let_go, 256)).end(), &End::OutOfMemory);
    let segment = "import ctypes\nl = ctypes.CDLL(None, use_errno=True)\nl.shmat.restype = ctypes.c_void_p\nn = l.shmget(0, 200 << 20, 0o1600)\nassert n >= 0\na = l.shmat(n, None, 0)\nctypes.memset(a, 1, 200 << 20)\nl.shmdt(ctypes.c_void_p(a))\ntime.sleep(60)";
    assert_eq!(runner.run(&bounded(segment, 100)).end(), &End::OutOfMemory);
}

#[test]
fn files_count_as_the_disks_and_show_in_the_usage() {
    on_both(|runner| {
        let code = "with open('/tmp/f', 'wb') as f:\n    for _ in range(28): f.write(b'x' * (1 << 20))\ntime.sleep(0.1)\nprint('kept')";
        let outcome = runner.run(&bounded(code, 16));
        assert_eq!(outcome.ok(), "kept\n");
        assert!(usage(&outcome) < 16 * MIB, "{}", usage(&outcome));
        let files = |outcome: &Outcome| outcome.exit.as_ref().expect("an exit").usage.files_bytes;
        assert!((28 * MIB..29 * MIB).contains(&files(&outcome)), "{}", files(&outcome));
        // The peak counts, and so do files that are gone at the end.
        let gone = code.replace("print('kept')", "os.unlink('/tmp/f')\nprint('gone')");
        let outcome = runner.run(&bounded(&gone, 16));
        assert_eq!(outcome.ok(), "gone\n");
        assert!(files(&outcome) >= 28 * MIB, "{}", files(&outcome));
        // These files do not count for the next job.
        for _ in 0..3 {
            assert_eq!(runner.run(&bounded("time.sleep(0.08)\nprint(1)", 8)).ok(), "1\n");
        }
    });
}

/// What a run holds is told as the limit counts it: without what its zygote holds, whether it ends by itself or not.
#[test]
fn the_usage_is_what_the_limit_is_about() {
    on_both(|runner| {
        for end in ["", "\nos._exit(0)", "\ntime.sleep(0.2)", "\ntime.sleep(0.2)\nos._exit(0)"] {
            let outcome = runner.run(&bounded(&format!("x = bytearray(48 << 20)\nfill(x, len(x)){end}"), 64));
            outcome.ok();
            // The kernel counts in batches of pages.
            assert!((47 * MIB..=64 * MIB).contains(&usage(&outcome)), "{end:?}: {}", usage(&outcome));
        }
        // A file that is mapped is one in the storage.
        let mapped = "with open('/tmp/f', 'wb') as f: f.write(bytes(28 << 20))\nwith open('/tmp/f', 'rb') as f:\n    m = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)\n    print(sum(m[at] for at in range(0, 28 << 20, 4096)))\n    time.sleep(WAIT)";
        for wait in ["0", "0.2"] {
            let outcome = runner.run(&bounded(&mapped.replace("WAIT", wait), 60));
            assert_eq!(outcome.ok(), "0\n");
            assert!(usage(&outcome) <= 60 * MIB, "{}", usage(&outcome));
        }
    });
}

#[test]
fn children_count_together() {
    on_both(|runner| {
        let two = "for _ in range(2):\n    if os.fork() == 0:\n        x = bytearray(180 << 20)\n        fill(x, len(x))\n        time.sleep(60)\nos.wait()\nos.wait()";
        let outcome = runner.run(&bounded(two, 256));
        assert_eq!(outcome.end(), &End::OutOfMemory);
        assert!(usage(&outcome) > 256 * MIB, "{}", usage(&outcome));
        // All of them hold theirs before one ends, for long enough that the runner looks.
        let meet = "os.write(full, b'x')\n        os.read(go, 1)\n        time.sleep(1)\n        os._exit(0)";
        let honest = format!(
            "go, goes = os.pipe()\nfilled, full = os.pipe()\n{}\nprint('on')",
            two.replace("180", "60").replace("time.sleep(60)", meet).replacen(
                "\nos.wait()",
                "\nfor _ in range(2): os.read(filled, 1)\nos.write(goes, b'xx')\nos.wait()",
                1
            )
        );
        let outcome = runner.run(&bounded(&honest, 256));
        assert_eq!(outcome.ok(), "on\n");
        assert!(usage(&outcome) > 120 * MIB, "{}", usage(&outcome));
        let pool = "import multiprocessing\ndef f(n):\n    x = bytearray(180 << 20)\n    fill(x, len(x))\n    time.sleep(60)\n    return len(x)\nwith multiprocessing.Pool(2) as pool: print(pool.map(f, range(8)))";
        assert_eq!(runner.run(&bounded(pool, 256)).end(), &End::OutOfMemory);
    });
}

#[test]
fn a_process_of_any_name_counts() {
    on_both(|runner| {
        let named = "import ctypes\nctypes.CDLL(None).prctl(15, b'\\xff\\xfe', 0, 0, 0)\n";
        let two = "for _ in range(2):\n    if os.fork() == 0:\n        x = bytearray(180 << 20)\n        fill(x, len(x))\n        time.sleep(60)\n        os._exit(0)\nos.wait()\nos.wait()";
        assert_eq!(runner.run(&bounded(&format!("{named}{two}"), 256)).end(), &End::OutOfMemory);
    });
}

#[test]
fn a_process_whose_first_thread_has_ended_counts() {
    on_both(|runner| {
        let left = |hold: &str, seconds: u32| {
            format!(
                "import ctypes, threading\nlibc = ctypes.CDLL(None)\ndef hold():\n{hold}    time.sleep({seconds})\n    os._exit(0)\nfor _ in range(2):\n    if os.fork() == 0:\n        threading.Thread(target=hold).start()\n        libc.syscall({}, 0)\nos.wait()\nos.wait()\nprint('on')",
                libc::SYS_exit
            )
        };
        let heap = "    x = bytearray(180 << 20)\n    fill(x, len(x))\n";
        let file = "    for _ in range(9):\n        f = os.memfd_create('x')\n        for _ in range(20): os.write(f, bytes(1 << 20))\n";
        for hold in [heap, file] {
            assert_eq!(runner.run(&bounded(&left(hold, 60), 256)).end(), &End::OutOfMemory, "{hold}");
        }
        assert_eq!(runner.run(&bounded(&left(&heap.replace("180", "40"), 1), 256)).ok(), "on\n");
    });
}

#[test]
fn a_process_has_one_table_of_descriptors() {
    let mut runner = Runner::new();
    let code = format!(
        "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nprint(libc.syscall({}, 900, 1000, {}), ctypes.get_errno(), libc.syscall({}, 900, 1000, 0))\nprint(libc.syscall({}, {}, 0, 0, 0, 0), ctypes.get_errno())",
        libc::SYS_close_range,
        libc::CLOSE_RANGE_UNSHARE,
        libc::SYS_close_range,
        libc::SYS_clone,
        libc::CLONE_THREAD | libc::CLONE_SIGHAND | libc::CLONE_VM,
    );
    assert_eq!(runner.python(&code).ok(), "-1 1 0\n-1 1\n");
}

#[test]
fn whatever_the_kernel_kills_for_memory_is_told() {
    let mut spec = common::spec();
    spec.memory_bytes = Some(160 * MIB);
    let mut setup = common::setup(&spec);
    setup.ceiling.memory_bytes = 1 << 30;
    let mut runner = Runner::start(&spec, setup);
    if !runner.ready.warnings.is_empty() {
        return;
    }
    // The kernel kills a child. The program itself ends well, and before the next check.
    let child = "if os.fork() == 0:\n    x = bytearray(300 << 20)\n    fill(x, len(x))\nprint(os.wait()[1])";
    let outcome = runner.run(&bounded(child, 1024));
    assert_eq!(outcome.end(), &End::OutOfMemory, "{outcome:?}");
    // A program that would wait forever.
    let hung = "r, w = os.pipe()\nif os.fork() == 0:\n    x = bytearray(300 << 20)\n    fill(x, len(x))\nos.read(r, 1)";
    assert_eq!(runner.run(&bounded(hung, 1024)).end(), &End::OutOfMemory);
    let in_session = Run { place: session("s", "").place, ..bounded(child, 1024) };
    assert_eq!(runner.run(&in_session).end(), &End::OutOfMemory);
    assert_eq!(runner.python("print(1)").ok(), "1\n");
}

#[test]
fn as_many_threads_as_processes_start_beside_real_work() {
    on_both(|runner| {
        let code = "import threading\nend = threading.Event()\nthreads = [threading.Thread(target=end.wait) for _ in range(63)]\nfor t in threads: t.start()\nx = bytearray(80 << 20)\nprint(threading.active_count(), threading.stack_size())\nend.set()\nfor t in threads: t.join()";
        assert_eq!(runner.run(&bounded(code, 256)).ok(), "64 0\n");
        let deep = "import threading\ndef f(n): return n and sorted([1], key=lambda x: f(n - 1))\ndef g():\n    try: f(990)\n    except RecursionError: print('deep')\n    else: print('deep')\nt = threading.Thread(target=g)\nt.start()\nt.join()";
        assert_eq!(runner.run(&bounded(deep, 256)).ok(), "deep\n");
        // Threads don't change the limit: between 10 and 25 blocks of 10 MiB fit. All threads start before the first
        // one takes memory, because in a full sandbox there is no room for a new thread's stack.
        let hog = "import threading\nheld, go = [], threading.Event()\ndef hog():\n    go.wait()\n    try:\n        x = bytearray(10 << 20)\n        fill(x, len(x))\n    except MemoryError: return\n    held.append(x)\nthreads = [threading.Thread(target=hog) for _ in range(40)]\nfor t in threads: t.start()\ngo.set()\nfor t in threads: t.join()\nprint(10 <= len(held) <= 25)";
        assert_eq!(runner.run(&bounded(hog, 256)).ok(), "True\n");
    });
}
