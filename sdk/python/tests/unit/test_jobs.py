import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from over_http import of_the_embedded_fleet

from thermae import Capability, InputFile, Job, Sandbox, tool
from thermae._jobs import JobOptions, RunOptions, StreamOptions
from thermae._options import EmbeddedOptions, opening, redacted
from thermae._results import read_result
from thermae._units import to_bytes, to_ms
from thermae._watch import Watch

ROOT = Path(__file__).parents[4]


STORED = {"id": "abc", "path": "p", "name": "p", "size": 1, "sha256": "", "media_type": "", "created_at": ""}


async def nothing(ref: str, url: str | None) -> AsyncIterator[bytes]:
    raise AssertionError
    yield b""


def wire(
    job: Job,
    stream: tuple[str, ...] = (),
    default: list[Capability] | None = None,
    token: str | None = None,
) -> dict[str, Any]:
    tools = job.tools({})
    payload = job.to_wire(tools, job.capabilities(default), job.token(token, tools), stream)
    made: dict[str, Any] = json.loads(payload)
    return made


def test_the_smallest_job_says_nothing_but_its_code() -> None:
    job = Job("print(1)")
    assert wire(job) == {"id": job.id, "code": "print(1)", "language": "python", "start_within_ms": 60_000}
    job.must_start = False
    assert wire(job) == {"id": job.id, "code": "print(1)", "language": "python"}
    assert len(job.id) == 32
    assert job.id != Job("print(1)").id


def test_every_option_reaches_the_wire(tmp_path: Path) -> None:
    (tmp_path / "local").write_bytes(b"\xff\x00")

    @tool
    def t() -> None:
        pass

    artifact = read_result("j", {"status": "succeeded", "artifacts": [STORED]}, nothing).artifacts[0]
    job = Job(
        "x",
        job_id="j",
        language="python",
        stdin="in",
        env={"A": "b"},
        files={
            "a.txt": "text",
            "b.bin": b"\xff",
            "c.txt": "é".encode(),
            "d": tmp_path / "local",
            "e.sh": InputFile("ls", executable=True),
        },
        inputs={"rows": [1], "stored": artifact},
        tools=[t],
        sync_tools=True,
        capabilities=[{"pattern": "t", "max_calls": 1}],
        token="a token",
        timeout=1.5,
        start_within=2,
        cpu=3,
        memory="64MiB",
        pids=4,
        output="1 KiB",
        tool_wait=5,
        session="s",
        session_options={
            "if_gone": "new",
            "reset": True,
            "close": True,
            "idle": 6,
            "checkpoint": "after_job",
            "checkpoint_ttl": 7,
            "restore": "r",
        },
        pool="p",
        priority="high",
        labels={"l": "m"},
        idempotency_key="k",
        pause=8,
        if_client_gone="wait",
        max_attempts=2,
        inline_artifacts=True,
    )
    made = wire(job, ("output",))
    assert made == {
        "id": "j",
        "code": "x",
        "language": "python",
        "pool": "p",
        "class": "high",
        "session": {
            "id": "s",
            "if_gone": "new",
            "reset": True,
            "close": True,
            "idle_ms": 6000,
            "checkpoint": "after_job",
            "checkpoint_ttl_ms": 7000,
            "restore": "r",
        },
        "limits": {
            "wall_ms": 1500,
            "cpu_ms": 3000,
            "memory_bytes": 64 << 20,
            "pids": 4,
            "output_bytes": 1024,
            "tool_ms": 5000,
            "pause_ms": 8000,
        },
        "if_client_gone": "wait",
        "tools": [t.to_wire()],
        "sync_tools": True,
        "capabilities": [{"pattern": "t", "max_calls": 1}],
        "token": "a token",
        "stream": ["output"],
        "max_attempts": 2,
        "start_within_ms": 2000,
        "inputs": {"rows": {"value": [1]}, "stored": {"ref": "abc"}},
        "stdin": "in",
        "files": [
            {"path": "a.txt", "text": "text"},
            {"path": "b.bin", "base64": "/w=="},
            {"path": "c.txt", "text": "é"},
            {"path": "d", "base64": "/wA="},
            {"path": "e.sh", "text": "ls", "executable": True},
        ],
        "artifacts": {"inline": True},
        "env": {"A": "b"},
        "idempotency_key": "k",
        "labels": {"l": "m"},
    }
    given = set(get_type_hints(JobOptions)) - {"argv"}
    assert given == set(job.options), "an option is not tested"
    schema = json.loads((ROOT / "schemas/json/job.json").read_text())
    assert set(schema["properties"]) <= set(made) | {"argv", "protocol"}, "the schema has other fields"


