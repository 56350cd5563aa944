//! A RabbitMQ for tests: own node, own epmd, own cookie, own home.
//!
//! Its users and their topic permissions come from `images/rabbitmq/definitions.json`, as in `compose.yaml`.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, ensure};

use super::{Running, Service, await_ready, certs::Certs, free_port, packages, spawn};
use crate::{
    paths,
    process::{ProcId, in_own_session},
};

/// A cold start takes four seconds on an idle machine, and ten beside a compiler.
const START_LIMIT: Duration = Duration::from_secs(120);

/// Starts the node. `before` has the ports that it keeps after an earlier run; its data stays, too.
pub(crate) fn start(dir: &Path, before: Option<&Running>) -> Result<Running> {
    let server = packages::program(Service::Rabbitmq)?;
    let mut facts = match before {
        Some(running) => running.facts.clone(),
        None => {
            // A new node must start empty: the data of an earlier run belongs to other ports.
            let _ = std::fs::remove_dir_all(dir.join("rabbitmq"));
            let port = || free_port().map(|port| port.to_string());
            BTreeMap::from([
                ("port".to_owned(), port()?),
                ("epmd_port".to_owned(), port()?),
                ("dist_port".to_owned(), port()?),
            ])
        }
    };
    // `services up` sets only the usual ports.
    if !facts.contains_key("tls_port") {
        facts.insert("tls_port".to_owned(), free_port()?.to_string());
    }
    let log = dir.join("logs/rabbitmq.log");
    write_config(dir, fact(&facts, "port")?, fact(&facts, "tls_port")?, &Certs::of(dir)?)?;
    let epmd = match before.and_then(|running| running.helpers.first()).copied().filter(|epmd| epmd.alive()) {
        Some(epmd) => epmd,
        None => start_epmd(dir, &facts)?,
    };
    let mut command = in_own_session(server);
    environment(&mut command, dir, &facts)?;
    let main = match spawn(&mut command, &log) {
        Ok(main) => main,
        Err(error) => {
            epmd.kill();
            return Err(error);
        }
    };
    let port: u16 = fact(&facts, "port")?.parse()?;
    if let Err(error) = await_ready("rabbitmq", main, &log, START_LIMIT, || answers(port)) {
        main.kill();
        epmd.kill();
        return Err(error);
    }
    Ok(Running { main, helpers: vec![epmd], facts })
}

/// Stops the node, then its epmd.
pub(crate) fn stop(running: &Running) {
    running.main.stop(Duration::from_secs(30));
    for helper in &running.helpers {
        helper.stop(Duration::from_secs(2));
    }
}

/// Kills the node. Its data and its epmd stay, as they do in a real crash.
pub(crate) fn kill(main: ProcId) {
    main.kill();
}

/// Raises or lowers the memory alarm. While it is raised, RabbitMQ doesn't read from connections that publish.
pub(crate) fn alarm(dir: &Path, running: &Running, on: bool) -> Result<()> {
    let program = packages::program(Service::Rabbitmq)?.with_file_name("rabbitmqctl");
    let mut command = Command::new(program);
    environment(&mut command, dir, &running.facts)?;
    let limit = if on { "0.000001" } else { "0.6" };
    command.args(["-n", "thermae@localhost", "set_vm_memory_high_watermark", limit]);
    let done = command.output().context("run rabbitmqctl")?;
    ensure!(done.status.success(), "rabbitmqctl: {}", String::from_utf8_lossy(&done.stderr));
    Ok(())
}

