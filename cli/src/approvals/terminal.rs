//! The terminal of the person who started the command. Standard input may be the program, or the program's own input.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;

use crate::style;

const TERMINAL: &str = "/dev/tty";

/// Whether a question can be shown and answered.
pub(super) fn is_there() -> bool {
    style::watched() && File::open(TERMINAL).is_ok()
}

/// Undoes what the program's output may have done to the terminal: colours that hide a text, other characters, lines
/// that do not scroll.
pub(super) fn calm() {
    if let Ok(mut terminal) = OpenOptions::new().write(true).open(TERMINAL) {
        let _ = terminal.write_all(b"\x1b[!p\x1b[0m\x0f");
    }
}

/// Drops the lines that were typed and that nobody has read.
pub(super) fn drop_typed() {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    let Ok(mut typed) = OpenOptions::new().read(true).custom_flags(flags).open(TERMINAL) else { return };
    let mut line = [0; 4096];
    while typed.read(&mut line).is_ok_and(|bytes| bytes > 0) {}
}

/// Waits for a line. `None` if there is no terminal any more.
pub(super) fn line() -> Option<String> {
    let mut line = String::new();
    BufReader::new(File::open(TERMINAL).ok()?).read_line(&mut line).ok()?;
    Some(line)
}
