//! The events of one request, on their way to its client.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use thermae_backplane::bus::{self, Message};
use thermae_schemas::{Body, Content, Event, EventBody, JobId, OutputStream, RequestDone, TenantName, names};

use crate::attempt::publish;
use crate::context::Context;

/// Events that are sent before the broker must have accepted them, so that results of other jobs don't wait behind
/// them.
const UNTAKEN: u32 = 128;

/// Sends events to the client of a request. All but the last one are not mandatory: only such messages keep their order
/// (see [`bus::Bus::publish`]).
pub(super) struct Events {
    ctx: Arc<Context>,
    id: JobId,
    /// Routing key of what the client says about the request.
    calls: String,
    to: Mutex<Address>,
    /// Bytes of output that were sent.
    sent: AtomicU64,
    untaken: AtomicU32,
}

#[derive(Clone)]
struct Address {
    key: String,
    correlation_id: Option<String>,
}

impl Events {
    /// Sends to the client of this message. `None` if nobody wants the events.
    pub(super) fn new(ctx: &Arc<Context>, tenant: &TenantName, id: &JobId, message: &Message) -> Option<Self> {
        let to = Address { key: message.reply_to.clone()?, correlation_id: message.correlation_id.clone() };
        let calls = names::calls_key(tenant, &ctx.id);
        Some(Self {
            ctx: Arc::clone(ctx),
            id: id.clone(),
            calls,
            to: Mutex::new(to),
            sent: AtomicU64::new(0),
            untaken: AtomicU32::new(0),
        })
    }

    fn to(&self) -> Address {
        self.to.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends to the same client as `other` from now on.
    pub(super) fn send_to(&self, other: &Self) {
        *self.to.lock().unwrap_or_else(PoisonError::into_inner) = other.to();
    }

    fn message(&self, body: Bytes, mandatory: bool) -> Message {
        let Address { key, correlation_id } = self.to();
        Message {
            exchange: names::REPLIES.to_owned(),
            key,
            body,
            message_id: Some(self.id.to_string()),
            correlation_id,
            mandatory,
            ..Message::default()
        }
    }

    fn write(&self, body: EventBody) -> Bytes {
        // Writing plain structures to memory can't fail.
        Event::new(self.id.clone(), 0, body).to_json().unwrap_or_default().into()
    }

    /// Says that the request is carried out here. If that is lost, the client asks again.
    pub(super) async fn opened(&self) {
        let _ = self.send(EventBody::Opened { reply_to: self.calls.clone() }).await;
    }

    /// Sends the output that comes next.
    ///
    /// # Errors
    /// It may be lost.
    pub(super) async fn output(&self, stream: OutputStream, data: Bytes) -> Result<(), bus::Error> {
        let (offset, bytes) = (self.sent(), data.len() as u64);
        self.send(EventBody::Output { stream, offset, data: data.into() }).await?;
        self.sent.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// How many bytes of output were sent.
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Says how much input the client may have sent in all.
    ///
    /// # Errors
    /// It may be lost.
    pub(super) async fn credit(&self, input: u64) -> Result<(), bus::Error> {
        self.send(EventBody::Credit { input }).await
    }

    /// Says how far the request is, to a client that may have missed events.
    pub(super) async fn catch_up(&self, input: u64) {
        self.opened().await;
        let _ = self.credit(input).await;
        // If output is missing, the client sees it by the offset.
        let _ = self
            .send(EventBody::Output { stream: OutputStream::Stdout, offset: self.sent(), data: Content::default() })
            .await;
    }

    async fn send(&self, body: EventBody) -> Result<(), bus::Error> {
        drop(self.ctx.bus.publish(self.message(self.write(body), false)).await?);
        if self.untaken.fetch_add(1, Ordering::Relaxed) % UNTAKEN < UNTAKEN - 1 {
            return Ok(());
        }
        self.ctx.bus.flush().await
    }

    /// The event that ends the request.
    pub(super) fn body_of(&self, done: RequestDone) -> Bytes {
        self.write(EventBody::Done(done))
    }

    /// Sends the event that ends the request, until the broker has it.
    pub(super) async fn done(&self, body: Bytes) {
        // The last event comes after all others.
        let _ = self.ctx.bus.flush().await;
        match publish(&self.ctx, self.message(body, true)).await {
            Ok(_) => {}
            Err(error) => tracing::debug!(request = %self.id, %error, "nobody receives the end of a request"),
        }
    }
}