/// Checks the definitions. Each tenant must be a user without tags whose permissions cover only names with its own
/// name, and whose connections and channels are limited. Policies must limit the queues that tenants fill.
pub(crate) fn check_definitions() -> Result<()> {
    let text = std::fs::read(definitions()).context("read the definitions")?;
    let all: serde_json::Value = serde_json::from_slice(&text).context("read the definitions")?;
    let list = |key: &str| all[key].as_array().cloned().unwrap_or_default();
    for user in list("users").iter().filter(|user| user["name"] != "fleet") {
        let name = user["name"].as_str().context("a user has no name")?;
        ensure!(user["tags"] == serde_json::json!([]), "{name} has tags");
        for limit in ["max-connections", "max-channels"] {
            ensure!(user["limits"][limit].as_u64().is_some_and(|most| most > 0), "{name} has no {limit}");
        }
        // A user that only decides about calls is named `<tenant>.approver`. It submits and answers nothing.
        let (tenant, approves) = name.strip_suffix(".approver").map_or((name, false), |tenant| (tenant, true));
        let exchange = if approves { "approvals" } else { "calls" };
        // A client's name is one word (`ClientId`).
        let own = format!("replies\\.{tenant}\\.[A-Za-z0-9_-]{{1,64}}");
        let permission = list("permissions").into_iter().find(|permission| permission["user"] == *name);
        let permission = permission.with_context(|| format!("{name} has no permissions"))?;
        ensure!(permission["configure"] == format!("^{own}$"), "{name} can configure more than its own queues");
        ensure!(permission["write"] == format!("^(submit|{exchange}|{own})$"), "{name} can write elsewhere");
        ensure!(permission["read"] == format!("^(replies|{own})$"), "{name} can read elsewhere");
        let (all, none) = (format!("^{tenant}\\."), "^$".to_owned());
        let submits = if approves { format!("^{tenant}\\.query$") } else { all.clone() };
        for (exchange, write, read) in [("submit", &submits, &none), (exchange, &all, &none), ("replies", &none, &all)]
        {
            let topic = list("topic_permissions")
                .into_iter()
                .find(|topic| topic["user"] == *name && topic["exchange"] == exchange)
                .with_context(|| format!("{name} has no bounds on {exchange}"))?;
            ensure!(topic["write"] == **write && topic["read"] == **read, "{name} on {exchange}");
        }
    }
    // Full queues of accepted jobs and calls must refuse more. Full reply queues drop the oldest messages, which their
    // client didn't fetch.
    for (name, overflow) in [
        ("thermae-lanes", "reject-publish"),
        ("thermae-shared", "reject-publish"),
        ("thermae-rests", "reject-publish"),
        ("thermae-calls", "reject-publish"),
        ("thermae-replies", "drop-head"),
    ] {
        let policy = list("policies").into_iter().find(|policy| policy["name"] == name);
        let definition = policy.with_context(|| format!("there is no policy {name}"))?["definition"].clone();
        ensure!(definition["overflow"] == overflow, "{name} does not {overflow}");
        ensure!(definition["max-length-bytes"].as_u64().is_some_and(|most| most > 0), "{name} has no bound");
    }
    message_size().map(drop)
}

/// The AMQP URL of a user of the definitions file, where each password is the user's name.
pub(crate) fn url(running: &Running, user: &str) -> Result<String> {
    Ok(format!("amqp://{user}:{user}@127.0.0.1:{}/%2f", running.fact("port")?))
}

/// As [`url`], by TLS. The set's authority has signed the server's certificate, and clients must present one, too.
pub(crate) fn tls_url(running: &Running, user: &str) -> Result<String> {
    Ok(format!("amqps://{user}:{user}@127.0.0.1:{}/%2f", running.fact("tls_port")?))
}

/// Whether a server on this port answers in AMQP. RabbitMQ opens the listener last, after it has imported the
/// definitions.
pub(crate) fn answers(port: u16) -> bool {
    let greet = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.write_all(b"AMQP\x00\x00\x09\x01")?;
        let mut first = [0; 1];
        stream.read_exact(&mut first)?;
        Ok(first == [1])
    };
    greet().unwrap_or(false)
}

fn fact<'a>(facts: &'a BTreeMap<String, String>, key: &str) -> Result<&'a str> {
    facts.get(key).map(String::as_str).with_context(|| format!("the state file has no `{key}`"))
}

fn definitions() -> PathBuf {
    paths::root().join("images/rabbitmq/definitions.json")
}

