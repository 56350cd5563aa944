//! Messages in pieces. The buffers of a WebSocket stay as large as the largest frame that they have had, as long as the
//! connection lasts, and nobody counts them. So no frame is large, of those that are read and of those that are written.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{BufMut, Bytes, BytesMut};
use thermae_bridge::frames::LARGEST_MESSAGE;
use tokio::io::{AsyncBufRead, AsyncRead, BufReader, ReadBuf};
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::frame::{Frame, FrameHeader};

/// Most bytes of a message that one frame has. Four divide it, so that the mask of a frame fits each of its pieces.
pub(super) const PIECE: usize = 16 << 10;

/// Most bytes of a frame's header (RFC 6455, section 5.2).
const LARGEST_HEADER: usize = 14;

/// The frames of a message that leaves.
pub(super) fn pieces(mut message: Bytes) -> impl Iterator<Item = Frame> {
    let mut kind = Data::Binary;
    std::iter::from_fn(move || {
        let piece = message.split_to(message.len().min(PIECE));
        let frame = || Frame::message(piece.clone(), OpCode::Data(kind), message.is_empty());
        let frame = (!piece.is_empty()).then(frame);
        kind = Data::Continue;
        frame
    })
}

/// A connection, the large frames of which are read as several, as any intermediary may split them (RFC 6455, section
/// 5.4). Frames that can't be read as parts of a message stay as they are.
pub(super) struct Pieces<S> {
    stream: BufReader<S>,
    /// The part of a frame's header that has come.
    came: Vec<u8>,
    /// What is given before anything else.
    given: BytesMut,
    /// Bytes of the piece that are still to come.
    piece: u64,
    /// What follows the piece: the header of the frame's next one, and the bytes of them all.
    rest: Option<(FrameHeader, u64)>,
    /// Whether frames can't be told apart any more.
    unread: bool,
}

impl<S: AsyncRead> Pieces<S> {
    pub(super) fn of(stream: S) -> Self {
        let stream = BufReader::with_capacity(PIECE, stream);
        Self { stream, came: Vec::new(), given: BytesMut::new(), piece: 0, rest: None, unread: false }
    }

    /// Takes a byte of a header.
    fn header(&mut self, byte: u8) {
        self.came.push(byte);
        match FrameHeader::parse(&mut io::Cursor::new(&self.came)) {
            Ok(None) if self.came.len() < LARGEST_HEADER => {}
            Ok(Some((header, bytes))) => {
                self.came.clear();
                self.next_piece(header, bytes);
            }
            _ => {
                self.unread = true;
                self.given.extend_from_slice(&self.came);
            }
        }
    }

