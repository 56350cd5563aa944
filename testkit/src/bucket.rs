//! An S3 server for tests of the artifact store: one bucket on loopback, kept in a folder. It checks every signature.

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

/// Id of the only key that can open the bucket.
pub const KEY_ID: &str = "a-key";

/// Secret of that key.
pub const SECRET: &str = "a-secret";

/// A running server. It is stopped on drop.
#[derive(Debug)]
pub struct Bucket {
    // `None` only in `drop`, which needs the runtime by value: waiting for a runtime would panic in a test's own one.
    runtime: Option<Runtime>,
    addr: SocketAddr,
    folder: TempDir,
}

impl Bucket {
    /// Starts a server on a free port.
    ///
    /// # Errors
    /// The folder, the thread or the listener can't be made.
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

    /// Address on which the server listens, without TLS.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Folder with the bucket's objects, which are files named by their keys.
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
