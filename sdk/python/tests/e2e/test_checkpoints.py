"""Checkpoints of sessions, with the real program and a fleet that has a store."""

import asyncio
from pathlib import Path
from uuid import uuid4

import pytest
from fleets import any_fleet
from over_http import needs_no_store, of_the_embedded_fleet

from thermae import AsyncSandbox, Sandbox, errors

MAKE = """
import os
x = 1
with open("run.sh", "w") as file:
    file.write("#!/bin/sh\\necho kept\\n")
os.chmod("run.sh", 0o755)
os.symlink("run.sh", "/session/link")
os.makedirs("/session/empty")
"""
LOOK = """
import os, subprocess
print("x" in dir(), subprocess.run(["./run.sh"], capture_output=True, text=True).stdout.strip(),
      os.readlink("/session/link"), os.listdir("/session/empty"))
"""
LOOKS = "False kept run.sh []\n"


@of_the_embedded_fleet
def test_files_survive_the_fleet_and_its_kill(tmp_path: Path) -> None:
    with Sandbox(store=tmp_path, slots=1) as box:
        session = box.session("s", checkpoint="after_job")
        made = session.run(MAKE, check=True)
        assert made.session is not None
        assert (made.session.checkpointed, made.session.checkpoint_error) == (True, None)
        assert made.session.checkpoint_expires_at is not None
        session.exec("echo late > /session/late", check=True)
        assert session.run().session.checkpointed  # type: ignore[union-attr]
        session.detach()
    with Sandbox(store=tmp_path, slots=1) as box, box.session("s", checkpoint="after_job") as session:
        found = session.run(LOOK)
        assert found.session is not None
        assert (found.stdout, found.session.fresh, found.session.restored_files) == (LOOKS, True, 3)
        assert session.files.read_text("/session/late") == "late\n"


def test_a_new_session_begins_with_anothers(tmp_path: Path) -> None:
    # The fleet may have checkpoints of earlier tests.
    name = uuid4().hex
    with Sandbox(**any_fleet(1, store=tmp_path)) as box:
        with box.session(name, checkpoint="after_job") as session:
            session.run(MAKE, check=True)
        with box.session(restore=name) as session:
            assert session.run(LOOK).stdout == LOOKS
        with box.session(restore="no-such") as session, pytest.raises(errors.CheckpointMissing):
            session.run("print(1)", check=True)


def test_a_run_that_defies_its_cancel_leaves_its_files(tmp_path: Path) -> None:
    defies = """
open("/session/during", "w").write("kept")
while True:
    try:
        print("on", flush=True)
        while True: pass
    except BaseException: pass
"""
    with Sandbox(**any_fleet(1, store=tmp_path)) as box:
        session = box.session()
        session.run("open('/session/before', 'w').write('and before')", check=True)
        job = uuid4().hex
        result = session.run(defies, job_id=job, on_stdout=lambda _: box.cancel(job))
        assert (result.status, result.error is not None) == ("cancelled", True)
        assert result.session is not None
        assert (result.session.alive, result.session.checkpointed) == (False, True)
        assert "Its files are kept" in result.error.message  # type: ignore[union-attr]
        with pytest.raises(errors.SessionLost):
            session.run("print(1)")
        with box.session(session.name, if_gone="new") as again:
            found = again.run("print(open('/session/during').read(), open('/session/before').read())")
            assert found.stdout == "kept and before\n"


@needs_no_store
def test_without_a_store_no_promise_is_made() -> None:
    unsupported = pytest.raises(errors.CheckpointUnsupported)
    with Sandbox(**any_fleet(1)) as box, box.session(checkpoint="after_job") as session, unsupported:
        session.run("print(1)", check=True)


def test_with_an_event_loop(tmp_path: Path) -> None:
    async def main() -> None:
        name = uuid4().hex
        async with AsyncSandbox(**any_fleet(1, store=tmp_path)) as box:
            async with box.session(name, checkpoint="after_job", checkpoint_ttl=60) as session:
                await session.run(MAKE, check=True)
            async with box.session(restore=name) as session:
                assert (await session.run(LOOK)).stdout == LOOKS

    asyncio.run(main())
