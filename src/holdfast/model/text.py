"""Text for people: formatting of quantities, parsing of sizes, and escaping of unsafe text.

The only place that formats bytes, and the only one that decides what is safe to show.
"""

from __future__ import annotations

import re

from holdfast.errors import UsageError

TYPE_CHECKING = False  # as in `typing`, which is slow to load
if TYPE_CHECKING:
    from collections.abc import Iterable

_SIZE = r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?"
_SIZE_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
#: A number without a unit.
BARE = r"\d+(?:\.\d+)?"
_LARGEST = 2**63 - 1
_ROUNDS_UP = 999.95  # would be shown as 1000.0
_LEAST_COST = 0.0001
_SMALL_COST = 0.1  # in cents it would have one significant digit or none


def parse_size(text: str) -> int:
    """Bytes in `500MB`, `1.5GB`, `64k`: decimal as disk makers count, with binary
    `KiB`/`MiB`/`GiB`.

    A number without a unit is refused: most people who write 500 mean megabytes, and a limit of 500
    bytes would remove everything.
    """
    stripped = text.strip()
    match = re.fullmatch(_SIZE, stripped, re.IGNORECASE)
    if not match:
        raise UsageError(f"{text!r} is not a size.", hint="Write 500MB, 1.5GB or 64KiB.")
    number, prefix, binary = match.groups()
    unit: int = (1024 if binary else 1000) ** _SIZE_POWER[prefix.lower()]
    size = float(number) * unit
    if size > _LARGEST:  # before it becomes an int: enough digits make it infinite
        raise UsageError(f"{text!r} is larger than any disk.")
    if round(size) and re.fullmatch(BARE, stripped):
        raise without_unit(text, stripped, ("bytes", "B"), ("megabytes", "MB"))
    return round(size)


def without_unit(
    text: str, number: str, one: tuple[str, str], other: tuple[str, str]
) -> UsageError:
    """The error for a number without a unit, with both ways to read it."""
    (words, unit), (other_words, other_unit) = one, other
    if float(number) == 1:
        words, other_words = (re.sub(r"s\b", "", each) for each in (words, other_words))
    return UsageError(
        f"{text!r} has no unit: it could mean {number} {words} or {number} {other_words}.",
        hint=f"Write {number}{unit} or {number}{other_unit}.",
    )


def format_bytes(size: int) -> str:
    """`0 B`, `999 B`, `1.2 kB`, `12.3 MB`: at most four digits, decimal units."""
    value, units = float(size), ["B", "kB", "MB", "GB", "TB"]
    while abs(value) >= _ROUNDS_UP and len(units) > 1:
        value /= 1000
        del units[0]
    return f"{int(value)} B" if units[0] == "B" else f"{value:,.1f} {units[0]}"


def format_duration(seconds: float) -> str:
    """One unit, rounded down, as people say it: `45 s`, `12 min`, `5 h`, `120 d`."""
    seconds = max(0.0, seconds)
    for limit, size, unit in (
        (60.0, 1.0, "s"),
        (3_600.0, 60.0, "min"),
        (2 * 86_400.0, 3_600.0, "h"),
    ):
        if seconds < limit:
            return f"{int(seconds / size)} {unit}"
    return f"{int(seconds / 86_400.0):,} d"


def format_cost(cost: float, digits: int | None = None) -> str:
    """`$12.50`, `$0.0051`: cents, or more digits for a small sum; a cost above 0 is never shown as
    0. Agents report cost in US dollars, so prices are in dollars too. Costs in one column share
    `digits`: see `cost_digits`."""
    if 0 < cost < _LEAST_COST:
        return f"< ${_LEAST_COST}"
    if digits is not None and 0 < cost < 0.5 * 10**-digits:
        return f"< ${10**-digits:.{digits}f}"
    return f"${cost:,.{cost_digits([cost]) if digits is None else digits}f}"


def cost_digits(costs: Iterable[float]) -> int:
    """How many decimals these costs need so that the smallest is still meaningful."""
    return 4 if any(0 < each < _SMALL_COST for each in costs) else 2


def format_count(number: int, singular: str, plural: str | None = None) -> str:
    """`1 file`, `1,204 files`."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


# Python treats only one of the spaces as printable. The others are just as harmless, and Chinese
# text, for example, uses a space of its own.
_SPACES = frozenset(
    "\u00a0\u1680\u202f\u205f\u3000",
) | {chr(c) for c in range(0x2000, 0x200B)}


def printable(text: str, *, keep: str = "\n") -> str:
    """The text with everything escaped that is not safe to show, except characters in `keep`.

    Such text cannot steer the terminal, change the direction of what follows, or hide. Escaped are
    control characters (C0 and C1), bidirectional and other format characters, line and paragraph
    separators, bytes that are not UTF-8, lone surrogates, and unassigned code points.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in keep or each in _SPACES else _escape(each)
        for each in text
    )


def one_line(text: str) -> str:
    """Like `printable`, but newlines are escaped too: for names in a table or a sentence."""
    return printable(text, keep="")


def _escape(character: str) -> str:
    if "\udc80" <= character <= "\udcff":  # a byte that is not UTF-8, as Python keeps it
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode("ascii")
