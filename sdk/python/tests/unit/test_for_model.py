import base64
import copy
import dataclasses
import pickle
from typing import Any

import pytest
from helpers import on_a_loop
from outcomes import result

from thermae import AsyncSandbox, ForModel, MadeCall, ModelImage, Sandbox
from thermae._events import Audit
from thermae._for_model import ENDS, LEFT_OUT, Writing, cut
from thermae._made_calls import LONGEST, CallLog
from thermae._results import AsyncResult, Status

ERROR = {"code": "code_raised", "message": "it raised E", "exception": "E", "traceback": "T line 1\nE: no"}
PNG = b"\x89PNG\r\n"


def told(made: AsyncResult, limit: int = 20_000) -> ForModel:
    return Writing(made, limit).finish(in_session=False)


def failed(*calls: MadeCall, not_seen: int = 0, **fields: Any) -> AsyncResult:
    made = result(status="failed", error=ERROR, **fields)
    return dataclasses.replace(made, calls=list(calls), calls_not_seen=not_seen)


def test_a_program_that_succeeded() -> None:
    made = result(stdout="42\n", stderr="careful\n", value={"text/plain": "[1]"})
    assert told(made).text == (
        "The program succeeded.\n\nOutput:\n42\n\nError output:\ncareful\n\nValue of the last expression:\n[1]"
    )
    assert "Print what you want to see" in told(result()).text


def test_every_status_has_words() -> None:
    assert set(ENDS) == set(Status.__args__)  # type: ignore[attr-defined]
    assert told(result(status="vanished")).text.startswith("The program ended as vanished.")


def test_an_error_has_its_message_and_its_traceback() -> None:
    assert "Error:\nit raised E\nT line 1\nE: no" in told(failed()).text
    late = result(status="timed_out", stdout="got here", error={"code": "wall_timeout", "message": "more than its 1 s"})
    assert all(one in told(late).text for one in ("took too long", "more than its 1 s", "got here", "Do less"))


def test_images_are_apart_and_none_is_lost() -> None:
    figures = [
        {"text/plain": f"<Figure {n}>", "image/png": base64.b64encode(PNG + b"%d" % n).decode()} for n in range(3)
    ]
    made = result(displays=[figures[0], {"text/plain": "between"}, figures[1]], value=figures[2])
    shown = told(made, 60)
    assert shown.images == [ModelImage("image/png", PNG + b"%d" % n) for n in range(3)]
    whole = told(made).text
    places = [whole.index(one) for one in ("[image 1: <Figure 0>]", "between", "[image 2: <Figure 1>]", "[image 3")]
    assert places == sorted(places)
    assert shown.images[0].url == f"data:image/png;base64,{figures[0]['image/png']}"


def test_what_has_no_plain_text_is_shown_in_another_form() -> None:
    displays = [{"text/html": "<b>x</b>"}, {"text/markdown": "*m*", "text/html": "h"}, {"a/b": 1}]
    assert "Displayed:\n<b>x</b>\n*m*\n<a/b>" in told(result(displays=displays)).text


def test_calls_that_were_made_have_an_exact_total_and_a_bounded_list() -> None:
    answered = [MadeCall("pay", {"n": n}, "answered", '"paid"') for n in range(100)]
    refused = MadeCall("pay", None, "refused", "capability_refused: too much")
    open_call = MadeCall("send", {"to": "Ada"}, "unknown")
    made = failed(*answered, refused, open_call, not_seen=3)
    text = told(made).text
    assert "already made: 105 (100 answered, 1 refused and not made, 1 may have happened, 3 not seen" in text
    assert "- send(to='Ada'): may have happened\n- pay(n=0): answered: \"paid\"" in text
    assert "… and 82 more" in text
    assert "Do not repeat" in text


def test_a_program_that_succeeded_tells_of_no_calls() -> None:
    made = result(stdout="x", usage={"tool_calls": 3})
    assert "calls" not in told(made).text
    assert "Do not repeat" not in told(failed(MadeCall("pay", None, "refused", "no"))).text
    assert "calls" not in told(failed()).text


