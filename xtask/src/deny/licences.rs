//! SPDX expressions, as far as packages use them: `MIT OR Apache-2.0`, brackets, `AND`, `WITH`, and the old slash for
//! `OR`.

use std::collections::BTreeSet;

/// Whether an expression can be satisfied with allowed licences only; false if it can't be read.
pub(super) fn satisfied(expression: &str, allowed: &BTreeSet<String>) -> bool {
    // Brackets that can be satisfied are replaced by an allowed licence, and others by a word that is no licence.
    if let Some((before, rest)) = expression.rsplit_once('(')
        && let Some((inside, after)) = rest.split_once(')')
    {
        let stand_in = allowed.first().filter(|_| satisfied(inside, allowed)).map_or("none", String::as_str);
        return satisfied(&format!("{before} {stand_in} {after}"), allowed);
    }
    // `AND` binds closer than `OR`.
    let mut any = expression.split('/').flat_map(|part| part.split(" OR "));
    any.any(|all| all.split(" AND ").all(|one| allowed.contains(one.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_read_as_spdx_says() {
        let allowed =
            BTreeSet::from(["MIT", "Apache-2.0", "Unicode-3.0", "Apache-2.0 WITH LLVM-exception"].map(String::from));
        for yes in [
            "MIT",
            "GPL-3.0 OR MIT",
            "MIT/Apache-2.0",
            "Apache-2.0 / MIT",
            "(MIT OR GPL-3.0) AND Unicode-3.0",
            "GPL-3.0 AND MIT OR Apache-2.0",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert!(satisfied(yes, &allowed), "{yes}");
        }
        for no in [
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "(MIT OR GPL-3.0) AND ISC",
            "GPL-3.0 WITH GCC-exception",
            "",
            "MIT OR",
            "(MIT",
            "MIT )",
            "MIT (GPL-3.0)",
        ] {
            assert!(!satisfied(no, &allowed), "{no}");
        }
    }
}
