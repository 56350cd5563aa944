//! Guesses at keys, as many as go: an answer of the store counts for some seconds, a look into it is short, and those
//! who wait for one wait in a queue.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::program::Program;

/// Callers that guess at once.
const CALLERS: usize = 50;

/// Longer than an answer of the store counts, so that holders' keys are looked up, too.
const TIME: Duration = thermae_keys::CACHE_TTL.saturating_add(Duration::from_secs(3));

#[test]
fn guesses_let_nobody_in_and_keep_no_holder_out() {
    let program = Program::new();
    let running = program.start();
    running.await_condition("keys", true);
    let good = program.key("acme", &["--scope", "read"]);
    let (guesses, over, begun) = (AtomicUsize::new(0), AtomicBool::new(false), Instant::now());
    // A wrong answer ends the test for all.
    let wrong = |code: (u16, &str)| {
        over.store(true, Ordering::Relaxed);
        panic!("{code:?}");
    };
    let (asked, slowest) = std::thread::scope(|scope| {
        for _ in 0..CALLERS {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let number = guesses.fetch_add(1, Ordering::Relaxed);
                    // An id that doesn't exist, so that the store is asked.
                    let guess = format!("{}{number:016x}{}", &good[..4], &good[20..]);
                    let answer = running.get(&guess, "/v1/runs");
                    if answer.code() != (401, "key_unknown") {
                        wrong(answer.code());
                    }
                }
            });
        }
        let (mut asked, mut slowest) = (0, Duration::ZERO);
        let enough = |asked| asked > 1 && begun.elapsed() > TIME && guesses.load(Ordering::Relaxed) >= 500;
        while !enough(asked) && !over.load(Ordering::Relaxed) {
            let asks = Instant::now();
            // The key is good: RabbitMQ is asked, which is not there.
            match running.get(&good, "/v1/runs").code() {
                (503, "broker_unreachable") => (asked, slowest) = (asked + 1, slowest.max(asks.elapsed())),
                code => wrong(code),
            }
        }
        over.store(true, Ordering::Relaxed);
        (asked, slowest)
    });
    let guesses = guesses.into_inner();
    println!("the slowest of {asked} answers beside {guesses} guesses: {slowest:?}");
}
