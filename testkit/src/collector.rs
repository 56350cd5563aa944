//! A collector of traces for tests: an OTLP receiver on loopback that keeps the spans that it gets.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use tokio::runtime::Runtime;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

/// The fields of one span that tests look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// `service.name` of the process that sent it.
    pub service: String,
    /// Name of the span.
    pub name: String,
    /// Id of its trace.
    pub trace: Vec<u8>,
    /// Its own id.
    pub id: Vec<u8>,
    /// Id of its parent; empty if it has none.
    pub parent: Vec<u8>,
}

/// A running receiver. It is stopped on drop.
#[derive(Debug)]
pub struct Collector {
    // `None` only in `drop`, which needs the runtime by value: waiting for a runtime would panic in a test's own one.
    runtime: Option<Runtime>,
    endpoint: String,
    spans: Spans,
}

impl Collector {
    /// Starts a receiver on a free port.
    ///
    /// # Errors
    /// The thread or the listener can't be made.
    pub fn start() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let inside = runtime.enter();
        let incoming = TcpIncoming::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let endpoint = format!("http://{}", incoming.local_addr()?);
        let spans = Spans::default();
        let service = TraceServiceServer::new(spans.clone());
        runtime.spawn(Server::builder().add_service(service).serve_with_incoming(incoming));
        drop(inside);
        Ok(Self { runtime: Some(runtime), endpoint, spans })
    }

    /// URL to send traces to.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Stops the receiver, and gives all spans that it has received.
    pub fn end(self) -> Vec<Span> {
        std::mem::take(&mut *self.spans.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[derive(Debug, Clone, Default)]
struct Spans(Arc<Mutex<Vec<Span>>>);

#[tonic::async_trait]
impl TraceService for Spans {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut spans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for of_process in request.into_inner().resource_spans {
            let attributes = of_process.resource.map(|resource| resource.attributes).unwrap_or_default();
            let service = attributes.into_iter().find(|attribute| attribute.key == "service.name");
            let service = match service.and_then(|attribute| attribute.value?.value) {
                Some(Value::StringValue(name)) => name,
                _ => return Err(Status::invalid_argument("spans of no service")),
            };
            spans.extend(of_process.scope_spans.into_iter().flat_map(|scope| scope.spans).map(|span| Span {
                service: service.clone(),
                name: span.name,
                trace: span.trace_id,
                id: span.span_id,
                parent: span.parent_span_id,
            }));
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}
