//! Whose a message is. This is the one place that decides it, for jobs, cancels, questions and answers to tool calls.
//!
//! A routing key begins with a tenant's name, and topic permissions bind a tenant to its own keys. That alone proves
//! nothing: RabbitMQ checks no topic permission when it moves a message by an alternate exchange, by a binding between
//! exchanges, by a CC header, or as a dead letter, and a tenant can arrange each of these. So a message counts only if
//!
//! - it was published to the exchange that such messages are published to: what another exchange passed on keeps the
//!   name of the first;
//! - it is under a key that belongs there: a copy by CC keeps the first key;
//! - it did not come as a dead letter: that one carries the name of the exchange that it was sent to;
//! - its `user_id`, which RabbitMQ holds against the connection that publishes, is a user of the key's tenant.
//!
//! A user of a tenant is called like the tenant, or like it with a dot and more behind it (`acme`, `acme.ci`): a tenant's
//! name holds no dot. The fleet's own users speak for a tenant by naming it in the header `x-tenant`; from anybody else
//! that header means nothing.

use thermae_schemas::{TenantName, names};

use super::{Bus, Message};

/// Why a message is not its tenant's own.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Forged {
    /// It reached the queue by way of another exchange.
    #[error("it was published to the exchange {0:?}")]
    Exchange(String),
    /// Its key does not belong on this queue.
    #[error("it was published under the key {0:?}")]
    Key(String),
    /// RabbitMQ moved it here from a queue that it died in.
    #[error("it came as a dead letter")]
    DeadLetter,
    /// It names no sender. All else about it is right, so that it may come from a client that knows no better.
    #[error("it has no user_id, so nothing proves who sent it")]
    Unsigned(TenantName),
    /// Another user sent it.
    #[error("the user {user:?} sent it, who is no user of the tenant {tenant}")]
    User {
        /// Who sent it.
        user: String,
        /// Whose key it is under.
        tenant: TenantName,
    },
}

impl Forged {
    /// The tenant that is proven to have sent such a message, of what [`Identity::sender`] refuses. It is not that of the
    /// key where RabbitMQ may have moved the message there; its `user_id` stays right on the way.
    pub fn culprit(&self, message: &Message) -> Option<TenantName> {
        match self {
            // It was published under this key, so topic permissions held.
            Self::Unsigned(tenant) => Some(tenant.clone()),
            _ => message.user_id.as_deref().and_then(names::tenant_of),
        }
    }
}

/// Decides whose a message is.
#[derive(Debug, Clone)]
pub struct Identity {
    fleet: Vec<String>,
}

impl Identity {
    /// The fleet's own users are that of this connection, and these.
    pub fn new(bus: &dyn Bus, others: &[String]) -> Self {
        Self { fleet: std::iter::once(bus.user().to_owned()).chain(others.iter().cloned()).collect() }
    }

    /// The tenant that sent this to an exchange, under the key that `key` makes of the tenant's name.
    ///
    /// # Errors
    /// Why it is not its tenant's own. Then it is to be dropped, and nobody is to be answered.
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

    /// The tenant of the key, if a user of it signed the message, or the fleet did in its name: all that can still be proven
    /// of a message which the fleet itself has moved.
    ///
    /// # Errors
    /// As for [`Identity::sender`].
    pub fn signer(&self, message: &Message) -> Result<TenantName, Forged> {
        let tenant = names::tenant_of(&message.key).ok_or_else(|| Forged::Key(message.key.clone()))?;
        let Some(user) = &message.user_id else { return Err(Forged::Unsigned(tenant)) };
        let vouched = || self.fleet.contains(user) && message.headers.text(names::H_TENANT) == Some(tenant.as_str());
        if names::tenant_of(user).as_ref() == Some(&tenant) || vouched() {
            return Ok(tenant);
        }
        Err(Forged::User { user: user.clone(), tenant })
    }
}

impl Message {
    /// Signs it as this connection's user, who publishes it in a tenant's name. Only a user of the tenant's, or the fleet's
    /// own, is believed.
    pub fn sign(&mut self, bus: &dyn Bus, tenant: &TenantName) {
        self.user_id = Some(bus.user().to_owned());
        if names::tenant_of(bus.user()).as_ref() == Some(tenant) {
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
