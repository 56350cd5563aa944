import threading

from fleets import any_fleet

from thermae import Capability, Sandbox, Session


def test_what_is_cut_is_in_a_file_of_the_session(box: Sandbox) -> None:
    with box.session() as session:
        made = session.run("print('é' * 30_000)\n'v' * 40_000")
        shown = made.for_model(limit=5000)
        assert len(shown.text) <= 5000
        assert all(path in shown.text for path in shown.files)
        assert [session.files.read_text(path) for path in shown.files] == ["é" * 30_000 + "\n", repr("v" * 40_000)]
        assert len(_read_inside(session, shown.files[0])) == 30_001
        assert session.run("print(1)").for_model().files == []
    assert made.for_model(limit=5000).files == []


def _read_inside(session: Session, path: str) -> str:
    return session.run(f"print(open({path!r}).read(), end='')").stdout


def test_a_run_without_a_session_keeps_nothing(box: Sandbox) -> None:
    shown = box.run("print('x' * 30_000)").for_model()
    assert "characters left out …]" in shown.text
    assert shown.files == []


def test_the_calls_of_a_run_that_is_cut() -> None:
    over = threading.Event()

    def pay(amount: int) -> str:
        if amount == 2:
            over.wait()
        return "paid"

    allowed: list[Capability] = [{"pattern": "pay", "max_calls": 2}]
    code = """
await pay(amount=1)
open_call = asyncio.ensure_future(pay(amount=2))
await asyncio.sleep(0)
refused = [await asyncio.gather(pay(amount=3), return_exceptions=True) for _ in range(2)]
raise refused[0][0]
"""
    with Sandbox(tools=[pay], capabilities=allowed, **any_fleet(1)) as box:
        made = box.run("import asyncio\n" + code)
        over.set()
    states = sorted(one.state for one in made.calls)
    assert states == ["answered", "refused", "refused", "unknown"]
    text = made.for_model().text
    assert "already made: 4 (1 answered, 2 refused and not made, 1 may have happened)" in text
    assert "- pay(amount=2): may have happened" in text
