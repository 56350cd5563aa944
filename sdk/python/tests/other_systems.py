"""What the package finds on Windows and macOS: what only POSIX has is not there. Nobody else notices."""

import builtins
import os
import sys
import types
from collections.abc import Mapping, Sequence
from typing import Any

OVER_HTTP = os.environ.get("THERMAE_TEST_OVER") == "http"
"""Whether all tests reach their fleet through a gateway, as they would have to elsewhere."""

PACKAGES = {"thermae", "websockets"}
"""Those that must do without."""

MODULES = {
    *(
        "crypt",
        "fcntl",
        "grp",
        "nis",
        "posix",
        "pty",
        "pwd",
        "readline",
        "resource",
        "spwd",
        "syslog",
        "termios",
        "tty",
    ),
    *("_posixsubprocess", "_posixshmem", "ossaudiodev"),
}

NAMES = {
    "os": {
        *(
            "fork",
            "forkpty",
            "register_at_fork",
            "setsid",
            "setpgid",
            "getpgid",
            "getpgrp",
            "killpg",
            "getuid",
            "geteuid",
        ),
        *(
            "getgid",
            "getegid",
            "getgroups",
            "setuid",
            "setgid",
            "chown",
            "fchown",
            "fchmod",
            "lchown",
            "chroot",
            "mkfifo",
        ),
        *("pipe2", "openpty", "posix_spawn", "posix_spawnp", "sched_getaffinity", "sendfile", "uname", "wait", "wait3"),
        *(
            "wait4",
            "WNOHANG",
            "O_CLOEXEC",
            "O_DIRECTORY",
            "O_NOFOLLOW",
            "O_NONBLOCK",
            "O_PATH",
            "O_TMPFILE",
            "memfd_create",
        ),
        *("eventfd", "pidfd_open", "statvfs", "sysconf", "confstr", "nice", "getpriority", "setpriority", "ttyname"),
    },
    "socket": {"AF_UNIX", "AF_NETLINK", "SCM_RIGHTS", "SO_PEERCRED", "MSG_NOSIGNAL", "send_fds", "recv_fds"},
    "signal": {
        *("SIGKILL", "SIGHUP", "SIGQUIT", "SIGPIPE", "SIGCHLD", "SIGUSR1", "SIGUSR2", "SIGSTOP", "SIGCONT", "SIGALRM"),
        *("pthread_kill", "pthread_sigmask", "sigwait", "alarm", "setitimer", "pause", "siginterrupt"),
    },
}

VALUES: Mapping[str, Mapping[str, Any]] = {"sys": {"platform": "win32"}, "os": {"name": "nt"}}
"""What is there, but something else."""


class _Lesser(types.ModuleType):
    """A module without some of its names."""

    def __init__(self, whole: types.ModuleType, missing: set[str], values: Mapping[str, Any]) -> None:
        super().__init__(whole.__name__)
        self.__dict__.update(values)
        self._whole = whole
        self._missing = missing

    def __getattr__(self, name: str) -> Any:
        if name in self._missing:
            raise AttributeError(f"{self.__name__}.{name} is not there on this system")
        return getattr(self._whole, name)


def imitate() -> None:
    """Lets the package find what there is elsewhere. Call it before the package is imported."""
    assert "thermae" not in sys.modules
    real = builtins.__import__
    made: dict[str, _Lesser] = {}

    def lesser(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> types.ModuleType:
        importer = str((globals or {}).get("__name__") or "").partition(".")[0]
        found = real(name, globals, locals, fromlist or (), level)
        if importer not in PACKAGES or level:
            return found
        root = name.partition(".")[0]
        if root in MODULES:
            raise ImportError(f"{importer} imports {name}, which is not there on this system", name=name)
        if name in NAMES or name in VALUES:
            if importer != "thermae" and name not in NAMES:
                return found
            return made.setdefault(name, _Lesser(found, NAMES.get(name, set()), VALUES.get(name, {})))
        return found

    builtins.__import__ = lesser
