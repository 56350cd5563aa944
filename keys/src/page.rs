//! Lists of keys, page by page.

use std::fmt;
use std::str::FromStr;

use thermae_schemas::TenantName;

use crate::{Key, KeyId};

/// Most keys of a page.
pub const LARGEST_PAGE: u16 = 200;

/// Which keys to list, in the order in which they were made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// Only keys of this tenant.
    pub tenant: Option<TenantName>,
    /// Only keys after this place.
    pub after: Option<Cursor>,
    /// Most keys, from 1 to [`LARGEST_PAGE`]. Other numbers count as the nearest of these.
    pub most: u16,
}

impl Default for Query {
    /// The first page of all keys.
    fn default() -> Self {
        Self { tenant: None, after: None, most: LARGEST_PAGE }
    }
}

/// A page of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The keys.
    pub keys: Vec<Key>,
    /// Where the next page begins. `None` if this is the last one.
    pub next: Option<Cursor>,
}

impl Listed {
    /// A page of at most so many of these keys. There is a next page if there are more.
    pub(crate) fn cut(mut keys: Vec<Key>, most: usize) -> Self {
        let more = keys.len() > most;
        keys.truncate(most);
        let next = keys.last().filter(|_| more).map(|key| Cursor { created_ms: key.created_ms, id: key.id.clone() });
        Self { keys, next }
    }
}

impl Query {
    pub(crate) fn size(&self) -> usize {
        self.most.clamp(1, LARGEST_PAGE).into()
    }
}

/// A place in a list of keys. Its text is only for the one who made it. It stays right if keys are made or revoked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    pub(crate) created_ms: u64,
    pub(crate) id: KeyId,
}

/// A text that is no cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the text is no cursor of a list of API keys")]
pub struct BadCursor;

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.created_ms, self.id)
    }
}

impl FromStr for Cursor {
    type Err = BadCursor;

    fn from_str(text: &str) -> Result<Self, BadCursor> {
        let (created, id) = text.split_once('-').ok_or(BadCursor)?;
        let created: i64 = created.parse().map_err(|_| BadCursor)?;
        let created_ms = u64::try_from(created).map_err(|_| BadCursor)?;
        let cursor = Self { created_ms, id: id.parse().map_err(|_| BadCursor)? };
        if cursor.to_string() == text { Ok(cursor) } else { Err(BadCursor) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_back_and_nothing_else_is() {
        let text = "1800000000123-0123456789abcdef";
        assert_eq!(text.parse::<Cursor>().unwrap().to_string(), text);
        for bad in
            ["", "-", "1", "-1-0123456789abcdef", "+1-0123456789abcdef", "1-0123456789ABCDEF", "01-0123456789abcdef"]
        {
            assert_eq!(bad.parse::<Cursor>(), Err(BadCursor), "{bad}");
        }
        assert_eq!(format!("{}-0123456789abcdef", u64::MAX).parse::<Cursor>(), Err(BadCursor));
    }
}
