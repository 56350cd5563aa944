//! Decides which tenant a message belongs to. This is the only place that does, for jobs, cancels, questions,
//! requests to sessions, and what clients say to workers.
//!
//! A routing key begins with a tenant's name, and topic permissions bind a tenant to its own keys. That alone proves
//! nothing: RabbitMQ checks no topic permission when it moves a message through an alternate exchange, through a
//! binding between exchanges, through a CC header, or as a dead letter. A tenant can arrange each of these. So a
//! message counts only if
//!
//! - it was published to the exchange that such messages are published to (a message that another exchange passes on
//!   keeps the name of the first exchange);
//! - its key belongs on this queue (a copy by CC keeps the first key);
//! - it did not come as a dead letter (a dead letter carries the name of the exchange that it was sent to);
//! - its `user_id`, which RabbitMQ compares with the user of the publishing connection, is a user of the key's tenant.
//!
//! The users of a tenant have the tenant's name, or that name followed by a dot and more (`acme`, `acme.ci`). A
//! tenant's name holds no dot. The fleet's own users speak for a tenant by naming it in the header `x-tenant`. In
//! messages of other users, that header means nothing.

use thermae_schemas::{TenantName, names};

use super::{Bus, Message};

/// Why a message doesn't count as its tenant's own.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Forged {
    /// It was published to another exchange, which passed it on to this queue.
    #[error("it was published to another exchange, {0:?}")]
    Exchange(String),
    /// Its routing key does not belong on this queue.
    #[error("its routing key {0:?} does not belong on this queue")]
    Key(String),
    /// RabbitMQ moved it here from another queue, as a dead letter.
    #[error("it came as a dead letter")]
    DeadLetter,
    /// It has no `user_id`, and everything else about it is right. An honest client may have forgotten the `user_id`.
    #[error("it has no user_id, so nothing proves who sent it")]
    Unsigned(TenantName),
    /// Its `user_id` names a user that may not speak for the key's tenant.
    #[error("its user_id is {user:?}, which is not a user of the tenant {tenant}")]
    User {
        /// The user that sent it.
        user: String,
        /// The tenant of its routing key.
        tenant: TenantName,
    },
}

impl Forged {
    /// The tenant that is proven to have sent a message that [`Identity::sender`] refused. It need not be the tenant of
    /// the key, because RabbitMQ may have moved the message under that key. The `user_id` stays right on the way.
    pub fn culprit(&self, message: &Message) -> Option<TenantName> {
        match self {
            // The message was published under this key, so topic permissions held.
            Self::Unsigned(tenant) => Some(tenant.clone()),
            _ => message.user_id.as_deref().and_then(names::tenant_of),
        }
    }
}

/// Decides which tenant a message belongs to.
#[derive(Debug, Clone)]
pub struct Identity {
    fleet: Vec<String>,
}

impl Identity {
    /// The fleet's own users are the user of this connection and `others`.
    pub fn new(bus: &dyn Bus, others: &[String]) -> Self {
        Self { fleet: std::iter::once(bus.user().to_owned()).chain(others.iter().cloned()).collect() }
    }

    /// The tenant that sent this message to `exchange`. `key` makes the only valid routing key from the tenant's name.
    ///
    /// # Errors
    /// Why the message doesn't count as its tenant's own. The caller drops such a message and answers nobody.
    pub fn sender(
        &self,
        message: &Message,
        exchange: &str,
        key: impl FnOnce(&TenantName) -> String,
    ) -> Result<TenantName, Forged> {
        if message.exchange != exchange {
            return Err(Forged::Exchange(message.exchange.clone()));
        }
        if message.came_as_dead_letter() {
            return Err(Forged::DeadLetter);
        }
        let wrong_key = || Forged::Key(message.key.clone());
        let tenant = names::tenant_of(&message.key).ok_or_else(wrong_key)?;
        if message.key != key(&tenant) {
            return Err(wrong_key());
        }
        self.signer(message)
    }

    /// The tenant of the key, if one of its users signed the message, or if the fleet signed it in the tenant's name.
    /// For messages that the fleet itself has moved: nothing more can be proven about them.
    ///
    /// # Errors
    /// The same as for [`Identity::sender`].
    pub fn signer(&self, message: &Message) -> Result<TenantName, Forged> {
        let tenant = names::tenant_of(&message.key).ok_or_else(|| Forged::Key(message.key.clone()))?;
        let Some(user) = &message.user_id else { return Err(Forged::Unsigned(tenant)) };
        let vouched = || self.fleet.contains(user) && message.headers.text(names::H_TENANT) == Some(tenant.as_str());
        if names::is_of(user, &tenant) || vouched() {
            return Ok(tenant);
        }
        Err(Forged::User { user: user.clone(), tenant })
    }
}