    /// Begins a piece of a frame that has this header, and so many bytes left.
    fn next_piece(&mut self, mut header: FrameHeader, bytes: u64) {
        let reserved = header.rsv1 || header.rsv2 || header.rsv3;
        let whole = reserved || matches!(header.opcode, OpCode::Control(_)) || bytes > LARGEST_MESSAGE as u64;
        self.piece = if whole { bytes } else { bytes.min(PIECE as u64) };
        let rest = bytes - self.piece;
        let is_final = header.is_final;
        header.is_final &= rest == 0;
        // Nothing fails there.
        let _ = header.format(self.piece, &mut (&mut self.given).writer());
        self.rest =
            (rest > 0).then_some((FrameHeader { is_final, opcode: OpCode::Data(Data::Continue), ..header }, rest));
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Pieces<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            if !this.given.is_empty() {
                let given = this.given.split_to(this.given.len().min(buf.remaining()));
                buf.put_slice(&given);
                return Poll::Ready(Ok(()));
            }
            if this.unread {
                return Pin::new(&mut this.stream).poll_read(cx, buf);
            }
            if this.piece == 0
                && let Some((header, bytes)) = this.rest.take()
            {
                this.next_piece(header, bytes);
                continue;
            }
            let came = ready!(Pin::new(&mut this.stream).poll_fill_buf(cx))?;
            let Some(&first) = came.first() else { return Poll::Ready(Ok(())) };
            if this.piece == 0 {
                Pin::new(&mut this.stream).consume(1);
                this.header(first);
                continue;
            }
            let piece = usize::try_from(this.piece).unwrap_or(usize::MAX);
            let part = &came[..came.len().min(piece).min(buf.remaining())];
            buf.put_slice(part);
            let part = part.len();
            Pin::new(&mut this.stream).consume(part);
            this.piece -= part as u64;
            return Poll::Ready(Ok(()));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio_tungstenite::tungstenite::protocol::frame::coding::Control;

    use super::*;

    /// Gives these bytes in parts of at most so many, and gets what is read.
    async fn read(bytes: Vec<u8>, at_once: usize) -> Vec<u8> {
        let (mut theirs, ours) = duplex(at_once);
        let sending = async {
            theirs.write_all(&bytes).await.unwrap();
            drop(theirs);
        };
        let (mut pieces, mut read) = (Pieces::of(ours), Vec::new());
        let (_, all) = tokio::join!(sending, pieces.read_to_end(&mut read));
        assert_eq!(all.unwrap(), read.len());
        read
    }

    /// A frame of bytes of one value, masked or not.
    fn frame(header: &FrameHeader, bytes: usize) -> Vec<u8> {
        let mut frame = Vec::new();
        header.format(bytes as u64, &mut frame).unwrap();
        frame.extend((0..bytes).map(|at| 7 ^ header.mask.map_or(0, |mask| mask[at % 4])));
        frame
    }

    /// The frames in these bytes: their headers, and what they have once it is no more masked.
    fn frames(mut bytes: &[u8]) -> Vec<(FrameHeader, Vec<u8>)> {
        let mut frames = Vec::new();
        while !bytes.is_empty() {
            let mut cursor = io::Cursor::new(bytes);
            let (header, length) = FrameHeader::parse(&mut cursor).unwrap().expect("a whole header");
            let from = cursor.position() as usize;
            let mut content = bytes[from..from + length as usize].to_vec();
            content.iter_mut().enumerate().for_each(|(at, byte)| *byte ^= header.mask.map_or(0, |mask| mask[at % 4]));
            bytes = &bytes[from + length as usize..];
            frames.push((header, content));
        }
        frames
    }

    fn opcodes() -> impl Strategy<Value = OpCode> {
        let data = prop::sample::select(vec![Data::Binary, Data::Text, Data::Continue]).prop_map(OpCode::Data);
        let control = prop::sample::select(vec![Control::Ping, Control::Pong]).prop_map(OpCode::Control);
        prop_oneof![3 => data, 1 => control]
    }

    proptest! {
        #[test]
        fn every_byte_comes_in_its_message_and_no_frame_is_large(
            sent in prop::collection::vec((opcodes(), any::<bool>(), any::<Option<[u8; 4]>>(), 0..4 * PIECE), 1..6),
            at_once in 1..2 * PIECE,
        ) {
            let sent: Vec<_> = sent.into_iter().map(|(opcode, is_final, mask, bytes)| {
                let control = matches!(opcode, OpCode::Control(_));
                let header = FrameHeader { is_final: is_final || control, opcode, mask, ..FrameHeader::default() };
                (header, if control { bytes % 126 } else { bytes })
            }).collect();
            let bytes = sent.iter().flat_map(|(header, bytes)| frame(header, *bytes)).collect();
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let mut came = frames(&runtime.block_on(read(bytes, at_once))).into_iter();
            for (header, bytes) in sent {
                let (mut opcode, mut left) = (header.opcode, bytes);
                loop {
                    let (piece, content) = came.next().expect("another frame");
                    prop_assert!(content.len() <= PIECE && content.iter().all(|byte| *byte == 7));
                    prop_assert_eq!((piece.opcode, piece.mask), (opcode, header.mask));
                    left -= content.len();
                    prop_assert_eq!(piece.is_final, header.is_final && left == 0);
                    if left == 0 {
                        break;
                    }
                    opcode = OpCode::Data(Data::Continue);
                }
            }
            prop_assert!(came.next().is_none());
        }

        #[test]
        fn a_message_leaves_in_small_frames(bytes in 1..4 * PIECE) {
            let all: Vec<_> = pieces(vec![7; bytes].into()).collect();
            prop_assert_eq!(all.iter().map(|frame| frame.payload().len()).sum::<usize>(), bytes);
            prop_assert!(all.iter().all(|frame| (1..=PIECE).contains(&frame.payload().len())));
            let kinds: Vec<_> = all.iter().map(|frame| (frame.header().opcode, frame.header().is_final)).collect();
            prop_assert_eq!(kinds[0].0, OpCode::Data(Data::Binary));
            prop_assert!(kinds[1..].iter().all(|(opcode, _)| *opcode == OpCode::Data(Data::Continue)));
            prop_assert_eq!(kinds.iter().position(|(_, is_final)| *is_final), Some(kinds.len() - 1));
        }
    }

    #[tokio::test]
    async fn what_is_no_part_of_a_message_stays_as_it_is() {
        let reserved = FrameHeader { rsv1: true, opcode: OpCode::Data(Data::Binary), ..FrameHeader::default() };
        let reserved = frame(&reserved, 3 * PIECE);
        // An opcode that nobody knows, with bytes that look like frames behind it; and half a header.
        let unknown = [&[0x83, 0x05][..], &[0x82; 3 * PIECE]].concat();
        for bytes in [reserved, unknown] {
            assert_eq!(read(bytes.clone(), 1000).await, bytes);
        }
        assert!(read(vec![0x82, 0xff, 0], 1000).await.is_empty());
        // What is longer than any message is refused by its length, before more of it comes.
        let mut longest = Vec::new();
        let binary = FrameHeader { opcode: OpCode::Data(Data::Binary), ..FrameHeader::default() };
        binary.format(u64::MAX >> 1, &mut longest).unwrap();
        assert_eq!(read(longest.clone(), 1000).await, longest);
    }
}
