"""A bridge that runs no code: it speaks the frames in a process of its own, and does what each line of a job says.

    print TEXT        writes a line to standard output
    big N             writes N bytes to standard output
    call TOOL JSON    calls a tool, and prints its answer
    calls N TOOL JSON the same, N times at once
    ask N TOOL JSON   asks for approval of N calls at once, and prints the verdicts
    elsewhere TOOL    asks for approval, which somebody else gives
    wait              goes on until the job is cancelled
    unsubmitted       the same, and then ends like a job that no fleet has got
    hold              goes on for ever, and ignores the cancel
    job               prints the job itself
    unknown           sends an event that no client knows
    display TEXT      displays a text
    leave PATH TEXT   leaves an artifact
    end STATUS CODE   ends with this status, and this error
    refuse CODE       answers with an error instead of an outcome
    refuse_once CODE  the same, but only the first time for each job
    die               kills the bridge
    bad               sends bytes that are no frame

Requests to sessions are in live.py. A call of the tool `large` has arguments that the fleet does not keep, and a run
goes on when nobody follows it; `run_info` gives 10 bytes of its output.

Each frame that it reads, and its end, is a line of the file in FAKE_LOG. With FAKE_OPENS=never, it answers no `open`.
"""

import argparse
import asyncio
import base64
import hashlib
import json
import os
import socket
import struct
import sys
from typing import Any

from live import Live
from outcome import begin_session, outcome_of, sessions

PROTOCOLS = json.loads(os.environ.get("FAKE_PROTOCOLS", "[1]"))
LOG = os.environ.get("FAKE_LOG")
EMBEDDED = "FAKE_EMBEDDED" in os.environ
refused: set[str] = set()
files: dict[str, dict[str, bytes]] = {}
store: dict[str, bytes] = {}
jobs: dict[str, "Run"] = {}
LARGE = {"arguments": None, "omitted": True}


def log(entry: dict[str, Any]) -> None:
    if LOG:
        with open(LOG, "a") as file:
            file.write(json.dumps({"pid": os.getpid(), **entry}) + "\n")


class Refused(Exception):
    pass


