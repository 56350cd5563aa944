//! The messages of a token, as Biscuit's specification has them. What no token may have is kept as bytes, so that it
//! can be named when it is refused.

use prost::{Message, Oneof};

/// A token.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Biscuit {
    #[prost(uint32, optional, tag = "1")]
    pub(crate) root_key_id: Option<u32>,
    #[prost(message, required, tag = "2")]
    pub(crate) authority: SignedBlock,
    #[prost(message, repeated, tag = "3")]
    pub(crate) blocks: Vec<SignedBlock>,
    #[prost(message, required, tag = "4")]
    pub(crate) proof: Proof,
}

/// A block with its signature. The next block is signed with the key that belongs to `next_key`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct SignedBlock {
    #[prost(bytes = "vec", required, tag = "1")]
    pub(crate) block: Vec<u8>,
    #[prost(message, required, tag = "2")]
    pub(crate) next_key: NextKey,
    #[prost(bytes = "vec", required, tag = "3")]
    pub(crate) signature: Vec<u8>,
    #[prost(bytes = "vec", optional, tag = "4")]
    pub(crate) external_signature: Option<Vec<u8>>,
    /// Which bytes are signed.
    #[prost(uint32, optional, tag = "5")]
    pub(crate) version: Option<u32>,
}

/// A public key.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct NextKey {
    #[prost(int32, required, tag = "1")]
    pub(crate) algorithm: i32,
    #[prost(bytes = "vec", required, tag = "2")]
    pub(crate) key: Vec<u8>,
}

/// Shows that the last block is the last one.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Proof {
    #[prost(oneof = "Last", tags = "1, 2")]
    pub(crate) content: Option<Last>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Last {
    /// The private key with which a further block is signed.
    #[prost(bytes = "vec", tag = "1")]
    NextSecret(Vec<u8>),
    /// The token is sealed: this is signed with that key, which nobody has.
    #[prost(bytes = "vec", tag = "2")]
    FinalSignature(Vec<u8>),
}

/// What a block says.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Block {
    #[prost(string, repeated, tag = "1")]
    pub(crate) symbols: Vec<String>,
    #[prost(string, optional, tag = "2")]
    pub(crate) context: Option<String>,
    #[prost(uint32, optional, tag = "3")]
    pub(crate) version: Option<u32>,
    #[prost(message, repeated, tag = "4")]
    pub(crate) facts: Vec<Fact>,
    #[prost(bytes = "vec", repeated, tag = "5")]
    pub(crate) rules: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "6")]
    pub(crate) checks: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "7")]
    pub(crate) scope: Vec<Vec<u8>>,
    #[prost(bytes = "vec", repeated, tag = "8")]
    pub(crate) public_keys: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Fact {
    #[prost(message, required, tag = "1")]
    pub(crate) predicate: Predicate,
}

/// A name, which is the number of a text, and values.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Predicate {
    #[prost(uint64, required, tag = "1")]
    pub(crate) name: u64,
    #[prost(message, repeated, tag = "2")]
    pub(crate) terms: Vec<Term>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Term {
    #[prost(oneof = "Content", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10")]
    pub(crate) content: Option<Content>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Content {
    #[prost(uint32, tag = "1")]
    Variable(u32),
    #[prost(int64, tag = "2")]
    Integer(i64),
    /// The number of a text.
    #[prost(uint64, tag = "3")]
    String(u64),
    /// Seconds since 1970.
    #[prost(uint64, tag = "4")]
    Date(u64),
    #[prost(bytes = "vec", tag = "5")]
    Bytes(Vec<u8>),
    #[prost(bool, tag = "6")]
    Bool(bool),
    #[prost(bytes = "vec", tag = "7")]
    Set(Vec<u8>),
    #[prost(bytes = "vec", tag = "8")]
    Null(Vec<u8>),
    #[prost(bytes = "vec", tag = "9")]
    Array(Vec<u8>),
    #[prost(bytes = "vec", tag = "10")]
    Map(Vec<u8>),
}
