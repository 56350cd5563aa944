//! Commands and files of live sessions.

use anyhow::{Result, ensure};
use bytes::Bytes;
use futures::FutureExt;
use serde_json::{Value, json};

use super::face::Face;
use super::{Case, case};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case("commands_take_input_and_give_output", 1, |face| commands_take_input_and_give_output(face).boxed()),
        case("files_are_written_read_and_removed", 1, |face| files_are_written_read_and_removed(face).boxed()),
    ]
}

/// Begins the session `s`, with a file in it.
async fn begun(face: &mut Box<dyn Face>) -> Result<()> {
    let job = json!({ "id": "j", "code": "open('made', 'w').write('here')", "session": { "id": "s" } });
    face.run(&job).await.map(drop)
}

async fn commands_take_input_and_give_output(mut face: Box<dyn Face>) -> Result<()> {
    begun(&mut face).await?;
    // Much more than a window goes through the command, in both directions.
    let input: Bytes = (0..3_000_000_u32).map(|n| n as u8).collect::<Vec<u8>>().into();
    let ended = face.exec("s", &json!({ "shell": "cat made - >&2; echo out; exit 3" }), input.clone()).await?;
    let ended = ended.map_err(anyhow::Error::msg)?;
    ensure!(ended.stderr == [&b"here"[..], &input[..]].concat(), "{} bytes came", ended.stderr.len());
    ensure!(ended.stdout == b"out\n" && ended.done["how"] == "exited" && ended.done["code"] == 3, "{}", ended.done);
    let none = face.exec("none", &json!({ "shell": "true" }), Bytes::new()).await?.err();
    ensure!(none.as_deref() == Some("session_lost"), "{none:?}");
    let both = face.exec("s", &json!({ "shell": "true", "argv": ["true"] }), Bytes::new()).await?.err();
    ensure!(both.as_deref() == Some("schema_violation"), "{both:?}");
    let unknown = face.exec("s", &json!({ "argv": ["/nowhere"] }), Bytes::new()).await?;
    ensure!(unknown.as_ref().is_err_and(|errno| errno == "ENOENT"), "{unknown:?}");
    face.end().await
}

async fn files_are_written_read_and_removed(mut face: Box<dyn Face>) -> Result<()> {
    begun(&mut face).await?;
    let content: Bytes = (0..1_000_000_u32).map(|n| n as u8).collect::<Vec<u8>>().into();
    let write = |mode: &str| json!({ "op": "write", "path": "a.bin", "mode": mode });
    let written = face.file("s", &write("truncate"), content.clone()).await?.map_err(anyhow::Error::msg)?;
    ensure!(serde_json::from_slice::<Value>(&written)?["size"] == 1_000_000, "{written:?}");
    let appended = face.file("s", &write("append"), Bytes::from("more")).await?.map_err(anyhow::Error::msg)?;
    ensure!(serde_json::from_slice::<Value>(&appended)?["size"] == 1_000_004, "{appended:?}");
    let read = face.file("s", &json!({ "op": "read", "path": "a.bin" }), Bytes::new()).await?;
    ensure!(read == Ok([&content[..], b"more"].concat().into()), "another content");
    let stat = face.file("s", &json!({ "op": "stat", "path": "a.bin" }), Bytes::new()).await?;
    let stat: Value = serde_json::from_slice(&stat.map_err(anyhow::Error::msg)?)?;
    ensure!(stat["kind"] == "file" && stat["size"] == 1_000_004, "{stat}");
    for (op, errno) in [
        (write("create_new"), "EEXIST"),
        (json!({ "op": "read", "path": "none" }), "ENOENT"),
        (json!({ "op": "write", "path": "none/x", "mode": "truncate" }), "ENOENT"),
        (json!({ "op": "remove", "path": "none" }), "ENOENT"),
    ] {
        let refused = face.file("s", &op, Bytes::from("x")).await?;
        ensure!(refused.as_ref().is_err_and(|code| code == errno), "{op}: {refused:?}");
    }
    let remove = json!({ "op": "remove", "path": "a.bin" });
    ensure!(face.file("s", &remove, Bytes::new()).await?.is_ok());
    let listed = face.file("s", &json!({ "op": "list", "path": ".", "most": 10 }), Bytes::new()).await?;
    let listed: Value = serde_json::from_slice(&listed.map_err(anyhow::Error::msg)?)?;
    let names: Vec<&Value> = listed["entries"].as_array().into_iter().flatten().map(|entry| &entry["path"]).collect();
    ensure!(names == ["artifacts", "made"], "{listed}");
    let lost = face.file("none", &json!({ "op": "stat", "path": "x" }), Bytes::new()).await?;
    ensure!(lost.as_ref().is_err_and(|code| code == "session_lost"), "{lost:?}");
    face.end().await
}
