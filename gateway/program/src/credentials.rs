//! The credentials of tenants for RabbitMQ: from the configuration, or from a folder of files.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use thermae_fleet::{Fleet, RemoteOptions};
use thermae_gateway::{Config, Fleets, Unopened};
use thermae_schemas::{TenantName, names};
use thermae_service::program::Settings as _;
use thermae_service::secret::Secret;
use thermae_service::tls::Tls;

/// Connects each tenant with its own credentials. There are no others, so the gateway can't act across tenants.
pub(crate) struct Credentials {
    /// The broker's URL, without a user.
    amqp: Secret,
    named: BTreeMap<TenantName, Secret>,
    folder: Option<PathBuf>,
    tls: Tls,
    timeout: Duration,
}

/// What of the configuration can't be used. It contains no secret.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unusable {
    #[error("`gateway.amqp` is not of the form amqp://HOST:PORT or amqps://HOST:PORT")]
    Url,
    #[error("`gateway.amqp` has a user: the gateway uses the tenants' own credentials only (`gateway.tenants`)")]
    User,
    #[error("`gateway.tenants.{0}`: {1}")]
    Tenant(TenantName, String),
    #[error("`gateway.tenants_folder`: {} is no folder", .0.display())]
    Folder(PathBuf),
    #[error("there are no credentials of tenants: set `gateway.tenants_folder` or `gateway.tenants`")]
    Nothing,
    #[error(transparent)]
    Tls(#[from] thermae_service::tls::Error),
}

impl Credentials {
    /// The credentials that a configuration names. They are checked as far as that goes without a connection.
    pub(crate) fn of(config: &Config) -> Result<Self, Unusable> {
        let own = &config.gateway;
        let this = Self {
            amqp: own.amqp.clone(),
            named: own.tenants.clone(),
            folder: own.tenants_folder.clone(),
            tls: config.tls(),
            timeout: own.connect_timeout.duration(),
        };
        match RemoteOptions::new(this.amqp.clone()).user() {
            Some(user) if user.is_empty() => {}
            Some(_) => return Err(Unusable::User),
            None => return Err(Unusable::Url),
        }
        this.tls.check()?;
        if let Some(folder) = this.folder.as_ref().filter(|folder| !folder.is_dir()) {
            return Err(Unusable::Folder(folder.clone()));
        }
        if this.folder.is_none() && this.named.is_empty() {
            return Err(Unusable::Nothing);
        }
        for (tenant, secret) in &this.named {
            this.options(tenant, secret).map_err(|why| Unusable::Tenant(tenant.clone(), why))?;
        }
        Ok(this)
    }

    /// The tenant's secret.
    fn secret(&self, tenant: &TenantName) -> Result<Secret, Unopened> {
        if let Some(secret) = self.named.get(tenant) {
            return Ok(secret.clone());
        }
        // A tenant's name has no dot and no slash, so it names a file of the folder itself.
        let path = self.folder.as_ref().ok_or(Unopened::NoCredentials)?.join(tenant.as_str());
        match path.try_exists() {
            Ok(false) => Err(Unopened::NoCredentials),
            _ => Secret::read(&path).map_err(|why| Unopened::Credentials(why.to_string())),
        }
    }

    /// How to connect as a tenant with this secret: a whole URL, or a password.
    fn options(&self, tenant: &TenantName, secret: &Secret) -> Result<RemoteOptions, String> {
        let (amqp, amqp_password) = if secret.expose().contains("://") {
            (secret.clone(), None)
        } else {
            let (scheme, rest) = self.amqp.expose().split_once("://").unwrap_or_default();
            (Secret::from(format!("{scheme}://{tenant}@{rest}")), Some(secret.clone()))
        };
        let (tls, tenant, connect_timeout) = (self.tls.clone(), tenant.as_str(), self.timeout);
        let options = RemoteOptions { amqp, amqp_password, tls, tenant: Some(tenant.to_owned()), connect_timeout };
        match options.user() {
            Some(user) if names::tenant_of(&user).is_some_and(|of| of.as_str() == tenant) => Ok(options),
            // Whoever else it is could act for others.
            Some(_) => Err("the user in the URL is not one of the tenant's".to_owned()),
            None => Err("it is neither a password nor of the form amqp://USER:PASSWORD@HOST:PORT".to_owned()),
        }
    }
}

