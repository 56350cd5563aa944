//! Floods: whatever callers send, and however slowly they read, the memory of the gateway stays within its budget, and
//! what it says that it holds is about what it holds.
//!
//! The gateway is a process of its own: this program, started once more.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use libtest_mimic::Trial;
use serde_json::{Value, json};
use thermae_fleet::{EmbeddedOptions, Fleet, Secret};
use thermae_gateway::{Gateway, Options, Token};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::http::Connection;
use crate::serving::{TOKEN, head};

/// Bytes that the gateway may hold.
const BUDGET: usize = 64 << 20;
/// What the gateway may take beyond twice what it says that it holds.
const UNSAID: usize = 32 << 20;
/// All floods together. It is no bar: it ends a test that hangs.
const HANGS: Duration = Duration::from_secs(900);
/// Says that this process is the gateway.
const FLOODED: &str = "THERMAE_TEST_FLOODED";

pub(crate) fn tests() -> Vec<Trial> {
    vec![Trial::test("no_flood_takes_more_than_the_budget", || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let flooded = async { tokio::time::timeout(HANGS, no_flood_takes_more_than_the_budget()).await };
        runtime.block_on(flooded)?.map_err(|error| format!("{error:#}").into())
    })]
}

/// Serves, if this process is the gateway.
pub(crate) fn flooded() -> Option<ExitCode> {
    std::env::var_os(FLOODED)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().ok()?;
    let served = runtime.block_on(async {
        let embedded = EmbeddedOptions { slots: Some(2), warm: Some(1), preload: Vec::new(), ..Default::default() };
        let fleet = Arc::new(Fleet::embedded(embedded).await?);
        let options = Options { listen: ([127, 0, 0, 1], 0).into(), held_bytes: BUDGET, ..Options::default() };
        let gateway = Gateway::bind(options, Token::new(&Secret::from(TOKEN))?, fleet).await?;
        println!("{}", gateway.addr());
        gateway.run(CancellationToken::new()).await;
        anyhow::Ok(())
    });
    Some(if served.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What callers do.
#[derive(Clone, Copy, PartialEq)]
enum Callers {
    /// They send all of a request and read nothing of the answer.
    ReadNothing,
    /// They send a part of a request, and no more.
    SendNoMore,
}
use Callers::{ReadNothing, SendNoMore};

/// One flood.
struct Flood {
    /// The operation, by its name in the document.
    op: &'static str,
    callers: Callers,
    count: usize,
    bytes: Arc<[u8]>,
}

impl Flood {
    fn asks_for(&self, path: &str) -> bool {
        self.bytes.windows(path.len()).take(100).any(|part| part == path.as_bytes())
    }
}

/// The gateway.
struct Process {
    child: Child,
    addr: SocketAddr,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    fn start() -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut child = command.env(FLOODED, "1").stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().context("no output")?).read_line(&mut line)?;
        Ok(Self { child, addr: line.trim().parse()? })
    }

    async fn ask(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> Result<crate::http::Answer> {
        let mut connection = Connection::open(self.addr).await?;
        connection.send(with_token(method, path, headers, body.len(), body)).await?;
        connection.answer(true).await
    }

    /// Has a run with a large outcome.
    async fn large(&self) -> Result<()> {
        if self.ask("GET", "/v1/runs/large/artifacts/a", "Range: bytes=0-0\r\n", b"").await?.status == 206 {
            return Ok(());
        }
        let print = "print('x' * 900_000)\nopen('/workspace/artifacts/a', 'wb').write(b'x' * 4_000_000)";
        self.run(json!({ "id": "large", "code": print })).await.map(drop)
    }

    async fn run(&self, job: Value) -> Result<Value> {
        let (kind, job) = ("Content-Type: application/json\r\n", job.to_string());
        let answer = self.ask("POST", "/v1/runs?wait=60s", kind, job.as_bytes()).await?;
        let run = answer.json()?;
        ensure!(run["outcome"]["status"] == "succeeded", "{answer:?}");
        Ok(run)
    }

    /// Bytes that the gateway says that it holds, and how often it has refused some.
    async fn says(&self) -> Result<(usize, usize)> {
        let text = String::from_utf8(self.ask("GET", "/metrics", "", b"").await?.body)?;
        let value = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name)).context(name.to_owned())?;
            Ok::<usize, anyhow::Error>(value.trim().parse()?)
        };
        Ok((value("thermae_gateway_held_bytes ")?, value("thermae_gateway_refused_total{reason=\"bytes\"} ")?))
    }

    fn status(&self, field: &str) -> Result<usize> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(field)).context("no field")?;
        Ok(line.trim().trim_end_matches(" kB").trim().parse::<usize>()? << 10)
    }

    /// The memory that it has.
    fn memory(&self) -> Result<usize> {
        self.status("VmRSS:")
    }

    /// The most memory that it had since the last call.
    fn most_memory(&self) -> Result<usize> {
        let most = self.status("VmHWM:")?;
        std::fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5")?;
        Ok(most)
    }

    /// A connection that takes as little as can be.
    async fn narrow(&self) -> Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(4096)?;
        Ok(socket.connect(self.addr).await?)
    }
}

