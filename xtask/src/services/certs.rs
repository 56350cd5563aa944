//! Certificates for one set of servers: an authority, a server certificate and a client certificate. They are made with
//! the set, in its folder.

use std::{
    fs,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair};

/// The folder with a set's certificates and keys.
#[derive(Debug, Clone)]
pub(crate) struct Certs {
    dir: PathBuf,
}

impl Certs {
    /// The certificates of the set in the folder `set`; they are made if they are missing.
    pub(crate) fn of(set: &Path) -> Result<Self> {
        let certs = Self { dir: set.join("certs") };
        if !certs.client_key().is_file() {
            certs.make().context("make the set's certificates")?;
        }
        Ok(certs)
    }

    /// The authority's certificate.
    pub(crate) fn ca(&self) -> PathBuf {
        self.dir.join("ca.pem")
    }

    /// The servers' certificate.
    pub(crate) fn server(&self) -> PathBuf {
        self.dir.join("server.pem")
    }

    /// The servers' private key.
    pub(crate) fn server_key(&self) -> PathBuf {
        self.dir.join("server.key")
    }

    /// The clients' certificate.
    pub(crate) fn client(&self) -> PathBuf {
        self.dir.join("client.pem")
    }

    /// The clients' private key.
    pub(crate) fn client_key(&self) -> PathBuf {
        self.dir.join("client.key")
    }

    fn make(&self) -> Result<()> {
        fs::create_dir_all(&self.dir)?;
        let named = |name: &str, hosts: &[&str]| -> Result<CertificateParams> {
            let mut params = CertificateParams::new(hosts.iter().map(ToString::to_string).collect::<Vec<_>>())?;
            params.distinguished_name.push(DnType::CommonName, name);
            Ok(params)
        };
        let mut params = named("thermae tests' authority", &[])?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate()?;
        let ca = params.self_signed(&key)?;
        fs::write(self.ca(), ca.pem())?;
        let issue = |mut params: CertificateParams, usage, to: PathBuf, key_to: PathBuf| -> Result<()> {
            params.extended_key_usages = vec![usage];
            let own = KeyPair::generate()?;
            fs::write(to, params.signed_by(&own, &ca, &key)?.pem())?;
            let mut file = fs::OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(key_to)?;
            Ok(std::io::Write::write_all(&mut file, own.serialize_pem().as_bytes())?)
        };
        let server = named("thermae tests' servers", &["127.0.0.1", "localhost"])?;
        issue(server, ExtendedKeyUsagePurpose::ServerAuth, self.server(), self.server_key())?;
        let client = named("thermae tests' clients", &[])?;
        issue(client, ExtendedKeyUsagePurpose::ClientAuth, self.client(), self.client_key())
    }
}
