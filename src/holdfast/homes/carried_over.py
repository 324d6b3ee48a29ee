"""What the vault has of a session and its agent has no more, or only less of, goes along into the
next folder of that session."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count
from pathlib import Path

from holdfast.homes.makes_up import goes_on, part_makes_up, says_nothing
from holdfast.homes.second_names import is_passing, name_again
from holdfast.parts.trees import below, is_folder, remove_tree


def carry_over(earlier: Path, target: Path, *, but: Path | None = None) -> bool:
    """Give what is below `earlier`, and missing below `target`, a second name there; where it is
    less there, one beside it. `but` is left alone. False when `earlier` itself is more than
    `target`: then it needs a place beside that."""
    if target == but or earlier.is_symlink():
        return True
    if target.is_symlink():
        return _put_for_link(earlier, target)
    if is_folder(earlier) != is_folder(target):
        return is_folder(earlier) and all(map(is_folder, below(earlier)))
    if not is_folder(earlier):
        return _replaced(earlier, target)
    _carry_inside(earlier, target, but)
    return True


def _carry_inside(earlier: Path, target: Path, but: Path | None) -> None:
    with os.scandir(earlier) as entries:
        inner = sorted(each.name for each in entries)
    less = []
    for name in inner:
        mine, theirs = earlier / name, target / name
        if not os.path.lexists(theirs):
            if not is_passing(mine):
                name_again(mine, theirs)
        elif not carry_over(mine, theirs, but=but):
            less.append(mine)
    for mine in less:
        beside = place_beside(target / mine.name, mine, lambda path: path)
        if beside is not None:
            name_again(mine, beside)


def _put_for_link(earlier: Path, target: Path) -> bool:
    """Nothing reads the link: what it leads to is not the session's, and makes up for nothing."""
    if not is_passing(earlier):
        target.unlink()
        name_again(earlier, target)
    return True


def _replaced(earlier: Path, target: Path) -> bool:
    if part_makes_up(earlier, target):
        return True
    if not says_nothing(target):
        return False
    remove_tree(target)
    name_again(earlier, target)
    return True


def place_beside(place: Path, kept: Path, held: Callable[[Path], Path | None]) -> Path | None:
    """The first free name beside a place, for what the vault `kept` of it; None where one of these
    names has that already. `held` says where something lies that has a name."""
    for number in count(1):
        beside = place.with_name(f"earlier-{number}-{place.name}")
        there = held(beside)
        if there is None or not os.path.lexists(there):
            return beside
        are_files = not (there.is_symlink() or is_folder(there) or is_folder(kept))
        if are_files and goes_on(kept, there):
            return None
    return None
