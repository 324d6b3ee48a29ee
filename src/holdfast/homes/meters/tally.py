"""The counts of a reading of a running session: tokens by day and model, failed tools, and unclear
usage. They are stored as JSON for the next reading.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from holdfast.homes.agents.json_lines import moment
from holdfast.homes.agents.message_blocks import numbers_of, usage_of
from holdfast.model.loop import DayModels, Metered
from holdfast.model.session import Json, Tokens
from holdfast.model.usage import Usage
from holdfast.model.utc_day import utc_day
from holdfast.policy.loop_guard import largest, less
from holdfast.value import dataclass

#: The state of earlier readings as JSON, by file path.
Marks: TypeAlias = Mapping[str, Any]
#: The fields with token counts, of all agents.
_COUNTED = re.compile(r"_tokens$|^(input|output|thoughts|cached)$")
#: How many tool calls are remembered, so that none is counted twice.
MOST_CALLS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The usage of a session, and how many of its last tools failed in a row. `missing` are files
    that could not be read; `unclear` is the number of answers without usage and of damaged lines:
    if it is not 0, the usage is a lower bound."""

    metered: Metered
    errors: int = 0
    missing: tuple[str, ...] = ()
    unclear: int = 0


class Tally:
    """The counts from one file so far. `carry` is the state of its agent's reader. `kept` is usage
    that was in the file once and no longer is. Records without a time count for `day`, the day of
    the file's mtime. `was` are earlier names of the file."""

    def __init__(self, said: Any = None) -> None:
        said = said if isinstance(said, dict) else {}
        self.offset: int = said.get("offset", 0)
        self.check: str = said.get("check", "")
        self.content: str = said.get("content", "")
        self.was: list[str] = said.get("was", [])
        self.day = ""
        self.errors: int = said.get("errors", 0)
        self.unclear: int = said.get("unclear", 0)
        self.carry: dict[str, Any] = said.get("carry", {})
        self.used = _from_rows(said.get("used", ()))
        self.kept = _from_rows(said.get("kept", ()))

    def keep(self, before: Tally) -> None:
        """Keep the usage from before the file was rewritten."""
        for key, said in together(before.used, before.kept).items():
            self.kept[key] = less(said, self.used.get(key, Usage()))

    @property
    def all_unclear(self) -> int:
        return self.unclear + len(self.carry.get("unsaid", ()))

    def add(self, at: object, model: object, usage: Usage) -> None:
        self._book(day_of(at) or self.day, model, usage, Usage.plus)

    def _book(
        self, day: str, model: object, usage: Usage, how: Callable[[Usage, Usage], Usage]
    ) -> None:
        key = (day, str(model or ""))
        self.used[key] = how(self.used.get(key, Usage()), usage)

    def replace(self, name: str, at: object, model: object, usage: Usage, *, most: int = 0) -> None:
        """Count the usage of an answer, replacing an earlier count of the same answer. With `most`,
        only that many latest answers are remembered."""
        answers: dict[str, Any] = self.carry.setdefault("answers", {})
        before = answers.pop(name, None)
        day = day_of(at) or self.day
        if before is not None:
            day, said = before[0], _usage(before[2:])
            self._book(day, before[1], said, less)
            usage = largest(said, usage)
        self._book(day, model, usage, Usage.plus)
        answers[name] = [day, model, *_counts(usage)]
        if most and len(answers) > most:
            del answers[next(iter(answers))]
        if name in self.carry.get("unsaid", ()):
            self.carry["unsaid"].remove(name)

    def unsaid(self, name: object) -> None:
        """Note an answer without usage. A later line of it may have the usage."""
        if not isinstance(name, str) or not name:
            self.unclear += 1
            return
        waiting: list[str] = self.carry.setdefault("unsaid", [])
        if name in self.carry.get("answers", ()) or name in waiting:
            return
        if len(waiting) < MOST_CALLS:
            waiting.append(name)
        else:
            self.unclear += 1

    def ended(self, *, failed: bool) -> None:
        self.errors = self.errors + 1 if failed else 0

    def to_json(self) -> dict[str, Json]:
        return {
            "offset": self.offset,
            "check": self.check,
            "content": self.content,
            "was": list[Json](self.was),
            "errors": self.errors,
            "unclear": self.unclear,
            "carry": self.carry,
            "used": _rows(self.used),
            "kept": _rows(self.kept),
        }


def together(*each_used: DayModels) -> dict[tuple[str, str], Usage]:
    """The sum of several usages, by day and model."""
    found: dict[tuple[str, str], Usage] = {}
    for used in each_used:
        for key, usage in used.items():
            found[key] = found.get(key, Usage()).plus(usage)
    return found


def without_price(tokens: Tokens | None) -> Usage:
    counted = tokens or Tokens()
    return Usage(tokens=counted, unpriced=counted)


def _counts(usage: Usage) -> list[Json]:
    tokens = usage.tokens
    return [tokens.input, tokens.output, tokens.cached]


def _usage(counts: Sequence[Any]) -> Usage:
    read, written, cached = counts
    return without_price(Tokens(input=read, output=written, cached=cached))


def _rows(used: DayModels) -> list[Json]:
    return [[day, model, *_counts(each)] for (day, model), each in used.items()]


def _from_rows(rows: Sequence[Any]) -> dict[tuple[str, str], Usage]:
    return {(day, model): _usage(counts) for day, model, *counts in rows}


def priced_rows(used: DayModels) -> list[Json]:
    return [[day, model, *numbers_of(each)] for (day, model), each in used.items()]


def priced_from_rows(rows: Sequence[Any]) -> dict[tuple[str, str], Usage]:
    return {(day, model): usage_of(numbers) for day, model, *numbers in rows}


def counts_in(usage: object, tally: Tally) -> object:
    """The counts as integers, whatever type the agent used. An invalid count is noted as unclear,
    because the usage is then unknown."""
    if usage is None or not isinstance(usage, dict):
        tally.unclear += usage is not None
        return None
    found: dict[str, Any] = {}
    for name, value in usage.items():
        if not _COUNTED.search(str(name)):
            continue
        try:
            found[name] = int(float(value)) if isinstance(value, str | float) else value
        except (ValueError, OverflowError):
            found[name] = None
        said = found[name]
        if value is not None and (type(said) is not int or said < 0):
            tally.unclear += 1
    return found


def day_of(at: object) -> str:
    """The UTC day of an agent's time; "" if it is not a time."""
    when = moment(at)
    return "" if when is None else utc_day(when)
