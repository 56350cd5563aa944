//! Keeps a number of jobs under way until all have ended, or until the batch is stopped.

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use thermae_schemas::{Job, Outcome};
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;

/// Runs the jobs that `next` gives, at most `at_once` at a time, and passes each outcome to `done`. `run` must give
/// `None` for a job that it gave up because of `stop`. The first failure cancels `stop`, so that no further job begins
/// and running jobs are given up, and is returned.
pub(crate) async fn drive<F>(
    at_once: usize,
    stop: &CancellationToken,
    mut next: impl FnMut() -> Result<Option<(String, Job)>, Failure>,
    run: impl Fn(String, Job) -> F,
    mut done: impl FnMut(String, Outcome) -> Result<(), Failure>,
) -> Result<(), Failure>
where
    F: Future<Output = Result<Option<Outcome>, Failure>>,
{
    let mut under_way = FuturesUnordered::new();
    let mut failed = None;
    let mut more = true;
    loop {
        while more && failed.is_none() && !stop.is_cancelled() && under_way.len() < at_once {
            match next() {
                Ok(Some((id, job))) => {
                    let running = run(id.clone(), job);
                    under_way.push(async move { (id, running.await) });
                }
                Ok(None) => more = false,
                Err(failure) => failed = Some(failure),
            }
        }
        let Some((id, ended)) = under_way.next().await else { break };
        let ended = ended.and_then(|outcome| outcome.map_or(Ok(()), |outcome| done(id, outcome)));
        if let Err(failure) = ended {
            stop.cancel();
            failed.get_or_insert(failure);
        }
    }
    failed.map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use thermae_schemas::Status;
    use tokio::sync::Notify;

    use super::*;

    fn source(count: usize) -> impl FnMut() -> Result<Option<(String, Job)>, Failure> {
        let mut n = 0;
        move || {
            n += 1;
            Ok((n <= count).then(|| (n.to_string(), Job::python(""))))
        }
    }

    #[tokio::test]
    async fn so_many_and_no_more_are_under_way() {
        let (now, most, results) = (Cell::new(0), Cell::new(0), RefCell::new(Vec::new()));
        let run = |_, _| {
            now.set(now.get() + 1);
            most.set(most.get().max(now.get()));
            let now = &now;
            async move {
                tokio::task::yield_now().await;
                now.set(now.get() - 1);
                Ok(Some(Outcome::new(Status::Succeeded)))
            }
        };
        let done = |id, _| {
            results.borrow_mut().push(id);
            Ok(())
        };
        drive(4, &CancellationToken::new(), source(100), run, done).await.unwrap();
        assert_eq!((most.get(), results.borrow().len()), (4, 100));
    }

    #[tokio::test]
    async fn stop_begins_nothing_more_and_keeps_what_ended() {
        let (stop, begun, gate) = (CancellationToken::new(), Cell::new(0), Notify::new());
        let run = |_, _| {
            begun.set(begun.get() + 1);
            let (first, stop, gate) = (begun.get() == 1, &stop, &gate);
            async move {
                if first {
                    return Ok(Some(Outcome::new(Status::Succeeded)));
                }
                gate.notify_one();
                stop.cancelled().await;
                Ok(None)
            }
        };
        let results = Cell::new(0);
        let done = |_, _| {
            results.set(results.get() + 1);
            Ok(())
        };
        let stopper = async {
            gate.notified().await;
            stop.cancel();
        };
        let (ended, ()) = tokio::join!(drive(2, &stop, source(100), run, done), stopper);
        ended.unwrap();
        assert_eq!(results.get(), 1);
        assert!(begun.get() <= 3, "{}", begun.get());
    }

    #[tokio::test]
    async fn the_first_failure_ends_it_all() {
        let stop = CancellationToken::new();
        let run = |_, _| {
            let stop = &stop;
            async move {
                tokio::select! {
                    () = stop.cancelled() => Ok(None),
                    () = tokio::task::yield_now() => Err(Failure::fleet("broker_denied", "no")),
                }
            }
        };
        let failure = drive(3, &stop, source(9), run, |_, _| Ok(())).await.unwrap_err();
        assert_eq!(failure.code, "broker_denied");
    }
}
