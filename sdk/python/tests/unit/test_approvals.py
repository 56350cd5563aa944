import asyncio
import json
import threading
from typing import Any

import pytest
from bridge_log import Log
from helpers import on_a_loop, until
from over_http import of_the_embedded_fleet

from thermae import Approval, AsyncSandbox, Capability, Sandbox, Verdict, errors
from thermae._approvals import verdict_to_wire


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_function_decides_about_each_call(bridge: Log) -> None:
    seen: list[Approval] = []
    verdicts: list[Verdict] = [True, 2, 99, False, None, "too much"]

    def approve(asked: Approval) -> Verdict:
        assert threading.current_thread().name == "thermae-approve"
        seen.append(asked)
        return verdicts[len(seen) - 1]

    with Sandbox(approve=approve) as box:
        result = box.run('ask 1 pay {"n": 1}\n' * len(verdicts))
    assert lines(result.stdout) == [
        {"decision": "approve"},
        {"decision": "approve", "calls": 2},
        {"decision": "approve", "calls": 3},
        {"decision": "deny"},
        {"decision": "deny"},
        {"decision": "deny", "reason": "too much"},
    ]
    assert all((one.tool, one.arguments, one.pattern, one.next) == ("pay", {"n": 1}, "pay", 3) for one in seen)
    assert all(0 < one.left <= 20 and one.job_id == result.job_id for one in seen)
    sent = bridge.frames("decide")
    assert [one["call"] for one in sent] == [one.call for one in seen]
    assert {(one["job"], one["reply_to"]) for one in sent} == {(result.job_id, "acme.w")}


@on_a_loop
async def test_an_async_function_decides_on_the_callers_loop_and_about_many_calls_at_once() -> None:
    loop, barrier = asyncio.get_running_loop(), asyncio.Barrier(5)

    async def approve(asked: Approval) -> bool:
        assert asyncio.get_running_loop() is loop
        await barrier.wait()
        return True

    async with AsyncSandbox(approve=approve) as box:
        assert lines((await box.run("ask 5 pay {}")).stdout) == [{"decision": "approve"}] * 5


def test_without_capabilities_every_call_is_asked_about() -> None:
    def pay() -> None: ...

    def sent(box: Sandbox, **options: Any) -> Any:
        return json.loads(box.run("job", **options).stdout).get("capabilities")

    every = [{"pattern": "**", "approval": {}}]
    own: list[Capability] = [{"pattern": "pay"}]
    with Sandbox(tools=[pay], approve=lambda _: True) as box, box.session() as session:
        assert sent(box) == json.loads(session.run("job").stdout)["capabilities"] == every
        assert sent(box, token="a token") == every
        assert (sent(box, capabilities=own), sent(box, capabilities=[])) == (own, [])
        assert sent(box, tools=[]) is None
        assert box.submit("job").result(timeout=60).ok
    with Sandbox(tools=[pay], approve=lambda _: True, capabilities=own) as box:
        assert sent(box) == own
    with Sandbox(tools=[pay]) as box:
        assert sent(box) is None


def test_a_run_fails_if_its_program_may_not_approve(bridge: Log) -> None:
    with Sandbox(approve=lambda _: True) as box:
        with pytest.raises(errors.ScopeMissing):
            box.run("ask 1 forbidden {}")
        with pytest.raises(errors.ScopeMissing), box.stream("ask 1 forbidden {}") as stream:
            list(stream)
        with pytest.raises(errors.ScopeMissing):
            box.submit("ask 1 forbidden {}").result(timeout=60)
        assert box.run("ask 1 pay {}").ok
    assert len(bridge.frames("cancel")) == 2


def test_whatever_is_no_verdict_denies_the_call(caplog: pytest.LogCaptureFixture) -> None:
    said: list[Any] = [{}, 0, -1, 1.0, object(), ValueError("boom")]

    def approve(asked: Approval) -> Any:
        if isinstance(one := said.pop(0), Exception):
            raise one
        return one

    with Sandbox(approve=approve) as box:
        result = box.run("ask 1 pay {}\n" * len(said))
    failed = {"decision": "deny", "reason": "the function that decides about calls failed"}
    assert lines(result.stdout) == [failed] * 6
    assert "boom" in caplog.text
    with pytest.raises(TypeError, match="approve must be a function"):
        Sandbox(approve=True)  # type: ignore[arg-type]


@of_the_embedded_fleet
def test_without_a_function_calls_are_denied_where_nobody_else_decides(bridge: Log) -> None:
    with Sandbox() as box:
        (said,) = lines(box.run("ask 1 pay {}").stdout)
    assert (said["decision"], "approve=" in said["reason"]) == ("deny", True)
    with Sandbox("amqp://acme@127.0.0.1:1") as box:
        assert box.run("elsewhere pay").status == "succeeded"
    assert len(bridge.frames("decide")) == 1


def test_a_call_that_somebody_else_decides_is_not_waited_for() -> None:
    asked, given_up = threading.Event(), threading.Event()

    async def approve(_: Approval) -> bool:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()
        return True

    with Sandbox(approve=approve) as box:
        assert box.run("elsewhere pay\nprint end").stdout == "end\n"
        assert not asked.is_set() or given_up.wait(20)


def test_calls_of_a_run_that_goes_on_wait_for_decide(bridge: Log) -> None:
    with Sandbox() as box:
        run = box.submit('ask 2 pay {"n": 1}')
        first, second = until(lambda: found if len(found := run.info().approvals) == 2 else None)
        with pytest.raises(TypeError):
            run.decide(first, 1.5)  # type: ignore[arg-type]
        run.decide(first, 2)
        run.decide(first, 2)
        with pytest.raises(errors.ApprovalDecided):
            run.decide(first, False)
        other = box.attach(run.id, take_over=False)
        other.decide(second, "no")
        result = run.result(timeout=60)
        said = [{"decision": "approve", "calls": 2}, {"decision": "deny", "reason": "no"}]
        assert sorted(lines(result.stdout), key=str) == sorted(said, key=str)
        with pytest.raises(errors.ApprovalOver):
            box.attach(run.id, take_over=False).decide(Approval(run.id, "none", "pay", {}, "pay", 1, 1.0), True)
    assert not bridge.frames("cancel")


def test_whoever_attaches_decides_about_calls_that_wait() -> None:
    with Sandbox() as box:
        run = box.submit("ask 2 pay {}")
        until(lambda: len(run.info().approvals) == 2 or None)
        box._async.approve = lambda asked: asked.call != ""
        assert lines(box.attach(run.id).result(timeout=60).stdout) == [{"decision": "approve"}] * 2


def test_a_verdict_is_written_as_the_fleet_reads_it() -> None:
    assert verdict_to_wire("x" * 600, 1)["reason"] == "x" * 500
    assert verdict_to_wire("\ud800", 1)["reason"] == "?"
    assert verdict_to_wire(1, 1) == {"decision": "approve", "calls": 1}
