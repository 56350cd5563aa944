//! Headers that are made for whoever reads them.

use anyhow::Result;

use crate::evidence::Evidence;
use crate::fleet::Site;
use crate::fleet::broker::unique;
use crate::fleet::raw::{Raw, Said, short, sized};

pub(super) const SHEET: &str = r#"
tries = "submits jobs, cancels, questions and tool answers whose headers are nested as deep as one frame can hold, and whose headers are a hundred thousand values"
wins = "an end of the scheduler, and of each that follows it: whoever reads them by recursion overflows its stack; and 32 bytes of memory for each one sent"
guard = "scheduler and worker look at each frame before the AMQP library does, and make one header of too much; such a message counts as forged"
uncontrolled = "the library's reading can't be had without the look; the library's end by such a frame was seen, and is in the looking code's tests"
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
