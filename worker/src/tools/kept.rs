//! Keeps the answers to tool calls from when they come until their runs get them.
//!
//! The answers of all tenants come over one queue, so none can be held back there. What a run does not read is kept in
//! memory, as far as the run, its tenant and the worker may; beyond that, on the disk, as far as the tenant and the
//! worker may; and beyond that, it is dropped, and its call is refused.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;
use thermae_backplane::registry::JobKey;
use thermae_runner::frames::ToolFailure;
use thermae_schemas::{ErrorCode, TenantName};
use thermae_service::units::ByteSize;

use super::{Answer, Refused};
use crate::heavy::Heavy;
use crate::metrics::Metrics;
use crate::options::AnswerOptions;

/// What a tool says: its result (any JSON), or its error.
pub(crate) type Said = Result<Box<RawValue>, ToolFailure>;

/// Keeps answers.
#[derive(Clone)]
pub(crate) struct Keeper(Arc<Inner>);

struct Inner {
    options: AnswerOptions,
    metrics: Metrics,
    held: Mutex<Held>,
}

/// How many bytes are kept.
#[derive(Debug, Default)]
struct Held {
    all: Bytes,
    tenants: HashMap<TenantName, Bytes>,
    /// In memory, of each run.
    runs: HashMap<JobKey, u64>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Bytes {
    memory: u64,
    disk: u64,
}

/// Where an answer is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Memory,
    Disk,
}

impl Bytes {
    fn of(&mut self, place: Place) -> &mut u64 {
        match place {
            Place::Memory => &mut self.memory,
            Place::Disk => &mut self.disk,
        }
    }
}

/// An answer that is kept. It counts until this is dropped.
pub(crate) struct Kept {
    body: Body,
    is_error: bool,
    share: Share,
}

enum Body {
    Memory(Said),
    Disk(File),
}

/// The bytes that an answer counts for. Dropping it gives them back.
pub(crate) struct Share {
    keeper: Keeper,
    run: JobKey,
    place: Place,
    bytes: u64,
}

impl Held {
    /// Counts an answer of this many bytes of that run. Returns where it is kept.
    ///
    /// # Errors
    /// The option that allows no more, and how much it allows.
    fn take(&mut self, options: &AnswerOptions, run: &JobKey, bytes: u64) -> Result<Place, (&'static str, ByteSize)> {
        let of_run = self.runs.get(run).copied().unwrap_or_default();
        let tenant = self.tenants.get(&run.tenant).copied().unwrap_or_default();
        let fits = |held: u64, most: ByteSize| held.saturating_add(bytes) <= most.0;
        let place = if fits(of_run, options.run_memory)
            && fits(tenant.memory, options.tenant_memory)
            && fits(self.all.memory, options.memory)
        {
            Place::Memory
        } else if !fits(tenant.disk, options.tenant_disk) {
            return Err(("answers.tenant_disk", options.tenant_disk));
        } else if !fits(self.all.disk, options.disk) {
            return Err(("answers.disk", options.disk));
        } else {
            Place::Disk
        };
        *self.all.of(place) += bytes;
        *self.tenants.entry(run.tenant.clone()).or_default().of(place) += bytes;
        if place == Place::Memory {
            *self.runs.entry(run.clone()).or_default() += bytes;
        }
        Ok(place)
    }

    /// Gives back what [`Held::take`] has counted.
    fn give_back(&mut self, run: &JobKey, place: Place, bytes: u64) {
        *self.all.of(place) -= bytes;
        if let Some(tenant) = self.tenants.get_mut(&run.tenant) {
            *tenant.of(place) -= bytes;
            if *tenant == Bytes::default() {
                self.tenants.remove(&run.tenant);
            }
        }
        if place == Place::Memory
            && let Some(held) = self.runs.get_mut(run)
        {
            *held -= bytes;
            if *held == 0 {
                self.runs.remove(run);
            }
        }
    }
}

