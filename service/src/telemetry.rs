//! Logs to standard error and, if an endpoint is configured, traces over OTLP.
//!
//! Users' code and secrets must never be logged, by any part of the program.

use std::io::IsTerminal;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithTonicConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tonic::transport::{Channel, Endpoint, Uri};
use tracing_subscriber::filter::{EnvFilter, LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry};

use crate::tls::{self, Tls, Wire};

/// How long [`Guard::shutdown`] waits until the last spans are sent.
const FLUSH: Duration = Duration::from_secs(3);
/// How long sending a batch of spans over TLS may take. For a plain connection, the exporter has the same limit by
/// default.
const EXPORT: Duration = Duration::from_secs(10);

/// Options for logs and traces. The environment variables `THERMAE_LOG`, `THERMAE_LOG_FORMAT` and
/// `THERMAE_OTLP_ENDPOINT` override them, wherever a program's configuration has them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// What is logged: a level (`error`, `warn`, `info`, `debug`, `trace`), or directives such as
    /// `info,thermae_worker=debug`.
    pub log: String,
    /// Format of the logs. `auto` is text, in colour if standard error is a terminal and `NO_COLOR` is not set. `text`
    /// is text without colour. `json` is one JSON object per line.
    pub log_format: LogFormat,
    /// Where traces are sent, as OTLP over gRPC: `http://collector:4317`, or `https://…` for TLS. By default, no traces
    /// are sent.
    pub otlp_endpoint: Option<String>,
    /// Share of the traces begun by this process that are kept, from 0 to 1. For a trace that a client began, the
    /// client decides.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub trace_ratio: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self { log: "info".to_owned(), log_format: LogFormat::Auto, otlp_endpoint: None, trace_ratio: 1.0 }
    }
}

/// Format of the logs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// Text, in colour if standard error is a terminal and `NO_COLOR` is not set.
    #[default]
    Auto,
    /// Text without colour.
    Text,
    /// One JSON object per line.
    Json,
}

/// Why logs and traces can't be set up.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The directives of the log filter are malformed.
    #[error("the log filter {filter:?} is not valid")]
    Filter {
        /// The filter.
        filter: String,
        /// The parser's error.
        #[source]
        source: tracing_subscriber::filter::ParseError,
    },
    /// The log format is unknown.
    #[error("the log format {0:?} is not one of auto, text, json")]
    Format(String),
    /// The endpoint is malformed.
    #[error("traces can't be sent to {endpoint:?}")]
    Exporter {
        /// The endpoint.
        endpoint: String,
        /// The exporter's error.
        #[source]
        source: opentelemetry_otlp::ExporterBuildError,
    },
    /// The endpoint is not a URL with a host.
    #[error("the endpoint for traces, {0:?}, is not of the form https://host:port")]
    Endpoint(String),
    /// The endpoint requires TLS, and TLS can't be set up.
    #[error("traces can't be sent over TLS")]
    Tls(#[from] tls::Error),
    /// Logs were set up before.
    #[error("logs are set up already")]
    Twice(#[source] tracing_subscriber::util::TryInitError),
}

/// Holds the exporter. Call [`Guard::shutdown`] before the process ends, or the last spans are lost.
#[must_use = "spans are lost unless the guard is shut down at the end"]
#[derive(Debug)]
pub struct Guard(Option<SdkTracerProvider>);

impl Guard {
    /// Sends the remaining spans. This takes at most three seconds.
    pub async fn shutdown(self) {
        let Some(provider) = self.0 else { return };
        // The exporter's last call needs this runtime, so it must not be waited for on one of its threads.
        let ended = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(FLUSH)).await;
        if let Ok(Err(error)) = ended {
            tracing::warn!(%error, "the last traces could not be sent");
        }
    }
}

/// Sets up logs and, if there is an endpoint, traces under this service name. With an endpoint, call it inside a
/// multi-threaded tokio runtime. `tls` is used for an `https://` endpoint only.
///
/// # Errors
/// The filter, the format or the endpoint is malformed, or logs were set up before. An endpoint that nobody listens on
/// is no error: traces are then dropped, and the log says so.
pub fn init(service: &str, options: &Options, tls: &Tls) -> Result<Guard, Error> {
    let options = with_environment(options.clone(), |name| std::env::var(name).ok())?;
    let malformed = |source| Error::Filter { filter: options.log.clone(), source };
    // RabbitMQ's client logs returned messages whole, and they hold what the jobs' code printed.
    let no_bodies = "lapin::returned_messages=off".parse().map_err(malformed)?;
    let filter = EnvFilter::builder().parse(quieted(&options.log)).map_err(malformed)?.add_directive(no_bodies);
    let provider =
        options.otlp_endpoint.as_deref().map(|endpoint| exporter(service, endpoint, &options, tls)).transpose()?;
    let traces = provider.as_ref().map(|provider| {
        // Spans of the transport that carries the spans would never end.
        let ours = Targets::new().with_default(LevelFilter::INFO).with_targets(
            ["h2", "hyper", "hyper_util", "tonic", "tower", "opentelemetry"].map(|t| (t, LevelFilter::OFF)),
        );
        tracing_opentelemetry::layer().with_tracer(provider.tracer("thermae")).with_filter(ours)
    });
    Registry::default()
        .with(traces)
        .with(logs(options.log_format).with_filter(filter))
        .try_init()
        .map_err(Error::Twice)?;
    Ok(Guard(provider))
}

