//! TLS for every connection that a process of the fleet makes: to RabbitMQ, to Redis and to the collector of traces.
//!
//! One rule for all of them. The server's certificate must lead to a root that this machine trusts, or to one of `tls_ca`
//! where that is set; it must be for the host that was named. A client certificate is shown where one is set. The files
//! are read anew for each connection, so that renewed certificates need no restart.
//!
//! A connection that is meant to be encrypted is so, or there is none: no library decides about that, [`Tls::connect`] does.

mod error;
mod stream;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

pub use error::{Error, refusal};
pub use stream::Stream;

/// How long a server may take to answer in TLS: less than any attempt to connect takes, so that this is what is told.
const HANDSHAKE: Duration = Duration::from_secs(4);
const SILENT: &str = "no answer to the handshake of TLS within 4 s; is this the server's port for TLS?";

/// Whom we trust, and who we are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// PEM file of the authorities that are trusted, in place of the system's.
    pub ca: Option<PathBuf>,
    /// PEM file of the client's certificate, and of those between it and its authority.
    pub cert: Option<PathBuf>,
    /// PEM file of that certificate's private key.
    pub key: Option<PathBuf>,
}

/// Whether a connection is encrypted. Its URL's scheme says so, and nothing changes it later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// No.
    Plain,
    /// By TLS.
    Encrypted,
}

impl Tls {
    /// Reads the files that are named, so that a mistake is told at the start.
    ///
    /// # Errors
    /// A file that can't be used; a certificate without a key, or a key without a certificate.
    pub fn check(&self) -> Result<(), Error> {
        match self.ca.is_some() || self.cert.is_some() || self.key.is_some() {
            true => self.config(&[]).map(drop),
            // The system's roots matter only to those who connect by TLS.
            false => Ok(()),
        }
    }

    /// Connects, and shakes hands where the wire is encrypted. `alpn` names the protocols that are spoken on it, if that matters.
    ///
    /// # Errors
    /// Nobody answers there; the server's certificate is not to be trusted; the server speaks no TLS.
    pub async fn connect(
        &self,
        host: &str,
        port: u16,
        wire: Wire,
        alpn: &'static [&'static [u8]],
    ) -> Result<Stream, Error> {
        let at: Arc<str> = format!("{host}:{port}").into();
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let io = |source| Error::Io { at: at.to_string(), source };
        if wire == Wire::Plain {
            let tcp = TcpStream::connect((host.as_str(), port)).await.map_err(io)?;
            tcp.set_nodelay(true).map_err(io)?;
            return Ok(Stream::plain(tcp));
        }
        let name = ServerName::try_from(host.clone()).map_err(|_| Error::Name(host.clone()))?;
        let files = self.clone();
        let config = tokio::task::spawn_blocking(move || files.config(alpn))
            .await
            .map_err(|error| io(std::io::Error::other(error)))??;
        let tcp = TcpStream::connect((host.as_str(), port)).await.map_err(io)?;
        tcp.set_nodelay(true).map_err(io)?;
        let handshake = timeout(HANDSHAKE, TlsConnector::from(Arc::new(config)).connect(name, tcp)).await;
        let handshake = handshake.unwrap_or_else(|_| Err(std::io::Error::new(std::io::ErrorKind::TimedOut, SILENT)));
        let encrypted = handshake.map_err(|error| Error::of(error, &at, self.ca.as_deref()))?;
        Ok(Stream::encrypted(encrypted, at))
    }

    fn config(&self, alpn: &[&[u8]]) -> Result<ClientConfig, Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::Setup(error.to_string()))?
            .with_root_certificates(self.roots()?);
        let mut config = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => {
                let private = PrivateKeyDer::from_pem_file(key).map_err(|error| Error::file(key, error))?;
                let chain = certificates(cert)?;
                builder.with_client_auth_cert(chain, private).map_err(|error| Error::file(cert, error))?
            }
            (None, None) => builder.with_no_client_auth(),
            _ => return Err(Error::Setup("tls_cert and tls_key belong together: set both, or neither".to_owned())),
        };
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        Ok(config)
    }

    fn roots(&self) -> Result<RootCertStore, Error> {
        let mut roots = RootCertStore::empty();
        if let Some(ca) = &self.ca {
            for certificate in certificates(ca)? {
                roots.add(certificate).map_err(|error| Error::file(ca, error))?;
            }
            return Ok(roots);
        }
        let found = rustls_native_certs::load_native_certs();
        // Some systems carry old certificates that no longer can be read: those that can are enough.
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            let why = "this system has no root certificates: install them (Debian: ca-certificates), or set tls_ca";
            return Err(Error::Setup(why.to_owned()));
        }
        Ok(roots)
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let found: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(path).map_err(|error| Error::file(path, error))?.collect();
    let found = found.map_err(|error| Error::file(path, error))?;
    if found.is_empty() {
        return Err(Error::file(path, "it holds no certificate in PEM form"));
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
