//! Spans reach a receiver with TLS, whose certificate is from a private authority.

use std::sync::Arc;

use thermae_service::telemetry;
use thermae_service::tls::Tls;
use thermae_testkit::collector::Collector;
use tokio::net::{TcpListener, TcpStream};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spans_reach_a_receiver_by_tls() {
    let signed = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let ca = dir.path().join("ca.pem");
    std::fs::write(&ca, signed.cert.pem()).unwrap();
    let key = rustls::pki_types::PrivatePkcs8KeyDer::from(signed.key_pair.serialize_der());
    let mut config = rustls::ServerConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![signed.cert.der().clone()], key.into())
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));

    let collector = Collector::start().unwrap();
    let plain = collector.endpoint().trim_start_matches("http://").to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("https://{}", listener.local_addr().unwrap());
    let front = tokio::spawn(async move {
        let (tcp, _) = listener.accept().await.unwrap();
        let mut outside = acceptor.accept(tcp).await.unwrap();
        let mut inside = TcpStream::connect(plain).await.unwrap();
        let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
    });
    let options = telemetry::Options { otlp_endpoint: Some(endpoint), log: "warn".into(), ..Default::default() };
    let tls = Tls { ca: Some(ca), ..Tls::default() };
    let guard = telemetry::init("thermae-test", &options, &tls).unwrap();
    tracing::info_span!("run").in_scope(|| tracing::info!("working"));
    guard.shutdown().await;
    front.abort();
    let spans = collector.end();
    assert_eq!(spans.first().expect("a span").name, "run");
}
