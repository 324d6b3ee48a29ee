"""What a look at a running session counts: tokens by day and model, tools that failed, and what is
not clear. A look keeps it as JSON for the next one.
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

#: What a look knows of those before, as JSON: by the path of each file.
Marks: TypeAlias = Mapping[str, Any]
#: The fields with a number of tokens, of all agents.
_COUNTED = re.compile(r"_tokens$|^(input|output|thoughts|cached)$")
#: So many calls of tools are remembered, to count none of them twice.
MOST_CALLS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a session used, and how many of its last tools failed in a row. `missing` are files that
    could not be read, `unclear` counts answers without numbers and lines that are damaged: then it
    used at least as much."""

    metered: Metered
    errors: int = 0
    missing: tuple[str, ...] = ()
    unclear: int = 0


class Tally:
    """What one file says so far. `carry` is what its agent's reader must know of what came
    before. `kept` is what it said once, and what is not in it any more. What it says without a time
    counts for `day`, the one on which the file was written last. `was` are names that it had."""

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
        """Do not forget what was there before the file was written anew."""
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
        """What an answer used, in place of what was said of the same answer before. With `most`, no
        more answers than the last ones are known."""
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
        """An answer does not say what it used. Another line of it may."""
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
    """What several used, by day and model."""
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
    """The counts in what an agent wrote as numbers, whatever it wrote them as. One that is no count
    is noted: then nobody knows what was used."""
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
    """The UTC day of a time as the agent wrote it; "" if it is none."""
    when = moment(at)
    return "" if when is None else utc_day(when)
