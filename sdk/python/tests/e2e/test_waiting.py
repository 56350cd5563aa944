"""Runs that wait: answers by hand, and other objects and processes that go on with them."""

import time
from collections.abc import Iterator

import pytest
from fleets import any_fleet
from helpers import finished, on_a_loop, program, until

from thermae import AsyncSandbox, PendingCall, Run, Sandbox, ToolCall, declare_tool, errors, tool

approve = declare_tool("approve", description="Asks a person.", input_schema={"type": "object"})


@tool
def double(n: int) -> int:
    """Twice a number."""
    return 2 * n


@pytest.fixture(scope="module")
def waits() -> Iterator[Sandbox]:
    with Sandbox(tools=[approve, double], **any_fleet(2)) as box:
        yield box


def waiting(run: Run, count: int = 1) -> list[PendingCall]:
    calls: list[PendingCall] = until(lambda: found if len(found := run.pending()) == count else None)
    return calls


def test_calls_wait_for_answers_by_hand_and_functions_answer_by_themselves(waits: Sandbox) -> None:
    code = """
import asyncio
print(await double(n=21))
print(await asyncio.gather(*(approve(n=n, big=2**70) for n in range(3))))
try:
    await approve(n=3)
except ValueError as error:
    print(type(error).__name__, error)
"""
    run = waits.submit(code)
    calls = waiting(run, 3)
    assert [one.arguments for one in calls] == [{"n": n, "big": 2**70} for n in range(3)]
    assert all(one.waited >= 0 and 0 < one.left <= 240 for one in calls)
    for one in reversed(calls):
        assert one.arguments is not None
        run.answer(one, {"n": one.arguments["n"]})
    run.answer(waiting(run)[0], error=ValueError("too much"))
    result = run.result(timeout=60)
    assert result.stdout == "42\n[{'n': 0}, {'n': 1}, {'n': 2}]\nValueError too much\n", result
    assert (result.attempt, result.usage.tool_calls) == (1, 5)


def test_the_state_of_a_run_and_its_output_from_a_cursor(waits: Sandbox) -> None:
    code = """
import sys
print('one é', flush=True)
print('wrong', file=sys.stderr, flush=True)
await approve()
print('two', flush=True)
await approve()
"""
    run = waits.submit(code)
    (call,) = waiting(run)
    first = run.info()
    assert first.state in ("running", "waiting", "paused")
    assert (first.stdout.text, first.stderr.data, first.attempt) == ("one é\n", b"wrong\n", 1)
    assert first.worker is not None
    assert until(lambda: run.info().state == "paused")
    run.answer(call)
    waiting(run)
    second = run.info(stdout_from=first.stdout.end, stderr_from=first.stderr.end)
    assert (second.stdout.text, second.stderr.data) == ("two\n", b"")
    assert (second.stdout.start, second.stdout.more) == (first.stdout.end, False)
    run.answer(waiting(run)[0])
    assert run.result(timeout=60).ok
    ended = run.info()
    assert (ended.state, ended.calls, ended.stdout.data) == ("ended", [], b"")


def test_a_run_can_wait_for_longer_than_its_timeout(waits: Sandbox) -> None:
    run = waits.submit("print(await approve())", timeout=6, pause=60)
    (call,) = waiting(run)
    time.sleep(6)  # Longer than its timeout.
    run.answer(call, "late")
    result = run.result(timeout=60)
    assert (result.status, result.stdout) == ("succeeded", "late\n"), result
    assert result.usage.paused_ms > 5000
    assert result.limits is not None
    assert (result.limits.wall_ms, result.limits.pause_ms) == (6000, 60_000)

    spent = waits.submit("await approve()", timeout=1, pause=0.5)
    assert spent.result(timeout=60).status == "timed_out"


