//! The index of the attacks, as `docs/security.md` has it.

use std::fmt::Write;

use crate::judge;
use crate::program::Attack;
use crate::site::Backend;

/// What the index stands between in the page.
pub const MARKS: (&str, &str) = ("<!-- attacks: made by a test -->\n", "<!-- end of the attacks -->\n");

/// The index: a table for each group.
pub fn markdown(attacks: &[Attack]) -> String {
    let mut text = format!("{} attacks.\n", attacks.len());
    let mut group = "";
    for attack in attacks {
        if attack.group() != group {
            group = attack.group();
            let count = attacks.iter().filter(|a| a.group() == group).count();
            let _ = write!(
                text,
                "\n### {group} ({count})\n\n| attack | tries | what stops it | control |\n| --- | --- | --- | --- |\n"
            );
        }
        let name = attack.name.split('/').nth(1).unwrap_or_default();
        let control = attack.sheet.uncontrolled.as_ref().map_or_else(|| "yes".to_owned(), |why| format!("none: {why}"));
        let cell = |text: &str| text.replace('\n', " ").replace('|', "\\|");
        let (tries, guard) = (cell(&attack.sheet.tries), cell(&attack.sheet.guard));
        let _ = writeln!(
            text,
            "| [{name}](../attacks/programs/{}.py) | {tries} | {guard} | {} |",
            attack.name,
            cell(&control)
        );
    }
    text.push_str("\n### Not tried on gVisor\n\n| attack | why |\n| --- | --- |\n");
    for attack in attacks {
        if let Some(why) = judge::left_out(attack, &Backend::Docker(Some("runsc".to_owned()))) {
            let _ = writeln!(text, "| {} | {why} |", attack.name);
        }
    }
    text
}

/// The page with this index in place of its own; `None` where the marks are missing.
pub fn put_into(page: &str, index: &str) -> Option<String> {
    let (head, rest) = page.split_once(MARKS.0)?;
    let (_, tail) = rest.split_once(MARKS.1)?;
    Some(format!("{head}{}{index}{}{tail}", MARKS.0, MARKS.1))
}
