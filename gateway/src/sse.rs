//! Writes server-sent events.

use bytes::Bytes;

/// Media type of a stream of events.
pub(crate) const MEDIA_TYPE: &str = "text/event-stream";

/// A comment, which only shows that the connection lives.
pub(crate) const HEARTBEAT: Bytes = Bytes::from_static(b":\n\n");

/// One event. `data` is text; without an id, the reader's last id stays.
pub(crate) fn event(id: Option<u64>, kind: &str, data: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(data.len() + kind.len() + 64);
    if let Some(id) = id {
        text.extend_from_slice(format!("id: {id}\n").as_bytes());
    }
    let kind: String = kind.chars().filter(|c| !c.is_control()).collect();
    text.extend_from_slice(format!("event: {kind}\n").as_bytes());
    for line in data.split(|byte| matches!(byte, b'\n' | b'\r')) {
        text.extend_from_slice(b"data: ");
        text.extend_from_slice(line);
        text.push(b'\n');
    }
    text.push(b'\n');
    text
}

/// Most bytes of an event with this data: JSON has no line breaks.
pub(crate) fn most(data: &[u8]) -> usize {
    data.len() + 256
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_data_can_begin_an_event_of_its_own() {
        let text = event(Some(7), "std\nout", b"a\r\nid: 9\n\nevent: x");
        assert_eq!(text, &b"id: 7\nevent: stdout\ndata: a\ndata: \ndata: id: 9\ndata: \ndata: event: x\n\n"[..]);
        assert_eq!(event(None, "closing", b"{}"), &b"event: closing\ndata: {}\n\n"[..]);
    }
}
