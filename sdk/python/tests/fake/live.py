"""Requests to the fake bridge's sessions. A session has files in memory, and a command is a line of these words:

out TEXT          writes to standard output
err TEXT          writes to standard error
raw HEX           writes these bytes to standard output
big N             writes N bytes to standard output
cat               writes its input to standard output
count             writes how many bytes of input it got
late              the same, but takes no input before the request is sent a signal
env               writes its argv, cwd, env and time limit as JSON
wait              goes on until it is cancelled, or sent a signal, which then ends it
slow              is ended by the clock
hog               is ended for its memory
exit N            exits
fail ERRNO PATH   can't be started
refuse CODE       gets this error of the fleet
error CODE        gets this error of the bridge
mystery           ends in a way that nobody knows
"""

import asyncio
import base64
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bridge import Bridge

WORDS = {
    "ENOENT": "No such file or directory",
    "EEXIST": "File exists",
    "EISDIR": "Is a directory",
    "ENOTDIR": "Not a directory",
    "EACCES": "Permission denied",
    "ENOSPC": "No space left on device",
}


class Failed(Exception):
    def __init__(self, errno: str, path: Any) -> None:
        self.end = {"how": "failed", "errno": errno, "path": path, "message": WORDS.get(errno, errno)}


class Ended(Exception):
    def __init__(self, **end: Any) -> None:
        self.end = end


class Refused(Exception):
    pass


