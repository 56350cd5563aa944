import asyncio
import json
import threading
from typing import Any

import pytest
from bridge_log import Log
from helpers import on_a_loop, until

from thermae import (
    AsyncRun,
    AsyncSandbox,
    Job,
    PendingCall,
    Result,
    Run,
    RunInfo,
    Sandbox,
    Stdout,
    ToolCall,
    declare_tool,
    errors,
    tool,
)

approve = declare_tool("approve", description="Asks a person.", input_schema={"type": "object"})


@tool
def double(n: int) -> int:
    return 2 * n


def waiting(run: Run, count: int = 1) -> list[PendingCall]:
    calls: list[PendingCall] = until(lambda: found if len(found := run.pending()) == count else None)
    return calls


def test_a_run_waits_for_answers_by_hand_and_tools_answer_by_themselves(bridge: Log) -> None:
    with Sandbox(tools=[approve, double], token="t") as box:
        run = box.submit('call double {"n": 21}\ncalls 2 approve {"what": "pay"}\nprint end')
        first, second = waiting(run, 2)
        assert (first.tool, first.arguments, first.job_id) == ("approve", {"what": "pay"}, run.id)
        assert 0 < first.left <= 20
        info = run.info()
        assert (info.state, info.worker, info.attempt, len(info.calls)) == ("waiting", "w", 1, 2)
        run.answer(first, True)
        run.answer(second.call, error=ValueError("no"))
        result = run.result(timeout=60)
        answers = [{"ok": True}, {"error": {"type": "ValueError", "message": "no"}}]
        assert [json.loads(line) for line in result.stdout.splitlines()[:2]] == [{"ok": 42}, answers]
        assert (run.result(), run.info().state) == (result, "ended")
    (sent,) = bridge.frames("run")
    assert (sent["detached"], sent["body"]["if_client_gone"]) == (True, "wait")
    assert sent["body"]["token"] == "t"
    assert sent["body"]["stream"] == ["lifecycle", "output", "display", "audit"]
    assert [one["call"] for one in bridge.frames("answer")] == [first.call, second.call]
    assert not bridge.frames("cancel")


def test_nothing_cancels_a_run_but_its_cancel(bridge: Log) -> None:
    with Sandbox() as box:
        first, second = box.submit("wait"), box.submit("wait")
        assert isinstance(first, Run)
        del first
        with pytest.raises(TimeoutError):
            second.result(timeout=0.05)
        second.cancel()
        assert second.result(timeout=60).status == "cancelled"
        third = box.submit("wait")
    assert not bridge.frames("cancel")
    assert [one["job"] for one in bridge.frames("cancel_run")] == [second.id]
    with pytest.raises(errors.SandboxClosed):
        third.result()


def test_a_run_that_is_taken_over_goes_to_the_last_one_that_attached(bridge: Log) -> None:
    with Sandbox(tools=[double]) as box:
        first = box.submit("print before\ncalls 2 approve {}", tools=[approve])
        waiting(first, 2)
        second = box.attach(first.id)
        with pytest.raises(errors.Superseded) as superseded:
            first.result()
        assert superseded.value.code == "superseded"
        with pytest.raises(errors.Superseded):
            list(first.events())
        events = second.events()
        calls = [next(events), next(events)]
        assert all(isinstance(call, ToolCall) and call.tool == "approve" for call in calls)
        for call in calls:
            assert isinstance(call, ToolCall)
            second.answer(call, 1)
        *_, last = events
        assert isinstance(last, Result)
        assert last.stdout == 'before\n[{"ok": 1}, {"ok": 1}]\n'
        third = Run.attach(first.id, box)
        assert third.result(timeout=60).stdout == last.stdout
    assert [one["job"] for one in bridge.frames("attach")] == [first.id, first.id]


def test_an_attached_run_answers_with_the_tools_of_the_box() -> None:
    @tool
    def late(n: int) -> int:
        return n + 1

    with Sandbox(tools=[late]) as box:
        run = box.submit('call late {"n": 1}\ncall other {}', tools=[declare_tool("late"), declare_tool("other")])
        waiting(run)
        attached = box.attach(run.id)
        (other,) = waiting(attached)
        assert other.tool == "other"
        attached.answer(other)
        assert attached.result(timeout=60).stdout == '{"ok": 2}\n{"ok": null}\n'


