//! Runs scenarios, then their controls.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::{Attempt, Scenario};
use crate::evidence::{Evidence, compare};
use crate::fleet::{Site, within};
use crate::report::{Report, Verdict};

/// Longer than an attack takes.
const ATTACK_TIMEOUT: Duration = Duration::from_secs(600);

/// What speaks against an attack having held, and how long the attack took.
struct Tried {
    problems: Vec<String>,
    seconds: f64,
}

fn judged(scenario: &Scenario, begun: Instant, found: Result<Evidence>, aftermath: Result<()>) -> Tried {
    let mut problems = match found {
        Ok(evidence) => compare(&[evidence], &scenario.sheet.held, true),
        Err(error) => vec![format!("{error:#}")],
    };
    problems.extend(aftermath.err().map(|error| format!("afterwards, {error:#}")));
    Tried { problems, seconds: begun.elapsed().as_secs_f64() }
}

/// What a control showed, in words, and the problem if it failed.
fn shown(scenario: &Scenario, found: Result<Evidence>) -> (String, Option<String>) {
    let problems = match found {
        Ok(evidence) => compare(&[evidence], &scenario.sheet.open, false),
        Err(error) => vec![format!("{error:#}")],
    };
    if problems.is_empty() {
        return ("its control gets through".to_owned(), None);
    }
    let why = format!("its control, with the guard off, does not get through: {}", problems.join("; "));
    ("control failed".to_owned(), Some(why))
}

fn report(scenario: &Scenario, backend: &str, tried: Tried, control: Option<(String, Option<String>)>) -> Report {
    let Tried { mut problems, seconds } = tried;
    let control = match (&scenario.sheet.uncontrolled, control) {
        (Some(why), _) => format!("no control: {why}"),
        (None, None) => "control: not run".to_owned(),
        (None, Some((words, problem))) => {
            problems.extend(problem);
            words
        }
    };
    let verdict = if problems.is_empty() { Verdict::Held } else { Verdict::NotHeld(problems) };
    Report { attack: scenario.name.to_owned(), backend: backend.to_owned(), verdict, control, seconds }
}

/// Tries the attacks that run on a fleet: all with the guards on, then the controls with the guards off.
///
/// # Errors
/// A fleet does not start.
pub async fn fleet(
    scenarios: &[Scenario],
    controls: bool,
    mut show: impl FnMut(&Report) -> Result<()>,
) -> Result<Vec<Report>> {
    let attempt = async |scenario: &Scenario, site: &Site| -> Result<Evidence> {
        let Attempt::Fleet(attempt) = scenario.attempt else { bail!("it is not for a fleet") };
        within(ATTACK_TIMEOUT, "the attack", attempt(site)).await?
    };
    let mine: Vec<_> = scenarios.iter().filter(|s| matches!(s.attempt, Attempt::Fleet(_))).collect();
    if mine.is_empty() {
        return Ok(Vec::new());
    }
    let (mut tried, mut site) = (Vec::new(), Site::open(false).await.context("a fleet")?);
    for scenario in &mine {
        let begun = Instant::now();
        let found = attempt(scenario, &site).await;
        let aftermath = site.aftermath().await;
        let broken = aftermath.is_err();
        tried.push(judged(scenario, begun, found, aftermath));
        if broken {
            // The next attack needs a fleet that works.
            site.close().await;
            site = Site::open(false).await.context("another fleet")?;
        }
    }
    site.close().await;
    let mut shows = Vec::new();
    if controls {
        let site = Site::open(true).await.context("a fleet without guards")?;
        for scenario in &mine {
            let controlled = scenario.sheet.control.is_some();
            shows.push(if controlled { Some(shown(scenario, attempt(scenario, &site).await)) } else { None });
        }
        site.close().await;
    }
    shows.resize(mine.len(), None);
    let mut reports = Vec::new();
    for ((scenario, tried), control) in mine.into_iter().zip(tried).zip(shows) {
        reports.push(report(scenario, "fleet", tried, control));
        reports.iter().next_back().map_or(Ok(()), &mut show)?;
    }
    Ok(reports)
}

/// Tries the attacks that run on the command line, each with its control.
///
/// # Errors
/// A report can't be shown.
pub fn client(
    scenarios: &[Scenario],
    controls: bool,
    mut show: impl FnMut(&Report) -> Result<()>,
) -> Result<Vec<Report>> {
    let mut reports = Vec::new();
    for scenario in scenarios {
        let Attempt::Client(attempt) = scenario.attempt else { continue };
        let begun = Instant::now();
        let tried = judged(scenario, begun, attempt(false), Ok(()));
        let controlled = controls && scenario.sheet.control.is_some();
        let control = if controlled { Some(shown(scenario, attempt(true))) } else { None };
        let report = report(scenario, "client", tried, control);
        show(&report)?;
        reports.push(report);
    }
    Ok(reports)
}
