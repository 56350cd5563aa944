//! Converts messages to AMQP's properties and back.

use bytes::Bytes;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};

use crate::bus::message::DEATHS;
use crate::bus::{Error, HeaderValue, Headers, Message};

/// Delivery modes of AMQP.
const TRANSIENT: u8 = 1;
const PERSISTENT: u8 = 2;

/// A name for AMQP, which allows 255 bytes.
pub(super) fn short(text: &str) -> Result<ShortString, Error> {
    ShortString::try_new(text).map_err(|_| Error::Topology(format!("a name of {} bytes is too long", text.len())))
}

pub(super) fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(LongString::from(value.as_bytes()))
}

/// The AMQP properties of a message.
pub(super) fn properties(message: &Message) -> Result<BasicProperties, Error> {
    let mode = if message.persistent { PERSISTENT } else { TRANSIENT };
    let mut to = BasicProperties::default().with_delivery_mode(mode).with_content_type("application/json".into());
    if let Some(id) = &message.message_id {
        to = to.with_message_id(short(id)?);
    }
    if let Some(id) = &message.correlation_id {
        to = to.with_correlation_id(short(id)?);
    }
    if let Some(key) = &message.reply_to {
        to = to.with_reply_to(short(key)?);
    }
    if let Some(user) = &message.user_id {
        to = to.with_user_id(short(user)?);
    }
    if message.headers.0.is_empty() {
        return Ok(to);
    }
    let mut headers = FieldTable::default();
    for (name, value) in message.headers.0.iter().filter(|(name, _)| *name != DEATHS) {
        let value = match value {
            HeaderValue::Text(value) => text(value),
            HeaderValue::Int(n) => AMQPValue::LongLongInt(*n),
            HeaderValue::Bool(on) => AMQPValue::Boolean(*on),
        };
        headers.insert(short(name)?, value);
    }
    Ok(to.with_headers(headers))
}

fn header(value: &AMQPValue) -> Option<HeaderValue> {
    Some(match value {
        AMQPValue::LongString(text) => HeaderValue::Text(String::from_utf8_lossy(text.as_bytes()).into_owned()),
        AMQPValue::ShortString(text) => HeaderValue::Text(text.to_string()),
        AMQPValue::Boolean(on) => HeaderValue::Bool(*on),
        AMQPValue::ShortShortInt(n) => HeaderValue::Int((*n).into()),
        AMQPValue::ShortShortUInt(n) => HeaderValue::Int((*n).into()),
        AMQPValue::ShortInt(n) => HeaderValue::Int((*n).into()),
        AMQPValue::ShortUInt(n) => HeaderValue::Int((*n).into()),
        AMQPValue::LongInt(n) => HeaderValue::Int((*n).into()),
        AMQPValue::LongUInt(n) => HeaderValue::Int((*n).into()),
        AMQPValue::LongLongInt(n) => HeaderValue::Int(*n),
        // The fleet uses no tables, arrays or other types.
        _ => return None,
    })
}

/// The queues in the broker's list of deaths. If a client wrote something else under this header, the answer is still a
/// text, so that the message counts as a dead letter.
fn deaths(value: &AMQPValue) -> HeaderValue {
    let mut queues = Vec::new();
    if let AMQPValue::FieldArray(list) = value {
        for death in list.as_slice() {
            if let AMQPValue::FieldTable(death) = death
                && let Some(HeaderValue::Text(queue)) = death.inner().get("queue").and_then(header)
            {
                queues.push(queue);
            }
        }
    }
    HeaderValue::Text(queues.join(" "))
}

/// The message of a delivery. RabbitMQ's count of deliveries (`x-delivery-count`) is left out, because it is not part
/// of the message.
pub(super) fn message(exchange: &str, key: &str, properties: &BasicProperties, data: Vec<u8>) -> Message {
    let owned = |text: &Option<ShortString>| text.as_ref().map(ToString::to_string);
    let mut headers = Headers::default();
    for (name, value) in properties.headers().iter().flat_map(|table| table.inner()) {
        let value = match name.as_str() {
            "x-delivery-count" => None,
            DEATHS => Some(deaths(value)),
            _ => header(value),
        };
        if let Some(value) = value {
            headers.0.insert(name.to_string().into(), value);
        }
    }
    Message {
        exchange: exchange.to_owned(),
        key: key.to_owned(),
        body: Bytes::from(data),
        message_id: owned(properties.message_id()),
        correlation_id: owned(properties.correlation_id()),
        reply_to: owned(properties.reply_to()),
        user_id: owned(properties.user_id()),
        headers,
        mandatory: false,
        persistent: *properties.delivery_mode() == Some(PERSISTENT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_back_as_it_was() {
        let mut sent = Message {
            exchange: "e".into(),
            key: "k".into(),
            body: Bytes::from_static(b"{}"),
            message_id: Some("m".into()),
            correlation_id: Some("c".into()),
            reply_to: Some("r".into()),
            user_id: Some("u".into()),
            headers: Headers::default(),
            mandatory: false,
            persistent: true,
        };
        sent.headers.set_text("t", "é");
        sent.headers.set_int("n", -5);
        sent.headers.set_flag("f", true);
        let properties = properties(&sent).unwrap();
        assert_eq!(message("e", "k", &properties, sent.body.to_vec()), sent);
    }

    #[test]
    fn deaths_are_read_and_never_written() {
        let mut death = FieldTable::default();
        death.insert("queue".into(), text("submit.unrouted"));
        let mut headers = FieldTable::default();
        headers.insert(DEATHS.into(), AMQPValue::FieldArray(vec![AMQPValue::FieldTable(death)].into()));
        let dead = message("e", "k", &BasicProperties::default().with_headers(headers), Vec::new());
        assert!(dead.came_as_dead_letter() && dead.died_in("submit.") && !dead.died_in("unrouted"));
        let again = properties(&dead).unwrap();
        assert!(again.headers().as_ref().is_none_or(|table| table.inner().is_empty()));
        // A client wrote this header itself, and it isn't a list.
        let mut headers = FieldTable::default();
        headers.insert(DEATHS.into(), AMQPValue::Boolean(true));
        assert!(message("e", "k", &BasicProperties::default().with_headers(headers), Vec::new()).came_as_dead_letter());
    }

    #[test]
    fn what_amqp_cannot_hold_is_an_error() {
        let long = Message { message_id: Some("x".repeat(256)), ..Message::default() };
        assert!(matches!(properties(&long), Err(Error::Topology(_))));
    }
}