def test_the_first_answer_counts_and_foreign_calls_are_refused(waits: Sandbox) -> None:
    run, other = waits.submit("print(await approve())\nprint(await approve())"), waits.submit("await approve()")
    (call,), (foreign,) = waiting(run), waiting(other)
    for wrong in (foreign, foreign.call, "0" * 32):
        with pytest.raises(errors.UnknownCall):
            run.answer(wrong, "wrong")
    # Two that know nothing of each other's answers.
    one, two = waits.attach(run.id, take_over=False), waits.attach(run.id, take_over=False)
    one.answer(call, 1)
    two.answer(call, 2)
    (second,) = waiting(run)
    assert second.call != call.call
    two.answer(call, 3)
    run.answer(second, 4)
    assert run.result(timeout=60).stdout == "1\n4\n"
    with pytest.raises(errors.UnknownCall):
        waits.attach(run.id, take_over=False).answer(call.call, 5)
    other.cancel()
    assert other.result(timeout=60).status == "cancelled"


def test_the_last_one_that_attached_follows_the_run(waits: Sandbox) -> None:
    first = waits.submit("print(await double(n=1))\nprint(await approve())", tools=[declare_tool("double"), approve])
    assert [one.tool for one in waiting(first)] == ["double"]
    second = waits.attach(first.id)
    with pytest.raises(errors.Superseded):
        first.result(timeout=60)
    # The tools of the box answer now.
    call = next(one for one in second.events() if isinstance(one, ToolCall) and one.tool == "approve")
    second.answer(call, "yes")
    assert second.result(timeout=60).stdout == "2\nyes\n"
    ended = waits.attach(first.id)
    assert ended.result(timeout=60).raw == second.result().raw
    with pytest.raises(errors.UnknownRun):
        waits.attach("no-such-run")


def test_who_detaches_leaves_the_calls_to_others(waits: Sandbox) -> None:
    run = waits.submit("print(await approve())")
    waiting(run)
    run.detach()
    with pytest.raises(errors.RunDetached):
        run.result()
    again = Run.attach(run.id, waits)
    again.answer(waiting(again)[0], 7)
    assert again.result(timeout=60).stdout == "7\n"


def test_a_run_that_waits_for_its_session_is_queued(waits: Sandbox) -> None:
    first = waits.submit("x = await approve()", session="busy")
    (call,) = waiting(first)
    second = waits.submit("print(x)", session="busy", session_options={"close": True})
    attached = waits.attach(second.id)
    assert until(lambda: attached.info().state == "queued")
    first.answer(call, "kept")
    assert first.result(timeout=60).ok
    assert attached.result(timeout=60).stdout == "kept\n"


def test_a_run_that_waits_is_cancelled(waits: Sandbox) -> None:
    run = waits.submit("await approve()")
    waiting(run)
    assert until(lambda: run.info().state == "paused")
    run.cancel()
    assert run.result(timeout=60).status == "cancelled"


@on_a_loop
async def test_the_same_on_a_loop() -> None:
    async with AsyncSandbox(tools=[approve, double], **any_fleet(1)) as box:
        run = await box.submit("print(await double(n=await approve()))")
        async for event in run.events():
            if isinstance(event, ToolCall) and event.tool == "approve":
                await run.answer(event, 4)
        assert (await run.result()).stdout == "8\n"


FIRST = """
import sys, time
from thermae import Sandbox, declare_tool

approve = declare_tool("approve", input_schema={{"type": "object"}})
with Sandbox({url!r}, tools=[approve]) as box:
    run = box.submit({code!r}, tool_wait=120)
    while len(run.pending()) < {calls}:
        time.sleep(0.05)
    print(run.id, flush=True)
    sys.stdin.read()
"""

TEN = """
import asyncio
print("begun", flush=True)
answers = await asyncio.gather(*(approve(n=n) for n in range(10)))
print(answers, await double(n=5))
"""


