//! Settings of the machine's that others have and this one has not: made for an attack, and taken back.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rustix::fs::FlockOperation;
use rustix::process::{Resource, Rlimit, setrlimit};
use serde::Deserialize;
use tempfile::TempDir;

/// A setting that an attack needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// Crashes start a program of root's, which leaves a file of each.
    PipedCores,
    /// There are huge pages for whoever asks.
    HugePages,
}

impl Setting {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::PipedCores, Self::HugePages];

    fn file(self) -> &'static Path {
        Path::new(match self {
            Self::PipedCores => "/proc/sys/kernel/core_pattern",
            Self::HugePages => "/proc/sys/vm/nr_hugepages",
        })
    }

    /// Where the machine's own setting is kept while it is changed. Nobody but root writes there.
    fn before(self) -> PathBuf {
        PathBuf::from(format!("/run/thermae-attacks-{self:?}.before"))
    }

    /// Held by whoever changes it. It is where [`Self::before`] is, and not in the temporary directory: that differs from one
    /// process to another, and the ordinary user's would not find that root's holds it.
    fn lock(self, how: FlockOperation) -> io::Result<File> {
        let lock = format!("/run/thermae-attacks-{self:?}.lock");
        let lock = File::options().create(true).append(true).open(lock)?;
        rustix::fs::flock(&lock, how)?;
        Ok(lock)
    }

    /// Gives the machine its own setting back, also after a process that was killed. For whoever holds the lock.
    fn take_back(self) -> io::Result<()> {
        let text = match fs::read_to_string(self.before()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            text => text?,
        };
        fs::write(self.file(), text.trim_end())?;
        fs::remove_file(self.before())
    }
}

/// A machine that is set otherwise, until this is dropped.
#[derive(Debug)]
pub struct Changed {
    setting: Setting,
    /// Where crashes leave their files.
    cores: PathBuf,
    /// What it was before, by whoever has changed it.
    before: Option<Before>,
}

#[derive(Debug)]
struct Before {
    folder: TempDir,
    _lock: File,
}

impl Changed {
    /// Changes it, one process at a time.
    ///
    /// # Errors
    /// This user may not, or the machine has none.
    pub fn make(setting: Setting) -> Result<Self> {
        let lock = setting.lock(FlockOperation::LockExclusive)?;
        setting.take_back()?;
        fs::write(setting.before(), fs::read_to_string(setting.file())?)?;
        let folder =
            tempfile::Builder::new().permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755)).tempdir()?;
        let cores = folder.path().to_path_buf();
        let wanted = match setting {
            Setting::PipedCores => format!("|/usr/bin/dd of={}/%p status=none", cores.display()),
            Setting::HugePages => "4".to_owned(),
        };
        fs::write(setting.file(), &wanted).with_context(|| format!("write {}", setting.file().display()))?;
        let changed = Self { setting, cores, before: Some(Before { folder, _lock: lock }) };
        let got = fs::read_to_string(setting.file())?;
        ensure!(got.trim() == wanted, "{} is {}, not {wanted}", setting.file().display(), got.trim());
        Ok(changed)
    }

    /// One that another process has changed; its crashes leave their files there.
    pub fn by_another(setting: Setting, cores: &Path) -> Self {
        Self { setting, cores: cores.to_path_buf(), before: None }
    }

    /// Where crashes leave their files.
    pub fn cores(&self) -> &Path {
        &self.cores
    }

    /// What an attack has won by it.
    pub fn won(&self) -> Option<String> {
        let left = fs::read_dir(&self.cores).into_iter().flatten().count();
        (self.setting == Setting::PipedCores && left > 0)
            .then(|| format!("the machine's handler of crashes was started {left} times"))
    }
}

impl Drop for Changed {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            match self.setting.take_back() {
                Ok(()) => tracing::debug!(folder = %before.folder.path().display(), "the machine is as it was"),
                Err(error) => {
                    tracing::error!(%error, file = %self.setting.file().display(), "the machine is not as it was")
                }
            }
        }
    }
}

/// Gives the machine the settings back that a process changed and was killed before it took them back.
///
/// # Errors
/// A setting can't be written.
pub fn recover() -> io::Result<()> {
    for setting in Setting::ALL {
        // Whoever holds it takes it back.
        if setting.before().exists()
            && let Ok(_lock) = setting.lock(FlockOperation::NonBlockingLockExclusive)
        {
            setting.take_back()?;
        }
    }
    Ok(())
}

/// Lets this process, and all that it starts, take real-time classes and negative nice values, where it has the right to.
pub fn be_generous() {
    for resource in [Resource::Rtprio, Resource::Nice] {
        let _ = setrlimit(resource, Rlimit { current: Some(40), maximum: Some(40) });
    }
}
