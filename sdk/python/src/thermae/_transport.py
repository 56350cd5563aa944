"""What carries frames. The connection above it knows nothing else about the way to the bridge."""

from collections.abc import Callable
from typing import Protocol

from thermae._frames import Frame


class Transport(Protocol):
    """A reliable, ordered way for frames in both directions.

    Any number of tasks send; a frame is never mixed with another one. `tests/unit/test_transport.py` has the contract
    as tests.
    """

    def listen(self, take: Callable[[Frame], None], ended: Callable[[Exception | None], None]) -> None:
        """Names who gets what arrives. Called once, before anything is sent.

        Args:
            take: Called on the event loop with each frame, in order. It must neither wait nor raise.
            ended: Called once, after the last frame: with `None` at the end, also after `close`; with a
                `BadFrameError` if the other end sent something that is not a frame; with an `OSError` if the
                connection broke.
        """
        ...

    async def send(self, frame: Frame) -> None:
        """Sends a frame, and waits while the other end takes nothing.

        Raises:
            OSError: The connection has ended.
            ValueError: The frame is too large. Nothing was sent.
        """
        ...

    def try_send(self, frame: Frame) -> bool:
        """Sends a frame from any thread, if that is possible without waiting. It may always be impossible.

        Returns:
            Whether it was sent. If not, nothing of it was.

        Raises:
            ValueError: The frame is too large. Nothing was sent.
        """
        ...

    async def close(self) -> None:
        """Ends the connection and whatever was started for it. Waits a bounded time. Can be called twice."""
        ...

    def abandon(self) -> None:
        """Lets go of what a fork has copied into a child process, without a trace in the parent's connection."""
        ...

    def last_words(self) -> str:
        """What the other end said about its end, for an error; may be empty. Complete once `ended` is called."""
        ...
