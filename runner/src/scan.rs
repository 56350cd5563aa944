//! A cheap look at a program's imports, to choose the zygote it is forked from. A miss only means an import.

/// Whether the program seems to import one of these modules (or a submodule of one).
pub(crate) fn imports_any(code: &str, modules: &[String]) -> bool {
    !modules.is_empty() && statements(code).any(|s| imported(s).any(|name| modules.iter().any(|m| covers(m, name))))
}

/// Starts of statements: lines, and what follows a `;` or `:` on one.
fn statements(code: &str) -> impl Iterator<Item = &str> {
    code.lines().flat_map(|line| line.split([';', ':'])).map(str::trim_start)
}

/// Modules that an import statement names; nothing for any other.
fn imported(statement: &str) -> impl Iterator<Item = &str> {
    let (list, only_first) = match (statement.strip_prefix("import "), statement.strip_prefix("from ")) {
        (Some(rest), _) => (rest, false),
        (_, Some(rest)) => (rest, true),
        _ => ("", false),
    };
    list.split(',').take(if only_first { 1 } else { usize::MAX }).filter_map(|part| part.split_whitespace().next())
}

fn covers(module: &str, name: &str) -> bool {
    let top = |n: &str| n.split('.').next().map(str::to_owned);
    top(module) == top(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_are_seen_wherever_a_statement_starts() {
        let list = ["numpy".to_string(), "pandas".to_string()];
        for code in [
            "import numpy",
            "import os, pandas as pd",
            "from pandas import DataFrame",
            "x = 1; import numpy.linalg",
            "def f():\n    from numpy.linalg import svd",
            "try: import pandas\nexcept ImportError: pass",
        ] {
            assert!(imports_any(code, &list), "{code}");
        }
        for code in ["print('import numpy')", "import numpyro", "from os import numpy", "# import pandas", ""] {
            assert!(!imports_any(code, &list), "{code}");
        }
        assert!(!imports_any("import numpy", &[]));
    }
}
