//! The document in `schemas/` is that of the types. `THERMAE_BLESS=1 cargo test -p thermae-gateway` writes it again.

use std::path::Path;

#[test]
fn the_openapi_document_is_that_of_the_types() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../schemas/openapi.json");
    let want = serde_json::to_string_pretty(thermae_gateway::openapi::document()).unwrap() + "\n";
    if std::env::var_os("THERMAE_BLESS").is_some() {
        std::fs::write(&file, &want).unwrap();
    }
    let have = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(have == want, "{} is out of date: THERMAE_BLESS=1 cargo test -p thermae-gateway", file.display());
}
