//! Where artifacts are stored, and how many of them are collected.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thermae_runner::frames;
use thermae_service::secret::Secret;
use thermae_service::units::{ByteSize, Millis};

/// Where artifacts are stored, and how clients get them.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ArtifactOptions {
    /// Where artifacts are stored, and also large outcomes (`outcome_inline_bytes`): `file:///folder` (a folder that
    /// all workers share) or `s3://bucket/prefix`. By default, artifacts are in a temporary folder of this worker,
    /// which is deleted when the worker ends. In a store that is named here, artifacts stay until `keep` has passed; if
    /// `keep` is not set, they are never deleted.
    pub store: Option<String>,
    /// Options of an S3 store, named like the environment variables `AWS_…` without that prefix, in small letters:
    /// `region`, `endpoint`, `allow_http`, `access_key_id` and so on. The variables are read, too, but these options
    /// override them. You can give each option as a file, for example `secret_access_key_file`.
    #[schemars(extend("x-own-files" = [
        "web_identity_token_file",
        "aws_web_identity_token_file",
        "container_authorization_token_file",
        "aws_container_authorization_token_file",
    ]))]
    pub s3: BTreeMap<String, Secret>,
    /// How long a signed URL is valid.
    pub url_ttl: Millis,
    /// Address at which clients reach this worker's server, as `http://host:port`, for the URLs of a folder. By
    /// default, the address of `listen`, or, if that is `0.0.0.0`, the address by which this machine reaches others.
    /// The URLs of an S3 store lead to the store.
    pub url_base: Option<String>,
    /// How long artifacts, and files that clients stored, stay in `store` after they were last stored. After that, they
    /// are deleted, and jobs can't name them by `ref` any more. At least `url_ttl` and `record_ttl`. By default, they
    /// are never deleted. Outcomes are always deleted after `record_ttl`, and after 24 hours at the earliest.
    pub keep: Option<Millis>,
    /// How long the checkpoint of a session is kept, if the session asks for no other time.
    pub checkpoint_ttl: Millis,
    /// The longest time that a session can ask for (`limit_too_high`).
    pub checkpoint_ttl_max: Millis,
    /// Key that signs the URLs of a folder. All workers that share the folder need the same key. By default, a random
    /// key of this worker, so that its URLs become invalid when it ends.
    pub signing_key: Option<Secret>,
    /// Largest total size of the artifacts whose content one outcome contains, if its job asks for that
    /// (`artifacts.inline`).
    pub inline_up_to: ByteSize,
}

impl Default for ArtifactOptions {
    fn default() -> Self {
        Self {
            store: None,
            s3: BTreeMap::new(),
            url_ttl: Millis::from_secs(3600),
            url_base: None,
            keep: None,
            checkpoint_ttl: Millis(thermae_backplane::registry::SESSION_TTL),
            checkpoint_ttl_max: Millis::from_secs(30 * 24 * 3600),
            signing_key: None,
            inline_up_to: ByteSize::mib(1),
        }
    }
}

/// Bounds on the artifacts that are collected from one run. A worker holds at most this many bytes in memory for each
/// running job.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ArtifactLimits {
    /// Largest number of artifacts that are collected from one job. 0 collects none. The outcome lists what was left
    /// out.
    pub max_files: u32,
    /// Largest total size of the artifacts that are collected from one job. The outcome lists what was left out.
    pub max_bytes: ByteSize,
}

impl Default for ArtifactLimits {
    fn default() -> Self {
        Self { max_files: 256, max_bytes: ByteSize::mib(64) }
    }
}

impl ArtifactLimits {
    /// The same bounds, as the runner enforces them.
    pub(crate) fn for_runner(&self) -> frames::ArtifactLimits {
        let default = frames::ArtifactLimits::default();
        frames::ArtifactLimits {
            files: self.max_files,
            bytes: self.max_bytes.0,
            // Names that are not files take time, too.
            entries: default.entries.max(self.max_files.saturating_mul(2)),
            ..default
        }
    }
}
