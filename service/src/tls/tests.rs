use std::sync::Arc;

use rcgen::{BasicConstraints, Certificate, CertificateParams, ExtendedKeyUsagePurpose, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

use super::*;

/// An authority for one test, and the folder with the certificates that it has signed.
struct Authority {
    issuer: Certificate,
    key: KeyPair,
    dir: tempfile::TempDir,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let issuer = params.self_signed(&key).unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("ca.pem"), issuer.pem()).unwrap();
        Self { issuer, key, dir }
    }

    /// Issues a certificate and its key. Both are returned, and written to `<name>.pem` and `<name>.key`.
    fn issue(
        &self,
        name: &str,
        change: impl FnOnce(&mut CertificateParams),
    ) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer, &self.key).unwrap();
        std::fs::write(self.file(&format!("{name}.pem")), certificate.pem()).unwrap();
        std::fs::write(self.file(&format!("{name}.key")), key.serialize_pem()).unwrap();
        (certificate.der().clone(), PrivatePkcs8KeyDer::from(key.serialize_der()).into())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn trust(&self) -> Tls {
        Tls { ca: Some(self.file("ca.pem")), ..Tls::default() }
    }

    /// A server that echoes each byte. With `ask`, it requires client certificates of this authority.
    async fn serve(
        &self,
        name: &str,
        ask: bool,
        change: impl FnOnce(&mut CertificateParams),
    ) -> (u16, AbortOnDropHandle<()>) {
        let (certificate, key) = self.issue(name, change);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions().unwrap();
        let builder = if ask {
            let mut roots = RootCertStore::empty();
            roots.add(self.issuer.der().clone()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build().unwrap();
            builder.with_client_cert_verifier(verifier)
        } else {
            builder.with_no_client_auth()
        };
        let acceptor = TlsAcceptor::from(Arc::new(builder.with_single_cert(vec![certificate], key).unwrap()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let task = tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let Ok(mut stream) = acceptor.accept(tcp).await else { continue };
                while let Ok(byte) = stream.read_u8().await {
                    let _ = stream.write_u8(byte).await;
                    let _ = stream.flush().await;
                }
            }
        });
        (port, AbortOnDropHandle::new(task))
    }
}

/// Connects, sends one byte and reads it back.
async fn echo(tls: &Tls, host: &str, port: u16) -> Result<(), Error> {
    let mut stream = tls.connect(host, port, Wire::Encrypted, &[]).await?;
    let io = |source| Error::Io { at: String::new(), source };
    stream.write_u8(7).await.map_err(io)?;
    stream.flush().await.map_err(io)?;
    match stream.read_u8().await {
        Ok(byte) => assert_eq!(byte, 7),
        Err(error) => return Err(io(error)),
    }
    Ok(())
}

/// The message of the refusal, found among the causes of the error.
async fn refused(tls: &Tls, host: &str, port: u16) -> String {
    let error = echo(tls, host, port).await.unwrap_err();
    refusal(&error).unwrap_or_else(|| panic!("no refusal: {error:?}")).to_string()
}

#[tokio::test]
async fn a_private_authority_is_trusted_where_it_is_named() {
    let ours = Authority::new();
    let (port, _server) = ours.serve("127.0.0.1", false, |_| {}).await;
    echo(&ours.trust(), "127.0.0.1", port).await.unwrap();

    let unnamed = refused(&Tls::default(), "127.0.0.1", port).await;
    assert!(unnamed.contains("tls_ca") || unnamed.contains("no root certificates"), "{unnamed}");
    let other = refused(&Authority::new().trust(), "127.0.0.1", port).await;
    assert!(other.contains("ca.pem") && other.contains(&port.to_string()), "{other}");
}

#[tokio::test]
async fn a_certificate_for_another_host_or_another_time_is_refused() {
    let ours = Authority::new();
    let (port, _server) = ours.serve("fleet.example", false, |_| {}).await;
    let why = refused(&ours.trust(), "127.0.0.1", port).await;
    assert!(why.contains("another host") && why.contains("fleet.example"), "{why}");

    let past = |params: &mut CertificateParams| params.not_after = rcgen::date_time_ymd(2001, 1, 1);
    let (port, _server) = ours.serve("127.0.0.1", false, past).await;
    let why = refused(&ours.trust(), "127.0.0.1", port).await;
    assert!(why.contains("expired"), "{why}");
}

#[tokio::test]
async fn a_client_certificate_is_shown_where_it_is_set() {
    let ours = Authority::new();
    let (port, _server) = ours.serve("127.0.0.1", true, |_| {}).await;
    ours.issue("client", |_| {});
    let with = |authority: &Authority, tls: Tls| Tls {
        cert: Some(authority.file("client.pem")),
        key: Some(authority.file("client.key")),
        ..tls
    };
    echo(&with(&ours, ours.trust()), "127.0.0.1", port).await.unwrap();

    let none = refused(&ours.trust(), "127.0.0.1", port).await;
    assert!(none.contains("tls_cert"), "{none}");
    let stranger = Authority::new();
    stranger.issue("client", |_| {});
    let wrong = refused(&with(&stranger, ours.trust()), "127.0.0.1", port).await;
    assert!(wrong.contains("client certificate"), "{wrong}");
}

#[tokio::test]
async fn a_server_without_tls_hears_nothing_but_a_greeting() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = tokio::spawn(async move {
        let (mut tcp, _) = listener.accept().await.unwrap();
        let mut heard = vec![0; 5];
        tcp.read_exact(&mut heard).await.unwrap();
        // RabbitMQ's answer to a greeting that it doesn't know.
        tcp.write_all(b"AMQP\x00\x00\x09\x01").await.unwrap();
        let _ = tcp.read_to_end(&mut heard).await;
        heard
    });
    let why = refused(&Tls::default(), "127.0.0.1", port).await;
    assert!(why.contains("does not answer in TLS") && why.contains("5671"), "{why}");
    let heard = server.await.unwrap();
    assert_eq!(heard[0], 22, "a TLS handshake record, and nothing else");
}

#[test]
fn files_that_cannot_be_used_are_told_at_once() {
    let ours = Authority::new();
    ours.issue("client", |_| {});
    std::fs::write(ours.file("empty.pem"), "").unwrap();
    let of = |name: &str| Some(ours.file(name));
    for (tls, word) in [
        (Tls { ca: of("missing.pem"), ..Tls::default() }, "missing.pem"),
        (Tls { ca: of("empty.pem"), ..Tls::default() }, "empty.pem"),
        (Tls { cert: of("client.pem"), ..Tls::default() }, "tls_key"),
        (Tls { cert: of("client.pem"), key: of("client.pem"), ..Tls::default() }, "client.pem"),
        (Tls { cert: of("ca.pem"), key: of("client.key"), ..Tls::default() }, "ca.pem"),
    ] {
        let error = tls.check().unwrap_err();
        assert!(error.is_final() && error.to_string().contains(word), "{error}");
    }
    Tls { cert: of("client.pem"), key: of("client.key"), ..ours.trust() }.check().unwrap();
    Tls::default().check().unwrap();
}
