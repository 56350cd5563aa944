//! Text for people: with colours if a terminal shows them and `NO_COLOR` is not set, plain otherwise.
//!
//! Text that a job, a tenant or a broker chose may contain sequences that a terminal obeys: they set its title or its
//! clipboard, or make it type an answer. So everything that goes to a terminal is cleaned by [`clean`], unless `--raw`
//! was given. Files and pipes get every byte unchanged.

mod clean;

use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use anstyle::{AnsiColor, Style};
use clap::builder::Styles;

use clean::{Kind, clean};

pub(crate) const ERROR: Style = AnsiColor::Red.on_default().bold();
pub(crate) const WARNING: Style = AnsiColor::Yellow.on_default().bold();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default().bold();
pub(crate) const HELP: Style = AnsiColor::Cyan.on_default().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const BOLD: Style = Style::new().bold();

/// The styles of help texts. [`clean`] knows each of them.
pub(crate) const HELP_TEXT: Styles =
    Styles::plain().header(BOLD).usage(BOLD).literal(BOLD).error(ERROR).invalid(WARNING).valid(GOOD);

/// Whether terminals get everything unchanged (`--raw`).
static RAW: AtomicBool = AtomicBool::new(false);

/// The first error of a write to standard output.
static LOST: OnceLock<String> = OnceLock::new();

/// Lets terminals have everything unchanged from now on.
pub(crate) fn raw() {
    RAW.store(true, Ordering::Relaxed);
}

/// Why output was lost; `None` if none was. A reader that has gone (`| head`) is no error.
pub(crate) fn lost() -> Option<&'static str> {
    LOST.get().map(String::as_str)
}

/// Text in a style. The stream that it is written to removes the codes if it is no terminal.
pub(crate) fn paint(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Writes a job's output, or data, to standard output.
pub(crate) fn print(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    let cleaned = watches(&out).then(|| clean(bytes, Kind::Output));
    let written = out.write_all(cleaned.as_deref().unwrap_or(bytes)).and_then(|()| out.flush());
    keep(written);
}

/// Writes text with this program's own styles to standard output.
pub(crate) fn print_styled(text: &str) {
    let cleaned = watches(&io::stdout()).then(|| clean(text.as_bytes(), Kind::Styled));
    let mut out = anstream::stdout().lock();
    let written = out.write_all(cleaned.as_deref().unwrap_or(text.as_bytes())).and_then(|()| out.flush());
    keep(written);
}

/// What a terminal gets of text with this program's own styles.
#[cfg(test)]
pub(crate) fn cleaned(text: &str) -> String {
    String::from_utf8_lossy(&clean(text.as_bytes(), Kind::Styled)).into_owned()
}

/// Writes plain text to standard output.
pub(crate) fn say(text: &str) {
    print(text.as_bytes());
}

/// Writes text with this program's own styles to standard error.
pub(crate) fn eprint(text: &str) {
    let cleaned = watches(&io::stderr()).then(|| clean(text.as_bytes(), Kind::Styled));
    let mut err = anstream::stderr().lock();
    let _ = err.write_all(cleaned.as_deref().unwrap_or(text.as_bytes())).and_then(|()| err.flush());
}

/// Writes a job's output to standard error.
pub(crate) fn eprint_output(bytes: &[u8]) {
    let mut err = io::stderr().lock();
    let cleaned = watches(&err).then(|| clean(bytes, Kind::Output));
    let _ = err.write_all(cleaned.as_deref().unwrap_or(bytes)).and_then(|()| err.flush());
}

/// Prints `error[code]: message` and the help.
pub(crate) fn error(code: &str, message: &str, help: Option<&str>) {
    eprint(&headed(&paint(ERROR, format!("error[{code}]")), message, help));
}

/// Prints `warning: message` and the help.
pub(crate) fn warn(message: &str, help: &str) {
    eprint(&headed(&paint(WARNING, "warning"), message, Some(help)));
}

/// Prints `note: message`.
pub(crate) fn note(message: &str) {
    eprint(&headed(&paint(HELP, "note"), message, None));
}

/// Prints `warning: message`.
pub(crate) fn warning(message: &str) {
    eprint(&headed(&paint(WARNING, "warning"), message, None));
}

fn headed(head: &str, message: &str, help: Option<&str>) -> String {
    let mut text = format!("{head}: {message}\n");
    if let Some(help) = help {
        text.push_str(&format!(" {}: {help}\n", paint(HELP, "help")));
    }
    text
}

/// Whether standard error is a terminal.
pub(crate) fn watched() -> bool {
    io::stderr().is_terminal()
}

fn watches(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && !RAW.load(Ordering::Relaxed)
}

fn keep(written: io::Result<()>) {
    if let Err(error) = written
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        let _ = LOST.set(error.to_string());
    }
}
