//! Signed URLs of the worker's own server. Everybody who has such a URL can fetch its object, under its name, until it
//! expires.

use hmac::{Hmac, KeyInit, Mac};
use object_store::signer::Url;
use sha2::Sha256;
use thermae_schemas::TenantName;

/// The key that signs URLs.
pub(super) struct Key(Hmac<Sha256>);

/// What a signed URL allows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grant<'a> {
    /// Name of the tenant.
    pub(super) tenant: &'a str,
    /// Key of the object.
    pub(super) key: &'a str,
    /// Name under which the object is saved. It also decides the media type.
    pub(super) name: &'a str,
    /// When the URL expires, in seconds since 1970.
    pub(super) expires: u64,
}

impl Key {
    /// A key from this secret, or a random key.
    pub(super) fn new(secret: Option<&str>) -> Self {
        let random = || [uuid::Uuid::new_v4().into_bytes(), uuid::Uuid::new_v4().into_bytes()].concat();
        let secret = secret.map_or_else(random, |text| text.as_bytes().to_vec());
        Self(Hmac::new_from_slice(&secret).unwrap_or_else(|_| unreachable!("HMAC takes keys of any length")))
    }

    fn mac(&self, grant: &Grant<'_>) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        mac.update(b"thermae artifact 1\0");
        for part in [grant.tenant, grant.key, grant.name] {
            // With their lengths, so that no two grants have the same text.
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part.as_bytes());
        }
        mac.update(&grant.expires.to_le_bytes());
        mac
    }

    /// The signed URL of an object, below `base`.
    pub(super) fn url(&self, base: &Url, tenant: &TenantName, key: &str, name: &str, expires: u64) -> Url {
        let mac = self.mac(&Grant { tenant: tenant.as_str(), key, name, expires }).finalize().into_bytes();
        let mut url = base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(["artifacts", tenant.as_str(), key]);
        }
        url.query_pairs_mut()
            .clear()
            .append_pair("name", name)
            .append_pair("expires", &expires.to_string())
            .append_pair("signature", &hex::encode(mac));
        url
    }

    /// Whether this is the grant's signature. The check takes the same time whatever is wrong with it.
    pub(super) fn signed(&self, grant: &Grant<'_>, signature: &str) -> bool {
        hex::decode(signature).is_ok_and(|bytes| self.mac(grant).verify_slice(&bytes).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_good_for_what_it_was_made_for_and_nothing_else() {
        let key = Key::new(Some("secret"));
        let base = Url::parse("http://worker:9465/").unwrap();
        let tenant = TenantName::new("acme").unwrap();
        let url = key.url(&base, &tenant, "ab12", "a b&c.png", 1000);
        assert!(
            url.as_str().starts_with("http://worker:9465/artifacts/acme/ab12?name=a+b%26c.png&expires=1000&signature=")
        );
        let signature = url.query_pairs().find(|(name, _)| name == "signature").unwrap().1.into_owned();
        let grant = Grant { tenant: "acme", key: "ab12", name: "a b&c.png", expires: 1000 };
        assert!(key.signed(&grant, &signature));
        for other in [
            Grant { tenant: "globex", ..grant },
            Grant { key: "ab13", ..grant },
            Grant { name: "a.html", ..grant },
            Grant { expires: 1001, ..grant },
            Grant { tenant: "acmea", key: "b12", ..grant },
        ] {
            assert!(!key.signed(&other, &signature), "{other:?}");
        }
        for bad in ["", "zz", "é", &signature[..62], &format!("{signature}00"), &signature[1..]] {
            assert!(!key.signed(&grant, bad), "{bad:?}");
        }
        assert!(!Key::new(Some("other")).signed(&grant, &signature));
        assert!(!Key::new(None).signed(&grant, &signature), "a random key is nobody else's");
    }
}
