import asyncio
import json
import os
import pickle
from collections.abc import AsyncIterator, Iterator
from pathlib import Path, PurePosixPath

import jsonschema  # type: ignore[import-untyped]
import pytest
from bridge_log import Log
from helpers import on_a_loop, until

from thermae import AsyncSandbox, Sandbox, ThermaeError, errors
from thermae.errors import FileError, file_error

MEGABYTE = 1 << 20


def test_files_are_written_and_read(tmp_path: Path) -> None:
    with Sandbox() as box, box.session() as session:
        files = session.files
        assert files.write("a.txt", "é\n") == 3
        assert files.read("a.txt") == "é\n".encode()
        assert files.read_text("a.txt") == "é\n"
        assert files.read_text("a.txt", encoding="latin-1") == "Ã©\n"
        assert files.append("a.txt", b"more") == 7
        assert files.write_at("a.txt", 2, b"-") == 7
        assert files.read("a.txt", offset=2, length=3) == b"-mo"
        assert files.write("new", b"", exclusive=True, permissions=0o755) == 0
        assert files.read("new") == b""
        large = os.urandom(5 * MEGABYTE + 3)
        (tmp_path / "large").write_bytes(large)
        assert files.write("large", tmp_path / "large", timeout=30) == len(large)
        assert files.read("large", timeout=30) == large
        pieces = [*files.stream("large", offset=10)]
        assert b"".join(pieces) == large[10:]
        assert len(pieces) > 10
        with open(tmp_path / "large", "rb") as file:
            files.write(PurePosixPath("again"), file)
        assert files.read(b"again") == large


def test_other_operations() -> None:
    with Sandbox() as box, box.session() as session:
        files = session.files
        files.write("b", "12")
        stat = files.stat("b")
        assert (stat.path, stat.name, stat.kind, stat.size) == ("b", "b", "file", 2)
        assert (stat.permissions, stat.modified, stat.target) == (0o644, 1.5, None)
        assert (stat.is_file, stat.is_dir, stat.is_link) == (True, False, False)
        assert files.stat("b", follow=False).target == "\udcff"
        assert files.exists("b")
        assert not files.exists("c")
        with pytest.raises(PermissionError):
            files.exists("refused")
        files.move("b", "c")
        assert not files.exists("b")
        files.make_dir("d")
        assert files.read("d") == b""
        files.make_dir("d", parents=True)
        assert files.read("d") == b"parents"
        listed = files.list("/x", most=1)
        assert [one.path for one in listed] == ["/x/c"]
        assert (listed.cut, listed.skipped) == (True, 1)
        assert [one.path for one in files.list()] == ["c", "d"]
        files.remove("c", recursive=True)
        with pytest.raises(FileNotFoundError):
            files.remove("c")
        assert [*files.glob("**/*.py", path="/x")] == ["/x/**/*.py", "/x/\udcff"]
        found = files.grep("a+", path="x", glob="*.py", ignore_case=True, most=5)
        assert [one.path for one in found] == ["x/a", "x"]
        assert (found[0].line, found[0].offset, found.cut, found.skipped) == (3, 7, True, 2)
        assert json.loads(found[0].text) == {
            "path": "x",
            "pattern": "a+",
            "glob": "*.py",
            "ignore_case": True,
            "most": 5,
        }
        assert files.real_path("a") == "/workspace/a"


def test_paths_that_are_missing_in_part_are_resolved() -> None:
    with Sandbox() as box, box.session() as session:
        with pytest.raises(FileNotFoundError):
            session.files.real_path("missing")
        resolved = {
            "missing": "/workspace/missing",
            "./x//../missing/": "/workspace/missing",
            "/missing/../..": "/",
            "link1/missing": "/a/b/missing",
            "link1/../missing": "/a/missing",
            "link2/missing": "/c/missing",
        }
        assert {path: session.files.real_path(path, strict=False) for path in resolved} == resolved
        with pytest.raises(FileError, match="ELOOP"):
            session.files.real_path("link3/missing", strict=False)


def test_requests_are_as_the_schema_has_them(bridge: Log) -> None:
    with Sandbox() as box, box.session() as session:
        files = session.files
        session.exec(["env"], cwd=b"/\xff", env={"A": "1"}, timeout=1, input="x")
        session.exec("cat", input=b"x" * 100_000)
        session.keepalive()
        for size in (1, 100_000):
            files.write("a", b"x" * size, permissions=0o600)
        files.write("b", b"", exclusive=True)
        files.append("a", "x")
        files.write_at("a", 1, "x")
        files.read("a", offset=1, length=2)
        files.stat(b"a", follow=False)
        files.list(depth=2)
        files.make_dir("c/d", parents=True)
        files.glob("*")
        files.grep("a", glob="*", ignore_case=True)
        files.real_path("a")
        files.move("a", "d")
        files.remove("d", recursive=True)
    schema = json.loads((Path(__file__).parents[4] / "schemas/json/request.json").read_text())
    validator = jsonschema.Draft202012Validator(schema)
    bodies = [one["body"] for one in bridge.frames("request")]
    assert len(bodies) == 17
    for body in bodies:
        validator.validate(body)