/// The filter, with the AMQP library silenced unless the filter asks for it. The library logs as errors what the
/// backplane handles and logs itself.
fn quieted(filter: &str) -> String {
    let asked = ["lapin", "debug", "trace"].iter().any(|word| filter.contains(word));
    if asked || filter.trim().is_empty() { filter.to_owned() } else { format!("{filter},lapin=off") }
}

/// Applies the environment variables that work in every process.
fn with_environment(mut options: Options, get: impl Fn(&str) -> Option<String>) -> Result<Options, Error> {
    let get = |name: &str| get(name).filter(|value| !value.is_empty());
    if let Some(log) = get("THERMAE_LOG") {
        options.log = log;
    }
    if let Some(endpoint) = get("THERMAE_OTLP_ENDPOINT") {
        options.otlp_endpoint = Some(endpoint);
    }
    if let Some(format) = get("THERMAE_LOG_FORMAT") {
        options.log_format = match format.as_str() {
            "auto" => LogFormat::Auto,
            "text" => LogFormat::Text,
            "json" => LogFormat::Json,
            _ => return Err(Error::Format(format)),
        };
    }
    options.otlp_endpoint = options.otlp_endpoint.filter(|endpoint| !endpoint.is_empty());
    Ok(options)
}

fn logs<S>(format: LogFormat) -> Box<dyn Layer<S> + Send + Sync>
where
    S: tracing::Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a> + Send + Sync,
{
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    match format {
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
        LogFormat::Text => layer.with_ansi(false).boxed(),
        LogFormat::Auto => {
            let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
            layer.with_ansi(colour).boxed()
        }
    }
}

fn exporter(service: &str, endpoint: &str, options: &Options, tls: &Tls) -> Result<SdkTracerProvider, Error> {
    let exporter = SpanExporter::builder().with_tonic();
    let exporter = match endpoint.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://")) {
        true => exporter.with_channel(encrypted(endpoint, tls)?),
        false => exporter.with_endpoint(endpoint),
    };
    let exporter = exporter.build().map_err(|source| Error::Exporter { endpoint: shown(endpoint), source })?;
    let ratio = Sampler::TraceIdRatioBased(options.trace_ratio.clamp(0.0, 1.0));
    Ok(SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_sampler(Sampler::ParentBased(Box::new(ratio)))
        .with_resource(Resource::builder().with_service_name(service.to_owned()).build())
        .build())
}

/// A channel over TLS. It connects when the first spans are sent, and again whenever the connection was lost.
fn encrypted(endpoint: &str, tls: &Tls) -> Result<Channel, Error> {
    tls.check()?;
    let malformed = || Error::Endpoint(shown(endpoint));
    let target = Endpoint::from_shared(endpoint.to_owned()).map_err(|_| malformed())?.timeout(EXPORT);
    let host = target.uri().host().ok_or_else(malformed)?.to_owned();
    let port = target.uri().port_u16().unwrap_or(443);
    let tls = tls.clone();
    let connect = move |_: Uri| {
        let (tls, host) = (tls.clone(), host.clone());
        async move {
            let connected = tls.connect(&host, port, Wire::Encrypted, &[b"h2"]).await.map(TokioIo::new);
            connected.inspect_err(|error| tracing::warn!(%error, "traces can't be sent"))
        }
    };
    Ok(target.connect_with_connector_lazy(tower::service_fn(connect)))
}

/// A URL without its user and password, for messages.
fn shown(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => format!("{scheme}://{}", rest.rsplit_once('@').map_or(rest, |(_, rest)| rest)),
        None => url.rsplit_once('@').map_or(url, |(_, rest)| rest).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_endpoint_that_is_none_is_refused_without_its_password() {
        for endpoint in ["https://u:hunter2@", "https:// u:hunter2@host", "ftp:// u:hunter2@host"] {
            let error = exporter("test", endpoint, &Options::default(), &Tls::default()).unwrap_err();
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn shortcuts_of_the_environment_win() {
        let set = |name: &str| match name {
            "THERMAE_LOG" => Some("debug".to_owned()),
            "THERMAE_LOG_FORMAT" => Some("json".to_owned()),
            "THERMAE_OTLP_ENDPOINT" => Some(String::new()),
            _ => None,
        };
        let options = with_environment(Options::default(), set).unwrap();
        assert_eq!((options.log.as_str(), options.log_format, options.otlp_endpoint), ("debug", LogFormat::Json, None));
    }

    #[test]
    fn the_amqp_library_is_heard_only_on_wish() {
        assert_eq!(quieted("info"), "info,lapin=off");
        for asked in ["debug", "info,lapin=warn", ""] {
            assert_eq!(quieted(asked), asked);
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let format = |_: &str| Some("xml".to_owned());
        assert!(matches!(with_environment(Options::default(), format), Err(Error::Format(_))));
        let options = Options { log: "thermae=loud".to_owned(), ..Options::default() };
        assert!(matches!(init("test", &options, &Tls::default()), Err(Error::Filter { .. })));
    }
}
