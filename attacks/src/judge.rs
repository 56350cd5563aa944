//! Judges whether an attack has held. Uses only what arrived at the client.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};
use thermae_schemas::{LeftOutWhy, Outcome, Status};

use crate::evidence::{Evidence, compare};
use crate::program::{Attack, Payload};
use crate::sheet::{Difference, Ending, Findings};
use crate::site::{Backend, Place};

/// Everything that arrived from one run of an attack.
#[derive(Debug)]
pub struct Run {
    /// Outcomes of the jobs, in their order.
    pub outcomes: Vec<Outcome>,
    /// Outcome of the neighbour; `None` if the attack has none.
    pub neighbour: Option<Outcome>,
    /// Number of the first job's tool calls that reached the client.
    pub calls: usize,
}

/// What differs there, the more important first. The sheet itself is written for Python on the native backend.
fn differences<'a>(attack: &'a Attack, at: &Place) -> Vec<&'a Difference> {
    let sheet = &attack.sheet;
    let of_backend = match &at.backend {
        Backend::Native => None,
        Backend::Rootless => Some(&sheet.rootless),
        Backend::Docker(_) if at.backend.is_runsc() => Some(&sheet.runsc),
        Backend::Docker(_) => Some(&sheet.docker),
    };
    (at.payload == Payload::Bash).then_some(&sheet.bash).into_iter().chain(of_backend).collect()
}

/// Why the attack is not run there; `None` if it is.
pub fn left_out(attack: &Attack, at: &Place) -> Option<String> {
    let several = at.backend.is_runsc() && attack.jobs.len() > 1;
    let (bash, own) = (at.payload == Payload::Bash, attack.language == Payload::Bash);
    let by_rule = [
        (several, "it needs several jobs in one container, and on gVisor each job has its own"),
        (bash && own, "it is in bash anyway"),
        (bash && !attack.sheet.tools.is_empty(), "programs in bash can't call tools"),
        (bash && attack.group() == "channel", "it speaks on the channel of Python's harness"),
    ];
    let told = differences(attack, at).into_iter().find_map(|d| d.skip.clone());
    told.or_else(|| by_rule.into_iter().find(|(holds, _)| *holds).map(|(_, why)| why.to_owned()))
}

/// What must be found there.
pub fn wanted(attack: &Attack, at: &Place) -> Findings {
    let differences = differences(attack, at);
    let instead = differences.iter().find_map(|d| d.instead.clone());
    let mut wanted = instead.unwrap_or_else(|| attack.sheet.held.clone());
    wanted.extend(differences.into_iter().rev().flat_map(|d| d.held.clone()));
    wanted
}

/// Everything that speaks against the attack having held; empty if it has held.
pub fn problems(attack: &Attack, at: &Place, run: &Run) -> Vec<String> {
    let mut evidence: Vec<_> = run.outcomes.iter().map(Evidence::of).collect();
    let mut problems = Vec::new();
    let containers: Vec<_> = evidence.iter().filter_map(Evidence::container).collect();
    // On gVisor, all kernels give their namespaces the same names, and each job has a container of its own.
    let told_apart = !at.backend.is_runsc();
    if told_apart && containers.windows(2).any(|pair| pair[0] != pair[1]) {
        problems.push("its jobs were not in one container, and show nothing".to_owned());
    }
    if let Some(neighbour) = &run.neighbour {
        let own = Evidence::of(neighbour);
        if told_apart && (own.container().is_none() || containers.first() == own.container().as_ref()) {
            problems.push("its neighbour was not in another container".to_owned());
        }
        if neighbour.status != Status::Succeeded {
            problems.push(format!("its neighbour: {}", ended(neighbour)));
        }
        evidence.push(own);
    }
    problems.extend(compare(&evidence, &wanted(attack, at), true));
    if let Some((first, others)) = run.outcomes.split_first() {
        let differently = differences(attack, at).into_iter().find_map(|d| d.outcome.as_ref());
        problems.extend(ending(differently.unwrap_or(&attack.sheet.outcome), first, run.calls));
        let bad = others.iter().filter(|o| o.status != Status::Succeeded);
        problems.extend(bad.map(|outcome| format!("a later job: {}", ended(outcome))));
    }
    problems
}

