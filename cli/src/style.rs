//! Words for people: colours where a terminal shows them (and `NO_COLOR` is not set), plain text everywhere else.
//!
//! What a job, a tenant or a broker chose may hold sequences that a terminal obeys: they set its title, its clipboard, or make it type
//! an answer. So whatever goes to a terminal goes through [`clean`], unless `--raw` was given. What goes to a file or a pipe is byte for
//! byte what it was.

mod clean;

use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use anstyle::{AnsiColor, Style};

use clean::{Kind, clean};

pub(crate) const ERROR: Style = AnsiColor::Red.on_default().bold();
pub(crate) const WARNING: Style = AnsiColor::Yellow.on_default().bold();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default().bold();
pub(crate) const HELP: Style = AnsiColor::Cyan.on_default().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const BOLD: Style = Style::new().bold();

/// Whether a terminal gets everything as it is.
static RAW: AtomicBool = AtomicBool::new(false);

/// The first failure to write to standard output.
static LOST: OnceLock<String> = OnceLock::new();

/// Lets terminals have everything as it is, from now on.
pub(crate) fn raw() {
    RAW.store(true, Ordering::Relaxed);
}

/// Why something could not be written to standard output, if that happened. A reader that went away (`| head`) is no failure.
pub(crate) fn lost() -> Option<&'static str> {
    LOST.get().map(String::as_str)
}

/// Text between the codes of a style; the stream that it is written to drops the codes where they are not wanted.
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

/// Writes text that has styles of ours to standard output.
pub(crate) fn print_styled(text: &str) {
    let cleaned = watches(&io::stdout()).then(|| clean(text.as_bytes(), Kind::Styled));
    let mut out = anstream::stdout().lock();
    let written = out.write_all(cleaned.as_deref().unwrap_or(text.as_bytes())).and_then(|()| out.flush());
    keep(written);
}

/// Writes plain text to standard output.
pub(crate) fn say(text: &str) {
    print(text.as_bytes());
}

/// Writes text that has styles of ours to standard error.
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

/// `error[code]: message`, and what to do.
pub(crate) fn error(code: &str, message: &str, help: Option<&str>) {
    eprint(&headed(&paint(ERROR, format!("error[{code}]")), message, help));
}

/// `warning: message`, and what to do.
pub(crate) fn warn(message: &str, help: &str) {
    eprint(&headed(&paint(WARNING, "warning"), message, Some(help)));
}

/// `note: message`.
pub(crate) fn note(message: &str) {
    eprint(&headed(&paint(HELP, "note"), message, None));
}

/// `warning: message`.
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

/// Whether a person watches standard error.
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
