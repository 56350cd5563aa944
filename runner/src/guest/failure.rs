//! Failures: the kernel's errors with their names.

use std::io;

use crate::frames::{ByteString, Failure};

/// Turns an error about that path into a [`Failure`].
pub(super) fn on<E: Into<io::Error>>(path: impl Into<ByteString>) -> impl FnOnce(E) -> Failure {
    |error| {
        let (path, error) = (path.into(), error.into());
        let text = error.to_string();
        let errno = error.raw_os_error().map_or_else(|| "EIO".to_owned(), name);
        // The standard library adds the number.
        let message = text.split_once(" (os error").map_or(text.as_str(), |(message, _)| message).to_owned();
        Failure { errno, path, message }
    }
}

/// A failure that the kernel would report with that error, and what it is about in words.
pub(super) fn because(path: impl Into<ByteString>, errno: i32, message: impl Into<String>) -> Failure {
    Failure { errno: name(errno), path: path.into(), message: message.into() }
}

/// The name of an error of the kernel.
fn name(errno: i32) -> String {
    let known = NAMES.iter().find(|(number, _)| *number == errno);
    known.map_or_else(|| format!("E{errno}"), |(_, name)| (*name).to_owned())
}

macro_rules! names {
    ($($name:ident)*) => { &[$((libc::$name, stringify!($name))),*] };
}

/// The errors of calls on files and of `execve`.
const NAMES: &[(i32, &str)] = names!(
    EPERM ENOENT EINTR EIO ENXIO E2BIG ENOEXEC EBADF EAGAIN ENOMEM EACCES EFAULT ENOTBLK EBUSY EEXIST EXDEV ENODEV
    ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY EFBIG ENOSPC ESPIPE EROFS EMLINK EPIPE ERANGE EDEADLK
    ENAMETOOLONG ENOLCK ENOSYS ENOTEMPTY ELOOP ENODATA EOVERFLOW EILSEQ EOPNOTSUPP ESTALE EDQUOT ELIBBAD ECANCELED
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_the_kernels_name_and_words() {
        let failure = on("a")(rustix::io::Errno::NOENT);
        assert_eq!((&*failure.errno, &*failure.message), ("ENOENT", "No such file or directory"));
        assert_eq!(name(libc::EDQUOT), "EDQUOT");
        assert_eq!(name(9999), "E9999");
        assert_eq!(on::<io::Error>("")(io::Error::other("x (y)")).errno, "EIO");
    }
}
