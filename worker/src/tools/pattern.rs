//! Regular expressions of schemas. JSON Schema gives them the meaning of ECMA-262 (with the flag `u`), and the engines
//! here have rules of their own. So each pattern is written anew, in those few constructs that both engines read alike.
//!
//! Nearly all patterns run in linear time. Look-around and backreferences need an engine that backtracks, within a
//! limit.

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::str::Chars;

/// Why a pattern can't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Error {
    #[error("\\{0} is no escape of ECMA-262")]
    Escape(char),
    #[error("it ends in the middle of a construct")]
    End,
    #[error("(?{0} begins no group of ECMA-262")]
    Group(char),
    #[error("a ) closes no group")]
    Close,
    #[error("there is nothing to repeat before {0}")]
    Repeat(char),
    #[error("a range in a class ends before it begins")]
    Range,
    #[error("a reference to a group that is not there")]
    Reference,
    #[error("two groups have one name")]
    Names,
    #[error("\\p{{…}} names no property of ECMA-262")]
    Property,
    #[error("a reference to a group that is repeated, or is in one: engines differ on what it has matched")]
    Repeated,
    #[error("a reference and a look-behind: engines differ on what comes first")]
    Behind,
}

/// A pattern as the engines read it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    pub(super) text: String,
    /// Whether it needs the engine that backtracks.
    pub(super) backtracks: bool,
    /// About how many bytes the engine takes to keep it.
    pub(super) size: u64,
}

/// What any pattern takes, in bytes. These sizes were measured with the engine that runs in linear time, which keeps the
/// automata of a pattern and of its reverse, and are rounded up.
const PATTERN_SIZE: u64 = 2_000;
/// What a character or a class takes.
const ATOM_SIZE: u64 = 100;
/// What each end of a range takes beside that, within ASCII and beyond. In UTF-8, one range of characters is several
/// ranges of bytes.
const END_SIZES: [u64; 2] = [20, 300];
/// What a negated class takes beside that.
const NEGATED_SIZE: u64 = 1_000;
/// What a property takes beside that. The largest ones are letters (`\p{L}`) and their like.
const PROPERTY_SIZE: u64 = 50_000;

const DIGITS: &[(u32, u32)] = &[(0x30, 0x39)];
const WORDS: &[(u32, u32)] = &[(0x30, 0x39), (0x41, 0x5a), (0x5f, 0x5f), (0x61, 0x7a)];
const SPACES: &[(u32, u32)] = &[
    (0x9, 0xd),
    (0x20, 0x20),
    (0xa0, 0xa0),
    (0x1680, 0x1680),
    (0x2000, 0x200a),
    (0x2028, 0x2029),
    (0x202f, 0x202f),
    (0x205f, 0x205f),
    (0x3000, 0x3000),
    (0xfeff, 0xfeff),
];
const LINE_ENDS: &[(u32, u32)] = &[(0xa, 0xa), (0xd, 0xd), (0x2028, 0x2029)];
const LAST: u32 = 0x10_ffff;

/// Values of the property General_Category, by both of their names.
const CATEGORIES: &str = "L Letter LC Cased_Letter Lu Uppercase_Letter Ll Lowercase_Letter Lt Titlecase_Letter Lm \
    Modifier_Letter Lo Other_Letter M Mark Combining_Mark Mn Nonspacing_Mark Mc Spacing_Mark Me Enclosing_Mark N Number \
    Nd Decimal_Number digit Nl Letter_Number No Other_Number P Punctuation punct Pc Connector_Punctuation Pd \
    Dash_Punctuation Ps Open_Punctuation Pe Close_Punctuation Pi Initial_Punctuation Pf Final_Punctuation Po \
    Other_Punctuation S Symbol Sm Math_Symbol Sc Currency_Symbol Sk Modifier_Symbol So Other_Symbol Z Separator Zs \
    Space_Separator Zl Line_Separator Zp Paragraph_Separator C Other Cc Control cntrl Cf Format Cs Surrogate Co \
    Private_Use Cn Unassigned";

