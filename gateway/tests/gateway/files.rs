//! Files of sessions.

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use serde_json::json;

use crate::http::{Answer, Connection};
use crate::serving::{Serving, TOKEN, head};
use crate::test;

pub(crate) fn tests() -> Vec<Trial> {
    vec![
        test("files_are_written_read_and_removed", files_are_written_read_and_removed),
        test("a_path_leads_nowhere_else", a_path_leads_nowhere_else),
        test("a_file_that_is_cut_while_it_is_read_is_told", a_file_that_is_cut_while_it_is_read_is_told),
    ]
}

const FILES: &str = "/v1/sessions/s/files";

async fn put(serving: &Serving, path: &str, body: &[u8]) -> Result<Answer> {
    serving.ask("PUT", &format!("{FILES}/{path}"), "", body).await
}

async fn files_are_written_read_and_removed() -> Result<()> {
    let serving = Serving::new().await?;
    serving.session("s").await?;
    let large: Vec<u8> = (0..3_000_000_u32).map(|n| n as u8).collect();
    let written = put(&serving, "a/b%20c.bin?parents=true&permissions=600", &large).await?;
    ensure!(
        written.status == 200 && written.json()? == json!({ "bytes": 3_000_000, "size": 3_000_000 }),
        "{written:?}"
    );
    let path = format!("{FILES}/a/b%20c.bin");
    let whole = serving.get(&path).await?;
    ensure!(whole.status == 200 && whole.body == large, "{:?}", whole.headers);
    ensure!(whole.header("content-length") == Some("3000000") && whole.header("accept-ranges") == Some("bytes"));
    let tag = whole.header("etag").context("no tag")?.to_owned();
    let part = serving.ask("GET", &path, &format!("Range: bytes=999999-1999999\r\nIf-Range: {tag}\r\n"), b"").await?;
    ensure!(part.status == 206 && part.body == large[999_999..2_000_000], "{:?}", part.headers);
    ensure!(part.header("content-range") == Some("bytes 999999-1999999/3000000"), "{:?}", part.headers);
    serving.ask("GET", &path, "Range: bytes=3000000-\r\n", b"").await?.problem(416, "range_not_satisfiable")?;
    let stat = serving.get(&format!("{path}?op=stat")).await?.json()?;
    ensure!(stat["kind"] == "file" && stat["size"] == 3_000_000 && stat["permissions"] == 0o600, "{stat}");

    ensure!(put(&serving, "a/text", b"one").await?.status == 200);
    ensure!(put(&serving, "a/text?mode=append", b"-two").await?.status == 200);
    ensure!(put(&serving, "a/text?offset=1", b"X").await?.status == 200);
    ensure!(serving.get(&format!("{FILES}/a/text")).await?.body == b"oXe-two");
    put(&serving, "a/text?mode=create_new", b"").await?.problem(409, "file_exists")?;
    let only_new = serving.ask("PUT", &format!("{FILES}/a/text"), "If-None-Match: *\r\n", b"").await?;
    ensure!(only_new.problem(409, "file_exists")?["errno"] == "EEXIST");
    ensure!(
        put(&serving, "empty", b"").await?.status == 200
            && serving.get(&format!("{FILES}/empty")).await?.body.is_empty()
    );

    ensure!(put(&serving, "d/e?op=make_dir", b"").await?.status == 204);
    let list = serving.get(&format!("{FILES}?depth=2")).await?.json()?;
    let names: Vec<_> = list["entries"].as_array().context("no list")?.iter().map(|e| e["path"].clone()).collect();
    ensure!(json!(names) == json!(["a", "a/b c.bin", "a/text", "artifacts", "d", "d/e", "empty"]), "{list}");
    let list = serving.get(&format!("{FILES}/a?op=list&most=1")).await?.json()?;
    ensure!(list["cut"] == true && list["entries"].as_array().map(Vec::len) == Some(1), "{list}");

    serving.get(&format!("{FILES}/a")).await?.problem(422, "file_failed")?;
    serving.get(&format!("{FILES}/none")).await?.problem(404, "file_not_found")?;
    put(&serving, "none/x", b"x").await?.problem(404, "file_not_found")?;
    let remove = async |path: &str| serving.ask("DELETE", &format!("{FILES}/{path}"), "", b"").await;
    remove("a").await?.problem(409, "file_exists")?;
    ensure!(remove("a?recursive=true").await?.status == 204 && remove("d/e").await?.status == 204);
    remove("a").await?.problem(404, "file_not_found")?;
    for bad in ["x?op=dance", "x?mode=x", "x?mode=append&offset=1", "x?permissions=9", "x?colour=1", "x?root=maybe"] {
        put(&serving, bad, b"").await?.problem(400, "bad_parameter")?;
    }
    serving.get("/v1/sessions/none/files/x").await?.problem(404, "session_lost")?;

    // A write that is broken off leaves the old file.
    ensure!(put(&serving, "whole", b"old").await?.status == 200);
    let mut broken = Connection::open(serving.addr).await?;
    broken.send(head("PUT", &format!("{FILES}/whole"), &format!("Authorization: Bearer {TOKEN}\r\n"), 10)).await?;
    broken.send("new").await?;
    drop(broken);
    ensure!(serving.get(&format!("{FILES}/whole")).await?.body == b"old");
    serving.metric("thermae_gateway_connections 1").await?;
    ensure!(serving.get(&format!("{FILES}/whole")).await?.body == b"old");
    serving.end().await
}

