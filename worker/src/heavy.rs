//! Reads and checks large inputs off the runtime's threads, and only a few at a time, so that one job's megabytes do
//! not hold up the jobs of others.

use std::panic::resume_unwind;

use tokio::sync::Semaphore;

/// Work of at most this many steps is done on the calling thread, because a hop to another thread would cost more. A
/// step is the reading of one byte, or about as much work.
const SMALL: usize = 64 << 10;

/// Limits how many large inputs are read and checked at once.
#[derive(Debug)]
pub(crate) struct Heavy {
    /// For reads. Each takes some milliseconds.
    scans: Semaphore,
    /// For checks against clients' schemas. Each may take seconds, so reads do not wait for them.
    checks: Semaphore,
}

impl Default for Heavy {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, |n| n.get());
        Self { scans: Semaphore::new(processors), checks: Semaphore::new(processors.div_ceil(2)) }
    }
}

impl Heavy {
    /// Reads something of this many bytes.
    pub(crate) async fn scan<T: Send + 'static>(&self, bytes: usize, work: impl FnOnce() -> T + Send + 'static) -> T {
        run(&self.scans, bytes, work).await
    }

    /// Checks something in this many steps.
    pub(crate) async fn check<T: Send + 'static>(&self, steps: usize, work: impl FnOnce() -> T + Send + 'static) -> T {
        run(&self.checks, steps, work).await
    }
}

async fn run<T: Send + 'static>(at_once: &Semaphore, steps: usize, work: impl FnOnce() -> T + Send + 'static) -> T {
    if steps <= SMALL {
        return work();
    }
    let _permit = at_once.acquire().await;
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(e) if e.is_panic() => resume_unwind(e.into_panic()),
        // The runtime ends, and this task ends with it.
        Err(_) => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_large_leaves_the_runtimes_thread_and_what_is_small_does_not() {
        let (heavy, here) = (Heavy::default(), std::thread::current().id());
        assert_eq!(heavy.scan(SMALL, || std::thread::current().id()).await, here);
        assert_ne!(heavy.scan(SMALL + 1, || std::thread::current().id()).await, here);
        assert_ne!(heavy.check(usize::MAX, || std::thread::current().id()).await, here);
    }
}