def test_answers_twice_and_of_calls_that_do_not_wait(bridge: Log) -> None:
    with Sandbox(tools=[approve]) as box:
        run, other = box.submit("call approve {}\ncall approve {}"), box.submit("call approve {}")
        (call,), (foreign,) = waiting(run), waiting(other)
        for wrong in (foreign, "no-such-call", foreign.call):
            with pytest.raises(errors.UnknownCall) as unknown:
                run.answer(wrong, 1)
            assert isinstance(unknown.value, LookupError)
        with pytest.raises(TypeError):
            run.answer(call, object())
        with pytest.raises(ValueError, match="bytes"):
            run.answer(call, "x" * (17 << 20))
        run.answer(call, "first")
        run.answer(call, "second")
        run.answer(call.call, "third")
        (second,) = waiting(run)
        watcher = box.attach(run.id, take_over=False)
        watcher.answer(second, "watcher")
        assert run.result(timeout=60).stdout == '{"ok": "first"}\n{"ok": "watcher"}\n'
        gone = PendingCall(run.id, "c", "approve", {}, 0, 1, "gone")
        with pytest.raises(errors.UnknownCall):
            run.answer(gone, 1)
    assert len(bridge.frames("answer")) == 3


def test_whoever_does_not_follow_can_ask_and_answer_but_not_wait() -> None:
    with Sandbox(tools=[double]) as box:
        run = box.submit('call double {"n": 1}\ncall approve {}', tools=[declare_tool("double"), approve])
        watcher = box.attach(run.id, take_over=False)
        (call,) = waiting(watcher)
        assert call.tool == "double"
        with pytest.raises(errors.RunDetached):
            watcher.result()
        with pytest.raises(errors.RunDetached):
            next(watcher.events())
        watcher.answer(call, 5)
        run.answer(waiting(run)[0], 6)
        assert run.result(timeout=60).stdout == '{"ok": 5}\n{"ok": 6}\n'


def test_who_detaches_hears_nothing_more_and_can_attach_again(bridge: Log) -> None:
    called = threading.Event()

    @tool
    async def slow() -> int:
        called.set()
        await asyncio.Event().wait()
        return 1

    with Sandbox(tools=[slow]) as box:
        run = box.submit("call slow {}")
        assert called.wait(20)
        run.detach()
        run.detach()
        with pytest.raises(errors.RunDetached):
            run.result()
        (call,) = run.info().calls
        run.answer(call, 7)
        assert until(lambda: run.info().state == "ended")
        assert box.attach(run.id).result(timeout=60).stdout == '{"ok": 7}\n'
    assert len(bridge.frames("detach")) == 1
    assert not bridge.frames("cancel")


def test_unknown_and_refused_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    with Sandbox() as box:
        with pytest.raises(errors.UnknownRun, match="unknown_run"):
            box.attach("nothing")
        watcher = box.attach("nothing", take_over=False)
        info = watcher.info(stdout_from=3)
        assert (info.state, info.calls, info.stdout.end, info.worker) == ("unknown", [], 3, None)
        with pytest.raises(errors.UnknownCall):
            watcher.answer("c", 1)
        with pytest.raises(ValueError, match="stdout_from"):
            watcher.info(stdout_from=-1)
        refused = box.submit("end rejected limit_too_high")
        with pytest.raises(errors.LimitTooHigh):
            refused.result(timeout=60)
        with pytest.raises(errors.QueueFull):
            box.submit("refuse queue_full", max_retries=0).result(timeout=60)
        with pytest.raises(TypeError):
            box.submit(Job("x"), timeout=3)
        with pytest.raises(ValueError, match="if_client_gone"):
            box.submit("x", if_client_gone="never")  # type: ignore[arg-type]


def test_output_is_read_from_a_cursor() -> None:
    with Sandbox(tools=[approve]) as box:
        run = box.submit("print 0123456789abcé\ncall approve {}")
        call = waiting(run)[0]
        parts: list[str] = []
        info: RunInfo | None = None
        while info is None or info.stdout.more:
            info = run.info(stdout_from=info.stdout.end if info else 0)
            parts.append(info.stdout.text)
        assert parts == ["0123456789", "abcé\n"]
        assert (info.stdout.start, info.stdout.end, info.stderr.data) == (10, 16, b"")
        run.answer(call)


def test_calls_whose_arguments_are_not_kept_wait_for_an_answer_by_hand() -> None:
    def large() -> int:
        raise AssertionError("the tool has no arguments to be called with")

    with Sandbox(tools=[large]) as box:
        run = box.submit("call large {}", tools=[declare_tool("large")])
        waiting(run)
        attached = box.attach(run.id)
        (call,) = waiting(attached)
        assert call.arguments is None
        attached.answer(call, 3)
        assert attached.result(timeout=60).stdout == '{"ok": 3}\n'