/// The line of Compose's `rabbitmq.conf` that limits the size of a message. The tests' broker uses it, too.
fn message_size() -> Result<String> {
    let path = paths::root().join("images/rabbitmq/rabbitmq.conf");
    let text = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let line = text.lines().find(|line| line.starts_with("max_message_size"));
    line.map(str::to_owned).context("images/rabbitmq/rabbitmq.conf bounds no message")
}

fn home(dir: &Path) -> PathBuf {
    dir.join("rabbitmq")
}

fn write_config(dir: &Path, port: &str, tls_port: &str, certs: &Certs) -> Result<()> {
    let home = home(dir);
    std::fs::create_dir_all(&home)?;
    let config = format!(
        "listeners.tcp.1 = 127.0.0.1:{port}\n\
         listeners.ssl.1 = 127.0.0.1:{tls_port}\n\
         ssl_options.cacertfile = {}\n\
         ssl_options.certfile = {}\n\
         ssl_options.keyfile = {}\n\
         ssl_options.verify = verify_peer\n\
         ssl_options.fail_if_no_peer_cert = true\n\
         load_definitions = {}\n\
         log.console = true\n\
         log.console.level = info\n\
         log.file = false\n\
         disk_free_limit.absolute = 50MB\n\
         {}\n",
        certs.ca().display(),
        certs.server().display(),
        certs.server_key().display(),
        definitions().display(),
        message_size()?
    );
    std::fs::write(home.join("rabbitmq.conf"), config)?;
    std::fs::write(home.join("enabled_plugins"), "[].\n")?;
    Ok(())
}

fn start_epmd(dir: &Path, facts: &BTreeMap<String, String>) -> Result<ProcId> {
    let program = paths::find_program("epmd").context("epmd was not found beside RabbitMQ")?;
    let mut command = in_own_session(program);
    command.args(["-port", fact(facts, "epmd_port")?, "-address", "127.0.0.1"]);
    let log = dir.join("logs/epmd.log");
    let epmd = spawn(&mut command, &log)?;
    let port: u16 = fact(facts, "epmd_port")?.parse()?;
    await_ready("epmd", epmd, &log, Duration::from_secs(10), || TcpStream::connect(("127.0.0.1", port)).is_ok())?;
    Ok(epmd)
}

/// Sets everything by which this node could meet another one, and inherits only `PATH` from the caller.
fn environment(command: &mut Command, dir: &Path, facts: &BTreeMap<String, String>) -> Result<()> {
    let home = home(dir);
    let path = std::env::var_os("PATH").unwrap_or_default();
    command
        .env_clear()
        .env("PATH", path)
        .env("LANG", "C.UTF-8")
        .env("HOME", &home)
        .env("ERL_EPMD_PORT", fact(facts, "epmd_port")?)
        .env("ERL_EPMD_ADDRESS", "127.0.0.1")
        .env("RABBITMQ_NODENAME", "thermae@localhost")
        .env("RABBITMQ_NODE_PORT", fact(facts, "port")?)
        .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
        .env("RABBITMQ_DIST_PORT", fact(facts, "dist_port")?)
        // Erlang's distribution port listens on all addresses by default. It gives the whole node to anyone with the
        // cookie.
        .env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "-kernel inet_dist_use_interface {127,0,0,1}")
        .env("RABBITMQ_MNESIA_BASE", home.join("mnesia"))
        .env("RABBITMQ_LOG_BASE", home.join("log"))
        .env("RABBITMQ_CONFIG_FILE", home.join("rabbitmq.conf"))
        .env("RABBITMQ_ENABLED_PLUGINS_FILE", home.join("enabled_plugins"))
        .env("RABBITMQ_PID_FILE", home.join("rabbitmq.pid"))
        .env("RABBITMQ_CONF_ENV_FILE", home.join("no-such-file"))
        // The start script becomes the node by `exec`, so that there is one process to watch and to signal.
        .env("RUNNING_UNDER_SYSTEMD", "true")
        .current_dir(&home);
    Ok(())
}
