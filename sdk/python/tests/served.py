"""A gateway in a process of its own: `thermae serve`."""

import os
import re
import subprocess
import tempfile
import threading

KEY = "the-key-of-these-tests"

BINARY = os.environ.get("THERMAE_BIN", "")
"""The program. Over HTTP, tests have no such variable, so that the package can't start it."""


class Served:
    """A gateway in front of an embedded fleet, which has a store.

    Attributes:
        url: Where it is.
    """

    def __init__(self, slots: int = 4) -> None:
        self._store = tempfile.TemporaryDirectory(prefix="thermae-store-")
        command = [BINARY, "serve", "--listen", "127.0.0.1:0", "--slots", str(slots), "--store", self._store.name]
        settings = {name: value for name, value in os.environ.items() if not name.startswith("THERMAE_")}
        settings["THERMAE_TOKEN"] = KEY
        self.process = subprocess.Popen(
            command, env=settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.words: list[str] = []
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.words.append(line)
            if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                self.url = found[0]
                break
        else:
            raise AssertionError(f"it did not start: {self.words}")
        # A full pipe would stop it.
        self._hearing = threading.Thread(target=self.words.extend, args=[self.process.stdout], daemon=True)
        self._hearing.start()

    def stop(self) -> int:
        """Ends it in order."""
        self.process.terminate()
        status = self.process.wait(30)
        self._close()
        return status

    def kill(self) -> None:
        """Ends it as a crash would."""
        self.process.kill()
        self.process.wait()
        self._close()

    def _close(self) -> None:
        self._hearing.join(10)
        if self.process.stdout is not None:
            self.process.stdout.close()
        self._store.cleanup()
