mod urls;

use thermae_runner::frames::{self, Frame, Kind, Omissions, Why};
use thermae_schemas::{ErrorCode, InputFile, Job, LeftOutWhy, Outcome};
use thermae_service::units::ByteSize;
use thermae_testkit::bucket::{self, Bucket};

use super::*;

use urls::get;

fn tenant(name: &str) -> TenantName {
    TenantName::new(name).unwrap()
}

fn opened(options: ArtifactOptions) -> Artifacts {
    let url_base = Some("http://worker:9465".into());
    Artifacts::open(&ArtifactOptions { url_base, ..options }, None).unwrap()
}

fn limits() -> frames::ArtifactLimits {
    frames::ArtifactLimits { files: 3, bytes: 100, ..Default::default() }
}

fn gatherer(artifacts: &Artifacts, inline: bool) -> Gatherer {
    Gatherer::new(artifacts.clone(), tenant("acme"), limits(), inline)
}

/// The frames of one file.
fn file(path: &[u8], bytes: &[u8]) -> Vec<Frame> {
    let head = frames::Artifact { path: path.to_vec(), size: bytes.len() as u64 };
    let mut list = vec![Frame::json(Kind::Artifact, 1, &head).unwrap()];
    list.extend(bytes.chunks(7).map(|chunk| Frame::raw(Kind::ArtifactData, 1, chunk)));
    list.push(Frame::json(Kind::ArtifactEnd, 1, &frames::ArtifactEnd { changed: false }).unwrap());
    list
}

fn send(gatherer: &mut Gatherer, frames: &[Frame]) -> Result<(), String> {
    frames.iter().try_for_each(|frame| gatherer.take(frame)).map_err(|broken| broken.to_string())
}

#[tokio::test]
async fn files_are_stored_by_content_and_tenant_and_keep_their_paths() {
    let artifacts = opened(ArtifactOptions::default());
    let mut run = gatherer(&artifacts, false);
    send(&mut run, &file(b"/workspace/artifacts/a/plot.png", b"same")).unwrap();
    send(&mut run, &file(b"/workspace/artifacts/b/plot.png", b"same")).unwrap();
    send(&mut run, &file(b"/workspace/artifacts/\xff\n", b"")).unwrap();
    let mut omissions = Omissions::default();
    omissions.add(b"/workspace/artifacts/link".to_vec(), Why::Link, None);
    let gathered = run.finish(omissions).await;
    let [one, two, odd] = &gathered.artifacts[..] else { panic!("{gathered:?}") };
    assert_eq!((one.id == two.id, one.path == two.path), (true, false));
    assert_eq!((one.name.as_str(), one.media_type.as_str(), one.size), ("plot.png", "image/png", 4));
    assert_eq!(one.sha256, "0967115f2813a3541eaef77de9d9d5773f1c0c04314b0bbfe4ff3b3b1c55b5d5");
    assert_eq!((odd.path.as_str(), odd.path_base64.is_some()), ("/workspace/artifacts/\\xff\n", true));
    assert_eq!(odd.media_type, "application/octet-stream");
    assert_eq!(gathered.map.len(), 3);
    assert_eq!(gathered.map["/workspace/artifacts/b/plot.png"], two.id);
    assert_eq!(gathered.left_out[0].why, LeftOutWhy::Link);
    assert!(one.base64.is_none() && one.created_at.ends_with('Z') && one.expires_at > Some(one.created_at.clone()));
    assert_eq!(artifacts.get(&tenant("acme"), &one.id, 100).await.unwrap(), "same");
    assert!(artifacts.get(&tenant("globex"), &one.id, 100).await.unwrap_err().is_missing(), "another tenant's");
}

#[tokio::test]
async fn a_runner_that_sends_more_than_it_may_is_not_believed() {
    let artifacts = opened(ArtifactOptions::default());
    let mut run = gatherer(&artifacts, false);
    assert!(send(&mut run, &file(b"/a", &[0; 101])).unwrap_err().contains("more bytes"));
    let mut run = gatherer(&artifacts, false);
    for _ in 0..3 {
        send(&mut run, &file(b"/a", b"x")).unwrap();
    }
    assert!(send(&mut run, &file(b"/a", b"x")).unwrap_err().contains("more artifacts"));
    let mut run = gatherer(&artifacts, false);
    assert!(run.take(&Frame::raw(Kind::ArtifactData, 1, *b"x")).is_err(), "no file has begun");
    let begin = &file(b"/a", b"x")[0];
    run.take(begin).unwrap();
    assert!(run.take(begin).is_err(), "the one before has not ended");
}

