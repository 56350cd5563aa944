//! Runs attacks on one backend, one after the other.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use thermae_runner::outer::Spec;
use thermae_schemas::{Job, Language, Outcome, SessionName, SessionRequest, Status, ToolSpec};

use crate::control::{self, Shown};
use crate::evidence::Evidence;
use crate::judge::{self, Run, ended};
use crate::machine::Changed;
use crate::program::{Attack, Payload, Preludes};
use crate::report::{Report, Verdict};
use crate::site::{Fleet, Machine, Place};
use crate::targets::Targets;
use crate::tools::{GATE, Tools};

/// Longer than an attack takes.
const ATTACK_TIMEOUT: Duration = Duration::from_secs(300);

/// Least number of honest jobs, of which the quickest counts: this machine has other work, too.
const HONEST_RUNS: usize = 5;

/// How long honest jobs are repeated until one is quick enough. If an attack has left something behind, all of them are
/// slow. Other work on this machine may hold up many in a row.
const HONEST_TIME: Duration = Duration::from_secs(60);

/// How much slower than before an attack an honest job may be after it, as a factor and a sum. A busy machine makes
/// milliseconds longer.
const SLOWER: (u32, Duration) = (3, Duration::from_millis(30));

/// Fleets, targets and settings for attacks on one backend.
pub struct Suite<'a> {
    folder: &'a Path,
    preludes: Preludes,
    honest: String,
    place: Place,
    /// A fleet with one slot: all jobs run in one container.
    one: Fleet,
    /// A fleet with two slots, which has another container for the neighbour.
    two: Fleet,
    targets: Targets,
    /// Interpreter for the controls; `None` if they are not run.
    controls: Option<PathBuf>,
    /// Folder for the files of crashes, if another process has changed the machine's settings; `None` if this process
    /// changes them.
    changed: Option<PathBuf>,
    baseline: Duration,
}

/// The interpreter itself, and not a shim that finds it: controls are started a hundred times.
fn interpreter(machine: &Machine) -> Result<PathBuf> {
    Ok(Spec::for_python(machine.python.as_deref())?.interpreter.into())
}

/// The quickest time of honest jobs, and their container.
struct Honest {
    quickest: Duration,
    container: Value,
}

impl<'a> Suite<'a> {
    /// Starts the fleets, and times honest jobs. `controls` says whether the controls are run, too.
    ///
    /// # Errors
    /// The backend can't make containers on this machine.
    pub async fn open(folder: &'a Path, place: Place, machine: &Machine, controls: bool) -> Result<Self> {
        let honest = folder.join("honest.py");
        let one = Fleet::open(&place.backend, machine, 1).await.with_context(|| format!("the backend {place}"))?;
        let mut suite = Self {
            folder,
            preludes: Preludes::read(folder)?,
            honest: std::fs::read_to_string(&honest).with_context(|| format!("read {}", honest.display()))?,
            one,
            two: Fleet::open(&place.backend, machine, 2).await?,
            place,
            targets: Targets::new()?,
            controls: if controls { Some(interpreter(machine)?) } else { None },
            changed: machine.changed.clone(),
            baseline: Duration::MAX,
        };
        suite.baseline = suite.honest(Duration::MAX).await.context("an honest job, before any attack")?.quickest;
        Ok(suite)
    }

    /// Stops both fleets, and removes their containers.
    pub async fn close(self) {
        self.one.close().await;
        self.two.close().await;
    }

    /// Tries one attack, and runs its control.
    pub async fn attack(&self, attack: &Attack) -> Report {
        let begun = Instant::now();
        let report = |verdict, control| Report {
            attack: attack.name.clone(),
            backend: self.place.to_string(),
            verdict,
            control,
            seconds: begun.elapsed().as_secs_f64(),
        };
        if let Some(why) = judge::left_out(attack, &self.place) {
            return report(Verdict::Skipped(why), String::new());
        }
        let changed = match attack.sheet.machine.map(|setting| match &self.changed {
            None => Changed::make(setting),
            Some(cores) => Ok(Changed::by_another(setting, cores)),
        }) {
            None => None,
            Some(Ok(changed)) => Some(changed),
            Some(Err(why)) => {
                return report(
                    Verdict::Skipped(format!("the machine can't be set as it needs: {why:#}")),
                    String::new(),
                );
            }
        };
        let tried = tokio::time::timeout(ATTACK_TIMEOUT, self.tried(attack)).await;
        let mut problems = match tried {
            Ok(Ok(problems)) => problems,
            Ok(Err(error)) => vec![format!("{error:#}")],
            Err(_) => vec![format!("it hangs for more than {ATTACK_TIMEOUT:?}")],
        };
        problems.extend(changed.as_ref().and_then(Changed::won));
        let control = match self.control(attack).await {
            None => "control: run on another backend".to_owned(),
            Some(Shown::Through) => "its control gets through".to_owned(),
            Some(Shown::None(why)) => format!("no control: {why}"),
            Some(Shown::CannotRun(why)) => format!("its control can't run here: {why}"),
            Some(Shown::Failed(why)) => {
                problems.push(format!("its control, with the guard off, does not get through: {why}"));
                "control failed".to_owned()
            }
        };
        report(if problems.is_empty() { Verdict::Held } else { Verdict::NotHeld(problems) }, control)
    }

    async fn control(&self, attack: &Attack) -> Option<Shown> {
        let python = self.controls.as_ref()?;
        Some(control::run(attack, python, self.folder, &self.preludes, &self.targets.map()).await)
    }

