"""Times, sizes and counts, as people give them."""

import operator
import re

_SIZES = {"": 1, "B": 1, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "KB": 10**3, "MB": 10**6, "GB": 10**9}


def to_bytes(size: int | str) -> int:
    """A number of bytes from a number, or from text such as `256MiB`.

    Raises:
        TypeError: It is neither a whole number nor text.
        ValueError: The text is no size, or the size is below 1.
    """
    if isinstance(size, str):
        parts = re.fullmatch(r"\s*(\d+)\s*([A-Za-z]*)\s*", size)
        if parts is None or parts[2].upper() not in _SIZES:
            raise ValueError(f"{size!r} is not a size: write a number of bytes, or text such as '256MiB'")
        size = int(parts[1]) * _SIZES[parts[2].upper()]
    if not isinstance(size, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"a size is a whole number of bytes, or text such as '256MiB', not {size!r}")
    if size < 1:
        raise ValueError(f"a size must be at least 1 byte, not {size}")
    return size


def to_ms(seconds: float) -> int:
    """A number of milliseconds from seconds.

    Raises:
        TypeError: It is not a number.
        ValueError: The time is not above 0, or is 30 years or more.
    """
    if not isinstance(seconds, int | float):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"a time is a number of seconds, not {seconds!r}")
    if not 0 < seconds < 1e9:
        raise ValueError(f"a time must be a number of seconds above 0 and below 1e9, not {seconds}")
    return max(1, round(seconds * 1000))


def to_count(count: float) -> int:
    """A whole number. `4.0` is one, as in JSON.

    Raises:
        TypeError: It is something else.
    """
    if isinstance(count, float) and count.is_integer():
        return int(count)
    try:
        return operator.index(count)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"a whole number is needed, not {count!r}") from None
