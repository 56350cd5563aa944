//! `thermae-token`: makes, narrows, checks and revokes capability tokens. Everything that it does is in the crate
//! `thermae-tokens`.
//!
//! Exit status: 0 if it is done, 1 if the token gives no rights, 2 after any other error.

#![forbid(unsafe_code)]

mod args;
mod error;
mod files;

use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use clap::Parser as _;
use serde_json::{Value, json};
use thermae_tokens::{
    CallLimit, Grant, Issuer, Narrowing, PublicKeys, RevocationList, SecretKey, TokenId, Verified, Verifier, attenuate,
    revocation_ids,
};

use args::{Cli, Command, Keygen, Mint, Narrow, Revoke, Show};
use error::Error;

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Keygen(args) => keygen(&args),
        Command::Mint(args) => mint(args),
        Command::Narrow(args) => narrow(&args),
        Command::Show(args) => show(&args),
        Command::Revoke(args) => revoke(&args),
    };
    // `writeln!` and not `println!`: a reader that is gone is an error like others.
    let done = done.and_then(|text| writeln!(std::io::stdout(), "{text}").map_err(Error::Output));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("thermae-token: {error}");
            ExitCode::from(error.status())
        }
    }
}

fn keygen(args: &Keygen) -> Result<String, Error> {
    let key = SecretKey::generate()?;
    key.write_new(&args.key)?;
    // Whoever may write there decides whose tokens count.
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o755).create(&args.keys);
    made.map_err(Error::file(&args.keys))?;
    let public = args.keys.join(format!("{}.pem", args.id));
    key.public().write_new(&public).inspect_err(|_| {
        // A key that no verifier knows is of no use. It was made just now, so that nobody has it yet.
        let _ = std::fs::remove_file(&args.key);
    })?;
    Ok(format!("The private key is {}, the public key {}.", args.key.display(), public.display()))
}

fn mint(args: Mint) -> Result<String, Error> {
    let grant = Grant {
        id: args.token_id.unwrap_or_else(TokenId::random),
        tenant: args.tenant,
        answers: args.answers,
        not_before: None,
        expires: end(args.expires_in)?,
        set: files::capabilities(&args.capabilities)?,
        calls: args.calls,
    };
    let token = Issuer::new(args.id, SecretKey::read(&args.key)?).mint(&grant)?;
    Ok(token.into())
}

fn narrow(args: &Narrow) -> Result<String, Error> {
    let narrowing = Narrowing {
        set: args.capabilities.as_deref().map(files::capabilities).transpose()?,
        expires: args.expires_in.map(end).transpose()?,
        calls: args.calls,
    };
    Ok(attenuate(&files::token(&args.token)?, &narrowing)?.into())
}

fn show(args: &Show) -> Result<String, Error> {
    let revoked = args.revoked.as_deref().map(files::revoked).transpose()?.unwrap_or_default();
    let verifier = Verifier::new(PublicKeys::read(&args.keys)?, RevocationList::read(&revoked)?);
    let verified = verifier.verify(&files::token(&args.token)?, &args.tenant, SystemTime::now())?;
    Ok(format!("{:#}", said(&verified)))
}

/// What a token says, for people and programs.
fn said(token: &Verified) -> Value {
    let limits: Vec<_> = token.calls.iter().map(|CallLimit { most, .. }| most.get()).collect();
    json!({
        "id": token.id.as_str(),
        "tenant": token.tenant.as_str(),
        "answers": token.answers.as_ref().map(|client| client.as_str()),
        "expires": humantime::format_rfc3339_seconds(token.expires).to_string(),
        "capabilities": token.rules.sets(),
        "calls": limits,
        "revocation_ids": token.blocks.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

fn revoke(args: &Revoke) -> Result<String, Error> {
    let ids = revocation_ids(&files::token(&args.token)?)?;
    let id = ids.last().ok_or(Error::Empty)?;
    let before = files::revoked_if_any(&args.revoked)?;
    // A list that can't be read must not grow: verifiers refuse it as a whole.
    if !RevocationList::read(&before)?.has(id) {
        files::append(&args.revoked, &before, &id.to_string())?;
    }
    Ok(format!("{id} is revoked in {}.", args.revoked.display()))
}

fn end(after: Duration) -> Result<SystemTime, Error> {
    SystemTime::now().checked_add(after).ok_or(Error::Time)
}
