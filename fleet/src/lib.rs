//! A fleet in one's own program: connects to a real one, or runs one inside this process.
//!
//! ```text
//!                    ┌─ embedded ─▶ scheduler + worker + in-process bus and registry, native sandboxes
//!  program ─▶ Fleet ─┤
//!                    └─ remote ───▶ RabbitMQ, as a tenant
//! ```
//!
//! Both kinds take the same jobs through the same [`Client`]. The embedded fleet needs no server. Its promise ends with
//! its process.
//!
//! # The embedded fleet
//!
//! Sandboxes are made by starting the program again, so its `main` must begin with [`runner_entry`]:
//!
//! ```no_run
//! use std::process::ExitCode;
//! use std::sync::Arc;
//!
//! use thermae_fleet::{EmbeddedOptions, Error, Fleet, Job, Tools};
//!
//! fn main() -> ExitCode {
//!     thermae_fleet::runner_entry().unwrap_or_else(program)
//! }
//!
//! #[tokio::main]
//! async fn program() -> ExitCode {
//!     match run().await {
//!         Ok(()) => ExitCode::SUCCESS,
//!         Err(_) => ExitCode::FAILURE,
//!     }
//! }
//!
//! async fn run() -> Result<(), Error> {
//!     let fleet = Fleet::embedded(EmbeddedOptions { slots: Some(4), ..EmbeddedOptions::default() }).await?;
//!     let tools = Tools::new().with("square", |(n,): (i64,)| async move { Ok(n * n) });
//!     let mut job = Job::python("print(6 * 7)");
//!     job.tools = tools.specs();
//!     let outcome = fleet.run(job, Some(Arc::new(tools))).await?;
//!     assert_eq!(outcome.stdout, "42\n");
//!     fleet.close().await;
//!     Ok(())
//! }
//! ```
//!
//! `fleet/examples/closure_tool.rs` is a whole program.
//!
//! # Commands in a session
//!
//! A [`Request`] runs a command or works on files in a live session, beside its programs.
//!
//! ```no_run
//! # async fn run(fleet: thermae_fleet::Fleet) -> Result<(), Box<dyn std::error::Error>> {
//! use thermae_fleet::{Exec, JobId, Request, RequestEnd, RequestWork};
//!
//! let exec = Exec { shell: Some("ls -l".into()), ..Exec::default() };
//! let request = Request::new(JobId::random(), "analysis".parse()?, RequestWork::Exec(exec));
//! let command = fleet.client().request(request);
//! while let Some((stream, bytes)) = command.output().await {
//!     println!("{stream:?}: {}", String::from_utf8_lossy(&bytes));
//! }
//! assert_eq!(command.done().await?.end, RequestEnd::Exited { code: 0 });
//! # Ok(())
//! # }
//! ```
//!
//! # A real fleet
//!
//! ```no_run
//! # async fn run() -> Result<(), thermae_fleet::Error> {
//! use thermae_fleet::{Fleet, Job};
//!
//! let fleet = Fleet::connect("amqp://acme:secret@fleet.example:5672").await?;
//! let outcome = fleet.run(Job::python("print(6 * 7)"), None).await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`RemoteOptions`] has the tenant, the timeout, a password of its own and TLS.

#![forbid(unsafe_code)]

mod embedded;
mod entry;
mod error;
mod fleet;
mod options;
mod remote;

pub use entry::runner_entry;
pub use error::{Error, Unfit};
pub use fleet::Fleet;
pub use options::EmbeddedOptions;
pub use remote::RemoteOptions;
// What a program needs together with a fleet.
pub use thermae_client::{Client, Error as ClientError, Events, JobHandle, RequestHandle, ToolHandler, Tools};
pub use thermae_schemas::{
    Event, EventBody, Exec, FileOp, Job, JobId, LimitRequest, Outcome, OutputStream, Request, RequestDone, RequestEnd,
    RequestWork, SessionName, SessionRequest, Status, TenantName, ToolSpec,
};
pub use thermae_service::secret::Secret;
pub use thermae_service::tls::Tls;
pub use thermae_service::units::{ByteSize, Millis};
pub use thermae_worker::audit::AuditOptions;
pub use thermae_worker::{AnswerOptions, Artifacts, LimitOptions, Limits, TokenOptions};
