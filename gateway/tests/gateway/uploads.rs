//! Uploads that come in parts.

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use serde_json::json;

use crate::http::{Answer, Connection};
use crate::serving::{Serving, TOKEN, head};
use crate::test;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        test("an_upload_goes_on_after_a_broken_connection", an_upload_goes_on_after_a_broken_connection),
        test("only_the_content_that_was_said_becomes_a_file", only_the_content_that_was_said_becomes_a_file),
        test("an_upload_ends_with_its_session_and_its_part", an_upload_ends_with_its_session_and_its_part),
        test("what_is_no_upload_is_refused", what_is_no_upload_is_refused),
        test("uploads_are_bounded_and_can_be_given_up", uploads_are_bounded_and_can_be_given_up),
        test("nothing_is_left_of_uploads_when_the_gateway_ends", nothing_is_left_of_uploads_when_the_gateway_ends),
    ]
}

pub(crate) const TUS: &str = "Tus-Resumable: 1.0.0\r\n";
/// SHA-256 of "abcdef".
const SHA: &str = "bef57ec7f53a6d40beb640a780a639c83bc29ac8a9816f1fc6c5c6dcd93c4721";

async fn create(serving: &Serving, path: &str, length: u64) -> Result<Answer> {
    let headers = format!("{TUS}Upload-Length: {length}\r\n");
    serving.ask("POST", &format!("/v1/sessions/s/uploads/{path}"), &headers, b"").await
}

/// Begins an upload, and gives its path.
async fn begun(serving: &Serving, path: &str, length: u64) -> Result<String> {
    let created = create(serving, path, length).await?;
    let view = created.json()?;
    ensure!(created.status == 201 && view["length"] == length && view["expires_at"].is_string(), "{created:?}");
    ensure!(created.header("tus-resumable") == Some("1.0.0") && created.header("upload-offset") == Some("0"));
    let location = created.header("location").context("no place")?.to_owned();
    ensure!(location == format!("/v1/uploads/{}", view["id"].as_str().unwrap_or_default()), "{location}");
    Ok(location)
}

fn of_part(offset: u64) -> String {
    format!("{TUS}Content-Type: application/offset+octet-stream\r\nUpload-Offset: {offset}\r\n")
}

async fn send(serving: &Serving, upload: &str, offset: u64, part: &[u8]) -> Result<Answer> {
    serving.ask("PATCH", upload, &of_part(offset), part).await
}

/// How much of an upload there is, as clients of tus ask for it.
async fn offset(serving: &Serving, upload: &str) -> Result<u64> {
    let told = serving.ask("HEAD", upload, TUS, b"").await?;
    ensure!(told.status == 200 && told.header("cache-control") == Some("no-store"), "{told:?}");
    Ok(told.header("upload-offset").context("no offset")?.parse()?)
}

/// The names of the files in the session.
async fn files(serving: &Serving) -> Result<Vec<String>> {
    let list = serving.get("/v1/sessions/s/files?depth=2").await?.json()?;
    let entries = list["entries"].as_array().context("no list")?;
    let names = entries.iter().filter_map(|entry| entry["path"].as_str()).filter(|name| *name != "artifacts");
    Ok(names.map(str::to_owned).collect())
}

async fn an_upload_goes_on_after_a_broken_connection() -> Result<()> {
    let serving = Serving::new().await?;
    serving.session("s").await?;
    let content: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
    let upload = begun(&serving, "in/big?parents=true&permissions=600", 1_000_000).await?;
    let mut broken = Connection::open(serving.addr).await?;
    let headers = format!("Authorization: Bearer {TOKEN}\r\n{}", of_part(0));
    broken.send(head("PATCH", &upload, &headers, content.len())).await?;
    broken.send(&content[..600_000]).await?;
    while offset(&serving, &upload).await? < 512 << 10 {}
    ensure!(files(&serving).await?.iter().all(|name| name != "in/big"), "it is not complete");
    drop(broken);
    // The last of what came may still be written, and then the part begins elsewhere.
    let sent = loop {
        let at = offset(&serving, &upload).await?;
        let sent = send(&serving, &upload, at, &content[usize::try_from(at)?..]).await?;
        if sent.status != 409 {
            break sent;
        }
    };
    ensure!(sent.status == 204 && sent.header("upload-offset") == Some("1000000"), "{sent:?}");
    let file = serving.get("/v1/sessions/s/files/in/big").await?;
    ensure!(file.body == content, "{:?}", file.headers);
    ensure!(files(&serving).await? == ["in", "in/big"]);
    let stat = serving.get("/v1/sessions/s/files/in/big?op=stat").await?.json()?;
    ensure!(stat["permissions"] == 0o600, "{stat}");
    // A client that lost the last answer learns of the end, and sending nothing more changes nothing.
    let told = serving.get(&upload).await?.json()?;
    ensure!(told["complete"] == true && told["offset"] == 1_000_000, "{told}");
    ensure!(send(&serving, &upload, 1_000_000, b"").await?.status == 204);
    send(&serving, &upload, 1_000_000, b"x").await?.problem(413, "body_too_large")?;
    serving.end().await
}

