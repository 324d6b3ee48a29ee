"""The references of Hermes: which there are, and which of them can be read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import DamageError
from holdfast.homes.hermes.repository.layout import REFS, HermesLayout
from holdfast.homes.hermes.repository.records import PROJECT
from holdfast.stores.files import read_file, storage_errors

#: Locks, half-written files, and what file systems and desktops leave.
PASSING = re.compile(r"\..*|.*\.(?:lock|new|tmp)|tmp_.*|.*~|Thumbs\.db")


def tips_of(layout: HermesLayout) -> Iterator[tuple[str, str]]:
    """Each project with its newest checkpoint; those that git cannot read are left out."""
    said = layout.git().run("for-each-ref", "--format=%(objectname) %(refname)", REFS)
    for line in said.output.decode("utf-8", "surrogateescape").splitlines():
        commit, _, ref = line.partition(" ")
        project = ref.removeprefix(REFS)
        if PROJECT.fullmatch(project):
            yield project, commit


def unreadable(layout: HermesLayout) -> list[str]:
    """Projects whose reference is there and leads nowhere."""
    with storage_errors(f"read the references of {layout.store}"):
        there = {name for name in named(layout.store) if PROJECT.fullmatch(name)}
    # Asked afterwards: what Hermes removes meanwhile is in neither, what it adds is no damage.
    lost = there - dict(tips_of(layout)).keys()
    with storage_errors(f"read the references of {layout.store}"):
        return sorted(lost & set(named(layout.store)))


def check_readable(layout: HermesLayout) -> None:
    """Raise `DamageError` when one cannot be read: what it led to would count as unneeded."""
    lost = unreadable(layout)
    if lost:
        raise DamageError(
            f"The reference {REFS}{lost[0]} in {layout.store} cannot be read; nothing is given back"
            " while it is damaged, because what it led to is not known.",
            hint="`holdfast checkpoints verify` names all damage.",
        )


def named(store: Path) -> Iterator[str]:
    """The names below `refs/hermes/`, without asking git: it keeps quiet about those that it cannot
    read, and may not understand the store at all."""
    folder = store / REFS
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        name = str(path.relative_to(folder))
        if not path.is_dir() and not PASSING.fullmatch(path.name):
            yield name
    try:
        lines = read_file(store / "packed-refs").decode("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        name = line.partition(" ")[2]
        if name.startswith(REFS) and not line.startswith("#"):
            yield name.removeprefix(REFS)
