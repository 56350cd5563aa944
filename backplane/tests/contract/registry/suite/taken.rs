//! Runs that another client takes over.

use bytes::Bytes;
use thermae_backplane::record::{Address, Answer, EndUnstarted, Finish, Resolve, Start, TakeOver, Taker};
use thermae_backplane::registry::{Admitted, SharedRegistry};

use super::super::{
    TTL, admit, attempt, beat, claim, end_unstarted, finish, job, resolve, running, start, tenant, worker,
};

fn address(reply_key: &str, mark: Option<&str>) -> Address {
    Address { reply_key: reply_key.to_owned(), correlation_id: mark.map(str::to_owned) }
}

/// The client that has submitted the job.
fn first() -> Address {
    address("acme.c", Some("mark"))
}

/// The address that an answer names.
fn told<T>(answer: Answer<T>) -> (T, Option<Address>) {
    (answer.what, answer.taker.map(|taker| taker.address))
}

async fn take(registry: &SharedRegistry, name: &str, to: &Address) -> TakeOver {
    registry.take_over(&job(name), to).await.unwrap()
}

/// Has a worker start the job.
async fn begin(registry: &SharedRegistry, name: &str) -> Answer<Start> {
    let epoch = registry.epoch().await.unwrap();
    registry.admit(&admit(name)).await.unwrap();
    registry.start(&start(name, claim(1, "w", "n"), &epoch)).await.unwrap()
}

pub async fn a_run_belongs_to_the_client_that_took_it_over_last(registry: SharedRegistry) {
    registry.admit(&admit("a")).await.unwrap();
    let (one, two) = (address("acme.one", None), address("acme.two", Some("2")));
    // The client that has submitted the job has it already, so that nothing changes.
    let same = TakeOver::Assigned { attempt: 1, previous: None };
    let before = registry.lookup(&job("a")).await.unwrap();
    assert_eq!(take(&registry, "a", &first()).await, same);
    assert_eq!(registry.lookup(&job("a")).await.unwrap(), before);
    assert_eq!(take(&registry, "a", &one).await, TakeOver::Assigned { attempt: 1, previous: Some(first()) });
    assert_eq!(take(&registry, "a", &one).await, same, "a repeat");
    let (what, to) = told(begin(&registry, "a").await);
    assert_eq!((what, to), (Start::Go, Some(one.clone())));
    let TakeOver::Started { owner, attempt: 1, at: Some(at), previous } = take(&registry, "a", &two).await else {
        panic!("it has started")
    };
    assert_eq!((owner, previous), (worker("w"), Some(one)));
    let again = TakeOver::Started { owner: worker("w"), attempt: 1, at: Some(at), previous: None };
    assert_eq!(take(&registry, "a", &two).await, again);
    // The same client with another mark. It is told nothing, and its place in the order is new.
    let marked = address("acme.two", None);
    let TakeOver::Started { at: Some(later), previous: None, .. } = take(&registry, "a", &marked).await else {
        panic!("it had the run")
    };
    assert!(later > at);
    let TakeOver::Started { at: Some(last), previous, .. } = take(&registry, "a", &first()).await else {
        panic!("it has started")
    };
    assert!(last > later && previous == Some(marked));
    let record = registry.lookup(&job("a")).await.unwrap().unwrap();
    assert_eq!(record.taker(), Some(Taker { address: first(), at: last }));
}

