//! How large a set may be. A set beyond a bound is refused. Together, the bounds keep the work to decide one call
//! small.

/// Most bytes of a set, as JSON.
pub const LARGEST_SET: usize = 256 << 10;

/// Most capabilities in a set.
pub const MOST_CAPABILITIES: usize = 100;

/// Most sets in [`Rules`](crate::Rules): a job's own set, and one for each block that its token can have.
pub const MOST_SETS: usize = 17;

/// Longest pattern, in characters. The name of a tool has at most 128.
pub const LONGEST_PATTERN: usize = 256;

/// Most segments in a pattern.
pub const MOST_SEGMENTS: usize = 32;

/// Most constraints in a capability. `and` and `or` count, and so does all that is in them.
pub const MOST_CONSTRAINTS: usize = 64;

/// Deepest nesting of `and` and `or`.
pub const DEEPEST_CONSTRAINT: usize = 8;

/// Longest path, in characters.
pub const LONGEST_PATH: usize = 256;

/// Most segments in a path.
pub const MOST_STEPS: usize = 32;

/// Most values in the list of `in` or `not in`.
pub const MOST_LISTED: usize = 1000;

/// Most bytes of the value of a constraint, as JSON.
pub const LARGEST_VALUE: usize = 32 << 10;

/// Most bytes of a JSON Schema.
pub const LARGEST_SCHEMA: usize = 64 << 10;

/// Deepest allowed nesting of arrays and objects in sets and arguments.
pub const DEEPEST: usize = 100;

/// Most tried capabilities that a refusal lists.
pub const MOST_TOLD: usize = 5;

/// Longest text that a refusal or an error quotes, in characters.
pub const LONGEST_QUOTE: usize = 200;
