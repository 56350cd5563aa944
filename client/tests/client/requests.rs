//! Requests to sessions, against a scheduler and a worker that the test plays.

use std::sync::Arc;

use thermae_backplane::bus::{Bus, Consumer, Delivery, Message, QueueSpec, SharedBus};
use thermae_client::{Client, Options, RequestHandle};
use thermae_schemas::{
    Body, ErrorCode, Event, EventBody, Exec, JobId, OutputStream, Request, RequestDone, RequestEnd, RequestInput,
    RequestWork, Say, SessionName, WorkerId, names,
};

use super::{Fleet, quick, soon, tenant};

pub(crate) const EXITED: RequestEnd = RequestEnd::Exited { code: 0 };

pub(crate) fn request(id: &str) -> Request {
    let exec = Exec { shell: Some("cat".to_owned()), ..Exec::default() };
    Request::new(JobId::new(id).unwrap(), SessionName::new("s").unwrap(), RequestWork::Exec(exec))
}

pub(crate) fn streaming(id: &str, window: u32) -> Request {
    Request { window, more_input: true, ..request(id) }
}

pub(crate) fn bytes(text: &str) -> bytes::Bytes {
    text.as_bytes().to_vec().into()
}

/// A scheduler that forwards requests to a worker, both played by the test.
pub(crate) struct Sessions {
    pub(crate) fleet: Fleet,
    pub(crate) requests: Box<dyn Consumer>,
    says: Box<dyn Consumer>,
}

impl Sessions {
    pub(crate) async fn new() -> Self {
        let fleet = Fleet::new().await;
        let requests = fleet.bus.consume(names::UNROUTED_QUEUE, 0).await.unwrap();
        let spec = QueueSpec::calls(&worker());
        fleet.bus.declare_queue(&spec).await.unwrap();
        let says = fleet.bus.consume(&spec.name, 0).await.unwrap();
        Self { fleet, requests, says }
    }

    pub(crate) async fn client(&self, options: Options) -> Client {
        let bus: SharedBus = Arc::new(self.fleet.bus.as_user("acme"));
        Client::connect(bus, tenant(), options).await.unwrap()
    }

    /// The next message to the scheduler, and the request in it.
    pub(crate) async fn asked(&mut self) -> (Message, Request) {
        asked(self.requests.next().await).await
    }

    /// What the client says next, and about which request.
    async fn said(&mut self) -> (JobId, Say) {
        let delivery = soon(self.says.next()).await.unwrap();
        delivery.ack().await.unwrap();
        let said = RequestInput::parse(&delivery.message.body).unwrap();
        assert_eq!(delivery.message.headers.text(names::H_REQUEST), Some(said.request.as_str()));
        assert_eq!(delivery.message.user_id.as_deref(), Some("acme"));
        assert_eq!(said.protocol, 1);
        (said.request, said.say)
    }

    pub(crate) async fn said_of(&mut self, id: &str) -> Say {
        let (request, say) = self.said().await;
        assert_eq!(request.as_str(), id);
        say
    }

    pub(crate) async fn tell(&self, asked: &Message, body: EventBody) {
        self.fleet.tell(asked, body).await;
    }

    pub(crate) async fn open(&self, asked: &Message) {
        self.tell(asked, EventBody::Opened { reply_to: names::calls_key(&tenant(), &worker()) }).await;
    }

    pub(crate) async fn output(&self, asked: &Message, offset: u64, text: &str) {
        let data = bytes(text).into();
        self.tell(asked, EventBody::Output { stream: OutputStream::Stdout, offset, data }).await;
    }

    pub(crate) async fn done(&self, asked: &Message, output: u64) {
        self.tell(asked, EventBody::Done(RequestDone { output, ..RequestDone::bare(EXITED) })).await;
    }
}

async fn asked(delivery: Option<Delivery>) -> (Message, Request) {
    let delivery = delivery.unwrap();
    delivery.ack().await.unwrap();
    let request = Request::parse(&delivery.message.body).unwrap();
    (delivery.message.as_ref().clone(), request)
}

pub(crate) fn worker() -> WorkerId {
    WorkerId::new("w-1").unwrap()
}

pub(crate) fn input(offset: u64, text: &str, end: bool) -> Say {
    Say::Input { offset, data: bytes(text).into(), end }
}

async fn all_output(handle: &RequestHandle) -> String {
    let mut all = Vec::new();
    while let Some((_, data)) = soon(handle.output()).await {
        all.extend_from_slice(&data);
    }
    String::from_utf8(all).unwrap()
}

pub(crate) async fn error_of(handle: &RequestHandle) -> ErrorCode {
    match soon(handle.done()).await.unwrap().end {
        RequestEnd::Error { error } => error.code,
        end => panic!("{end:?}"),
    }
}

