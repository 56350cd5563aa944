//! What an attack's file says about itself: TOML in the docstring that it begins with.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use thermae_schemas::{ErrorCode, LimitRequest, Status, ToolSpec};

use crate::machine::Setting;

/// Key of [`Sheet::held`] and [`Sheet::open`] that stands for every name not listed.
pub const ANY_NAME: &str = "*";

/// What is tried, and how it must end.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sheet {
    /// What is tried.
    pub tries: String,
    /// What would be won.
    pub wins: String,
    /// What stops it.
    pub guard: String,
    /// What must be found, by the names of the observations. Nothing else may be.
    #[serde(default)]
    pub held: Findings,
    /// What the control must find; names that are missing here are not looked at.
    #[serde(default)]
    pub open: Findings,
    /// A setting that the machine must have for as long as it is tried.
    #[serde(default)]
    pub machine: Option<Setting>,
    /// How the program is run with the guard off.
    #[serde(default)]
    pub control: Option<Control>,
    /// Why there is no control.
    #[serde(default)]
    pub uncontrolled: Option<String>,
    /// Limits that the jobs ask for.
    #[serde(default)]
    pub limits: LimitRequest,
    /// Tools that the attacking jobs may call. They are the suite's ([`crate::tools`]).
    #[serde(default)]
    pub tools: Vec<ToolSpec>,
    /// How the attacking job must end.
    #[serde(default)]
    pub outcome: Ending,
    /// Whether it takes seconds, and is left out of the short form.
    #[serde(default)]
    pub slow: bool,
    /// Whether an honest job must afterwards find its container as it was: the same one, clean, and about as fast. (On gVisor another
    /// one, clean.)
    #[serde(default)]
    pub aftermath: bool,
    /// What differs in Docker's containers.
    #[serde(default)]
    pub docker: Difference,
    /// What differs in native containers of an ordinary user's.
    #[serde(default)]
    pub rootless: Difference,
    /// What differs where the outer runtime is gVisor's.
    #[serde(default)]
    pub runsc: Difference,
}

/// Expectations by name.
pub type Findings = BTreeMap<String, Expected>;

/// What differs on one backend, and why (in a comment beside it).
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Difference {
    /// Why the attack is not run there.
    #[serde(default)]
    pub skip: Option<String>,
    /// In place of the same names of [`Sheet::held`].
    #[serde(default)]
    pub held: Findings,
    /// In place of all of [`Sheet::held`].
    #[serde(default)]
    pub instead: Option<Findings>,
    /// In place of [`Sheet::outcome`].
    #[serde(default)]
    pub outcome: Option<Ending>,
}

/// How the program is run with no sandbox around it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Control {
    /// How several jobs are run.
    #[serde(default)]
    pub mode: Mode,
    /// Command line that it is put behind: `unshare --net`, say, where it would do harm to the machine.
    #[serde(default)]
    pub within: Vec<String>,
}

/// How a control runs the jobs of an attack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Each in a process of its own.
    #[default]
    Apart,
    /// Each in a bare fork of one warm interpreter.
    Fork,
    /// All in one interpreter.
    Same,
}

/// How a job must end.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Ending {
    /// Its status.
    pub status: Status,
    /// Its error's code.
    pub error: Option<ErrorCode>,
    /// Words of its error's message.
    pub message: Option<String>,
    /// Tool calls that reached the client.
    pub calls: Option<usize>,
    /// Most bytes of its outcome's JSON.
    pub bytes: Option<usize>,
    /// Its exact standard output.
    pub stdout: Option<String>,
    /// Its artifacts, all of them: path and content.
    pub artifacts: Option<BTreeMap<String, String>>,
    /// What was left out of its artifacts, all of it: path and reason.
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
    /// A rule.
    Rule(Rule),
    /// Just this.
    Exactly(Value),
}

/// A rule for an observation; all that is said must hold.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rule {
    /// One of these.
    pub any: Option<Vec<Value>>,
    /// None of these.
    pub none: Option<Vec<Value>>,
    /// A number not below.
    pub min: Option<f64>,
    /// A number not above.
    pub max: Option<f64>,
    /// Text that contains this.
    pub contains: Option<String>,
    /// The job may be ended before it comes to this.
    pub maybe: bool,
    /// Different in every job of the attack.
    pub unlike: bool,
    /// The same in every job of the attack.
    pub alike: bool,
}

impl<'de> Deserialize<'de> for Expected {
    /// A table of a rule's words is one. A list never is, though serde would read one as such: an empty one would allow everything.
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        match value.is_object().then(|| serde_json::from_value(value.clone())) {
            Some(Ok(rule)) => Ok(Self::Rule(rule)),
            _ => Ok(Self::Exactly(value)),
        }
    }
}

impl Expected {
    /// Why what was observed (in each of the jobs that did) is not what must be.
    ///
    /// # Errors
    /// In words.
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
    /// Whether it may be missing.
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
