//! Pages of the documentation whose blocks of code are run or read by tests.
//!
//! What a block is says its fence, and if need be a comment of HTML before it (`<!-- in a terminal -->`). Each [`Kind`]
//! has a test that takes all blocks of this kind on all [`PAGES`]. So a new block is tested as soon as it is written,
//! and a block that nobody would test is an error.

use std::path::{Path, PathBuf};

/// The pages about what a job may call, who decides about it, and how to ask for it over HTTP.
pub const PAGES: [&str; 9] = [
    "docs/gateway.md",
    "docs/approval.md",
    "docs/capabilities.md",
    "docs/audit.md",
    "docs/keys.md",
    "docs/python/http.md",
    "docs/python/approval.md",
    "docs/python/capabilities.md",
    "docs/python/waiting.md",
];

/// What a block is, and so which test runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Commands for a shell, which has `thermae` and a gateway. The tests of `thermae` run them.
    Commands,
    /// The start of a gateway, with what it prints. Run by the tests of `thermae`.
    Serve,
    /// What a person sees and types in a terminal. Run by the tests of `thermae`.
    Terminal,
    /// Commands that make a user of RabbitMQ. The tests of `thermae` compare them with the users of `compose.yaml`.
    User,
    /// Options of a worker, which the tests of `thermae` read.
    Worker,
    /// Commands on a real fleet, with what they print. Run by the tests of the fleet.
    Fleet,
    /// Commands of a gateway for many tenants, with what they print. Run by the tests of `thermae-gateway`.
    Tenants,
    /// A set of capabilities, which the tests of the crate `thermae-capabilities` read.
    Set,
    /// A part of a program, which the tests of the Python package run.
    Python,
}

/// A block of code of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// What it is.
    pub kind: Kind,
    /// Number of its first line in the page, from 1.
    pub line: usize,
    /// Its text.
    pub text: String,
    /// What it prints, as the block fenced as `text` that follows it says.
    pub prints: String,
}

/// A file or a folder of the project.
pub fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