async fn only_the_content_that_was_said_becomes_a_file() -> Result<()> {
    let serving = Serving::new().await?;
    serving.session("s").await?;
    let upload = begun(&serving, &format!("f?sha256={SHA}"), 6).await?;
    for (at, part) in [(0, "abc"), (3, "de"), (5, "f")] {
        ensure!(send(&serving, &upload, at, part.as_bytes()).await?.status == 204);
    }
    ensure!(serving.get("/v1/sessions/s/files/f").await?.body == b"abcdef");
    // The file that is there stays if the new content is another one.
    let upload = begun(&serving, &format!("f?sha256={SHA}"), 6).await?;
    send(&serving, &upload, 0, b"abcdeX").await?.problem(422, "digest_mismatch")?;
    serving.get(&upload).await?.problem(404, "unknown_upload")?;
    send(&serving, &upload, 6, b"").await?.problem(404, "unknown_upload")?;
    // Neither does what a program of the session has changed become a file.
    let upload = begun(&serving, "f", 6).await?;
    ensure!(send(&serving, &upload, 0, b"abc").await?.status == 204);
    let grow = json!({ "shell": "echo 0123456789 >> .*.part" });
    ensure!(serving.post("/v1/sessions/s/exec", &grow).await?.json()?["code"] == 0);
    send(&serving, &upload, 3, b"def").await?.problem(410, "upload_lost")?;
    ensure!(serving.get("/v1/sessions/s/files/f").await?.body == b"abcdef" && files(&serving).await? == ["f"]);
    // A name that can't be given can be given later.
    let upload = begun(&serving, "d", 1).await?;
    let mkdir = serving.ask("PUT", "/v1/sessions/s/files/d?op=make_dir", "", b"").await?;
    ensure!(mkdir.status == 204, "{mkdir:?}");
    ensure!(send(&serving, &upload, 0, b"x").await?.status >= 400);
    ensure!(serving.ask("DELETE", "/v1/sessions/s/files/d", "", b"").await?.status == 204);
    ensure!(send(&serving, &upload, 1, b"").await?.status == 204);
    ensure!(serving.get("/v1/sessions/s/files/d").await?.body == b"x");
    begun(&serving, "empty", 0).await?;
    ensure!(serving.get("/v1/sessions/s/files/empty").await?.body.is_empty());
    serving.end().await
}

/// What happens to an upload of which half has come: a request, or a job.
const LOSE: [(&str, &str); 5] = [
    ("closed", "begin"),
    ("", "reset"),
    ("rm .*.part", ""),
    ("truncate -s 3 .*.part", ""),
    ("truncate -s 5000 .*.part", ""),
];

async fn an_upload_ends_with_its_session_and_its_part() -> Result<()> {
    let serving = Serving::new().await?;
    let content = [[b'a'; 1000], [b'b'; 1000]].concat();
    for (shell, session) in LOSE {
        serving.run(json!({ "code": "x = 1", "session": { "id": "s", "reset": true } })).await?;
        let upload = begun(&serving, "f", 2000).await?;
        ensure!(send(&serving, &upload, 0, &content[..1000]).await?.status == 204);
        if shell == "closed" {
            ensure!(serving.ask("DELETE", "/v1/sessions/s", "", b"").await?.status == 204);
        } else if !shell.is_empty() {
            serving.post("/v1/sessions/s/exec", &json!({ "shell": shell })).await?;
        }
        if !session.is_empty() {
            let reset = session == "reset";
            serving.run(json!({ "code": "x = 2", "session": { "id": "s", "reset": reset } })).await?;
        }
        for _ in 0..2 {
            send(&serving, &upload, 1000, &content[1000..]).await?.problem(410, "upload_lost")?;
            serving.get(&upload).await?.problem(410, "upload_lost")?;
        }
        serving.get("/v1/sessions/s/files/f").await?.problem(404, "file_not_found")?;
    }
    // Who asks first is told, too.
    serving.run(json!({ "code": "x = 1", "session": { "id": "s", "reset": true } })).await?;
    let upload = begun(&serving, "f", 2000).await?;
    serving.run(json!({ "code": "x = 1", "session": { "id": "s", "reset": true } })).await?;
    serving.get(&upload).await?.problem(410, "upload_lost")?;
    // What was changed without another length is found at the end, with and without a digest that was said.
    for said in ["", &format!("?sha256={SHA}")] {
        let upload = begun(&serving, &format!("f{said}"), 6).await?;
        ensure!(send(&serving, &upload, 0, b"abcde").await?.status == 204);
        let change = json!({ "shell": "printf XXXXX 1<> .*.part" });
        ensure!(serving.post("/v1/sessions/s/exec", &change).await?.json()?["code"] == 0);
        send(&serving, &upload, 5, b"f").await?.problem(410, "upload_lost")?;
        ensure!(files(&serving).await?.is_empty(), "{:?}", files(&serving).await?);
    }
    serving.end().await
}

