//! Files that a session's programs change while they come.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::evidence::Evidence;
use crate::fleet::Site;
use crate::fleet::broker::unique;

pub(super) const SHEET: &str = r#"
tries = "while a caller sends a file in two parts, a program of the session puts another file of the same size in the place of the first part"
wins = "a file of the attacker's that the caller takes for what it sent"
guard = "an upload gives its file its name only if the file itself has the digest of what was sent, and what came before must be there"
control = {}
held = { end = "upload_lost", file = "file_not_found" }
open = { end = "200", file = "forged second" }
"#;

const TUS: &str = "Tus-Resumable: 1.0.0\r\n";

/// Puts another file in the place of every one that is there.
const FORGE: &str = "
import os
for name in os.listdir('.'):
    if os.path.isfile(name) and open(name, errors='replace').read() == ' first':
        os.remove(name)
        open(name, 'w').write('forged')
";

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let holder = site.keyed().await?.holder("acme", "run,read,sessions")?;
    let session = unique("upload");
    let run = async |code: &str, close: bool| {
        let job = json!({ "code": code, "session": { "id": session, "close": close } }).to_string();
        let told = holder.ask("POST", "/v1/runs?wait=60s", &job).await?;
        ensure!(told.json()["outcome"]["status"] == "succeeded", "{told:?}");
        Ok(())
    };
    run("", false).await?;
    let file = format!("/v1/sessions/{session}/files/data");
    let end = if site.lifted {
        // A write at an offset takes what is there for what the caller sent.
        holder.ask("PUT", &file, " first").await?;
        run(FORGE, false).await?;
        holder.ask("PUT", &format!("{file}?offset=6"), " second").await?
    } else {
        let headers = format!("{}{TUS}Upload-Length: 13\r\n", holder.headers());
        let told = holder.with("POST", &format!("/v1/sessions/{session}/uploads/data"), &headers, "").await?;
        let upload: Value = told.json();
        let path = format!("/v1/uploads/{}", upload["id"].as_str().with_context(|| format!("{told:?}"))?);
        let part = async |at: usize, text: &str| {
            let headers = format!(
                "Authorization: Bearer {}\r\n{TUS}Upload-Offset: {at}\r\nContent-Type: application/offset+octet-stream\r\n",
                holder.secret()
            );
            holder.with("PATCH", &path, &headers, text).await
        };
        part(0, " first").await?;
        run(FORGE, false).await?;
        part(6, " second").await?
    };
    let mut evidence = Evidence::default();
    evidence.note("end", end.code());
    let told = holder.ask("GET", &file, "").await?;
    evidence.note("file", if told.status == 200 { told.body } else { told.code() });
    run("", true).await?;
    Ok(evidence)
}
