"""Detects parts of a session that are in the home, but not where its agent keeps sessions.

A record of parts may have been edited, or come with a bundle from anywhere. Without this check it
could restore a settings file of the agent or of Holdfast, which name programs to run. What cannot
be restored is not removed either, so both ask the same question.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import repeat
from pathlib import Path

from holdfast.model.part import FilePart, FolderPart, Part, Places, RefPart, RowsPart, Unit
from holdfast.ports.formats import Format

#: The vault restores an earlier content beside what its agent has now.
_SET_ASIDE = re.compile(r"^earlier-[0-9]+-")
_SHA = re.compile(r"[0-9a-f]{64}")


class SessionPlaces:
    """The places of one format, in one home."""

    def __init__(self, form: Format, root: Path) -> None:
        self._format = form
        self._root = root

    def misplaced(self, unit: Unit, *, of_leftovers: bool = False) -> str | None:
        """The first part that the agent does not keep for such a session. A leftover may be
        anywhere but in the folder of Holdfast's own files."""
        places = self._format.facts.places
        for part in unit.parts:
            # References are told by their names, whatever repository has them.
            if isinstance(part, RefPart):
                continue
            path = str(part.place)
            # The system resolves `..` where it meets it, behind links too.
            if ".." in part.place.parts or self._is_ours(path):
                return path
            if not (places is None or of_leftovers or self._has(places, part, path, unit.id)):
                return path
        return None

    def _has(self, places: Places, part: Part, path: str, name: str) -> bool:
        match part:
            case FilePart():
                patterns = places.files
            case FolderPart():
                patterns = places.folders
            case RowsPart():
                patterns = places.stores
            case _:
                patterns = places.lines
        if any(_fits(patterns, each, name) for each in _below(path, self._roots[:1])):
            return True
        return isinstance(part, FolderPart) and any(
            _fits(places.beside, each, name) for each in _below(path, self._roots[1:])
        )

    def _is_ours(self, path: str) -> bool:
        """True for the folder of Holdfast's own files, and all below it. Some file systems take no
        notice of case."""
        state = self._format.facts.state.casefold()
        spelled = [*_below(path, self._roots[:1])]
        return any(each.casefold().split("/", 1)[0] == state for each in spelled)

    @cached_property
    def _roots(self) -> Sequence[tuple[str, str]]:
        """The home and the other roots, each as it was named and as it really is."""
        others = (each for each in self._format.roots(self._root) if each != self._root)
        return [(str(each), os.path.realpath(each)) for each in (self._root, *others)]


def _below(path: str, roots: Sequence[tuple[str, str]]) -> Iterator[str]:
    """A path relative to the roots that it is below, as it is written and as it really is: the user
    may have moved a folder and left a link. The last name counts itself, even if it is a link."""
    folder, _, name = path.rpartition("/")
    real = f"{os.path.realpath(folder)}/{name}"
    for root in (spelled for both in roots for spelled in both):
        for each in (path, real):
            if each.startswith(f"{root}/"):
                yield each[len(root) + 1 :]


def _fits(patterns: Sequence[str], relative: str, unit_id: str) -> bool:
    names = relative.split("/")
    names[-1] = _SET_ASIDE.sub("", names[-1])
    return any(
        len(names) == len(wanted) and all(map(_matches, wanted, names, repeat(unit_id)))
        for wanted in (each.split("/") for each in patterns)
    )


def _matches(pattern: str, name: str, unit_id: str) -> bool:
    """No regular expression: with the id in it, it would be compiled for every session."""
    if pattern == "{sha}":
        return _SHA.fullmatch(name) is not None
    if pattern.startswith("{id}") and not unit_id:
        return False
    before, star, after = (each.replace("{id}", unit_id) for each in pattern.partition("*"))
    if not star:
        return name == before
    return (
        name.startswith(before) and name.endswith(after) and len(name) >= len(before) + len(after)
    )
