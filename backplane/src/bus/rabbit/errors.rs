//! What lapin's errors mean to the fleet.

use lapin::ErrorKind;

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
            NOT_FOUND | RESOURCE_LOCKED | PRECONDITION_FAILED => Error::Topology(amqp.get_message().to_string()),
            _ => Error::Disconnected(text),
        },
        ErrorKind::AuthProviderError(_) => Error::Denied(text),
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
