//! Why a command fails, with a stable code.

use std::error::Error;
use std::process::ExitCode;

use serde_json::json;
use thermae_keys::{KeyId, StoreError, Uncreated};

/// Why a command did not do what it should.
#[derive(Debug)]
pub(super) struct Failure {
    status: u8,
    code: &'static str,
    message: String,
}

impl Failure {
    /// The command line or the configuration is wrong.
    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self { status: 2, code: "usage", message: message.into() }
    }

    /// There is no such key.
    pub(super) fn unknown(id: &KeyId) -> Self {
        Self { status: 2, code: "key_unknown", message: format!("there is no API key {id}") }
    }

    /// The program itself failed.
    pub(super) fn internal(error: &dyn Error) -> Self {
        Self { status: 3, code: "internal", message: chain(error) }
    }

    /// Standard output can't be written.
    pub(super) fn unwritten(error: &dyn Error) -> Self {
        Self { status: 2, code: "output_not_written", message: chain(error) }
    }

    /// Reports it, as JSON on standard output or as text on standard error, and gives the exit status.
    pub(super) fn report(&self, as_json: bool) -> ExitCode {
        if as_json {
            println!("{}", json!({ "error": { "code": self.code, "message": self.message } }));
        } else {
            eprintln!("error[{}]: {}", self.code, self.message);
        }
        ExitCode::from(self.status)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self { status: 3, code: StoreError::CODE, message: chain(&error) }
    }
}

impl From<Uncreated> for Failure {
    fn from(error: Uncreated) -> Self {
        match error {
            Uncreated::Store(error) => error.into(),
            Uncreated::Random(_) => Self::internal(&error),
            _ => Self::usage(error.to_string()),
        }
    }
}

/// An error and its causes in one line.
fn chain(error: &dyn Error) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(why) = cause {
        text += &format!(": {why}");
        cause = why.source();
    }
    text
}