@pytest.mark.fleet
def test_another_process_goes_on_after_the_first_is_killed(fleet: str) -> None:
    first = program(FIRST.format(url=fleet, code=TEN.replace("double", "approve"), calls=10))
    assert first.stdout is not None
    run_id = first.stdout.readline().strip()
    first.kill()
    finished(first)
    with Sandbox(fleet, tools=[double]) as box:
        run = box.attach(run_id)
        calls = waiting(run, 10)
        assert len({one.call for one in calls}) == 10
        for one in calls:
            assert one.arguments is not None
            run.answer(one, one.arguments["n"] + 100)
        run.answer(waiting(run)[0], "last")
        result = run.result(timeout=60)
        assert result.stdout == f"begun\n{[n + 100 for n in range(10)]} last\n", result
        assert (result.attempt, result.usage.tool_calls) == (1, 11), "nothing ran twice"


@pytest.mark.fleet
def test_of_two_processes_that_attach_the_last_one_follows(fleet: str) -> None:
    with Sandbox(fleet, tools=[approve]) as first, Sandbox(fleet) as second, Sandbox(fleet) as third:
        run = first.submit("print(await approve())")
        (call,) = waiting(run)
        attached = second.attach(run.id)
        with pytest.raises(errors.Superseded):
            run.result(timeout=60)
        last = third.attach(run.id)
        with pytest.raises(errors.Superseded):
            attached.result(timeout=60)
        # Whoever lost the run can still answer; the result goes to the last one.
        first.attach(run.id, take_over=False).answer(call, "once")
        assert last.result(timeout=60).stdout == "once\n"
        again = first.attach(run.id)
        assert again.result(timeout=60).stdout == "once\n"


@pytest.mark.fleet
def test_calls_that_come_while_nobody_is_there_wait(fleet: str) -> None:
    code = "await approve()\nimport time\ntime.sleep(1)\nprint(await approve())"
    first = program(FIRST.format(url=fleet, code=code, calls=1))
    assert first.stdout is not None
    run_id = first.stdout.readline().strip()
    first.kill()
    finished(first)
    with Sandbox(fleet) as box:
        watcher = box.attach(run_id, take_over=False)
        (before,) = waiting(watcher)
        watcher.answer(before)
        after = until(lambda: [one for one in watcher.pending() if one.call != before.call])
        run = box.attach(run_id)
        run.answer(after[0], "still here")
        assert run.result(timeout=60).stdout == "still here\n"


@pytest.mark.fleet
def test_without_waiting_a_call_fails_when_its_client_is_gone(fleet: str) -> None:
    code = "await approve()\nimport time\ntime.sleep(1)\nprint(await approve())"
    source = FIRST.format(url=fleet, code=code, calls=1).replace("tool_wait=120", 'if_client_gone="fail"')
    first = program(source)
    assert first.stdout is not None
    run_id = first.stdout.readline().strip()
    first.kill()
    finished(first)
    with Sandbox(fleet) as box:
        watcher = box.attach(run_id, take_over=False)
        watcher.answer(waiting(watcher)[0])
        assert until(lambda: watcher.info().state == "ended")
        result = box.attach(run_id).result(timeout=60)
        assert result.error is not None
        assert "client_gone" in result.error.message or "client_gone" in (result.error.traceback or "")


def test_the_total_of_calls_is_exact_for_whoever_attaches() -> None:
    @tool(max_calls=2)
    def pay(amount: int) -> str:
        """Pays."""
        return "paid"

    code = """
for amount in range(3):
    try:
        await pay(amount=amount)
    except ToolError as error:
        print(error)
await approve()
raise SystemExit(1)
"""
    with Sandbox(tools=[approve, pay], **any_fleet(1)) as box:
        first = box.submit(code)
        (call,) = waiting(first)
        first.detach()
        second = box.attach(first.id)
        second.answer(call, 1)
        made = second.result(timeout=60)
        assert [(one.tool, one.state) for one in made.calls] == [("approve", "answered")]
        # The fleet counts what it has not refused at once.
        assert (made.calls_not_seen, made.usage.tool_calls) == (2, 3)
        assert "already made: 3 (1 answered, 2 not seen by this process)" in made.for_model().text
        made = box.run(code.replace("await approve()", ""))
        assert [one.state for one in made.calls] == ["answered", "answered", "refused"]
        assert "already made: 3 (2 answered, 1 refused and not made)" in made.for_model().text
