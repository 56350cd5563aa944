//! `thermae serve`: an HTTP gateway in front of a fleet.

use std::sync::Arc;

use thermae_fleet::Fleet;
use thermae_gateway::{Error, Gateway, Options, Token, Tokens};
use thermae_service::secret::Secret;
use thermae_tokens::{SKEW, Trust};
use tokio_util::sync::CancellationToken;

use crate::args::ServeArgs;
use crate::failure::{Exit, Failure, chain};
use crate::fleet;
use crate::run::limits;
use crate::style;

/// Serves until interrupted.
///
/// # Errors
/// The token or the address can't be used, or the fleet can't be reached or can't run anything.
pub(crate) async fn serve(args: &ServeArgs, interrupt: &CancellationToken) -> Result<Exit, Failure> {
    let (text, is_new) = token(args)?;
    let token = Token::new(&text).map_err(|why| Failure::usage("bad_token", why))?;
    let limits = limits(&args.limits)?;
    let embedded = fleet::serving(&args.fleet, &args.embedded, &limits, args.slots)?;
    let on = if args.fleet.is_remote() {
        "a fleet".to_owned()
    } else {
        format!("the embedded fleet ({} slots)", embedded.pool().slots())
    };
    let fleet = Arc::new(fleet::open(&args.fleet, embedded, interrupt).await?);
    let served = listen(args, token, &fleet).await;
    let served = match served {
        Ok(gateway) => {
            style::say(&greeting(&gateway, &on, is_new.then_some(&text)));
            if !gateway.addr().ip().is_loopback() {
                style::warn(
                    "the gateway can be reached from other machines, and HTTP is not encrypted",
                    "put a proxy that speaks TLS in front of it, or listen on 127.0.0.1",
                );
            }
            run(gateway, &fleet, interrupt).await
        }
        Err(failure) => Err(failure),
    };
    if let Some(fleet) = Arc::into_inner(fleet) {
        fleet.close().await;
    }
    served
}

/// The token, and whether it is a new one.
fn token(args: &ServeArgs) -> Result<(Secret, bool), Failure> {
    match (args.token(), args.token_file()) {
        (Some(token), _) => {
            if std::env::args_os().any(|argument| argument.to_string_lossy().contains(token.expose())) {
                style::warn(
                    "every user of this machine can read the token among the arguments of this process",
                    "set THERMAE_TOKEN in the environment, or name a file that holds the token with --token-file",
                );
            }
            Ok((token.clone(), false))
        }
        (None, Some(path)) => {
            Secret::read(&path).map(|token| (token, false)).map_err(|why| Failure::usage("bad_token", why))
        }
        (None, None) => Ok((Token::random(), true)),
    }
}

async fn listen(args: &ServeArgs, token: Token, fleet: &Arc<Fleet>) -> Result<Gateway, Failure> {
    let embedded = &args.embedded;
    let skew = embedded.token_skew.map_or(SKEW, |skew| skew.duration());
    let trust =
        embedded.token_keys.clone().map(|keys| Arc::new(Trust::new(keys, embedded.token_revoked.clone(), skew)));
    let tokens = Tokens { trust, ..Tokens::default() };
    let options = Options { listen: args.listen, tokens, ..Options::default() };
    Gateway::bind(options, token, fleet.clone()).await.map_err(|error| match error {
        Error::Bind { .. } => Failure::usage("bad_listen", chain(&error))
            .help("another process may use the port: choose another one with --listen 127.0.0.1:PORT"),
        error => Failure::fleet("internal", chain(&error)),
    })
}

async fn run(gateway: Gateway, fleet: &Fleet, interrupt: &CancellationToken) -> Result<Exit, Failure> {
    let stop = interrupt.child_token();
    let serving = gateway.run(stop.clone());
    tokio::pin!(serving);
    tokio::select! {
        () = &mut serving => Ok(Exit::Success),
        why = fleet.unfit() => {
            stop.cancel();
            serving.await;
            Err(fleet::unfit(why))
        }
    }
}

/// What to know to use the gateway.
fn greeting(gateway: &Gateway, on: &str, token: Option<&Secret>) -> String {
    let url = format!("http://{}", gateway.addr());
    let token = token.map_or_else(String::new, |token| format!("export THERMAE_TOKEN={}\n", token.expose()));
    let ask = format!("curl '{url}/v1/runs?wait=30s' -H \"Authorization: Bearer $THERMAE_TOKEN\"");
    let job = r#"{"code": "print(6 * 7)"}"#;
    format!("Serving {on} at {url}. Try it in another terminal:\n\n{token}{ask} --json '{job}'\n\n")
}
