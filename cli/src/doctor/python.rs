//! Checks the interpreter that native sandboxes would use, and its packages.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use thermae_runner::outer::Spec;

use super::Check;

/// Finds versions without importing the packages.
const ASK: &str = "
import importlib.metadata, importlib.util, json, sys
packages = {}
for name in ('numpy', 'pandas', 'matplotlib'):
    if importlib.util.find_spec(name):
        try: packages[name] = importlib.metadata.version(name)
        except Exception: packages[name] = '?'
print(json.dumps({'version': list(sys.version_info[:3]), 'packages': packages}))
";

pub(super) fn checks(asked: Option<&Path>) -> Vec<Check> {
    let spec = match Spec::for_python(asked) {
        Ok(spec) => spec,
        Err(error) => {
            return vec![Check::fail(
                "python",
                error.to_string(),
                "Programs are in Python, and native sandboxes use this machine's interpreter.",
                "install Python (apt install python3), or name an interpreter: --python PATH",
            )];
        }
    };
    let output =
        Command::new(&spec.interpreter).args(["-I", "-c", ASK]).stdin(Stdio::null()).stderr(Stdio::null()).output();
    let answer: Option<Value> = output.ok().and_then(|output| serde_json::from_slice(&output.stdout).ok());
    let Some(answer) = answer else {
        return vec![Check::fail(
            "python",
            format!("{} does not run", spec.interpreter),
            "Programs are in Python, and native sandboxes use this machine's interpreter.",
            "name another interpreter: --python PATH",
        )];
    };
    let version: Vec<u64> = answer["version"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
    let text = version.iter().map(u64::to_string).collect::<Vec<_>>().join(".");
    let found = format!("{text} at {}", spec.interpreter);
    let python = if version >= vec![3, 9] {
        Check::ok("python", found)
    } else {
        Check::fail("python", found, "Sandboxes need Python 3.9 or newer.", "name a newer interpreter: --python PATH")
    };
    vec![python, packages(&answer["packages"])]
}

fn packages(packages: &Value) -> Check {
    let name = "packages";
    let has: Vec<String> = packages
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, version)| format!("{name} {}", version.as_str().unwrap_or("?")))
        .collect();
    let missing: Vec<&str> = ["numpy", "pandas"].into_iter().filter(|name| packages[name].is_null()).collect();
    let found = if has.is_empty() { "none of numpy, pandas, matplotlib".to_owned() } else { has.join(", ") };
    if missing.is_empty() {
        return Check::ok(name, found);
    }
    let fix = format!(
        "create a virtualenv, and activate it or name its Python with --python:\npython3 -m venv .venv && .venv/bin/pip install {}",
        missing.join(" ")
    );
    Check::warn(name, found, "Programs that import a missing package fail. All others run.", fix)
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;

    #[test]
    fn an_interpreter_that_is_none_is_a_failure() {
        let checks = checks(Some(Path::new("/nonexistent/python3")));
        assert_eq!((checks.len(), checks[0].state), (1, State::Fail));
    }

    #[test]
    fn missing_packages_are_named() {
        let check = packages(&serde_json::json!({ "numpy": "2.0" }));
        assert_eq!((check.state, check.found.as_str()), (State::Warn, "numpy 2.0"));
        assert!(check.fix.ends_with("pip install pandas"));
    }
}
