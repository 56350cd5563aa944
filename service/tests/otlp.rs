//! Spans really reach an OTLP receiver, with the parent that came in headers.

use std::net::SocketAddr;

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use thermae_service::{telemetry, trace};
use tokio::sync::mpsc;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

struct Receiver(mpsc::UnboundedSender<ExportTraceServiceRequest>);

#[tonic::async_trait]
impl TraceService for Receiver {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0.send(request.into_inner()).map_err(|_| Status::unavailable("test is over"))?;
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spans_reach_a_receiver_under_the_parent_that_came_in() {
    let incoming = TcpIncoming::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let addr = incoming.local_addr().unwrap();
    let (sender, mut received) = mpsc::unbounded_channel();
    let server = tokio::spawn(
        Server::builder().add_service(TraceServiceServer::new(Receiver(sender))).serve_with_incoming(incoming),
    );

    let options =
        telemetry::Options { otlp_endpoint: Some(format!("http://{addr}")), log: "warn".into(), ..Default::default() };
    let guard = telemetry::init("thermae-test", &options).unwrap();
    let parent = trace::TraceContext {
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
        tracestate: None,
    };
    {
        let span = tracing::info_span!("run", job = "j1");
        trace::adopt(&span, &parent);
        let _entered = span.enter();
        tracing::info!("working");
    }
    guard.shutdown().await;

    let request = received.recv().await.unwrap();
    let resource = &request.resource_spans[0];
    let attributes = &resource.resource.as_ref().unwrap().attributes;
    assert!(attributes.iter().any(|a| a.key == "service.name" && format!("{:?}", a.value).contains("thermae-test")));
    let span = &resource.scope_spans[0].spans[0];
    assert_eq!(span.name, "run");
    assert_eq!(span.trace_id, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c_u128.to_be_bytes());
    assert_eq!(span.parent_span_id, 0xb7ad_6b71_6920_3331_u64.to_be_bytes());
    server.abort();
}
