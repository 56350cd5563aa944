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
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::http::Connection;
use crate::serving::{TOKEN, head};

/// Bytes that the gateway may hold.
const BUDGET: usize = 64 << 20;
/// What the gateway may take beyond twice what it says that it holds.
const UNSAID: usize = 32 << 20;
/// One flood. It is no bar: it ends a test that hangs.
const HANGS: Duration = Duration::from_secs(900);
/// Says that this process is the gateway.
const FLOODED: &str = "THERMAE_TEST_FLOODED";

pub(crate) fn tests() -> Vec<Trial> {
    vec![Trial::test("no_flood_takes_more_than_the_budget", || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        runtime.block_on(no_flood_takes_more_than_the_budget()).map_err(|error| format!("{error:#}").into())
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
    /// They send one request after the other, as long as the gateway takes more, and read nothing.
    SendMore,
}
use Callers::{ReadNothing, SendMore, SendNoMore};

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
        let answer = self.ask("POST", "/v1/runs?wait=300s", kind, job.as_bytes()).await?;
        let run = answer.json()?;
        ensure!(run["outcome"]["status"] == "succeeded", "{answer:?}");
        Ok(run)
    }

    /// Bytes that the gateway says that it holds, and how often it has refused some.
    async fn says(&self) -> Result<(usize, usize)> {
        let question = with_token("GET", "/metrics", "", 0, b"");
        let answer = loop {
            let mut connection = Connection::open(self.addr).await?;
            // Before its request is read, a connection can have to give way to later ones of the flood.
            if connection.send(&question).await.is_ok()
                && let Ok(answer) = connection.answer(true).await
            {
                break answer;
            }
        };
        let text = String::from_utf8(answer.body)?;
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

/// Requests that come in chunks, each of the whole body or of one byte, of which nobody reads the answers. With `ends`,
/// the last chunk comes, too.
fn in_chunks(op: &'static str, count: usize, request: &str, chunk: usize, body: &[u8], ends: bool) -> Flood {
    let headers = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n";
    let head = format!("{request} HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {TOKEN}\r\n{headers}\r\n");
    let mut bytes = head.into_bytes();
    for piece in body.chunks(chunk) {
        bytes.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        bytes.extend_from_slice(piece);
        bytes.extend_from_slice(b"\r\n");
    }
    if ends {
        bytes.extend_from_slice(b"0\r\n\r\n");
    }
    Flood { op, callers: if ends { ReadNothing } else { SendNoMore }, count, bytes: bytes.into() }
}

/// Requests that come one after the other on each connection.
fn pipelined(op: &'static str, count: usize, request: &str, times: usize) -> Flood {
    let one = read_nothing(op, count, request, "", b"");
    Flood { callers: SendMore, bytes: one.bytes.repeat(times).into(), ..one }
}

/// A part of a WebSocket's message.
fn fragment(opcode: u8, content: &[u8]) -> Vec<u8> {
    [&[opcode, 0xff][..], &(content.len() as u64).to_be_bytes(), &[0; 4], content].concat()
}

/// A frame of an SDK.
fn framed(header: &str, payload: &[u8]) -> Vec<u8> {
    [&u32::try_from(header.len()).unwrap_or(0).to_le_bytes(), header.as_bytes(), payload].concat()
}

/// A message that is a frame of an SDK without a payload.
fn frame(header: &str) -> Vec<u8> {
    fragment(0x82, &framed(header, b""))
}

/// A JSON text of about this many bytes that would take a hundred times as many as a tree.
fn tree(bytes: usize) -> String {
    format!("[{}{{}}]", r#"{"":0},"#.repeat(bytes / 7))
}

/// All floods. Of each operation there is one of whose answers nobody reads, and if it takes a body, one whose bodies do
/// not come whole.
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
    let upgrade = with_token("GET", "/v1/connect", UPGRADE, 0, b"");
    let sdk = |callers, count, frames: Vec<u8>| {
        let bytes = [&upgrade[..], &frames].concat().into();
        Flood { op: "connect", callers, count, bytes }
    };
    let message = [&[0x82, 0xff][..], &(8_u64 << 20).to_be_bytes(), &[0; 4], &mebibyte].concat();
    let mut fragments = fragment(0x02, b"{");
    for _ in 0..256 {
        fragments.extend(fragment(0x00, &[b' '; 4 << 10]));
    }
    let mut questions = frame(r#"{"type":"hello","versions":[1]}"#);
    for n in 0..20_000 {
        questions.extend(frame(&format!(r#"{{"type":"sessions","id":{n}}}"#)));
    }
    let hello = frame(r#"{"type":"hello","versions":[1]}"#);
    let attach = [r#"{"type":"open","id":1}"#, r#"{"type":"attach","id":2,"window":1048576,"job":"large"}"#].map(frame);
    let attach = [&hello[..], &attach.concat()].concat();
    // Whole messages of no run: one in one frame, one in two. Behind them are questions, whose answers say that they came.
    let stray = framed(r#"{"type":"tool_result","id":3,"call":"c"}"#, &mebibyte);
    let (first, second) = stray.split_at(mebibyte.len());
    let strays = [&fragment(0x82, &stray)[..], &fragment(0x02, first), &fragment(0x80, second)].concat();
    let asks: Vec<u8> = (10..50).flat_map(|n| frame(&format!(r#"{{"type":"sessions","id":{n}}}"#))).collect();
    let strays = [hello, strays, asks].concat();
    // Values of which a text has many, one in the other or one after the other.
    let deep = |open: &str, close: &str| open.repeat(100_000) + "0" + &close.repeat(100_000);
    let shapes = [deep("[", "]"), deep(r#"{"":"#, "}"), format!("[{}0]", "0,".repeat(400_000))];
    let shaped = shapes.iter().flat_map(|shape| {
        let input = format!(r#"{{"code":"1","inputs":{{"x":{{"value":{shape}}}}}}}"#);
        let jobs = format!(r#"{{"jobs":[{input},{input}]}}"#);
        let json = |op, request, body: String| read_nothing(op, 20, request, JSON, body.as_bytes());
        [
            json("submitRun", "POST /v1/runs", input),
            json("submitBatch", "POST /v1/batches", jobs),
            json("answerCall", "POST /v1/runs/waits/calls/c", format!(r#"{{"ok":{shape}}}"#)),
            json("decideCall", "POST /v1/runs/waits/calls/c/decision", format!(r#"{{"decision":{shape}}}"#)),
            json("mintToken", "POST /v1/tokens", format!(r#"{{"capabilities":{shape}}}"#)),
            json("narrowToken", "POST /v1/tokens/narrow", format!(r#"{{"token":"t","capabilities":{shape}}}"#)),
            json("showToken", "POST /v1/tokens/show", format!(r#"{{"token":{shape}}}"#)),
            json("exec", "POST /v1/sessions/s/exec", format!(r#"{{"argv":{shape}}}"#)),
        ]
    });
    let mut floods: Vec<_> = shaped.collect();
    floods.extend([
        in_chunks("submitRun", 150, "POST /v1/runs", 1 << 20, &mebibyte, false),
        in_chunks("answerCall", 150, "POST /v1/runs/waits/calls/c", 1 << 20, &mebibyte, false),
        in_chunks("submitBatch", 20, "POST /v1/batches", 1, &mebibyte[..64 << 10], true),
        in_chunks("submitRun", 20, "POST /v1/runs", 1, &mebibyte[..64 << 10], true),
        read_nothing("writeFile", 20, "PUT /v1/sessions/s/files/new", "", &mebibyte),
        read_nothing("sendUpload", 20, &part, PART, &mebibyte),
        pipelined("getRun", 100, "GET /v1/runs/large", 300),
        pipelined("getDocument", 30, "GET /v1/openapi.json", 300),
        pipelined("followRun", 100, "GET /v1/runs/large/events", 300),
    ]);
    floods.extend([
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
        sdk(ReadNothing, 150, strays),
        sdk(ReadNothing, 250, attach),
        sdk(SendNoMore, 100, message),
        sdk(SendNoMore, 100, fragments),
        sdk(SendMore, 60, questions),
        // From here on, the slots are taken.
        read_nothing("submitBatch", 1, "POST /v1/batches", JSON, wide.to_string().as_bytes()),
        whole("getBatch", 300, "GET /v1/batches/wide"),
        whole("getResults", 500, "GET /v1/batches/wide/results"),
    ]);
    floods
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
    let operations = operations.flatten().filter_map(|(_, it)| Some((it["operationId"].as_str()?, it)));
    let wanted: BTreeSet<_> = operations
        .flat_map(|(op, it)| [Some((op, false)), it.get("requestBody").map(|_| (op, true))].into_iter().flatten())
        .collect();
    let flooded: BTreeSet<_> = floods.iter().map(|flood| (flood.op, flood.callers == SendNoMore)).collect();
    let unknown = flooded.iter().find(|(op, _)| !wanted.contains(&(op, false)));
    ensure!(unknown.is_none(), "no operation: {unknown:?}");
    let missing: Vec<_> = wanted.difference(&flooded).collect();
    ensure!(missing.is_empty(), "(operation, whether its body does not come whole): {missing:?}");

    let base = gateway.memory()?;
    gateway.most_memory()?;
    let mut wrong = Vec::new();
    for flood in &floods {
        let flooded = async {
            if flood.asks_for("/runs/large") || (flood.op == "connect" && flood.callers == ReadNothing) {
                // Its outcome may have been forgotten to make room.
                gateway.large().await?;
            }
            let before = gateway.memory()?;
            let (most, held) = one(&gateway, flood).await?;
            anyhow::Ok((before, most, held))
        };
        let flooded = tokio::time::timeout(HANGS, flooded).await.context(flood.op)?;
        let (before, most, held) = flooded.context(flood.op)?;
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

/// All connections of a flood, once all of it has come, or some of it was refused, or the gateway has ended them all.
async fn flooded_by(gateway: &Process, flood: &Flood) -> Result<Vec<TcpStream>> {
    let (_, refused) = gateway.says().await?;
    let mut callers = JoinSet::new();
    // The answer to an upgrade is no answer yet.
    let least = if flood.op == "connect" { 1000 } else { 1 };
    for _ in 0..flood.count {
        let (mut stream, bytes, callers_do) = (gateway.narrow().await?, flood.bytes.clone(), flood.callers);
        callers.spawn(async move {
            // The gateway need not read all of what it refuses.
            let sent = async { stream.write_all(&bytes).await.is_ok() };
            let sent = match callers_do {
                SendMore => tokio::time::timeout(Duration::from_secs(5), sent).await.unwrap_or(false),
                ReadNothing | SendNoMore => sent.await,
            };
            if callers_do == ReadNothing && sent {
                // In a session, some wait until others have read.
                let mut first = vec![0; least];
                let _ = tokio::time::timeout(Duration::from_secs(5), stream.read_exact(&mut first)).await;
            }
            stream
        });
    }
    let mut streams = callers.join_all().await;
    if flood.callers == SendNoMore {
        // Connections without a request have a part of the budget.
        let most = if flood.op == "alive" { BUDGET / 4 } else { BUDGET };
        let all = (flood.bytes.len() * flood.count).min(most) / 4 * 3;
        let came = async {
            loop {
                let says = gateway.says().await?;
                if says.0 >= all || says.1 > refused {
                    return anyhow::Ok(());
                }
            }
        };
        // On a slow machine, the gateway may be done with some callers before others have come.
        let ended = async {
            for stream in &mut streams {
                ended(stream).await?;
            }
            anyhow::Ok(())
        };
        tokio::select! {
            came = came => came?,
            ended = ended => ended?,
        }
    }
    Ok(streams)
}

/// Waits until the gateway has ended a connection: its request takes too long to come, or others need its room. A
/// request that is wrong makes no flood.
async fn ended(stream: &mut TcpStream) -> Result<()> {
    let (mut answer, mut bytes) = (Vec::new(), [0; 1024]);
    while let Ok(read @ 1..) = stream.read(&mut bytes).await {
        answer.extend_from_slice(&bytes[..read]);
    }
    let answer = String::from_utf8_lossy(&answer);
    let wrong = ["400", "401", "403", "405", "413", "415", "422"];
    ensure!(answer.split(' ').nth(1).is_none_or(|status| !wrong.contains(&status)), "{answer}");
    Ok(())
}
