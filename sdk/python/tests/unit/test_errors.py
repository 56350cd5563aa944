import json
import pickle
import re
from pathlib import Path

import generate_errors
import pytest

from thermae import ThermaeError, errors
from thermae._fleet_errors import FLEET_ERRORS
from thermae._request import error_of

PACKAGE = Path(__file__).parents[2]


def test_there_is_one_class_for_each_code_of_the_schema() -> None:
    schema = json.loads((PACKAGE.parents[1] / "schemas/json/event.json").read_text())
    codes = {one["const"] for one in schema["$defs"]["ErrorCode"]["oneOf"]} - {"unknown"}
    assert len(codes) > 40
    assert {kind.code for kind in FLEET_ERRORS} == codes
    assert len(FLEET_ERRORS) == len(codes)
    for kind in FLEET_ERRORS:
        assert issubclass(kind, ThermaeError)
        assert errors.class_for(kind.code) is kind
        assert getattr(errors, kind.__name__) is kind
        assert kind.advice
        assert kind.__doc__


def test_there_is_one_class_for_each_code_of_the_bridge() -> None:
    page = (PACKAGE.parents[1] / "docs/sdk-protocol.md").read_text().partition("\n## Errors\n")[2]
    codes = {code for row in re.findall(r"^\| (`.*?) \|", page, re.MULTILINE) for code in re.findall(r"`(\w+)`", row)}
    assert len(codes) > 15
    # These mean that this package itself is wrong, or that its user has closed or cancelled something.
    ours = {"bad_frame", "bad_request", "unsupported_request", "not_open", "already_open", "closed"}
    for code in codes - ours:
        kind = errors.class_for(code)
        assert kind is not ThermaeError, code
        assert getattr(errors, kind.__name__) is kind
        assert kind.advice
        copy = pickle.loads(pickle.dumps(kind("why")))
        assert (type(copy), str(copy)) == (kind, str(kind("why")))


def test_the_classes_are_as_the_documentation_has_them() -> None:
    # If this fails, run scripts/generate_errors.py.
    files = {path.name: path.read_text() for path in generate_errors.TARGET.glob("*.py")}
    assert files == generate_errors.sources()


def test_a_code_of_a_newer_fleet_is_a_plain_error() -> None:
    error = error_of({"code": "hibernating", "message": "later", "advice": "wait"}, "job-1")
    assert type(error) is ThermaeError
    assert (error.code, error.message, error.advice, error.request_id) == ("hibernating", "later", "wait", "job-1")
    assert not error.safe_to_retry


def test_an_error_says_what_to_do() -> None:
    error = errors.SessionLost("it is gone", request_id="j")
    assert str(error) == f"session_lost: it is gone (job j)\nadvice: {errors.SessionLost.advice}"
    assert error.safe_to_retry


@pytest.mark.parametrize("error", [errors.SessionLost("gone", request_id="j"), error_of({"code": "new"}, "j")])
def test_errors_cross_processes(error: ThermaeError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert (str(copy), copy.code, copy.request_id) == (str(error), error.code, error.request_id)


def test_an_error_hides_passwords() -> None:
    error = error_of({"code": "broker_unreachable", "message": "amqps://acme:se:c@ret@host:5671/x did not answer"})
    assert "ret" not in str(error)
    assert "amqps://acme:…@host:5671/x" in str(error)
