//! Arguments that look like others where a person decides about them.

use anyhow::Result;

use crate::evidence::Evidence;
use crate::thermae::Thermae;

pub(super) const SHEET: &str = r#"
tries = "makes a call that needs approval, with letters that print as nothing or as a space, joiners, reversed text and line ends in its argument"
wins = "a yes to other arguments than the person has seen"
guard = "a question spells out every character that can't be seen, or that changes how others look"
control = {}
held = { asked = true, unseen = [], made = false }
open = { unseen = ["U+115F", "U+1160", "U+2800", "U+3164", "U+FFA0", "U+00A0", "U+200B", "U+200D", "U+2028", "U+202E", "U+2066"] }
"#;

/// Characters that can't be seen, or that change how others look.
const UNSEEN: [char; 11] = [
    '\u{115f}', '\u{1160}', '\u{2800}', '\u{3164}', '\u{ffa0}', '\u{a0}', '\u{200b}', '\u{200d}', '\u{2028}',
    '\u{202e}', '\u{2066}',
];

const ASK: &str = "Make this call?";

pub(super) fn attempt(lifted: bool) -> Result<Evidence> {
    let thermae = Thermae::new()?;
    let text = UNSEEN.iter().map(|c| format!("\\u{:04x}", u32::from(*c))).collect::<String>();
    let mut evidence = Evidence::default();
    let shown = if lifted {
        // Without a question, the terminal gets what the program prints.
        thermae.file("main.py", &format!("print('to {text}')"))?;
        thermae.on_terminal(&["run", "main.py", "--raw"])?.stdout
    } else {
        thermae.file("main.py", &format!("try:\n    await pay(to='{text}')\nexcept ToolError:\n    pass"))?;
        thermae.file("may.json", r#"[{"pattern": "pay", "approval": {}}]"#)?;
        let run = ["run", "main.py", "--capabilities", "may.json", "--tool", "pay=touch made"];
        thermae.on_terminal_typing(&run, ASK, "n\n")?.stdout
    };
    let unseen = UNSEEN.into_iter().filter(|c| shown.contains(*c)).map(|c| format!("U+{:04X}", u32::from(c)));
    evidence.note("unseen", unseen.collect::<Vec<_>>());
    evidence.note("asked", shown.contains(ASK));
    evidence.note("made", thermae.path().join("made").exists());
    Ok(evidence)
}
