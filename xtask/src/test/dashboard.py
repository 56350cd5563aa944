"""Reads a dashboard by Grafana's own model of it, and tells what that model doesn't know.

Usage: dashboard.py FILE, with grafana-foundation-sdk and typeguard in PYTHONPATH. The exit status is 1 if a field is
unknown, or a value is of another type than its field. Grafana itself would leave such a field out in silence.
"""

import enum
import json
import sys
import typing

from grafana_foundation_sdk.cog import encoder, plugins
from grafana_foundation_sdk.models import dashboard
from typeguard import CollectionCheckStrategy, TypeCheckError, check_type

# Fields of plug-ins for which the model has no types: the Prometheus data source's annotations and variables.
OF_PLUGINS = {"titleFormat", "step", "definition"}


def lost(before, after, path=""):
    """Fields that are not there any more when the model has written what it read."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name, value in before.items():
            if name in after:
                yield from lost(value, after[name], f"{path}.{name}")
            elif name not in OF_PLUGINS:
                yield f"{path}.{name}: Grafana has no such field there"
    elif isinstance(before, list) and isinstance(after, list):
        for at, (old, new) in enumerate(zip(before, after)):
            yield from lost(old, new, f"{path}[{at}]")
    elif before != after:
        yield f"{path}: {before!r} became {after!r}"


def names_member(value, hint):
    """Whether a plain value is that of a member of an enum: the model keeps what it has read."""
    kinds = [kind for kind in (hint, *typing.get_args(hint)) if isinstance(kind, type) and issubclass(kind, enum.Enum)]
    return any(value == member.value for kind in kinds for member in kind)


def mistyped(value, path=""):
    """Values of the model that its own annotations don't allow."""
    hints = typing.get_type_hints(type(value))
    for name, part in vars(value).items():
        inner = f"{path}.{name}"
        for at, item in enumerate(part if isinstance(part, list) else [part]):
            if type(item).__module__.startswith("grafana_foundation_sdk.models") and not isinstance(item, enum.Enum):
                yield from mistyped(item, f"{inner}[{at}]" if isinstance(part, list) else inner)
        if names_member(part, hints[name]):
            continue
        try:
            check_type(part, hints[name], collection_check_strategy=CollectionCheckStrategy.ALL_ITEMS)
        except TypeCheckError as error:
            yield f"{inner}: {error}"


def main():
    with open(sys.argv[1]) as file:
        source = json.load(file)
    plugins.register_default_plugins()
    model = dashboard.Dashboard.from_json(source)
    faults = [*lost(source, json.loads(encoder.JSONEncoder().encode(model))), *mistyped(model)]
    sys.exit("\n".join(faults) or 0)


main()
