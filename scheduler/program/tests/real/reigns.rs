//! A scheduler that leads again and again, on one connection to RabbitMQ.

use std::collections::HashSet;
use std::time::Duration;

use thermae_schemas::{Class, names};

use crate::fleet::{depth, options, pool, soon, tenant};
use crate::lanes::submit;
use crate::{Set, servers};

const LANES: usize = 40;
const REIGNS: u32 = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_reign_leaves_no_consumer_and_loses_no_job() {
    let (_set, facts) = tokio::task::spawn_blocking(Set::up).await.unwrap();
    let servers = servers(&facts).await;
    let bus = (servers.connect)().await;
    let scheduler = servers.scheduler_on(bus.clone(), options());
    soon(scheduler.health.wait_ready()).await;
    let mut order = servers.worker("w1", 8).await.work("").await;
    let mut ran = HashSet::new();
    let submit_all = async |round: u32| {
        for lane in 0..LANES {
            let tenant = tenant(&format!("t{lane}"));
            submit(&servers, tenant.clone(), Class::Normal, format!("{tenant}-{round}")).await;
        }
    };
    submit_all(0).await;
    while ran.len() < LANES {
        assert!(ran.insert(soon(order.recv()).await.unwrap().1));
    }
    scheduler.stop().await;
    for round in 1..=REIGNS {
        let scheduler = servers.scheduler_on(bus.clone(), options());
        soon(scheduler.health.wait_ready()).await;
        // Each reign ends at another point of its beginning, with consumers half subscribed.
        tokio::time::sleep(Duration::from_millis(u64::from(round) * 5)).await;
        scheduler.stop().await;
    }
    let queues: Vec<String> =
        (0..LANES).map(|n| names::submit_queue(&tenant(&format!("t{n}")), Class::Normal, &pool())).collect();
    for queue in &queues {
        // RabbitMQ doesn't report the end of a consumer, so this asks again and again.
        soon(async {
            while servers.bus.queue_consumers(queue).await.unwrap() != Some(0) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        })
        .await;
    }
    submit_all(1).await;
    for queue in &queues {
        depth(&servers, queue, |ready| ready == Some(1)).await;
    }
    let scheduler = servers.scheduler_on(bus.clone(), options());
    while ran.len() < 2 * LANES {
        assert!(ran.insert(soon(order.recv()).await.unwrap().1));
    }
    scheduler.stop().await;
}
