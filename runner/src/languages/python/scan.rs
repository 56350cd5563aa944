//! Guesses a program's imports from its text, to choose the zygote that it is forked from. This must be cheap and may
//! be wrong: if an import is missed, the program imports the module itself.

/// Modules of the standard library that programs often import and that take about a millisecond or more to import into
/// a process of the bare zygote (Python 3.11, 2 cores of a virtual machine). `asyncio` alone is half of their memory.
pub(crate) const COMMON: [&str; 23] = [
    "ast",
    "asyncio",
    "calendar",
    "concurrent.futures",
    "copy",
    "csv",
    "dataclasses",
    "datetime",
    "decimal",
    "fractions",
    "hashlib",
    "inspect",
    "logging",
    "pathlib",
    "random",
    "shutil",
    "socket",
    "statistics",
    "subprocess",
    "tempfile",
    "typing",
    "urllib.parse",
    "uuid",
];

/// Whether the program seems to need modules of [`COMMON`]. One that awaits needs `asyncio`, even if it doesn't import
/// it.
pub(crate) fn wants_common(code: &str) -> bool {
    code.contains("await ") || code.contains("async ") || imports_any(code, &COMMON)
}

/// Whether the program seems to import one of these modules (or a submodule of one).
pub(crate) fn imports_any<S: AsRef<str>>(code: &str, modules: &[S]) -> bool {
    let covered = |name| modules.iter().any(|m| covers(m.as_ref(), name));
    !modules.is_empty() && statements(code).any(|s| imported(s).any(covered))
}

/// The parts of a program that may be statements: lines, and what follows a `;` or `:` on a line.
fn statements(code: &str) -> impl Iterator<Item = &str> {
    code.lines().flat_map(|line| line.split([';', ':'])).map(str::trim_start)
}

/// The modules that a statement imports; nothing if it is no import.
fn imported(statement: &str) -> impl Iterator<Item = &str> {
    let (list, only_first) = match (statement.strip_prefix("import "), statement.strip_prefix("from ")) {
        (Some(rest), _) => (rest, false),
        (_, Some(rest)) => (rest, true),
        _ => ("", false),
    };
    list.split(',').take(if only_first { 1 } else { usize::MAX }).filter_map(|part| part.split_whitespace().next())
}

fn covers(module: &str, name: &str) -> bool {
    module.split('.').next() == name.split('.').next()
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
        assert!(!imports_any("import numpy", &[] as &[&str]));
    }

    #[test]
    fn programs_that_await_want_the_common_modules() {
        for code in ["import random", "from urllib.request import urlopen", "x = await f()", "async def f(): ..."] {
            assert!(wants_common(code), "{code}");
        }
        for code in ["print(1 + 1)", "import json, re", "import os.path"] {
            assert!(!wants_common(code), "{code}");
        }
    }
}
