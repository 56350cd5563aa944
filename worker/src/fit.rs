//! Keeps what a job's code has made within what a broker takes: RabbitMQ 4 refuses messages above 16 MiB, and a result that is refused
//! would never reach its client.

use std::io;

use serde::Serialize;
use thermae_schemas::{MimeBundle, Outcome};

/// Largest part of a message that comes from a job's code, in bytes of JSON.
pub(crate) const LARGEST: usize = 15 << 20;

/// JSON writes one byte as six at most (`\u0000`).
const WORST: usize = 6;

/// What was shown and is not larger stays for as long as it can.
const SMALL: usize = 64 << 10;

/// Cuts an outcome to [`LARGEST`]: what was displayed last goes first, then the value, then the end of the output. Notes stand in their
/// places.
pub(crate) fn fit(outcome: &mut Outcome) {
    let text = outcome.stdout.len() + outcome.stderr.len();
    let exact = outcome.stdout_base64.is_some() || outcome.stderr_base64.is_some();
    if outcome.displays.is_empty() && outcome.value.is_none() && !exact && text < LARGEST / WORST / 2 {
        return;
    }
    let mut total = size(outcome);
    let shown = outcome.displays.iter_mut().rev().chain(&mut outcome.value);
    for bundle in shown {
        let bytes = size(bundle);
        if total > LARGEST && bytes > SMALL {
            *bundle = note(bytes);
            total -= bytes;
        }
    }
    let displayed = size(&outcome.displays);
    if size(outcome) > LARGEST && displayed > LARGEST / 2 {
        outcome.displays = vec![note(displayed)];
    }
    if size(outcome) > LARGEST {
        (outcome.stdout_base64, outcome.stderr_base64) = (None, None);
        cut(&mut outcome.stdout);
        cut(&mut outcome.stderr);
    }
    if let Some(error) = outcome.error.as_mut().filter(|e| size(e) > LARGEST / 4) {
        cut(&mut error.message);
        error.traceback.iter_mut().for_each(cut);
        error.exception.iter_mut().for_each(cut);
    }
}

fn note(bytes: usize) -> MimeBundle {
    let text = format!("<{bytes} bytes not shown: the outcome would be larger than {LARGEST}>");
    [("text/plain".to_owned(), text.into())].into()
}

/// Leaves so much that both streams and an error fit, whatever they hold.
fn cut(text: &mut String) {
    let room = LARGEST / WORST / 16;
    if text.len() > room {
        let end = (0..=room).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        text.truncate(end);
        text.push_str("\n<cut: the outcome would be too large>\n");
    }
}

/// Bytes of its JSON.
fn size(value: &impl Serialize) -> usize {
    struct Count(usize);
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // What is no JSON is dealt with where it is written.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use thermae_schemas::{ErrorCode, ErrorInfo, Status};

    fn large(bytes: usize) -> MimeBundle {
        [("text/plain".to_owned(), "x".repeat(bytes).into())].into()
    }

    #[test]
    fn an_outcome_fits_whatever_the_code_did() {
        let mut outcome =
            Outcome::with_error(Status::Failed, ErrorInfo::new(ErrorCode::CodeRaised, "\0".repeat(9 << 20)));
        outcome.stdout = "\0".repeat(8 << 20);
        outcome.stderr = "\u{fffd}".repeat(3 << 20);
        outcome.stdout_base64 = Some("A".repeat(11 << 20));
        outcome.displays = vec![large(8 << 20), large(7 << 20)];
        outcome.value = Some(large(15 << 20));
        fit(&mut outcome);
        assert!(serde_json::to_vec(&outcome).unwrap().len() <= LARGEST + 1000);
        assert!(outcome.stdout.ends_with("<cut: the outcome would be too large>\n"));
        assert!(outcome.displays[0]["text/plain"].as_str().unwrap().contains("not shown"));
    }

    #[test]
    fn what_fits_is_left_as_it_is() {
        let mut outcome = Outcome::new(Status::Succeeded);
        outcome.stdout = "x".repeat(8 << 20);
        outcome.value = Some(large(5 << 20));
        let before = outcome.clone();
        fit(&mut outcome);
        assert_eq!(outcome, before);
    }
}
