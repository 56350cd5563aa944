//! Files of jobs outside of their sandboxes: where artifacts are stored, how clients fetch them, and where input files
//! come from.
//!
//! ```text
//! runner ══ frames ══▶ gather ─▶ store (content-addressed, by tenant) ─▶ signed URL in the outcome
//! job's files: text, base64, ref ◀── store                                   └─▶ S3, or this worker's own http
//! ```
//!
//! The key of an object is `<tenant>/<sha256>`, and that of an outcome is `<tenant>/outcomes/<sha256>`; for those of
//! checkpoints, see [`checkpoint`]. No tenant can name what another tenant stores: a `ref` is always looked up below
//! its own tenant's part, and is never a path on this machine.

pub(crate) mod checkpoint;
mod gather;
mod http;
pub(crate) mod inputs;
mod options;
mod outcomes;
mod sign;
mod sweep;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt, TryStreamExt};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::signer::{Method, SignedUrlOptions, Signer, Url};
use object_store::{GetOptions, ObjectStore, ObjectStoreExt, PutPayload};
use thermae_schemas::{ArtifactId, TenantName};
use thermae_service::secret::Secret;

use crate::locked_dir::LockedDir;
pub(crate) use gather::{Gathered, Gatherer, digest};
pub use http::routes;
pub(crate) use inputs::InputFile;
pub use options::{ArtifactLimits, ArtifactOptions};
use sign::Key;
pub(crate) use sweep::{Ages, Kind, sweep};

/// How long it may take to store or read an object.
const STORE_TIMEOUT: Duration = Duration::from_secs(30);

