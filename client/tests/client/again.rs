//! Requests that are sent again, cancelled or given up.

use std::time::{Duration, Instant};

use futures::FutureExt;
use thermae_backplane::bus::Bus;
use thermae_client::{Error, Options};
use thermae_schemas::{ErrorCode, EventBody, OutputStream, Request, RequestDone, RequestEnd, Say, names};

use super::requests::{EXITED, Sessions, bytes, error_of, input, lost, request, streaming, worker};
use super::{quick, soon, tenant};

/// How long a request may be silent here.
const SILENCE: Duration = Duration::from_millis(100);

/// Options with short pauses.
fn impatient() -> Options {
    Options { first_answer: SILENCE / 4, silence: SILENCE, ..quick() }
}

#[tokio::test]
async fn a_request_without_an_answer_is_sent_again_and_more_and_more_rarely() {
    let mut sessions = Sessions::new().await;
    let client = sessions.client(impatient()).await;
    let begun = Instant::now();
    let handle = client.request(request("r"));
    let (first, _) = sessions.asked().await;
    let mut pauses = Duration::ZERO;
    for pause in [SILENCE / 4, SILENCE / 2, SILENCE, SILENCE, SILENCE] {
        let (again, _) = soon(sessions.asked()).await;
        assert!(again.headers.flag(names::H_RESEND));
        assert_eq!((&again.body, &again.message_id), (&first.body, &first.message_id));
        pauses += pause;
        assert!(begun.elapsed() >= pauses, "sent again too soon");
    }
    sessions.done(&first, 0).await;
    assert_eq!(soon(handle.done()).await.unwrap().end, EXITED);
    // After its end, it is not sent any more.
    while sessions.requests.next().now_or_never().is_some() {}
    assert!(tokio::time::timeout(SILENCE * 3, sessions.requests.next()).await.is_err());
}

#[tokio::test]
async fn a_request_that_falls_silent_is_sent_again_and_says_again_where_it_is() {
    let mut sessions = Sessions::new().await;
    let client = sessions.client(Options { first_answer: SILENCE, ..impatient() }).await;
    let handle = client.request(streaming("r", 4));
    assert!(handle.input(bytes("ab")).await);
    let (message, _) = sessions.asked().await;
    sessions.open(&message).await;
    assert_eq!(sessions.said_of("r").await, input(0, "ab", false));
    let heard = Instant::now();
    sessions.output(&message, 0, "x").await;
    let again = async {
        loop {
            let (again, _) = sessions.asked().await;
            // Before the output came, it may have been sent again, too.
            if heard.elapsed() >= SILENCE {
                return again;
            }
        }
    };
    assert!(soon(again).await.headers.flag(names::H_RESEND));

    sessions.open(&message).await;
    assert_eq!(sessions.said_of("r").await, Say::Credit(4));
    assert_eq!(sessions.said_of("r").await, input(2, "", false));
    handle.end_input();
    assert_eq!(sessions.said_of("r").await, input(2, "", true));
    handle.cancel();
    handle.cancel();
    assert_eq!(sessions.said_of("r").await, Say::Cancel {});
    sessions.open(&message).await;
    for say in [Say::Cancel {}, Say::Credit(4), input(2, "", true)] {
        assert_eq!(sessions.said_of("r").await, say);
    }
}

#[tokio::test]
async fn a_request_is_sent_again_when_the_reply_queue_was_lost() {
    let mut sessions = Sessions::new().await;
    let client = sessions.client(quick()).await;
    let handle = client.request(request("r"));
    let (message, _) = sessions.asked().await;
    sessions.fleet.bus.delete_queue(&names::reply_queue(&tenant(), client.id())).await.unwrap();
    let (again, _) = soon(sessions.asked()).await;
    assert!(again.headers.flag(names::H_RESEND) && again.body == message.body);
    sessions.done(&again, 0).await;
    assert_eq!(soon(handle.done()).await.unwrap().end, EXITED);
}

#[tokio::test]
async fn a_request_whose_worker_is_gone_asks_the_scheduler() {
    let mut sessions = Sessions::new().await;
    let client = sessions.client(quick()).await;
    let handle = client.request(streaming("r", 4));
    let (message, _) = sessions.asked().await;
    sessions.open(&message).await;
    sessions.fleet.bus.delete_queue(&names::calls_queue(&worker())).await.unwrap();
    assert!(soon(handle.input(bytes("ab"))).await);
    let (again, _) = soon(sessions.asked()).await;
    assert!(again.headers.flag(names::H_RESEND));
    sessions.tell(&again, EventBody::Done(RequestDone::bare(RequestEnd::Error { error: lost() }))).await;
    assert_eq!(error_of(&handle).await, ErrorCode::SessionLost);
}

#[tokio::test]
async fn a_cancel_waits_for_the_request_to_be_opened_and_goes_first() {
    let mut sessions = Sessions::new().await;
    let client = sessions.client(quick()).await;
    let handle = client.request(streaming("r", 4));
    assert!(soon(handle.input(bytes("ab"))).await);
    handle.cancel();
    let (message, _) = sessions.asked().await;
    sessions.open(&message).await;
    assert_eq!(sessions.said_of("r").await, Say::Cancel {});
    sessions.tell(&message, EventBody::Done(RequestDone::bare(RequestEnd::Cancelled {}))).await;
    assert_eq!(soon(handle.done()).await.unwrap().end, RequestEnd::Cancelled {});
}

#[tokio::test]
async fn a_dropped_handle_cancels_and_its_output_holds_up_nothing() {
    let mut sessions = Sessions::new().await;
    let client = sessions.client(quick()).await;
    drop(client.request(Request { window: 4, ..request("r") }));
    let (message, _) = sessions.asked().await;
    sessions.open(&message).await;
    assert_eq!(sessions.said_of("r").await, Say::Cancel {});
    sessions.output(&message, 0, "1234").await;
    assert_eq!(sessions.said_of("r").await, Say::Credit(8));
    sessions.done(&message, 4).await;
    // Its end frees its id.
    let freed = async {
        loop {
            match client.request(request("r")).done().now_or_never() {
                Some(ended) => assert!(matches!(ended, Err(Error::AlreadyRequested(_)))),
                None => return,
            }
            tokio::task::yield_now().await;
        }
    };
    soon(freed).await;
}

#[tokio::test]
async fn requests_of_one_id_and_of_a_closed_client_fail() {
    let mut sessions = Sessions::new().await;
    let client = sessions.client(quick()).await;
    let handle = client.request(request("r"));
    let twin = client.request(request("r"));
    assert!(matches!(soon(twin.done()).await, Err(Error::AlreadyRequested(id)) if id.as_str() == "r"));
    drop(twin);
    let (message, _) = sessions.asked().await;
    sessions.open(&message).await;
    sessions.output(&message, 0, "kept").await;
    assert_eq!(soon(handle.output()).await, Some((OutputStream::Stdout, bytes("kept"))), "the first goes on");
    soon(client.close()).await;
    assert!(matches!(soon(handle.done()).await, Err(Error::Closed)));
    assert_eq!(soon(handle.output()).await, None);
    assert!(matches!(soon(client.request(request("late")).done()).await, Err(Error::Closed)));
}