def test_directories_above_are_made() -> None:
    with Sandbox() as box, box.session() as session:
        session.files.write("a/b/c", "x", parents=True)
        assert session.files.read("a/b") == b"parents"
        session.files.write("c", "x", parents=True)
        session.files.write("/c", "x", parents=True)
        assert not session.files.exists("/")


def test_names_that_are_no_text() -> None:
    with Sandbox() as box, box.session() as session:
        session.files.write(b"\xff", "x")
        assert session.files.read("\udcff") == b"x"
        assert session.files.stat("\udcff").path == "\udcff"


def test_what_the_kernel_refuses() -> None:
    with Sandbox() as box, box.session() as session:
        with pytest.raises(FileNotFoundError) as raised:
            session.files.read("nothing")
        error = raised.value
        assert isinstance(error, errors.FileNotFound)
        assert isinstance(error, ThermaeError)
        assert (error.code, error.errno_name, error.errno) == ("file_not_found", "ENOENT", 2)
        assert (error.filename, error.strerror) == ("nothing", "No such file or directory")
        assert str(error).startswith("file_not_found: No such file or directory: 'nothing' (ENOENT) (job ")
        session.files.write("there", "x")
        with pytest.raises(FileExistsError):
            session.files.write("there", "y", exclusive=True)
        # The input that is left when an operation fails is not waited for.
        with pytest.raises(FileError) as full:
            session.files.write("full", b"x" * (5 * MEGABYTE))
        assert type(full.value) is FileError
        assert (full.value.errno_name, full.value.code) == ("ENOSPC", "file_error")
        assert session.files.read("there") == b"x"


@pytest.mark.parametrize(
    ("name", "builtin"),
    [
        ("ENOENT", FileNotFoundError),
        ("EEXIST", FileExistsError),
        ("EISDIR", IsADirectoryError),
        ("ENOTDIR", NotADirectoryError),
        ("EACCES", PermissionError),
        ("EPERM", PermissionError),
        ("ENOSPC", OSError),
        ("EHIBERNATING", OSError),
    ],
)
def test_errors_of_files_are_those_of_the_language(name: str, builtin: type[OSError]) -> None:
    error = file_error(name, "it is so", "/p", "r")
    assert isinstance(error, builtin)
    assert isinstance(error, FileError)
    assert errors.class_for(error.code) is type(error)
    assert error.args == (error.message,)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert (str(copy), copy.errno, copy.filename) == (str(error), error.errno, "/p")


def test_a_stream_that_is_left_early_is_cancelled(bridge: Log) -> None:
    with Sandbox() as box, box.session() as session:
        session.files.write("a", b"x" * (8 * MEGABYTE))
        stream = session.files.stream("a")
        assert next(stream)
        stream.close()
        until(lambda: len(bridge.frames("cancel")) == 1)
        for _ in session.files.stream("a"):
            break
        until(lambda: len(bridge.frames("cancel")) == 2)
        assert session.files.exists("a")


@on_a_loop
async def test_files_on_a_loop(bridge: Log) -> None:
    async def source() -> AsyncIterator[bytes]:
        for n in range(20):
            yield bytes([n]) * 100_000

    async with AsyncSandbox() as box, box.session() as session:
        assert await session.files.write("a", source()) == 2_000_000
        size = 0
        async for piece in session.files.stream("a"):
            size += len(piece)
        assert size == 2_000_000
        async with box.session() as other:
            assert not await other.files.exists("a"), "two sessions share their files"
            await other.files.write("a", "b")
            assert await asyncio.gather(*(other.files.read("a") for _ in range(50))) == [b"b"] * 50
        assert bridge.frames("cancel") == []


def test_a_write_whose_source_fails_is_cancelled(bridge: Log) -> None:
    def breaks() -> Iterator[bytes]:
        yield b"a"
        raise KeyError("mine")

    with Sandbox() as box, box.session() as session:
        session.files.write("a", "old")
        with pytest.raises(KeyError):
            session.files.write("a", breaks())
        until(lambda: bridge.frames("cancel"))
        assert session.files.read("a") == b"old"
