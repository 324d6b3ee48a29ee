"""Chains of checkpoints: each is a commit whose parent is the checkpoint before.

A chain ends where git's file `shallow` says so: git, and therefore Hermes, treats a commit listed
there as having no parent. So the oldest checkpoints of a project can be removed while the others
keep their ids, and while Hermes takes the next one: the reference that Hermes moves is not touched.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from holdfast.errors import BusyError, DamageError
from holdfast.homes.hermes.repository.layout import HermesLayout, tips_of
from holdfast.homes.hermes.repository.locks import GitLock
from holdfast.stores.checkpoints.checkpoint_commit import Ref, all_refs
from holdfast.stores.files import read_file, storage_errors
from holdfast.stores.git.object import Kind
from holdfast.stores.git.object_files import LooseObjects
from holdfast.stores.git.objects import Objects
from holdfast.stores.git.trees import Trees, is_id, parse_commit, with_parent
from holdfast.value import dataclass, field

_CUTS = "shallow"
_PAUSE = 0.05
_TRIES = 100
_USUAL_FILE = 0o644

_TIME_DIGITS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One commit of a chain. `parent` is "" for the first; `time` is the author's time, which
    Hermes shows; `raw` is the content of the commit."""

    id: str
    parent: str
    tree: str
    time: float
    reason: str
    raw: bytes


def read_link(trees: Trees, commit: str) -> Link:
    """Read a commit; raises `DamageError` if it is missing, damaged or not written by Hermes."""
    return parse_link(commit, trees.raw(bytes.fromhex(commit), Kind.COMMIT))


def parse_link(commit: str, raw: bytes) -> Link:
    """Parse a commit; raises `DamageError` if Hermes did not write it."""
    found = parse_commit(commit, raw)
    if found.authored is None:
        raise DamageError(f"The commit {commit} is not a checkpoint: it has no time.")
    return Link(
        id=commit,
        parent=found.parents[0] if found.parents else "",
        tree=found.tree,
        time=found.authored,
        reason=found.message.strip().partition("\n")[0],
        raw=raw,
    )


def write_after(trees: Trees, link: Link, parent: str) -> Link:
    """The same checkpoint with another parent, or none if `parent` is "". Only its id changes.

    The same parent gives the same commit, so restoring a checkpoint restores the old ids.
    """
    text = with_parent(link.id, link.raw, parent)
    return read_link(trees, trees.put(Kind.COMMIT, text).hex())


def walk(trees: Trees, tip: str, cuts: Collection[str]) -> tuple[Link, ...]:
    """A chain, newest first, to its end or to where it was cut.

    A commit that cannot be read ends it: `verify` reports the commit, and the newer ones stay
    usable.
    """
    found: list[Link] = []
    seen: set[str] = set()
    while tip and tip not in seen:
        seen.add(tip)
        try:
            link = read_link(trees, tip)
        except DamageError:
            break
        found.append(link)
        tip = "" if link.id in cuts else link.parent
    return tuple(found)


def read_cuts(store: Path) -> frozenset[str]:
    """The commits that git treats as having no parent."""
    try:
        text = read_file(store / _CUTS).decode("ascii", "replace")
    except FileNotFoundError:
        return frozenset()
    return frozenset(line for line in text.split() if is_id(line))


def write_cuts(store: Path, cuts: Collection[str]) -> None:
    """Replace the whole file atomically, under git's own lock."""
    if frozenset(cuts) == read_cuts(store):
        return
    path = store / _CUTS
    data = "".join(f"{cut}\n" for cut in sorted(cuts)).encode("ascii")
    lock = GitLock(path)
    with storage_errors(f"write {path}"):
        for _ in range(_TRIES):
            with lock.holding(data, _USUAL_FILE) as held:
                if held:
                    # git trusts its commit graph more than this file.
                    forget_graph(store)
                    if cuts:
                        lock.commit()
                    else:
                        path.unlink(missing_ok=True)
                    return
            time.sleep(_PAUSE)
    raise BusyError(f"git has locked {path}.", hint="Wait until it has finished, then try again.")


def forget_graph(store: Path) -> None:
    """Remove git's commit graph, which must not name commits that are gone. `git gc` recreates
    it."""
    info = store / "objects" / "info"
    (info / "commit-graph").unlink(missing_ok=True)
    shutil.rmtree(info / "commit-graphs", ignore_errors=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chains:
    """The chains of all projects. `tips` are the newest checkpoints by project; `trash` are
    references that Holdfast made."""

    layout: HermesLayout
    trees: Trees
    cuts: frozenset[str]
    tips: Mapping[str, str]
    trash: tuple[Ref, ...]
    _walked: dict[str, tuple[Link, ...]] = field(default_factory=dict)

    @classmethod
    def look(cls, layout: HermesLayout) -> Chains:
        # References first: a cut made after that only shortens a chain.
        tips, objects = dict(tips_of(layout)), layout.store / "objects"
        return cls(
            layout=layout,
            trees=Trees(Objects(objects), LooseObjects(objects)),
            cuts=read_cuts(layout.store),
            tips=tips,
            trash=tuple(ref for ref in all_refs(layout) if ref.operation),
        )

    def of(self, project: str) -> tuple[Link, ...]:
        """The checkpoints of a project, newest first."""
        if project not in self._walked:
            self._walked[project] = walk(self.trees, self.tips.get(project, ""), self.cuts)
        return self._walked[project]

    def all(self) -> Iterator[tuple[str, Link]]:
        for project in self.tips:
            for link in self.of(project):
                yield project, link

    def refs(self) -> Iterator[Ref]:
        """Every checkpoint, shown or in the trash, as a reference; most exist only in a chain."""
        for project, link in self.all():
            yield ref_of(project, link)
        yield from self.trash


def ref_of(project: str, link: Link) -> Ref:
    return Ref(checkpoint=link.id, project=project, name=f"{int(link.time):0{_TIME_DIGITS}d}")


def placed(
    chain: Iterable[Link], returning: Iterable[Link], followed: Mapping[str, str]
) -> list[Link]:
    """A chain, oldest first, with checkpoints returned to their old places.

    Each goes next to its former successor or predecessor; if neither exists, by its time.
    """
    order = list(chain)
    waiting = list(returning)
    while waiting:
        link = next((each for each in waiting if _place(order, each, followed) is not None), None)
        if link is None:
            link = min(waiting, key=lambda each: each.time)
            place = sum(each.time <= link.time for each in order)
        else:
            found = _place(order, link, followed)
            place = len(order) if found is None else found
        waiting.remove(link)
        order.insert(place, link)
    return order


def _place(order: list[Link], link: Link, followed: Mapping[str, str]) -> int | None:
    for number, each in enumerate(order):
        if link.id in (each.parent, followed.get(each.id)):
            return number
        if link.parent and each.id == link.parent:
            return number + 1
    return None
