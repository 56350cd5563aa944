//! `thermae approvals`.

use std::num::NonZeroU32;

use clap::{Args, Subcommand};

use super::FleetArgs;

const APPROVALS_EXAMPLES: &str = "\
Examples:
  thermae approvals list RUN --amqp-file fleet.url
  thermae approvals approve RUN CALL --amqp-file approver.url
  thermae approvals deny RUN CALL --reason 'not this account' --amqp-file approver.url

RUN is the id of the job whose program makes the call. RabbitMQ decides which users may approve \
(docs/approval.md). The first decision about a call counts.

Exit status: 0 success; 1 the call does not wait for approval, or was decided otherwise; 2 usage; 3 the fleet failed; \
130 interrupted.
";

/// `thermae approvals`.
#[derive(Debug, Args)]
#[command(after_help = APPROVALS_EXAMPLES)]
pub(crate) struct ApprovalsArgs {
    /// What to do.
    #[command(subcommand)]
    pub(crate) verb: ApprovalsVerb,
}

/// What to do with calls that wait for approval.
#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalsVerb {
    /// List the calls of a run that wait for approval
    List {
        /// Id of the job
        #[arg(value_name = "RUN")]
        run: String,
        /// Which fleet.
        #[command(flatten)]
        fleet: Box<FleetArgs>,
        /// Print the calls as a JSON array
        #[arg(long, help_heading = "Output")]
        json: bool,
    },
    /// Approve a call
    Approve {
        /// The call.
        #[command(flatten)]
        of: Box<OfArgs>,
        /// Number of calls that the yes counts for: this one, and the next ones that its capability takes
        #[arg(long, value_name = "N", default_value = "1")]
        calls: NonZeroU32,
        /// Why, for the audit log
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Deny a call
    Deny {
        /// The call.
        #[command(flatten)]
        of: Box<OfArgs>,
        /// Why, for the program and for the audit log
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

/// A call of a run.
#[derive(Debug, Args)]
pub(crate) struct OfArgs {
    /// Id of the job
    #[arg(value_name = "RUN")]
    pub(crate) run: String,
    /// Id of the call, as `list` shows it
    #[arg(value_name = "CALL")]
    pub(crate) call: String,
    /// Which fleet.
    #[command(flatten)]
    pub(crate) fleet: FleetArgs,
}
