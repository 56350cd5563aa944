//! Ranges of bytes of a file (RFC 9110): one range; a list of ranges is ignored, and the whole file sent.

use std::ops::Range;

/// What a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// All of the file.
    Whole,
    /// These bytes of it, which it has.
    Of(Range<u64>),
    /// Bytes that it doesn't have.
    Beyond,
}

/// Reads the header `Range` for a file of `size` bytes. What can't be read is ignored, as the standard says.
pub(crate) fn part(header: Option<&str>, size: u64) -> Part {
    let Some(range) = header.and_then(|text| text.trim().strip_prefix("bytes=")) else { return Part::Whole };
    let Some((first, last)) = range.trim().split_once('-') else { return Part::Whole };
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse::<u64>().unwrap_or(u64::MAX))
    };
    let (first, last) = (first.trim(), last.trim());
    let (begin, end) = match (number(first), number(last)) {
        (Some(begin), Some(end)) if begin <= end => (begin, end.saturating_add(1).min(size)),
        (Some(begin), None) if last.is_empty() => (begin, size),
        (None, Some(0)) if first.is_empty() => return Part::Beyond,
        (None, Some(most)) if first.is_empty() => (size.saturating_sub(most), size),
        _ => return Part::Whole,
    };
    if begin >= size { Part::Beyond } else { Part::Of(begin..end) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_what_the_file_has_of_it() {
        for (text, want) in [
            ("bytes=0-0", Part::Of(0..1)),
            ("bytes=2-", Part::Of(2..10)),
            ("bytes=-3", Part::Of(7..10)),
            ("bytes=-30", Part::Of(0..10)),
            ("bytes=8-99999999999999999999999", Part::Of(8..10)),
            ("bytes=10-", Part::Beyond),
            ("bytes=99999999999999999999999-", Part::Beyond),
            ("bytes=-0", Part::Beyond),
            ("bytes=3-2", Part::Whole),
            ("bytes=0-1,3-4", Part::Whole),
            ("bytes=a-b", Part::Whole),
            ("bytes=-", Part::Whole),
            ("bytes=+1-2", Part::Whole),
            ("lines=1-2", Part::Whole),
            ("", Part::Whole),
        ] {
            assert_eq!(part(Some(text), 10), want, "{text}");
        }
        assert_eq!((part(None, 10), part(Some("bytes=0-"), 0)), (Part::Whole, Part::Beyond));
    }
}
