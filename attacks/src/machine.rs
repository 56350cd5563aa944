//! Settings of the machine that some attacks need: changes them for an attack, and restores them afterwards.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rustix::fs::FlockOperation;
use rustix::process::{Resource, Rlimit, setrlimit};
use serde::Deserialize;
use tempfile::TempDir;

/// A setting that an attack needs, named by its sheet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Setting {
    /// Each crash starts a program of root's, which writes a file.
    PipedCores,
    /// The machine has huge pages that any process can take.
    HugePages,
}

impl Setting {
    /// All settings.
    pub const ALL: [Self; 2] = [Self::PipedCores, Self::HugePages];

    fn file(self) -> &'static Path {
        Path::new(match self {
            Self::PipedCores => "/proc/sys/kernel/core_pattern",
            Self::HugePages => "/proc/sys/vm/nr_hugepages",
        })
    }

    /// The file with the machine's own value while the setting is changed. Only root can write there.
    fn before(self) -> PathBuf {
        PathBuf::from(format!("/run/thermae-attacks-{self:?}.before"))
    }

    /// Takes the lock of this setting; only its holder may change the setting. The lock is beside [`Self::before`], and
    /// not in the temporary directory, which differs between processes: an ordinary user's process would not see that
    /// root's process holds it.
    fn lock(self, how: FlockOperation) -> io::Result<File> {
        let lock = format!("/run/thermae-attacks-{self:?}.lock");
        let lock = File::options().create(true).append(true).open(lock)?;
        rustix::fs::flock(&lock, how)?;
        Ok(lock)
    }

    /// Restores the machine's own value, even if a process was killed that had changed it. The caller must hold the
    /// lock.
    fn take_back(self) -> io::Result<()> {
        let text = match fs::read_to_string(self.before()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            text => text?,
        };
        fs::write(self.file(), text.trim_end())?;
        fs::remove_file(self.before())
    }
}

/// A changed setting. It is restored on drop.
#[derive(Debug)]
pub struct Changed {
    setting: Setting,
    /// Folder in which crashes leave their files.
    cores: PathBuf,
    /// What must be restored; `None` if another process has changed the setting.
    before: Option<Before>,
}

#[derive(Debug)]
struct Before {
    folder: TempDir,
    _lock: File,
}

impl Changed {
    /// Changes a setting. Waits while another process has changed it.
    ///
    /// # Errors
    /// This user may not change the setting, or the machine does not take the value.
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

    /// A setting that another process has changed, and will restore. `cores` is its folder of crashes.
    pub fn by_another(setting: Setting, cores: &Path) -> Self {
        Self { setting, cores: cores.to_path_buf(), before: None }
    }

    /// Folder in which crashes leave their files.
    pub fn cores(&self) -> &Path {
        &self.cores
    }

    /// What an attack has won by this setting, in words; `None` if nothing.
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

/// Restores settings that a process changed before it was killed.
///
/// # Errors
/// A setting can't be written.
pub fn recover() -> io::Result<()> {
    for setting in Setting::ALL {
        // If another process holds the lock, that process restores the setting.
        if setting.before().exists()
            && let Ok(_lock) = setting.lock(FlockOperation::NonBlockingLockExclusive)
        {
            setting.take_back()?;
        }
    }
    Ok(())
}

/// Lets this process and its children use real-time classes and negative nice values, if this user may raise these
/// limits.
pub fn be_generous() {
    for resource in [Resource::Rtprio, Resource::Nice] {
        let _ = setrlimit(resource, Rlimit { current: Some(40), maximum: Some(40) });
    }
}