def test_notes_tell_of_files_forms_and_sessions() -> None:
    made = result(
        stdout="x",
        displays=[{"text/plain": "d", LEFT_OUT: {"text/html": 9 << 20}}],
        artifacts_left_out=[{"path": "/workspace/artifacts/l", "why": "link", "message": "it is a link"}],
        session={"id": "s", "fresh": False, "alive": False},
    )
    text = told(made).text
    for note in ("Too large to show: text/html", "/workspace/artifacts/l: it is a link", "its variables are gone"):
        assert note in text


@pytest.mark.parametrize("limit", [1, 10, 80, 200, 1000, 20_000])
def test_the_text_is_never_longer_than_its_limit(limit: int) -> None:
    calls = [MadeCall("pay", {"text": "a" * 10_000}, "answered", "b" * LONGEST)] * 50
    made = failed(*calls, stdout="o" * 50_000, stderr="e" * 50_000, value={"text/plain": "v" * 50_000})
    shown = told(made, limit)
    assert len(shown.text) <= limit
    assert shown.text.startswith("The program failed."[:limit])
    if limit >= 1000:
        assert all(one in shown.text for one in ("ooo", "eee", "vvv", "it raised E", "characters left out"))


def test_a_short_part_is_whole_beside_a_long_one() -> None:
    text = told(failed(stdout="o" * 1_000_000)).text
    assert "it raised E\nT line 1\nE: no" in text
    assert len(text) > 19_000


@pytest.mark.parametrize("most", [60, 61, 100, 999])
def test_the_middle_is_left_out_and_counted(most: int) -> None:
    text = "".join(chr(0x100 + n % 500) for n in range(1000))
    shown = cut(text, most)
    head, mark, tail = shown.split("\n")
    assert len(shown) <= most
    assert text.startswith(head)
    assert text.endswith(tail)
    assert mark == f"[… {1000 - len(head) - len(tail)} characters left out …]"
    assert cut(text, 1000) == text


def test_a_limit_is_a_number_of_characters() -> None:
    with pytest.raises(ValueError, match="above 0"):
        told(result(), 0)


def test_what_became_of_each_call_is_in_the_result() -> None:
    def pay(amount: int) -> str:
        if amount > 5:
            raise ValueError("too much")
        return "paid"

    with Sandbox(tools=[pay]) as box:
        code = 'call pay {"amount": 1}\ncall pay {"amount": 9}\ncall pay {"amount": "x"}\nend failed code_raised'
        made = box.run(code)
    assert [(one.tool, one.state) for one in made.calls] == [("pay", "answered")] * 2 + [("pay", "refused")]
    assert [one.answer.split(":")[0] for one in made.calls[:2]] == ['"paid"', "ValueError"]
    assert made.calls[0].arguments == {"amount": 1}
    assert "already made: 3 (2 answered, 1 refused and not made)" in made.for_model().text


@on_a_loop
async def test_the_result_of_an_async_sandbox_is_awaited() -> None:
    async with AsyncSandbox() as box:
        made = await (await box.run("print hello")).for_model()
    assert str(made) == "The program succeeded.\n\nOutput:\nhello"


def test_a_copy_of_a_result_says_the_same() -> None:
    with Sandbox() as box, box.session() as session:
        made = session.run("print " + "x" * 30_000)
    for again in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        shown = again.for_model(1000)
        assert "characters left out …]" in shown.text
        assert shown.files == []


def test_refusals_come_from_the_audit_log() -> None:
    log = CallLog()
    fields: dict[str, Any] = dict.fromkeys(Audit.__dataclass_fields__)
    lines = [(1, "call", None), (1, "end", "ok"), (2, "call", None), (2, "end", "capability_refused")]
    for call, what, outcome in (*lines, (3, "end", "tool_call_limit")):
        log.see(Audit(**{**fields, "call": call, "what": what, "result": outcome, "tool": "pay", "why": "no"}))
    assert list(log) == [
        MadeCall("pay", None, "refused", "capability_refused: no"),
        MadeCall("pay", None, "refused", "tool_call_limit: no"),
    ]
    # The fleet counts the first two, of which this process has seen one.
    assert [log.not_seen(counted) for counted in (0, 1, 2, 4)] == [0, 0, 1, 3]
