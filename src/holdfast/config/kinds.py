"""What a value may be. A kind reads a value out of TOML or text, or says why it cannot."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from holdfast.config.shown import cut, found, nearest
from holdfast.errors import UsageError
from holdfast.model.units import parse_duration

Value: TypeAlias = bool | int | float | str | tuple[str, ...] | tuple[int, ...]

# More digits than any bound has; a longer number stays text and is refused as such.
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_DECIMAL = re.compile(r"[+-]?[0-9]{1,18}\.[0-9]{1,18}")


class WrongValueError(Exception):
    """A value that its key cannot have, with every reason."""

    def __init__(self, *reasons: str) -> None:
        super().__init__(*reasons)
        self.reasons = reasons


class Kind(Protocol):
    """One sort of value."""

    def read(self, value: object) -> Value:
        """The value as settings hold it, or WrongValueError."""
        ...

    def parse(self, text: str) -> object:
        """What `text`, from an environment variable, would have been in TOML."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number between two bounds, both allowed unless it must be `above` the lower one.

    `or_off` allows 0 as well, which turns off what the number is for. `hint` is for those who go
    below.
    """

    low: int
    high: int
    above: bool = False
    whole: bool = True
    or_off: bool = False
    hint: str = ""

    def read(self, value: object) -> Value:
        # A bool is an int to Python; `keep_last = true` is still a mistake.
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(value, "write it without quotes" if self._is_quoted(value) else "")
        if self.whole and isinstance(value, float):
            raise self._wrong(value)
        if self.or_off and value == 0:
            return value
        # Written so that NaN, which compares false with everything, fails it.
        if not self.low <= value <= self.high or (self.above and value == self.low):
            raise self._wrong(value, self.hint if value <= self.low else "")
        return value

    def parse(self, text: str) -> object:
        bare = text.strip()
        if _WHOLE.fullmatch(bare):
            return int(bare)
        return float(bare) if _DECIMAL.fullmatch(bare) else text

    def _is_quoted(self, value: object) -> bool:
        return isinstance(value, str) and not isinstance(self.parse(value), str)

    def _wrong(self, value: object, hint: str = "") -> WrongValueError:
        kind = "a whole number" if self.whole else "a number"
        bounds = f"above {self.low}, up to" if self.above else f"from {self.low} to"
        off = ", or 0 to turn it off" if self.or_off else ""
        reason = f"expected {kind} {bounds} {self.high}{off}, found {found(value)}"
        return WrongValueError(f"{reason}; {hint}" if hint else reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """Yes or no."""

    def read(self, value: object) -> Value:
        if isinstance(value, bool):
            return value
        quoted = isinstance(value, str) and isinstance(self.parse(value), bool)
        hint = "; write it without quotes" if quoted else ""
        raise WrongValueError(f"expected true or false, found {found(value)}{hint}")

    def parse(self, text: str) -> object:
        return {"true": True, "1": True, "false": False, "0": False}.get(text.strip().lower(), text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One of a few words, at least two."""

    choices: tuple[str, ...]

    def read(self, value: object) -> Value:
        if isinstance(value, str) and value in self.choices:
            return value
        close = nearest(value, self.choices) if isinstance(value, str) else None
        advice = f'; did you mean "{close}"?' if close else ""
        *words, last = (f'"{choice}"' for choice in self.choices)
        reason = f"expected {', '.join(words)} or {last}, found {found(value)}{advice}"
        raise WrongValueError(reason)

    def parse(self, text: str) -> object:
        return text.strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Duration:
    """A length of time as text, or empty text for none."""

    def read(self, value: object) -> Value:
        if not isinstance(value, str):
            raise WrongValueError(f'expected a duration such as "2w", found {found(value)}')
        if not value:
            return value
        try:
            seconds = parse_duration(value)
        except UsageError:
            raise WrongValueError(
                f'expected a duration such as "12h", "2w" or "1y", found {found(value)}'
            ) from None
        if seconds == 0:
            raise WrongValueError(f'"{cut(value)}" would keep nothing; write "" to turn this off')
        return value

    def parse(self, text: str) -> object:
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Patterns:
    """A list of ids or patterns; comma-separated in an environment variable."""

    def read(self, value: object) -> Value:
        if not isinstance(value, list | tuple):
            hint = "; put it in [ ]" if isinstance(value, str) else ""
            raise WrongValueError(f"expected a list of ids or patterns, found {found(value)}{hint}")
        reasons = [
            f"item {number} is empty"
            if isinstance(item, str)
            else f"item {number}: expected an id or a pattern, found {found(item)}"
            for number, item in enumerate(value, 1)
            if not isinstance(item, str) or not item.strip()
        ]
        if reasons:
            raise WrongValueError(*reasons)
        return tuple(value)

    def parse(self, text: str) -> object:
        return [item.strip() for item in text.split(",")]
