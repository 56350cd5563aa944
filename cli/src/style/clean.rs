//! Makes control sequences visible, so that a terminal doesn't obey them.

use std::fmt::Write;

/// Where a text comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// From others. Carriage returns stay, for progress bars.
    Output,
    /// From this program, with its own colours. Everything else in it is made visible.
    Styled,
}

/// Escapes every character that a terminal acts on, as in `\x1b` or `\u{202e}`: C0 and C1 controls except line ends and
/// tabs, DEL, bytes that are not UTF-8 (some terminals take them for C1 controls), and characters that change the
/// direction of writing. Colours stay in styled text.
pub(super) fn clean(bytes: &[u8], kind: Kind) -> Vec<u8> {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        let mut rest = chunk.valid();
        while let Some(c) = rest.chars().next() {
            let length = match colour(rest) {
                Some(length) if kind == Kind::Styled => length,
                _ => c.len_utf8(),
            };
            let (now, then) = rest.split_at(length);
            rest = then;
            if length > c.len_utf8() || harmless(c, kind) {
                out.push_str(now);
            } else if u32::from(c) < 0x100 {
                let _ = write!(out, "\\x{:02x}", u32::from(c));
            } else {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out.into_bytes()
}

fn harmless(c: char, kind: Kind) -> bool {
    match c {
        '\n' | '\t' => true,
        '\r' => kind == Kind::Output,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => false,
        c => !c.is_control(),
    }
}

/// Length of a colour or weight at the start of the text, as [`super::paint`] writes them; `None` if there is none.
fn colour(text: &str) -> Option<usize> {
    let (codes, _) = text.strip_prefix("\u{1b}[")?.split_once('m')?;
    let ours = ["", "0", "1", "2", "31", "32", "33", "36"].contains(&codes);
    ours.then(|| codes.len() + 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &[u8], kind: Kind) -> String {
        String::from_utf8(clean(text, kind)).unwrap()
    }

    #[test]
    fn what_a_terminal_obeys_is_shown() {
        for (text, expected) in [
            (&b"plain \xc3\xa9 \xe6\xb8\xa9\n\ttab\r\n"[..], "plain é 温\n\ttab\r\n"),
            (b"10%\r20%\r", "10%\r20%\r"),
            (b"\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
            (b"\x1b]0;title\x07", "\\x1b]0;title\\x07"),
            (b"\x1b]52;c;aGk=\x1b\\", "\\x1b]52;c;aGk=\\x1b\\"),
            (b"\x1b[6n\x1bP+q\x1bc", "\\x1b[6n\\x1bP+q\\x1bc"),
            ("\u{9b}6n\u{9d}".as_bytes(), "\\x9b6n\\x9d"),
            (b"\x9b6n\xff\x00\x08\x7f", "\\x9b6n\\xff\\x00\\x08\\x7f"),
            ("a\u{202e}b\u{2066}".as_bytes(), "a\\u{202e}b\\u{2066}"),
        ] {
            assert_eq!(shown(text, Kind::Output), expected, "{text:?}");
        }
    }

    #[test]
    fn our_own_colours_stay_and_nothing_else() {
        for style in [super::super::ERROR, super::super::WARNING, super::super::GOOD, super::super::HELP] {
            let text = super::super::paint(style, "text");
            assert_eq!(shown(text.as_bytes(), Kind::Styled), text);
        }
        for style in [super::super::DIM, super::super::BOLD] {
            let text = super::super::paint(style, "text");
            assert_eq!(shown(text.as_bytes(), Kind::Styled), text);
        }
        let hostile = b"\x1b[8mhidden\x1b[2J\x1b]0;t\x07\rback\x1b[";
        assert_eq!(shown(hostile, Kind::Styled), "\\x1b[8mhidden\\x1b[2J\\x1b]0;t\\x07\\x0dback\\x1b[");
    }
}
