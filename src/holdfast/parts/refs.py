"""References of a git repository. They are hidden under another name in the same repository, which
keeps their objects until the trash is emptied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os.path import commonpath
from pathlib import Path

from holdfast.errors import StorageError
from holdfast.model.part import RefPart, Sight, Slot, digest
from holdfast.spine.outcomes import ALREADY_GONE, CHANGED, COPY_MISSING, PLACE_TAKEN
from holdfast.stores.git.program import Git

_TRASH = "refs/holdfast/trash/"


class RefMover:
    """Moves `RefPart`. One git call changes all of its references or none."""

    def look(self, batch: Sequence[Slot]) -> Sequence[Sight]:
        repository = _part(batch[0]).repository
        if not repository.is_dir():
            return [Sight(here=False) for _ in batch]
        try:
            # One git call for all: a home may have many sessions in one repository.
            every = _refs_below(
                repository, (_common([_part(each).prefix for each in batch]), _TRASH)
            )
        except StorageError:
            return [Sight(here=None) for _ in batch]
        return [_sight(slot, every) for slot in batch]

    def copy(self, batch: Sequence[Slot]) -> None:
        _update(
            batch[0],
            [
                f"update {_trash(slot)}{name} {target}"
                for slot in batch
                for name, target in _here(slot).items()
            ],
        )

    def drop(self, batch: Sequence[Slot]) -> Sequence[str | None]:
        why: list[str | None] = []
        lines: list[str] = []
        for slot in batch:
            here, hidden = _here(slot), _hidden(slot)
            if not here:
                why.append(None if hidden else ALREADY_GONE)
            elif _stamp(here) != slot.stamp or here != hidden:
                why.append(CHANGED)
            else:
                why.append(None)
                # With the old value, so that git refuses if the reference was moved since.
                lines += [f"delete {_part(slot).prefix}{name} {old}" for name, old in here.items()]
        _update(batch[0], lines)
        return why

    def put_back(self, batch: Sequence[Slot]) -> Sequence[str | None]:
        why: list[str | None] = []
        lines: list[str] = []
        for slot in batch:
            here, hidden = _here(slot), _hidden(slot)
            if here:
                why.append(None if _stamp(here) == slot.stamp else PLACE_TAKEN)
            elif not hidden:
                why.append(COPY_MISSING)
            else:
                why.append(None)
                lines += [
                    f"create {_part(slot).prefix}{name} {old}" for name, old in hidden.items()
                ]
        _update(batch[0], lines)
        return why

    def discard(self, batch: Sequence[Slot]) -> int:
        """Delete the hidden references. Their objects go with the next gc of the repository, which
        is up to its owner."""
        if _part(batch[0]).repository.is_dir():
            _update(
                batch[0],
                [f"delete {_trash(slot)}{name}" for slot in batch for name in _hidden(slot)],
            )
        return 0


def _part(slot: Slot) -> RefPart:
    if not isinstance(slot.part, RefPart):
        raise TypeError(slot.part)
    return slot.part


def _sight(slot: Slot, every: Mapping[str, str]) -> Sight:
    here, hidden = _below(every, _part(slot).prefix), _below(every, _trash(slot))
    return Sight(
        here=bool(here),
        stamp=_stamp(here),
        copied=bool(hidden),
        spoiled=bool(hidden and slot.stamp) and _stamp(hidden) != slot.stamp,
    )


def _trash(slot: Slot) -> str:
    """The folder is part of the name: two homes may have parts in one repository."""
    return f"{_TRASH}{digest(str(slot.folder))}/{slot.name}/"


def _here(slot: Slot) -> Mapping[str, str]:
    return _refs(_part(slot).repository, _part(slot).prefix)


def _hidden(slot: Slot) -> Mapping[str, str]:
    return _refs(_part(slot).repository, _trash(slot))


def _stamp(refs: Mapping[str, str]) -> str:
    return digest(sorted(refs.items())) if refs else ""


def _refs(repository: Path, prefix: str) -> Mapping[str, str]:
    """Return the references below a prefix, keyed by the rest of their names."""
    return _below(_refs_below(repository, (prefix,)), prefix)


def _below(every: Mapping[str, str], prefix: str) -> Mapping[str, str]:
    return {
        name.removeprefix(prefix): target
        for name, target in every.items()
        if name.startswith(prefix)
    }


def _refs_below(repository: Path, prefixes: Sequence[str]) -> Mapping[str, str]:
    said = _git(repository).run("for-each-ref", "--format=%(objectname) %(refname)", *prefixes)
    pairs = (line.split(" ", 1) for line in said.output.decode().splitlines())
    return {name: target for target, name in pairs}


def _common(prefixes: Sequence[str]) -> str:
    """Return the longest common folder of some references."""
    return f"{commonpath(prefixes)}/"


def _update(slot: Slot, lines: Sequence[str]) -> None:
    if lines:
        text = "".join(f"{line}\n" for line in lines)
        _git(_part(slot).repository).run("update-ref", "--stdin", stdin=text.encode())


def _git(repository: Path) -> Git:
    """Not private: the repository is the user's, so new files get the user's usual permissions."""
    return Git(store=repository, private=False)
