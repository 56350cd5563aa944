//! Pages of the documentation that are generated from the program, so that they always match it.
//! `thermae reference PAGE` prints a page. A test compares the output with the file in `docs/`.

mod keys;

use std::fmt::Write;

use schemars::JsonSchema;
use thermae_schemas::ErrorCode;
use thermae_service::telemetry;

use crate::advice::advice;
use crate::args::Page;
use crate::failure::{CODES, Exit, blames_the_job};
use crate::tools::ToolsFile;

/// The Markdown text of a generated page.
pub(crate) fn page(page: Page) -> String {
    match page {
        Page::Configuration => configuration(),
        Page::Errors => errors(),
    }
}

const CONFIGURATION: &str = "\
# Configuration

<!-- Made by `thermae reference configuration`; a test keeps it current. -->

`thermae-scheduler`, `thermae-worker` and `thermae-gateway` read each setting from these sources, and a later source
overrides an earlier one:

1. the default
2. the TOML file that `--config FILE` or `THERMAE_CONFIG` names
3. the environment
4. flags

An unknown key is an error. The message names the key's path and its source. [architecture.md](architecture.md#words)
explains the terms on this page.

- **Environment.** The variable of a key is `THERMAE_` and the key's path in capitals, with `__` between its words:
  `THERMAE_POOLS__DEFAULT__SLOTS=4` sets `pools.default.slots`. Write lists and tables as TOML:
  `THERMAE_POOLS__DEFAULT__LANGUAGES='[\"python\"]'`. An empty variable counts as absent. A variable whose first word
  (up to `__`) is unknown is ignored, because several programs can share one environment.
- **Secrets.** You can give a key `K` of type *secret* as a file: `K_file` names the file that contains the value. This
  works in the TOML file (`amqp_file = \"/run/secrets/amqp\"`) and in the environment (`THERMAE_AMQP_FILE`,
  `THERMAE_ARTIFACTS__SIGNING_KEY_FILE`). A line break at the end of the file is ignored. One source may set only one of
  the two. If one source sets `K` and another `K_file`, the later source wins. Logs and errors never show a secret.
- **Times and sizes.** Write times as `500ms`, `30s`, `5m`, `1h` or `1d`, and sizes as `64KiB`, `256MiB`, `1GiB` or
  `10MB`. A plain number means milliseconds or bytes.
- **Logs and traces.** `THERMAE_LOG` (a filter such as `debug`, or `info,thermae_worker=debug`), `THERMAE_LOG_FORMAT`
  (`auto`, `text`, `json`) and `THERMAE_OTLP_ENDPOINT` (traces over gRPC) work in every program. They override the keys
  in its `telemetry` table.
- **Limits.** In `pools.<name>.limits`, `default` is for jobs that ask for no limit of their own, and `ceiling` is the
  most that a job may ask for.
- **Tools file.** `--tools-file` names a tools file (`thermae.toml`). Without this option, `thermae` uses the one beside
  the program if you have trusted it (`thermae trust`). Trust applies to the file's path and content. It is recorded
  below `XDG_STATE_HOME`, or else below `~/.local/state`.
- **Command line.** If an option is not given, `thermae` reads the variable of the same name: `THERMAE_AMQP`,
  `THERMAE_AMQP_FILE`, `THERMAE_AMQP_PASSWORD_FILE`, `THERMAE_TLS_CA`, `THERMAE_TLS_CERT`, `THERMAE_TLS_KEY`,
  `THERMAE_TENANT` or `THERMAE_PYTHON`. It also reads `THERMAE_AMQP_PASSWORD`, which has no option.
";

fn configuration() -> String {
    let mut text = CONFIGURATION.to_owned();
    section::<thermae_scheduler::Config>(&mut text, "thermae-scheduler");
    section::<thermae_worker::Config>(&mut text, "thermae-worker");
    section::<thermae_gateway::Config>(&mut text, "thermae-gateway");
    section::<telemetry::Options>(&mut text, "The table `telemetry` of all three programs");
    section::<ToolsFile>(&mut text, "thermae.toml, a tools file");
    text
}

