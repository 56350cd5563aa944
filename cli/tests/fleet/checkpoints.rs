//! Checkpoints of sessions on the real fleet: the session's worker is killed, and another one has the files.

use anyhow::{Context, Result, ensure};
use thermae_schemas::{
    CheckpointWhen, ErrorCode, IfGone, Job, Outcome, SessionName, SessionRequest, SessionState, Status,
};

use crate::Test;
use crate::fleet::Fleet;
use crate::jobs::run;

pub(crate) const TESTS: &[(&str, Test)] = &[("checkpoints::files_survive_a_killed_worker", survive)];

fn in_session(request: SessionRequest, code: &str) -> Job {
    Job { session: Some(request), ..Job::python(code) }
}

fn state(outcome: &Outcome) -> Result<&SessionState> {
    ensure!(outcome.status == Status::Succeeded, "{outcome:?}");
    outcome.session.as_ref().context("no session")
}

const MAKE: &str = "
import os
x = 1
open('/workspace/tool', 'w').write('#!/bin/sh\\necho kept\\n')
os.chmod('/workspace/tool', 0o755)
os.symlink('tool', '/workspace/link')
os.makedirs('/session/empty')
";
const LOOK: &str = "
import os, subprocess
print('x' in dir(), oct(os.stat('/workspace/tool').st_mode), os.readlink('/workspace/link'),
      os.listdir('/session/empty'), subprocess.run(['/workspace/link'], capture_output=True, text=True).stdout, end='')
";

fn survive(fleet: &Fleet) -> Result<()> {
    let name = SessionName::new(format!("s-{}", uuid::Uuid::new_v4()))?;
    let wish = SessionRequest {
        if_gone: IfGone::New,
        checkpoint: Some(CheckpointWhen::AfterJob),
        ..SessionRequest::new(name.clone())
    };
    let made = run(fleet, in_session(wish.clone(), MAKE))?;
    ensure!(state(&made)?.checkpointed, "{made:?}");
    // One of them holds the session. It is killed by SIGKILL.
    for _ in 0..2 {
        fleet.kill("worker")?;
    }
    (0..2).try_for_each(|_| fleet.add_worker())?;
    let found = run(fleet, in_session(wish, LOOK))?;
    ensure!(found.stdout == "False 0o100755 tool [] kept\n", "{found:?}");
    let after = state(&found)?;
    ensure!((after.fresh, after.restored_files, after.checkpointed) == (true, 2, true), "{found:?}");
    ensure!(found.worker != made.worker, "{found:?}");

    let copy = SessionName::new(format!("copy-{}", uuid::Uuid::new_v4()))?;
    let from = SessionRequest { restore: Some(name.clone()), ..SessionRequest::new(copy) };
    let copied = run(fleet, in_session(from.clone(), LOOK))?;
    ensure!(copied.stdout == found.stdout, "{copied:?}");
    // Another tenant does not find it.
    let foreign = fleet.runtime.block_on(async {
        let globex = thermae_fleet::Fleet::connect(fleet.servers.globex.as_str()).await?;
        let outcome = globex.run(in_session(from, "print('ran')"), None).await?;
        globex.close().await;
        anyhow::Ok(outcome)
    })?;
    let code = foreign.error.as_ref().map(|error| error.code);
    ensure!(foreign.stdout.is_empty() && code == Some(ErrorCode::CheckpointMissing), "{foreign:?}");
    Ok(())
}