    /// Runs an attack's jobs, and then honest ones if its sheet asks for that. Gives what speaks against it having
    /// held.
    async fn tried(&self, attack: &Attack) -> Result<Vec<String>> {
        if attack.sheet.aftermath && !self.apart() {
            self.await_proof().await?;
        }
        let run = self.run(attack).await?;
        let mut problems = judge::problems(attack, &self.place, &run);
        if attack.sheet.aftermath {
            let at = run.outcomes.first().and_then(|o| Evidence::of(o).container().cloned());
            // If each job has a container of its own, the container takes most of the time.
            let most = if self.apart() { Duration::MAX } else { self.baseline * SLOWER.0 + SLOWER.1 };
            match self.honest(most).await {
                Err(error) => problems.push(format!("afterwards, {error:#}")),
                Ok(honest) => {
                    if !self.apart() && at.as_ref() != Some(&honest.container) {
                        problems.push("afterwards, the container was another one".to_owned());
                    }
                    if honest.quickest > most {
                        let (now, before) = (honest.quickest, self.baseline);
                        problems.push(format!("afterwards, an honest job takes {now:?}; before, {before:?}"));
                    }
                }
            }
        }
        Ok(problems)
    }

    /// Whether each job has a container of its own and no inner wall. On gVisor this is so, because it has no nested
    /// pid namespaces to join.
    fn apart(&self) -> bool {
        self.place.backend.is_runsc()
    }

    /// Waits until the container has been checked. A container that has had no pause for a hundred jobs is checked
    /// while another one takes its place. This must not happen during an attack after which the container must be the
    /// same.
    async fn await_proof(&self) -> Result<()> {
        let before = self.one.proofs();
        self.one.submit(Job::python("pass"), &Arc::default()).await?.result().await?;
        while self.one.proofs() <= before {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    async fn run(&self, attack: &Attack) -> Result<Run> {
        let mut map = self.targets.map();
        if self.apart() {
            // Without an inner wall, there is no workspace.
            map.place = "/dev/shm";
        }
        let target = serde_json::to_string(&map)?;
        let fleet = if attack.neighbour.is_some() { &self.two } else { &self.one };
        let gate: Arc<Tools> = Arc::default();
        let neighbour = match &attack.neighbour {
            None => None,
            Some(code) => {
                let mut job = self.job(Payload::Python, code, &target);
                job.tools = vec![serde_json::from_value::<ToolSpec>(json!({ "name": GATE }))?];
                let handle = fleet.submit(job, &gate).await?;
                tokio::select! {
                    () = gate.reached() => {}
                    early = handle.result() => bail!("its neighbour did not wait: {}", ended(&early?)),
                }
                Some(handle)
            }
        };
        let (mut outcomes, mut calls) = (Vec::new(), 0);
        for (number, code) in attack.jobs.iter().enumerate() {
            let (mut job, tools) = (self.attacker(attack, code, &target), Arc::<Tools>::default());
            job.limits = attack.sheet.limits.clone();
            job.tools.clone_from(&attack.sheet.tools);
            outcomes.push(fleet.submit(job, &tools).await?.result().await?);
            if number == 0 {
                calls = tools.calls();
            }
        }
        gate.open();
        let neighbour = match neighbour {
            Some(handle) => Some(handle.result().await?),
            None => None,
        };
        Ok(Run { outcomes, neighbour, calls })
    }

    /// A job of the attack, in the language that is tried here.
    fn attacker(&self, attack: &Attack, code: &str, target: &str) -> Job {
        let mut job = self.job(attack.language, code, target);
        if attack.language != self.place.payload && self.place.payload == Payload::Bash {
            // The program is not on the command line, where others of its processes would look for it.
            let started = format!("exec python3 -I /dev/fd/9 9<<'THE_END'\n{}THE_END\n", job.code);
            (job.language, job.code) = (Language::bash(), started);
        }
        if attack.sheet.session {
            job.session = SessionName::new(attack.name.as_str()).ok().map(SessionRequest::new);
        }
        job
    }

    fn job(&self, language: Payload, code: &str, target: &str) -> Job {
        let code = self.preludes.whole(language, code);
        let mut job = if language == Payload::Bash { Job::bash(code) } else { Job::python(code) };
        job.env.insert("ATTACK".to_owned(), target.to_owned());
        job
    }

    /// Runs honest jobs in the container that the attacks share, and checks what they find. Repeats them while the
    /// quickest takes longer than `most`.
    async fn honest(&self, most: Duration) -> Result<Honest> {
        let (mut quickest, mut container) = (Duration::MAX, Value::Null);
        let (mut left, start) = (if self.apart() { 1 } else { HONEST_RUNS }, Instant::now());
        while left > 0 || (quickest > most && start.elapsed() < HONEST_TIME) {
            left = left.saturating_sub(1);
            let begun = Instant::now();
            let handle = self.one.submit(self.job(Payload::Python, &self.honest, "{}"), &Arc::default()).await?;
            let outcome: Outcome = handle.result().await?;
            quickest = quickest.min(begun.elapsed());
            ensure!(outcome.status == Status::Succeeded, "an honest job {}", ended(&outcome));
            let evidence = Evidence::of(&outcome);
            let wanted = [("answer", json!(499_500)), ("files", json!([])), ("processes", json!(["1", "2"]))];
            // Without an inner wall, the job sees the runner and its zygotes, too.
            for (name, wanted) in &wanted[..if self.apart() { 2 } else { 3 }] {
                let found = evidence.get(name);
                ensure!(found == Some(wanted), "an honest job finds {name}: {found:?}, not {wanted}");
            }
            container = evidence.container().cloned().unwrap_or_default();
        }
        Ok(Honest { quickest, container })
    }
}