async fn a_path_leads_nowhere_else() -> Result<()> {
    let serving = Serving::new().await?;
    serving.session("s").await?;
    for bad in [
        "..",
        "../s",
        "%2e%2e/x",
        "%2E%2E%2Fx",
        "a/../../x",
        "a%2f..%2f..%2fx",
        "%2Fetc%2Fpasswd",
        "/etc/passwd",
        "a//b",
        "./a",
        "a/",
        "a%00b",
        "%ff",
        "..?root=true",
        "%2e%2e%2fetc?root=true",
    ] {
        for method in ["GET", "PUT", "DELETE"] {
            serving.ask(method, &format!("{FILES}/{bad}"), "", b"").await?.problem(400, "bad_parameter")?;
        }
    }
    // An encoded slash is a part of the path of a file, and not of the route.
    ensure!(put(&serving, "x%2Fy?parents=true", b"z").await?.status == 200);
    ensure!(serving.get(&format!("{FILES}/x/y")).await?.body == b"z");
    let root = serving.get(&format!("{FILES}/workspace/x/y?root=true")).await?;
    ensure!(root.body == b"z", "{root:?}");
    // What the sandbox shows is the sandbox's own.
    let hosts = serving.get(&format!("{FILES}/etc/hostname?root=true&op=stat")).await?;
    ensure!([200, 404].contains(&hosts.status), "{hosts:?}");
    serving.end().await
}

async fn a_file_that_is_cut_while_it_is_read_is_told() -> Result<()> {
    let serving = Serving::new().await?;
    serving.session("s").await?;
    let cut = "import os\nwhile True:\n    for size in (50_000, 0, 50_000, 10): open('f', 'a').truncate(size)";
    let cutting = json!({ "id": "cut", "code": cut, "session": { "id": "s" } });
    ensure!(serving.post("/v1/runs", &cutting).await?.status == 202);
    let (mut whole, mut told) = (0, 0);
    // Every read has an answer, whatever happens between a look at the file and its content.
    while whole < 20 || told < 3 {
        let read = serving.get("/v1/sessions/s/files/f").await?;
        match read.status {
            200 => whole += 1,
            404 => {}
            _ => {
                read.problem(409, "file_changed")?;
                told += 1;
            }
        }
    }
    serving.end().await
}
