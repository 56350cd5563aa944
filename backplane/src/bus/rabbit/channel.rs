//! Opens channels.
//!
//! When the broker ends a channel with an error, lapin (4.12.3) keeps that error under the channel's number as long as
//! the connection lives (`Frames::channels_poison`). The next channel with the same number fails with the old error.
//! lapin reuses numbers after 2,047 channels, so the problem only begins then. This module skips such numbers. A
//! connection without any other number is worn out.

use lapin::protocol::AMQPErrorKind;
use lapin::{Channel, Connection, ErrorKind};
use tokio_util::sync::CancellationToken;

use super::errors::mapped;
use crate::bus::Error;

/// Opens a channel. Cancels `worn` if the connection has no number left for one.
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

/// Whether the error is the one that ended an earlier channel. The broker itself refuses a new channel only by ending
/// the whole connection.
fn is_old(error: &lapin::Error) -> bool {
    match error.kind() {
        ErrorKind::ProtocolError(amqp) => matches!(amqp.kind(), AMQPErrorKind::Soft(_)),
        ErrorKind::InvalidChannelState(..) => true,
        _ => false,
    }
}
