//! Watches the process that the bridge serves.
//!
//! The end of its socket is not enough: a child of that process may hold a copy of it, and live on.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::sync::oneshot;

/// A process that is watched.
pub(super) struct Parent(oneshot::Receiver<()>);

impl Parent {
    /// Watches the process with this id, on a thread of its own. The thread lives as long as that process.
    pub(super) fn watch(pid: i32) -> io::Result<Self> {
        let pid = Pid::from_raw(pid).ok_or(Errno::INVAL)?;
        let (alive, ended) = oneshot::channel();
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => {
                std::thread::Builder::new().name("parent".to_owned()).spawn(move || {
                    wait(&pidfd);
                    drop(alive);
                })?;
            }
            // It has ended already.
            Err(Errno::SRCH) => drop(alive),
            Err(error) => return Err(error.into()),
        }
        Ok(Self(ended))
    }

    /// Waits until the process has ended.
    async fn ended(self) {
        let _ = self.0.await;
    }
}

/// Blocks until a process has ended, even if nobody has waited for it yet.
fn wait(pidfd: &OwnedFd) {
    while let Err(Errno::INTR) = poll(&mut [PollFd::new(pidfd, PollFlags::IN)], None) {}
}

/// Waits until the process has ended. Never returns if none is watched.
pub(super) async fn ended(parent: Option<Parent>) {
    match parent {
        Some(parent) => parent.ended().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[tokio::test]
    async fn the_end_of_a_process_is_noticed_before_and_after_it_is_waited_for() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = child.id() as i32;
        let parent = Parent::watch(pid).unwrap();
        drop(child.stdin.take());
        ended(Some(parent)).await;
        ended(Some(Parent::watch(pid).unwrap())).await;
        child.wait().unwrap();
        ended(Some(Parent::watch(pid).unwrap())).await;
    }

    #[tokio::test]
    async fn a_process_that_goes_on_is_not_taken_for_ended() {
        let mut parent = Parent::watch(std::process::id() as i32).unwrap();
        tokio::task::yield_now().await;
        assert!(parent.0.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Empty));
    }
}