def test_events_that_nobody_takes_are_kept_up_to_a_bound_and_hold_nothing_up() -> None:
    with Sandbox() as box:
        run = box.submit(f"big {4 << 20}\nprint last")
        assert run.result(timeout=60).ok
        events = list(run.events())
        texts = [one.text for one in events if isinstance(one, Stdout)]
        assert texts[-1] == "last\n"
        assert 0 < sum(map(len, texts)) <= 1 << 20
        assert isinstance(events[-1], Result)
        assert [type(one) for one in run.events()] == [Result]


def test_all_events_reach_a_reader_that_is_there() -> None:
    with Sandbox(tools=[approve]) as box:
        run = box.submit(f"call approve {{}}\nbig {4 << 20}")
        size = 0
        for event in run.events():
            if isinstance(event, ToolCall):
                run.answer(event)
            size += len(event.text) if isinstance(event, Stdout) else 0
        assert size >= 4 << 20


@on_a_loop
async def test_the_same_on_a_loop() -> None:
    async with AsyncSandbox(tools=[approve]) as box:
        run = await box.submit("call approve {}")
        assert isinstance(run, AsyncRun)
        found: list[Any] = []
        async for event in run.events():
            found.append(event)
            if isinstance(event, ToolCall):
                await run.answer(event, {"by": "hand"})
        assert found[-1].stdout == '{"ok": {"by": "hand"}}\n'
        attached = await AsyncRun.attach(run.id, box)
        assert (await attached.result()).stdout == found[-1].stdout
        waits = await box.submit("wait")
        with pytest.raises(TimeoutError):
            await waits.result(timeout=0.01)
        await waits.detach()
        submitting = asyncio.create_task(box.submit("unsubmitted"))
        await asyncio.sleep(0.1)
        submitting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await submitting


def test_a_submit_that_is_interrupted_cancels_what_may_have_begun(bridge: Log) -> None:
    @on_a_loop
    async def interrupted() -> None:
        async with AsyncSandbox() as box:
            submitting = asyncio.create_task(box.submit("unsubmitted"))
            while not bridge.frames("run"):
                await asyncio.sleep(0.01)
            submitting.cancel()
            await asyncio.wait([submitting])

    interrupted()
    assert [one["type"] for one in bridge.frames() if one["type"] in ("cancel", "detach")] == ["cancel", "detach"]


def test_submits_are_repeated_under_one_id(bridge: Log) -> None:
    with Sandbox() as box:
        assert box.submit("refuse_once queue_full\nprint 1").id
    first, *_ = bridge.frames("run")
    assert first["detached"]


def test_a_tool_that_is_declared_has_no_function() -> None:
    schema = {"type": "object", "properties": {"amount": {"type": "number"}}}
    pay = declare_tool("pay", description="Pays.", input_schema=schema, output_schema={"type": "boolean"}, max_calls=2)
    wire = {"name": "pay", "description": "Pays.", "input_schema": schema, "output_schema": {"type": "boolean"}}
    assert pay.to_wire() == {**wire, "max_calls": 2}
    assert declare_tool("bare", timeout=3).to_wire() == {
        "name": "bare",
        "description": "",
        "input_schema": {"type": "object"},
        "timeout_ms": 3000,
    }
    assert pay.documentation.startswith("async def pay(")
    with pytest.raises(errors.BadTool):
        pay(amount=3)
    with pytest.raises(errors.BadTool):
        declare_tool("")


def test_a_plain_run_leaves_calls_of_declared_tools_to_others() -> None:
    with Sandbox(tools=[approve]) as box:
        job = Job("call approve {}")
        done: list[Result] = []
        waits = threading.Thread(target=lambda: done.append(box.run(job)))
        waits.start()
        watcher = box.attach(job.id, take_over=False)
        watcher.answer(waiting(watcher)[0], "from elsewhere")
        waits.join(20)
        assert done[0].stdout == '{"ok": "from elsewhere"}\n'


def test_how_a_job_waits_reaches_the_fleet() -> None:
    job = Job("x", pause=1.5, if_client_gone="wait")
    sent = json.loads(job.to_wire({}, None, None, ()))
    assert (sent["limits"], sent["if_client_gone"]) == ({"pause_ms": 1500}, "wait")
    plain = json.loads(Job("x", if_client_gone="fail").to_wire({}, None, None, (), if_client_gone="wait"))
    assert "if_client_gone" not in plain
    assert "sync_tools" not in plain
