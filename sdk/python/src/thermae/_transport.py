"""What carries frames. The connection above it knows nothing else about the way to the bridge."""

from typing import Protocol

from thermae._frames import Frame


class Transport(Protocol):
    """A reliable, ordered way for frames in both directions.

    One task receives. Any number of tasks send; a frame is never mixed with another one. `tests/unit/test_transport.py`
    has the contract as tests.
    """

    async def send(self, frame: Frame) -> None:
        """Sends a frame, and waits while the other end takes nothing.

        Raises:
            OSError: The connection has ended.
            ValueError: The frame is too large. Nothing was sent.
        """
        ...

    async def receive(self) -> Frame | None:
        """The next frame; `None` at the end, and after `close`.

        Raises:
            BadFrameError: The other end sent something that is not a frame.
            OSError: The connection broke.
        """
        ...

    async def close(self) -> None:
        """Ends the connection and whatever was started for it. Waits a bounded time. Can be called twice."""
        ...

    def abandon(self) -> None:
        """Lets go of what a fork has copied into a child process, without a trace in the parent's connection."""
        ...

    def last_words(self) -> str:
        """What the other end said about its end, for an error's message; may be empty."""
        ...
