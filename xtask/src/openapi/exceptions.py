"""What schemathesis takes for a failure of the gateway, though it is none. Each function gives its reason.

The end of a run says how many failures were left out.
"""

import json
import re
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import requests
import schemathesis
from schemathesis.core.failures import AcceptedNegativeData, Failure
from schemathesis.core.transport import Response
from schemathesis.generation.case import Case
from schemathesis.hooks import HookContext
from schemathesis.openapi.checks import MissingHeaderNotRejected, RejectedPositiveData
from schemathesis.transport import SerializationContext
from schemathesis.transport.serialization import serialize_binary


def a_whole_number_with_a_point(failure: Failure, case: Case, response: Response) -> bool:
    """In JSON Schema, 1.0 is an integer. In jobs and commands, it is none."""
    if not isinstance(failure, RejectedPositiveData):
        return False
    found = re.search(r"floating point `([^`]+)`|whole number from 1 on, and is ([\d.e+]+)", detail(response))
    return found is not None and float(found[1] or found[2]).is_integer()


def parameters_that_go_together_with_nothing(failure: Failure, case: Case, response: Response) -> bool:
    """`offset` goes with no `mode` and no `If-None-Match`, which goes with `create_new` alone. No schema says so."""
    if not isinstance(failure, RejectedPositiveData) or not operation(case, "writeFile"):
        return False
    query = parse_qs(urlsplit(response.request.url).query)
    only_new = "If-None-Match" in response.request.headers
    return ("offset" in query and ("mode" in query or only_new)) or (only_new and query.get("mode") != ["create_new"])


def an_event_that_the_run_does_not_have(failure: Failure, case: Case, response: Response) -> bool:
    """Last-Event-ID is the number of an event that the run has. No schema says so."""
    refused = isinstance(failure, RejectedPositiveData) and operation(case, "followRun")
    return refused and "Last-Event-ID" in response.request.headers and "Last-Event-ID" in detail(response)


def two_keys_that_differ(failure: Failure, case: Case, response: Response) -> bool:
    """The header Idempotency-Key and the job's `idempotency_key` are the same. No schema compares two places."""
    refused = isinstance(failure, RejectedPositiveData) and operation(case, "submitRun")
    return refused and detail(response) == "the header Idempotency-Key and the job's idempotency_key differ"


def two_jobs_of_one_id(failure: Failure, case: Case, response: Response) -> bool:
    """The ids of a batch's jobs differ, and jobs without an id can be the same. No schema says so."""
    refused = isinstance(failure, RejectedPositiveData) and operation(case, "submitBatch")
    return refused and re.search(r"^/jobs/\d+: two jobs have the id ", detail(response)) is not None


def a_position_that_no_pattern_tells(failure: Failure, case: Case, response: Response) -> bool:
    """A path has no digits of other scripts for a position, and none of more than 64 bits. Patterns can't say so."""
    takes = operation(case, "submitRun", "submitBatch", "mintToken", "narrowToken")
    found = re.search(r'has the segment "(.+)"; positions count from 0', detail(response))
    if not isinstance(failure, RejectedPositiveData) or not takes or not found:
        return False
    return re.fullmatch(r"[+-]*[0-9]+", found[1]) is None or re.fullmatch(r"[1-9][0-9]{19}", found[1]) is not None


def a_text_that_no_program_gets(failure: Failure, case: Case, response: Response) -> bool:
    """The system gives no program a null character, nor a variable without a name or with `=` in it."""
    refused = isinstance(failure, RejectedPositiveData) and operation(case, "exec")
    return refused and re.search(r"^env: |null character", detail(response)) is not None


def a_name_outside_of_its_pattern(failure: Failure, case: Case, response: Response) -> bool:
    """Release 4.32.5 now and then makes a name with a character outside of its pattern, and takes it for valid."""
    refused = isinstance(failure, RejectedPositiveData) and "/v1/sessions/" in response.request.url
    return refused and not unquote(urlsplit(response.request.url).path).isascii()


def a_text_that_is_no_token(failure: Failure, case: Case, response: Response) -> bool:
    """A capability token is signed. No pattern describes it."""
    refused = isinstance(failure, RejectedPositiveData) and operation(case, "narrowToken", "showToken")
    return refused and json.loads(response.content)["code"].startswith("token_")


def a_no_for_several_calls(failure: Failure, case: Case, response: Response) -> bool:
    """`calls` is for a yes alone."""
    refused = isinstance(failure, RejectedPositiveData) and operation(case, "decideCall")
    return refused and "`calls` is only for a yes" in detail(response)


def another_version_of_tus(failure: Failure, case: Case, response: Response) -> bool:
    """tus wants 412 if the header with its version is missing. Schemathesis does not take that for a refusal."""
    refused = isinstance(failure, (AcceptedNegativeData, MissingHeaderNotRejected))
    return refused and response.status_code == 412 and json.loads(response.content)["code"] == "unsupported_tus"


def a_refusal_that_is_an_outcome(failure: Failure, case: Case, response: Response) -> bool:
    """A job that the fleet refuses is a run that is `rejected`: an outcome, and no error of the request."""
    if not isinstance(failure, AcceptedNegativeData) or not operation(case, "submitRun", "submitBatch"):
        return False
    made = json.loads(response.content)
    if operation(case, "submitRun"):
        return ask(response, f"/v1/runs/{made['id']}?wait=60s").json()["outcome"]["status"] == "rejected"
    lines = ask(response, f"/v1/batches/{made['id']}/results").text.splitlines()
    return any("error" in line and line.get("status", "rejected") == "rejected" for line in map(json.loads, lines))


EXCEPTIONS = [
    a_whole_number_with_a_point,
    parameters_that_go_together_with_nothing,
    an_event_that_the_run_does_not_have,
    two_keys_that_differ,
    two_jobs_of_one_id,
    a_position_that_no_pattern_tells,
    a_text_that_no_program_gets,
    a_name_outside_of_its_pattern,
    a_text_that_is_no_token,
    a_no_for_several_calls,
    another_version_of_tus,
    a_refusal_that_is_an_outcome,
]


@schemathesis.serializer("application/offset+octet-stream")
def part_of_an_upload(context: SerializationContext, value: Any) -> bytes:
    """Bytes, as they are."""
    return serialize_binary(value)


@schemathesis.hook
def before_load_schema(context: HookContext, raw_schema: dict[str, Any]) -> None:
    """Takes the bounds of long lists out of the document. It takes hours to make lists that long, one for each kind of
    entry. The tests of the gateway and of the capabilities try these bounds."""
    stack: list[Any] = [raw_schema]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            value.pop("maxItems", None)
        stack.extend(value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())


@schemathesis.hook
def filter_failure(context: HookContext, failure: Failure, case: Case, response: Response) -> bool:
    """Whether it is a failure."""
    return not any(is_none(failure, case, response) for is_none in EXCEPTIONS)


def operation(case: Case, *names: str) -> bool:
    """Whether it is a request for one of these operations."""
    return case.operation.definition.raw.get("operationId") in names


def detail(response: Response) -> str:
    """What the gateway says of a request that it refuses."""
    return str(json.loads(response.content).get("detail", ""))


def ask(response: Response, path: str) -> requests.Response:
    """Asks the gateway more, with the same key."""
    url = urlsplit(response.request.url)
    shown = {"Authorization": response.request.headers["Authorization"]}
    return requests.get(f"{url.scheme}://{url.netloc}{path}", headers=shown, timeout=90)
