//! Environment variables.

use std::collections::BTreeMap;

/// Says which environment variable no process can have, in words for the client. `None` if all can be set.
///
/// The kernel hands variables over as texts `NAME=VALUE` that end with a null character.
pub fn env_trouble(env: &BTreeMap<String, String>) -> Option<String> {
    env.iter().find_map(|(name, value)| match () {
        () if name.is_empty() => Some("env: a name is empty".to_owned()),
        () if name.contains(['=', '\0']) => {
            Some(format!("env: the name {name:?} has an equals sign or a null character"))
        }
        () if value.contains('\0') => Some(format!("env: the value of {name:?} has a null character")),
        () => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_must_be_able_to_stand_in_an_environment() {
        let trouble = |name: &str, value: &str| env_trouble(&BTreeMap::from([(name.to_owned(), value.to_owned())]));
        for (name, value) in [("A", ""), ("a b", "c=d"), ("ä", "é\n")] {
            assert_eq!(trouble(name, value), None);
        }
        assert!(trouble("", "x").unwrap().contains("empty"));
        assert!(trouble("A=B", "x").unwrap().contains("equals sign"));
        assert!(trouble("A\0", "x").unwrap().contains("null character"));
        assert!(trouble("A", "x\0y").unwrap().contains("the value of \"A\""));
    }
}
