//! TLS errors, with what to do about them.

use std::error::Error as StdError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::{AlertDescription, CertificateError};

/// Why a connection could not be made, or why it ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of certificates or keys can't be used.
    #[error("the TLS file {} can't be used: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why it can't be used. This never contains anything from the file.
        why: String,
    },
    /// The settings contradict each other, or the system lacks something.
    #[error("{0}")]
    Setup(String),
    /// The host's name can't be in any certificate.
    #[error("{0:?} is neither a host name nor an address, so no certificate can be for it")]
    Name(String),
    /// One side refused the other in TLS, or the server doesn't speak TLS.
    #[error("can't speak TLS with {at}: {why}")]
    Refused {
        /// Host and port.
        at: String,
        /// What failed, and what to do about it.
        why: String,
    },
    /// The server doesn't answer, or the connection was lost.
    #[error("{at}: {source}")]
    Io {
        /// Host and port.
        at: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

impl Error {
    pub(super) fn file(path: &Path, why: impl std::fmt::Display) -> Self {
        Self::File { path: path.to_owned(), why: why.to_string() }
    }

    /// The error for a failed handshake, or for an encrypted stream that failed.
    pub(super) fn of(source: io::Error, at: &str, ca: Option<&Path>) -> Self {
        match source.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(error) => Self::Refused { at: at.to_owned(), why: explain(error, ca) },
            None => Self::Io { at: at.to_owned(), source },
        }
    }

    /// Whether a retry is useless until somebody changes a setting, a file or a certificate.
    pub fn is_final(&self) -> bool {
        !matches!(self, Self::Io { .. })
    }
}

/// Finds a refusal among an error's causes, because libraries wrap the errors of a [`super::Stream`].
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

/// Our error inside this one, if there is one. Needed because the `source` of an `io::Error` skips the error that it
/// wraps.
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
            "the server requires a client certificate: set tls_cert and tls_key".to_owned()
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
            "the server and this program have no protocol or cipher in common, or the server requires a client \
             certificate (tls_cert and tls_key); this program speaks TLS 1.2 and 1.3 ({error})"
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
