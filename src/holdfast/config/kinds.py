"""The kinds of values that keys can have, and how names and values appear in messages."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from typing import TypeAlias

from holdfast.errors import UsageError
from holdfast.model.durations import parse_duration
from holdfast.model.text import one_line

Value: TypeAlias = bool | int | float | str | tuple[str, ...] | tuple[int, ...]

_LONGEST = 40
#: The maximum length of a source name, so that no valid name is cut.
LONGEST_NAME = 64
_LARGEST_SHOWN = 10**18
_BARE = re.compile(r"[A-Za-z0-9_-]+")
# More digits than any bound has; a longer number stays a string and is refused as such.
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_DECIMAL = re.compile(r"[+-]?[0-9]{1,18}\.[0-9]{1,18}")
_STORE = re.compile(r"(s3|gs|az)://[A-Za-z0-9][A-Za-z0-9._-]{1,254}(/[^\s/?#@\\]+)*/?")
_ENDPOINT = re.compile(r"https?://[A-Za-z0-9._:\[\]-]+(/[^\s?#@]*)?")
_NAME = re.compile(r"[^\s/]{0,128}")
_HIGHEST_PERCENT = 99
_STEPS = 3
_MOST_CALLS = 1_000_000


class WrongValueError(Exception):
    """An invalid value for a key, with every reason."""

    def __init__(self, *reasons: str) -> None:
        super().__init__(*reasons)
        self.reasons = reasons


class Kind:
    """A kind of value. `allowed` describes it in the documentation."""

    allowed: str

    def read(self, value: object) -> Value:
        """The value as the settings hold it; raises WrongValueError."""
        raise NotImplementedError

    def parse(self, text: str) -> object:
        """The TOML value for `text` from an environment variable."""
        return text


class Number(Kind):
    """A number between two bounds, both inclusive unless it must be `above` the lower one.

    `or_off` also allows 0, which turns the feature off. `hint` is shown for values below the lower
    bound.
    """

    def __init__(
        self,
        low: int,
        high: int,
        *,
        above: bool = False,
        whole: bool = True,
        or_off: bool = False,
        hint: str = "",
    ) -> None:
        bounds = f"above {low}, up to {high}" if above else f"{low} to {high}"
        self.allowed = f"{'0, or ' if or_off else ''}{bounds}{', whole' if whole else ''}"
        self._low, self._high, self._above = low, high, above
        self._whole, self._or_off, self._hint = whole, or_off, hint

    def read(self, value: object) -> Value:
        # A bool is an int to Python; `keep_last = true` is still a mistake.
        if isinstance(value, bool) or not isinstance(value, int | float):
            quoted = isinstance(value, str) and not isinstance(self.parse(value), str)
            raise self._wrong(value, "write it without quotes" if quoted else "")
        if self._whole and isinstance(value, float):
            raise self._wrong(value)
        if self._or_off and value == 0:
            return value
        # Written so that NaN, which compares false with everything, is refused.
        if not self._low <= value <= self._high or (self._above and value == self._low):
            raise self._wrong(value, self._hint if value <= self._low else "")
        return value

    def parse(self, text: str) -> object:
        bare = text.strip()
        if _WHOLE.fullmatch(bare):
            return int(bare)
        return float(bare) if _DECIMAL.fullmatch(bare) else text

    def _wrong(self, value: object, hint: str = "") -> WrongValueError:
        kind = "a whole number" if self._whole else "a number"
        bounds = f"above {self._low}, up to" if self._above else f"from {self._low} to"
        off = ", or 0 to turn it off" if self._or_off else ""
        reason = f"expected {kind} {bounds} {self._high}{off}, found {found(value)}"
        return WrongValueError(f"{reason}; {hint}" if hint else reason)


#: How long something is kept, and how large it may grow: limits that several tables share.
DAYS = Number(0, 36_500, whole=False)
MEGABYTES = Number(0, 1_000_000_000)


class Flag(Kind):
    """True or false."""

    allowed = "`true` or `false`"

    def read(self, value: object) -> Value:
        if isinstance(value, bool):
            return value
        quoted = isinstance(value, str) and isinstance(self.parse(value), bool)
        hint = "; write it without quotes" if quoted else ""
        raise WrongValueError(f"expected true or false, found {found(value)}{hint}")

    def parse(self, text: str) -> object:
        return {"true": True, "1": True, "false": False, "0": False}.get(text.strip().lower(), text)


class Choice(Kind):
    """One of a few words, at least two."""

    def __init__(self, *choices: str) -> None:
        self.allowed = ", ".join(f'`"{choice}"`' for choice in choices)
        self.choices = choices

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


class Duration(Kind):
    """A duration as text; an empty string turns the setting off."""

    allowed = 'a duration: `"12h"`, `"2w"`, `"1y"`'

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


class Patterns(Kind):
    """A list of patterns; comma-separated in an environment variable."""

    def __init__(self, several: str = "patterns", each: str = "a pattern") -> None:
        self.allowed = f"a list of {several}"
        self._each = each

    def read(self, value: object) -> Value:
        if not isinstance(value, list | tuple):
            hint = "; put it in [ ]" if isinstance(value, str) else ""
            raise WrongValueError(f"expected {self.allowed}, found {found(value)}{hint}")
        reasons = [
            f"item {number}{reason}"
            for number, item in enumerate(value, 1)
            if (reason := self._objection(item))
        ]
        if reasons:
            raise WrongValueError(*reasons)
        return tuple(value)

    def _objection(self, item: object) -> str:
        if not isinstance(item, str):
            return f": expected {self._each}, found {found(item)}"
        return "" if item.strip() else " is empty"

    def parse(self, text: str) -> object:
        return [item.strip() for item in text.split(",")]


class IgnoreRules(Patterns):
    """Lines of a .gitignore file."""

    def _objection(self, item: object) -> str:
        # A pattern with a line break would be two patterns.
        if not isinstance(item, str) or not item.strip() or not item.isprintable():
            return f": expected a pattern in printable characters, found {found(item)}"
        return ""


class Folders(Patterns):
    """Absolute paths of folders."""

    def __init__(self) -> None:
        super().__init__("absolute paths", "a path")

    def _objection(self, item: object) -> str:
        try:
            text = _path_text(item, "a path")
        except WrongValueError as error:
            return f": {error.reasons[0]}"
        return "" if text.startswith("/") or ":" in text else f": {found(text)} is not absolute"


class Folder(Kind):
    """A path, or an empty string for the usual place."""

    allowed = "a path"

    def read(self, value: object) -> Value:
        return _path_text(value, "a folder")


#: The parameters of libpq that contain a secret.
SECRET_PARAMETERS = frozenset(
    ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key")
)


class DatabaseAddress(Kind):
    """The address of a PostgreSQL database, or an empty string for none. It is shown to people and
    stored in files, so it may not contain a password."""

    allowed = "an address that begins with postgresql://"

    def read(self, value: object) -> Value:
        text = _path_text(value, self.allowed)
        if text and not text.startswith(("postgresql://", "postgres://")):
            raise WrongValueError(f"expected {self.allowed}")
        from urllib.parse import parse_qsl, urlsplit  # noqa: PLC0415 - few homes have an address

        try:
            parts = urlsplit(text)
            # Ignoring case: libpq accepts lower case only, but the value is a secret anyway.
            names = {key.strip().lower() for key, _ in parse_qsl(parts.query)}
            secret = parts.password or not names.isdisjoint(SECRET_PARAMETERS)
        except ValueError:
            raise WrongValueError(
                f"expected {self.allowed}, found one that cannot be read"
            ) from None
        if secret:
            raise WrongValueError(
                "holds a password; take it out, and put it into ~/.pgpass or PGPASSWORD"
            )
        return text


class StoreUrl(Kind):
    """The address of an object store, or an empty string for none. It is shown in lists and
    messages, so it must not contain secrets."""

    allowed = "`s3://`, `gs://` or `az://` with a bucket"

    def read(self, value: object) -> Value:
        if not isinstance(value, str):
            raise WrongValueError(f"expected an address, found {found(value)}")
        if value and not _STORE.fullmatch(value):
            if "@" in value or "?" in value:  # not shown: it may be a secret
                raise WrongValueError(
                    "an address has no user, password or parameters; credentials come from the "
                    "environment or from `profile`"
                )
            hint = "; a folder goes into `folder`" if "://" not in value else ""
            raise WrongValueError(
                f'expected an address such as "s3://bucket/prefix", found {found(value)}{hint}'
            )
        return value.rstrip("/")


class Endpoint(Kind):
    """The address of a service, or an empty string."""

    allowed = "`https://` or `http://` with a host"

    def read(self, value: object) -> Value:
        if isinstance(value, str) and (not value or _ENDPOINT.fullmatch(value)):
            return value.rstrip("/")
        shown = "other text" if isinstance(value, str) and "@" in value else found(value)
        raise WrongValueError(f'expected an address such as "https://host:9000", found {shown}')


class Word(Kind):
    """A name without spaces, or an empty string."""

    allowed = "a name"

    def read(self, value: object) -> Value:
        if isinstance(value, str) and _NAME.fullmatch(value):
            return value
        raise WrongValueError(f"expected a name without spaces, found {found(value)}")


class CommandLine(Kind):
    """A program with its arguments, quoted as for a shell; an empty string for none."""

    allowed = "a program with its arguments"

    def read(self, value: object) -> Value:
        text = _path_text(value, self.allowed)
        try:
            words = shlex.split(text)
        except ValueError as error:
            reason = str(error).rstrip(".").lower()
            raise WrongValueError(f"{reason} in {found(text)}") from None
        if text and not (words and words[0]):
            raise WrongValueError('names no program; write "" for none')
        return text


def _path_text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise WrongValueError(f"expected {what}, found {found(value)}")
    if not value.isprintable():
        raise WrongValueError(f"expected {what} in printable characters, found {found(value)}")
    if value.startswith("~"):  # whose home folder that would be is not known here
        raise WrongValueError(f'expected {what}; "~" is not expanded here, write the full path')
    return value


class Percents(Kind):
    """Any number of shares of a limit; comma-separated in an environment variable."""

    allowed = f"1 to {_HIGHEST_PERCENT}, whole, or a list of them"

    def read(self, value: object) -> Value:
        given = value if isinstance(value, list | tuple) else [value]
        if not all(_is_whole(each, 1, _HIGHEST_PERCENT) for each in given):
            raise WrongValueError(
                f"expected a whole number from 1 to {_HIGHEST_PERCENT}, or a list of them, "
                f"found {_found_numbers(value)}"
            )
        return tuple(sorted(set(given)))

    def parse(self, text: str) -> object:
        return _numbers(text)


class Steps(Kind):
    """After how many calls there is a nudge, a strong nudge and a stop; 0 leaves a step out."""

    allowed = f"three increasing numbers, 0 to {_MOST_CALLS}"

    def read(self, value: object) -> Value:
        if (
            not isinstance(value, list | tuple)
            or len(value) != _STEPS
            or not all(_is_whole(each, 0, _MOST_CALLS) for each in value)
        ):
            raise WrongValueError(
                f"expected three whole numbers from 0 to {_MOST_CALLS}, as in [3, 6, 9], "
                f"found {_found_numbers(value)}"
            )
        rising = [each for each in value if each]
        if rising != sorted(set(rising)):
            raise WrongValueError(
                f"expected increasing numbers, zeros aside, found {_found_numbers(value)}"
            )
        return tuple(value)

    def parse(self, text: str) -> object:
        return _numbers(text)


def _is_whole(value: object, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _numbers(text: str) -> object:
    parts = [part.strip() for part in text.strip().strip("[]").split(",")]
    return [int(part) if _WHOLE.fullmatch(part) else part for part in parts if part]


def _found_numbers(value: object) -> str:
    """A short list is shown in full: the mistake is in its numbers."""
    if isinstance(value, list | tuple) and 0 < len(value) <= _STEPS + 1:
        return "[" + ", ".join(map(found, value)) + "]"
    return found(value)


# Names and values for messages: one line, printable, never long.


def cut(text: str, longest: int = _LONGEST) -> str:
    """The beginning of `text`, printable and at most `longest` characters."""
    safe = one_line(text[: longest + 1])
    return safe if len(safe) <= longest else safe[: longest - 3] + "..."


def dotted(path: Iterable[str]) -> str:
    """A key in TOML syntax: `sessions.source."a.b".keep_last`."""
    names = ((part, cut(part, LONGEST_NAME)) for part in path)
    return ".".join(name if _BARE.fullmatch(part) else f'"{name}"' for part, name in names)


def found(value: object) -> str:
    """A value of any type in words for an error message; the contents of tables are left out."""
    if isinstance(value, bool):
        return f"{str(value).lower()} (a boolean)"
    if isinstance(value, int) and abs(value) > _LARGEST_SHOWN:
        return "a far larger number" if value > 0 else "a far smaller number"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, str):
        return f'"{cut(value)}" (text)'
    names = {"dict": "a table", "list": "a list"}
    names |= dict.fromkeys(("datetime", "date", "time"), "a date or time")
    kind = type(value).__name__
    return names.get(kind, f"a value of type {cut(kind)}")


def nearest(name: str, choices: Iterable[str]) -> str | None:
    """The choice that `name` was probably meant to be."""
    import difflib  # noqa: PLC0415 - only a mistyped name pays for it

    if len(name) > LONGEST_NAME:
        return None
    by_lower = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return by_lower[close[0]] if close else None
