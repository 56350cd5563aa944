//! The arguments that every program has.

use std::ffi::OsString;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Config, Failure};

/// The arguments that every program has. A program adds `--listen`, whose default differs, and those of its own.
// Without a group: a program's own arguments are a group of that name, and a name stands for one.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub struct Args {
    /// Configuration file (TOML); by default, none is read.
    #[arg(long, value_name = "FILE", env = "THERMAE_CONFIG")]
    config: Option<OsString>,
    /// URL of RabbitMQ. Pass a URL with a password in THERMAE_AMQP, or in a file that THERMAE_AMQP_FILE names.
    #[arg(long, value_name = "URL")]
    amqp: Option<String>,
    /// URL of Redis. Pass a URL with a password in THERMAE_REDIS, or in a file that THERMAE_REDIS_FILE names.
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
}

impl Args {
    /// Reads the configuration from its defaults, the file, the environment and the flags, and checks it. `own` holds
    /// the values of the program's own flags, by the path of their key. `check` checks the program's own part.
    ///
    /// # Errors
    /// [`Failure::usage`]: a key is unknown, or a value can't be used. The message names the key.
    pub fn load<const PORT: u16, T, E>(
        self,
        own: impl IntoIterator<Item = (&'static str, Value)>,
        check: impl FnOnce(&T) -> Result<(), E>,
    ) -> Result<Config<PORT, T>, Failure>
    where
        T: DeserializeOwned + JsonSchema,
        E: Into<anyhow::Error>,
    {
        let common = [("amqp", json!(self.amqp)), ("redis", json!(self.redis))];
        let flags = common.into_iter().chain(own).map(|(key, value)| (key.to_owned(), value)).collect();
        // An empty variable counts as not set.
        let file = self.config.filter(|path| !path.is_empty()).map(PathBuf::from);
        let config = Config::load(file.as_deref(), flags).map_err(Failure::usage)?;
        check(&config.own).map_err(Failure::usage)?;
        config.common.tls().check().map_err(Failure::usage)?;
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, Command, FromArgMatches as _};

    use super::*;

    #[test]
    fn one_variable_names_the_configuration_file_of_every_program() {
        let command = Args::augment_args(Command::new("thermae-test"));
        let config = command.get_arguments().find(|argument| argument.get_id() == "config");
        assert_eq!(config.and_then(|config| config.get_env()), Some("THERMAE_CONFIG".as_ref()));
        // An empty value is not an error.
        let matches = command.get_matches_from(["thermae-test", "--config", ""]);
        assert_eq!(Args::from_arg_matches(&matches).unwrap().config, Some(OsString::new()));
    }
}