/// Properties that a character has or has not, by both of their names.
const BINARY: &str = "ASCII Any Assigned Alphabetic Alpha ASCII_Hex_Digit AHex Bidi_Control Bidi_C Bidi_Mirrored Bidi_M \
    Case_Ignorable CI Cased Changes_When_Casefolded CWCF Changes_When_Casemapped CWCM Changes_When_Lowercased CWL \
    Changes_When_NFKC_Casefolded CWKCF Changes_When_Titlecased CWT Changes_When_Uppercased CWU Dash \
    Default_Ignorable_Code_Point DI Deprecated Dep Diacritic Dia Emoji Emoji_Component EComp Emoji_Modifier EMod \
    Emoji_Modifier_Base EBase Emoji_Presentation EPres Extended_Pictographic ExtPict Extender Ext Grapheme_Base Gr_Base \
    Grapheme_Extend Gr_Ext Hex_Digit Hex IDS_Binary_Operator IDSB IDS_Trinary_Operator IDST ID_Continue IDC ID_Start \
    IDS Ideographic Ideo Join_Control Join_C Logical_Order_Exception LOE Lowercase Lower Math Noncharacter_Code_Point \
    NChar Pattern_Syntax Pat_Syn Pattern_White_Space Pat_WS Quotation_Mark QMark Radical Regional_Indicator RI \
    Sentence_Terminal STerm Soft_Dotted SD Terminal_Punctuation Term Unified_Ideograph UIdeo Uppercase Upper \
    Variation_Selector VS White_Space space XID_Continue XIDC XID_Start XIDS";

/// Reads a pattern of ECMA-262. `backtracks` is whether the engine that backtracks will run it anyhow.
///
/// # Errors
/// It is none.
pub(super) fn read(pattern: &str, backtracks: bool) -> Result<Pattern, Error> {
    let groups = groups(pattern);
    let mut names = BTreeSet::new();
    if !groups.iter().filter(|name| !name.is_empty()).all(|name| names.insert(name)) {
        return Err(Error::Names);
    }
    let mut reader = Reader {
        chars: pattern.chars().peekable(),
        groups: &groups,
        text: String::with_capacity(pattern.len()),
        fancy: backtracks,
        backtracks: false,
        open: Vec::new(),
        captures: 0,
        repeated: BTreeSet::new(),
        behind: BTreeSet::new(),
        referred: BTreeSet::new(),
        sizes: vec![PATTERN_SIZE],
    };
    reader.read()?;
    let Reader { mut text, backtracks, repeated, behind, referred, sizes, .. } = reader;
    if !referred.is_disjoint(&repeated) {
        return Err(Error::Repeated);
    }
    if !referred.is_disjoint(&behind) {
        return Err(Error::Behind);
    }
    if backtracks {
        // Nothing else is to write the pattern anew, and what begins so is left alone.
        text.insert_str(0, "(?=)");
    }
    Ok(Pattern { text, backtracks, size: sizes.into_iter().fold(0, u64::saturating_add) })
}

/// What one part of a pattern takes, in bytes, as it was written anew.
fn size_of(part: &str) -> u64 {
    let properties = part.matches("\\p{").count() + part.matches("\\P{").count();
    let ends = part.split("\\x{").skip(1).filter_map(|rest| u32::from_str_radix(rest.split('}').next()?, 16).ok());
    let ends: u64 = ends.map(|code| END_SIZES[usize::from(code >= 0x80)]).sum();
    let negated = if part.starts_with("[^") { NEGATED_SIZE } else { 0 };
    ATOM_SIZE + ends + negated + properties as u64 * PROPERTY_SIZE
}

/// The names of a pattern's groups, in order. One without a name has an empty one.
fn groups(pattern: &str) -> Vec<String> {
    let (mut groups, mut in_class) = (Vec::new(), false);
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => {
                let rest: String = chars.clone().take(3).collect();
                if !rest.starts_with('?') {
                    groups.push(String::new());
                } else if rest.starts_with("?<") && !rest.starts_with("?<=") && !rest.starts_with("?<!") {
                    groups.push(chars.clone().skip(2).take_while(|c| *c != '>').collect());
                }
            }
            _ => {}
        }
    }
    groups
}

/// What an escape stands for.
enum Escaped {
    One(u32),
    /// Half of a pair, which no text has.
    Surrogate,
    Ranges(&'static [(u32, u32)], bool),
    /// `\p{…}` or `\P{…}`, as it is.
    Property(String),
}

/// What a group is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    Plain,
    Ahead,
    Behind,
}

