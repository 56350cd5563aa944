//! Patterns of tools' names: `files/*/read`, `search/**`.

use std::fmt;

use crate::{LONGEST_PATTERN, MOST_SEGMENTS};

/// A pattern of tools' names. The segments of names and patterns are separated by `/`, and by nothing else: `.`, `:`
/// and `-` belong to a segment. `*` stands for exactly one segment, `**` for any number of them, also none. Every other
/// segment stands for itself, letter by letter.
///
/// Patterns match the names that the job declares, and not the names by which the code calls the tools: `a_b` does not
/// match the tool `a.b`. A name with an empty segment, such as `a//b` or `/a`, is matched by no pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    segments: Vec<Segment>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Literal(String),
    /// `*`
    One,
    /// `**`
    Any,
}

/// Why a text is not a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadPattern {
    /// Nothing is in it.
    #[error("is empty; name a tool, or use \"**\" for all tools")]
    Empty,
    /// A segment is empty.
    #[error("has an empty segment; remove the slash at its start, at its end, or one of two")]
    EmptySegment,
    /// A star stands beside something else in a segment.
    #[error("has the segment {0:?}; a star stands for a whole segment, so a segment is a name, \"*\" or \"**\"")]
    Partial(String),
    /// It is longer than a pattern may be.
    #[error("has more than {LONGEST_PATTERN} characters")]
    Long,
    /// It has more segments than a pattern may have.
    #[error("has more than {MOST_SEGMENTS} segments")]
    Segments,
}

impl Pattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// The text is not a pattern.
    pub fn new(text: &str) -> Result<Self, BadPattern> {
        if text.is_empty() {
            return Err(BadPattern::Empty);
        }
        if text.chars().count() > LONGEST_PATTERN {
            return Err(BadPattern::Long);
        }
        let segment = |text: &str| match text {
            "" => Err(BadPattern::EmptySegment),
            "*" => Ok(Segment::One),
            "**" => Ok(Segment::Any),
            partial if partial.contains('*') => Err(BadPattern::Partial(partial.to_owned())),
            literal => Ok(Segment::Literal(literal.to_owned())),
        };
        let segments: Vec<_> = text.split('/').map(segment).collect::<Result<_, _>>()?;
        if segments.len() > MOST_SEGMENTS { Err(BadPattern::Segments) } else { Ok(Self { segments }) }
    }

    /// Whether the name of a tool matches.
    pub fn matches(&self, name: &str) -> bool {
        let names: Vec<_> = name.split('/').collect();
        !names.contains(&"")
            && table(&self.segments, &names, |segment, name| match segment {
                Segment::Literal(literal) => literal == name,
                Segment::One | Segment::Any => true,
            })
    }

    /// Whether every name that matches `other` matches this pattern. `true` only if that is proven.
    pub(crate) fn contains(&self, other: &Self) -> bool {
        // A `*` of `other` stands for names that no literal has, and a `**` for any number of them.
        table(&sorted(&self.segments), &sorted(&other.segments), |segment, of_other| match segment {
            Segment::Any => true,
            Segment::One => *of_other != Segment::Any,
            literal => literal == of_other,
        })
    }

    /// Whether a name can match both patterns.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        overlap(&self.segments, &other.segments)
    }
}

/// Whether a row of segments takes all of `items` in order. `**` takes any number of items for which `takes` is true,
/// and every other segment takes one. The time is the product of the lengths.
fn table<T>(segments: &[Segment], items: &[T], takes: impl Fn(&Segment, &T) -> bool) -> bool {
    // Whether the segments so far can take the first `n` items.
    let mut reach = vec![false; items.len() + 1];
    reach[0] = true;
    for segment in segments {
        let mut next = vec![false; items.len() + 1];
        let any = *segment == Segment::Any;
        next[0] = any && reach[0];
        for (n, item) in items.iter().enumerate() {
            let before = if any { next[n] } else { reach[n] };
            next[n + 1] = (before && takes(segment, item)) || (any && reach[n + 1]);
        }
        reach = next;
    }
    reach[items.len()]
}

/// The same pattern, with one `**` at the end of each row of stars. `**/*` and `*/**` mean the same.
fn sorted(segments: &[Segment]) -> Vec<Segment> {
    let mut sorted = Vec::with_capacity(segments.len());
    for stars in segments.chunk_by(|a, b| matches!((a, b), (Segment::One | Segment::Any, Segment::One | Segment::Any)))
    {
        sorted.extend(stars.iter().filter(|segment| **segment != Segment::Any).cloned());
        if stars.contains(&Segment::Any) {
            sorted.push(Segment::Any);
        }
    }
    sorted
}

/// Whether a name can match both rows of segments. The time is the product of the lengths.
fn overlap(a: &[Segment], b: &[Segment]) -> bool {
    // `below[j]`: whether what follows in `a` and `b[j..]` have a name in common.
    let only_any = |rest: &[Segment]| rest.iter().all(|segment| *segment == Segment::Any);
    let mut below: Vec<_> = (0..=b.len()).map(|j| only_any(&b[j..])).collect();
    for i in (0..a.len()).rev() {
        let mut here = vec![false; b.len() + 1];
        here[b.len()] = only_any(&a[i..]);
        for j in (0..b.len()).rev() {
            here[j] = match (&a[i], &b[j]) {
                (Segment::Any, _) | (_, Segment::Any) => below[j] || here[j + 1],
                (Segment::Literal(a), Segment::Literal(b)) => a == b && below[j + 1],
                _ => below[j + 1],
            };
        }
        below = here;
    }
    below[0]
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, segment) in self.segments.iter().enumerate() {
            let slash = if at == 0 { "" } else { "/" };
            let text = match segment {
                Segment::Literal(literal) => literal,
                Segment::One => "*",
                Segment::Any => "**",
            };
            write!(f, "{slash}{text}")?;
        }
        Ok(())
    }
}