#[tokio::test]
async fn the_outcome_holds_only_so_much_itself() {
    let artifacts = opened(ArtifactOptions { inline_up_to: ByteSize(10), ..Default::default() });
    let mut run = gatherer(&artifacts, true);
    for (path, bytes) in [("/a", "123456"), ("/b", "12345"), ("/c", "1234")] {
        send(&mut run, &file(path.as_bytes(), bytes.as_bytes())).unwrap();
    }
    let inline: Vec<_> = run.finish(Omissions::default()).await.artifacts.into_iter().map(|a| a.base64).collect();
    assert_eq!(inline, [Some("MTIzNDU2".to_owned()), None, Some("MTIzNA==".to_owned())]);
}

#[tokio::test]
async fn what_the_store_does_not_take_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("file://{}/store", folder.path().display());
    let artifacts = opened(ArtifactOptions { store: Some(store), ..Default::default() });
    std::fs::remove_dir_all(folder.path().join("store")).unwrap();
    std::fs::write(folder.path().join("store"), "in the way").unwrap();
    let mut run = gatherer(&artifacts, false);
    send(&mut run, &file(b"/workspace/artifacts/a", b"x")).unwrap();
    let gathered = run.finish(Omissions::default()).await;
    assert!(gathered.artifacts.is_empty() && gathered.map.is_empty());
    assert_eq!(
        (gathered.left_out[0].path.as_str(), gathered.left_out[0].why),
        ("/workspace/artifacts/a", LeftOutWhy::NotStored)
    );
}

#[tokio::test]
async fn a_ref_names_the_tenants_own_artifacts_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| folder.path().join(path);
    let (mine, theirs) = ("a".repeat(64), "b".repeat(64));
    for (path, text) in [
        (format!("store/acme/{mine}"), "mine"),
        (format!("store/acme/checkpoints/s/1/{mine}"), "a session's"),
        (format!("store/acme/outcomes/{mine}"), "an outcome"),
        ("store/acme/data/in.csv".to_owned(), "the operator's"),
        (format!("store/globex/{theirs}"), "theirs"),
        ("outside".to_owned(), "the worker's"),
    ] {
        std::fs::create_dir_all(at(&path).parent().unwrap()).unwrap();
        std::fs::write(at(&path), text).unwrap();
    }
    let store = format!("file://{}", at("store").display());
    let artifacts = opened(ArtifactOptions { store: Some(store), ..Default::default() });
    let file =
        |reference: &str| serde_json::from_value::<InputFile>(serde_json::json!({ "path": "in", "ref": reference }));
    let bring = |reference: &str, room| {
        let (artifacts, file) = (artifacts.clone(), file(reference).unwrap());
        async move {
            let job = Job { files: vec![file], ..Job::python("") };
            let files = inputs::files(&artifacts, &tenant("acme"), &job, room).await;
            files.map(|files| files[0].bytes.clone()).map_err(|outcome| outcome.error.unwrap().code)
        }
    };
    assert_eq!(bring(&mine, 4).await.unwrap(), "mine");
    assert_eq!(bring(&mine, 3).await.unwrap_err(), ErrorCode::FilesTooLarge);
    assert_eq!(bring(&theirs, 1000).await.unwrap_err(), ErrorCode::UnknownRef);
    for bad in [
        "",
        ".",
        "..",
        "data/in.csv",
        "data",
        "a\0b",
        "/etc/passwd",
        "%2e%2e/globex/secret",
        &at("outside").display().to_string(),
        &format!("../globex/{theirs}"),
        &format!("globex/{theirs}"),
        &format!("checkpoints/s/1/{mine}"),
        &format!("outcomes/{mine}"),
        &format!("./{mine}"),
        &format!("{mine}/"),
        &mine.to_uppercase(),
        &mine[1..],
    ] {
        let job = serde_json::json!({ "code": "", "inputs": { "x": { "ref": bad } } });
        assert!(file(bad).is_err() && serde_json::from_value::<Job>(job).is_err(), "{bad:?}");
    }
}

