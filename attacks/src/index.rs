//! The index of all attacks, for `docs/attacks.md`.

use std::fmt::Write;

use crate::judge;
use crate::program::{Attack, Payload};
use crate::scenarios::Scenario;
use crate::sheet::Sheet;
use crate::site::Backend;

/// Lines of the page that begin and end the index.
pub const MARKS: (&str, &str) = ("<!-- attacks: made by a test -->\n", "<!-- end of the attacks -->\n");

/// An attack in the index.
struct Entry<'a> {
    name: &'a str,
    file: String,
    sheet: &'a Sheet,
}

/// The index in Markdown: a table for each group.
pub fn markdown(attacks: &[Attack], scenarios: &[Scenario]) -> String {
    let programs = attacks.iter().map(|attack| {
        let file = format!("programs/{}.{}", attack.name, if attack.language == Payload::Bash { "sh" } else { "py" });
        Entry { name: &attack.name, file, sheet: &attack.sheet }
    });
    let others = scenarios.iter().map(|s| Entry { name: s.name, file: s.file(), sheet: &s.sheet });
    let mut entries: Vec<_> = programs.chain(others).collect();
    entries.sort_by(|a, b| a.name.cmp(b.name));
    let group_of = |entry: &Entry<'_>| entry.name.split('/').next().unwrap_or_default().to_owned();
    let mut text = format!("{} attacks.\n", entries.len());
    let mut group = String::new();
    for entry in &entries {
        if group_of(entry) != group {
            group = group_of(entry);
            let count = entries.iter().filter(|e| group_of(e) == group).count();
            let _ = write!(
                text,
                "\n### {group} ({count})\n\n| attack | tries | what stops it | control |\n| --- | --- | --- | --- |\n"
            );
        }
        let Entry { name, file, sheet } = entry;
        let name = name.split('/').nth(1).unwrap_or_default();
        let control = sheet.uncontrolled.as_ref().map_or_else(|| "yes".to_owned(), |why| format!("none: {why}"));
        let cell = |text: &str| text.replace('\n', " ").replace('|', "\\|");
        let (tries, guard, control) = (cell(&sheet.tries), cell(&sheet.guard), cell(&control));
        let _ = writeln!(text, "| [{name}](../attacks/{file}) | {tries} | {guard} | {control} |");
    }
    text.push_str("\n### Not tried on gVisor\n\n| attack | why |\n| --- | --- |\n");
    for attack in attacks {
        if let Some(why) = judge::left_out(attack, &Backend::Docker(Some("runsc".to_owned())).into()) {
            let _ = writeln!(text, "| {} | {why} |", attack.name);
        }
    }
    text
}

/// Replaces the index in the page; `None` if the page has no marks.
pub fn put_into(page: &str, index: &str) -> Option<String> {
    let (head, rest) = page.split_once(MARKS.0)?;
    let (_, tail) = rest.split_once(MARKS.1)?;
    Some(format!("{head}{}{index}{}{tail}", MARKS.0, MARKS.1))
}
