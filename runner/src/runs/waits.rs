//! How long a run has waited for answers of its tool calls. This time counts against a limit of its own, and not
//! against the wall clock.
//!
//! The process says when it waits, and nothing of what it says is trusted. A wait counts only while calls are
//! outstanding and the process has got every answer, from the last message on. Before a wait may be long, the process
//! is stopped: that time is certain. The rest counts as far as the processes have used no CPU time in it.

use std::time::{Duration, Instant};

use crate::channel::Message;
use crate::frames::Limits;

/// The most that a process may say a wait has lasted before it said so.
const SILENT: Duration = Duration::from_millis(250);

/// How much later than due a run may be timed out, because it may just have begun to wait.
const SLACK: Duration = Duration::from_millis(250);

/// Shortest time between two readings of the CPU time while a wait goes on.
const LOOK: Duration = Duration::from_millis(20);

/// Whether the runner has stopped a run's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Halt {
    /// It goes on.
    None,
    /// It was sent the signal, and the kernel has not reported yet that it has stopped.
    Asked,
    /// It has stopped.
    Stopped,
}

/// A wait that goes on.
#[derive(Debug, Clone, Copy)]
struct Wait {
    since: Instant,
    /// Since when the process is stopped.
    stopped: Option<Instant>,
    /// Whether the process has timers of its own. If so, it is not stopped.
    timers: bool,
    /// Whether the worker knows that it waits and is not stopped.
    stays: bool,
}

/// The waits of one run.
#[derive(Debug)]
pub(super) struct Waits {
    /// The most that counts.
    most: Duration,
    /// How long a wait lasts before the process is stopped.
    after: Duration,
    pub(super) halt: Halt,
    wait: Option<Wait>,
    /// Whether no wait counts until the next answer.
    charged: bool,
    /// Whether no wait counts any more.
    closed: bool,
    /// Answers that were sent.
    answers: u64,
    /// The last message to or from the process.
    last: Instant,
    /// How long the process has waited altogether without saying it at once, as far as it has said so.
    told: Duration,
    /// How long that can have been since it said so.
    untold: Duration,
    /// Time that was certainly waited: the process was stopped.
    certain: Duration,
    /// Time that the process says it has waited, as far as that agrees with its messages.
    claimed: Duration,
    /// The part of `claimed` that agrees with the CPU time, too.
    confirmed: Duration,
    /// When the CPU time was read, and what `claimed` was then.
    looked: Option<Instant>,
    looked_at: Duration,
    /// How often something else has continued the process.
    pub(super) continued: u32,
    /// The time by which it must have stopped again.
    pub(super) again_by: Option<Instant>,
    /// When the stopped process is looked at for signals. `None` if none can come, or the worker knows of one.
    pub(super) signals_at: Option<Instant>,
}

impl Waits {
    /// The waits of a run that begins now.
    pub(super) fn new(limits: &Limits, now: Instant) -> Self {
        Self {
            most: Duration::from_millis(limits.pause_ms),
            after: Duration::from_millis(limits.pause_after_ms),
            halt: Halt::None,
            wait: None,
            charged: false,
            closed: false,
            answers: 0,
            last: now,
            told: Duration::ZERO,
            untold: Duration::ZERO,
            certain: Duration::ZERO,
            claimed: Duration::ZERO,
            confirmed: Duration::ZERO,
            looked: None,
            looked_at: Duration::ZERO,
            continued: 0,
            again_by: None,
            signals_at: None,
        }
    }

    /// Takes note of a message of the process, which ends a wait. `outstanding` is whether calls are.
    pub(super) fn heard(&mut self, message: &Message, outstanding: bool, now: Instant) {
        self.end(now);
        if self.halt == Halt::Stopped {
            // Another process has sent it. The stopped one has no slot to go on.
            self.charged = true;
        }
        let before = std::mem::replace(&mut self.last, now);
        if let Some(waited) = message.waited.map(Duration::from_millis) {
            self.claimed += waited.saturating_sub(self.told).min(self.untold);
            (self.told, self.untold) = (waited, Duration::ZERO);
        }
        let waits = message.op == "waits" && outstanding && message.got == Some(self.answers);
        if waits && !self.charged && !self.closed {
            let silent = Duration::from_millis(message.for_ms.unwrap_or(0)).min(SILENT);
            let since = now.checked_sub(silent).map_or(before, |since| since.max(before));
            self.wait = Some(Wait { since, stopped: None, timers: message.timers, stays: false });
        }
    }