#[tokio::test]
async fn inputs_come_from_text_and_base64_within_their_room() {
    let artifacts = opened(ArtifactOptions::default());
    let base64 =
        |content: &[u8]| InputFile { text: None, base64: Some(content.to_vec().into()), ..InputFile::text("b", "") };
    let gather = |files: Vec<InputFile>| {
        let artifacts = artifacts.clone();
        async move { inputs::files(&artifacts, &tenant("acme"), &Job { files, ..Job::python("") }, 10).await }
    };
    let files = gather(vec![InputFile::text("a/b", "é"), base64(b"\0\xff")]).await.unwrap();
    assert_eq!((files[0].input.path.as_str(), files[0].input.size, &files[1].bytes[..]), ("a/b", 2, &b"\0\xff"[..]));
    let code = |outcome: Result<Vec<super::InputFile>, Outcome>| outcome.unwrap_err().error.unwrap().code;
    let nothing = InputFile { text: None, ..InputFile::text("x", "") };
    assert_eq!(code(gather(vec![nothing]).await), ErrorCode::SchemaViolation);
    let six = || InputFile::text("x", "123456");
    assert_eq!(code(gather(vec![six(), six()]).await), ErrorCode::FilesTooLarge);
    assert_eq!(code(gather(vec![InputFile::text("../x", "")]).await), ErrorCode::BadPath);
}

/// Options for a store in this bucket, below a prefix.
pub(super) fn in_bucket(bucket: &Bucket) -> ArtifactOptions {
    let endpoint = format!("http://{}", bucket.addr());
    let s3 = [
        ("endpoint", endpoint.as_str()),
        ("allow_http", "true"),
        ("region", "eu-north-1"),
        ("access_key_id", bucket::KEY_ID),
        ("secret_access_key", bucket::SECRET),
    ];
    let s3 = s3.map(|(name, value)| (name.to_owned(), value.into())).into();
    let store = Some(format!("s3://{}/some/prefix", bucket::NAME));
    ArtifactOptions { store, s3, ..Default::default() }
}

#[tokio::test]
async fn a_bucket_keeps_files_by_tenant_and_gives_them_to_whom_was_given_their_url() {
    let bucket = Bucket::start().unwrap();
    let artifacts = opened(in_bucket(&bucket));
    let (acme, globex) = (tenant("acme"), tenant("globex"));
    let key = artifacts.keep(&acme, Bytes::from_static(b"<b>hi</b>")).await.unwrap().to_string();
    assert_eq!(std::fs::read(bucket.folder().join("some/prefix/acme").join(&key)).unwrap(), b"<b>hi</b>");
    assert_eq!(artifacts.get(&acme, &key, 9).await.unwrap(), "<b>hi</b>");
    assert!(matches!(artifacts.get(&acme, &key, 8).await, Err(Error::TooLarge { size: 9, room: 8 })));
    assert!(artifacts.get(&globex, &key, 9).await.unwrap_err().is_missing());

    let (url, _) = artifacts.url(&acme, &key, "é.html").await.unwrap().unwrap();
    let target = url.strip_prefix(&format!("http://{}", bucket.addr())).unwrap();
    let answer = get(bucket.addr(), target).await;
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("<b>hi</b>"), "{answer}");
    let headers = answer.to_lowercase();
    assert!(headers.contains("content-disposition: attachment") && headers.contains("text/html"), "{answer}");
    let of_another = get(bucket.addr(), &target.replace("/acme/", "/globex/")).await;
    assert!(of_another.starts_with("HTTP/1.1 403"), "{of_another}");

    artifacts.remove(&acme, &key).await.unwrap();
    artifacts.remove(&acme, &key).await.unwrap();
    assert!(artifacts.get(&acme, &key, 9).await.unwrap_err().is_missing());
}

#[tokio::test]
async fn a_bucket_that_refuses_the_key_is_an_error() {
    let bucket = Bucket::start().unwrap();
    let mut options = in_bucket(&bucket);
    options.s3.insert("secret_access_key".into(), "another".into());
    let error = opened(options).keep(&tenant("acme"), Bytes::from_static(b"x")).await.unwrap_err();
    assert!(!error.is_missing() && error.to_string().contains("SignatureDoesNotMatch"), "{error}");
}

#[test]
fn options_that_can_not_be_used_are_named() {
    let open = |options: ArtifactOptions| Artifacts::open(&options, None).unwrap_err().to_string();
    let store = |url: &str| ArtifactOptions { store: Some(url.into()), ..Default::default() };
    for bad in ["nowhere", "/var/lib", "http://x/y", "file://host/x"] {
        assert!(open(store(bad)).contains(bad), "{bad}");
    }
    let base = ArtifactOptions { url_base: Some("worker".into()), ..Default::default() };
    assert!(open(base).contains("artifacts.url_base"));
    let odd = ArtifactOptions { s3: [("colour".to_owned(), "red".into())].into(), ..store("s3://b") };
    assert!(open(odd).contains("artifacts.s3.colour"));
}

