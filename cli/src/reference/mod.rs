//! Pages of the documentation that are made from the program itself, so that they can't say anything else than it does.
//! `thermae reference PAGE` prints one; a test compares it with the file in `docs/`.

mod keys;

use std::fmt::Write;

use schemars::JsonSchema;
use thermae_schemas::ErrorCode;
use thermae_service::telemetry;

use crate::advice::advice;
use crate::args::Page;
use crate::failure::{CODES, Exit, blames_the_job};
use crate::tools::ToolsFile;

/// One page.
pub(crate) fn page(page: Page) -> String {
    match page {
        Page::Configuration => configuration(),
        Page::Errors => errors(),
    }
}

const CONFIGURATION: &str = "\
# Configuration

<!-- Made by `thermae reference configuration`; a test keeps it current. -->

`thermae-scheduler` and `thermae-worker` read, in this order, later ones winning: their defaults, the TOML file that
`--config FILE` names, the environment, and flags. A key that does not exist is an error that names its path and where it
stands.

- In the environment, `THERMAE_` and the key's path, in capitals, `__` between its words: `THERMAE_POOLS__DEFAULT__SLOTS=4` sets
  `pools.default.slots`. Lists and tables are written as TOML: `THERMAE_POOLS__DEFAULT__LANGUAGES='[\"python\"]'`. Empty variables
  count as absent.
- A key of type *secret* can be given as a file: `K_file` names the file that holds `K`, in the TOML file (`amqp_file = \"/run/secrets/amqp\"`) as in the
  environment (`THERMAE_AMQP_FILE`, `THERMAE_ARTIFACTS__SIGNING_KEY_FILE`). A line break at the file's end is not part of the secret. In one place only one of the
  two may stand; between places the later one wins. No log and no error shows a secret.
- Times are written `500ms`, `30s`, `5m`, `1h` or `1d`; sizes `64KiB`, `256MiB` or `1GiB`, `10MB`, or as plain numbers of bytes.
- `THERMAE_LOG` (a filter such as `debug`, or `info,thermae_worker=debug`), `THERMAE_LOG_FORMAT` (`auto`, `text`, `json`) and
  `THERMAE_OTLP_ENDPOINT` (traces over gRPC) hold in every program, wherever these keys stand in its file.
- A tools file (`thermae.toml`) is named by `--tools-file`, or lies beside the program and is trusted (`thermae trust`). What is
  trusted is recorded below `XDG_STATE_HOME`, else `~/.local/state`, by path and content.
- The command line reads `THERMAE_AMQP`, `THERMAE_AMQP_FILE`, `THERMAE_AMQP_PASSWORD_FILE`, `THERMAE_TLS_CA`, `THERMAE_TLS_CERT`, `THERMAE_TLS_KEY`, `THERMAE_TENANT` and
  `THERMAE_PYTHON` in place of the options of these names, and `THERMAE_AMQP_PASSWORD`, which has no option.
";

fn configuration() -> String {
    let mut text = CONFIGURATION.to_owned();
    section::<thermae_scheduler::Config>(&mut text, "thermae-scheduler");
    section::<thermae_worker::Config>(&mut text, "thermae-worker");
    section::<telemetry::Options>(&mut text, "Logs and traces, in each of them");
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

An outcome that is not `succeeded` carries an error: a stable `code`, a `message` for people and models, and `safe_to_retry`, which
is true only where nothing of the job ran and the cause can pass. To submit a job again means to submit it under a new id: under the
old one its outcome comes again.

## Statuses

| status | meaning | exit status of `thermae run` |
| --- | --- | --- |
| `succeeded` | The code ran to its end, or exited with 0. | 0 |
| `failed` | The code raised, exited with another status, or was ended by a signal. | 1 |
| `timed_out` | Wall clock or CPU time ran out. | 1 |
| `out_of_memory` | Memory ran out. | 1 |
| `output_limit` | More output than allowed. | 1 |
| `cancelled` | The client cancelled it. | 1 (130 after Ctrl-C) |
| `rejected` | It never ran; the error says why. | 2 where the job is to blame, else 3 |
| `lost` | It may have run, wholly or in part; the error says why that is not known. | 3 |

`thermae batch` exits with 3 where the fleet failed or any job is `lost` or `rejected` for the fleet's reasons, with 1 where any other
job did not succeed, with 0 where all did.

## Codes of outcomes
";

fn errors() -> String {
    let mut text = ERRORS.to_owned();
    text.push_str("\n| code | meaning | safe to retry | blames | what to do |\n| --- | --- | --- | --- | --- |\n");
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

/// Whose fault a code is, as the exit status has it.
fn blames(code: ErrorCode) -> &'static str {
    use ErrorCode::*;
    match code {
        code if blames_the_job(code) => "the job",
        CodeRaised | CodeExited | CodeKilled | WallTimeout | CpuTimeout | OutOfMemory | OutputLimit | UnknownTool
        | ToolCallLimit | ToolArguments => "the code",
        Cancelled | ClientGone | ToolTimeout | ToolAnswer | ForbiddenReplyKey | UserIdMissing => "the client",
        _ => "the fleet",
    }
}

// The page's own words must not drift from the numbers.
const _: () = assert!(Exit::Code as u8 == 1 && Exit::Usage as u8 == 2 && Exit::Fleet as u8 == 3);