    /// Takes note of an answer that is sent now. It ends a wait.
    pub(super) fn answered(&mut self, now: Instant) {
        match self.wait {
            Some(_) => self.end(now),
            None if self.charged => {}
            None => self.untold += now - self.last,
        }
        self.answers += 1;
        self.last = now;
        self.charged = false;
    }

    /// Ends a wait, if one goes on. It counts until now.
    pub(super) fn end(&mut self, now: Instant) {
        (self.claimed, self.certain) = (self.claimed_at(now), self.certain_at(now));
        self.wait = None;
    }

    /// Ends a wait. Until the next answer, no time counts any more.
    pub(super) fn charge(&mut self, now: Instant) {
        self.charged |= self.wait.is_some();
        self.end(now);
    }

    /// Takes a wait back that was none: the sandbox goes on. Until the next answer, no time counts any more.
    pub(super) fn refuse(&mut self) {
        self.wait = None;
        self.charged = true;
    }

    /// Ends a wait. No time counts any more in this run.
    pub(super) fn close(&mut self, now: Instant) {
        self.end(now);
        self.closed = true;
    }

    /// Takes note that the process has stopped.
    pub(super) fn stopped(&mut self, now: Instant) {
        self.halt = Halt::Stopped;
        if let Some(wait) = &mut self.wait {
            wait.stopped = Some(now);
        }
    }

    /// Takes note that the worker is told of a wait without a stop. Returns whether it is one, because of timers.
    pub(super) fn stays(&mut self) -> bool {
        let Some(wait) = self.wait.as_mut().filter(|wait| wait.timers) else { return false };
        wait.stays = true;
        true
    }

    /// When the process is to be stopped, or must have stopped.
    pub(super) fn stop_at(&self) -> Option<Instant> {
        if self.again_by.is_some() {
            return self.again_by;
        }
        let wait = self.wait.filter(|wait| self.halt == Halt::None && !self.most.is_zero() && !wait.stays)?;
        Some(wait.since + self.after)
    }

    /// Whether a wait goes on.
    pub(super) fn goes_on(&self) -> bool {
        self.wait.is_some()
    }

    fn certain_at(&self, now: Instant) -> Duration {
        let stopped = self.wait.and_then(|wait| wait.stopped);
        self.certain + stopped.map_or(Duration::ZERO, |since| now - since)
    }

    fn claimed_at(&self, now: Instant) -> Duration {
        let waited = |wait: Wait| wait.stopped.unwrap_or(now).saturating_duration_since(wait.since);
        self.claimed + self.wait.map_or(Duration::ZERO, waited)
    }

    /// The time so far that does not count against the wall clock.
    fn counted(&self, now: Instant) -> Duration {
        (self.certain_at(now) + self.confirmed.min(self.claimed_at(now))).min(self.most)
    }

    /// As [`Waits::counted`], for the report on a run that ends now, `elapsed` after its beginning, and has used this
    /// CPU time.
    pub(super) fn paused(&self, now: Instant, elapsed: Duration, cpu: Duration) -> Duration {
        let certain = self.certain_at(now);
        let claimed = self.claimed_at(now).min(elapsed.saturating_sub(cpu + certain));
        (certain + claimed).min(self.most)
    }

    /// Whether the wall-clock time is over, which ends after `wall` from `began` on if the run never waits.
    /// `outstanding` is whether calls are, and `cpu` is the CPU time that the run has used.
    pub(super) fn wall_is_over(
        &mut self,
        began: Instant,
        wall: Duration,
        outstanding: bool,
        now: Instant,
        cpu: impl FnOnce() -> Duration,
    ) -> bool {
        if now < began + wall + self.counted(now) {
            return false;
        }
        let claimed = self.claimed_at(now);
        if claimed > self.looked_at {
            if now < self.look_at() {
                return false;
            }
            let busy = cpu() + self.certain_at(now);
            self.confirmed = claimed.min((now - began).saturating_sub(busy));
            (self.looked_at, self.looked) = (claimed, Some(now));
        }
        let due = began + wall + self.counted(now);
        now >= due + self.slack(due, outstanding)
    }