fn ending(wanted: &Ending, outcome: &Outcome, calls: usize) -> Vec<String> {
    let error = outcome.error.as_ref();
    let mut problems = Vec::new();
    if outcome.status != wanted.status || wanted.error.is_some_and(|code| error.is_none_or(|e| e.code != code)) {
        problems.push(format!("it {}, not {:?} {:?}", ended(outcome), wanted.status, wanted.error));
    }
    if let Some(words) = &wanted.message
        && !error.is_some_and(|e| e.message.contains(words))
    {
        problems.push(format!("it {}: does not say {words:?}", ended(outcome)));
    }
    if let Some(wanted) = wanted.calls
        && wanted != calls
    {
        problems.push(format!("{calls} tool calls reached the client, not {wanted}"));
    }
    if let Some(most) = wanted.bytes {
        let bytes = serde_json::to_vec(outcome).map_or(usize::MAX, |json| json.len());
        if bytes > most {
            problems.push(format!("its outcome has {bytes} bytes, more than {most}"));
        }
    }
    if let Some(wanted) = &wanted.stdout
        && *wanted != outcome.stdout
    {
        problems.push(format!("it printed {:?}, not {wanted:?}", head(&outcome.stdout)));
    }
    problems.extend(files(wanted, outcome));
    problems
}

/// What is wrong with an outcome's artifacts.
fn files(wanted: &Ending, outcome: &Outcome) -> Vec<String> {
    let mut problems = Vec::new();
    if let Some(wanted) = &wanted.artifacts {
        let wanted: BTreeMap<_, _> = wanted.iter().map(|(path, text)| (path.clone(), digest(text))).collect();
        let found = outcome.artifacts.iter().map(|a| (a.path.clone(), a.sha256.clone())).collect::<BTreeMap<_, _>>();
        if found != wanted {
            problems.push(format!("its artifacts are {found:?}, not {wanted:?}"));
        }
    }
    if let Some(wanted) = &wanted.left_out {
        let why = |why: &LeftOutWhy| serde_json::to_value(why).ok().and_then(|v| Some(v.as_str()?.to_owned()));
        let found: BTreeMap<_, _> =
            outcome.artifacts_left_out.iter().map(|l| (l.path.clone(), why(&l.why).unwrap_or_default())).collect();
        if found != *wanted {
            problems.push(format!("left out of its artifacts are {found:?}, not {wanted:?}"));
        }
    }
    problems
}

fn digest(text: &str) -> String {
    hex::encode(Sha256::digest(text))
}

/// How a job ended, in words.
pub fn ended(outcome: &Outcome) -> String {
    let error = outcome.error.as_ref();
    let message = error.map(|e| format!(" ({}: {})", e.code.as_str(), head(&e.message))).unwrap_or_default();
    let last = error.and_then(|e| e.traceback.as_ref()).and_then(|t| t.trim_end().lines().nth_back(1));
    format!(
        "ended {}{message}{}",
        outcome.status.as_str(),
        last.map(|l| format!(" at {}", l.trim())).unwrap_or_default()
    )
}

fn head(text: &str) -> String {
    text.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sheet::Sheet;
    use serde_json::json;

    fn attack() -> Attack {
        let sheet = "tries = ''\nwins = ''\nguard = ''\nuncontrolled = ''\n[held]\na = 1\n[docker.held]\na = 2";
        let sheet = Sheet::read(sheet).unwrap();
        Attack { name: "g/n".into(), language: Payload::Python, sheet, jobs: vec![], neighbour: None }
    }

    fn told(a: i64, container: i64) -> Outcome {
        let mut outcome = Outcome::new(Status::Succeeded);
        outcome.value =
            Some([("application/json".to_owned(), json!({ "a": a, "container": container }).into())].into());
        outcome
    }

    #[test]
    fn what_a_backend_gives_otherwise_is_asked_of_it_alone() {
        let run = |a| Run { outcomes: vec![told(a, 7)], neighbour: None, calls: 0 };
        assert!(problems(&attack(), &Backend::Native.into(), &run(1)).is_empty());
        assert!(problems(&attack(), &Backend::Docker(None).into(), &run(2)).is_empty());
        assert_eq!(problems(&attack(), &Backend::Native.into(), &run(2)).len(), 1);
    }

    #[test]
    fn jobs_that_were_not_where_they_should_be_show_nothing() {
        let apart = Run { outcomes: vec![told(1, 7), told(1, 8)], neighbour: None, calls: 0 };
        assert_eq!(problems(&attack(), &Backend::Native.into(), &apart).len(), 1);
        let together = Run { outcomes: vec![told(1, 7)], neighbour: Some(told(1, 7)), calls: 0 };
        assert_eq!(problems(&attack(), &Backend::Native.into(), &together).len(), 1);
    }
}