fn with_token(method: &str, path: &str, headers: &str, length: usize, body: &[u8]) -> Vec<u8> {
    let headers = format!("Authorization: Bearer {TOKEN}\r\n{headers}");
    [head(method, path, &headers, length).as_bytes(), body].concat()
}

/// Requests of which nobody reads the answers.
fn read_nothing(op: &'static str, count: usize, request: &str, headers: &str, body: &[u8]) -> Flood {
    let (method, path) = request.split_once(' ').unwrap_or_default();
    let bytes = with_token(method, path, headers, body.len(), body).into();
    Flood { op, callers: ReadNothing, count, bytes }
}

/// Requests whose bodies have more bytes than come.
fn send_no_more(op: &'static str, count: usize, request: &str, headers: &str, body: &[u8]) -> Flood {
    let (method, path) = request.split_once(' ').unwrap_or_default();
    let bytes = with_token(method, path, headers, body.len() + 1, body).into();
    Flood { op, callers: SendNoMore, count, bytes }
}

/// A JSON text of about this many bytes that would take a hundred times as many as a tree.
fn tree(bytes: usize) -> String {
    format!("[{}{{}}]", r#"{"":0},"#.repeat(bytes / 7))
}

/// All floods, at least one for each operation.
fn floods(upload: &str) -> Vec<Flood> {
    const JSON: &str = "Content-Type: application/json\r\n";
    const TUS: &str = "Tus-Resumable: 1.0.0\r\n";
    const PART: &str = "Tus-Resumable: 1.0.0\r\nContent-Type: application/offset+octet-stream\r\nUpload-Offset: 0\r\n";
    const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                           Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    const EVENTS: &str = "Accept: text/event-stream\r\nContent-Type: application/json\r\n";
    let mebibyte = vec![b' '; 1 << 20];
    let half = |op, request| send_no_more(op, 150, request, JSON, &mebibyte);
    let whole = |op, count, request| read_nothing(op, count, request, "", b"");
    let tool = |schema: &str| format!(r#"{{"tools":[{{"name":"t","input_schema":{{"enum":{schema}}}}}],"code":1}}"#);
    let job = tool(&tree(300 << 10));
    let jobs = format!(r#"{{"jobs":[{}]}}"#, vec![&*job; 40].join(","));
    let names: String = (0..90_000).map(|n| format!(r#""v{n}":"","#)).collect();
    let entries = format!(r#"{{"code":1,"env":{{{names}"v":""}}}}"#);
    let wide = json!({ "id": "wide", "jobs": vec![json!({ "code": "import time; time.sleep(20)" }); 3000] });
    let command = json!({ "shell": "head -c 4000000 /dev/zero | tr '\\0' '\\1'", "max_output_bytes": 4_000_000 });
    let command = command.to_string();
    let part = format!("PATCH /v1/uploads/{upload}");
    let message = [&[0x82, 0xff][..], &(8_u64 << 20).to_be_bytes(), &[0; 4], &mebibyte].concat();
    vec![
        half("submitRun", "POST /v1/runs"),
        read_nothing("submitRun", 60, "POST /v1/runs", JSON, entries.as_bytes()),
        read_nothing("submitRun", 60, "POST /v1/runs", JSON, job.as_bytes()),
        half("submitBatch", "POST /v1/batches"),
        read_nothing("submitBatch", 4, "POST /v1/batches", JSON, jobs.as_bytes()),
        read_nothing("submitBatch", 4, "POST /v1/batches", JSON, format!("{{\"jobs\":{}}}", tree(15 << 20)).as_bytes()),
        half("answerCall", "POST /v1/runs/large/calls/c"),
        half("decideCall", "POST /v1/runs/large/calls/c/decision"),
        read_nothing("decideCall", 20, "POST /v1/runs/large/calls/c/decision", JSON, tree(500 << 10).as_bytes()),
        half("mintToken", "POST /v1/tokens"),
        read_nothing(
            "mintToken",
            20,
            "POST /v1/tokens",
            JSON,
            format!("{{\"capabilities\":{}}}", tree(500 << 10)).as_bytes(),
        ),
        half("narrowToken", "POST /v1/tokens/narrow"),
        half("showToken", "POST /v1/tokens/show"),
        half("exec", "POST /v1/sessions/s/exec"),
        read_nothing("exec", 40, "POST /v1/sessions/s/exec", JSON, command.as_bytes()),
        read_nothing("exec", 40, "POST /v1/sessions/s/exec", EVENTS, command.as_bytes()),
        whole("listRuns", 300, "GET /v1/runs?limit=1000"),
        whole("getRun", 200, "GET /v1/runs/large"),
        whole("askForRun", 100, "GET /v1/runs/large/info"),
        whole("takeRunOver", 100, "POST /v1/runs/large/take-over"),
        whole("cancelRun", 100, "DELETE /v1/runs/large"),
        whole("followRun", 200, "GET /v1/runs/large/events"),
        whole("followRun", 500, "GET /v1/runs/waits/events"),
        whole("getArtifact", 60, "GET /v1/runs/large/artifacts/a"),
        whole("cancelBatch", 20, "DELETE /v1/batches/none"),
        whole("listSessions", 100, "GET /v1/sessions"),
        whole("closeSession", 20, "DELETE /v1/sessions/none"),
        whole("checkpointSession", 20, "POST /v1/sessions/none/checkpoint"),
        whole("restoreSession", 20, "POST /v1/sessions/none/restore"),
        whole("listFiles", 100, "GET /v1/sessions/s/files"),
        whole("readFile", 60, "GET /v1/sessions/s/files/large"),
        send_no_more("writeFile", 150, "PUT /v1/sessions/s/files/new", "", &mebibyte),
        whole("removeFile", 20, "DELETE /v1/sessions/s/files/none"),
        read_nothing(
            "createUpload",
            100,
            "POST /v1/sessions/s/uploads/new",
            &format!("{TUS}Upload-Length: 9\r\n"),
            b"",
        ),
        read_nothing("getUpload", 100, &format!("GET /v1/uploads/{upload}"), TUS, b""),
        send_no_more("sendUpload", 150, &part, PART, &mebibyte),
        read_nothing("giveUpUpload", 20, "DELETE /v1/uploads/none", TUS, b""),
        whole("getUsage", 200, "GET /v1/usage?hours=24"),
        Flood {
            op: "connect",
            callers: SendNoMore,
            count: 100,
            bytes: [&with_token("GET", "/v1/connect", UPGRADE, 0, b"")[..], &message].concat().into(),
        },
        whole("getDocument", 400, "GET /v1/openapi.json"),
        whole("alive", 400, "GET /healthz"),
        whole("ready", 400, "GET /readyz"),
        whole("metrics", 400, "GET /metrics"),
        // Heads that do not end.
        Flood {
            op: "alive",
            callers: SendNoMore,
            count: 700,
            bytes: format!("GET /healthz HTTP/1.1\r\nX-Long: {}", "x".repeat(60 << 10)).into_bytes().into(),
        },
        Flood { op: "alive", callers: SendNoMore, count: 700, bytes: [].into() },
        // From here on, the slots are taken.
        read_nothing("submitBatch", 1, "POST /v1/batches", JSON, wide.to_string().as_bytes()),
        whole("getBatch", 300, "GET /v1/batches/wide"),
        whole("getResults", 500, "GET /v1/batches/wide/results"),
    ]
}

async fn no_flood_takes_more_than_the_budget() -> Result<()> {
    let gateway = Process::start()?;
    let write = "open('large', 'wb').write(b'x' * 8_000_000)\nfor n in range(2000): open(f'file-{n}', 'w')";
    gateway.run(json!({ "code": write, "session": { "id": "s" } })).await?;
    let waits = json!({ "id": "waits", "code": "await hold()", "tools": [{ "name": "hold" }], "limits": { "pause_ms": 900_000 } });
    let kind = "Content-Type: application/json\r\n";
    ensure!(gateway.ask("POST", "/v1/runs", kind, waits.to_string().as_bytes()).await?.status == 202);
    let tus = "Tus-Resumable: 1.0.0\r\nUpload-Length: 100000000\r\n";
    let upload = gateway.ask("POST", "/v1/sessions/s/uploads/part", tus, b"").await?.json()?;
    let upload = upload["id"].as_str().context("no upload")?.to_owned();
    let floods = floods(&upload);
    let document = gateway.ask("GET", "/v1/openapi.json", "", b"").await?.json()?;
    let operations = document["paths"].as_object().into_iter().flatten().filter_map(|(_, path)| path.as_object());
    let operations: BTreeSet<_> =
        operations.flatten().filter_map(|(_, operation)| operation["operationId"].as_str()).collect();
    let flooded: BTreeSet<_> = floods.iter().map(|flood| flood.op).collect();
    ensure!(operations == flooded, "{:?}", operations.symmetric_difference(&flooded).collect::<Vec<_>>());

    let base = gateway.memory()?;
    gateway.most_memory()?;
    let mut wrong = Vec::new();
    for flood in &floods {
        if flood.asks_for("/runs/large") {
            // Its outcome may have been forgotten to make room.
            gateway.large().await?;
        }
        let before = gateway.memory()?;
        let (most, held) = one(&gateway, flood).await.with_context(|| flood.op)?;
        let [all, grown] = [base, before].map(|before| most.saturating_sub(before));
        let line = format!(
            "{} x {}: {} MiB, {} MiB in all, held {} MiB",
            flood.op,
            flood.count,
            grown >> 20,
            all >> 20,
            held >> 20
        );
        println!("{line}");
        if grown > BUDGET * 3 / 2 || grown > 2 * held + UNSAID {
            wrong.push(line);
        }
    }
    ensure!(wrong.is_empty(), "{wrong:#?}");
    Ok(())
}

/// Does one flood. Gives the most memory that the gateway had, and the most bytes that it said that it held.
async fn one(gateway: &Process, flood: &Flood) -> Result<(usize, usize)> {
    let (before, refused) = gateway.says().await?;
    gateway.most_memory()?;
    let mut held = before;
    let streams = {
        let flooded = flooded_by(gateway, flood);
        tokio::pin!(flooded);
        loop {
            let says = tokio::select! {
                streams = &mut flooded => break streams?,
                says = gateway.says() => says?,
            };
            held = held.max(says.0);
        }
    };
    let alive = gateway.ask("GET", "/healthz", "", b"").await?;
    ensure!(alive.status == 200, "{alive:?}");
    let says = gateway.says().await?;
    // What is refused is refused because the gateway holds as much as it may.
    held = held.max(if says.1 > refused { BUDGET } else { says.0 });
    let most = gateway.most_memory()?;
    drop(streams);
    // The runs of the batch stay.
    while flood.count > 1 && gateway.says().await?.0 > before + (1 << 20) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok((most, held))
}

/// All connections of a flood, once all of it has come, or some of it was refused.
async fn flooded_by(gateway: &Process, flood: &Flood) -> Result<Vec<TcpStream>> {
    let (_, refused) = gateway.says().await?;
    let mut callers = JoinSet::new();
    for _ in 0..flood.count {
        let (mut stream, bytes, callers_do) = (gateway.narrow().await?, flood.bytes.clone(), flood.callers);
        callers.spawn(async move {
            // The gateway need not read all of what it refuses.
            let sent = stream.write_all(&bytes).await;
            if callers_do == ReadNothing && sent.is_ok() {
                // In a session, some wait until others have read.
                let _ = tokio::time::timeout(Duration::from_secs(5), stream.readable()).await;
            }
            stream
        });
    }
    let streams = callers.join_all().await;
    // Connections without a request have a part of the budget.
    let most = if flood.op == "alive" { BUDGET / 4 } else { BUDGET };
    let all = (flood.bytes.len() * flood.count).min(most) / 4 * 3;
    loop {
        let says = gateway.says().await?;
        if flood.callers == ReadNothing || says.0 >= all || says.1 > refused {
            return Ok(streams);
        }
    }
}