def test_a_tools_result_and_time_reach_the_wire() -> None:
    (made,) = wire(Job("x", tools=[tool(to_ms, timeout=3)]))["tools"]
    assert (made["timeout_ms"], made["output_schema"]) == (3000, {"type": "integer"})


def test_capabilities_are_the_jobs_own_or_the_sandboxes() -> None:
    tools = [tool(to_ms)]
    default: list[Capability] = [{"pattern": "**"}]
    assert wire(Job("x", tools=tools), default=default)["capabilities"] == default
    assert wire(Job("x", tools=tools, capabilities=[{"pattern": "a"}]), default=default)["capabilities"] == [
        {"pattern": "a"}
    ]
    assert "capabilities" not in wire(Job("x", tools=tools))
    assert "capabilities" not in wire(Job("x"), default=default), "nothing can be called"
    assert "capabilities" not in wire(Job(argv=["ls"]), default=default)


def test_no_capabilities_at_all_are_not_the_same_as_an_empty_list() -> None:
    tools = [tool(to_ms)]
    empty = wire(Job("x", tools=tools, capabilities=[]))
    assert empty["capabilities"] == []
    assert wire(Job("x", tools=tools), default=[])["capabilities"] == []
    assert wire(Job("x", tools=tools, capabilities=[]), default=[{"pattern": "**"}])["capabilities"] == []


@pytest.mark.parametrize("bad", ["**", {"pattern": "**"}, 5])
def test_capabilities_are_a_list(bad: Any) -> None:
    with pytest.raises(TypeError, match="must be a list"):
        wire(Job("x", tools=[tool(to_ms)], capabilities=bad))
    with pytest.raises(TypeError, match="must be a list"):
        Sandbox(capabilities=bad)


def test_a_token_is_the_jobs_own_or_the_sandboxes() -> None:
    tools = [tool(to_ms)]
    assert wire(Job("x", tools=tools), token="s")["token"] == "s"
    assert wire(Job("x", tools=tools, token="t"), token="s")["token"] == "t"
    assert "token" not in wire(Job("x"), token="s"), "nothing can be called"
    assert "token" not in wire(Job(argv=["ls"]), token="s")


def test_a_token_is_a_text() -> None:
    made = wire(Job("x", token="t"))
    assert made["token"] == "t"
    assert "token" not in wire(Job("x"))
    assert wire(Job("x", token=""))["token"] == "", "an empty text is no way to leave it out"
    bad: Any = b"t"
    with pytest.raises(TypeError, match="token must be a str"):
        wire(Job("x", token=bad))
    with pytest.raises(TypeError, match="token must be a str"):
        Sandbox(token=bad)


def test_a_command_is_a_job_in_bash_without_tools() -> None:
    job = Job(argv=["grep", "-c", "two words"])
    assert job.tools({"t": tool(test_a_command_is_a_job_in_bash_without_tools)}) == {}
    argv = ["grep", "-c", "two words"]
    assert wire(job) == {"id": job.id, "argv": argv, "language": "bash", "start_within_ms": 60_000}
    with pytest.raises(ValueError, match="argv is empty"):
        wire(Job(argv=[]))


def test_a_timeout_bounds_the_whole_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Job("x").deadline() is None
    job = Job("x", timeout=5)
    assert (wire(job)["limits"], wire(job)["start_within_ms"], job.deadline()) == ({"wall_ms": 5000}, 60000, 65)
    assert Job("x", timeout=5, start_within=2).deadline() == 7
    assert Job("x", timeout=5).deadline(can_wait=True) == 305
    assert Job("x", timeout=5, pause=10).deadline(can_wait=True) == 75
    monkeypatch.setenv("THERMAE_TIMEOUT", "2.5")
    assert wire(Job("x"))["limits"] == {"wall_ms": 2500}
    assert wire(job)["limits"] == {"wall_ms": 5000}
    monkeypatch.setenv("THERMAE_TIMEOUT", "soon")
    with pytest.raises(ValueError, match="THERMAE_TIMEOUT"):
        wire(Job("x"))


