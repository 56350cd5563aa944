//! The hostile tenant's jobs. Each takes as much of one thing as it gets.

use serde_json::{Value, json};

/// A kind of hostile job.
struct Kind {
    /// The kind's name in the report.
    name: &'static str,
    code: &'static str,
    /// Other fields of the job with this number.
    more: fn(u64) -> Value,
}

/// Time limit of most jobs, in milliseconds. It is short, so that many kinds get their turn.
const BRIEF: u64 = 500;

/// Bytes of padding in some jobs, which nearly makes them the largest job allowed.
const PADDING: usize = 900 << 10;

const fn kind(name: &'static str, code: &'static str, more: fn(u64) -> Value) -> Kind {
    Kind { name, code, more }
}

fn brief(_: u64) -> Value {
    json!({ "limits": { "wall_ms": BRIEF } })
}

fn tool(schema: bool, wall_ms: u64) -> Value {
    let schema = schema
        .then(|| json!({ "type": "object", "properties": { "x": { "type": "string", "pattern": "^(a|b|ab)*$" } } }));
    json!({ "tools": [{ "name": "t", "input_schema": schema }], "limits": { "wall_ms": wall_ms, "tool_ms": wall_ms } })
}

/// Stays in its slot for as long as the pool allows.
static SLEEPER: Kind = kind(
    "sleeper",
    "import time\nwhile True:\n    try: time.sleep(1000)\n    except BaseException: pass",
    |_| json!({ "limits": { "wall_ms": 300_000 } }),
);

static KINDS: [Kind; 27] = [
    kind("answered with garbage", "import asyncio\nawait asyncio.gather(*(t(x=str(n)) for n in range(200)))", |_| {
        tool(false, BRIEF)
    }),
    kind("fork bomb", "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass", brief),
    kind(
        "thread bomb",
        "import threading, time\nwhile True:\n    try: threading.Thread(target=time.sleep, args=(100,), daemon=True).start()\n    except RuntimeError: pass",
        brief,
    ),
    kind("memory", "x = []\nwhile True: x.append(bytearray(1 << 20))", brief),
    kind("burner", "import os\nfor _ in range(16):\n    if os.fork() == 0: break\nwhile True: pass", brief),
    kind(
        "output flood",
        "while True: print('y' * 100_000)",
        |_| json!({ "limits": { "wall_ms": BRIEF, "output_bytes": 8 << 20 } }),
    ),
    kind(
        "streamed output",
        "import sys\nwhile True: sys.stdout.write('y' * 100); sys.stdout.flush()",
        |_| json!({ "limits": { "wall_ms": BRIEF, "output_bytes": 8 << 20 }, "stream": ["output", "lifecycle"] }),
    ),
    kind(
        "displays",
        "while True: display('z' * 10_000)",
        |_| json!({ "limits": { "wall_ms": BRIEF }, "stream": ["display"] }),
    ),
    kind(
        "large outcome",
        "for _ in range(7): display('z' * (1 << 20))\nprint('y' * 7_000_000)",
        |_| json!({ "limits": { "wall_ms": BRIEF, "output_bytes": 8 << 20 } }),
    ),
    kind(
        "many values",
        "class J:\n    def _repr_mimebundle_(self, **_): return {'application/json': [{'': 0}] * 200_000}\nfor _ in range(3): display(J())\nJ()",
        brief,
    ),
    kind(
        "disk",
        "import os\nfor d in ('/workspace', '/tmp', '/dev/shm'):\n    try:\n        for n in range(1000): open(f'{d}/{n}', 'wb').write(os.urandom(1 << 20))\n    except OSError: pass",
        brief,
    ),
    kind(
        "artifacts",
        "import os\nos.makedirs('/workspace/artifacts', exist_ok=True)\nfor n in range(300): open(f'/workspace/artifacts/{n}', 'wb').write(os.urandom(1 << 17))",
        |_| json!({ "limits": { "wall_ms": BRIEF }, "artifacts": { "inline": true } }),
    ),
    kind(
        "descriptors",
        "import os\nkept = []\ntry:\n    while True: kept.append(os.pipe())\nexcept OSError: pass",
        brief,
    ),
    kind("crash", "import ctypes\nctypes.string_at(0)", |_| json!({ "max_attempts": 100 })),
    kind("kill all", "import os\nos.kill(-1, 9)", |_| json!({ "max_attempts": 100, "start_within_ms": 86_400_000 })),
    kind(
        "forger",
        "import os\nwhile True:\n    for fd in range(3, 64):\n        try: os.write(fd, b'\\xff' * 100_000)\n        except OSError: pass",
        |_| json!({ "limits": { "wall_ms": BRIEF }, "max_attempts": 100 }),
    ),
    kind(
        "deaf",
        "import signal, time\nfor s in range(1, 32):\n    try: signal.signal(s, signal.SIG_IGN)\n    except (OSError, ValueError): pass\nwhile True:\n    try: time.sleep(1)\n    except BaseException: pass",
        brief,
    ),
    kind("idle session", "x = 1", |n| json!({ "session": { "id": format!("idle-{}", n % 50), "if_gone": "new" } })),
    kind("one session", "import time\ntime.sleep(0.2)", |_| json!({ "session": { "id": "one", "if_gone": "new" } })),
    kind("large arguments", "import asyncio\nawait asyncio.gather(*(t(x='a' * (14 << 20)) for _ in range(4)))", |_| {
        tool(false, BRIEF)
    }),
    kind("slow schema", "import asyncio\nawait asyncio.gather(*(t(x='ab' * 50_000) for _ in range(500)))", |_| {
        tool(true, BRIEF)
    }),
    kind("follower", "import time\ntime.sleep(1)", |n| json!({ "idempotency_key": format!("same-{}", n / 1000) })),
    kind("padded", "print(1)", |_| json!({ "labels": { "x": "x".repeat(PADDING) } })),
    kind("many values in a job", "print(1)", |_| {
        let choices = vec![json!({ "": 0 }); 45_000];
        json!({ "tools": [{ "name": "t", "input_schema": { "enum": choices } }] })
    }),
    kind("files", "print(1)", |_| {
        let files: Vec<_> = (0..4000).map(|n| json!({ "path": format!("d{n}/f"), "text": "x" })).collect();
        json!({ "files": files })
    }),
    kind(
        "environment",
        "print(1)",
        |_| json!({ "env": { "X": "x".repeat(100_000) }, "stdin": "x".repeat(PADDING / 2) }),
    ),
    kind("no job", "print(1)", |n| json!({ "limits": { "wall_ms": 0 }, "nonsense": n })),
];

