//! Keeps what a job's code has made within the size that a broker accepts. RabbitMQ 4 refuses messages above 16 MiB,
//! and a refused result would never reach its client.

use std::io;

use serde::Serialize;

use crate::bundle::{self, Bundle};
use crate::told::Told;

/// Largest part of a message that comes from a job's code, in bytes of JSON.
pub(crate) const LARGEST: usize = 15 << 20;

/// JSON writes one byte as at most six bytes (`\u0000`).
const WORST: usize = 6;

/// Displayed things and values of at most this many bytes are kept as long as possible.
const SMALL: usize = 64 << 10;

/// Cuts an outcome to at most `most` bytes of JSON. What was displayed last goes first, then the value, then the end of
/// the output. Notes replace them.
pub(crate) fn fit(told: &mut Told, most: usize) {
    let Told { outcome, value, displays } = told;
    let text = outcome.stdout.len() + outcome.stderr.len();
    let exact = outcome.stdout_base64.is_some() || outcome.stderr_base64.is_some();
    if displays.is_empty() && value.is_none() && !exact && text < most / WORST / 2 {
        return;
    }
    let mut total = size(outcome) + shown(&*displays) + shown(&*value);
    for bundle in displays.iter_mut().rev().chain(&mut *value) {
        let bytes = bundle.get().len();
        if total > most && bytes > SMALL {
            *bundle = note(bytes, most);
            total -= bytes;
        }
    }
    let displayed = shown(&*displays);
    if total > most && displayed > most / 2 {
        *displays = vec![note(displayed, most)];
        total -= displayed;
    }
    if total > most {
        (outcome.stdout_base64, outcome.stderr_base64) = (None, None);
        cut(&mut outcome.stdout, most);
        cut(&mut outcome.stderr, most);
    }
    if let Some(error) = outcome.error.as_mut().filter(|e| size(e) > most / 4) {
        cut(&mut error.message, most);
        error.traceback.iter_mut().for_each(|text| cut(text, most));
        error.exception.iter_mut().for_each(|text| cut(text, most));
    }
}

fn note(bytes: usize, most: usize) -> Bundle {
    bundle::note(&format!("{bytes} bytes not shown: the outcome would be larger than {most} bytes"))
}

/// Size of bundles in bytes, with a comma after each.
fn shown<'a>(bundles: impl IntoIterator<Item = &'a Bundle>) -> usize {
    bundles.into_iter().map(|bundle| bundle.get().len() + 1).sum()
}

/// Cuts a text so far that both streams and an error fit, whatever they contain.
fn cut(text: &mut String, most: usize) {
    let room = most / WORST / 16;
    if text.len() > room {
        let end = (0..=room).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
        text.truncate(end);
        text.push_str("\n<cut: the outcome would be too large>\n");
    }
}

/// Size of a value's JSON, in bytes.
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
    // A value that can't be written as JSON is dealt with where it is written.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

#[cfg(test)]
mod tests {
    use thermae_schemas::{ErrorCode, ErrorInfo, Outcome, Status};

    use super::*;

    fn large(bytes: usize) -> Bundle {
        bundle::note(&"x".repeat(bytes))
    }

    fn bytes(told: &Told) -> usize {
        size(&told.outcome) + shown(&told.value) + shown(&told.displays)
    }

    #[test]
    fn an_outcome_fits_whatever_the_code_did() {
        for most in [LARGEST, 1 << 20] {
            let mut outcome =
                Outcome::with_error(Status::Failed, ErrorInfo::new(ErrorCode::CodeRaised, "\0".repeat(9 << 20)));
            outcome.stdout = "\0".repeat(8 << 20);
            outcome.stderr = "\u{fffd}".repeat(3 << 20);
            outcome.stdout_base64 = Some("A".repeat(11 << 20));
            let displays = vec![large(8 << 20), large(7 << 20)];
            let mut told = Told { outcome, value: Some(large(15 << 20)), displays };
            fit(&mut told, most);
            assert!(bytes(&told) <= most + 1000, "{}", bytes(&told));
            assert!(told.outcome.stdout.ends_with("<cut: the outcome would be too large>\n"));
            assert!(told.displays[0].get().contains("not shown"));
        }
    }

    #[test]
    fn many_small_things_are_cut_together() {
        let mut told = Told::from(Outcome::new(Status::Succeeded));
        told.displays = vec![large(1000); 2000];
        fit(&mut told, 1 << 20);
        assert_eq!(told.displays.len(), 1);
        assert!(told.displays[0].get().contains("not shown"));
    }

    #[test]
    fn what_fits_is_left_as_it_is() {
        let mut told = Told::from(Outcome::new(Status::Succeeded));
        told.outcome.stdout = "x".repeat(8 << 20);
        told.value = Some(large(5 << 20));
        let (outcome, value) = (told.outcome.clone(), told.value.clone().unwrap());
        fit(&mut told, LARGEST);
        assert_eq!(told.outcome, outcome);
        assert_eq!(told.value.unwrap().get(), value.get());
    }
}
