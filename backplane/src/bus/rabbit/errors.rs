//! Translates lapin's errors into the bus's errors.

use lapin::ErrorKind;
use thermae_service::tls;

use crate::bus::Error;

/// AMQP's reply codes for errors that a retry doesn't cure.
const ACCESS_REFUSED: u16 = 403;
const NOT_FOUND: u16 = 404;
const RESOURCE_LOCKED: u16 = 405;
const PRECONDITION_FAILED: u16 = 406;
const NOT_ALLOWED: u16 = 530;

/// The bus's error for an error of lapin.
pub(super) fn mapped(error: &lapin::Error) -> Error {
    let text = error.to_string();
    match error.kind() {
        ErrorKind::ProtocolError(amqp) => match amqp.get_id() {
            ACCESS_REFUSED | NOT_ALLOWED => Error::Denied(amqp.get_message().to_string()),
            // RabbitMQ uses this code for many errors. Only the text tells them apart.
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
        // With TLS 1.3, a server may refuse our certificate only after the handshake.
        ErrorKind::IOError(io) => match tls::refusal(&**io) {
            Some(refusal) => Error::Denied(refusal.to_string()),
            None => Error::Disconnected(text),
        },
        _ => Error::Disconnected(text),
    }
}

/// Whether the broker answered that the queue or exchange doesn't exist.
pub(super) fn is_not_found(error: &lapin::Error) -> bool {
    matches!(error.kind(), ErrorKind::ProtocolError(amqp) if amqp.get_id() == NOT_FOUND)
}

/// The error while there is no connection.
pub(super) fn down() -> Error {
    Error::Disconnected("not connected".to_owned())
}