    /// When [`Waits::wall_is_over`] may find that the time is over.
    pub(super) fn wall_due(&self, began: Instant, wall: Duration, outstanding: bool, now: Instant) -> Instant {
        let due = began + wall + self.counted(now);
        match self.wait {
            // While it is stopped, the limit moves on until the waiting has used up its own.
            Some(Wait { stopped: Some(_), .. }) if now < due => began + wall + self.most,
            _ if self.claimed_at(now) > self.looked_at => due.max(self.look_at()),
            _ => due + self.slack(due, outstanding),
        }
    }

    /// The CPU time is not read before then.
    fn look_at(&self) -> Instant {
        self.looked.filter(|_| self.wait.is_some()).map_or(self.last, |at| at + LOOK)
    }

    /// How much later than due the run may be timed out. It may wait, or have waited, and not have said so yet.
    fn slack(&self, due: Instant, outstanding: bool) -> Duration {
        if self.wait.is_some() || self.charged || self.closed || self.certain + self.claimed >= self.most {
            return Duration::ZERO;
        }
        let waiting = if outstanding { (self.last + SLACK).saturating_duration_since(due) } else { Duration::ZERO };
        waiting.max(self.untold).min(SLACK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL: Duration = Duration::from_millis(1000);

    /// The waits of a run, and when it began.
    fn begun() -> (Waits, Instant) {
        let now = Instant::now();
        let limits = Limits {
            wall_ms: 1000,
            pause_ms: 5000,
            pause_after_ms: 1000,
            grace_ms: 1,
            cpu_ms: 1,
            memory_bytes: 1,
            pids: 1,
            output_bytes: 1,
        };
        (Waits::new(&limits, now), now)
    }

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn message(json: &str) -> Message {
        serde_json::from_str(json).unwrap()
    }

    fn says(waits: &mut Waits, now: Instant, json: &str) {
        waits.heard(&message(json), true, now);
    }

    /// Whether the wall-clock time is over, for a run that has used no CPU time and has a call outstanding.
    fn is_over(waits: &mut Waits, began: Instant, after: u64) -> bool {
        let over = waits.wall_is_over(began, WALL, true, began + ms(after), || Duration::ZERO);
        // The engine's loop would spin if a check that changes nothing were due again at once.
        let due = waits.wall_due(began, WALL, true, began + ms(after));
        assert!(over || due > began + ms(after), "due {:?} after {after} ms", due - began);
        over
    }

    #[test]
    fn a_wait_moves_the_end_until_its_limit_is_used_up() {
        let (mut waits, t) = begun();
        says(&mut waits, t + ms(100), r#"{"op":"call"}"#);
        says(&mut waits, t + ms(300), r#"{"op":"waits","got":0,"for_ms":200}"#);
        assert_eq!(waits.stop_at(), Some(t + ms(1100)));
        assert!(!is_over(&mut waits, t, 1050));
        waits.stopped(t + ms(1110));
        assert!(!is_over(&mut waits, t, 5000));
        assert_eq!(waits.wall_due(t, WALL, true, t + ms(5000)), t + ms(6000));
        assert!(!is_over(&mut waits, t, 5999));
        assert!(is_over(&mut waits, t, 6000));
        assert_eq!(waits.counted(t + ms(9000)), ms(5000));
        // An answer ends it.
        let (mut waits, t) = begun();
        says(&mut waits, t + ms(300), r#"{"op":"waits","got":0,"for_ms":0}"#);
        waits.stopped(t + ms(1300));
        waits.answered(t + ms(3300));
        assert!(!is_over(&mut waits, t, 3999));
        assert!(is_over(&mut waits, t, 4000 + 250), "{waits:?}");
    }

    #[test]
    fn a_wait_with_timers_counts_without_a_stop() {
        let (mut waits, t) = begun();
        says(&mut waits, t, r#"{"op":"waits","got":0,"for_ms":0,"timers":true}"#);
        assert_eq!(waits.stop_at(), Some(t + ms(1000)));
        assert!(waits.stays() && waits.stop_at().is_none());
        assert!(!is_over(&mut waits, t, 3000) && waits.counted(t + ms(3000)) == ms(3000));
        // The timers are over.
        says(&mut waits, t + ms(3000), r#"{"op":"waits","got":0,"for_ms":0}"#);
        assert_eq!(waits.stop_at(), Some(t + ms(4000)));
        assert!(!waits.stays());
    }

    #[test]
    fn a_wait_ends_when_the_process_says_so() {
        let (mut waits, t) = begun();
        says(&mut waits, t, r#"{"op":"waits","got":0,"for_ms":0,"timers":true}"#);
        assert!(!is_over(&mut waits, t, 1100));
        says(&mut waits, t + ms(1500), r#"{"op":"waits"}"#);
        assert!(!waits.goes_on() && waits.stop_at().is_none());
        assert_eq!(waits.claimed_at(t + ms(9000)), ms(1500));
        assert!(is_over(&mut waits, t, 2750), "{waits:?}");
    }

    #[test]
    fn what_used_cpu_time_was_no_waiting() {
        let (mut waits, t) = begun();
        says(&mut waits, t, r#"{"op":"waits","got":0,"for_ms":0}"#);
        let busy = waits.wall_is_over(t, WALL, true, t + ms(1000), || ms(900));
        assert!(!busy && waits.counted(t + ms(1000)) == ms(100));
        assert!(waits.wall_is_over(t, WALL, true, t + ms(1100), || ms(1100)));
    }

    #[test]
    fn a_wait_that_was_refused_or_charged_ends_until_the_next_answer() {
        for refuse in [true, false] {
            let (mut waits, t) = begun();
            says(&mut waits, t, r#"{"op":"waits","got":0,"for_ms":0}"#);
            if refuse {
                waits.refuse()
            } else {
                waits.charge(t + ms(400))
            }
            says(&mut waits, t + ms(500), r#"{"op":"waits","got":0,"for_ms":0}"#);
            assert!(!waits.goes_on());
            let counted = if refuse { 0 } else { 400 };
            assert!(!is_over(&mut waits, t, 999 + counted));
            assert!(is_over(&mut waits, t, 1000 + counted));
            waits.answered(t + ms(600));
            says(&mut waits, t + ms(700), r#"{"op":"waits","got":1,"for_ms":0}"#);
            assert!(waits.goes_on());
        }
    }

    #[test]
    fn short_waits_count_as_far_as_they_were_seen() {
        let (mut waits, t) = begun();
        for n in 0..5 {
            says(&mut waits, t + ms(n * 200), &format!(r#"{{"op":"call","waited":{}}}"#, n * 900));
            waits.answered(t + ms(n * 200 + 150));
        }
        says(&mut waits, t + ms(960), r#"{"op":"call","waited":9000}"#);
        assert!(!is_over(&mut waits, t, 1000));
        assert_eq!(waits.counted(t + ms(1000)), ms(5 * 150));
    }

    #[test]
    fn a_run_that_may_just_wait_is_looked_at_again_and_only_once() {
        let (mut waits, t) = begun();
        says(&mut waits, t + ms(900), r#"{"op":"call"}"#);
        assert!(!is_over(&mut waits, t, 1000) && !is_over(&mut waits, t, 1149) && is_over(&mut waits, t, 1150));
        let (mut waits, t) = begun();
        for n in 1..12 {
            says(&mut waits, t + ms(n * 100), r#"{"op":"display"}"#);
        }
        assert!(!is_over(&mut waits, t, 1249) && is_over(&mut waits, t, 1250));
        // Without a call, it can't wait.
        assert!(begun().0.wall_is_over(t, WALL, false, t + ms(1000), || Duration::ZERO));
    }
}