#[test]
fn a_workers_own_folder_goes_with_it() {
    let artifacts = opened(ArtifactOptions::default());
    let folder = artifacts.0.folder.as_ref().unwrap().0.path().to_owned();
    assert!(folder.is_dir());
    drop(artifacts);
    assert!(!folder.exists());
}

/// Finds every folder and file below a folder, with its mode.
fn modes(below: &std::path::Path, found: &mut Vec<(String, u32)>) {
    use std::os::unix::fs::PermissionsExt;
    for entry in std::fs::read_dir(below).unwrap().map(Result::unwrap) {
        let meta = entry.metadata().unwrap();
        found.push((entry.path().display().to_string(), meta.permissions().mode() & 0o777));
        if meta.is_dir() {
            modes(&entry.path(), found);
        }
    }
}

#[tokio::test]
async fn what_is_stored_in_a_folder_is_its_owners_alone_and_goes_with_the_worker() {
    let configured = tempfile::tempdir().unwrap();
    std::fs::set_permissions(configured.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let url = format!("file://{}", configured.path().display());
    for store in [None, Some(url)] {
        let artifacts = opened(ArtifactOptions { store, ..ArtifactOptions::default() });
        let own = artifacts.0.folder.as_ref().map(|own| own.0.path().to_owned());
        let id = artifacts.keep(&tenant("acme"), "secret".into()).await.unwrap().to_string();
        let root = own.clone().unwrap_or(configured.path().to_owned());
        let mut found = Vec::new();
        modes(&root, &mut found);
        assert!(found.iter().any(|(path, mode)| path.ends_with(&id) && *mode == 0o600), "{found:?}");
        assert!(
            found.iter().filter(|(path, _)| !path.ends_with("/lock")).all(|(_, mode)| mode & 0o077 == 0),
            "{found:?}"
        );
        if let Some(own) = own {
            assert_eq!(
                std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&own).unwrap().permissions()) & 0o777,
                0o700
            );
            drop(artifacts);
            assert!(!own.exists());
        }
    }
}

/// Stores an artifact, an outcome, the list of a session as earlier releases did, and an object whose name is not the
/// fleet's. Returns the keys of all but the list.
async fn stored(artifacts: &Artifacts) -> Vec<String> {
    let acme = tenant("acme");
    let artifact = artifacts.keep(&acme, "old".into()).await.unwrap().to_string();
    let outcome = artifacts.put_outcome(&acme, "outcome".into()).await.unwrap();
    artifacts.put(&acme, &format!("sessions/{artifact}"), "{}".into()).await.unwrap();
    artifacts.put(&acme, "a-file-of-somebody-else", "x".into()).await.unwrap();
    vec![artifact, format!("outcomes/{outcome}"), "a-file-of-somebody-else".to_owned()]
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_old_is_swept_and_nothing_else() {
    use std::sync::Mutex;
    let (folder, bucket) = (tempfile::tempdir().unwrap(), Bucket::start().unwrap());
    let in_folder =
        opened(ArtifactOptions { store: Some(format!("file://{}", folder.path().display())), ..Default::default() });
    for artifacts in [in_folder, opened(in_bucket(&bucket))] {
        let names = stored(&artifacts).await;
        let acme = tenant("acme");
        let hour = Duration::from_secs(3600);
        let left = async || {
            let mut left = Vec::new();
            for name in &names {
                left.push(artifacts.get(&acme, name, 100).await.is_ok());
            }
            left
        };
        let swept = Mutex::new(Vec::new());
        let sweep = async |files: Option<Duration>, later: Duration| {
            let ages = sweep::Ages { artifacts: files, records: 2 * hour };
            sweep::sweep(&artifacts, ages, SystemTime::now() + later, |kind| swept.lock().unwrap().push(kind))
                .await
                .unwrap();
            std::mem::take(&mut *swept.lock().unwrap())
        };
        assert_eq!(sweep(Some(hour), hour / 2).await, []);
        assert_eq!(sweep(None, 3 * hour).await, [sweep::Kind::Outcome, sweep::Kind::Session]);
        assert_eq!(left().await, [true, false, true], "by default artifacts stay");
        assert_eq!(sweep(Some(hour), 3 * hour).await, [sweep::Kind::Artifact]);
        assert_eq!(left().await, [false, false, true]);
    }
}
