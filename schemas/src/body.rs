//! Messages as JSON texts.

use serde_json::Error;

use crate::{Cancel, Decision, Event, Job, Query, Request, RequestInput, ToolResult};

/// A message's body. Read and write bodies with this trait: serde's functions are generic, and each crate that calls them
/// compiles all code of the type again.
pub trait Body: Sized {
    /// Reads a body.
    ///
    /// # Errors
    /// The text is not JSON, or not of this type.
    fn parse(text: &[u8]) -> Result<Self, Error>;

    /// Writes the body.
    ///
    /// # Errors
    /// A value has no form in JSON.
    fn to_json(&self) -> Result<Vec<u8>, Error>;
}

macro_rules! bodies {
    ($($body:ty),*) => {$(
        impl Body for $body {
            fn parse(text: &[u8]) -> Result<Self, Error> {
                serde_json::from_slice(text)
            }

            fn to_json(&self) -> Result<Vec<u8>, Error> {
                serde_json::to_vec(self)
            }
        }
    )*};
}

bodies!(Cancel, Decision, Event, Job, Query, Request, RequestInput, ToolResult);
