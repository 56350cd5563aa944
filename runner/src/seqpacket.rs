//! Sequenced-packet sockets that carry small messages with descriptors between the runner's own processes, and helpers
//! that send and receive descriptors over any Unix socket.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType,
};

/// Most descriptors in one message.
const MAX_FDS: usize = 8;

/// Largest message, in bytes.
const MAX_BYTES: usize = 64 << 10;

/// One end of a pair of sockets.
pub(crate) struct Packets(OwnedFd);

impl AsFd for Packets {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Packets {
    /// Two connected ends, closed on exec.
    pub(crate) fn pair() -> io::Result<(Self, Self)> {
        let (a, b) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Self(a), Self(b)))
    }

    /// Sends one message.
    pub(crate) fn send(&self, bytes: &[u8], fds: &[OwnedFd]) -> io::Result<()> {
        send_with_fds(self.as_fd(), bytes, fds).map(drop)
    }

    /// Receives one message; `UnexpectedEof` when the other end is closed.
    pub(crate) fn receive(&self) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
        let mut bytes = vec![0; MAX_BYTES];
        let (got, fds) = receive_with_fds(self.as_fd(), &mut bytes)?;
        if got == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.truncate(got);
        Ok((bytes, fds))
    }
}

/// Calls `recvmsg` once. Returns how many bytes came, and the descriptors that came with them.
pub(crate) fn receive_with_fds(from: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = loop {
        let mut into = [IoSliceMut::new(bytes)];
        match rustix::net::recvmsg(from, &mut into, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            other => break other?.bytes,
        }
    };
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    Ok((got, fds))
}

/// Calls `sendmsg` once, with the descriptors attached to the first byte. Returns how many bytes were sent.
pub(crate) fn send_with_fds<F: AsFd>(to: BorrowedFd<'_>, bytes: &[u8], fds: &[F]) -> io::Result<usize> {
    let rights: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !rights.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&rights)) {
        return Err(io::Error::other("too many descriptors"));
    }
    loop {
        match rustix::net::sendmsg(to, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL) {
            Err(rustix::io::Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}
