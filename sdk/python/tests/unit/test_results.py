import copy
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from outcomes import result

from thermae import Sandbox, errors
from thermae._events import Audit, read_event
from thermae._frames import BadFrameError
from thermae._results import Status


def test_the_whole_outcome_is_read() -> None:
    made = result(
        stdout="a\ufffd",
        stdout_base64="Yf8=",
        stderr="é",
        exit_code=3,
        signal=9,
        value={"text/plain": "1"},
        displays=[{"text/plain": "2"}],
        error={"code": "code_raised", "message": "m", "exception": "E", "traceback": "T", "new": 1},
        usage={"wall_ms": 1.5, "cpu_ms": 1, "memory_bytes": 2, "output_bytes": 3, "tool_calls": 4, "new": 5},
        limits={"wall_ms": 1, "cpu_ms": 2, "memory_bytes": 3, "pids": 4, "output_bytes": 5, "new": 6},
        session={
            "id": "s",
            "fresh": True,
            "alive": False,
            "restored_files": 7,
            "checkpoint_error": {"code": "checkpoint_failed", "message": "no", "newer": 1},
            "new": 8,
        },
        artifacts_left_out=[{"path": "p", "why": "link", "message": "m", "size": 1}],
        worker="w",
        duplicate_of="d",
        waited={"queue_ms": 12},
    )
    assert (made.job_id, made.attempt, made.status, made.ok) == ("j", 2, "succeeded", True)
    assert (made.stdout_bytes, made.stderr_bytes) == (b"a\xff", "é".encode())
    assert made.error is not None
    assert (made.error.exception, made.usage.tool_calls, made.left_out[0].why) == ("E", 4, "link")
    assert made.limits is not None
    assert made.session is not None
    assert (made.limits.pids, made.session.restored_files) == (4, 7)
    assert made.session.checkpoint_error is not None
    assert (made.session.checkpointed, made.session.checkpoint_error.code) == (False, "checkpoint_failed")
    assert made.raw["waited"] == {"queue_ms": 12}


def test_every_status_of_the_schema_is_known() -> None:
    schema = json.loads((Path(__file__).parents[4] / "schemas/json/event.json").read_text())
    assert {one["const"] for one in schema["$defs"]["Status"]["oneOf"]} == set(Status.__args__)  # type: ignore[attr-defined]


def test_raise_for_status_raises_the_class_of_the_code() -> None:
    assert result().raise_for_status().ok
    bad = result(status="timed_out", error={"code": "wall_timeout", "message": "too slow"})
    with pytest.raises(errors.WallTimeout, match="too slow") as raised:
        bad.raise_for_status()
    assert raised.value.result is bad
    assert raised.value.request_id == "j"
    assert result(status="vanished").to_error() is not None


def test_a_notebook_shows_a_single_thing_in_all_its_forms() -> None:
    rich = {"text/plain": "<Figure>", "image/png": "iVBO", "application/vnd.x+json": {"k": 1}}
    assert result(value=rich)._repr_mimebundle_() == rich
    assert result(displays=[rich])._repr_mimebundle_() == rich
    assert result(stdout="a\n")._repr_mimebundle_() == {"text/plain": "a"}
    assert result()._repr_mimebundle_() == {"text/plain": ""}


def test_a_notebook_shows_texts_one_below_the_other() -> None:
    error = {"code": "c", "message": "m", "traceback": "T"}
    texts: dict[str, Any] = {"stdout": "a\n", "stderr": "b", "displays": [{"text/plain": "1"}], "error": error}
    assert result(status="failed", **texts)._repr_mimebundle_() == {"text/plain": "a\nb\n1\nT"}
    told = {"code": "wall_timeout", "message": "too slow"}
    assert result(status="timed_out", stdout="a", error=told)._repr_mimebundle_() == {
        "text/plain": "a\nwall_timeout: too slow"
    }
    where = {**told, "traceback": "T\nKeyboardInterrupt\n"}
    assert result(status="timed_out", error=where)._repr_mimebundle_() == {
        "text/plain": "wall_timeout: too slow\nT\nKeyboardInterrupt"
    }