impl Message {
    /// Signs the message as this connection's user, in a tenant's name. [`Identity`] believes this only of the tenant's
    /// users and of the fleet's own.
    pub fn sign(&mut self, bus: &dyn Bus, tenant: &TenantName) {
        self.user_id = Some(bus.user().to_owned());
        if names::is_of(bus.user(), tenant) {
            self.headers.0.remove(names::H_TENANT);
        } else {
            self.headers.set_text(names::H_TENANT, tenant.as_str());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::Local;

    fn tenant(name: &str) -> TenantName {
        TenantName::new(name).unwrap()
    }

    fn honest() -> Message {
        Message {
            exchange: names::SUBMIT.to_owned(),
            key: "acme.cancel".to_owned(),
            user_id: Some("acme".to_owned()),
            ..Message::default()
        }
    }

    fn sender(message: &Message) -> Result<TenantName, Forged> {
        Identity::new(&Local::new(), &["ops".to_owned()]).sender(message, names::SUBMIT, names::cancel_key)
    }

    #[test]
    fn a_tenants_users_speak_for_it_and_nobody_elses_do() {
        for user in ["acme", "acme.ci", "acme.a.b"] {
            assert_eq!(sender(&Message { user_id: Some(user.to_owned()), ..honest() }), Ok(tenant("acme")), "{user}");
        }
        for user in ["globex", "acme2", "acm", "", ".acme", "globex.acme", "fleet", "ACME"] {
            let forged = Message { user_id: Some(user.to_owned()), ..honest() };
            assert!(matches!(sender(&forged), Err(Forged::User { .. })), "{user}");
        }
        assert_eq!(sender(&Message { user_id: None, ..honest() }), Err(Forged::Unsigned(tenant("acme"))));
    }

    #[test]
    fn the_fleets_users_speak_for_whom_they_name() {
        let mut message = honest();
        message.headers.set_text(names::H_TENANT, "acme");
        for (user, believed) in [("fleet", true), ("ops", true), ("globex", false), ("fleet.x", false)] {
            message.user_id = Some(user.to_owned());
            assert_eq!(sender(&message).is_ok(), believed, "{user}");
        }
        message.headers.set_text(names::H_TENANT, "globex");
        message.user_id = Some("fleet".to_owned());
        assert!(matches!(sender(&message), Err(Forged::User { .. })));
    }

    #[test]
    fn another_way_than_the_straight_one_is_seen() {
        let other = Message { exchange: "replies.acme.x".to_owned(), ..honest() };
        assert_eq!(sender(&other), Err(Forged::Exchange("replies.acme.x".to_owned())));
        for key in ["acme.normal.default", "", "acme.cancel.x", "*.cancel"] {
            assert_eq!(sender(&Message { key: key.to_owned(), ..honest() }), Err(Forged::Key(key.to_owned())));
        }
        for header in ["x-death", "x-first-death-queue", "x-last-death-queue"] {
            let mut dead = honest();
            dead.headers.set_text(header, "replies.acme.trap");
            assert_eq!(sender(&dead), Err(Forged::DeadLetter), "{header}");
        }
    }

    #[test]
    fn a_forgery_is_blamed_on_whom_it_is_proven_of_and_never_on_its_key() {
        let blamed = |message: &Message| sender(message).unwrap_err().culprit(message);
        let by = |user: Option<&str>, exchange: &str| Message {
            user_id: user.map(str::to_owned),
            exchange: exchange.to_owned(),
            ..honest()
        };
        assert_eq!(blamed(&by(None, names::SUBMIT)), Some(tenant("acme")), "topic permissions held");
        assert_eq!(blamed(&by(Some("globex.ci"), names::SUBMIT)), Some(tenant("globex")));
        assert_eq!(blamed(&by(Some("globex"), "replies.globex.x")), Some(tenant("globex")));
        assert_eq!(blamed(&by(None, "replies.globex.x")), None);
        let mut dead = by(None, names::SUBMIT);
        dead.headers.set_text("x-death", "replies.globex.trap");
        assert_eq!(blamed(&dead), None);
    }

    #[test]
    fn who_signs_is_believed_as_far_as_the_broker_lets_him() {
        let fleet = Local::new();
        let identity = Identity::new(&fleet, &[]);
        for (user, believed) in [("acme", true), ("acme.ci", true), ("fleet", true), ("globex", false)] {
            let mut message = Message { user_id: None, ..honest() };
            message.sign(&fleet.as_user(user), &tenant("acme"));
            assert_eq!(identity.signer(&message).is_ok(), believed, "{user}");
        }
    }
}
