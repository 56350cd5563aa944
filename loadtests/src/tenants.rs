//! What it costs to change tenants: each job belongs to another tenant than the one before, and no container may serve
//! two tenants.

use std::time::Instant;

use anyhow::{Result, bail};
use hdrhistogram::Histogram;
use thermae_schemas::TenantName;

use crate::cases::Case;
use crate::report::Row;
use crate::target::Target;

/// How many and how much.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Options {
    /// Number of tenants.
    #[arg(long, default_value_t = 50)]
    pub tenants: u32,
    /// Number of timed turns. In each turn, every tenant has one job.
    #[arg(long, default_value_t = 10)]
    pub turns: u32,
}

/// Runs prints, one in flight, each for the next tenant. The rows are `tenants<N>_new`, with each tenant's first job,
/// and `tenants<N>`, with the jobs of later turns.
///
/// # Errors
/// The fleet takes no jobs of these tenants, or an answer is wrong.
pub async fn measure(target: &Target, on: &str, options: Options) -> Result<Vec<Row>> {
    let mut clients = Vec::new();
    for n in 0..options.tenants {
        clients.push(target.client_of(TenantName::new(format!("bench-{n}"))?).await?);
    }
    let (mut new, mut turns) = (Histogram::<u64>::new(3)?, Histogram::<u64>::new(3)?);
    for turn in 0..=options.turns {
        for client in &clients {
            let begun = Instant::now();
            let outcome = client.submit(Case::Print.job(""), None).await?.result().await?;
            let took = begun.elapsed();
            if let Err(wrong) = Case::Print.check(&outcome) {
                bail!(wrong);
            }
            if turn == 0 { &mut new } else { &mut turns }.record(took.as_nanos() as u64)?;
        }
    }
    let case = format!("tenants{}", options.tenants);
    Ok(vec![Row::new(&format!("{case}_new"), on, &new, None), Row::new(&case, on, &turns, None)])
}
