//! The languages that programs are written in, each in a folder of its own behind the trait [`Language`].

mod bash;
pub(crate) mod python;
pub(crate) mod zygote;
mod zygotes;

use serde_json::Value;

pub(crate) use zygote::{Child, Hatched, Nest, Zygote};
pub(crate) use zygotes::{Flavor, Heard, Zygotes};

use crate::error::Result;
use crate::frames::Run;

/// Makes a language from the options that [`crate::frames::Setup::languages`] has for it.
type Open = fn(&Value) -> Result<Box<dyn Language>>;

/// Every language that this runner knows, by its name on the wire.
const LANGUAGES: [(&str, Open); 2] = [("python", python::open), ("bash", bash::open)];

/// The names of the languages that runners of this release know.
pub fn names() -> impl Iterator<Item = &'static str> {
    LANGUAGES.iter().map(|(name, _)| *name)
}

/// A language that programs are written in.
///
/// A program's process is forked from a *zygote*: a process that has everything ready that a program needs and has
/// never seen a byte of any job. A language may have several zygotes, numbered from 0, the smallest. Each holds what
/// those before it hold, so that each can serve every program. The process that a zygote forks joins the sandbox whose
/// namespaces came with the request, says `ready` on the job's channel (see [`crate::channel`]) and waits there for
/// its program.
pub(crate) trait Language {
    /// Path of the program that runs the language's programs.
    fn path(&self) -> &str;

    /// The number of its zygotes.
    fn zygotes(&self) -> usize;

    /// Whether that zygote starts together with the container. If not, it starts after the first program that it would
    /// serve best.
    fn is_eager(&self, zygote: usize) -> bool;

    /// Whether sandboxes are made ahead of the first program that this zygote would serve best.
    fn has_spares_at_once(&self, zygote: usize) -> bool {
        self.is_eager(zygote)
    }

    /// Whether the runner may start that zygote, or start it anew, once it has read a byte of a job.
    fn can_start_late(&self) -> bool {
        true
    }

    /// The smallest zygote that has what this program needs.
    fn choose(&self, run: &Run) -> usize;

    /// Starts a zygote. It sends [`Hatched`] when it is ready to be forked from.
    ///
    /// # Errors
    /// If it can't be started.
    fn start(&self, zygote: usize, nest: &Nest) -> Result<Zygote>;

    /// Whether a zygote is worth keeping, judged by what it has said of itself.
    fn is_useful(&self, _zygote: usize, _hatched: &Hatched) -> bool {
        true
    }

    /// Whether an interrupt is for all processes of the program's process group rather than for its main process.
    fn interrupts_group(&self) -> bool {
        false
    }
}
