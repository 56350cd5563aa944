//! Frames: what an SDK and the bridge exchange.
//!
//! ```text
//!  u32 LE: bytes that follow │ u32 LE: bytes of the header │ header: a JSON object │ payload: any bytes
//!                            └───────────── a message, where the transport has messages ─────────────┘
//! ```

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio_util::codec::{Decoder, Encoder};

/// Most bytes of a header.
pub const LARGEST_HEADER: usize = 64 << 10;

/// Most bytes of a payload.
pub const LARGEST_PAYLOAD: usize = 32 << 20;

/// Most bytes of a message: of a frame without its first length.
pub const LARGEST_MESSAGE: usize = LENGTH + LARGEST_HEADER + LARGEST_PAYLOAD;

/// Bytes of a length.
const LENGTH: usize = 4;

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// A JSON object. A frame that was read may have something else here.
    pub header: Bytes,
    /// What the header describes.
    pub payload: Bytes,
}

/// Why no frame can be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The stream failed, or ended inside of a frame.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The lengths don't fit together, or are above their bounds.
    #[error("a frame of {message} bytes with a header of {header} bytes can't be read")]
    Lengths {
        /// Bytes of the frame without its first length.
        message: usize,
        /// Bytes of its header.
        header: usize,
    },
    /// What a transport with messages of its own has brought is no message for frames. The text says why.
    #[error("a message can't be read: {0}")]
    Message(String),
    /// No more of the message that comes may be held in memory.
    #[error("no more of a frame may be held in memory")]
    NoRoom,
}

/// Splits `message` bytes, of which `header` belong to the header, into header and payload. Returns the payload's size.
fn payload_size(message: usize, header: usize) -> Result<usize, Error> {
    let payload = message.checked_sub(LENGTH).and_then(|rest| rest.checked_sub(header));
    payload
        .filter(|payload| header <= LARGEST_HEADER && *payload <= LARGEST_PAYLOAD)
        .ok_or(Error::Lengths { message, header })
}

impl Frame {
    /// A frame without a payload.
    pub fn bare(header: impl Into<Bytes>) -> Self {
        Self { header: header.into(), payload: Bytes::new() }
    }

    /// Reads a frame without its first length.
    ///
    /// # Errors
    /// [`Error::Lengths`].
    pub fn parse(mut message: Bytes) -> Result<Self, Error> {
        let whole = message.len();
        let header = message.try_get_u32_le().map_err(|_| Error::Lengths { message: whole, header: 0 })? as usize;
        payload_size(whole, header)?;
        Ok(Self { header: message.split_to(header), payload: message })
    }

    /// Writes the frame without its first length.
    ///
    /// # Errors
    /// [`Error::Lengths`].
    pub fn into_message(self) -> Result<Bytes, Error> {
        let mut bytes = BytesMut::new();
        Codec.encode(self, &mut bytes)?;
        bytes.advance(LENGTH);
        Ok(bytes.freeze())
    }
}

/// Reads and writes frames on a stream of bytes.
#[derive(Debug, Default)]
pub struct Codec;

impl Decoder for Codec {
    type Item = Frame;
    type Error = Error;

    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<Frame>, Error> {
        // Nothing is reserved for a frame that is announced: its sender may never send it.
        let Some((lengths, _)) = bytes.split_first_chunk::<{ 2 * LENGTH }>() else { return Ok(None) };
        let mut lengths = &lengths[..];
        let (message, header) = (lengths.get_u32_le() as usize, lengths.get_u32_le() as usize);
        payload_size(message, header)?;
        if bytes.len() < LENGTH + message {
            return Ok(None);
        }
        bytes.advance(LENGTH);
        Frame::parse(bytes.split_to(message).freeze()).map(Some)
    }
}

impl Encoder<Frame> for Codec {
    type Error = Error;

    fn encode(&mut self, frame: Frame, bytes: &mut BytesMut) -> Result<(), Error> {
        let (header, payload) = (frame.header.len(), frame.payload.len());
        let message = LENGTH + header + payload;
        payload_size(message, header)?;
        bytes.reserve(LENGTH + message);
        // Both fit: the bounds are far below 4 GiB.
        bytes.put_u32_le(message as u32);
        bytes.put_u32_le(header as u32);
        bytes.extend_from_slice(&frame.header);
        bytes.extend_from_slice(&frame.payload);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(header: &'static str, payload: &'static [u8]) -> Frame {
        Frame { header: header.into(), payload: payload.into() }
    }

    #[test]
    fn frames_are_read_as_they_were_written_however_they_arrive() {
        let frames = [frame("{}", b""), frame(r#"{"type":"x"}"#, b"\0\xff"), frame("", b"1")];
        let mut written = BytesMut::new();
        for frame in frames.clone() {
            Codec.encode(frame, &mut written).unwrap();
        }
        assert_eq!(written[..10], [6, 0, 0, 0, 2, 0, 0, 0, b'{', b'}']);
        let (mut arrived, mut read) = (BytesMut::new(), Vec::new());
        for byte in written {
            arrived.put_u8(byte);
            read.extend(Codec.decode(&mut arrived).unwrap());
        }
        assert_eq!(read, frames);
        assert!(arrived.is_empty());
        for frame in frames {
            assert_eq!(Frame::parse(frame.clone().into_message().unwrap()).unwrap(), frame);
        }
    }

    #[test]
    fn lengths_that_do_not_fit_are_refused_before_anything_is_kept() {
        let refused = |message: usize, header: usize| {
            let mut bytes = BytesMut::new();
            bytes.put_u32_le(message as u32);
            bytes.put_u32_le(header as u32);
            let refused = Codec.decode(&mut bytes).is_err();
            assert!(bytes.capacity() < 4096, "room was made for a frame that is only announced");
            refused
        };
        assert!(!refused(LENGTH + LARGEST_HEADER + LARGEST_PAYLOAD, LARGEST_HEADER));
        assert!(refused(LENGTH + LARGEST_HEADER + LARGEST_PAYLOAD + 1, LARGEST_HEADER));
        assert!(refused(LENGTH + LARGEST_HEADER + 1, LARGEST_HEADER + 1));
        assert!(refused(LENGTH, 1) && refused(3, 0) && refused(0, 0) && refused(u32::MAX as usize, u32::MAX as usize));
    }

    #[test]
    fn a_frame_that_could_not_be_read_is_not_written() {
        let large = Frame { header: Bytes::from_static(b"{}"), payload: vec![0; LARGEST_PAYLOAD + 1].into() };
        assert!(matches!(Codec.encode(large, &mut BytesMut::new()), Err(Error::Lengths { .. })));
    }
}