struct Reader<'a> {
    chars: Peekable<Chars<'a>>,
    groups: &'a [String],
    text: String,
    /// Whether the engine that backtracks will run it.
    fancy: bool,
    /// Whether it needs that engine.
    backtracks: bool,
    /// The groups around this place, and how many captures began before each.
    open: Vec<(Group, usize)>,
    /// How many captures began so far. A capture's index is one less than its number.
    captures: usize,
    /// Captures that a loop repeats. ECMA-262 forgets them at each turn, and the engine does not.
    repeated: BTreeSet<usize>,
    /// Captures in a look-behind. ECMA-262 matches these from right to left, and the engine does not.
    behind: BTreeSet<usize>,
    /// Captures that are referred to.
    referred: BTreeSet<usize>,
    /// The sizes of the whole pattern and of the groups around this place, as far as they are read.
    sizes: Vec<u64>,
}

impl Reader<'_> {
    fn read(&mut self) -> Result<(), Error> {
        // Whether a quantifier may follow, and the captures and the size that it would repeat.
        let (mut repeats, mut closed, mut size) = (false, 0..0, 0_u64);
        while let Some(c) = self.chars.next() {
            let within = std::mem::replace(&mut closed, 0..0);
            let begin = self.text.len();
            let mut copies = None;
            repeats = match c {
                '\\' => self.escape()?,
                '[' => {
                    self.class()?;
                    true
                }
                '.' => {
                    self.ranges(LINE_ENDS, true);
                    true
                }
                '(' => {
                    self.open()?;
                    false
                }
                ')' => {
                    self.text.push(c);
                    let (group, first) = self.open.pop().ok_or(Error::Close)?;
                    closed = first..self.captures;
                    if group == Group::Behind {
                        self.behind.extend(closed.clone());
                    }
                    group == Group::Plain
                }
                '*' | '+' | '?' => {
                    self.quantifier(repeats, c)?;
                    if c != '?' {
                        self.repeated.extend(within);
                    }
                    self.text.push(c);
                    self.lazy();
                    copies = Some(1);
                    false
                }
                '{' => match self.bounds() {
                    Some(bounds) => {
                        self.quantifier(repeats, c)?;
                        if bounds.most.is_none_or(|most| most > 1) {
                            self.repeated.extend(within);
                        }
                        self.text.push_str(&bounds.text);
                        self.lazy();
                        copies = Some(bounds.most.unwrap_or(bounds.least.max(1)));
                        false
                    }
                    None => {
                        self.text.push_str("\\{");
                        true
                    }
                },
                '}' | ']' => {
                    self.text.extend(['\\', c]);
                    true
                }
                '|' | '^' | '$' => {
                    self.text.push(c);
                    false
                }
                _ => {
                    self.text.push(c);
                    true
                }
            };
            let read = size_of(&self.text[begin..]);
            size = match (c, copies) {
                // The engine has a copy of what it repeats for each time.
                (_, Some(copies)) => size.saturating_mul(copies).saturating_sub(size),
                (')', None) => read + self.sizes.pop().unwrap_or(0),
                _ => read,
            };
            if c == '(' {
                self.sizes.push(0);
            }
            if let Some(sum) = self.sizes.last_mut() {
                *sum = sum.saturating_add(size);
            }
        }
        if self.open.is_empty() { Ok(()) } else { Err(Error::End) }
    }

    fn quantifier(&self, repeats: bool, c: char) -> Result<(), Error> {
        if repeats { Ok(()) } else { Err(Error::Repeat(c)) }
    }

    fn lazy(&mut self) {
        if self.chars.next_if_eq(&'?').is_some() {
            self.text.push('?');
        }
    }

    /// The rest of `{n}`, `{n,}` or `{n,m}`; `None` if it is something else.
    fn bounds(&mut self) -> Option<Bounds> {
        let mut ahead = self.chars.clone();
        let inner: String = ahead.by_ref().take_while(|c| *c != '}').collect();
        let (low, high) = inner.split_once(',').unwrap_or((&inner, &inner));
        let is_number = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        let closed = self.chars.clone().nth(inner.chars().count()) == Some('}');
        if !closed || low.is_empty() || !is_number(low) || !is_number(high) {
            return None;
        }
        self.chars = ahead;
        let number = |text: &str| text.parse().unwrap_or(u64::MAX);
        let most = (!high.is_empty()).then(|| number(high));
        Some(Bounds { least: number(low), most, text: format!("{{{inner}}}") })
    }

    /// Begins a group. All groups are numbered, because a name may be none for the engines.
    fn open(&mut self) -> Result<(), Error> {
        let first = self.captures;
        let (group, captures) = match self.chars.next_if_eq(&'?') {
            None => (Group::Plain, true),
            Some(_) => match self.chars.next().ok_or(Error::End)? {
                ':' => (Group::Plain, false),
                c @ ('=' | '!') => {
                    self.text.push_str(&format!("(?{c}"));
                    (Group::Ahead, false)
                }
                '<' => match self.chars.next().ok_or(Error::End)? {
                    c @ ('=' | '!') => {
                        self.text.push_str(&format!("(?<{c}"));
                        (Group::Behind, false)
                    }
                    c if c.is_alphabetic() || matches!(c, '_' | '$') => {
                        while let c = self.chars.next().ok_or(Error::End)?
                            && c != '>'
                        {
                            if !c.is_alphanumeric() && !matches!(c, '_' | '$') {
                                return Err(Error::Group(c));
                            }
                        }
                        (Group::Plain, true)
                    }
                    c => return Err(Error::Group(c)),
                },
                c => return Err(Error::Group(c)),
            },
        };
        match (group, captures) {
            (Group::Plain, true) => {
                self.text.push('(');
                self.captures += 1;
            }
            (Group::Plain, false) => self.text.push_str("(?:"),
            _ => self.backtracks = true,
        }
        self.open.push((group, first));
        Ok(())
    }

    /// An escape outside a class. Returns whether it may be repeated.
    fn escape(&mut self) -> Result<bool, Error> {
        match self.chars.peek().copied().ok_or(Error::End)? {
            c @ ('b' | 'B') => {
                self.chars.next();
                self.boundary(c == 'B');
                return Ok(false);
            }
            '1'..='9' => {
                let mut number = 0usize;
                while let Some(digit) = self.chars.next_if(char::is_ascii_digit) {
                    number = number.saturating_mul(10).saturating_add(digit as usize - '0' as usize);
                }
                self.reference(number)?;
            }
            'k' => {
                self.chars.next();
                self.chars.next_if_eq(&'<').ok_or(Error::Escape('k'))?;
                let mut name = String::new();
                loop {
                    match self.chars.next().ok_or(Error::End)? {
                        '>' => break,
                        c => name.push(c),
                    }
                }
                let number = self.groups.iter().position(|group| *group == name && !name.is_empty());
                self.reference(number.map_or(0, |at| at + 1))?;
            }
            _ => match self.escaped()? {
                Escaped::One(code) => self.text.push_str(&one(code)),
                Escaped::Surrogate => self.never(),
                Escaped::Ranges(ranges, negated) => self.ranges(ranges, negated),
                Escaped::Property(text) => self.text.push_str(&text),
            },
        }
        Ok(true)
    }

    /// A reference to what a group has matched; nothing if the group has matched nothing so far.
    fn reference(&mut self, number: usize) -> Result<(), Error> {
        if number == 0 || number > self.groups.len() {
            return Err(Error::Reference);
        }
        if self.open.iter().any(|(group, _)| *group == Group::Behind) {
            return Err(Error::Behind);
        }
        self.referred.insert(number - 1);
        self.backtracks = true;
        self.text.push_str(&format!("(?({number})\\{number}|)"));
        Ok(())
    }

    /// The edge of a word of ASCII, or anything else.
    fn boundary(&mut self, negated: bool) {
        if !negated && !self.fancy {
            return self.text.push_str("(?-u:\\b)");
        }
        self.backtracks = true;
        let word = class(WORDS, false);
        let (one, other) = if negated { ("=", "!") } else { ("!", "=") };
        self.text.push_str(&format!("(?:(?<={word})(?{one}{word})|(?<!{word})(?{other}{word}))"));
    }

    fn ranges(&mut self, ranges: &[(u32, u32)], negated: bool) {
        self.text.push_str(&class(ranges, negated));
    }

    fn never(&mut self) {
        self.ranges(&[(0, LAST)], true);
    }

    /// What follows a backslash and means the same in a class and outside.
    fn escaped(&mut self) -> Result<Escaped, Error> {
        let c = self.chars.next().ok_or(Error::End)?;
        Ok(match c {
            'd' | 'D' => Escaped::Ranges(DIGITS, c == 'D'),
            'w' | 'W' => Escaped::Ranges(WORDS, c == 'W'),
            's' | 'S' => Escaped::Ranges(SPACES, c == 'S'),
            'p' | 'P' => {
                self.chars.next_if_eq(&'{').ok_or(Error::Escape(c))?;
                let mut name = String::new();
                loop {
                    match self.chars.next().ok_or(Error::End)? {
                        '}' => break,
                        c if c.is_ascii_alphanumeric() || matches!(c, '_' | '=') => name.push(c),
                        _ => return Err(Error::Escape(c)),
                    }
                }
                if !is_property(&name) {
                    return Err(Error::Property);
                }
                Escaped::Property(format!("\\{c}{{{name}}}"))
            }
            't' => Escaped::One(0x9),
            'n' => Escaped::One(0xa),
            'v' => Escaped::One(0xb),
            'f' => Escaped::One(0xc),
            'r' => Escaped::One(0xd),
            '0' if !self.chars.peek().is_some_and(char::is_ascii_digit) => Escaped::One(0),
            'c' => {
                let letter = self.chars.next_if(char::is_ascii_alphabetic).ok_or(Error::Escape('c'))?;
                Escaped::One(letter as u32 % 32)
            }
            'x' => Escaped::One(self.hex(2).ok_or(Error::Escape('x'))?),
            'u' => self.code_point().ok_or(Error::Escape('u'))?,
            c if c.is_alphanumeric() || c == '_' => return Err(Error::Escape(c)),
            c => Escaped::One(c as u32),
        })
    }

    /// So many hexadecimal digits. Reads nothing if they are not there.
    fn hex(&mut self, digits: usize) -> Option<u32> {
        let text: String = self.chars.clone().take(digits).collect();
        let valid = text.len() == digits && text.bytes().all(|b| b.is_ascii_hexdigit());
        let code = valid.then(|| u32::from_str_radix(&text, 16).ok()).flatten()?;
        self.chars.by_ref().take(digits).for_each(drop);
        Some(code)
    }

    /// The rest of `\u…`.
    fn code_point(&mut self) -> Option<Escaped> {
        if self.chars.next_if_eq(&'{').is_some() {
            let digits: String = std::iter::from_fn(|| self.chars.next_if(char::is_ascii_hexdigit)).collect();
            self.chars.next_if_eq(&'}')?;
            let code = u32::from_str_radix(&digits, 16).ok().filter(|code| *code <= LAST)?;
            return Some(if char::from_u32(code).is_some() { Escaped::One(code) } else { Escaped::Surrogate });
        }
        let high = self.hex(4)?;
        if char::from_u32(high).is_some() {
            return Some(Escaped::One(high));
        }
        let before = self.chars.clone();
        if high < 0xdc00
            && self.chars.next_if_eq(&'\\').is_some()
            && self.chars.next_if_eq(&'u').is_some()
            && let Some(low @ 0xdc00..=0xdfff) = self.hex(4)
        {
            return Some(Escaped::One(0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00)));
        }
        self.chars = before;
        Some(Escaped::Surrogate)
    }

    /// The rest of a class.
    fn class(&mut self) -> Result<(), Error> {
        let negated = self.chars.next_if_eq(&'^').is_some();
        let (mut ranges, mut properties) = (Vec::new(), String::new());
        loop {
            let first = match self.atom(&mut ranges, &mut properties)? {
                Atom::End => break,
                Atom::Many => continue,
                Atom::One(first) => first,
            };
            let mut ahead = self.chars.clone();
            if ahead.next() != Some('-') || ahead.next() == Some(']') {
                ranges.push((first, first));
                continue;
            }
            self.chars.next();
            match self.atom(&mut ranges, &mut properties)? {
                Atom::One(last) if last < first => return Err(Error::Range),
                Atom::One(last) => ranges.push((first, last)),
                // With a whole class at its end, the hyphen is one.
                Atom::Many | Atom::End => ranges.extend([(first, first), (0x2d, 0x2d)]),
            }
        }
        match (ranges.is_empty() && properties.is_empty(), negated) {
            (true, false) => self.never(),
            (true, true) => self.ranges(&[(0, LAST)], false),
            _ => {
                let hat = if negated { "^" } else { "" };
                self.text.push_str(&format!("[{hat}{}{properties}]", spans(&ranges)));
            }
        }
        Ok(())
    }

    /// One element of a class. What stands for many characters is added to the class at once.
    fn atom(&mut self, ranges: &mut Vec<(u32, u32)>, properties: &mut String) -> Result<Atom, Error> {
        let c = self.chars.next().ok_or(Error::End)?;
        if c == ']' {
            return Ok(Atom::End);
        }
        if c != '\\' {
            return Ok(Atom::One(c as u32));
        }
        if self.chars.next_if_eq(&'b').is_some() {
            return Ok(Atom::One(8));
        }
        match self.escaped()? {
            Escaped::One(code) => return Ok(Atom::One(code)),
            Escaped::Surrogate => {}
            Escaped::Ranges(of, false) => ranges.extend(of),
            Escaped::Ranges(of, true) => ranges.extend(others(of)),
            Escaped::Property(text) => properties.push_str(&text),
        }
        Ok(Atom::Many)
    }
}

