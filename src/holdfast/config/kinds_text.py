"""Texts that mean something to the system: a folder, a program with its arguments, ignore rules."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from holdfast.config.kinds import Value, WrongValueError
from holdfast.config.shown import found


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A path, or empty text for the usual place."""

    def read(self, value: object) -> Value:
        return _path_text(value, "a folder")

    def parse(self, text: str) -> object:
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine:
    """A program with its arguments, quoted as for a shell; empty text for none."""

    def read(self, value: object) -> Value:
        text = _path_text(value, "a program with its arguments")
        try:
            words = shlex.split(text)
        except ValueError as error:
            reason = str(error).rstrip(".").lower()
            raise WrongValueError(f"{reason} in {found(text)}") from None
        if text and not (words and words[0]):
            raise WrongValueError('names no program; write "" for none')
        return text

    def parse(self, text: str) -> object:
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class IgnoreRules:
    """Lines of a .gitignore file, as a list; comma-separated in an environment variable."""

    def read(self, value: object) -> Value:
        if not isinstance(value, list | tuple):
            hint = "; put it in [ ]" if isinstance(value, str) else ""
            raise WrongValueError(f"expected a list of patterns, found {found(value)}{hint}")
        reasons = [
            f"item {number}: expected a pattern in printable characters, found {found(item)}"
            for number, item in enumerate(value, 1)
            # One with a line break would be two.
            if not isinstance(item, str) or not item.strip() or not item.isprintable()
        ]
        if reasons:
            raise WrongValueError(*reasons)
        return tuple(value)

    def parse(self, text: str) -> object:
        return [item.strip() for item in text.split(",")]


def _path_text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise WrongValueError(f"expected {what}, found {found(value)}")
    if not value.isprintable():
        raise WrongValueError(f"expected {what} in printable characters, found {found(value)}")
    if value.startswith("~"):  # nobody here knows whose home folder it would be
        raise WrongValueError(f'expected {what}; "~" means nothing here, write the whole path')
    return value
