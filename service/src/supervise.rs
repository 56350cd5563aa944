//! Catches the panics of tasks.
//!
//! If a task panics and nothing joins it, tokio drops the panic, and the task's work is silently left undone. So a task
//! that must not end unnoticed is run through [`caught`], and its caller decides what the panic means.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;

/// A task panicked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the task {task} panicked: {why}")]
pub struct Panicked {
    /// The task's name.
    pub task: &'static str,
    /// The panic's message.
    pub why: String,
}

/// Runs a future to its end, or until it panics. When this returns, everything that the future held is dropped. State
/// that the future shares with others must still be valid if the future stops half-way.
///
/// # Errors
/// [`Panicked`]. It has been logged.
pub async fn caught<F: Future>(task: &'static str, future: F) -> Result<F::Output, Panicked> {
    let mut future = Box::pin(future);
    let ended =
        std::future::poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(payload) => Poll::Ready(Err(Panicked { task, why: said(&*payload) })),
        });
    ended.await.inspect_err(|panicked| tracing::error!(task, why = panicked.why, "a task panicked"))
}

fn said(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no text".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_told_and_what_the_task_held_is_dropped() {
        let (held, mut gone) = tokio::sync::oneshot::channel::<()>();
        let task = async move {
            let _held = held;
            tokio::task::yield_now().await;
            panic!("at step {}", 2);
        };
        let ended: Result<(), _> = caught("steps", task).await;
        assert_eq!(ended, Err(Panicked { task: "steps", why: "at step 2".to_owned() }));
        assert!(gone.try_recv().is_err_and(|error| error == tokio::sync::oneshot::error::TryRecvError::Closed));
        assert_eq!(caught("one", async { 1 }).await, Ok(1));
    }
}
