"""A workspace of Pydantic AI in a session of Thermae."""

import asyncio
import contextlib
import posixpath
from collections.abc import Iterator, Mapping, Sequence

from pydantic_ai.workspaces import (
    CommandResult,
    FileEntry,
    WorkspaceCommand,
    WorkspaceOutputLimitError,
    WorkspaceRef,
    WorkspaceTimeoutError,
    WorkspaceUnavailableError,
)
from pydantic_ai.workspaces.protocol import validate_timeout

from thermae import AsyncSandbox, AsyncSession, FileStat, errors

PROVIDER = "thermae"


class ThermaeWorkspace:
    """A session as a workspace. Without a ref, the first operation makes a session, which lives on until it is idle."""

    def __init__(self, sandbox: AsyncSandbox, ref: WorkspaceRef | None = None) -> None:
        self._sandbox = sandbox
        self._ref = ref
        self._session: AsyncSession | None = None
        self._lock = asyncio.Lock()

    @property
    def ref(self) -> WorkspaceRef | None:
        return self._ref

    async def _live(self) -> AsyncSession:
        async with self._lock:
            if self._session is None:
                if self._ref is not None:
                    self._session = await self._sandbox.connect(self._ref.id)
                else:
                    self._session = self._sandbox.session()
                    # The session is made even if whoever waits for it is cancelled.
                    self._ref = WorkspaceRef(provider=PROVIDER, id=self._session.name)
                    await self._session.keepalive()
            return self._session

    async def destroy(self) -> None:
        """Ends the session."""
        await (await self._live()).close()

    async def working_dir(self) -> str:
        with _told():
            return await (await self._live()).files.real_path(".")

    async def run(
        self,
        command: WorkspaceCommand,
        *,
        shell: bool = False,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> CommandResult:
        validate_timeout(timeout)
        if isinstance(command, str) != shell:
            raise TypeError("a string needs shell=True, and a list of arguments needs shell=False")
        with _told():
            session = await self._live()
            try:
                result = await session.exec(command, env=env, timeout=timeout)
            except (FileNotFoundError, PermissionError) as error:
                if shell or error.filename != command[0]:
                    raise
                code = 127 if isinstance(error, FileNotFoundError) else 126
                return CommandResult(exit_code=code, stdout="", stderr=f"{command[0]}: {error.strerror}\n")
        if result.timed_out:
            message = f"the command took longer than {timeout:g} s" if timeout else "the command took too long"
            raise WorkspaceTimeoutError(message, stdout=result.text, stderr=result.stderr_text)
        code = 128 + (result.signal or 9) if result.exit_code is None else result.exit_code
        return CommandResult(exit_code=code, stdout=result.text, stderr=result.stderr_text)

    async def read_bytes(self, path: str) -> bytes:
        with _told():
            return await (await self._live()).files.read(path)

    async def write_bytes(self, path: str, data: bytes) -> None:
        with _told():
            await (await self._live()).files.write(path, data, parents=True)

    async def stat(self, path: str) -> FileEntry:
        with _told():
            return _entry(path, await (await self._live()).files.stat(path))

    async def list_dir(self, path: str) -> Sequence[FileEntry]:
        with _told():
            files = (await self._live()).files
            entries: list[FileEntry] = []
            for one in await files.list(path, most=1_000_000):
                found: FileStat | None = one
                if one.is_link:
                    found = None
                    with contextlib.suppress(OSError):  # A link that leads nowhere is an entry, too.
                        found = await files.stat(one.path)
                entries.append(_entry(one.path, found))
            return entries

    async def make_dir(self, path: str) -> None:
        with _told():
            await (await self._live()).files.make_dir(path, parents=True)

    async def remove(self, path: str) -> None:
        with _told():
            files = (await self._live()).files
            root = await files.real_path(".")
            if not (await files.stat(path, follow=False)).is_link:
                real = await files.real_path(path)
                if real == "/" or f"{root}/".startswith(f"{real}/"):
                    raise ValueError("the working directory and the directories above it can't be removed")
            await files.remove(path, recursive=True)

    async def exists(self, path: str) -> bool:
        with _told():
            return await (await self._live()).files.exists(path)

    async def realpath(self, path: str) -> str:
        with _told():
            return await (await self._live()).files.real_path(path, strict=False)


def _entry(path: str, stat: FileStat | None) -> FileEntry:
    name, size = posixpath.basename(path), stat.size if stat is not None and stat.is_file else None
    return FileEntry(name=name, path=path, is_dir=stat is not None and stat.is_dir, size=size)


@contextlib.contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except (
        errors.SessionNotFound,
        errors.SessionLost,
        errors.SessionExpired,
        errors.SessionEvicted,
        errors.SandboxLost,
        errors.WorkerStopped,
        errors.SandboxClosed,
    ) as error:
        raise WorkspaceUnavailableError(str(error)) from error
    except errors.OutputLimit as error:
        result = error.exec_result
        out, err = (result.text, result.stderr_text) if result else ("", "")
        limit = len(out) + len(err)
        raise WorkspaceOutputLimitError(error.message, limit=limit, stdout=out[:65536], stderr=err[:65536]) from error
