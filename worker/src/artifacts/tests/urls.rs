//! Signed URLs: what they give access to, and how long.

use thermae_runner::frames::Omissions;
use thermae_service::units::Millis;
use tokio_util::sync::CancellationToken;

use super::*;

/// GET of a path with its query. Returns status, headers and body as they came.
pub(super) async fn get(addr: std::net::SocketAddr, target: &str) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(addr).await.unwrap();
    let request = format!("GET {target} HTTP/1.1\r\nHost: {addr}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn served(artifacts: &Artifacts) -> (thermae_service::http::Server, CancellationToken) {
    let stop = CancellationToken::new();
    let listening = thermae_service::http::listen(([127, 0, 0, 1], 0).into()).await.unwrap();
    let health = thermae_service::health::Health::new();
    (listening.serve(health, prometheus::Registry::new(), routes(artifacts.clone()), stop.clone()), stop)
}

#[tokio::test]
async fn a_signed_url_gives_the_file_and_a_changed_one_does_not() {
    let artifacts = opened(ArtifactOptions::default());
    let mut run = gatherer(&artifacts, false);
    send(&mut run, &file("/workspace/artifacts/é \"x\".html".as_bytes(), b"<b>hi</b>")).unwrap();
    let artifact = run.finish(Omissions::default()).await.artifacts.remove(0);
    let (server, _stop) = served(&artifacts).await;
    let target = artifact.url.unwrap().strip_prefix("http://worker:9465").unwrap().to_owned();

    let answer = get(server.addr(), &target).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("<b>hi</b>"), "{answer}");
    for header in [
        "content-type: text/html",
        "content-length: 9",
        "content-disposition: attachment; filename*=UTF-8''%C3%A9%20%22x%22.html",
        "x-content-type-options: nosniff",
    ] {
        assert!(answer.contains(header), "{answer}");
    }
    let last = target.chars().last().unwrap();
    let other = if last == '0' { '1' } else { '0' };
    for bad in [
        format!("{}{other}", &target[..target.len() - 1]),
        target.replace("expires=", "expires=9"),
        target.replace("name=", "name=x"),
        target.replace("/acme/", "/globex/"),
        target.replace("&signature=", "&signed="),
        target.split('?').next().unwrap().to_owned(),
        format!("/artifacts/acme/..%2Fglobex%2Fsecret?{}", target.split('?').nth(1).unwrap()),
    ] {
        let answer = get(server.addr(), &bad).await;
        assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("\"bad_signature\""), "{bad}: {answer}");
    }
    // Health is still served beside artifacts.
    assert!(get(server.addr(), "/healthz").await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn an_expired_url_says_so_and_a_gone_file_too() {
    let artifacts = opened(ArtifactOptions { url_ttl: Millis::from_millis(0), ..Default::default() });
    let (server, _stop) = served(&artifacts).await;
    let target = |url: Option<(String, SystemTime)>| url.unwrap().0.replace("http://worker:9465", "");
    let expired = target(artifacts.url(&tenant("acme"), "ab", "x").await.unwrap());
    let answer = get(server.addr(), &expired).await;
    assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("\"url_expired\""), "{answer}");

    let artifacts = opened(ArtifactOptions::default());
    let (server, _stop) = served(&artifacts).await;
    let gone = target(artifacts.url(&tenant("acme"), "ab", "x").await.unwrap());
    let answer = get(server.addr(), &gone).await;
    assert!(answer.starts_with("HTTP/1.1 404") && answer.contains("\"artifact_gone\""), "{answer}");
}

#[tokio::test]
async fn an_s3_store_signs_its_own_urls() {
    let s3 = [("region", "eu-north-1"), ("access_key_id", "id"), ("secret_access_key", "secret")];
    let s3 = s3.map(|(name, value)| (name.to_owned(), value.into())).into();
    let options = ArtifactOptions { store: Some("s3://bucket/some/prefix".into()), s3, ..Default::default() };
    let artifacts = opened(options);
    let (url, _) = artifacts.url(&tenant("acme"), "ab12", "plot 1.png").await.unwrap().unwrap();
    assert!(url.contains("bucket") && url.contains("/some/prefix/acme/ab12?"), "{url}");
    for part in ["X-Amz-Signature=", "X-Amz-Expires=3600", "response-content-disposition=attachment", "image%2Fpng"] {
        assert!(url.contains(part), "{url}");
    }
}

#[test]
fn urls_lead_to_an_address_that_others_can_reach() {
    let base = |listen: &str| own_base(listen.parse().unwrap());
    assert_eq!((base("127.0.0.1:9465"), base("[::1]:9")), ("http://127.0.0.1:9465".into(), "http://[::1]:9".into()));
    let any = base("0.0.0.0:9464");
    assert!(!any.contains("0.0.0.0") && any.ends_with(":9464"), "{any}");
}
