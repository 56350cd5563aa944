//! Frames that would harm the library, read in pieces of several sizes.

use futures::AsyncReadExt;

use super::*;

fn name(text: &[u8]) -> Vec<u8> {
    [&[text.len() as u8], text].concat()
}

fn sized(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes(), bytes].concat()
}

fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    [&[kind, 0, 1], sized(payload).as_slice(), &[0xce]].concat()
}

/// A frame of properties with these headers and this message id.
fn properties(headers: &[u8], id: &[u8]) -> Vec<u8> {
    let fixed = [0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x20, 0x80];
    frame(2, &[&fixed, sized(headers).as_slice(), &name(id)].concat())
}

fn nested(levels: usize) -> Vec<u8> {
    let inner = (0..levels).fold(b"V".to_vec(), |inner, _| [b"A".to_vec(), sized(&inner)].concat());
    [name(b"h"), inner].concat()
}

async fn passed(bytes: &[u8]) -> Vec<u8> {
    let mut read = Vec::new();
    Frames::new(bytes).read_to_end(&mut read).await.unwrap();
    read
}

#[tokio::test]
async fn what_is_harmless_passes_as_it_is() {
    let count = [name(b"count"), b"l\0\0\0\0\0\0\0\x01".to_vec()].concat();
    let death = [name(b"x-death"), b"A".to_vec(), sized(&[b"F".to_vec(), sized(&count)].concat())].concat();
    let other = [name("é".as_bytes()), b"S".to_vec(), sized(b"\xff\xfe")].concat();
    let deliver = [&[0, 60, 0, 60][..], &name(b"tag"), &[0; 9], &name(b"submit"), &name(b"acme.cancel")].concat();
    for bytes in [
        properties(&[death, other].concat(), b"id"),
        properties(&nested(7), "温".as_bytes()),
        frame(1, &deliver),
        frame(3, &[0xff; 300_000]),
        frame(8, b""),
        b"AMQP\0\0\x09\x01".to_vec(),
    ] {
        let twice = [bytes.clone(), bytes].concat();
        assert_eq!(passed(&twice).await, twice);
    }
}

#[tokio::test]
async fn what_would_harm_is_made_harmless() {
    let voids = [name(b"h"), b"A".to_vec(), sized(&[b'V'; 100_000])].concat();
    let unknown = [name(b"long-enough"), b"z\0\0\0\0".to_vec()].concat();
    for headers in [nested(9), nested(20_000), voids, unknown] {
        let tamed = passed(&properties(&headers, b"id")).await;
        let text = [name(b"x-death"), b"S".to_vec()].concat();
        assert_eq!(tamed.len(), properties(&headers, b"id").len());
        assert_eq!(tamed[25..34], text, "{:?}", &tamed[..40]);
        assert!(tamed.ends_with(b"\x02id\xce"));
    }
    let key = [name(b"k\xff"), b"V".to_vec()].concat();
    let tamed = [name(b"k?"), b"V".to_vec()].concat();
    assert_eq!(passed(&properties(&key, b"\xe6\xb8")).await, properties(&tamed, b"??"));
    let names = |exchange: &[u8], key: &[u8]| [name(exchange), name(key)].concat();
    for head in
        [&b"\0\x3c\0\x3c\x01t\0\0\0\0\0\0\0\0\0"[..], b"\0\x3c\0\x47\0\0\0\0\0\0\0\0\0", b"\0\x3c\0\x32\0\0\x01t"]
    {
        let sent = frame(1, &[head, &names(b"\xc3(", b"a.\xff")].concat());
        assert_eq!(passed(&sent).await, frame(1, &[head, &names(b"?(", b"a.?")].concat()));
    }
}

#[tokio::test]
async fn frames_may_come_and_be_read_in_any_pieces() {
    let bytes = [properties(&nested(50), b"\xff"), frame(3, b"body"), properties(&nested(2), b"x")].concat();
    let whole = passed(&bytes).await;
    for piece in [1, 2, 7, 8, 64, 1000] {
        let (near, mut far) = tokio::io::duplex(piece);
        let bytes = bytes.clone();
        tokio::spawn(async move { tokio::io::AsyncWriteExt::write_all(&mut far, &bytes).await });
        let mut frames = Frames::new(tokio_util::compat::TokioAsyncReadCompatExt::compat(near));
        let (mut read, mut buffer) = (Vec::new(), vec![0; piece]);
        loop {
            let n = frames.read(&mut buffer).await.unwrap();
            if n == 0 {
                break;
            }
            read.extend_from_slice(&buffer[..n]);
        }
        assert_eq!(read, whole, "{piece}");
    }
}

proptest::proptest! {
    #[test]
    fn hostile_frames_keep_their_length(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..200), kind in 1u8..3) {
        let mut frame = bytes.clone();
        tame::frame(kind, &mut frame);
        proptest::prop_assert_eq!(frame.len(), bytes.len());
    }
}
