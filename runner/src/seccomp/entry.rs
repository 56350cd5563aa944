//! The entries of the tables of system calls: which calls, and under which conditions on their arguments.

use libc::c_long;

/// A group of system calls with a common condition.
pub(super) struct Entry {
    /// Numbers of the calls.
    pub(super) calls: &'static [c_long],
    /// Conditions on the arguments. All must hold; an empty list always does.
    pub(super) when: Vec<Arg>,
    /// Why it is in the table: for its readers, and for the tests that check it.
    #[cfg_attr(not(test), expect(dead_code, reason = "only people read it"))]
    pub(super) why: &'static str,
}

/// A test on one argument.
#[derive(Clone, Copy)]
pub(super) struct Arg {
    /// Number of the argument, from 0.
    pub(super) index: u8,
    /// What must hold.
    pub(super) test: Test,
}

/// The tests that the filter language has. All but [`Test::Null`] look at the low 32 bits.
#[derive(Clone, Copy)]
pub(super) enum Test {
    /// Equal.
    Is(u64),
    /// Not equal.
    Not(u64),
    /// Not above.
    AtMost(u64),
    /// A mask and a value: equal after masking.
    Masked(u64, u64),
    /// A null pointer: all 64 bits.
    Null,
}

pub(super) fn free(why: &'static str, calls: &'static [c_long]) -> Entry {
    Entry { calls, when: Vec::new(), why }
}

pub(super) fn when(why: &'static str, calls: &'static [c_long], index: u8, test: Test) -> Entry {
    Entry { calls, when: vec![Arg { index, test }], why }
}
