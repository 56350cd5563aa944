//! Prints a job's output to standard output and standard error: what is streamed live, and the rest at the end.

use std::path::Path;

use base64::Engine;
use thermae_schemas::{ErrorCode, ErrorInfo, EventBody, MimeBundle, Outcome, Status};

use crate::advice::advice;
use crate::style::{self, BOLD, DIM, ERROR, paint};

/// Prints a job's output. Streamed events can get lost, so what was not shown live is taken from the outcome at the
/// end.
#[derive(Debug, Default)]
pub(super) struct Printer {
    /// Number of the next event. After a gap, nothing more is shown live.
    next: u64,
    gap: bool,
    out: String,
    err: String,
    displays: usize,
}

impl Printer {
    /// Shows what an event tells of the output. Other events show nothing.
    pub(super) fn event(&mut self, event: &EventBody) {
        match event {
            EventBody::Stdout { seq, text } => self.stdout(*seq, text),
            EventBody::Stderr { seq, text } => self.stderr(*seq, text),
            EventBody::Display { data } => self.display(data),
            _ => {}
        }
    }

    fn stdout(&mut self, seq: u64, text: &str) {
        if self.in_order(seq) {
            self.out.push_str(text);
            style::print(text.as_bytes());
        }
    }

    fn stderr(&mut self, seq: u64, text: &str) {
        if self.in_order(seq) {
            self.err.push_str(text);
            style::eprint_output(text.as_bytes());
        }
    }

    fn display(&mut self, data: &MimeBundle) {
        if !self.gap {
            self.displays += 1;
            show(data);
        }
    }

    fn in_order(&mut self, seq: u64) -> bool {
        if seq < self.next {
            return false;
        }
        self.gap |= seq > self.next;
        self.next = seq + 1;
        !self.gap
    }

    /// Prints the output that was not shown yet, the last value if `value` is set, and the error.
    pub(super) fn finish(self, outcome: &Outcome, value: bool) {
        style::print(&rest(&self.out, &outcome.stdout, outcome.stdout_base64.as_deref()));
        style::eprint_output(&rest(&self.err, &outcome.stderr, outcome.stderr_base64.as_deref()));
        outcome.displays.iter().skip(self.displays).for_each(show);
        if let (true, Some(value)) = (value, &outcome.value) {
            show(value);
        }
        if outcome.status != Status::Succeeded {
            if !outcome.stderr.is_empty() && !outcome.stderr.ends_with('\n') {
                style::eprint("\n");
            }
            style::eprint(&explain(outcome));
        }
        outcome.notes.iter().for_each(|note| style::note(note));
    }
}

/// Prints what happened to the artifacts. `saved` has the folder and the number of saved files; `None` if none were to
/// be saved.
pub(super) fn files(outcome: &Outcome, saved: Option<(&Path, &usize)>) {
    let count = |n: usize| if n == 1 { "1 file".to_owned() } else { format!("{n} files") };
    match (outcome.artifacts.len(), saved) {
        (0, _) | (_, Some((_, 0))) => {}
        (_, Some((folder, n))) => style::note(&format!("saved {} in {}", count(*n), folder.display())),
        (n, None) => style::note(&format!("the code left {}; use --artifacts DIR to save what it leaves", count(n))),
    }
    for left in &outcome.artifacts_left_out {
        style::note(&format!("left out: {}: {}", left.path.escape_debug(), left.message));
    }
    if outcome.artifacts_left_out_more > 0 {
        style::note(&format!("left out: {} more", outcome.artifacts_left_out_more));
    }
}

/// Prints a value's plain text, or the names of its types if it has none.
fn show(data: &MimeBundle) {
    let text = match data.get("text/plain").and_then(|text| text.read::<String>().ok()) {
        Some(text) => text,
        None => format!("<{}>", data.keys().map(String::as_str).collect::<Vec<_>>().join(", ")),
    };
    style::print(format!("{text}\n").as_bytes());
}

/// The output after the part that was shown. If nothing was shown, gives the exact bytes, which may not be text.
fn rest(shown: &str, all: &str, exact: Option<&str>) -> Vec<u8> {
    if shown.is_empty() {
        let exact = exact.and_then(|text| base64::engine::general_purpose::STANDARD.decode(text).ok());
        return exact.unwrap_or_else(|| all.as_bytes().to_vec());
    }
    // Bytes that are not text may have been replaced differently at the places where the stream was cut.
    let same = shown.bytes().zip(all.bytes()).take_while(|(a, b)| a == b).count();
    all.as_bytes()[same..].to_vec()
}

/// Describes the error: a traceback as Python prints it, any other error as the command's own errors.
fn explain(outcome: &Outcome) -> String {
    let Some(error) = &outcome.error else {
        return format!("{}: the job ended as {}\n", paint(ERROR, "error"), outcome.status.as_str());
    };
    match (&error.traceback, error.code) {
        (Some(traceback), ErrorCode::CodeRaised) => coloured(traceback),
        (traceback, _) => {
            let before = traceback.as_deref().map(coloured).unwrap_or_default();
            format!("{before}{}", told(error))
        }
    }
}

fn told(error: &ErrorInfo) -> String {
    let head = paint(ERROR, format!("error[{}]", error.code.as_str()));
    format!("{head}: {}\n {}: {}\n", error.message, paint(style::HELP, "help"), advice(error.code))
}

/// A traceback in colours: file names are dim, code lines plain, and the exception is red.
fn coloured(traceback: &str) -> String {
    let mut text = String::new();
    for line in traceback.trim_end().lines() {
        let line = if line.starts_with("Traceback ") {
            paint(BOLD, line)
        } else if line.trim_start().starts_with("File \"") {
            paint(DIM, line)
        } else if line.starts_with(' ') || line.is_empty() {
            line.to_owned()
        } else {
            paint(ERROR, line)
        };
        text.push_str(&line);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn what_was_shown_is_not_shown_again() {
        assert_eq!(rest("", "abc", None), b"abc");
        assert_eq!(rest("ab", "abc", None), b"c");
        assert_eq!(rest("abc", "abc", None), b"");
        assert_eq!(rest("", "\u{fffd}", Some("/w==")), [0xff]);
    }

    #[test]
    fn a_gap_or_a_repeat_ends_the_live_part_without_losing_or_doubling() {
        let mut printer = Printer::default();
        printer.stdout(0, "a");
        printer.stdout(0, "a");
        printer.stdout(2, "c");
        printer.stdout(3, "d");
        assert_eq!((printer.out.as_str(), printer.gap), ("a", true));
        assert_eq!(rest(&printer.out, "abcd", None), b"bcd");
    }

    #[test]
    fn an_exception_is_told_as_python_tells_it() {
        let traceback = "Traceback (most recent call last):\n  File \"main.py\", line 1, in <module>\n    1/0\nZeroDivisionError: division by zero\n";
        let mut error = ErrorInfo::new(ErrorCode::CodeRaised, "ZeroDivisionError: division by zero");
        error.traceback = Some(traceback.to_owned());
        let outcome = Outcome::with_error(Status::Failed, error);
        assert_eq!(plain(&explain(&outcome)), traceback);
        assert!(explain(&outcome).contains('\u{1b}'));
    }

    #[test]
    fn every_other_error_says_what_to_do() {
        let error = ErrorInfo::new(ErrorCode::WallTimeout, "the code ran longer than 1s");
        insta::assert_snapshot!(plain(&explain(&Outcome::with_error(Status::TimedOut, error))), @r"
        error[wall_timeout]: the code ran longer than 1s
         help: Make the code faster, or ask for a longer limit (limits.wall_ms, --wall).
        ");
    }
}