pub(crate) fn lost() -> thermae_schemas::ErrorInfo {
    thermae_schemas::ErrorInfo::new(ErrorCode::SessionLost, "gone")
}

#[tokio::test]
async fn a_request_goes_out_signed_and_its_output_and_end_come_back() {
    let mut sessions = Sessions::new().await;
    let client = sessions.client(quick()).await;
    let handle = client.request(Request { input: bytes("hi").into(), ..request("r") });
    let (message, request) = sessions.asked().await;
    assert_eq!((request.id.as_str(), &request.input[..], request.protocol), ("r", &b"hi"[..], 1));
    assert_eq!((message.key.as_str(), message.message_id.as_deref()), ("acme.request", Some("r")));
    assert_eq!((message.user_id.as_deref(), message.persistent), (Some("acme"), false));
    assert_eq!(message.reply_to, Some(names::reply_key(&tenant(), client.id())));
    assert!(!message.headers.flag(names::H_RESEND));

    sessions.open(&message).await;
    sessions.output(&message, 0, "hi").await;
    let stderr = EventBody::Output { stream: OutputStream::Stderr, offset: 2, data: b"\xff".to_vec().into() };
    sessions.tell(&message, stderr).await;
    sessions.done(&message, 3).await;
    assert_eq!(soon(handle.output()).await, Some((OutputStream::Stdout, bytes("hi"))));
    assert_eq!(soon(handle.output()).await, Some((OutputStream::Stderr, b"\xff"[..].into())));
    assert_eq!((soon(handle.output()).await, soon(handle.output()).await), (None, None));
    let done = soon(handle.done()).await.unwrap();
    assert_eq!((done.end, done.output), (EXITED, 3));
    assert!(!handle.input(bytes("late")).await && handle.try_input(bytes("late"), true));
}

#[tokio::test]
async fn what_is_said_before_the_request_is_opened_waits_and_keeps_its_order() {
    let mut sessions = Sessions::new().await;
    let client = sessions.client(quick()).await;
    let handle = client.request(streaming("r", 100));
    assert!(soon(handle.input(bytes("a"))).await);
    handle.signal(2);
    assert!(soon(handle.input(bytes("b"))).await);
    handle.end_input();
    assert!(!soon(handle.input(bytes("c"))).await);
    let (message, _) = sessions.asked().await;
    sessions.open(&message).await;
    for say in [input(0, "a", false), Say::Signal(2), input(1, "b", true)] {
        assert_eq!(sessions.said_of("r").await, say);
    }
    sessions.done(&message, 0).await;
    assert_eq!(soon(handle.done()).await.unwrap().end, EXITED);
}

#[tokio::test]
async fn input_keeps_to_the_window_that_the_worker_gives() {
    let mut sessions = Sessions::new().await;
    let client = sessions.client(quick()).await;
    let handle = Arc::new(client.request(Request { input: bytes("ab").into(), ..streaming("r", 4) }));
    let writer = tokio::spawn({
        let handle = handle.clone();
        async move {
            assert!(handle.input(bytes("cdefghi")).await);
            handle.end_input();
        }
    });
    let (message, _) = sessions.asked().await;
    sessions.open(&message).await;
    assert_eq!(sessions.said_of("r").await, input(2, "cd", false));
    assert!(!handle.try_input(bytes("x"), false), "the window is used up");
    sessions.tell(&message, EventBody::Credit { input: 6 }).await;
    assert_eq!(soon(handle.input_allowed(4)).await, 6);
    assert_eq!(sessions.said_of("r").await, input(4, "ef", false));
    // Credit that came late or twice takes nothing back.
    sessions.tell(&message, EventBody::Credit { input: 5 }).await;
    sessions.tell(&message, EventBody::Credit { input: 10 }).await;
    let (mut rest, mut ended) = (String::new(), false);
    while !ended {
        let Say::Input { offset, data, end } = sessions.said_of("r").await else { panic!() };
        assert_eq!(offset as usize, 6 + rest.len());
        rest.push_str(str::from_utf8(&data).unwrap());
        ended = end;
    }
    assert_eq!(rest, "ghi");
    soon(writer).await.unwrap();
}

#[tokio::test]
async fn output_keeps_to_the_window_that_the_reader_gives() {
    let mut sessions = Sessions::new().await;
    let client = sessions.client(quick()).await;
    let handle = client.request(Request { window: 4, ..request("r") });
    let (message, _) = sessions.asked().await;
    sessions.open(&message).await;
    let mut allowed = 4;
    for round in 0..50_u64 {
        sessions.output(&message, 4 * round, "1234").await;
        assert_eq!(soon(handle.output()).await, Some((OutputStream::Stdout, bytes("1234"))));
        allowed += 4;
        assert_eq!(sessions.said_of("r").await, Say::Credit(allowed));
    }
    sessions.done(&message, 200).await;
    assert_eq!(soon(handle.output()).await, None);
}

