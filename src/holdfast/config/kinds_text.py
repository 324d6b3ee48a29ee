"""Texts that mean something to the system: a folder, and a program with its arguments."""

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


def _path_text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise WrongValueError(f"expected {what}, found {found(value)}")
    if not value.isprintable():
        raise WrongValueError(f"expected {what} in printable characters, found {found(value)}")
    if value.startswith("~"):  # nobody here knows whose home folder it would be
        raise WrongValueError(f'expected {what}; "~" means nothing here, write the whole path')
    return value
