//! The languages that programs are written in, each in a folder of its own behind the trait [`Language`].

mod bash;
mod native;
pub(crate) mod python;
pub(crate) mod zygote;
mod zygotes;

use serde_json::Value;

pub(crate) use zygote::{Additions, Child, Zygote, ZygoteContext, ZygoteInfo};
pub(crate) use zygotes::{Flavor, Heard, Zygotes};

use crate::error::Result;
use crate::frames::Run;

/// Makes a language from its options in [`crate::frames::Setup::languages`].
type Open = fn(&Value) -> Result<Box<dyn Language>>;

/// Every language that this runner knows, by its name on the wire.
const LANGUAGES: [(&str, Open); 2] = [("python", python::open), ("bash", bash::open)];

/// The names of the languages that runners of this release know.
pub fn names() -> impl Iterator<Item = &'static str> {
    LANGUAGES.iter().map(|(name, _)| *name)
}

/// A language that programs are written in.
///
/// A program's process is forked from a *zygote*: a process that has everything ready that a program needs, and that
/// has never seen a byte of any job. A language may have several zygotes, numbered from 0. Number 0 is the smallest,
/// and each holds what those before it hold, and more. Any of them can serve every program: the program itself loads
/// what its zygote lacks.
///
/// The runner's request to fork brings the namespaces of a sandbox. The forked process joins them, says `ready` on the
/// job's channel (see [`crate::channel`]), and waits there for its program.
pub(crate) trait Language {
    /// Path of the interpreter or shell that runs the language's programs.
    fn path(&self) -> &str;

    /// What the names of files with its programs end in, without the dot.
    fn extension(&self) -> &'static str;

    /// What the language adds to the environment of every program, whatever the program's language.
    fn additions(&self) -> Additions {
        Additions::default()
    }

    /// How many zygotes the language has.
    fn zygotes(&self) -> usize;

    /// Whether this zygote starts together with the container. If not, it starts after the first program for which
    /// [`Self::choose`] names it.
    fn is_eager(&self, zygote: usize) -> bool;

    /// Whether the runner makes sandboxes with this zygote before any program has wanted it.
    fn has_spares_at_once(&self, zygote: usize) -> bool {
        self.is_eager(zygote)
    }

    /// Whether the runner may still start a zygote, for the first time or again, once the runner has read a byte of a
    /// job.
    fn can_start_late(&self) -> bool {
        true
    }

    /// Whether the language's zygote is a native one ([`native`]), from which any process can be forked.
    fn is_native(&self) -> bool {
        false
    }

    /// The smallest zygote that has what this program needs.
    fn choose(&self, run: &Run) -> usize;

    /// Starts a zygote. It sends [`ZygoteInfo`] when it is ready to be forked from.
    ///
    /// # Errors
    /// If it can't be started.
    fn start(&self, zygote: usize, context: &ZygoteContext) -> Result<Zygote>;

    /// Whether a zygote is worth keeping, judged by its own first message.
    fn is_useful(&self, _zygote: usize, _info: &ZygoteInfo) -> bool {
        true
    }

    /// Whether an interrupt goes to all processes of the program's process group. If not, it goes to the main process
    /// only.
    fn interrupts_group(&self) -> bool {
        false
    }
}
