//! The sheet of an attack: what its file says about it, as TOML in the docstring at the top.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use thermae_schemas::{ErrorCode, LimitRequest, Status, ToolSpec};

use crate::machine::Setting;

/// Key in [`Sheet::held`] and [`Sheet::open`] that stands for every name that isn't listed.
pub const ANY_NAME: &str = "*";

/// What an attack tries, and how it must end.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sheet {
    /// What the attack tries.
    pub tries: String,
    /// What an attacker would win.
    pub wins: String,
    /// The guard that stops the attack.
    pub guard: String,
    /// What must be found, by the names of the observations. Any other observation is a problem.
    #[serde(default)]
    pub held: Findings,
    /// What the control must find. Other observations of the control are ignored.
    #[serde(default)]
    pub open: Findings,
    /// A setting that the machine must have during the attack.
    #[serde(default)]
    pub machine: Option<Setting>,
    /// How the program is run with the guard off; `None` if it has no control.
    #[serde(default)]
    pub control: Option<Control>,
    /// Why there is no control. A sheet has either this or `control`.
    #[serde(default)]
    pub uncontrolled: Option<String>,
    /// Limits that the jobs ask for.
    #[serde(default)]
    pub limits: LimitRequest,
    /// Tools that the attacking jobs may call. [`crate::tools`] answers them.
    #[serde(default)]
    pub tools: Vec<ToolSpec>,
    /// How the first job must end.
    #[serde(default)]
    pub outcome: Ending,
    /// Whether the attack takes seconds. `--quick` skips it.
    #[serde(default)]
    pub slow: bool,
    /// Whether an honest job must afterwards find the container as it was: the same one, clean, and about as fast. On
    /// gVisor, which has a container for each job, it must only find a clean one.
    #[serde(default)]
    pub aftermath: bool,
    /// What differs in Docker's containers.
    #[serde(default)]
    pub docker: Difference,
    /// What differs in native containers of an ordinary user.
    #[serde(default)]
    pub rootless: Difference,
    /// What differs if the outer runtime is gVisor's.
    #[serde(default)]
    pub runsc: Difference,
    /// What differs if a program in bash starts the attack.
    #[serde(default)]
    pub bash: Difference,
    /// Whether the jobs run in one session.
    #[serde(default)]
    pub session: bool,
}

impl Sheet {
    /// Reads a sheet, which is TOML.
    ///
    /// # Errors
    /// If it is not TOML, or lacks what a sheet must have.
    pub fn read(text: &str) -> anyhow::Result<Self> {
        let table: toml::Table = toml::from_str(text)?;
        // Schemas of tools are texts of JSON, so only a reader of JSON can take them. Tables keep their order.
        Ok(serde_json::from_str(&serde_json::to_string(&table)?)?)
    }
}

/// Expected observations, by name.
pub type Findings = BTreeMap<String, Expected>;

/// What differs on one backend, or in bash. A comment in the sheet says why.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// Why the attack is not run there; `None` if it is.
    #[serde(default)]
    pub skip: Option<String>,
    /// Replaces the entries of [`Sheet::held`] with the same names.
    #[serde(default)]
    pub held: Findings,
    /// Replaces all of [`Sheet::held`].
    #[serde(default)]
    pub instead: Option<Findings>,
    /// Replaces [`Sheet::outcome`].
    #[serde(default)]
    pub outcome: Option<Ending>,
}

/// How a program is run without a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Control {
    /// How the jobs are run.
    #[serde(default)]
    pub mode: Mode,
    /// Command line that the program is run with, such as `unshare --net`, if it would otherwise harm the machine.
    #[serde(default)]
    pub within: Vec<String>,
}

/// How a control runs the jobs of an attack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Each job runs in a process of its own.
    #[default]
    Apart,
    /// Each job runs in a bare fork of one warm interpreter.
    Fork,
    /// All jobs run in one interpreter.
    Same,
}

/// How a job must end. `None` means that anything will do.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ending {
    /// The outcome's status.
    pub status: Status,
    /// The code of its error.
    pub error: Option<ErrorCode>,
    /// Words in the message of its error.
    pub message: Option<String>,
    /// Number of its tool calls that reach the client.
    pub calls: Option<usize>,
    /// Most bytes that its outcome may have as JSON.
    pub bytes: Option<usize>,
    /// Its exact standard output.
    pub stdout: Option<String>,
    /// All its artifacts: path and content.
    pub artifacts: Option<BTreeMap<String, String>>,
    /// All files that were left out of its artifacts: path and reason.
    pub left_out: Option<BTreeMap<String, String>>,
}

impl Default for Ending {
    fn default() -> Self {
        Self {
            status: Status::Succeeded,
            error: None,
            message: None,
            calls: None,
            bytes: None,
            stdout: None,
            artifacts: None,
            left_out: None,
        }
    }
}

