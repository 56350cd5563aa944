//! What went wrong, and what to do about it.

use std::error::Error as StdError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::{AlertDescription, CertificateError};

/// Why there is no connection, or why one ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of certificates or keys can't be used.
    #[error("the TLS file {} can't be used: {why}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why; never what it holds.
        why: String,
    },
    /// The settings contradict each other, or the system lacks something.
    #[error("{0}")]
    Setup(String),
    /// A host that no certificate could be for.
    #[error("{0:?} is neither a host name nor an address, so no certificate can be for it")]
    Name(String),
    /// The other side, or what it shows, is not what it should be.
    #[error("no TLS with {at}: {why}")]
    Refused {
        /// Host and port.
        at: String,
        /// What failed, and what to do.
        why: String,
    },
    /// Nobody there, or the connection ended.
    #[error("{at}: {source}")]
    Io {
        /// Host and port.
        at: String,
        /// The system's word.
        #[source]
        source: io::Error,
    },
}

impl Error {
    pub(super) fn file(path: &Path, why: impl std::fmt::Display) -> Self {
        Self::File { path: path.to_owned(), why: why.to_string() }
    }

    /// An error of the handshake or of the encrypted stream.
    pub(super) fn of(source: io::Error, at: &str, ca: Option<&Path>) -> Self {
        match source.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(error) => Self::Refused { at: at.to_owned(), why: explain(error, ca) },
            None => Self::Io { at: at.to_owned(), source },
        }
    }

    /// Whether waiting does not help: somebody has to change a setting, a file or a certificate.
    pub fn is_final(&self) -> bool {
        !matches!(self, Self::Io { .. })
    }
}

/// The refusal that is somewhere among an error's causes: libraries wrap what a [`super::Stream`] tells them.
pub fn refusal<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Error> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        let found = unwrapped(error).filter(|error| error.is_final());
        if found.is_some() {
            return found;
        }
        cause = error.source();
    }
    None
}

/// Ours, below what stands for it: an error of input and output names the cause of its custom error, and not that error.
fn unwrapped<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Error> {
    if let Some(shared) = error.downcast_ref::<Arc<dyn StdError + Send + Sync>>() {
        return unwrapped(&**shared);
    }
    if let Some(shared) = error.downcast_ref::<Arc<io::Error>>() {
        return unwrapped(&**shared);
    }
    match error.downcast_ref::<io::Error>() {
        Some(io) => unwrapped(io.get_ref()?),
        None => error.downcast_ref(),
    }
}

fn explain(error: &rustls::Error, ca: Option<&Path>) -> String {
    use rustls::Error as Tls;
    match error {
        Tls::InvalidCertificate(certificate) => explain_certificate(certificate, ca),
        Tls::InvalidMessage(_) => "the server does not answer in TLS; is this its port for TLS (RabbitMQ's is usually \
             5671)? For a plain connection, write amqp:// or redis://"
            .to_owned(),
        Tls::AlertReceived(AlertDescription::CertificateRequired) => {
            "the server wants a client certificate: set tls_cert and tls_key".to_owned()
        }
        Tls::AlertReceived(
            alert @ (AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::DecryptError
            | AlertDescription::AccessDenied),
        ) => format!(
            "the server refuses our client certificate ({alert:?}): check tls_cert, its dates, and that the server trusts its authority"
        ),
        Tls::AlertReceived(AlertDescription::HandshakeFailure | AlertDescription::ProtocolVersion) => format!(
            "the server and this program have no protocol or cipher in common, or it wants a client certificate \
             (tls_cert and tls_key); TLS 1.2 and 1.3 are spoken here ({error})"
        ),
        other => other.to_string(),
    }
}

fn explain_certificate(error: &CertificateError, ca: Option<&Path>) -> String {
    match error {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => match ca {
            None => "no authority that this system trusts has signed its certificate; if it is from an authority of \
                 your own, name that authority's certificate with tls_ca (THERMAE_TLS_CA)"
                .to_owned(),
            Some(ca) => format!(
                "no authority in {} has signed its certificate; tls_ca must hold the one that has",
                ca.display()
            ),
        },
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => format!(
            "its certificate is for another host ({error}); name the host as the certificate does, or give the \
             server a certificate with this name"
        ),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            format!("its certificate has expired ({error}); renew it, and check this machine's clock")
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            format!("its certificate is not valid yet ({error}); check this machine's clock")
        }
        other => format!("its certificate can't be verified: {other}"),
    }
}
