//! Messages that no client of this project would send.

use thermae_backplane::bus::Message;
use thermae_schemas::names;

use crate::fleet::Servers;

/// Publishes a message that this project's client would never send.
pub(crate) async fn submit_raw(servers: &Servers, key: &str, body: &[u8], reply_to: &str, id: Option<&str>) {
    let mut message = Message {
        exchange: names::SUBMIT.to_owned(),
        key: key.to_owned(),
        body: body.to_vec().into(),
        message_id: id.map(str::to_owned),
        correlation_id: Some("mark".to_owned()),
        reply_to: Some(reply_to.to_owned()),
        mandatory: true,
        persistent: true,
        ..Message::default()
    };
    if let Some(tenant) = names::tenant_of(key) {
        message.sign(servers.bus.as_ref(), &tenant);
    }
    servers.bus.publish(message).await.unwrap().wait().await.unwrap();
}
