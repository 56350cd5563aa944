//! Opening channels.
//!
//! lapin (4.12.3) keeps the error by which the broker ended a channel under that channel's number, as long as the
//! connection lives, and fails whatever channel gets the number next with that old error (`Frames::channels_poison`).
//! Numbers go round, so this begins after 2,047 channels. Such numbers are passed over here; a connection that has no
//! others left is worn out.

use lapin::protocol::AMQPErrorKind;
use lapin::{Channel, Connection, ErrorKind};
use tokio_util::sync::CancellationToken;

use super::errors::mapped;
use crate::bus::Error;

/// A new channel. Cancels `worn` if the connection has no number left for one.
pub(super) async fn open(connection: &Connection, worn: &CancellationToken) -> Result<Channel, Error> {
    loop {
        match connection.create_channel().await {
            Ok(channel) => return Ok(channel),
            // Each failure takes a number away, so this ends.
            Err(error) if is_old(&error) && connection.status().connected() => {}
            Err(error) => {
                if matches!(error.kind(), ErrorKind::ChannelsLimitReached) {
                    tracing::debug!("a connection to RabbitMQ has no channel left");
                    worn.cancel();
                }
                return Err(mapped(&error));
            }
        }
    }
}

/// Whether an error ended an earlier channel. The broker refuses a new channel only by ending the whole connection.
fn is_old(error: &lapin::Error) -> bool {
    match error.kind() {
        ErrorKind::ProtocolError(amqp) => matches!(amqp.kind(), AMQPErrorKind::Soft(_)),
        ErrorKind::InvalidChannelState(..) => true,
        _ => false,
    }
}
