//! Whoever mints tokens, and the files that a worker reads.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;
use thermae_schemas::{Capabilities, Job, Outcome, TenantName, TokenText, ToolSpec};
use thermae_service::units::Millis;
use thermae_tokens::{Grant, Issuer, Narrowing, SecretKey, TokenId, attenuate, revocation_ids};
use thermae_worker::{Options, TokenOptions};

use crate::harness::{options, python};

/// The id of the key.
pub const KEY: u32 = 1;

/// An issuer whose public key is in a folder, beside a list of revocations.
pub struct Authority {
    folder: TempDir,
    secret: String,
    issuer: Issuer,
}

impl Authority {
    pub fn new() -> Self {
        let key = SecretKey::generate().unwrap();
        let made = Self { folder: TempDir::new().unwrap(), secret: key.to_pem(), issuer: Issuer::new(KEY, key) };
        fs::create_dir(made.path("keys")).unwrap();
        made.mend();
        made
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The private key.
    pub fn key(&self) -> SecretKey {
        SecretKey::from_pem(&self.secret).unwrap()
    }

    /// Options of a worker that takes tokens of this issuer. All clocks are the same.
    pub fn options(&self) -> Options {
        let (keys, revoked) = (Some(self.path("keys")), Some(self.path("revoked")));
        Options { tokens: TokenOptions { keys, revoked, skew: Millis::from_millis(0) }, ..options() }
    }

    /// Leave for the tenant `acme` to call everything, for an hour.
    pub fn grant(&self) -> Grant {
        Grant {
            id: TokenId::random(),
            tenant: TenantName::new("acme").unwrap(),
            answers: None,
            not_before: None,
            expires: SystemTime::now() + Duration::from_secs(3600),
            set: of(r#"[{"pattern": "**"}]"#),
            calls: None,
        }
    }

    pub fn mint(&self, change: impl FnOnce(&mut Grant)) -> String {
        let mut grant = self.grant();
        change(&mut grant);
        self.issuer.mint(&grant).unwrap().into()
    }

    pub fn revoke(&self, token: &str) {
        fs::write(self.path("revoked"), revocation_ids(token).unwrap()[0].to_string()).unwrap();
    }

    pub fn break_list(&self) {
        fs::write(self.path("revoked"), "no id").unwrap();
    }

    pub fn remove_key(&self) {
        fs::remove_file(self.path("keys/1.pem")).unwrap();
    }

    pub fn replace_key(&self) {
        fs::write(self.path("keys/1.pem"), SecretKey::generate().unwrap().public().to_pem()).unwrap();
    }

    /// Makes the files as they should be.
    pub fn mend(&self) {
        fs::write(self.path("keys/1.pem"), self.issuer.public_key().to_pem()).unwrap();
        fs::write(self.path("revoked"), "").unwrap();
    }
}

/// A set of capabilities.
pub fn of(set: &str) -> Capabilities {
    Capabilities::from_json(set).unwrap()
}

/// The token, under one more set.
pub fn narrowed(token: &str, set: &str) -> String {
    attenuate(token, &Narrowing { set: Some(of(set)), ..Narrowing::default() }).unwrap().into()
}

/// A job that uses a token.
pub fn job(token: &str, code: &str) -> Job {
    let tools = ["pay", "begin"].map(ToolSpec::new).into();
    Job { tools, token: Some(TokenText::new(token)), ..python(code) }
}

/// Code that makes one call, and prints the answer or the error.
pub fn pays(amount: u32) -> String {
    format!("try:\n    print(await pay(amount={amount}))\nexcept ToolError as error:\n    print(error)\n")
}

/// What the code printed.
pub fn lines(outcome: &Outcome) -> Vec<String> {
    outcome.stdout.lines().map(str::to_owned).collect()
}