async fn what_is_no_upload_is_refused() -> Result<()> {
    let serving = Serving::new().await?;
    serving.session("s").await?;
    let at = "/v1/sessions/s/uploads/f";
    for version in ["", "Tus-Resumable: 0.2.2\r\n"] {
        let refused = serving.ask("POST", at, &format!("{version}Upload-Length: 1\r\n"), b"").await?;
        refused.problem(412, "unsupported_tus")?;
        ensure!(refused.header("tus-version") == Some("1.0.0"), "{refused:?}");
    }
    for length in ["", "Upload-Length: x\r\n", "Upload-Length: -1\r\n", "Upload-Length: 99999999999999999999\r\n"] {
        serving.ask("POST", at, &format!("{TUS}{length}"), b"").await?.problem(400, "bad_header")?;
    }
    for bad in ["../f", "f?sha256=x", "f?permissions=9", "f?parents=maybe", "f?colour=1"] {
        create(&serving, bad, 1).await?.problem(400, "bad_parameter")?;
    }
    create(&serving, "none/f", 1).await?.problem(404, "file_not_found")?;
    create(&serving, "f", 1 << 40).await?.problem(429, "too_many_uploads")?;
    let nobody = format!("{TUS}Upload-Length: 1\r\n");
    serving.ask("POST", "/v1/sessions/none/uploads/f", &nobody, b"").await?.problem(404, "session_lost")?;

    let upload = begun(&serving, "f", 3).await?;
    let json = format!("{TUS}Content-Type: application/json\r\nUpload-Offset: 0\r\n");
    serving.ask("PATCH", &upload, &json, b"1").await?.problem(415, "unsupported_media_type")?;
    let elsewhere = send(&serving, &upload, 1, b"x").await?.problem(409, "upload_offset")?;
    ensure!(elsewhere["offset"] == 0, "{elsewhere}");
    send(&serving, &upload, 0, b"four").await?.problem(413, "body_too_large")?;
    send(&serving, "/v1/uploads/none", 0, b"x").await?.problem(404, "unknown_upload")?;
    ensure!(offset(&serving, &upload).await? == 0, "what was refused is not written");
    let closed = serving.ask("DELETE", "/v1/sessions/s", "", b"").await?;
    ensure!(closed.status == 204, "{closed:?}");
    send(&serving, &upload, 0, b"abc").await?.problem(410, "upload_lost")?;
    serving.end().await
}

async fn uploads_are_bounded_and_can_be_given_up() -> Result<()> {
    let serving = Serving::new().await?;
    serving.session("s").await?;
    let mut all = Vec::new();
    for n in 0..64 {
        all.push(begun(&serving, &format!("f{n}"), 1).await?);
    }
    create(&serving, "one-more", 1).await?.problem(429, "too_many_uploads")?;
    serving.metric("thermae_gateway_refused_total{reason=\"uploads\"} 1").await?;
    let last = all.pop().context("none")?;
    ensure!(serving.ask("DELETE", &last, TUS, b"").await?.status == 204);
    serving.ask("DELETE", &last, TUS, b"").await?.problem(404, "unknown_upload")?;
    // One that is complete does not count.
    ensure!(send(&serving, &all[0], 0, b"x").await?.status == 204);
    for name in ["one-more", "another"] {
        begun(&serving, name, 1).await?;
    }
    ensure!(files(&serving).await?.iter().filter(|name| name.ends_with(".part")).count() == 64);
    serving.end().await
}

async fn nothing_is_left_of_uploads_when_the_gateway_ends() -> Result<()> {
    let first = Serving::new().await?;
    first.session("s").await?;
    let second = first.another().await?;
    let upload = begun(&first, "f", 6).await?;
    ensure!(send(&first, &upload, 0, b"abc").await?.status == 204);
    second.get(&upload).await?.problem(404, "unknown_upload")?;
    ensure!(files(&second).await?.len() == 1);
    first.leave().await?;
    ensure!(files(&second).await?.is_empty());
    second.end().await
}
