"""Values of all kinds that have a form in JSON."""

import collections
import dataclasses
import datetime
import enum
import fractions
import ipaddress
import pathlib
import re
import uuid
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from signatures import Color, Level

PLUS = datetime.timezone(datetime.timedelta(hours=5, minutes=30))


class Named(str, enum.Enum):  # noqa: UP042 (people write this)
    ONE = "one"


@dataclasses.dataclass
class Trip:
    start: datetime.date
    stops: list[Decimal]


Pair = collections.namedtuple("Pair", "a b")

VALUES: dict[str, tuple[Any, Any]] = {
    "date": (datetime.date(2026, 7, 4), "2026-07-04"),
    "datetime": (datetime.datetime(2026, 7, 4, 9, 30, 0, 5), "2026-07-04T09:30:00.000005"),
    "utc": (datetime.datetime(2026, 7, 4, tzinfo=datetime.UTC), "2026-07-04T00:00:00Z"),
    "zone": (datetime.datetime(2026, 7, 4, tzinfo=PLUS), "2026-07-04T00:00:00+05:30"),
    "time": (datetime.time(9, 30, tzinfo=datetime.UTC), "09:30:00Z"),
    "timedelta": (datetime.timedelta(days=1, seconds=9065, microseconds=5), "P1DT2H31M5.000005S"),
    "no time": (datetime.timedelta(), "PT0S"),
    "back": (datetime.timedelta(hours=-36), "-P1DT12H"),
    "decimal": (Decimal("1.50"), "1.50"),
    "uuid": (uuid.UUID(int=5), "00000000-0000-0000-0000-000000000005"),
    "bytes": ("ü".encode(), "ü"),
    "bytearray": (bytearray(b"x"), "x"),
    "set": ({1}, [1]),
    "frozenset": (frozenset(["a"]), ["a"]),
    "tuple": ((1, (2, 3)), [1, [2, 3]]),
    "namedtuple": (Pair(1, {2}), [1, [2]]),
    "deque": (collections.deque([1]), [1]),
    "range": (range(3), [0, 1, 2]),
    "keys": ({"a": 1}.keys(), ["a"]),
    "mapping": (MappingProxyType({"a": {1}}), {"a": [1]}),
    "enum": (Color.RED, "red"),
    "int enum": (Level.HIGH, 2),
    "str enum": (Named.ONE, "one"),
    "path": (pathlib.Path("a/b"), "a/b"),
    "dataclass": (Trip(datetime.date(2026, 7, 4), [Decimal(1)]), {"start": "2026-07-04", "stops": ["1"]}),
    "pattern": (re.compile("a+"), "a+"),
    "address": (ipaddress.ip_address("10.0.0.1"), "10.0.0.1"),
    "fraction": (fractions.Fraction(1, 3), "1/3"),
    "nested": ({"a": [{"b": (datetime.date(2026, 7, 4),)}]}, {"a": [{"b": ["2026-07-04"]}]}),
    "keyed": (
        {datetime.date(2026, 7, 4): 1, Color.RED: 2, 3: 4, True: 5},
        {"2026-07-04": 1, "red": 2, "3": 4, "true": 5},
    ),
    "large": (10**40, 10**40),
}
"""A value for each name, and its form."""
