//! Where artifacts are stored, and how many of them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thermae_runner::frames;
use thermae_service::secret::Secret;
use thermae_service::units::{ByteSize, Millis};

/// Where artifacts are stored and how they are handed out.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ArtifactOptions {
    /// `file:///folder`, shared by the workers where there are several, or `s3://bucket/prefix`. Where it is missing, a temporary folder
    /// of this worker's own, which goes with it. Nothing is ever deleted from a store that is named here: give the bucket a lifecycle
    /// rule, or the folder a clean-up by age.
    pub store: Option<String>,
    /// Options of an S3 store, by the names that `AWS_…` variables of the environment have after their prefix, in small letters:
    /// `region`, `endpoint`, `allow_http`, `access_key_id`, … The variables themselves are read, too, and these win. Each may be
    /// given as a file, `secret_access_key_file` say.
    #[schemars(extend("x-own-files" = [
        "web_identity_token_file",
        "aws_web_identity_token_file",
        "container_authorization_token_file",
        "aws_container_authorization_token_file",
    ]))]
    pub s3: BTreeMap<String, Secret>,
    /// How long a signed URL may be used.
    pub url_ttl: Millis,
    /// Where clients reach this worker's server, as `http://host:port`, for URLs of a folder; its own address where it is missing (`listen`; the one by which
    /// it reaches others where that is `0.0.0.0`). URLs
    /// of an S3 store are the store's.
    pub url_base: Option<String>,
    /// How long what is stored stays, of jobs and of clients: what is older is removed from `store`, and no `ref` leads
    /// there any more. At least `url_ttl` and `record_ttl`. For ever where it is missing. (Outcomes and lists of
    /// sessions' files go after `record_ttl` in any case.)
    pub keep: Option<Millis>,
    /// Signs the URLs of a folder; the same for all workers that share it. A random one of this worker's own where it is missing, so that
    /// URLs end with it.
    pub signing_key: Option<Secret>,
    /// Content that one outcome may hold itself, where its job asks for that: all of its artifacts together.
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
            signing_key: None,
            inline_up_to: ByteSize::mib(1),
        }
    }
}

/// How much is collected of what one run leaves. A worker holds that many bytes in memory for each running job at most.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ArtifactLimits {
    /// Files; 0 collects none.
    pub max_files: u32,
    /// Bytes, all files together.
    pub max_bytes: ByteSize,
}

impl Default for ArtifactLimits {
    fn default() -> Self {
        Self { max_files: 256, max_bytes: ByteSize::mib(64) }
    }
}

impl ArtifactLimits {
    /// As the runner holds them.
    pub(crate) fn for_runner(&self) -> frames::ArtifactLimits {
        let default = frames::ArtifactLimits::default();
        frames::ArtifactLimits {
            files: self.max_files,
            bytes: self.max_bytes.0,
            // Names that turn out to be no files cost time as well.
            entries: default.entries.max(self.max_files.saturating_mul(2)),
            ..default
        }
    }
}
