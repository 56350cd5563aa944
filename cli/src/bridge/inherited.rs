//! A socket that another process has passed on to this one.

use std::io;
use std::os::fd::{FromRawFd, RawFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::str::FromStr;

use rustix::io::FdFlags;

/// The number of a socket that was open when this process began. It is read from the command line, and so before the
/// process opens anything.
#[derive(Debug, Clone)]
pub(crate) struct Inherited(RawFd);

impl FromStr for Inherited {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number: RawFd = text.parse().map_err(|_| "it is not a number".to_owned())?;
        if number < 3 {
            return Err("0, 1 and 2 are the standard streams".to_owned());
        }
        let file = std::fs::metadata(format!("/proc/self/fd/{number}")).map_err(|_| "it is not open".to_owned())?;
        if file.file_type().is_socket() { Ok(Self(number)) } else { Err("it is not a socket".to_owned()) }
    }
}

impl Inherited {
    /// The socket itself, which no child of this process inherits. Must be called only once.
    pub(crate) fn take(&self) -> io::Result<UnixStream> {
        #[allow(unsafe_code)]
        // SAFETY: The descriptor was open before this process opened any, so nothing else in it owns the descriptor.
        // There is one `thermae bridge` in a process, and it calls this once.
        let socket = unsafe { UnixStream::from_raw_fd(self.0) };
        rustix::io::fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    }
}
