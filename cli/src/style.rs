//! Words for people: colours where a terminal shows them (and `NO_COLOR` is not set), plain text everywhere else.

use std::io::{IsTerminal, Write};

use anstyle::{AnsiColor, Style};

pub(crate) const ERROR: Style = AnsiColor::Red.on_default().bold();
pub(crate) const WARNING: Style = AnsiColor::Yellow.on_default().bold();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default().bold();
pub(crate) const HELP: Style = AnsiColor::Cyan.on_default().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const BOLD: Style = Style::new().bold();

/// Text between the codes of a style; the stream that it is written to drops the codes where they are not wanted.
pub(crate) fn paint(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Writes to standard output as it is. A reader that went away (`| head`) is no error.
pub(crate) fn print(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(bytes).and_then(|()| out.flush());
}

/// Writes styled text to standard output.
pub(crate) fn print_styled(text: &str) {
    let mut out = anstream::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Writes styled text to standard error.
pub(crate) fn eprint(text: &str) {
    let mut err = anstream::stderr().lock();
    let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
}

/// Writes bytes to standard error as they are.
pub(crate) fn eprint_raw(bytes: &[u8]) {
    let mut err = std::io::stderr().lock();
    let _ = err.write_all(bytes).and_then(|()| err.flush());
}

/// `error[code]: message`, and what to do.
pub(crate) fn error(code: &str, message: &str, help: Option<&str>) {
    eprint(&headed(&paint(ERROR, format!("error[{code}]")), message, help));
}

/// `note: message`.
pub(crate) fn note(message: &str) {
    eprint(&headed(&paint(HELP, "note"), message, None));
}

fn headed(head: &str, message: &str, help: Option<&str>) -> String {
    let mut text = format!("{head}: {message}\n");
    if let Some(help) = help {
        text.push_str(&format!(" {}: {help}\n", paint(HELP, "help")));
    }
    text
}

/// Whether a person watches standard error.
pub(crate) fn watched() -> bool {
    std::io::stderr().is_terminal()
}
