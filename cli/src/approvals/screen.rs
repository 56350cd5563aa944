//! The screen while a question is open. What a program prints then could look like another question, or cover this one.

use tokio::sync::watch;

/// Whether a question is open, as the asker sees it.
pub(super) struct Screen(watch::Sender<bool>);

/// The same, as whoever prints the program's output sees it.
pub(super) struct Output(watch::Receiver<bool>);

/// A question that is open until this is dropped.
pub(super) struct Question<'a>(&'a Screen);

impl Screen {
    pub(super) fn new() -> (Self, Output) {
        let (screen, output) = watch::channel(false);
        (Self(screen), Output(output))
    }

    /// Opens a question. Returns when nothing is being printed.
    pub(super) fn question(&self) -> Question<'_> {
        self.0.send_replace(true);
        Question(self)
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        self.0.0.send_replace(false);
    }
}

impl Output {
    /// Prints, unless a question is open. None is opened meanwhile.
    pub(super) fn unless_asking(&self, print: impl FnOnce()) {
        let asking = self.0.borrow();
        if !*asking {
            print();
        }
    }

    /// Waits until no question is open.
    pub(super) async fn answered(&self) {
        let _ = self.0.clone().wait_for(|asking| !*asking).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nothing_is_printed_while_a_question_is_open() {
        let (screen, output) = Screen::new();
        let prints = || {
            let mut printed = false;
            output.unless_asking(|| printed = true);
            printed
        };
        assert!(prints());
        let question = screen.question();
        assert!(!prints());
        drop(question);
        output.answered().await;
        assert!(prints());
        drop(screen);
        output.answered().await;
    }
}
