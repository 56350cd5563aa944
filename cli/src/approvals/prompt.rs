//! The question about a call, and what a typed line answers.

use std::fmt::Write;
use std::num::NonZeroU32;
use std::time::Duration;

use thermae_schemas::{Approval, JobId, JsonText, Verdict};

use crate::style::{BOLD, WARNING, paint};

/// Letters and symbols that print as nothing or as a space: fillers of Hangul, an empty pattern of Braille, blanks of
/// hieroglyphs, a notehead without a shape. All other characters without a shape are no letters.
const BLANK: [char; 8] =
    ['\u{115f}', '\u{1160}', '\u{2800}', '\u{3164}', '\u{ffa0}', '\u{13441}', '\u{13442}', '\u{1d159}'];

/// Most characters of arguments that are shown.
const MOST_SHOWN: usize = 10_000;

/// The question. The tool's name and the arguments come from the code.
pub(super) fn question(asked: &Approval) -> String {
    let (tool, pattern) = (escaped(&asked.tool), escaped(&asked.pattern));
    let mut text = format!("{}: the program calls {}\n", paint(WARNING, "approval"), paint(BOLD, &tool));
    let _ = writeln!(text, "  arguments  {}", arguments(&asked.arguments));
    let _ = writeln!(text, "  allowed by the pattern {pattern}; it waits for {}", wait(asked.within_ms));
    let choices = match asked.next.get() {
        _ if !is_whole(asked) => "[N, or unseen: also with what is not shown]".to_owned(),
        1 => "[y/N]".to_owned(),
        next => format!("[y/N, or a: all of the next {next} calls that the pattern takes, this one included]"),
    };
    let _ = write!(text, "Make this call? {choices} ");
    text
}

/// What a typed line answers. Whatever is no clear yes is a no. If the arguments were not shown whole, only a word of
/// its own is a yes: the code chooses what comes first in them.
pub(super) fn verdict(line: &str, asked: &Approval) -> Verdict {
    match (line.trim().to_ascii_lowercase().as_str(), is_whole(asked)) {
        ("y" | "yes", true) | ("unseen", false) => Verdict::approve(NonZeroU32::MIN),
        ("a" | "all", true) => Verdict::approve(asked.next),
        _ => Verdict::deny(None),
    }
}

/// Whether the arguments are shown whole.
fn is_whole(asked: &Approval) -> bool {
    asked.arguments.to_string().chars().nth(MOST_SHOWN).is_none()
}

/// How somebody else decides.
pub(super) fn elsewhere(run: &JobId, asked: &Approval) -> String {
    let (tool, wait) = (escaped(&asked.tool), wait(asked.within_ms));
    format!(
        "a call of {tool} waits {wait} for approval: thermae approvals list {run}, then thermae approvals approve {run} \
         {} (or deny)",
        asked.call
    )
}

/// Arguments in one line, as JSON.
pub(super) fn arguments(arguments: &JsonText) -> String {
    let whole = arguments.to_string();
    let Some((at, _)) = whole.char_indices().nth(MOST_SHOWN) else { return escaped(&whole) };
    format!("{} ... {} more characters are not shown", escaped(&whole[..at]), whole[at..].chars().count())
}

/// The text with every character spelled out that can't be seen, or that changes how others look.
pub(super) fn escaped(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        let shows = !c.is_ascii() && c.escape_debug().eq([c]) && !BLANK.contains(&c);
        let plain = c.is_ascii_graphic() || c == ' ' || shows;
        if plain {
            shown.push(c);
        } else {
            let _ = write!(shown, "{}", c.escape_unicode());
        }
    }
    shown
}

fn wait(ms: u64) -> String {
    let whole = Duration::from_secs(ms.div_ceil(1000));
    match whole.as_secs() {
        seconds @ ..120 => format!("{seconds} s"),
        seconds => format!("{} min", seconds / 60),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn asked(arguments: Value, next: u32) -> Approval {
        Approval {
            call: "c".into(),
            tool: "trans\u{202e}fer".into(),
            arguments: arguments.into(),
            pattern: "transfer".into(),
            next: NonZeroU32::new(next).unwrap(),
            reply_to: "acme.w".into(),
            within_ms: 240_000,
        }
    }

    #[test]
    fn nothing_that_is_shown_prints_as_nothing() {
        // Blank letters and symbols, and samples of each other kind without a shape.
        let blank = "\u{115f}\u{1160}\u{2800}\u{3164}\u{ffa0}\u{13441}\u{13442}\u{1d159}\u{a0}\u{ad}\u{34f}\u{180e}\
                     \u{2000}\u{200b}\u{202f}\u{2060}\u{3000}\u{fe0f}\u{feff}\u{e0020}\u{e0100}\u{85}\u{17b4}";
        let shown = escaped(blank);
        assert!(shown.is_ascii() && shown.matches("\\u{").count() == blank.chars().count(), "{shown}");
        assert_eq!(escaped("지불 ⠁ größe 漢字"), "지불 ⠁ größe 漢字");
    }

    #[test]
    fn what_the_code_chose_can_t_play_with_the_terminal() {
        let mut asked = asked(json!({}), 5);
        let hostile =
            "{\"\\u0074o\":\n\"\\u001b[2Jme\\nMake this call? \u{200b}\u{2028}é\", \"n\": 10000000000000000000001.50}";
        asked.arguments = JsonText::new(hostile.to_owned()).unwrap();
        let text = question(&asked);
        insta::assert_snapshot!(anstream::adapter::strip_str(&text).to_string(), @r#"
        approval: the program calls trans\u{202e}fer
          arguments  {"n":10000000000000000000001.50,"to":"\u001b[2Jme\nMake this call? \u{200b}\u{2028}é"}
          allowed by the pattern transfer; it waits for 4 min
        Make this call? [y/N, or a: all of the next 5 calls that the pattern takes, this one included]
        "#);
        let long = json!({ "text": "x".repeat(MOST_SHOWN) }).into();
        assert!(arguments(&long).ends_with("x ... 11 more characters are not shown"), "{}", arguments(&long));
    }

    #[test]
    fn a_yes_does_not_cover_what_was_not_shown_by_accident() {
        let padded = |length: usize| asked(json!({ "a": "x".repeat(length), "to": "me" }), 5);
        let (shown, cut) = (padded(100), padded(MOST_SHOWN));
        assert!(question(&shown).contains("[y/N, or a") && question(&cut).ends_with("what is not shown] "));
        assert!(!question(&cut).contains("y/N"));
        assert_eq!(verdict("unseen\n", &cut), Verdict::approve(NonZeroU32::MIN));
        for line in ["y", "yes", "a", "all", ""] {
            assert_eq!(verdict(line, &cut), Verdict::deny(None), "{line}");
        }
        assert_eq!(verdict("unseen", &shown), Verdict::deny(None));
    }

    #[test]
    fn only_a_clear_yes_is_one() {
        let next = &asked(json!({}), 5);
        for (line, calls) in [("y", 1), (" YES \n", 1), ("a", 5), ("All", 5)] {
            assert_eq!(verdict(line, next), Verdict::approve(NonZeroU32::new(calls).unwrap()), "{line}");
        }
        for line in ["", "n", "no", "yy", "5", "\u{4}", "y n", "ja"] {
            assert_eq!(verdict(line, next), Verdict::deny(None), "{line:?}");
        }
    }
}