def test_a_notebook_shows_everything_in_order_if_anything_is_rich() -> None:
    figures = [{"text/plain": f"<Figure {n}>", "image/png": f"png{n}\n"} for n in range(3)]
    drawing = {"text/plain": "d", "image/svg+xml": "<svg/>"}
    table = {"text/plain": "t", "text/html": "<table>"}
    error = {"code": "c", "message": "m", "traceback": "E < F"}
    for fields, last in (({"value": table}, "<table>"), ({"error": error, "status": "failed"}, "E &lt; F")):
        bundle = result(stdout="1 < 2\n", stderr="careful", displays=[*figures, drawing], **fields)._repr_mimebundle_()
        page = bundle.pop("text/html")
        assert list(bundle) == ["text/plain"]
        pictures = [f'src="data:image/png;base64,png{n}"' for n in range(3)]
        at = [page.index(one) for one in ("1 &lt; 2", "careful", *pictures, "<svg/>", last)]
        assert at == sorted(at)
    assert bundle["text/plain"] == "1 < 2\ncareful\n<Figure 0>\n<Figure 1>\n<Figure 2>\nd\nE < F"


def test_a_notebook_shows_formulas_and_markdown_beside_other_things() -> None:
    formula = {"text/plain": "x**2", "text/latex": "$x^2 < 1$"}
    marked = {"text/plain": "<M>", "text/markdown": "**bold** & more"}
    bundle = result(stdout="a", displays=[marked], value=formula)._repr_mimebundle_()
    assert bundle["text/plain"] == "a\n<M>\nx**2"
    assert bundle["text/html"].splitlines() == [
        "<div><pre>a</pre></div>",
        "<div><pre>**bold** &amp; more</pre></div>",
        "<div>$x^2 &lt; 1$</div>",
    ]


def test_a_notebook_names_the_forms_of_what_has_no_text() -> None:
    bundle = result(stdout="a", displays=[{"application/json": {}}])._repr_mimebundle_()
    assert bundle == {"text/plain": "a\n<application/json>"}


@pytest.mark.parametrize(
    "payload",
    [b"", b"[]", b"{}", b"null", b'{"job": "j"}', b'{"job": "j", "event": "stdout"}', b"\xff", b"[" * 100_000],
)
def test_events_that_cant_be_read_end_the_connection(payload: bytes) -> None:
    with pytest.raises(BadFrameError):
        read_event(payload)


def test_what_the_audit_log_says_is_read() -> None:
    told = {
        "job": "j",
        "event": "audit",
        "what": "end",
        "at": "now",
        "worker": "w",
        "call": 3,
        "token": "t-1",
        "result": "ok",
        "ms": 1500,
    }
    event = read_event(json.dumps(told).encode())
    assert isinstance(event, Audit)
    assert (event.what, event.call, event.result, event.seconds) == ("end", 3, "ok", 1.5)
    assert event.token == "t-1"
    assert (event.tool, event.arguments, event.why) == (None, None, None)


def test_unknown_events_are_nothing() -> None:
    assert read_event(b'{"job": "j", "event": "hibernated"}') is None


def through_pickle(one: Any) -> Any:
    return pickle.loads(pickle.dumps(one))


@pytest.mark.parametrize("again", [copy.deepcopy, through_pickle])
def test_a_result_with_artifacts_can_be_copied_and_sent_to_another_process(again: Callable[[Any], Any]) -> None:
    with Sandbox() as box:
        made = box.run("leave a hello")
        inline = again(box.run("leave a hello", inline_artifacts=True)).artifacts[0]
        same = again(made)
        assert same == made
        assert same.artifacts == made.artifacts
        assert inline.read() == b"hello"
        if again is copy.deepcopy:
            assert same.artifacts[0].read() == b"hello"
        else:
            with pytest.raises(errors.SandboxClosed, match="in another process"):
                same.artifacts[0].read()