fn section<T: JsonSchema>(text: &mut String, title: &str) {
    let _ = write!(text, "\n## {title}\n\n| key | type | default | meaning |\n| --- | --- | --- | --- |\n");
    for key in keys::of::<T>() {
        let default = if key.default.is_empty() { String::new() } else { format!("`{}`", key.default) };
        let _ = writeln!(
            text,
            "| `{}` | {} | {default} | {} |",
            key.path,
            key.kind.replace('|', "\\|"),
            key.meaning.replace('|', "\\|")
        );
    }
}

const ERRORS: &str = "\
# Errors

<!-- Made by `thermae reference errors`; a test keeps it current. -->

If an outcome is not `succeeded`, it has an error with these fields:

- `code` never changes its meaning, so programs can rely on it.
- `message` is for people and models.
- `safe_to_retry` is true only if no part of the job ran and the cause can pass.

To run a job again, submit it under a new id. If you submit it under its old id, you get its recorded outcome again.

## Statuses

| status | meaning | exit status of `thermae run` |
| --- | --- | --- |
| `succeeded` | The code ran to its end, or exited with status 0. | 0 |
| `failed` | The code raised an exception, exited with another status, or was ended by a signal. | 1 |
| `timed_out` | The code reached its limit of wall-clock time or CPU time. | 1 |
| `out_of_memory` | The code reached its memory limit. | 1 |
| `output_limit` | The code wrote more output than allowed. | 1 |
| `cancelled` | The client cancelled the job. | 1 (130 after Ctrl-C) |
| `rejected` | The job never ran. The error says why. | 2 if the job is to blame, otherwise 3 |
| `lost` | The job may have run, in whole or in part. The error says why this is unknown. | 3 |

The exit status of `thermae batch` is 3 if the fleet failed, if a job is `lost`, or if a job is `rejected` for a reason
other than the job itself. Otherwise it is 1 if a job did not succeed, and 0 if all jobs succeeded. The command's own
errors, [at the end of this page](#codes-of-the-command-line), have their own exit statuses.

## Codes of outcomes
";

fn errors() -> String {
    let mut text = ERRORS.to_owned();
    text.push_str("\n| code | meaning | safe to retry | to blame | what to do |\n| --- | --- | --- | --- | --- |\n");
    for (code, name, meaning, retry) in ErrorCode::ALL {
        let retry = if *retry { "yes" } else { "no" };
        let _ = writeln!(text, "| `{name}` | {} | {retry} | {} | {} |", meaning.trim(), blames(*code), advice(*code));
    }
    text.push_str("\n## Codes of the command line\n\n| code | exit status | meaning |\n| --- | --- | --- |\n");
    for (code, exit, meaning) in CODES {
        let _ = writeln!(text, "| `{code}` | {} | {meaning} |", *exit as u8);
    }
    text
}

/// Who is to blame for an error code. The exit status of `thermae` follows the same rule.
fn blames(code: ErrorCode) -> &'static str {
    use ErrorCode::*;
    match code {
        code if blames_the_job(code) => "the job",
        CodeRaised | CodeExited | CodeKilled | WallTimeout | CpuTimeout | OutOfMemory | OutputLimit | UnknownTool
        | CapabilityRefused | ApprovalDenied | ToolCallLimit | ToolArguments | ToolAnswerLimit => "the code",
        Cancelled | ClientGone | Superseded | ToolTimeout | ToolAnswer | ApprovalTimedOut | ApprovalDecided
        | ApprovalOver | ForbiddenReplyKey | UserIdMissing => "the client",
        _ => "the fleet",
    }
}

// The texts above name these numbers.
const _: () = assert!(Exit::Code as u8 == 1 && Exit::Usage as u8 == 2 && Exit::Fleet as u8 == 3);
