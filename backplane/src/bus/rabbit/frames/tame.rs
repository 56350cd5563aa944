//! Makes what a tenant wrote harmless for the AMQP library, without changing any length.
//!
//! - Headers that are nested too deep, have too many values (each costs the library far more memory than it has bytes)
//!   or can't be read become one header, `x-death`. So nobody takes the message for one that came directly from its
//!   client.
//! - Bytes of names that are not UTF-8 become question marks.

/// Type of the frames that carry a method.
const METHOD: u8 = 1;
/// Type of the frames that carry properties.
const PROPERTIES: u8 = 2;

/// Most levels of tables and lists. RabbitMQ's own `x-death` has three.
const DEEPEST: usize = 8;
/// Most values in all headers of one message together.
const MOST: usize = 1024;

/// Methods that end with an exchange and a routing key: class and number of each.
const RETURN: [u8; 4] = [0, 60, 0, 50];
const DELIVER: [u8; 4] = [0, 60, 0, 60];
const GET_OK: [u8; 4] = [0, 60, 0, 71];

/// Whether a frame of this type can hold anything that a tenant wrote, apart from a body.
pub(super) fn concerns(kind: u8) -> bool {
    kind == METHOD || kind == PROPERTIES
}

/// Tames a frame. A frame that is malformed in other places is left as it is: the broker never sends one, and the
/// library would notice.
pub(super) fn frame(kind: u8, payload: &mut [u8]) {
    let _ = if kind == METHOD { method(payload) } else { properties(payload) };
}

fn method(payload: &mut [u8]) -> Option<()> {
    let (id, mut rest) = payload.split_first_chunk_mut::<4>()?;
    match *id {
        DELIVER => {
            name(&mut rest)?;
            take(&mut rest, 9)?;
        }
        GET_OK => drop(take(&mut rest, 9)?),
        RETURN => {
            take(&mut rest, 2)?;
            name(&mut rest)?;
        }
        _ => return None,
    }
    name(&mut rest)?;
    name(&mut rest)
}

fn properties(payload: &mut [u8]) -> Option<()> {
    // Class, weight, size of the body.
    let mut rest = payload.get_mut(12..)?;
    let flags = u16::from_be_bytes(take(&mut rest, 2)?.try_into().ok()?);
    // From the highest bit: two names, the headers, two numbers of one byte, four names, the time, and four names.
    for bit in (2..16).rev().filter(|bit| flags & (1 << bit) != 0) {
        match bit {
            13 => {
                let length = u32::from_be_bytes(take(&mut rest, 4)?.try_into().ok()?) as usize;
                headers(take(&mut rest, length)?);
            }
            11 | 12 => drop(take(&mut rest, 1)?),
            6 => drop(take(&mut rest, 8)?),
            _ => name(&mut rest)?,
        }
    }
    Some(())
}

fn headers(table: &mut [u8]) {
    let mut left = MOST;
    if fits(table, true, DEEPEST, &mut left).is_some() {
        return;
    }
    let put: &[u8] = b"\x07x-deathS";
    if let Some(length) = table.len().checked_sub(put.len() + 4) {
        table[..put.len()].copy_from_slice(put);
        table[put.len()..put.len() + 4].copy_from_slice(&(length as u32).to_be_bytes());
    }
}

/// Whether a table or list can be read and is not too large. Tames the names in it on the way.
fn fits(mut rest: &mut [u8], named: bool, deeper: usize, left: &mut usize) -> Option<()> {
    while !rest.is_empty() {
        *left = left.checked_sub(1)?;
        if named {
            name(&mut rest)?;
        }
        let fixed = match take(&mut rest, 1)?[0] {
            kind @ (b'S' | b'x' | b'A' | b'F') => {
                let length = u32::from_be_bytes(take(&mut rest, 4)?.try_into().ok()?) as usize;
                let inner = take(&mut rest, length)?;
                if matches!(kind, b'A' | b'F') {
                    fits(inner, kind == b'F', deeper.checked_sub(1)?, left)?;
                }
                continue;
            }
            b'V' => 0,
            b't' | b'b' | b'B' => 1,
            b's' | b'U' | b'u' => 2,
            b'I' | b'i' | b'f' => 4,
            b'D' => 5,
            b'L' | b'l' | b'd' | b'T' => 8,
            _ => return None,
        };
        take(&mut rest, fixed)?;
    }
    Some(())
}

/// Tames a short string, and moves `rest` behind it.
fn name(rest: &mut &mut [u8]) -> Option<()> {
    let length = usize::from(take(rest, 1)?[0]);
    let text = take(rest, length)?;
    while let Err(error) = std::str::from_utf8(text) {
        let bad = error.valid_up_to();
        text[bad..=bad].fill(b'?');
    }
    Some(())
}

fn take<'a>(rest: &mut &'a mut [u8], n: usize) -> Option<&'a mut [u8]> {
    let (taken, left) = std::mem::take(rest).split_at_mut_checked(n)?;
    *rest = left;
    Some(taken)
}
