"""Detects parts of a session outside its home. Such a session is read but never changed: the
agent's record may have been edited, or may name a path of another home."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from holdfast.model.part import LinePart, RefPart, Unit
from holdfast.ports.formats import Format


class OutsideTheHome:
    """Looks for parts outside the roots of one home, and caches which folders are inside."""

    def __init__(self, form: Format, root: Path) -> None:
        self._format = form
        self._root = root
        self._folders: dict[str, bool] = {}

    def look_again(self) -> None:
        """Clear the cache: a folder may have become a link."""
        self._folders = {}

    def part_of(self, unit: Unit) -> str | None:
        """The first part that is not below a root of the home."""
        for part in unit.parts:
            place = str(part.place)
            if isinstance(part, RefPart) and self._is_reference(part):
                within = True
            elif isinstance(part, LinePart):
                within = self._is_within(place)
            else:  # the parent counts: removing a link removes the link, not its target
                within = self._is_within(place.rpartition(os.sep)[0]) or self._is_root(place)
            if not within:
                return place
        return None

    def _is_reference(self, part: RefPart) -> bool:
        """True if these references are the agent's own, judging by their name: one word below its
        prefix that git does not take for a pattern."""
        prefix = self._format.facts.references
        word = part.prefix.removeprefix(prefix).removesuffix("/")
        return (
            bool(prefix)
            and part.prefix == f"{prefix}{word}/"
            and word.replace("-", "").replace("_", "").isalnum()
        )

    def _is_within(self, path: str) -> bool:
        """True if the real path of a folder is in the home. The result is cached: folders repeat,
        and resolving one costs a system call for every component of its path."""
        if path not in self._folders:
            real = os.path.realpath(path)
            self._folders[path] = any(_is_below(real, root) for root in self._roots)
        return self._folders[path]

    def _is_root(self, place: str) -> bool:
        folder, _, name = place.rpartition(os.sep)
        return f"{os.path.realpath(folder)}{os.sep}{name}" in self._roots

    @cached_property
    def _roots(self) -> Sequence[str]:
        return [os.path.realpath(each) for each in self._format.roots(self._root)]


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip(os.sep) + os.sep)