class Run:
    def __init__(self, bridge: "Bridge", number: int, window: int, job: dict[str, Any]) -> None:
        self.bridge, self.number, self.job = bridge, number, job
        self.credit = window
        self.more = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.stdout = ""
        self.seq = 0
        self.displays: list[Any] = []
        self.artifacts: list[Any] = []
        self.calls: dict[str, asyncio.Future[Any]] = {}
        self.pending: dict[str, dict[str, Any]] = {}
        self.asked: dict[str, dict[str, Any]] = {}
        self.verdicts: dict[str, asyncio.Future[Any]] = {}
        self.ended: dict[str, Any] | None = None

    async def event(self, kind: str, **fields: Any) -> None:
        payload = json.dumps({"protocol": 1, "job": self.job["id"], "attempt": 1, "event": kind} | fields).encode()
        await self.paid({"type": "event", "id": self.number}, payload)

    async def paid(self, header: dict[str, Any], payload: bytes) -> None:
        if self.number == 0:
            return
        while self.credit <= 0:
            self.more.clear()
            await self.more.wait()
        self.credit -= len(payload)
        self.bridge.send(header, payload)
        await self.bridge.writer.drain()

    async def write(self, text: str) -> None:
        self.stdout += text
        if "output" in self.job.get("stream", ()):
            await self.event("stdout", seq=self.seq, text=text)
            self.seq += 1

    async def call(self, tool: str, arguments: str) -> Any:
        number = os.urandom(16).hex()
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.calls[number] = answer
        own = [one["timeout_ms"] for one in self.job.get("tools", []) if one["name"] == tool and "timeout_ms" in one]
        within = min([*own, self.job.get("limits", {}).get("tool_ms", 20000)])
        call = {"call": number, "tool": tool, "arguments": json.loads(arguments), "reply_to": "acme.w"}
        self.pending[number] = {**call, "within_ms": within, "waited_ms": 0, "left_ms": within}
        await self.event("tool_call", **call, within_ms=within)
        done, _ = await asyncio.wait({answer}, timeout=within / 1000)
        return answer.result() if done else {"error": {"type": "TimeoutError", "message": f"{tool} took too long"}}

    async def ask(self, tool: str, arguments: str) -> Any:
        number = os.urandom(16).hex()
        verdict: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.verdicts[number] = verdict
        asked = {"call": number, "tool": tool, "arguments": json.loads(arguments), "pattern": tool, "next": 3}
        asked |= {"reply_to": "acme.w", "within_ms": 20000}
        self.asked[number] = {**asked, "waited_ms": 0, "left_ms": 20000}
        await self.event("approval", **asked)
        return await verdict

    def decide(self, call: str, payload: bytes) -> str:
        """Takes a decision. Gives the code of its refusal, if it is refused."""
        verdict = self.verdicts.get(call)
        if verdict is None:
            return "approval_over"
        if self.asked.get(call, {}).get("tool") == "forbidden":
            return "missing_scope"
        if verdict.done():
            return "" if verdict.result() == json.loads(payload) else "approval_decided"
        del self.asked[call]
        verdict.set_result(json.loads(payload))
        return ""

    def answer(self, call: str, payload: bytes) -> None:
        self.pending.pop(call, None)
        if (answer := self.calls.get(call)) is not None and not answer.done():
            answer.set_result(json.loads(payload))

    def info(self, question: str, header: dict[str, Any]) -> dict[str, Any]:
        """The event `run`."""
        state = "ended" if self.ended is not None else "waiting" if self.pending or self.asked else "running"
        info: dict[str, Any] = {"job": question, "protocol": 1, "attempt": 1, "event": "run", "run": self.job["id"]}
        if self.ended is None:
            at = header.get("stdout_from", 0)
            written = base64.b64encode(self.stdout.encode()[at : at + 10]).decode()
            more = len(self.stdout.encode()) > at + 10
            info |= {"stdout": {"from": at, "data": written, "more": more}, "worker": "w"}
            info["approvals"] = list(self.asked.values())
            info["calls"] = [one | LARGE if one["tool"] == "large" else one for one in self.pending.values()]
        return info | {"state": state}

    async def attach(self, number: int, header: dict[str, Any]) -> None:
        """Moves the run to another request."""
        before, self.number, self.credit = self.number, number, header["window"]
        if before and self.ended is None:
            self.bridge.runs.pop(before, None)
            error = {"type": "error", "id": before, "code": "superseded", "message": "it was taken over"}
            self.bridge.send(error)
        self.bridge.runs[number] = self
        await self.paid({"type": "event", "id": number}, json.dumps(self.info("q", header)).encode())
        if self.ended is not None:
            await self.event("result", **self.ended)
            self.bridge.send({"type": "done", "id": number})
            del self.bridge.runs[number]

    async def step(self, line: str) -> tuple[str, str] | None:
        word, _, rest = line.partition(" ")
        match word:
            case "":
                pass
            case "print":
                await self.write(rest + "\n")
            case "big":
                for _ in range(int(rest) // 65536):
                    await self.write("x" * 65536)
            case "call":
                tool, _, arguments = rest.partition(" ")
                await self.write(json.dumps(await self.call(tool, arguments), ensure_ascii=False) + "\n")
            case "calls":
                count, tool, arguments = rest.split(" ", 2)
                answers = await asyncio.gather(*(self.call(tool, arguments) for _ in range(int(count))))
                await self.write(json.dumps(answers) + "\n")
            case "ask":
                count, tool, arguments = rest.split(" ", 2)
                verdicts = await asyncio.gather(*(self.ask(tool, arguments) for _ in range(int(count))))
                await self.write("".join(json.dumps(verdict) + "\n" for verdict in verdicts))
            case "elsewhere":
                asked = asyncio.create_task(self.ask(rest, "{}"))
                while not self.asked:
                    await asyncio.sleep(0)
                (call,) = self.asked
                self.decide(call, b'{"decision": "approve"}')
                await asked
                await self.event("decided", call=call, verdict={"decision": "approve"})
            case "wait":
                await self.cancelled.wait()
                return ("cancelled", "cancelled")
            case "unsubmitted":
                await self.cancelled.wait()
                raise Refused("cancelled")
            case "hold":
                await asyncio.Event().wait()
            case "stdin":
                text = self.job["stdin"]
                await self.write(f"{len(text)} {hashlib.sha256(text.encode()).hexdigest()}\n")
            case "job":
                await self.write(json.dumps(self.job) + "\n")
            case "unknown":
                await self.event("hibernated", for_ms=3)
            case "display":
                self.displays.append({"text/plain": rest})
                if "display" in self.job.get("stream", ()):
                    await self.event("display", data={"text/plain": rest})
            case "leave":
                path, _, text = rest.partition(" ")
                digest = hashlib.sha256(text.encode()).hexdigest()
                store[digest] = text.encode() if "damaged" not in path else b"something else"
                artifact = {"id": digest, "path": path, "name": path.rpartition("/")[2], "size": len(text.encode())}
                artifact |= {"sha256": digest, "media_type": "text/plain", "created_at": "2026-01-01T00:00:00Z"}
                if self.job.get("artifacts", {}).get("inline"):
                    artifact["base64"] = base64.b64encode(text.encode()).decode()
                self.artifacts.append(artifact)
            case "end":
                status, code = rest.split()
                return (status, code)
            case "refuse" | "refuse_once":
                if word == "refuse" or self.job["id"] not in refused:
                    refused.add(self.job["id"])
                    raise Refused(rest)
            case "die":
                sys.stderr.write("the bridge dies\n")
                sys.stderr.flush()
                os._exit(3)
            case "bad":
                self.bridge.writer.write(struct.pack("<I", 1 << 30))
            case _:
                raise AssertionError(line)
        return None

    async def go(self) -> None:
        try:
            if "lifecycle" in self.job.get("stream", ()) and "unsubmitted" not in self.job.get("code", ""):
                await self.event("accepted")
                await self.event("started", worker="w")
            how = begin_session(self.job)
            for line in self.job.get("code", "").splitlines() if how is None else ():
                if (how := await self.step(line)) is not None:
                    break
            self.ended = outcome_of(self, *(how or ("succeeded", "")))
            await self.event("result", **self.ended)
            if self.number:
                self.bridge.send({"type": "done", "id": self.number})
        except Refused as why:
            self.bridge.send({"type": "error", "id": self.number, "code": str(why), "message": "no", "advice": "try"})
        finally:
            self.bridge.runs.pop(self.number, None)


class Bridge:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.runs: dict[int, Run] = {}
        self.live: dict[int, Live] = {}
        self.parts: dict[int, tuple[dict[str, Any], bytes]] = {}
        self.tasks: set[asyncio.Task[None]] = set()

    def send(self, header: dict[str, Any], payload: bytes = b"") -> None:
        text = json.dumps(header).encode()
        self.writer.write(struct.pack("<II", 4 + len(text) + len(payload), len(text)) + text + payload)

    async def serve(self) -> None:
        try:
            while True:
                (length,) = struct.unpack("<I", await self.reader.readexactly(4))
                body = await self.reader.readexactly(length)
                (size,) = struct.unpack_from("<I", body)
                self.take(json.loads(body[4 : 4 + size]), body[4 + size :])
        except (asyncio.IncompleteReadError, ConnectionError):
            log({"type": "eof"})

    def take(self, header: dict[str, Any], payload: bytes) -> None:
        if header.pop("more", False) or header.get("id") in self.parts:
            first, text = self.parts.pop(header["id"], (header, b""))
            if not header.get("end"):
                self.parts[header["id"]] = (first, text + payload)
                return
            header, payload = first, text + payload
        body = json.loads(payload) if header["type"] in ("run", "request") else {}
        verdict = {"verdict": json.loads(payload)} if header["type"] == "decide" else {}
        log({**header, "job": body["id"], "body": body} if body else {**header, **verdict})
        number = header.get("id", 0)
        if number in self.live:
            self.live[number].take(header, payload)
            return
        match header["type"]:
            case "hello":
                if os.environ.get("FAKE_VERSION"):
                    self.send({"type": "error", "code": "unsupported_version", "message": "versions 7"})
                    self.writer.write_eof()
                    return
                self.send({"type": "hello", "version": 1, "server": "fake/1", "protocols": PROTOCOLS})
            case "open":
                if why := os.environ.get("FAKE_OPEN"):
                    self.send({"type": "error", "id": number, "code": why, "message": f"not {header.get('url')}"})
                elif os.environ.get("FAKE_OPENS") != "never":
                    self.send(
                        {"type": "opened", "id": number, "tenant": "acme", "embedded": EMBEDDED or "embedded" in header}
                    )
            case "run":
                run = self.runs[number] = Run(self, number, header["window"], json.loads(payload))
                jobs[run.job["id"]] = run
                if header.get("detached") and "unsubmitted" not in run.job.get("code", ""):
                    self.send({"type": "submitted", "id": number})
                self.begin(run.go())
            case "attach" | "run_info" | "answer" | "decide" | "cancel_run" | "detach":
                self.waits(header, number, payload)
            case "request":
                self.request(header, json.loads(payload))
            case "input" | "signal":
                pass
            case "cancel":
                if number in self.runs:
                    self.runs[number].cancelled.set()
            case "credit":
                if number in self.runs:
                    self.runs[number].credit += header["bytes"]
                    self.runs[number].more.set()
            case "tool_result":
                if number in self.runs:
                    self.runs[number].answer(header["call"], payload)
            case "artifact":
                run = self.runs[number] = Run(self, number, header["window"], {"id": ""})
                self.begin(self.artifact(run, header["ref"]))
            case "sessions":
                listed = [{"id": s, "pool": "default", "worker": "w", "expires_in_ms": 270000} for s in sessions]
                self.send({"type": "done", "id": number}, json.dumps(listed).encode())
            case "check_tools":
                bad = b"no_pattern" in payload
                error = {"type": "error", "id": number, "code": "bad_tool", "message": "no engine reads it"}
                self.send(error if bad else {"type": "done", "id": number})
            case "close":
                self.writer.close()
            case other:
                self.send({"type": "error", "id": number, "code": "unsupported_request", "message": other})

    def waits(self, header: dict[str, Any], number: int, payload: bytes) -> None:
        """Requests about runs that go on without their client."""
        done: dict[str, Any] = {"type": "done", "id": number}
        run = jobs.get(header.get("job", ""))
        match header["type"]:
            case "attach" if run is None:
                self.send({"type": "error", "id": number, "code": "unknown_run", "message": "no such run"})
            case "attach" if run is not None:
                self.begin(run.attach(number, header))
            case "run_info":
                unknown = {"job": "q", "attempt": 0, "event": "run", "run": header["job"], "state": "unknown"}
                self.send(done, json.dumps(unknown if run is None else run.info("q", header)).encode())
            case "answer" if header["reply_to"] == "gone":
                self.send({"type": "error", "id": number, "code": "unknown_call", "message": "nobody waits"})
            case "answer":
                for one in jobs.values():
                    one.answer(header["call"], payload)
                self.send(done)
            case "decide":
                code = "approval_over" if run is None else run.decide(header["call"], payload)
                self.send({"type": "error", "id": number, "code": code, "message": "no"} if code else done)
            case "cancel_run":
                if run is not None:
                    run.cancelled.set()
                self.send(done)
            case "detach":
                if (left := self.runs.pop(number, None)) is not None:
                    left.number = 0
                    self.send(done)
            case other:
                raise AssertionError(other)

    def request(self, header: dict[str, Any], body: dict[str, Any]) -> None:
        name = body["session"]
        if sessions.get(name, -1) == -1:
            code = "session_expired" if name in sessions else "session_lost"
            error = {"code": code, "message": f"it is {code}", "safe_to_retry": True}
            payload = json.dumps({"how": "error", "error": error, "output": 0, "wall_ms": 0}).encode()
            self.send({"type": "done", "id": header["id"]}, payload)
            return
        live = self.live[header["id"]] = Live(self, header, body, files.setdefault(name, {}))
        self.begin(live.go())

    async def artifact(self, run: Run, ref: str) -> None:
        data = store[ref]
        for at in range(0, len(data), 5):
            await run.paid({"type": "data", "id": run.number}, data[at : at + 5])
        self.send({"type": "done", "id": run.number, "size": len(data)})
        del self.runs[run.number]

    def begin(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["bridge"])
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--parent", type=int, required=True)
    args = parser.parse_args()
    assert args.parent == os.getppid()
    os.set_inheritable(args.fd, False)
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=args.fd))
    log({"type": "start"})
    await Bridge(reader, writer).serve()


if __name__ == "__main__":
    asyncio.run(main())
