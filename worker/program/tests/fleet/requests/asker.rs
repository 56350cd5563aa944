//! A client that sends requests to the session `s` of a worker, as a scheduler hands them on.

use std::collections::BTreeMap;

use thermae_backplane::bus::{Headers, Message};
use thermae_schemas::{
    ErrorCode, Event, EventBody, Exec, FileOp, JobId, OutputStream, Request, RequestDone, RequestEnd, RequestInput,
    RequestWork, Say, SessionName, Status, TenantName, WorkerId, WriteMode, names,
};

use crate::harness::{Fleet, session_job};

/// What has come for each request.
#[derive(Default)]
pub struct Heard {
    pub events: Vec<EventBody>,
}

/// Requests of one client to the session `s` of one worker.
pub struct Asker<'a> {
    pub fleet: &'a mut Fleet,
    pub worker: WorkerId,
    pub heard: BTreeMap<String, Heard>,
}

pub fn exec(shell: &str) -> Request {
    let exec = Exec { shell: Some(shell.to_owned()), ..Exec::default() };
    request(RequestWork::Exec(exec))
}

pub fn request(work: RequestWork) -> Request {
    Request::new(JobId::random(), SessionName::new("s").unwrap(), work)
}

pub fn write(path: &str, content: &[u8]) -> Request {
    let op = FileOp::Write { path: path.into(), mode: WriteMode::Truncate, permissions: None };
    Request { input: content.to_vec().into(), ..request(RequestWork::File(op)) }
}

pub fn read(path: &str) -> Request {
    request(RequestWork::File(FileOp::Read { path: path.into(), offset: 0, length: None }))
}

pub fn input(offset: u64, data: &[u8], end: bool) -> Say {
    Say::Input { offset, data: data.to_vec().into(), end }
}

impl<'a> Asker<'a> {
    /// Makes the session `s` on this worker.
    pub async fn new(fleet: &'a mut Fleet, worker: &WorkerId) -> Self {
        let job = session_job("s", "x = 1");
        fleet.submit_to(worker, &job).await;
        assert_eq!(fleet.outcome(&job).await.status, Status::Succeeded);
        Self { fleet, worker: worker.clone(), heard: BTreeMap::new() }
    }

    pub async fn send(&self, request: &Request) {
        self.send_as(&self.fleet.tenant, request).await;
    }

    /// Sends a request as a scheduler does.
    pub async fn send_as(&self, tenant: &TenantName, request: &Request) {
        let mut headers = Headers::default();
        headers.set_text(names::H_TENANT, tenant.as_str());
        headers.set_text(names::H_REQUEST, request.id.as_str());
        let message = Message {
            exchange: names::WORK.into(),
            key: names::control_key(&self.worker),
            body: serde_json::to_vec(request).unwrap().into(),
            message_id: Some(request.id.to_string()),
            reply_to: Some(names::reply_key(&self.fleet.tenant, &self.fleet.client)),
            headers,
            mandatory: true,
            ..Message::default()
        };
        self.fleet.bus.publish(message).await.unwrap().wait().await.unwrap();
    }

    pub async fn say_as(&self, tenant: &TenantName, request: &Request, say: Say) {
        let mut message = Message {
            exchange: names::CALLS.into(),
            key: names::calls_key(tenant, &self.worker),
            body: serde_json::to_vec(&RequestInput::new(request.id.clone(), say)).unwrap().into(),
            mandatory: true,
            ..Message::default()
        };
        message.headers.set_text(names::H_REQUEST, request.id.as_str());
        message.sign(&*self.fleet.bus, tenant);
        self.fleet.bus.publish(message).await.unwrap().wait().await.unwrap();
    }

    pub async fn say(&self, request: &Request, say: Say) {
        self.say_as(&self.fleet.tenant, request, say).await;
    }

    /// Waits until the events of this request are as wanted.
    pub async fn until(&mut self, request: &Request, mut fits: impl FnMut(&[EventBody]) -> bool) -> &mut Heard {
        while !fits(&self.heard.entry(request.id.to_string()).or_default().events) {
            let Event { job, body, .. } = self.fleet.event().await;
            self.heard.entry(job.to_string()).or_default().events.push(body);
        }
        self.heard.get_mut(request.id.as_str()).unwrap()
    }

    pub async fn done(&mut self, request: &Request) -> (RequestDone, Vec<u8>, Vec<u8>) {
        let heard = self.until(request, |events| matches!(events.last(), Some(EventBody::Done(_)))).await;
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let mut end = None;
        for event in heard.events.drain(..) {
            match event {
                EventBody::Opened { .. } | EventBody::Credit { .. } => {}
                EventBody::Output { stream, offset, data } => {
                    assert_eq!(offset, (out.len() + err.len()) as u64);
                    if stream == OutputStream::Stdout { &mut out } else { &mut err }.extend_from_slice(&data);
                }
                EventBody::Done(done) => end = Some(done),
                other => panic!("{other:?}"),
            }
        }
        let done = end.unwrap();
        assert_eq!(done.output, (out.len() + err.len()) as u64, "{done:?}");
        (done, out, err)
    }

    pub async fn ask(&mut self, request: &Request) -> (RequestDone, Vec<u8>, Vec<u8>) {
        self.send(request).await;
        self.done(request).await
    }

    /// The code of the error that this request must have.
    pub async fn error(&mut self, request: &Request) -> ErrorCode {
        match self.done(request).await.0.end {
            RequestEnd::Error { error } => error.code,
            other => panic!("{other:?}"),
        }
    }
}
