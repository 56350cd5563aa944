//! The chain of signatures. The issuer's key signs the first block. Each block names the key that signs the next one,
//! and the token ends with the private key that belongs to the last of these, or with a signature by it.

use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};

use crate::envelope::Envelope;
use crate::key::is_weak;
use crate::wire::{Biscuit, Last, NextKey, Proof, SignedBlock};
use crate::{Flaw, Malformed, PublicKey, Refused, Unwritten};

/// The number of Ed25519 in a token.
pub(crate) const ALGORITHM: i32 = 0;

/// The version of the signatures that this crate writes. It has names between the parts of what is signed, and the
/// signature of the block before. It reads those without a version, too, which have neither.
const VERSION: u32 = 1;

/// Checks what can be checked without the issuer's key.
pub(crate) fn check(token: &Biscuit) -> Result<(), Malformed> {
    for (number, block) in blocks(token).enumerate() {
        let flaw = |flaw| Malformed { block: Some(number), flaw };
        if block.external_signature.is_some() {
            return Err(flaw(Flaw::ThirdParty));
        }
        if block.next_key.algorithm != ALGORITHM {
            return Err(flaw(Flaw::Algorithm));
        }
        if block.next_key.key.len() != 32 {
            return Err(flaw(Flaw::Encoding("a key does not have 32 bytes".to_owned())));
        }
        if is_weak(&block.next_key.key) {
            return Err(flaw(Flaw::WeakKey));
        }
        if let Some(version) = block.version.filter(|version| *version != VERSION) {
            return Err(Flaw::Encoding(format!("its signatures have the version {version}")).into());
        }
    }
    match token.proof.content {
        Some(_) => Ok(()),
        None => Err(Flaw::Encoding("it does not end with a proof".to_owned()).into()),
    }
}

/// Checks every signature.
pub(crate) fn verify(envelope: &Envelope, root: &PublicKey) -> Result<(), Refused> {
    let mut key: &[u8] = &root.0;
    let mut before: Option<&SignedBlock> = None;
    for block in blocks(&envelope.token) {
        signed(key, &message(block, before), &block.signature)?;
        key = &block.next_key.key;
        before = Some(block);
    }
    match (&envelope.token.proof.content, before) {
        (Some(Last::NextSecret(secret)), Some(_)) => {
            Ed25519KeyPair::from_seed_and_public_key(secret, key).map(drop).map_err(|_| Refused::BadSignature)
        }
        (Some(Last::FinalSignature(signature)), Some(last)) => {
            let sealed = [message_without_version(last).as_slice(), &last.signature].concat();
            signed(key, &sealed, signature)
        }
        _ => Err(Refused::BadSignature),
    }
}

fn signed(key: &[u8], message: &[u8], signature: &[u8]) -> Result<(), Refused> {
    UnparsedPublicKey::new(&ED25519, key).verify(message, signature).map_err(|_| Refused::BadSignature)
}

/// A new token with one block.
pub(crate) fn begin(id: u32, key: &Ed25519KeyPair, block: Vec<u8>) -> Result<Biscuit, Unwritten> {
    let (authority, proof) = sign(key, block, None)?;
    Ok(Biscuit { root_key_id: Some(id), authority, blocks: Vec::new(), proof })
}

/// Adds a block to a token.
pub(crate) fn append(token: &mut Biscuit, block: Vec<u8>) -> Result<(), Unwritten> {
    let key = match &token.proof.content {
        Some(Last::NextSecret(secret)) => Ed25519KeyPair::from_seed_unchecked(secret),
        _ => return Err(Unwritten::Sealed),
    };
    let key = key.map_err(|_| Malformed::from(Flaw::Encoding("its proof is no key".to_owned())))?;
    let (block, proof) = sign(&key, block, Some(token.blocks.last().unwrap_or(&token.authority)))?;
    token.blocks.push(block);
    token.proof = proof;
    Ok(())
}

/// Signs a block, and makes the key for the next one.
fn sign(key: &Ed25519KeyPair, block: Vec<u8>, before: Option<&SignedBlock>) -> Result<(SignedBlock, Proof), Unwritten> {
    let secret = seed().ok_or(Unwritten::Random)?;
    let next = Ed25519KeyPair::from_seed_unchecked(&secret).map_err(|_| Unwritten::Random)?;
    let next_key = NextKey { algorithm: ALGORITHM, key: next.public_key().as_ref().to_vec() };
    let mut block =
        SignedBlock { block, next_key, signature: Vec::new(), external_signature: None, version: Some(VERSION) };
    block.signature = key.sign(&message(&block, before)).as_ref().to_vec();
    Ok((block, Proof { content: Some(Last::NextSecret(secret.to_vec())) }))
}

/// A new private key. `None` if the system has no random numbers.
pub(crate) fn seed() -> Option<[u8; 32]> {
    let mut seed = [0; 32];
    SystemRandom::new().fill(&mut seed).ok()?;
    Some(seed)
}

/// What is signed with a block.
fn message(block: &SignedBlock, before: Option<&SignedBlock>) -> Vec<u8> {
    let Some(version) = block.version else { return message_without_version(block) };
    let (version, algorithm) = (version.to_le_bytes(), block.next_key.algorithm.to_le_bytes());
    let parts: [&[u8]; 8] = [
        b"\0BLOCK\0\0VERSION\0",
        &version,
        b"\0PAYLOAD\0",
        &block.block,
        b"\0ALGORITHM\0",
        &algorithm,
        b"\0NEXTKEY\0",
        &block.next_key.key,
    ];
    let before = before.map(|before| [b"\0PREVSIG\0".as_slice(), &before.signature].concat());
    [parts.concat(), before.unwrap_or_default()].concat()
}

fn message_without_version(block: &SignedBlock) -> Vec<u8> {
    [block.block.as_slice(), &block.next_key.algorithm.to_le_bytes(), &block.next_key.key].concat()
}

/// The blocks, the issuer's first.
pub(crate) fn blocks(token: &Biscuit) -> impl Iterator<Item = &SignedBlock> {
    std::iter::once(&token.authority).chain(&token.blocks)
}