/// The text of a file of the project.
///
/// # Panics
/// The file can't be read.
pub fn text(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// All blocks of one kind: for each page that has some, its name and the blocks.
///
/// # Panics
/// A page can't be read, has a block that is of no kind, or no page has a block of this kind.
pub fn all(kind: Kind) -> Vec<(&'static str, Vec<Block>)> {
    let of = |page| {
        let found = blocks(&text(page)).unwrap_or_else(|error| panic!("{page}: {error}"));
        (page, found.into_iter().filter(|block| block.kind == kind).collect::<Vec<_>>())
    };
    let pages: Vec<_> = PAGES.into_iter().map(of).filter(|(_, found)| !found.is_empty()).collect();
    assert!(!pages.is_empty(), "no page has a block of the kind {kind:?}");
    pages
}

/// The only block of one kind.
///
/// # Panics
/// As [`all`], or if there are several.
pub fn only(kind: Kind) -> Block {
    let found: Vec<_> = all(kind).into_iter().flat_map(|(_, blocks)| blocks).collect();
    let [block] = <[Block; 1]>::try_from(found).unwrap_or_else(|found| panic!("not one block: {found:?}"));
    block
}

/// The blocks of a page, in order.
///
/// # Errors
/// A block is of no kind, so that no test would run it; or it has no end.
pub fn blocks(page: &str) -> Result<Vec<Block>, String> {
    let mut found: Vec<Block> = Vec::new();
    let (mut lines, mut mark, mut may_print) = (page.lines().enumerate(), "", false);
    while let Some((number, line)) = lines.next() {
        let start = line.trim_start();
        if !start.starts_with("```") && !start.starts_with("~~~") {
            if start.starts_with("<!--") {
                mark = start;
            } else if !start.is_empty() {
                mark = "";
            }
            continue;
        }
        let (indent, line) = (line.len() - start.len(), number + 2);
        let mut text = String::new();
        loop {
            let (_, next) = lines.next().ok_or_else(|| format!("line {line}: the block has no end"))?;
            if next.trim() == &start[..3] {
                break;
            }
            text.push_str(next.get(indent..).unwrap_or(""));
            text.push('\n');
        }
        match found.last_mut().filter(|_| start == "```text" && mark.is_empty() && may_print) {
            Some(before) => (before.prints, may_print) = (text, false),
            None => {
                let kind = kind(start, mark)
                    .ok_or_else(|| format!("line {line}: no test runs a block that begins with {mark}{start}"))?;
                may_print = matches!(kind, Kind::Commands | Kind::Python);
                found.push(Block { kind, line, text, prints: String::new() });
            }
        }
        mark = "";
    }
    Ok(found)
}

/// What a block is, by its fence and by the comment before it.
fn kind(fence: &str, mark: &str) -> Option<Kind> {
    Some(match (fence, mark) {
        ("```sh", "") => Kind::Commands,
        ("```console", "<!-- serve -->") => Kind::Serve,
        ("```console", "<!-- in a terminal -->") => Kind::Terminal,
        ("```console", "<!-- a user of RabbitMQ -->") => Kind::User,
        ("```console", "<!-- on a fleet -->") => Kind::Fleet,
        ("```console", "<!-- many tenants -->") => Kind::Tenants,
        ("```toml", "<!-- a worker -->") => Kind::Worker,
        ("```json", "") => Kind::Set,
        // The tests of the Python package say what its marks mean, and refuse others.
        ("```python", _) => Kind::Python,
        _ => return None,
    })
}

impl Block {
    /// The commands of a block that begins with `$ `, each with the lines that it shows as their output.
    ///
    /// # Panics
    /// The block does not begin with a command.
    pub fn commands(&self) -> Vec<(String, String)> {
        let mut commands: Vec<(String, String)> = Vec::new();
        let mut goes_on = false;
        for line in self.text.lines() {
            if let Some(command) = line.strip_prefix("$ ").filter(|_| !goes_on) {
                commands.push((command.to_owned(), String::new()));
            } else {
                let (command, shown) = commands.last_mut().expect("a block of the console begins with a command");
                let to = if goes_on { command } else { shown };
                to.push_str(if goes_on { "\n" } else { "" });
                to.push_str(line);
                to.push_str(if goes_on { "" } else { "\n" });
            }
            goes_on = line.ends_with('\\') && commands.last().is_some_and(|(_, shown)| shown.is_empty());
        }
        commands
    }
}

/// Whether something was printed as a page shows it, where `…` stands for anything in a line that others can't know,
/// such as an id or a port.
pub fn fits(shown: &str, printed: &str) -> bool {
    let (shown, printed) = (shown.trim_end().lines(), printed.trim_end().lines());
    let mut pairs = printed.clone().zip(shown.clone());
    printed.count() == shown.count() && pairs.all(|(printed, shown)| line_fits(shown, printed))
}

fn line_fits(shown: &str, printed: &str) -> bool {
    let Some((first, more)) = shown.split_once('…') else { return shown == printed };
    let Some(rest) = printed.strip_prefix(first) else { return false };
    let ends = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    ends.into_iter().any(|at| line_fits(more, &rest[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_of_the_pages_is_run_or_read_by_a_test() {
        for page in PAGES {
            let found = blocks(&text(page)).unwrap_or_else(|error| panic!("{page}: {error}"));
            assert!(!found.is_empty(), "{page} has no block");
        }
    }

    #[test]
    fn blocks_are_found_with_what_they_print() {
        let page = "```sh\nls\n```\n\nIt prints:\n\n```text\na\n```\n\n<!-- serve -->\n\n```console\n$ a \\\n  b\nc\n$ d\n```\n\
                    - an item:\n\n  ```json\n  [\n    1\n  ]\n  ```\n";
        let found = blocks(page).unwrap();
        let told: Vec<_> =
            found.iter().map(|one| (one.kind, one.line, one.text.as_str(), one.prints.as_str())).collect();
        assert_eq!(
            told,
            [
                (Kind::Commands, 2, "ls\n", "a\n"),
                (Kind::Serve, 14, "$ a \\\n  b\nc\n$ d\n", ""),
                (Kind::Set, 22, "[\n  1\n]\n", ""),
            ]
        );
        let commands = [("a \\\n  b", "c\n"), ("d", "")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        assert_eq!(found[1].commands(), commands);
    }

    #[test]
    fn a_block_that_nobody_would_run_is_an_error() {
        for page in [
            "```\nls\n```\n",
            "```bash\nls\n```\n",
            "```sh skip=why\nls\n```\n",
            "```console\n$ ls\n```\n",
            "<!-- on a moon -->\n```console\n$ ls\n```\n",
            "<!-- serve -->\nA word.\n```console\n$ ls\n```\n",
            "<!-- serve -->\n```sh\nls\n```\n",
            "```text\nof no block\n```\n",
            "```json\n[]\n```\n```text\nof no program\n```\n",
            "```sh\nls\n```\n```text\nonce\n```\n```text\ntwice\n```\n",
            "~~~sh\nls\n~~~\n",
            "  ```yaml\n  a: 1\n  ```\n",
            "```sh\nls\n",
        ] {
            assert!(blocks(page).is_err(), "{page}");
        }
    }

    #[test]
    fn what_others_can_not_know_fits_anything() {
        for (shown, printed) in [("a … c", "a b c"), ("id …", "id 1"), ("x…", "x"), ("a\n…b\n", "a\nbab"), ("", "\n")]
        {
            assert!(fits(shown, printed), "{shown:?} {printed:?}");
        }
        for (shown, printed) in [("a … c", "a b d"), ("a", "ab"), ("a", "a\nb"), ("a\n…", "a"), ("… a", "b ab")] {
            assert!(!fits(shown, printed), "{shown:?} {printed:?}");
        }
    }
}