/// What an observation must be.
#[derive(Debug, Clone, PartialEq)]
pub enum Expected {
    /// A rule that the observation must keep.
    Rule(Rule),
    /// The exact value.
    Exactly(Value),
}

/// A rule for an observation. All conditions that are set must hold.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rule {
    /// One of these values.
    pub any: Option<Vec<Value>>,
    /// None of these values.
    pub none: Option<Vec<Value>>,
    /// A number that is at least this.
    pub min: Option<f64>,
    /// A number that is at most this.
    pub max: Option<f64>,
    /// A text that contains this.
    pub contains: Option<String>,
    /// The observation may be missing, because the job may be ended before it is made.
    pub maybe: bool,
    /// The observation differs between all jobs of the attack.
    pub unlike: bool,
    /// The observation is the same in all jobs of the attack.
    pub alike: bool,
}

impl<'de> Deserialize<'de> for Expected {
    /// Reads a table with a rule's keys as a rule, and everything else as an exact value. A list is never a rule. serde
    /// would read a list as one, and an empty list would then allow everything.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        match value.is_object().then(|| serde_json::from_value(value.clone())) {
            Some(Ok(rule)) => Ok(Self::Rule(rule)),
            _ => Ok(Self::Exactly(value)),
        }
    }
}

impl Expected {
    /// Checks what was observed in each job that made the observation.
    ///
    /// # Errors
    /// Why the observation is not what it must be.
    pub fn check(&self, found: &[&Value]) -> Result<(), String> {
        let listed = || found.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        match self {
            Self::Exactly(wanted) if found.iter().all(|v| *v == wanted) => Ok(()),
            Self::Exactly(wanted) => Err(format!("{}, not {wanted}", listed())),
            Self::Rule(rule) if rule.unlike || rule.alike => {
                let same = |a: usize, b: usize| found[a] == found[b];
                let pairs = (0..found.len()).flat_map(|a| (a + 1..found.len()).map(move |b| (a, b)));
                let fits = pairs.fold(found.len() > 1, |fits, (a, b)| fits && same(a, b) == rule.alike);
                if fits {
                    Ok(())
                } else {
                    Err(format!("{}: should {}", listed(), if rule.alike { "be alike" } else { "differ" }))
                }
            }
            Self::Rule(rule) => match found.iter().find(|v| !rule.fits(v)) {
                None => Ok(()),
                Some(value) => Err(format!("{value} breaks {rule:?}")),
            },
        }
    }
}

impl Expected {
    /// Whether the observation may be missing.
    pub fn may_miss(&self) -> bool {
        matches!(self, Self::Rule(rule) if rule.maybe)
    }
}

impl Rule {
    fn fits(&self, value: &Value) -> bool {
        let number = value.as_f64();
        self.any.as_ref().is_none_or(|any| any.contains(value))
            && self.none.as_ref().is_none_or(|none| !none.contains(value))
            && self.min.is_none_or(|min| number.is_some_and(|n| n >= min))
            && self.max.is_none_or(|max| number.is_some_and(|n| n <= max))
            && self.contains.as_ref().is_none_or(|words| value.as_str().is_some_and(|text| text.contains(words)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn expected(toml: &str) -> Expected {
        let table: BTreeMap<String, Expected> = toml::from_str(toml).unwrap();
        table["x"].clone()
    }

    #[test]
    fn rules_say_what_they_allow() {
        let holds = |rule: &str, found: &[Value]| expected(rule).check(&found.iter().collect::<Vec<_>>()).is_ok();
        assert!(holds("x = 'EPERM'", &[json!("EPERM")]) && !holds("x = 'EPERM'", &[json!("worked")]));
        assert!(!holds("x = 'EPERM'", &[json!("EPERM"), json!("worked")]), "each job's");
        assert!(holds("x = [1, 'a']", &[json!([1, "a"])]));
        assert!(holds("x = []", &[json!([])]) && !holds("x = []", &[json!(["A"])]), "a list is no rule");
        assert!(!holds("x = [['A']]", &[json!("A")]));
        assert!(holds("x = { any = ['A', 'B'] }", &[json!("B")]) && !holds("x = { any = ['A'] }", &[json!("B")]));
        assert!(holds("x = { min = 1, max = 2 }", &[json!(2)]) && !holds("x = { max = 2 }", &[json!(3)]));
        assert!(!holds("x = { max = 2 }", &[json!("worked")]));
        assert!(holds("x = { unlike = true }", &[json!(1), json!(2)]));
        assert!(!holds("x = { unlike = true }", &[json!(1), json!(1)]) && !holds("x = { unlike = true }", &[json!(1)]));
        assert!(
            holds("x = { alike = true }", &[json!(1), json!(1)])
                && !holds("x = { alike = true }", &[json!(1), json!(2)])
        );
    }
}