class Live:
    """One request."""

    def __init__(self, bridge: "Bridge", header: dict[str, Any], body: dict[str, Any], files: dict[str, bytes]) -> None:
        self.bridge, self.number, self.body, self.files = bridge, header["id"], body, files
        self.credit = self.window = header["window"]
        self.more = asyncio.Event()
        self.ended: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self.input: asyncio.Queue[tuple[bytes, bool]] = asyncio.Queue()
        self.open = self.window
        self.sent = 0
        self.input.put_nowait((base64.b64decode(body.get("input", "")), not body.get("more_input", False)))

    def take(self, header: dict[str, Any], payload: bytes) -> None:
        match header["type"]:
            case "credit":
                self.credit += header["bytes"]
                self.more.set()
            case "cancel":
                self.finish({"how": "cancelled"})
            case "signal":
                self.finish({"how": "signaled", "signal": header["signal"]})
            case "input":
                assert len(payload) <= 256 << 10
                self.open -= len(payload)
                assert self.open >= 0, "more input than allowed"
                self.input.put_nowait((payload, header["end"]))

    def finish(self, end: dict[str, Any]) -> None:
        if not self.ended.done():
            self.ended.set_result(end)

    async def write(self, data: bytes, stream: str = "stdout") -> None:
        for at in range(0, len(data), 65536):
            while self.credit <= 0:
                self.more.clear()
                await self.more.wait()
            piece = data[at : at + 65536]
            self.credit -= len(piece)
            self.sent += len(piece)
            self.bridge.send({"type": "output", "id": self.number, "stream": stream}, piece)
            await self.bridge.writer.drain()

    async def read(self) -> bytes:
        """The next piece of input; nothing at its end."""
        while True:
            data, end = await self.input.get()
            if end:
                self.input.put_nowait((b"", True))
            if data:
                self.open += len(data)
                self.bridge.send({"type": "credit", "id": self.number, "bytes": len(data)})
            if data or end:
                return data

    async def go(self) -> None:
        work = asyncio.create_task(self.work())
        try:
            await asyncio.wait({work, self.ended}, return_when=asyncio.FIRST_COMPLETED)
            value = None
            if self.ended.done():
                end = self.ended.result()
            else:
                end = {"how": "exited", "code": 0}
                try:
                    value = await work
                except (Failed, Ended) as other:
                    end = other.end
            done = {**end, "output": self.sent, "wall_ms": 1500} | ({} if value is None else {"value": value})
            self.bridge.send({"type": "done", "id": self.number}, json.dumps(done).encode())
        except Refused as why:
            self.bridge.send({"type": "error", "id": self.number, "code": str(why), "message": "no"})
        finally:
            work.cancel()
            del self.bridge.live[self.number]

    async def work(self) -> Any:
        if "exec" in self.body:
            command = self.body["exec"]
            for line in (command.get("shell") or " ".join(command["argv"])).split("\n"):
                await self.step(*line.partition(" ")[::2])
            return None
        return await self.operate(**self.body["file"]) if "file" in self.body else None

    async def step(self, word: str, rest: str) -> None:
        match word:
            case "out" | "err":
                await self.write(rest.encode(), "stdout" if word == "out" else "stderr")
            case "raw":
                await self.write(bytes.fromhex(rest))
            case "big":
                await self.write(b"x" * int(rest))
            case "cat":
                while data := await self.read():
                    await self.write(data)
            case "count" | "late":
                size = 0
                while data := await self.read():
                    size += len(data)
                await self.write(str(size).encode())
            case "env":
                await self.write(json.dumps(self.body).encode())
            case "wait":
                await asyncio.Event().wait()
            case "exit":
                raise Ended(how="exited", code=int(rest))
            case "slow":
                raise Ended(how="timed_out")
            case "hog":
                raise Ended(how="out_of_memory")
            case "mystery":
                raise Ended(how="evaporated")
            case "fail":
                errno, _, path = rest.partition(" ")
                raise Failed(errno, path)
            case "refuse":
                raise Ended(how="error", error={"code": rest, "message": "no", "safe_to_retry": True})
            case "error":
                raise Refused(rest)
            case _:
                raise AssertionError(word)

    async def operate(self, op: str, **say: Any) -> Any:
        raw = say.get("path", "")
        path = raw if isinstance(raw, str) else bytes(raw).decode("latin-1")
        data = self.files.get(path)
        if "refused" in path:
            raise Failed("EACCES", raw)
        match op:
            case "stat":
                if path.startswith("/workspace/link") and say["link"]:
                    return {**stat(b""), "kind": "link", "target": {"1": "../a/b", "2": "/c", "3": "link3"}[path[-1]]}
                if data is None:
                    raise Failed("ENOENT", raw)
                return {**stat(data), "target": [255]} if say["link"] else stat(data)
            case "read":
                if data is None:
                    raise Failed("ENOENT", raw)
                await self.write(data[say["offset"] :][: say.get("length")])
                return {"bytes": self.sent, "size": len(data)}
            case "write":
                new = bytearray()
                while piece := await self.read():
                    new += piece
                    if path == "full" and len(new) > 100_000:
                        raise Failed("ENOSPC", raw)
                match say["mode"]:
                    case "append":
                        new = bytearray(data or b"") + new
                    case {"at": offset}:
                        new = bytearray((data or b"")[:offset]) + new + (data or b"")[offset + len(new) :]
                    case "create_new" if data is not None:
                        raise Failed("EEXIST", raw)
                self.files[path] = bytes(new)
                return {"bytes": len(new), "size": len(new)}
            case "remove":
                if self.files.pop(path, None) is None:
                    raise Failed("ENOENT", raw)
            case "move":
                self.files[say["to"]] = self.files.pop(say["from"])
            case "make_dir":
                self.files[path] = b"" if not say["parents"] else b"parents"
            case "list":
                entries = [{"path": name, **stat(self.files[name])} for name in sorted(self.files)]
                return {"entries": entries[: say["most"]], "cut": len(entries) > say["most"], "skipped": 1}
            case "glob":
                return {"paths": [say["pattern"], [255]], "cut": False}
            case "grep":
                line = {"path": "a", "line": 3, "offset": 7, "text": json.dumps(say)}
                return {"lines": [line, {**line, "path": ""}], "cut": True, "skipped": 2}
            case "real_path":
                if "missing" in path:
                    raise Failed("ENOENT", raw)
                return {"path": "/workspace" if path == "." else f"/workspace/{path}"}
            case _:
                raise AssertionError(op)
        return None


def stat(data: bytes) -> dict[str, Any]:
    return {"kind": "file", "size": len(data), "permissions": 0o644, "modified_ns": 1_500_000_000}
