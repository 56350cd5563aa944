//! What lapin's errors mean to the fleet.

use lapin::ErrorKind;
use thermae_service::tls;

use crate::bus::Error;

/// AMQP's reply codes that are not a matter of time.
const ACCESS_REFUSED: u16 = 403;
const NOT_FOUND: u16 = 404;
const RESOURCE_LOCKED: u16 = 405;
const PRECONDITION_FAILED: u16 = 406;
const NOT_ALLOWED: u16 = 530;

/// The error for our callers.
pub(super) fn mapped(error: &lapin::Error) -> Error {
    let text = error.to_string();
    match error.kind() {
        ErrorKind::ProtocolError(amqp) => match amqp.get_id() {
            ACCESS_REFUSED | NOT_ALLOWED => Error::Denied(amqp.get_message().to_string()),
            // One code for many things; the text tells them apart.
            PRECONDITION_FAILED if amqp.get_message().as_str().contains("user_id") => {
                Error::Denied(amqp.get_message().to_string())
            }
            PRECONDITION_FAILED if amqp.get_message().as_str().contains("message size") => {
                Error::TooLarge(amqp.get_message().to_string())
            }
            NOT_FOUND | RESOURCE_LOCKED | PRECONDITION_FAILED => Error::Topology(amqp.get_message().to_string()),
            _ => Error::Disconnected(text),
        },
        ErrorKind::AuthProviderError(_) => Error::Denied(text),
        // A server that refuses our certificate may say so after the handshake.
        ErrorKind::IOError(io) => match tls::refusal(&**io) {
            Some(refusal) => Error::Denied(refusal.to_string()),
            None => Error::Disconnected(text),
        },
        _ => Error::Disconnected(text),
    }
}

/// Whether the broker says that the queue or exchange is not there.
pub(super) fn is_not_found(error: &lapin::Error) -> bool {
    matches!(error.kind(), ErrorKind::ProtocolError(amqp) if amqp.get_id() == NOT_FOUND)
}

/// No connection at this moment.
pub(super) fn down() -> Error {
    Error::Disconnected("not connected".to_owned())
}
