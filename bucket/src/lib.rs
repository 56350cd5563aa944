//! A server that speaks S3, for tests of what is stored there: one bucket on loopback, kept in a folder, that checks every signature.
//!
//! A crate, so that what it needs of its dependencies is the same in builds with tests and without.

#![forbid(unsafe_code)]

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use axum::Router;
use axum::error_handling::HandleError;
use axum::http::StatusCode;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use s3s_fs::FileSystem;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// Name of the bucket.
pub const NAME: &str = "artifacts";

/// Id of the only key that opens it.
pub const KEY_ID: &str = "a-key";

/// That key's secret.
pub const SECRET: &str = "a-secret";

/// A running server.
#[derive(Debug)]
pub struct Bucket {
    // Only `None` in `drop`: a runtime may not be waited for where a test's own is at work.
    runtime: Option<Runtime>,
    addr: SocketAddr,
    folder: TempDir,
}

impl Bucket {
    /// Starts one on a free port.
    ///
    /// # Errors
    /// No folder, no thread, or no port.
    pub fn start() -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        std::fs::create_dir(folder.path().join(NAME))?;
        let files = FileSystem::new(folder.path()).map_err(|error| io::Error::other(format!("{error:?}")))?;
        let mut service = S3ServiceBuilder::new(files);
        service.set_auth(SimpleAuth::from_single(KEY_ID, SECRET));
        let failed = |error: s3s::HttpError| async move { (StatusCode::INTERNAL_SERVER_ERROR, format!("{error:?}")) };
        let router = Router::new().fallback_service(HandleError::new(service.build(), failed));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        runtime.spawn(async { axum::serve(TcpListener::from_std(listener)?, router).await });
        Ok(Self { runtime: Some(runtime), addr, folder })
    }

    /// Where it listens, without TLS.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// What it keeps: objects are files there, by their keys.
    pub fn folder(&self) -> PathBuf {
        self.folder.path().join(NAME)
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
