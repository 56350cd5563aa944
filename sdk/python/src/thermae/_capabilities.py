"""Capabilities: which tool calls a program may make, with which arguments, and how often."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict, cast


class Comparison(TypedDict):
    """What must be true of one part of a call's arguments.

    Attributes:
        path: Where it is: keys of objects and positions in lists, separated by `/`, such as `order/items/0`.
        op: How it is compared.
        value: What it is compared with. `exists` and `not exists` have none.
    """

    path: str
    op: Literal["<", "<=", ">", ">=", "==", "!=", "in", "not in", "starts", "ends", "contains", "exists", "not exists"]
    value: NotRequired[Any]


All = TypedDict("All", {"and": Sequence["Constraint"]})
"""All of these must be true."""

AnyOf = TypedDict("AnyOf", {"or": Sequence["Constraint"]})
"""At least one of these must be true."""

Constraint: TypeAlias = Comparison | All | AnyOf
"""What must be true of a call's arguments."""


class NeedsApproval(TypedDict, total=False):
    """Each call that a capability takes needs a yes.

    Attributes:
        next: Most calls that one yes counts for: the call that was asked about, and the next ones; by default, 1.
        timeout_ms: How long a call waits for the decision, in milliseconds; by default, as long as it can wait at all.
    """

    next: int
    timeout_ms: int


class Capability(TypedDict):
    """Leave to call some tools, if all constraints hold.

    Attributes:
        pattern: Pattern of the tools' names. `*` is one segment of a name with slashes, `**` any number of them.
        constraints: What must be true of the arguments.
        max_calls: How many calls it allows.
        arguments: JSON Schema of the arguments.
        result: JSON Schema of the result.
        max_argument_bytes: Most bytes of the arguments, as JSON.
        max_result_bytes: Most bytes of the result, as JSON.
        timeout_ms: How long a call can wait for its answer, in milliseconds.
        approval: Each call waits for somebody's yes; `{}` is for one call at a time.
    """

    pattern: str
    constraints: NotRequired[Sequence[Constraint]]
    max_calls: NotRequired[int]
    arguments: NotRequired[Mapping[str, Any]]
    result: NotRequired[Mapping[str, Any]]
    max_argument_bytes: NotRequired[int]
    max_result_bytes: NotRequired[int]
    timeout_ms: NotRequired[int]
    approval: NotRequired[NeedsApproval]


def capabilities_to_wire(capabilities: object) -> list[Capability] | None:
    """A copy of a list of capabilities. The fleet checks what is in it. `None` means that there is no list.

    Raises:
        TypeError: It is no list.
    """
    if capabilities is None:
        return None
    kind = type(capabilities).__name__
    if isinstance(capabilities, str | bytes | Mapping) or not isinstance(capabilities, Sequence):
        raise TypeError(f"capabilities must be a list of dicts, not {kind}")
    return list(cast("Sequence[Capability]", capabilities))


def checked_token(token: object) -> str | None:
    """A capability token, as it is. The fleet checks what it says. `None` means that there is none.

    Raises:
        TypeError: It is no text.
    """
    if token is None or isinstance(token, str):
        return token
    raise TypeError(f"token must be a str, not {type(token).__name__}")
