//! The inner wall works in Docker's containers. (Where it can't, a worker refuses to start, unless it is configured to
//! give each job a container of its own.)

use anyhow::{Result, ensure};
use thermae_schemas::{Job, Status};

use crate::Test;
use crate::fleet::{Fleet, SLOTS, WARM};
use crate::jobs::run;

pub(crate) const TESTS: &[(&str, Test)] =
    &[("walls::jobs_of_one_tenant_share_containers_and_no_sandbox", share_containers)];

/// Prints where it runs and what it finds, then leaves marks and a process behind.
const TRACKS: &str = "
import os, socket, time
places = ['/tmp/mark', '/workspace/mark', '/dev/shm/mark']
found = [place for place in places if os.path.exists(place)]
print(socket.gethostname(), sorted(p for p in os.listdir('/proc') if p.isdigit()), found)
for place in places:
    open(place, 'w').close()
if os.fork() == 0:
    time.sleep(600)
";

fn share_containers(fleet: &Fleet) -> Result<()> {
    let workers = fleet.addresses().iter().filter(|(kind, _)| kind == "worker").count();
    // The most containers that the workers may have at once. With the inner wall, jobs don't use containers up.
    let most = workers * (SLOTS + WARM);
    let made = || fleet.metric("thermae_worker_container_creation_seconds_count");
    let before = made()?;
    for n in 0..3 * most {
        let outcome = run(fleet, Job::python(TRACKS))?;
        ensure!(outcome.status == Status::Succeeded, "{outcome:?}");
        ensure!(outcome.stdout == "sandbox ['1', '2'] []\n", "job {n}: {:?}", outcome.stdout);
    }
    let made = made()? - before;
    ensure!(made <= most as f64, "{made} containers were made for {} jobs of one tenant", 3 * most);
    ensure!(!fleet.has_logged("no inner wall"), "a container has no inner wall");
    Ok(())
}