/// Why the store can't be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The URL of the store is of an unknown kind.
    #[error("artifacts.store {0:?} is neither file:///folder nor s3://bucket/prefix")]
    Url(String),
    /// The address at which clients reach this worker is not a URL.
    #[error("artifacts.url_base {0:?} is not of the form http://host:port")]
    Base(String),
    /// The S3 store has no such option.
    #[error("artifacts.s3.{0}: there is no such option")]
    Option(String),
    /// The folder can't be made.
    #[error("the folder for artifacts can't be made in {}", .0.display())]
    Folder(std::path::PathBuf, #[source] std::io::Error),
    /// The store itself reports an error.
    #[error(transparent)]
    Store(#[from] object_store::Error),
    /// The store did not answer in time.
    #[error("the store did not answer within {} s", STORE_TIMEOUT.as_secs())]
    Late,
    /// An object is larger than its reader has room for.
    #[error("it has {size} bytes, more than {room}")]
    TooLarge {
        /// Size of the object, in bytes.
        size: u64,
        /// Bytes that the reader has room for.
        room: u64,
    },
    /// The manifest of a checkpoint can't be read. A later release may have stored it.
    #[error("this release can't read the manifest of the checkpoint")]
    Manifest,
    /// A part of a checkpoint is not what was stored.
    #[error("the chunk {0} of the checkpoint is damaged")]
    Damaged(String),
}

impl Error {
    /// Whether the object does not exist.
    pub fn is_missing(&self) -> bool {
        use object_store::Error as E;
        matches!(self, Self::Store(E::NotFound { .. } | E::InvalidPath { .. }))
    }
}

/// The fleet's store, as this worker uses it. Cloning it is cheap.
#[derive(Clone)]
pub struct Artifacts(Arc<Inner>);

struct Inner {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    urls: Urls,
    options: ArtifactOptions,
    /// The store again, if it is a folder: only its owner may read what is in it.
    local: Option<Arc<LocalFileSystem>>,
    /// The temporary folder if no store is configured. It is removed with this worker.
    folder: Option<OwnFolder>,
}

/// The folder of a worker without a configured store. If the worker is killed, the next worker that starts removes the
/// folder.
struct OwnFolder(LockedDir);

impl Drop for OwnFolder {
    fn drop(&mut self) {
        self.0.remove();
    }
}

/// Who serves the objects.
enum Urls {
    /// The store itself.
    Store(Arc<dyn Signer>),
    /// This worker's own server, if its address is known.
    Own { key: Box<Key>, base: Option<Url> },
}

impl Artifacts {
    /// Opens the store. `listen` is the address of this worker's own server, if it has one. URLs lead there, unless the
    /// options name another place.
    ///
    /// # Errors
    /// The options can't be used.
    pub fn open(options: &ArtifactOptions, listen: Option<SocketAddr>) -> Result<Self, Error> {
        let (mut folder, mut local) = (None, None);
        let own = || -> Result<Urls, Error> {
            let base = options.url_base.clone().or_else(|| listen.map(own_base));
            let base = base.map(|text| Url::parse(&text).map_err(|_| Error::Base(text))).transpose()?;
            Ok(Urls::Own { key: Box::new(Key::new(options.signing_key.as_ref().map(Secret::expose))), base })
        };
        let (store, prefix, urls): (Arc<dyn ObjectStore>, Path, Urls) = match &options.store {
            None => {
                let (name, temporary) = (format!("artifacts-{}", uuid::Uuid::new_v4().simple()), std::env::temp_dir());
                let made = OwnFolder(LockedDir::make(&temporary, &name).map_err(|e| Error::Folder(temporary, e))?);
                // Beside the lock, so that no tenant's part can take its place.
                let path = made.0.path().join("store");
                make_folder(&path)?;
                let store = Arc::new(LocalFileSystem::new_with_prefix(path)?);
                (folder, local) = (Some(made), Some(Arc::clone(&store)));
                (store, Path::default(), own()?)
            }
            Some(text) => {
                let url = Url::parse(text).map_err(|_| Error::Url(text.clone()))?;
                match url.scheme() {
                    "file" => {
                        let path = url.to_file_path().map_err(|()| Error::Url(text.clone()))?;
                        make_folder(&path)?;
                        let store = Arc::new(LocalFileSystem::new_with_prefix(path)?);
                        local = Some(Arc::clone(&store));
                        (store, Path::default(), own()?)
                    }
                    "s3" => {
                        let store = Arc::new(s3(text, options)?);
                        let prefix = Path::from_url_path(url.path()).map_err(object_store::Error::from)?;
                        (Arc::clone(&store) as _, prefix, Urls::Store(store))
                    }
                    _ => return Err(Error::Url(text.clone())),
                }
            }
        };
        Ok(Self(Arc::new(Inner { store, prefix, urls, options: options.clone(), local, folder })))
    }

    /// Removes the temporary folder of a worker without a configured store, although others may hold the store for
    /// another moment. A configured store stays as it is.
    pub fn close(&self) {
        if let Some(folder) = &self.0.folder {
            folder.0.remove();
        }
    }

    /// Whether objects outlive this worker.
    pub(crate) fn is_lasting(&self) -> bool {
        self.0.options.store.is_some()
    }

    fn options(&self) -> &ArtifactOptions {
        &self.0.options
    }

    /// Path of an object in the store. It is always below the tenant's part.
    fn path(&self, tenant: &TenantName, key: &str) -> Result<Path, Error> {
        let key = Path::parse(key).map_err(object_store::Error::from)?;
        let below = self.0.prefix.parts().chain([tenant.as_str().into()]);
        Ok(below.chain(key.parts()).collect())
    }

    /// Stores an object under its key.
    async fn put(&self, tenant: &TenantName, key: &str, bytes: Bytes) -> Result<(), Error> {
        let path = self.path(tenant, key)?;
        let file = self.0.local.as_ref().map(|local| local.path_to_filesystem(&path)).transpose()?;
        if let Some(folder) = file.as_deref().and_then(std::path::Path::parent) {
            make_folder(folder)?;
        }
        let put = self.0.store.put(&path, PutPayload::from_bytes(bytes));
        tokio::time::timeout(STORE_TIMEOUT, put).await.map_err(|_| Error::Late)??;
        if let Some(file) = file {
            // Nobody could reach the file before this, because its folder is closed.
            let owners = std::os::unix::fs::PermissionsExt::from_mode(0o600);
            match std::fs::set_permissions(&file, owners) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(Error::Folder(file, error)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Removes an object. If there is none, this is no error.
    async fn remove(&self, tenant: &TenantName, key: &str) -> Result<(), Error> {
        let path = self.path(tenant, key)?;
        let removed = tokio::time::timeout(STORE_TIMEOUT, self.0.store.delete(&path)).await.map_err(|_| Error::Late)?;
        match removed.map_err(Error::from) {
            Err(error) if !error.is_missing() => Err(error),
            _ => Ok(()),
        }
    }

    /// Stores content for a tenant's jobs, as an artifact. Their `files[].ref` can name it.
    ///
    /// # Errors
    /// The store fails.
    pub async fn keep(&self, tenant: &TenantName, bytes: Bytes) -> Result<ArtifactId, Error> {
        let id = ArtifactId::of(gather::sha256(bytes.clone()).await);
        self.put(tenant, id.as_str(), bytes).await?;
        Ok(id)
    }

    /// Reads an object of at most `room` bytes.
    ///
    /// # Errors
    /// The object does not exist, is larger, or the store fails.
    pub async fn get(&self, tenant: &TenantName, key: &str, room: u64) -> Result<Bytes, Error> {
        let path = self.path(tenant, key)?;
        let read = async {
            let found = self.0.store.get(&path).await?;
            if found.meta.size > room {
                return Err(Error::TooLarge { size: found.meta.size, room });
            }
            Ok(found.bytes().await?)
        };
        tokio::time::timeout(STORE_TIMEOUT, read).await.map_err(|_| Error::Late)?
    }

    /// Reads an artifact of any size in pieces. Returns its size in bytes, and the pieces.
    ///
    /// # Errors
    /// The artifact does not exist, or the store fails. Each piece can fail, too.
    pub async fn pieces(
        &self,
        tenant: &TenantName,
        id: &ArtifactId,
    ) -> Result<(u64, BoxStream<'static, Result<Bytes, Error>>), Error> {
        let path = self.path(tenant, id.as_str())?;
        let found = tokio::time::timeout(STORE_TIMEOUT, self.0.store.get(&path)).await.map_err(|_| Error::Late)??;
        Ok((found.meta.size, found.into_stream().map_err(Error::from).boxed()))
    }

    /// Reads these bytes of an object, which it must have, in pieces.
    ///
    /// # Errors
    /// As for [`Artifacts::pieces`].
    pub async fn part(
        &self,
        tenant: &TenantName,
        key: &str,
        part: std::ops::Range<u64>,
    ) -> Result<BoxStream<'static, Result<Bytes, Error>>, Error> {
        let path = self.path(tenant, key)?;
        // A store takes an empty range for an error.
        let range = (!part.is_empty()).then(|| part.clone().into());
        let asked = self.0.store.get_opts(&path, GetOptions { range, ..GetOptions::default() });
        let found = tokio::time::timeout(STORE_TIMEOUT, asked).await.map_err(|_| Error::Late)??;
        if part.is_empty() {
            return Ok(futures::stream::empty().boxed());
        }
        Ok(found.into_stream().map_err(Error::from).boxed())
    }

    /// A URL from which anybody can fetch an object, and the time until which it is valid. `None` if nothing serves the
    /// object.
    async fn url(&self, tenant: &TenantName, key: &str, name: &str) -> Result<Option<(String, SystemTime)>, Error> {
        let ttl = self.options().url_ttl.0;
        // In whole seconds, because these are signed.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let expires = Duration::from_secs((now + ttl).as_secs());
        let url = match &self.0.urls {
            Urls::Store(signer) => {
                let path = self.path(tenant, key)?;
                let as_named = SignedUrlOptions::new().with_query([
                    ("response-content-disposition", http::disposition(name)),
                    ("response-content-type", media_type(name)),
                ]);
                signer.signed_url_opts(Method::GET, &path, ttl, &as_named).await?
            }
            Urls::Own { base: None, .. } => return Ok(None),
            Urls::Own { key: secret, base: Some(base) } => secret.url(base, tenant, key, name, expires.as_secs()),
        };
        Ok(Some((url.into(), SystemTime::UNIX_EPOCH + expires)))
    }
}

impl std::fmt::Debug for Artifacts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Artifacts").field(&self.0.store.to_string()).finish()
    }
}

/// URL of a server that listens on this address. If it listens on all addresses: the address by which this machine
/// reaches others.
fn own_base(listen: SocketAddr) -> String {
    let outward = || {
        // This sends nothing: the kernel only chooses the route.
        let socket = std::net::UdpSocket::bind("0.0.0.0:0").ok()?;
        socket.connect("192.0.2.1:9").ok()?;
        Some(socket.local_addr().ok()?.ip())
    };
    let ip = match listen.ip() {
        ip if ip.is_unspecified() => outward().unwrap_or(Ipv4Addr::LOCALHOST.into()),
        ip => ip,
    };
    format!("http://{}", SocketAddr::new(ip, listen.port()))
}

/// The media type of a file, guessed from its name.
fn media_type(name: &str) -> String {
    mime_guess::from_path(name).first_or_octet_stream().to_string()
}

/// Makes a folder that nobody else on this machine can read.
fn make_folder(path: &std::path::Path) -> Result<(), Error> {
    use std::os::unix::fs::DirBuilderExt;
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|e| Error::Folder(path.to_owned(), e))
}

fn s3(url: &str, options: &ArtifactOptions) -> Result<object_store::aws::AmazonS3, Error> {
    // A process can install only one provider of TLS ciphers. Another part of it may have done so already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = AmazonS3Builder::from_env().with_url(url);
    for (name, value) in &options.s3 {
        let key: AmazonS3ConfigKey = name.parse().map_err(|_| Error::Option(name.clone()))?;
        builder = builder.with_config(key, value.expose());
    }
    Ok(builder.build()?)
}

#[cfg(test)]
mod tests;
