//! SPDX expressions, as far as packages use them: `MIT OR Apache-2.0`, brackets, `AND`, `WITH`, and the old slash for
//! `OR`.

use std::collections::BTreeSet;

/// Whether an expression can be satisfied with allowed licences only; false if it can't be read.
pub(crate) fn satisfied(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut reader = Reader { words: &words, at: 0, allowed };
    reader.any().is_some_and(|yes| yes && reader.at == words.len())
}

struct Reader<'a> {
    words: &'a [&'a str],
    at: usize,
    allowed: &'a BTreeSet<String>,
}

impl Reader<'_> {
    fn next_is(&mut self, word: &str) -> bool {
        let found = self.words.get(self.at).is_some_and(|next| *next == word);
        self.at += usize::from(found);
        found
    }

    /// `all (OR all)*`; `None` if the expression can't be read.
    fn any(&mut self) -> Option<bool> {
        let mut yes = self.all()?;
        while self.next_is("OR") {
            yes |= self.all()?;
        }
        Some(yes)
    }

    /// `one (AND one)*`; AND binds closer than OR.
    fn all(&mut self) -> Option<bool> {
        let mut yes = self.one()?;
        while self.next_is("AND") {
            yes &= self.one()?;
        }
        Some(yes)
    }

    fn one(&mut self) -> Option<bool> {
        if self.next_is("(") {
            let yes = self.any()?;
            return self.next_is(")").then_some(yes);
        }
        let name = *self.words.get(self.at)?;
        if matches!(name, ")" | "OR" | "AND" | "WITH") {
            return None;
        }
        self.at += 1;
        if self.next_is("WITH") {
            let exception = *self.words.get(self.at)?;
            self.at += 1;
            return Some(self.allowed.contains(&format!("{name} WITH {exception}")));
        }
        Some(self.allowed.contains(name))
    }
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
        ] {
            assert!(!satisfied(no, &allowed), "{no}");
        }
    }
}