/// Names of all kinds, as in the report.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    std::iter::once(SLEEPER.name).chain(KINDS.iter().map(|kind| kind.name))
}

/// Job `number` of a flood: the name of its kind, the client whose reply queue it names, and its message.
pub(super) fn body(number: u64, class: &str) -> (&'static str, &'static str, Vec<u8>) {
    let kind = match number {
        // These two jobs keep their slots until their time limit.
        1 | 2 => &SLEEPER,
        number => &KINDS[(number % KINDS.len() as u64) as usize],
    };
    let mut job = (kind.more)(number);
    // The id shows what runs to people who look at the fleet meanwhile.
    job["id"] = format!("{}-{}", kind.name.replace(' ', "-"), uuid::Uuid::new_v4().simple()).into();
    job["code"] = kind.code.into();
    job["class"] = class.into();
    let answered = kind.name == "answered with garbage";
    (kind.name, if answered { "garbage" } else { "unread" }, job.to_string().into_bytes())
}

/// A job that makes one tool call. The call says which worker the answers go to.
pub(super) fn calling() -> Vec<u8> {
    // The call may have to wait, because the tenant has already moved many messages.
    let mut job = tool(false, 30_000);
    job["code"] = "await t()".into();
    job.to_string().into_bytes()
}

/// A job without any options.
pub(super) fn plain(number: u64) -> Vec<u8> {
    format!(r#"{{"id": "plain-{number}", "code": "print(1)"}}"#).into_bytes()
}

/// A job with at least `bytes` bytes of code.
pub(super) fn padded(bytes: usize) -> Vec<u8> {
    format!(r#"{{"id": "{}", "code": "{}"}}"#, uuid::Uuid::new_v4(), "x".repeat(bytes)).into_bytes()
}

/// A job with that many JSON objects in it.
pub(super) fn many_values(values: usize) -> Vec<u8> {
    let values = vec![r#"{"":0}"#; values].join(",");
    format!(r#"{{"id": "{}", "code": "", "labels": [{values}]}}"#, uuid::Uuid::new_v4()).into_bytes()
}

#[cfg(test)]
mod tests {
    use thermae_schemas::Job;

    use super::*;

    #[test]
    fn its_jobs_are_jobs() {
        for number in 0..60 {
            let (name, _, body) = body(number, "high");
            assert_eq!(Job::from_json(&body).is_ok(), name != "no job", "{name}");
            assert!(body.len() <= 1 << 20, "{name} has {} bytes", body.len());
        }
    }
}
