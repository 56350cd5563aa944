//! What a terminal gets of text that jobs chose.

use crate::thermae::Thermae;

/// Sets the title, asks the terminal for an answer, and writes to the clipboard, in every place that code controls.
const HOSTILE: &str = "
import sys, os
evil = '\\x1b]0;title\\x07\\x1b[6n\\x1b]52;c;aGk=\\x07\\x9b6n'
print('out' + evil, flush=True)
print('err' + evil, file=sys.stderr)
sys.stdout.buffer.write(b'raw\\x9b6n\\n')
class Shown:
    def __repr__(self): return 'shown' + evil
display(Shown())
open('artifacts/name' + evil.replace('/', '') + '.txt', 'w').write('x')
os.symlink('/', 'artifacts/link' + evil)
raise ValueError('raised' + evil)
";

fn obeyed(text: &str) -> Vec<&str> {
    ["\u{1b}]", "\u{1b}[6n", "\u{7}", "\u{9b}"].into_iter().filter(|sequence| text.contains(sequence)).collect()
}

#[test]
fn a_terminal_is_shown_what_it_would_obey() {
    let thermae = Thermae::with("main.py", HOSTILE);
    let raw = thermae.call_on_terminal(&["run", "main.py", "--raw"]);
    assert_eq!(obeyed(&raw.stdout).len(), 4, "the attempt was made: {raw:?}");
    for more in
        [&["--stream=always"][..], &["--stream=never"], &["--artifacts", "out"], &["--value", "--color", "always"]]
    {
        let answer = thermae.call_on_terminal(&[&["run", "main.py"], more].concat());
        assert_eq!((answer.status, obeyed(&answer.stdout)), (1, vec![]), "{more:?}: {answer:?}");
        for word in ["out", "err", "shown", "raised"] {
            let escaped = format!("{word}\\x1b]0;title\\x07\\x1b[6n");
            assert!(answer.stdout.contains(&escaped), "{word}, {more:?}: {answer:?}");
        }
    }
    // Without a terminal, every byte is unchanged.
    let answer = thermae.command(&["run", "main.py"]).output().unwrap();
    assert!(answer.stdout.starts_with("out\u{1b}]0;title\u{7}\u{1b}[6n\u{1b}]52;c;aGk=\u{7}\u{9b}6n\n".as_bytes()));
    assert!(answer.stdout.windows(7).any(|bytes| bytes == b"raw\x9b6n\n"));
}

#[test]
fn names_and_messages_are_shown_too() {
    let thermae = Thermae::with("main.py", "await bad()");
    let answer = thermae.call_on_terminal(&["run", "main.py", "--tool", "bad=printf 'no\\033]0;t\\007' >&2; exit 1"]);
    assert!(answer.stdout.contains("ToolError") && obeyed(&answer.stdout).is_empty(), "{answer:?}");
    let answer = thermae.call_on_terminal(&["run", "main.py", "--json", "--tool", "x\u{1b}[6n=cat"]);
    assert_eq!(obeyed(&answer.stdout), Vec::<&str>::new(), "{answer:?}");
    thermae.file("jobs.jsonl", "{\"id\": \"a\", \"code\": \"\", \"k\\u001b[6n\": 1}\n");
    let answer = thermae.call_on_terminal(&["batch", "jobs.jsonl", "--out", "out.jsonl"]);
    assert!(answer.status == 2 && obeyed(&answer.stdout).is_empty(), "{answer:?}");
}