impl Keeper {
    pub(crate) fn new(options: AnswerOptions, metrics: Metrics) -> Self {
        Self(Arc::new(Inner { options, metrics, held: Mutex::default() }))
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the answer to a call of this run. May write it to the disk.
    ///
    /// # Errors
    /// There is no room for it.
    pub(crate) fn keep(&self, run: &JobKey, said: Said) -> Answer {
        let bytes = size(&said);
        let dropped = |why: String| {
            let message = format!("the tool has answered, but its answer of {bytes} bytes was dropped: {why}");
            Refused::new(ErrorCode::ToolAnswerLimit, message)
        };
        let taken = self.held().take(&self.0.options, run, bytes);
        let place = taken.map_err(|(option, most)| {
            dropped(format!(
                "the worker keeps no more than {most} on its disk of answers that runs have not read. Read answers \
                 sooner, or ask for less at once; the fleet's operator can raise {option}"
            ))
        })?;
        let share = Share { keeper: self.clone(), run: run.clone(), place, bytes };
        share.gauge().add(bytes as i64);
        let is_error = said.is_err();
        let body = match place {
            Place::Memory => Body::Memory(said),
            Place::Disk => {
                self.0.metrics.answers_written.inc();
                Body::Disk(self.write(&said).map_err(|error| {
                    tracing::error!(%error, "an answer to a tool call can't be written to answers.dir");
                    dropped(format!("the worker can't write it to its answers.dir: {error}"))
                })?)
            }
        };
        Ok(Kept { body, is_error, share })
    }

    fn write(&self, said: &Said) -> io::Result<File> {
        let mut file = BufWriter::new(tempfile::tempfile_in(&self.0.options.dir)?);
        serde_json::to_writer(&mut file, said)?;
        file.flush()?;
        file.into_inner().map_err(io::IntoInnerError::into_error)
    }
}

impl Kept {
    /// Whether the tool reports an error.
    pub(crate) fn is_error(&self) -> bool {
        self.is_error
    }

    /// Size of the answer, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.share.bytes as usize
    }

    /// Whether it is on the disk.
    pub(crate) fn is_on_disk(&self) -> bool {
        self.share.place == Place::Disk
    }

    /// Estimates the work to read the answer, in bytes read.
    pub(crate) fn cost(&self) -> usize {
        if self.is_on_disk() { self.bytes() } else { 0 }
    }

    /// Checks a result, in this many steps. An error of the tool passes.
    ///
    /// # Errors
    /// The check's error, or the result can't be read.
    pub(crate) async fn checked(
        self,
        heavy: &Heavy,
        steps: usize,
        check: impl FnOnce(&RawValue) -> Result<(), Refused> + Send + 'static,
    ) -> Answer {
        let work = move || {
            match &self.body {
                _ if self.is_error => {}
                Body::Memory(said) => said.as_deref().map_or(Ok(()), check)?,
                Body::Disk(file) => read(file).map_err(unreadable)?.as_deref().map_or(Ok(()), check)?,
            }
            Ok(self)
        };
        heavy.check(steps, work).await
    }

    /// Takes the answer out, to send it to the run. It counts until its share is dropped.
    ///
    /// # Errors
    /// It can't be read.
    pub(crate) async fn take(self, heavy: &Heavy) -> Result<(Said, Share), Refused> {
        let cost = self.cost();
        let said = match self.body {
            Body::Memory(said) => said,
            Body::Disk(file) => heavy.scan(cost, move || read(&file)).await.map_err(unreadable)?,
        };
        Ok((said, self.share))
    }
}

impl Share {
    fn gauge(&self) -> prometheus::IntGauge {
        let place = match self.place {
            Place::Memory => "memory",
            Place::Disk => "disk",
        };
        self.keeper.0.metrics.answers.with_label_values(&[place])
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.keeper.held().give_back(&self.run, self.place, self.bytes);
        self.gauge().sub(self.bytes as i64);
    }
}