pub async fn an_outcome_goes_to_whoever_took_the_run_over(registry: SharedRegistry) {
    let (one, epoch) = (address("acme.one", Some("1")), registry.epoch().await.unwrap());
    let to = || Some(one.clone());
    assert_eq!(begin(&registry, "a").await, Start::Go);
    take(&registry, "a", &one).await;
    // The worker repeats its start because it did not get the answer, and then its finish.
    let again = registry.start(&start("a", claim(1, "w", "n"), &epoch)).await.unwrap();
    assert_eq!(told(again), (Start::Go, to()));
    for _ in 0..2 {
        let won = registry.finish(&finish("a", claim(1, "w", "n"), "done")).await.unwrap();
        assert_eq!(told(won), (Finish::Won, to()));
    }
    let done = || Bytes::from("done").into();
    let copy = registry.start(&start("a", claim(1, "v", "o"), &epoch)).await.unwrap();
    assert_eq!(told(copy), (Start::Terminal(done()), to()));
    let copy = registry.finish(&finish("a", claim(1, "v", "o"), "other")).await.unwrap();
    assert_eq!(told(copy), (Finish::Terminal(done()), to()));
    let copy = registry.resolve(&resolve("a", 1, 1)).await.unwrap();
    assert_eq!(told(copy), (Resolve::Terminal(done()), to()));
    let late = registry.end_unstarted(&end_unstarted("a", "cancelled")).await.unwrap();
    assert_eq!(told(late), (EndUnstarted::Terminal(done()), to()));
    assert_eq!(registry.admit(&admit("a")).await.unwrap(), Admitted::Terminal(done()), "its submitter is answered");
    // A job that ends before it starts, and one that is lost.
    registry.admit(&admit("b")).await.unwrap();
    take(&registry, "b", &one).await;
    for _ in 0..2 {
        let won = registry.end_unstarted(&end_unstarted("b", "cancelled")).await.unwrap();
        assert_eq!(told(won), (EndUnstarted::Won, to()));
    }
    begin(&registry, "c").await;
    take(&registry, "c", &one).await;
    registry.abandon(&job("c"), &claim(1, "w", "n")).await.unwrap();
    let lost = registry.resolve(&resolve("c", 1, 1)).await.unwrap();
    assert_eq!(told(lost), (Resolve::Lost, to()));
    // Nothing is kept of the client of a job that nobody took over.
    begin(&registry, "d").await;
    assert_eq!(registry.finish(&finish("d", claim(1, "w", "n"), "done")).await.unwrap(), Finish::Won);
    let record = registry.lookup(&job("d")).await.unwrap().unwrap();
    assert_eq!((record.address(), record.taken), (None, None));
}

pub async fn a_run_that_is_taken_over_stays_so_through_further_attempts(registry: SharedRegistry) {
    let (one, epoch) = (address("acme.one", None), registry.epoch().await.unwrap());
    let mut request = admit("a");
    request.max_attempts = 2;
    assert_eq!(attempt(&registry.admit(&request).await.unwrap()), Some(1));
    registry.start(&start("a", claim(1, "w", "n"), &epoch)).await.unwrap();
    take(&registry, "a", &one).await;
    registry.abandon(&job("a"), &claim(1, "w", "n")).await.unwrap();
    assert_eq!(registry.resolve(&resolve("a", 1, 2)).await.unwrap().what, Resolve::Reassign(2));
    assert_eq!(attempt(&registry.admit(&request).await.unwrap()), Some(2), "the job's message comes again");
    let begun = registry.start(&start("a", claim(2, "v", "o"), &epoch)).await.unwrap();
    assert_eq!(told(begun), (Start::Go, Some(one.clone())));
    assert_eq!(registry.finish(&finish("a", claim(1, "w", "n"), "late")).await.unwrap().what, Finish::Superseded);
    let mut word = beat("v");
    word.running = vec![running("a", 2, "o")];
    assert_eq!(registry.heartbeat(&word, TTL).await.unwrap().revoked, []);
    let won = registry.finish(&finish("a", claim(2, "v", "o"), "done")).await.unwrap();
    assert_eq!(told(won), (Finish::Won, Some(one)));
}

pub async fn what_has_ended_or_is_not_known_is_not_taken_over(registry: SharedRegistry) {
    let one = address("acme.one", None);
    assert_eq!(take(&registry, "a", &one).await, TakeOver::Absent);
    assert_eq!(registry.lookup(&job("a")).await.unwrap(), None);
    begin(&registry, "a").await;
    let mut foreign = job("a");
    foreign.tenant = tenant("globex");
    assert_eq!(registry.take_over(&foreign, &one).await.unwrap(), TakeOver::Absent);
    registry.finish(&finish("a", claim(1, "w", "n"), "done")).await.unwrap();
    let record = registry.lookup(&job("a")).await.unwrap();
    assert_eq!(take(&registry, "a", &one).await, TakeOver::Ended);
    assert_eq!(registry.lookup(&job("a")).await.unwrap(), record);
}
