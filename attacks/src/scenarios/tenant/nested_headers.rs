//! Headers that are made to harm the process that reads them.

use anyhow::Result;

use crate::evidence::Evidence;
use crate::fleet::Site;
use crate::fleet::broker::unique;
use crate::fleet::raw::{Raw, Said, short, sized};

pub(super) const SHEET: &str = r#"
tries = "submits jobs, cancels, questions and tool answers whose headers are nested as deep as one frame can hold, or hold a hundred thousand values"
wins = "the end of the scheduler and of each of its successors, because a library that reads headers by recursion overflows its stack; 32 bytes of memory for each value"
guard = "the scheduler and the worker check each frame before the AMQP library reads it, and replace excessive headers with a single one; such a message counts as forged"
uncontrolled = "the fleet can't use the AMQP library without this check; the check's tests contain such a frame, which was seen to crash the library"
held = { dropped = { min = 6 }, memory = { max = 64 } }
"#;

fn nested(levels: usize) -> Vec<u8> {
    let inner = (0..levels).fold(b"V".to_vec(), |inner, _| [b"A".to_vec(), sized(&inner)].concat());
    [short(b"h"), inner].concat()
}

pub(super) async fn attempt(site: &Site) -> Result<Evidence> {
    let url = site.attackers_url().to_owned();
    let before = site.scheduler.metric("thermae_scheduler_forged_total")?;
    let memory = site.scheduler.begin_memory()?;
    tokio::task::spawn_blocking(move || -> Result<()> {
        let mut raw = Raw::connect(&url)?;
        let wide = [short(b"h"), b"A".to_vec(), sized(&vec![b'V'; 120_000])].concat();
        for headers in [nested(20_000), nested(200), wide] {
            for (exchange, key) in [
                ("submit", "acme.normal.default"),
                ("submit", "acme.low.default"),
                ("submit", "acme.cancel"),
                ("submit", "acme.query"),
                ("calls", "acme.attacks"),
            ] {
                let said =
                    Said { headers: headers.clone(), key: key.into(), id: unique("deep").into(), ..Said::default() };
                raw.publish(exchange, &said, format!("{{\"id\": {:?}, \"code\": \"\"}}", unique("deep")).as_bytes())?;
            }
        }
        Ok(())
    })
    .await??;
    site.honest().await?;
    crate::fleet::until("the scheduler's dropping them", async || {
        Ok(site.scheduler.metric("thermae_scheduler_forged_total")? >= before + 6.0)
    })
    .await?;
    let mut evidence = Evidence::default();
    evidence.note("dropped", site.scheduler.metric("thermae_scheduler_forged_total")? - before);
    evidence.note("memory", site.scheduler.largest_memory()?.saturating_sub(memory));
    Ok(evidence)
}
