//! Control sequences in output, which a terminal obeys.

use anyhow::Result;
use serde_json::json;

use crate::evidence::Evidence;
use crate::thermae::Thermae;

pub(super) const SHEET: &str = r#"
tries = "puts titles, clipboard contents, questions that the terminal answers, cursor movements and reversed text into output, displays, tracebacks, the names of files, tools and jobs, and a batch's table"
wins = "the terminal: keys typed in the user's name, lines that were never printed"
guard = "on a terminal, control characters are shown instead of obeyed; `--raw` lifts that"
control = {}
[held]
'*' = []
[open]
run = ["\u001b]", "\u001b[6n", "\u009b", "\u202e", "\b"]
"#;

const CODE: &str = "
import sys, os
evil = '\\x1b]0;t\\x07\\x1b[6n\\x1b]52;c;aGk=\\x07\\x9b6n\\u202e\\b\\x1b[1A\\x1b[2K'
print('out' + evil, flush=True)
print('err' + evil, file=sys.stderr)
class Shown:
    def __repr__(self): return 'shown' + evil
display(Shown())
os.symlink('/', 'artifacts/link' + evil)
open('artifacts/f' + evil.replace('/', ''), 'w').write('')
try:
    await bad(**{evil: 1})
except Exception as error:
    print(error)
def trick(): raise type('E' + evil, (Exception,), {})('raised' + evil)
trick()
";

/// The control sequences in a text that a terminal would obey, except the command line's own colours and line ends.
fn obeyed(text: &str) -> Vec<&'static str> {
    ["\u{1b}]", "\u{1b}[6n", "\u{9b}", "\u{202e}", "\u{8}"].into_iter().filter(|words| text.contains(words)).collect()
}

pub(super) fn attempt(lifted: bool) -> Result<Evidence> {
    let thermae = Thermae::new()?;
    thermae.file("main.py", CODE)?;
    let raw = if lifted { &["--raw"][..] } else { &[] };
    let tool = "bad=printf 'no\\033]0;t\\007\\033[6n' >&2; exit 1";
    let mut evidence = Evidence::default();
    let run = thermae.on_terminal(&[&["run", "main.py", "--tool", tool, "--artifacts", "out"], raw].concat())?;
    evidence.note("run", obeyed(&run.stdout));
    if lifted {
        return Ok(evidence);
    }
    for (name, more) in
        [("streamed", "--stream=always"), ("at the end", "--stream=never"), ("json", "--json"), ("value", "--value")]
    {
        let answer = thermae.on_terminal(&["run", "main.py", "--tool", tool, more])?;
        evidence.note(name, obeyed(&answer.stdout));
    }
    let named = thermae.on_terminal(&["run", "main.py\u{1b}[6n\u{202e}"])?;
    evidence.note("a program's name", obeyed(&named.stdout));
    let jobs: String = ["a\u{1b}[6n", "b\u{1b}]0;t\u{7}\u{202e}"]
        .map(|id| json!({ "id": id, "code": CODE, "labels": { id: id } }).to_string() + "\n")
        .concat();
    thermae.file("jobs.jsonl", &jobs)?;
    let batch = thermae.on_terminal(&["batch", "jobs.jsonl", "--out", "out.jsonl", "--artifacts", "kept"])?;
    evidence.note("batch", obeyed(&batch.stdout));
    thermae.file("thermae.toml", "[tools.\"x\u{202e}y\"]\ncommand = \"echo\"\n")?;
    evidence.note("a tools file", obeyed(&thermae.on_terminal(&["run", "main.py"])?.stdout));
    evidence.note("trust", obeyed(&thermae.on_terminal(&["trust"])?.stdout));
    Ok(evidence)
}
