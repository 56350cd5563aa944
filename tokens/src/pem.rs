//! Keys as text: PEM with one section and nothing else.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The bytes of a text with this label. `None` if it is anything else.
pub(crate) fn read(label: &str, text: &str) -> Option<Vec<u8>> {
    let text = text.trim().strip_prefix(&format!("-----BEGIN {label}-----"))?;
    let text = text.strip_suffix(&format!("-----END {label}-----"))?;
    STANDARD.decode(text.split_ascii_whitespace().collect::<String>()).ok()
}

/// The text of these bytes, in lines of 64 characters.
pub(crate) fn write(label: &str, bytes: &[u8]) -> String {
    let text = STANDARD.encode(bytes);
    let mut rest = text.as_str();
    let mut lines = String::new();
    while !rest.is_empty() {
        let (line, more) = rest.split_at(rest.len().min(64));
        lines.push_str(line);
        lines.push('\n');
        rest = more;
    }
    format!("-----BEGIN {label}-----\n{lines}-----END {label}-----\n")
}
