//! TLS for every connection that a process of the fleet makes: to RabbitMQ, to Redis and to the collector of traces.
//!
//! The same rules apply to all of them. The server's certificate must be for the host in the URL, and signed by an
//! authority that this machine trusts, or by one in `tls_ca` if that is set. If a client certificate is set, it is
//! shown. The files are read again for each connection, so renewed certificates need no restart.
//!
//! [`Tls::connect`] alone decides whether a connection is encrypted, and no library does. A connection that should be
//! encrypted is never made without encryption.

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

/// How long a server may take for the TLS handshake. This is shorter than any limit for connecting, so that the error
/// is this one.
const HANDSHAKE: Duration = Duration::from_secs(4);
const SILENT: &str = "no answer to the TLS handshake within 4 s; is this the server's port for TLS?";

/// Which authorities are trusted, and which certificate is shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// PEM file of the authorities to trust. It replaces the system's.
    pub ca: Option<PathBuf>,
    /// PEM file of the client's certificate, and of the certificates between it and its authority.
    pub cert: Option<PathBuf>,
    /// PEM file of the private key of `cert`.
    pub key: Option<PathBuf>,
}

/// Whether a connection is encrypted. The scheme of its URL decides this, and nothing changes it later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// Without TLS.
    Plain,
    /// With TLS.
    Encrypted,
}

impl Tls {
    /// Reads the configured files, so that a mistake is reported at the start.
    ///
    /// # Errors
    /// A file can't be used, or there is a certificate without a key, or a key without a certificate.
    pub fn check(&self) -> Result<(), Error> {
        match self.ca.is_some() || self.cert.is_some() || self.key.is_some() {
            true => self.config(&[]).map(drop),
            // The system's authorities matter only if there are connections with TLS.
            false => Ok(()),
        }
    }

    /// Connects, with a TLS handshake if `wire` is encrypted. `alpn` names the protocols to negotiate, if that matters.
    ///
    /// # Errors
    /// The server doesn't answer, its certificate is not trusted, or it doesn't speak TLS.
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
        // Some systems have old certificates that can't be read any more. The others are enough.
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
        return Err(Error::file(path, "it holds no certificate in PEM format"));
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