/// Size of an answer, in bytes.
fn size(said: &Said) -> u64 {
    let bytes = match said {
        Ok(result) => result.get().len(),
        Err(ToolFailure { kind, message, data }) => {
            let (kind, data) = (kind.as_ref().map_or(0, String::len), data.as_ref().map_or(0, |data| data.get().len()));
            kind + message.len() + data
        }
    };
    bytes as u64
}

fn read(mut file: &File) -> io::Result<Said> {
    let mut text = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

fn unreadable(error: io::Error) -> Refused {
    tracing::error!(%error, "an answer to a tool call can't be read from answers.dir");
    Refused::new(ErrorCode::Internal, format!("the tool has answered, but the worker can't read its answer: {error}"))
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;
    use thermae_schemas::JobId;

    use super::*;

    pub(crate) fn keeper(options: AnswerOptions) -> Keeper {
        Keeper::new(options, Metrics::new(&prometheus::Registry::new()).unwrap())
    }

    fn run(tenant: &str, job: &str) -> JobKey {
        JobKey::new(TenantName::new(tenant).unwrap(), JobId::new(job).unwrap())
    }

    /// A result of this many bytes.
    fn result(bytes: usize) -> Said {
        Ok(RawValue::from_string(format!("\"{}\"", "x".repeat(bytes - 2))).unwrap())
    }

    /// So many bytes of memory for a run, a tenant and all, and of disk for a tenant and all.
    fn options(memory: [u64; 3], disk: [u64; 2]) -> AnswerOptions {
        let [run_memory, tenant_memory, memory] = memory.map(ByteSize);
        let [tenant_disk, disk] = disk.map(ByteSize);
        AnswerOptions { run_memory, tenant_memory, memory, tenant_disk, disk, ..AnswerOptions::default() }
    }

    fn refusal(answer: Answer) -> Refused {
        answer.err().expect("a refusal")
    }

    #[tokio::test]
    async fn what_memory_has_no_room_for_is_on_the_disk_and_comes_back_as_it_was() {
        let heavy = Heavy::default();
        let keeper = keeper(options([100, 150, 1000], [1000, 1000]));
        let (a, b, c) = (run("acme", "a"), run("acme", "b"), run("globex", "c"));
        let odd = || RawValue::from_string(r#"{"n": 123456789012345678901234567890.10,  "a": "é"}"#.into()).unwrap();
        let failure = || ToolFailure { kind: Some("K".into()), message: "é".into(), data: Some(odd()) };
        let mut kept = Vec::new();
        for (run, said, place) in [
            (&a, result(100), Place::Memory),
            (&a, Ok(odd()), Place::Disk),
            (&a, Err(failure()), Place::Disk),
            (&b, result(50), Place::Memory),
            (&b, result(2), Place::Disk),
            (&c, result(100), Place::Memory),
        ] {
            let one = keeper.keep(run, said.clone()).unwrap();
            assert_eq!((one.share.place, one.bytes() as u64, one.is_error()), (place, size(&said), said.is_err()));
            kept.push((one, said));
        }
        assert_eq!(keeper.held().all.memory, 250);
        for (one, said) in kept {
            let (back, share) = one.take(&heavy).await.unwrap();
            let text = |said: &Said| serde_json::to_string(said).unwrap();
            assert_eq!(text(&back), text(&said));
            drop(share);
        }
        let held = keeper.held();
        assert!(held.all == Bytes::default() && held.tenants.is_empty() && held.runs.is_empty(), "{held:?}");
    }

    #[test]
    fn what_the_disk_has_no_room_for_is_refused_and_says_which_bound_it_was() {
        let keeper = keeper(options([0, 0, 0], [100, 150]));
        let (acme, globex) = (run("acme", "a"), run("globex", "b"));
        let first = keeper.keep(&acme, result(100)).unwrap();
        let refused = refusal(keeper.keep(&acme, result(2)));
        assert_eq!(refused.code, ErrorCode::ToolAnswerLimit);
        assert!(refused.message.contains("2 bytes") && refused.message.contains("answers.tenant_disk"), "{refused}");
        let other = keeper.keep(&globex, result(50)).unwrap();
        assert!(refusal(keeper.keep(&globex, result(2))).message.contains("raise answers.disk"));
        drop((first, other));
        assert!(keeper.keep(&acme, result(100)).is_ok(), "what was read counts no more");
    }

    #[test]
    fn an_answer_that_can_t_be_written_is_refused_and_counts_no_more() {
        let keeper = keeper(AnswerOptions { dir: "/nowhere".into(), ..options([0, 0, 0], [100, 100]) });
        for _ in 0..3 {
            let refused = refusal(keeper.keep(&run("acme", "a"), result(100)));
            assert!(refused.code == ErrorCode::ToolAnswerLimit && refused.message.contains("answers.dir"), "{refused}");
        }
    }

    #[tokio::test]
    async fn a_result_is_checked_wherever_it_is() {
        let heavy = Heavy::default();
        for memory in [0, 100] {
            let keeper = keeper(options([memory; 3], [100, 100]));
            let run = run("acme", "a");
            let checked = |said, refuses: bool| {
                keeper.keep(&run, said).unwrap().checked(&heavy, 0, move |result| {
                    assert_eq!(result.get(), r#""xxx""#);
                    if refuses { Err(Refused::new(ErrorCode::ToolAnswer, "bad")) } else { Ok(()) }
                })
            };
            let (said, _share) = checked(result(5), false).await.unwrap().take(&heavy).await.unwrap();
            assert_eq!(said.unwrap().get(), r#""xxx""#);
            assert_eq!(refusal(checked(result(5), true).await).message, "bad");
            assert!(checked(Err("an error has no result".into()), true).await.unwrap().is_error());
        }
    }

    proptest! {
        #[test]
        fn no_bound_is_ever_exceeded_and_nothing_stays_counted(
            steps in prop::collection::vec((0..3usize, 0..3usize, 2..40usize, any::<bool>()), 1..60),
            bounds in prop::array::uniform5(0..100u64),
        ) {
            let [run_memory, tenant_memory, memory, tenant_disk, disk] = bounds;
            let keeper = keeper(options([run_memory, tenant_memory, memory], [tenant_disk, disk]));
            let mut kept: Vec<Kept> = Vec::new();
            for (tenant, job, bytes, reads) in steps {
                if reads && !kept.is_empty() {
                    kept.remove(0);
                    continue;
                }
                kept.extend(keeper.keep(&run(&format!("t{tenant}"), &format!("j{job}")), result(bytes)));
                let sum = |counts: &dyn Fn(&Share) -> bool| -> u64 {
                    kept.iter().map(|kept| &kept.share).filter(|share| counts(share)).map(|share| share.bytes).sum()
                };
                let held = keeper.held();
                for (place, most, most_of_tenant) in [(Place::Memory, memory, tenant_memory), (Place::Disk, disk, tenant_disk)] {
                    let all = sum(&|share| share.place == place);
                    prop_assert!(all == *held.all.clone().of(place) && all <= most);
                    for (tenant, bytes) in &held.tenants {
                        let of_tenant = sum(&|share| share.place == place && share.run.tenant == *tenant);
                        prop_assert!(of_tenant == *bytes.clone().of(place) && of_tenant <= most_of_tenant);
                    }
                }
                for (run, bytes) in &held.runs {
                    let of_run = sum(&|share| share.place == Place::Memory && share.run == *run);
                    prop_assert!(of_run == *bytes && of_run <= run_memory);
                }
            }
            kept.clear();
            let held = keeper.held();
            prop_assert!(held.all == Bytes::default() && held.tenants.is_empty() && held.runs.is_empty());
        }
    }
}
