//! What a run has sent.

use thermae_runner::frames::{Artifact, ArtifactEnd, End, Exit, Part, Why};

/// Everything that a run has sent.
#[derive(Debug, Default)]
pub struct Outcome {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub displays: Vec<serde_json::Value>,
    pub started: bool,
    pub artifacts: Vec<Left>,
    /// The parts of a checkpoint, with their bytes.
    pub parts: Vec<(Part, Vec<u8>)>,
    /// How many bytes of input, or of answers to tool calls, the runner takes in addition to the window.
    pub credit: u64,
    /// How often its process was stopped because it waits.
    pub waits: u32,
    /// How often it was said to wait and not stopped, because it has timers.
    pub stays: u32,
    /// How often a signal has come for the stopped process.
    pub wakes: u32,
    pub exit: Option<Exit>,
}

/// A file that a run has left.
#[derive(Debug)]
pub struct Left {
    pub head: Artifact,
    pub bytes: Vec<u8>,
    pub end: Option<ArtifactEnd>,
}

impl Outcome {
    /// The paths and contents of the files that the run left. All of them must be whole.
    #[track_caller]
    pub fn left(&self) -> Vec<(String, Vec<u8>)> {
        let whole = |left: &Left| {
            assert_eq!(left.end, Some(ArtifactEnd { changed: false }), "{:?}", left.head);
            assert_eq!(left.head.size, left.bytes.len() as u64, "{:?}", left.head);
            (String::from_utf8_lossy(&left.head.path).into_owned(), left.bytes.clone())
        };
        self.artifacts.iter().map(whole).collect()
    }

    /// The paths of the files that were left out, with the reasons.
    pub fn left_out(&self) -> Vec<(String, Why)> {
        let list = &self.exit.as_ref().expect("the run has ended").left_out.list;
        list.iter().map(|o| (String::from_utf8_lossy(&o.path).into_owned(), o.why)).collect()
    }

    pub fn end(&self) -> &End {
        &self.exit.as_ref().expect("the run has ended").end
    }

    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard output of a run that must have succeeded.
    #[track_caller]
    pub fn ok(&self) -> String {
        assert_eq!(self.end(), &End::Exited { code: 0 }, "{self:#?}\n{}", String::from_utf8_lossy(&self.stderr));
        self.out()
    }
}
