//! The generated files match the types. `THERMAE_BLESS=1 cargo test -p thermae-schemas` writes them again.

use std::fs;
use std::path::Path;

use thermae_schemas::generate;

fn check(file: &Path, want: &str) {
    if std::env::var_os("THERMAE_BLESS").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, want).unwrap();
    }
    let have = fs::read_to_string(file).unwrap_or_default();
    assert!(have == want, "{} is out of date: THERMAE_BLESS=1 cargo test -p thermae-schemas", file.display());
}

fn pretty(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap() + "\n"
}

#[test]
fn json_schema_files_are_those_of_the_types() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("json");
    for (name, schema) in generate::schemas() {
        check(&dir.join(name).with_extension("json"), &pretty(&schema));
    }
}

#[test]
fn asyncapi_document_is_that_of_the_types() {
    check(&Path::new(env!("CARGO_MANIFEST_DIR")).join("asyncapi.json"), &pretty(&generate::asyncapi()));
}
