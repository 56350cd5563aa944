//! Types for names that become part of queue names, routing keys and Redis keys. A name is checked when it is made or
//! read, so that all other code can rely on it.

use std::borrow::Cow;
use std::fmt::{self, Write};
use std::marker::PhantomData;
use std::str::FromStr;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::{Deserialize, Deserializer, Visitor};
use serde::{Serialize, Serializer};

/// A name that does not follow the rule of its type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {name:?} is not valid: {rule}")]
pub struct NameError {
    what: &'static str,
    name: String,
    rule: &'static str,
}

const WORD_RULE: &str = "1 to 64 characters, each a letter, a digit, '-' or '_'";
const WORD_PATTERN: &str = "^[A-Za-z0-9_-]{1,64}$";
const TEXT_RULE: &str = "1 to 128 printable ASCII characters without spaces";
const TEXT_PATTERN: &str = "^[!-~]{1,128}$";
const DIGEST_RULE: &str = "the id of an artifact: 64 hexadecimal digits, in lower case";
const DIGEST_PATTERN: &str = "^[0-9a-f]{64}$";

/// Whether this can be one word of a routing key: no dots and no wildcards.
fn is_word(s: &str) -> bool {
    (1..=64).contains(&s.len()) && s.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
}

/// Whether this can be a name that never becomes part of a routing key.
fn is_text(s: &str) -> bool {
    (1..=128).contains(&s.len()) && s.bytes().all(|b| b.is_ascii_graphic())
}

/// Whether this can be a SHA-256, as the fleet writes it.
fn is_digest(s: &str) -> bool {
    s.len() == 64 && s.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// Reads a name without a copy of its text.
struct Text<T>(PhantomData<T>);

impl<T: FromStr<Err = NameError>> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $what:literal, $check:ident, $rule:ident, $pattern:ident) => {
        $(#[$doc])*
        ///
        /// A clone shares the text.
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        /// The name in quotes: errors show it so.
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl $name {
            /// Checks the rule and makes the name.
            pub fn new(name: impl AsRef<str> + Into<Arc<str>>) -> Result<Self, NameError> {
                match name.as_ref() {
                    valid if $check(valid) => Ok(Self(name.into())),
                    invalid => Err(NameError { what: $what, name: invalid.to_owned(), rule: $rule }),
                }
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;
            fn try_from(name: String) -> Result<Self, NameError> {
                Self::new(name)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0.as_ref().to_owned()
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = NameError;
            fn from_str(name: &str) -> Result<Self, NameError> {
                Self::new(name)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                from.deserialize_str(Text(PhantomData))
            }
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "pattern": $pattern })
            }
        }
    };
}

name!(
    /// Id of a job, unique in its tenant. It is also an idempotency key: the second submit of an id gets the outcome of
    /// the first.
    JobId, "job id", is_text, TEXT_RULE, TEXT_PATTERN
);
name!(
    /// Name of a tenant, the owner of jobs. Usage is counted and limited for each tenant, and tenants are isolated from
    /// each other. The name comes from the RabbitMQ user that sent a message, never from the job.
    TenantName, "tenant", is_word, WORD_RULE, WORD_PATTERN
);
name!(
    /// Name of a pool: the containers of one specification.
    PoolName, "pool", is_word, WORD_RULE, WORD_PATTERN
);
name!(
    /// Name of a session (an interpreter that stays alive between jobs), unique in its tenant.
    SessionName, "session", is_text, TEXT_RULE, TEXT_PATTERN
);
name!(
    /// Name of a client, unique in its tenant. The client's reply queue is named after it.
    ClientId, "client", is_word, WORD_RULE, WORD_PATTERN
);
name!(
    /// Name of a language that programs are written in. A pool refuses the languages that it does not run
    /// (`unsupported_language`).
    Language, "language", is_word, WORD_RULE, WORD_PATTERN
);
name!(
    /// Id of a worker process, `<name>-<boot>`: the worker's name, and a random id that is new at every start.
    WorkerId, "worker", is_word, WORD_RULE, WORD_PATTERN
);
name!(
    /// Id of an artifact, unique in its tenant: the SHA-256 of its content, in hexadecimal digits. Nothing else that the
    /// fleet's store has for a tenant (outcomes, checkpoints of sessions) has such an id.
    ArtifactId, "ref", is_digest, DIGEST_RULE, DIGEST_PATTERN
);

impl ArtifactId {
    /// The id of the content that has this SHA-256.
    pub fn of(sha256: [u8; 32]) -> Self {
        let mut id = String::with_capacity(64);
        for byte in sha256 {
            let _ = write!(id, "{byte:02x}");
        }
        Self(id.into())
    }
}

impl JobId {
    /// A new id. Ids are ordered by time (UUID version 7).
    pub fn random() -> Self {
        Self(uuid::Uuid::now_v7().to_string().into())
    }
}

impl Language {
    /// Python 3.
    pub fn python() -> Self {
        Self("python".into())
    }

    /// Bash.
    pub fn bash() -> Self {
        Self("bash".into())
    }

    /// Whether programs in this language can call tools.
    pub fn calls_tools(&self) -> bool {
        self.as_str() != "bash"
    }
}

impl Default for PoolName {
    fn default() -> Self {
        Self("default".into())
    }
}

impl Default for Language {
    /// Python.
    fn default() -> Self {
        Self::python()
    }
}

impl ClientId {
    /// A new random name.
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().simple().to_string().into())
    }
}

impl WorkerId {
    /// The id of a worker process with this name. Characters that an id can't contain become `-`, and a name of more
    /// than 40 characters is cut.
    pub fn boot(name: &str) -> Self {
        let name: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(40).collect();
        Self(format!("{name}-{}", &uuid::Uuid::new_v4().simple().to_string()[..12]).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_routing_keys_hold_no_dot_and_no_wildcard() {
        for bad in ["", "a.b", "a*", "#", "a b", "é", &"x".repeat(65)] {
            assert!(TenantName::new(bad).is_err(), "{bad:?}");
        }
        assert!(TenantName::new("acme_1-x").is_ok());
    }

    #[test]
    fn job_ids_hold_what_data_sets_use() {
        assert!(JobId::new("HumanEval/0").is_ok());
        for bad in ["", "a b", "a\n", &"x".repeat(129)] {
            assert!(JobId::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_artifact_has_a_digest_and_no_path() {
        let id = "0123456789abcdef".repeat(4);
        assert!(ArtifactId::new(id.as_str()).is_ok());
        assert_eq!(ArtifactId::of([0xa3; 32]), ArtifactId::new("a3".repeat(32)).unwrap());
        for bad in ["", "..", &id[1..], &format!("{id}0"), &id.to_uppercase(), &format!("{}/", &id[1..])] {
            assert!(ArtifactId::new(bad).is_err(), "{bad:?}");
        }
        for folder in ["checkpoints", "outcomes"] {
            assert!(ArtifactId::new(format!("{folder}/{id}")).is_err(), "{folder}");
        }
    }

    #[test]
    fn a_worker_of_any_host_name_gets_a_valid_id() {
        let id = WorkerId::boot("höst.example.com with spaces and a very long name that goes on and on");
        assert!(WorkerId::new(id.as_str()).is_ok(), "{id}");
    }
}