/// How often something is repeated.
struct Bounds {
    least: u64,
    /// `None` if it has no limit.
    most: Option<u64>,
    /// As it is written, with its braces.
    text: String,
}

enum Atom {
    End,
    One(u32),
    Many,
}

/// Whether ECMA-262 has this property. It writes names exactly so, and the engines know further ones. They judge whether
/// a script is known.
fn is_property(name: &str) -> bool {
    let among = |names: &str, name: &str| names.split(' ').any(|one| one == name);
    match name.split_once('=') {
        None => among(CATEGORIES, name) || among(BINARY, name),
        Some(("General_Category" | "gc", value)) => among(CATEGORIES, value),
        Some((property, _)) => matches!(property, "Script" | "sc" | "Script_Extensions" | "scx"),
    }
}

/// A literal character.
fn one(code: u32) -> String {
    format!("\\x{{{code:x}}}")
}

fn spans(ranges: &[(u32, u32)]) -> String {
    ranges.iter().map(|(first, last)| format!("{}-{}", one(*first), one(*last))).collect()
}

fn class(ranges: &[(u32, u32)], negated: bool) -> String {
    format!("[{}{}]", if negated { "^" } else { "" }, spans(ranges))
}

/// All characters that are in none of these ranges, which are in order.
fn others(ranges: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let ends = ranges.iter().map(|(_, last)| last + 1);
    let begins = ranges.iter().map(|(first, _)| *first).chain([LAST + 1]);
    std::iter::once(0).chain(ends).zip(begins).filter(|(from, to)| from < to).map(|(from, to)| (from, to - 1)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use thermae_capabilities::Tree;

    use super::*;
    use crate::tools::schema::{Room, Schema};

    fn matches(pattern: &str, text: &str) -> bool {
        let schema = Schema::read(&json!({ "pattern": pattern }).to_string(), &mut Room::default())
            .unwrap_or_else(|e| panic!("{pattern}: {e}"));
        schema.check(&Tree::from(&json!(text)), text.len()).is_ok()
    }

    /// What ECMA-262 says of each: a pattern, texts that match, and texts that don't.
    const CASES: &[(&str, &[&str], &[&str])] = &[
        (r"^\<b\>$", &["<b>"], &["b", "\\<b\\>"]),
        (r"^a\-b\/c$", &["a-b/c"], &["ab/c"]),
        (r"^\d$", &["7"], &["\u{0667}", "x"]),
        (r"^\D$", &["\u{0667}", "x"], &["7"]),
        (r"^\w$", &["a", "_"], &["\u{e9}", "-"]),
        (r"^[\W]$", &["\u{e9}", "-"], &["a", "_"]),
        (r"^\s$", &["\u{feff}", "\u{2028}", "\u{a0}", "\u{b}"], &["\u{85}", "\u{180e}", "x"]),
        (r"^[^\S]$", &["\u{feff}", " "], &["\u{85}", "x"]),
        (r"^\u{1F600}$", &["\u{1f600}"], &["u"]),
        (r"^\uD83D\uDE00$", &["\u{1f600}"], &["x"]),
        (r"^[\uD83D\uDE00-\uD83D\uDE02]$", &["\u{1f601}"], &["\u{1f603}"]),
        (r"^.$", &["\u{1f600}", "\u{85}"], &["\n", "\r", "\u{2028}", "\u{2029}", "ab"]),
        (r"\uD83D", &[], &["\u{1f600}", ""]),
        (r"^\cJ\x41\0$", &["\nA\0"], &["cJA0"]),
        (r"^a$", &["a"], &["a\n", "\na"]),
        (r"^[^]$", &["\n", "x"], &["", "xx"]),
        (r"[]", &[], &["", "x", "]"]),
        (r"^(?<year>\d{4})-(?<$>\d\d)$", &["2024-05"], &["2024-5"]),
        (r"^(?!undefined$|null$)", &["nul", "x"], &["null", "undefined"]),
        (r"(?<!x)y$", &["ay", "y"], &["xy"]),
        (r"(?<=x)y$", &["xy"], &["ay", "y"]),
        (r"^(.)\1$", &["aa"], &["ab"]),
        (r"^(?<c>.)\k<c>$", &["aa"], &["ab"]),
        (r"^(?:(a)|b)\1$", &["aa", "b"], &["ba"]),
        (r"^(?=.*\d)(?=.*[A-Z]).{4,}$", &["Abc1"], &["abc1", "A1"]),
        (r"\bcat\b", &["a cat."], &["cats", "_cat"]),
        (r"\bcat\B", &["cats"], &["cat", "acats"]),
        (r"^(?=c)\bcat\b", &["cat"], &["cats"]),
        (r"^\p{Lu}\P{Lu}$", &["\u{c4}x"], &["xX"]),
        (r"^[\p{L}\d]+$", &["\u{e4}1"], &["-"]),
        (r"^{{.*}}$", &["{{x}}"], &["{x}"]),
        (r"^a{,2}$", &["a{,2}"], &["aa"]),
        (r"^a{2,3}?$", &["aa", "aaa"], &["a", "aaaa"]),
        (r"^[a&&b]+$", &["a&b"], &["c"]),
        (r"^[[a]$", &["[", "a"], &["]"]),
        (r"^[a-]$", &["a", "-"], &["b"]),
        (r"^[\w-.]+$", &["a-."], &["+"]),
        (r"^[\b]$", &["\u{8}"], &["b"]),
        (r"^\p{Script=Greek}\p{sc=Grek}\p{gc=Lu}$", &["\u{3b1}\u{3b2}A"], &["ab\u{3b1}"]),
        (r"^\p{Letter}\p{Sc}\p{digit}\p{space}$", &["a$1\u{2028}"], &["a11 ", "a$1x"]),
        (r"^\p{Any}\P{ASCII}\p{Emoji}$", &["\n\u{e9}\u{1f600}"], &["aaa"]),
        (r"^(?=a)a$", &["a"], &["a\n", "\na", "b\na"]),
        (r"^(a)?b\1$", &["aba", "b"], &["ba", "ab"]),
        (r"^(.)\1+$", &["aa", "aaa"], &["a", "ab"]),
        (r"^(?:x(?:y)*)+(['\x22]).\1$", &["xyyx'a'"], &["x'a\x22"]),
        (r"^(?<=^|,)a(?=,|$)", &["a", "a,b"], &["ab"]),
        (r"^#a b~~$", &["#a b~~"], &["a"]),
        (
            r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$",
            &["a.b@example.org"],
            &["a..b@example.org", ".a@example.org"],
        ),
    ];

    #[test]
    fn patterns_mean_what_ecma_262_says() {
        for (pattern, yes, no) in CASES {
            for text in *yes {
                assert!(matches(pattern, text), "{pattern} and {text:?}: {:?}", read(pattern, false));
            }
            for text in *no {
                assert!(!matches(pattern, text), "{pattern} and not {text:?}: {:?}", read(pattern, false));
            }
        }
    }

    #[test]
    fn patterns_of_other_languages_are_not_guessed_at() {
        for pattern in [
            r"^a\Z",
            r"\Aa",
            r"\h",
            r"a++",
            r"*a",
            r"(?P<n>a)",
            r"(?>a)",
            r"(?i)a",
            r"\k<n>",
            r"(a)\2",
            r"[b-a]",
            r"a\",
            r"[a",
            r"(a",
            r"a)",
            r"\p{Nothing}",
            r"\u12",
            r"\_",
            // Names of properties that ECMA-262 does not know, or not so.
            r"\p{Greek}",
            r"\p{letter}",
            r"\p{sc}",
            r"\p{Script=Nobody}",
            r"\p{Age=3.0}",
            r"\p{^L}",
            r"\pL",
            // Groups of other languages, and names that are none.
            r"(?<a-b>x)",
            r"(?<a b>x)",
            r"(?<1>x)",
            r"(?'a'x)",
            r"(?<a>x)(?<a>y)",
            r"(?:(?<a>x)|(?<a>y))\k<a>",
            r"(?a)",
            r"(?#x)",
            r"(?i:a)",
            r"(?|a)",
            r"(?(1)a|b)",
            // What a look-around has seen can't be repeated.
            r"(?=a)*",
            r"(?!a){2}",
            r"(?<=a)?",
            r"^*",
            r"\b+",
            r"a{3,2}",
            r"[z-\x41]",
            r"\c1",
            r"\01",
            r"\u{110000}",
            r"\Qa\E",
            r"\K",
            r"\G",
            r"\R",
        ] {
            assert!(
                Schema::read(&json!({ "pattern": pattern }).to_string(), &mut Room::default()).is_err(),
                "{pattern}"
            );
        }
    }

    /// In these, ECMA-262 and the engines differ on what a group has matched.
    #[test]
    fn what_no_engine_reads_as_ecma_262_does_is_refused() {
        for pattern in [
            // At each turn of a loop, ECMA-262 forgets what the groups in it have matched.
            r"^(?:(a)|b)*\1$",
            r"^(?:(a)|b\1)+$",
            r"^((a)|b){2}\2$",
            r"^(a|)*\1$",
            r"^(?:(?:(?<n>a))?b)+\k<n>$",
            // In a look-behind, it goes from right to left.
            r"(?<=(\d+)(\d+))\1$",
            r"(?<=\1(a))b",
            r"(a)(?<=\1)b",
            r"(?<!(?:x(y)))\1",
        ] {
            let why =
                Schema::read(&json!({ "pattern": pattern }).to_string(), &mut Room::default()).err().unwrap().brief();
            assert!(why.contains("engines differ"), "{pattern}: {why}");
        }
    }

    #[test]
    fn keys_are_patterns_and_values_are_none() {
        let schema = json!({
            "patternProperties": { r"^\<a": { "type": "string" }, r"^(?!_|<)": { "type": "integer" } },
            "properties": { "pattern": { "const": { "pattern": r"\<" } } },
            "additionalProperties": false,
        });
        let schema = Schema::read(&schema.to_string(), &mut Room::default()).unwrap();
        let check = |value: serde_json::Value| schema.check(&Tree::from(&value), 100).is_ok();
        assert!(check(json!({ "<a": "x", "b": 1 })));
        assert!(!check(json!({ "<a": 1 })) && !check(json!({ "b": "x" })) && !check(json!({ "_b": 1 })));
        let schema = Schema::read(
            &json!({ "properties": { "x": { "const": { "pattern": r"\<" } } } }).to_string(),
            &mut Room::default(),
        )
        .unwrap();
        assert!(schema.check(&Tree::from(&json!({ "x": { "pattern": r"\<" } })), 100).is_ok());
    }

    #[test]
    fn an_error_names_the_pattern_as_it_was() {
        let schema = Schema::read(&json!({ "pattern": r"^\d\-$" }).to_string(), &mut Room::default()).unwrap();
        let why = schema.check(&Tree::from(&json!("x")), 1).unwrap_err().why();
        assert!(why.contains(r"^\d\-$"), "{why}");
    }

    #[test]
    fn a_match_that_goes_back_too_often_fails() {
        let schema = Schema::read(&json!({ "pattern": r"^(?=(a+)+$)" }).to_string(), &mut Room::default()).unwrap();
        assert!(schema.check(&Tree::from(&json!("a".repeat(40) + "!")), 41).is_err());
        assert!(schema.check(&Tree::from(&json!("aaa")), 3).is_ok());
    }

    proptest! {
        /// Whatever it is, a pattern is compiled or refused.
        #[test]
        fn any_text_is_read_or_refused(pattern in r"[\\()\[\]{}?*+|^$.,<>=!:a-z0-9\-]{0,24}") {
            if let Ok(schema) = Schema::read(&json!({ "pattern": pattern }).to_string(), &mut Room::default()) {
                let _ = schema.check(&Tree::from(&json!("a-b")), 3);
            }
        }

        /// A text with all its special characters escaped matches itself and nothing else.
        #[test]
        fn an_escaped_text_is_itself(text in "[ -~\u{a0}-\u{ff}\u{1f600}-\u{1f6ff}]{0,12}", other in "[ -~]{0,12}") {
            let escaped: String =
                text.chars().flat_map(|c| (!c.is_alphanumeric() && c != '_').then_some('\\').into_iter().chain([c])).collect();
            let pattern = format!("^{escaped}$");
            prop_assert!(matches(&pattern, &text));
            prop_assert_eq!(matches(&pattern, &other), other == text);
        }
    }
}