#[async_trait]
impl Fleets for Credentials {
    async fn open(&self, tenant: &TenantName) -> Result<Arc<Fleet>, Unopened> {
        let secret = self.secret(tenant)?;
        let options = self.options(tenant, &secret).map_err(Unopened::Credentials)?;
        let fleet = Fleet::connect(options).await?;
        tracing::info!(%tenant, "connected to the fleet");
        Ok(Arc::new(fleet))
    }
}

#[cfg(test)]
mod tests {
    use thermae_gateway::Own;

    use super::*;

    fn tenant() -> TenantName {
        TenantName::new("acme").unwrap()
    }

    fn of(change: impl FnOnce(&mut Own)) -> Result<Credentials, Unusable> {
        let mut config = Config::default();
        config.gateway.tenants.insert(tenant(), "hunter2".into());
        change(&mut config.gateway);
        Credentials::of(&config)
    }

    #[test]
    fn a_tenant_connects_as_its_own_user_only() {
        let credentials = of(|own| own.amqp = "amqp://a,b:99/%2f".into()).unwrap();
        let options = |secret: &str| credentials.options(&tenant(), &secret.into());
        let by_password = options("hunter2").unwrap();
        assert_eq!(by_password.amqp.expose(), "amqp://acme@a,b:99/%2f");
        assert_eq!(by_password.amqp_password, Some("hunter2".into()));
        let by_url = options("amqps://acme.gateway:hunter2@elsewhere").unwrap();
        assert_eq!((by_url.host().as_str(), by_url.amqp_password), ("elsewhere:5671", None));
        assert_eq!(by_url.tenant.as_deref(), Some("acme"));
        for other in [
            "amqp://fleet:hunter2@h",
            "amqp://ACME:hunter2@h",
            "amqp://acmes:hunter2@h",
            "amqp://h",
            "http://acme:hunter2@h",
            "://",
        ] {
            let why = options(other).unwrap_err();
            assert!(!why.contains("hunter2"), "{why}");
        }
    }

    #[test]
    fn a_file_is_named_like_its_tenant() {
        let folder = tempfile::tempdir().unwrap();
        let credentials = of(|own| own.tenants_folder = Some(folder.path().to_owned())).unwrap();
        let secret = |name: &str| credentials.secret(&TenantName::new(name).unwrap());
        assert_eq!(secret("acme").unwrap(), "hunter2".into(), "the configuration comes first");
        assert!(matches!(secret("globex"), Err(Unopened::NoCredentials)));
        std::fs::write(folder.path().join("globex"), "first\n").unwrap();
        assert_eq!(secret("globex").unwrap(), "first".into());
        std::fs::write(folder.path().join("globex"), "second").unwrap();
        assert_eq!(secret("globex").unwrap(), "second".into(), "a file is read each time");
        std::fs::write(folder.path().join("globex"), "").unwrap();
        assert!(matches!(secret("globex"), Err(Unopened::Credentials(_))));
    }

    #[test]
    fn what_can_not_be_used_is_said_before_anybody_connects() {
        assert!(matches!(of(|own| own.amqp = "amqp://fleet:fleet@h".into()), Err(Unusable::User)));
        assert!(matches!(of(|own| own.amqp = "h:5672".into()), Err(Unusable::Url)));
        assert!(matches!(of(|own| own.tenants.clear()), Err(Unusable::Nothing)));
        assert!(matches!(of(|own| own.tenants_folder = Some("/nowhere".into())), Err(Unusable::Folder(_))));
        let other = |own: &mut Own| drop(own.tenants.insert(tenant(), "amqp://fleet:hunter2@h".into()));
        let error = of(other).err().unwrap();
        assert!(error.to_string().contains("gateway.tenants.acme") && !error.to_string().contains("hunter2"));
    }
}