#[tokio::test]
async fn more_output_than_was_allowed_is_not_kept() {
    let mut sessions = Sessions::new().await;
    let client = sessions.client(quick()).await;
    let handle = client.request(Request { window: 4, ..request("r") });
    let (message, _) = sessions.asked().await;
    sessions.open(&message).await;
    sessions.output(&message, 0, "12345").await;
    assert_eq!(sessions.said_of("r").await, Say::Cancel {});
    sessions.tell(&message, EventBody::Done(RequestDone::bare(RequestEnd::Cancelled {}))).await;
    assert_eq!(error_of(&handle).await, ErrorCode::RequestInterrupted);
}

#[tokio::test]
async fn repeated_output_counts_once_and_lost_output_ends_the_request() {
    let mut sessions = Sessions::new().await;
    let client = sessions.client(quick()).await;
    let handle = client.request(request("r"));
    let (message, _) = sessions.asked().await;
    sessions.open(&message).await;
    for (offset, text) in [(0, "ab"), (0, "ab"), (1, "bcd"), (5, "f"), (4, "e")] {
        sessions.output(&message, offset, text).await;
    }
    assert_eq!(sessions.said_of("r").await, Say::Cancel {});
    sessions.tell(&message, EventBody::Done(RequestDone::bare(RequestEnd::Cancelled {}))).await;
    assert_eq!(all_output(&handle).await, "abcd");
    assert_eq!(error_of(&handle).await, ErrorCode::RequestInterrupted);
}

#[tokio::test]
async fn an_end_after_more_output_than_came_is_no_success() {
    let mut sessions = Sessions::new().await;
    let client = sessions.client(quick()).await;
    for (id, end, code) in [
        ("exited", EXITED, ErrorCode::RequestInterrupted),
        ("lost", RequestEnd::Error { error: lost() }, ErrorCode::SessionLost),
    ] {
        let handle = client.request(request(id));
        let (message, _) = sessions.asked().await;
        sessions.tell(&message, EventBody::Done(RequestDone { output: 1, ..RequestDone::bare(end) })).await;
        assert_eq!(error_of(&handle).await, code);
    }
}

#[tokio::test]
async fn a_hundred_requests_at_once_get_what_is_theirs() {
    let mut sessions = Sessions::new().await;
    let client = sessions.client(quick()).await;
    let users: Vec<_> = (0..100)
        .map(|n| {
            let handle = client.request(streaming(&format!("r{n}"), 8));
            tokio::spawn(async move {
                let (text, write) = (format!("{n:07}"), async {
                    for _ in 0..20 {
                        assert!(handle.input(bytes(&format!("{n:07}"))).await);
                    }
                    handle.end_input();
                });
                let ((), read) = tokio::join!(write, all_output(&handle));
                assert_eq!(read, text.repeat(20));
                assert_eq!(handle.done().await.unwrap().end, EXITED);
            })
        })
        .collect();
    // The worker's `cat`: sends back what comes, and allows as much more.
    let mut messages = std::collections::HashMap::new();
    let mut ended = 0;
    while ended < 100 {
        tokio::select! {
            delivery = sessions.requests.next() => {
                let (message, request) = asked(delivery).await;
                sessions.open(&message).await;
                messages.insert(request.id, message);
            }
            delivery = sessions.says.next() => {
                let delivery = delivery.unwrap();
                delivery.ack().await.unwrap();
                let said = RequestInput::parse(&delivery.message.body).unwrap();
                let Say::Input { offset, data, end } = said.say else { continue };
                let (message, total) = (&messages[&said.request], offset + data.len() as u64);
                sessions.output(message, offset, str::from_utf8(&data).unwrap()).await;
                sessions.tell(message, EventBody::Credit { input: total + 8 }).await;
                if end {
                    sessions.done(message, total).await;
                    ended += 1;
                }
            }
        }
    }
    for user in users {
        soon(user).await.unwrap();
    }
}

#[tokio::test]
async fn unknown_requests_and_events_are_ignored() {
    let mut sessions = Sessions::new().await;
    let client = sessions.client(quick()).await;
    let handle = client.request(request("r"));
    let (message, _) = sessions.asked().await;
    let other = Message { message_id: Some("other".to_owned()), ..message.clone() };
    sessions.open(&other).await;
    sessions.output(&other, 7, "x").await;
    sessions.done(&other, 0).await;
    let unknown = Event::new(JobId::new("r").unwrap(), 0, EventBody::Unknown);
    sessions.fleet.tell_text(&message, serde_json::to_vec(&unknown).unwrap()).await;
    sessions.done(&message, 0).await;
    assert_eq!(soon(handle.done()).await.unwrap().end, EXITED);
}
