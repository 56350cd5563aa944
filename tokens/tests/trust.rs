//! Keys and revocations in files that change.

mod common;

use std::fs;
use std::time::{Duration, SystemTime};

use common::{grant, issuer, tenant};
use thermae_tokens::{Grant, Issuer, SKEW, Trust, revocation_ids};

/// A folder with the key of an issuer, a token of it, and what trusts them.
struct Site {
    folder: tempfile::TempDir,
    issuer: Issuer,
    token: String,
    trust: Trust,
}

impl Site {
    fn new() -> Self {
        let (folder, issuer) = (tempfile::tempdir().unwrap(), issuer());
        let keys = folder.path().join("keys");
        fs::create_dir(&keys).unwrap();
        issuer.public_key().write_new(keys.join("7.pem")).unwrap();
        let revoked = folder.path().join("revoked");
        fs::write(&revoked, "").unwrap();
        let hour = SystemTime::now() + Duration::from_secs(3600);
        let token = issuer.mint(&Grant { expires: hour, ..grant() }).unwrap().into();
        Self { trust: Trust::new(keys, Some(revoked), SKEW), folder, issuer, token }
    }

    /// `ok`, a code, or the error of a file.
    fn outcome(&self) -> String {
        match self.trust.verifier() {
            Ok(verifier) => match verifier.verify(&self.token, &tenant("acme"), SystemTime::now()) {
                Ok(_) => "ok".to_owned(),
                Err(refused) => refused.code().as_str().to_owned(),
            },
            Err(error) => error.to_string(),
        }
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).unwrap();
    }
}

#[test]
fn what_changes_in_the_files_counts_at_once() {
    let site = Site::new();
    assert_eq!(site.outcome(), "ok");
    let id = revocation_ids(&site.token).unwrap()[0].to_string();
    // Comments of one length: only the times of the file differ.
    site.write("revoked", &format!("#{}", "0".repeat(127)));
    assert_eq!(site.outcome(), "ok");
    site.write("revoked", &id);
    assert_eq!(site.outcome(), "token_revoked");
    site.write("revoked", "");
    assert_eq!(site.outcome(), "ok");
    site.write("keys/7.pem", &issuer().public_key().to_pem());
    assert_eq!(site.outcome(), "token_bad_signature");
    fs::remove_file(site.folder.path().join("keys/7.pem")).unwrap();
    assert_eq!(site.outcome(), "token_unknown_key");
    site.write("keys/7.pem", &site.issuer.public_key().to_pem());
    assert_eq!(site.outcome(), "ok");
}

#[test]
fn what_an_editor_keeps_beside_a_key_is_none() {
    let site = Site::new();
    site.write("keys/.7.pem.swp", "half a key");
    std::os::unix::fs::symlink("somebody@somewhere", site.folder.path().join("keys/.#7.pem")).unwrap();
    assert_eq!(site.outcome(), "ok");
}

#[test]
fn while_a_file_can_t_be_read_nothing_is_valid() {
    let site = Site::new();
    assert_eq!(site.outcome(), "ok");
    for (name, text) in [("revoked", "no id"), ("keys/7.pem", "no key"), ("keys/8.txt", "")] {
        let path = site.folder.path().join(name);
        let before = fs::read_to_string(&path);
        site.write(name, text);
        let file = name.rsplit('/').next().unwrap();
        assert!(site.outcome().contains(file), "{}", site.outcome());
        match before {
            Ok(before) => site.write(name, &before),
            Err(_) => fs::remove_file(path).unwrap(),
        }
        assert_eq!(site.outcome(), "ok");
    }
    fs::remove_file(site.folder.path().join("revoked")).unwrap();
    assert!(site.outcome().contains("revoked"), "a list that is gone is no empty list");
}