@pytest.mark.parametrize(
    ("options", "error", "why"),
    [
        ({"tiemout": 1}, TypeError, "unknown options: tiemout"),
        ({"argv": ["ls"]}, TypeError, "either code or argv"),
        ({"timeout": 0}, ValueError, "above 0"),
        ({"timeout": float("nan")}, ValueError, "above 0"),
        ({"memory": "lots"}, ValueError, "is not a size"),
        ({"memory": 0}, ValueError, "at least 1"),
        ({"files": {"a": Path("/does/not/exist")}}, FileNotFoundError, "exist"),
        ({"labels": {"a": "\ud800"}}, ValueError, "surrogates"),
        ({"env": {"a": float("inf")}}, ValueError, "JSON"),
        ({"files": ["a"]}, TypeError, "files is a dict, not list"),
        ({"inputs": [1]}, TypeError, "inputs is a dict, not list"),
        ({"env": ["A=1"]}, TypeError, "env is a dict, not list"),
        ({"labels": {"a"}}, TypeError, "labels is a dict, not set"),
    ],
)
def test_what_cant_be_a_job_is_told(options: Any, error: type[Exception], why: str) -> None:
    with pytest.raises(error, match=why):
        wire(Job("x", **options))


def test_units() -> None:
    assert [to_bytes(x) for x in (1, "2", "3 B", "4KiB", "5MB", "6gib")] == [1, 2, 3, 4096, 5_000_000, 6 << 30]
    assert [to_ms(x) for x in (1, 0.0001, 1.5)] == [1000, 1, 1500]


def test_callbacks_ask_for_the_events_that_they_need() -> None:
    options: RunOptions = {"on_stderr": print, "check": True, "timeout": 3}
    watch = Watch(options)
    assert (watch.kinds, watch.idle, watch.check, options) == (("output",), False, True, {"timeout": 3})
    assert Watch({"on_display": print}).kinds == ("display",)
    assert Watch({"on_audit": print}).kinds == ("audit",)
    assert Watch({"on_tool_call": print}).kinds == ()
    assert not Watch({"on_tool_call": print}).idle
    assert Watch({}).idle
    assert StreamOptions.__annotations__.keys() <= RunOptions.__annotations__.keys() | {"max_retries"}


@of_the_embedded_fleet
def test_the_fleet_is_chosen_by_argument_then_variable_then_embedded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(opening(None, None, {})) == ["embedded"]
    monkeypatch.setenv("THERMAE_URL", "amqp://a:b@c")
    monkeypatch.setenv("THERMAE_TENANT", "t")
    assert opening(None, None, {}) == {"url": "amqp://a:b@c", "tenant": "t"}
    assert opening("amqp://x", "u", {}) == {"url": "amqp://x", "tenant": "u"}
    assert list(opening("embedded", None, {"slots": 1})) == ["embedded"]
    with pytest.raises(ValueError, match="slots: only the embedded fleet"):
        opening(None, None, {"slots": 1})
    with pytest.raises(TypeError, match="unknown options: slot"):
        opening(None, None, {"slot": 1})  # type: ignore[typeddict-unknown-key]


@of_the_embedded_fleet
def test_embedded_options_have_the_units_of_the_wire(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    options = opening(
        None,
        None,
        {
            "python": "/usr/bin/python3",
            "slots": 2,
            "spares": 3,
            "memory": "1GiB",
            "cpu": 4,
            "disk": 5,
            "wall": 0.5,
            "datasets": {"d": "here"},
            "preload": ("polars",),
            "store": "/srv/../srv/store",
        },
    )
    assert options == {
        "embedded": {
            "python": "/usr/bin/python3",
            "slots": 2,
            "spares": 3,
            "memory": 1 << 30,
            "cpu": 4000,
            "disk": 5,
            "wall": 500,
            "datasets": {"d": f"{tmp_path}/here"},
            "preload": ["polars"],
            "store": "/srv/store",
        }
    }
    monkeypatch.setenv("THERMAE_PYTHON", "/opt/python")
    assert opening(None, None, {}) == {"embedded": {"python": "/opt/python"}}
    # None is the same as no option at all, as it is for the options of a run.
    nothing: Any = dict.fromkeys(EmbeddedOptions.__annotations__)
    assert opening(None, None, nothing) == {"embedded": {"python": "/opt/python"}}
    assert opening("amqp://a:b@h", None, nothing) == {"url": "amqp://a:b@h"}


def test_passwords_are_never_shown() -> None:
    assert redacted("amqps://me:p:a@ss@host/v and amqp://host") == "amqps://me:…@host/v and amqp://host"
