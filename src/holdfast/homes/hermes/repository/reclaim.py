"""Free the space of unneeded objects while Hermes may be writing.

Hermes writes objects first and their reference last, and takes no lock. So an object that was
written or touched in the last minutes counts as needed, with everything that it refers to, and so
does everything in an index. Hermes kills a slow git, so anything it is about to refer to is younger
than that. Folders are never removed: git does that, and makes concurrent writers fail.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator, Sequence

from holdfast.errors import DamageError, GitFailedError
from holdfast.homes.hermes.repository.chains import forget_graph
from holdfast.homes.hermes.repository.layout import (
    HermesLayout,
    check_readable,
    forget_indexes,
    tips_of,
)
from holdfast.homes.hermes.repository.locks import changing
from holdfast.homes.hermes.repository.quarantine import (
    PackFile,
    Quarantine,
    abandoned_files,
    pack_files,
)
from holdfast.homes.hermes.repository.rebuild import cut_off_what_is_gone
from holdfast.stores.checkpoints.pack_objects import free_bytes, pack_objects
from holdfast.stores.checkpoints.reclaim import Reclaimed
from holdfast.stores.files import allocated_below, storage_errors
from holdfast.stores.git.index_file import index_objects
from holdfast.stores.git.object import Kind
from holdfast.stores.git.object_files import Loose, object_files
from holdfast.stores.git.objects import Objects
from holdfast.stores.git.trees import TREE_ENTRY, parse_commit
from holdfast.value import dataclass

_GITLINK = b"160000"

#: Hermes may be about to refer to an object touched within this many seconds.
GRACE = 600.0

#: Packs are rewritten from this many unneeded bytes, loose objects, or packs.
_LEAST_UNNEEDED = 16 * 1024
_MANY_LOOSE = 256
_MANY_PACKS = 8
_NO_ROOM = "not enough disk space to repack; only loose objects were removed"
_WAITING = "Hermes used the store in the last ten minutes; a later run frees the rest"
_CAME_BETWEEN = "Hermes took a checkpoint at the same time; the next run frees the space"


def held(layout: HermesLayout) -> set[bytes]:
    """Everything reachable from references and indexes. Raises `GitFailedError` if part of that is
    missing: nothing is removed from a damaged store."""
    arguments = ("rev-list", "--objects", "--no-object-names", "--all", "--reflog")
    said = layout.git().run(*arguments)
    found = {bytes.fromhex(line.decode("ascii")) for line in said.output.split()}
    found.update(indexed(layout))
    return found


def closure(layout: HermesLayout, starts: Iterable[bytes], known: Collection[bytes]) -> set[bytes]:
    """Everything reachable from these objects, including themselves, without `known`. Missing
    objects are left out: their writer has not got that far, or was killed."""
    return {oid for oid, is_there in _walk(layout, starts, known) if is_there}


def missing_below(layout: HermesLayout, starts: Iterable[bytes], known: Collection[bytes]) -> bool:
    """True if an object reachable from these is missing."""
    return any(not is_there for _, is_there in _walk(layout, starts, known))


def _walk(
    layout: HermesLayout, starts: Iterable[bytes], known: Collection[bytes]
) -> Iterator[tuple[bytes, bool]]:
    """Each object reachable from these, and whether it can be read."""
    objects = Objects(layout.store / "objects")
    met: set[bytes] = set()
    waiting = list(starts)
    while waiting:
        oid = waiting.pop()
        if oid in met or oid in known:
            continue
        met.add(oid)
        try:
            kind, data = objects.read(oid)
        except DamageError:
            yield oid, False
            continue
        yield oid, True
        waiting.extend(_below(kind, data))


def _below(kind: Kind, data: bytes) -> Iterator[bytes]:
    """The tree of a commit, or the entries of a tree. Parents are kept by references, or cut
    off."""
    if kind == Kind.COMMIT:
        with contextlib.suppress(DamageError):
            yield bytes.fromhex(parse_commit("", data).tree)
    elif kind == Kind.TREE:
        for mode, _, oid in TREE_ENTRY.findall(data):
            if mode != _GITLINK:
                yield oid


def indexed(layout: HermesLayout) -> Iterator[bytes]:
    """Everything that an index names. A nested repository is a commit that is not in this store."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for path in layout.indexes.iterdir():
            # Hermes rebuilds an index that is damaged or being replaced.
            with contextlib.suppress(DamageError, OSError):
                yield from index_objects(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Survey:
    """The object files, and which objects are needed. A file touched after `young` stays; `waiting`
    is true if objects are needed only for that reason."""

    loose: dict[bytes, Loose]
    packs: Sequence[PackFile]
    in_packs: dict[str, set[bytes]]
    needed: set[bytes]
    young: float
    waiting: bool

    @property
    def unneeded(self) -> set[bytes]:
        """Unneeded objects in packs."""
        return set().union(*self.in_packs.values()) - self.needed

    def going(self) -> list[Loose]:
        return [
            file
            for oid, file in self.loose.items()
            if oid not in self.needed and file.touched <= self.young
        ]


def reclaim(layout: HermesLayout, *, now: float, holder: str, thorough: bool = False) -> Reclaimed:
    """Remove what is unneeded and was not touched recently; the freed bytes are measured on disk.

    With `thorough`, packs are rewritten whenever that can free anything.
    """
    before = allocated_below(layout.folder)
    with changing(layout, holder=holder):
        leaving = Quarantine.empty(layout.store)
        try:
            note = _reclaim(layout, leaving, now, thorough=thorough)
        except BaseException:
            leaving.bring_back_all()
            raise
        leaving.remove()
    return Reclaimed(freed=max(0, before - allocated_below(layout.folder)), note=note)


def _reclaim(layout: HermesLayout, leaving: Quarantine, now: float, *, thorough: bool) -> str:
    check_readable(layout)
    cut_off_what_is_gone(layout)
    with storage_errors(f"clear {layout.store}"):
        for path in abandoned_files(layout.store, before=now - GRACE):
            path.unlink(missing_ok=True)
    forget_indexes(layout, dict(tips_of(layout)), before=now - GRACE)
    seen = _look(layout, now - GRACE)
    packed, note = _pack_again(layout, seen, thorough=thorough)
    note = note or (_WAITING if seen.waiting else "")
    with storage_errors(f"give back space of {layout.store}"):
        forget_graph(layout.store)
        # From here on Hermes either touches a file, which shows, or writes it again.
        for file in seen.going():
            leaving.move_loose(file)
        for pack in packed.leaving:
            leaving.move_pack(pack)
        if _is_missed(layout, seen):
            leaving.bring_back_all()
            return _CAME_BETWEEN
        if leaving.bring_back_touched():
            note = note or _CAME_BETWEEN
        for oid in seen.loose.keys() & packed.objects:
            seen.loose[oid].path.unlink(missing_ok=True)
    return note


def _look(layout: HermesLayout, young: float) -> _Survey:
    objects = layout.store / "objects"
    files = object_files(objects)
    loose, packs = files.loose, pack_files(files.packs)
    known = held(layout)
    fresh = (oid for oid, file in loose.items() if file.touched > young)
    waiting = closure(layout, fresh, known)
    git = layout.git()
    return _Survey(
        loose=loose,
        packs=packs,
        in_packs={str(pack.stem): pack.objects(git) for pack in packs},
        needed=known | waiting,
        young=young,
        waiting=bool(waiting),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Packed:
    """`objects` are in packs that stay; `leaving` are packs whose needed objects are all in
    those."""

    objects: Collection[bytes] = ()
    leaving: Sequence[PackFile] = ()


def _pack_again(layout: HermesLayout, seen: _Survey, *, thorough: bool) -> tuple[_Packed, str]:
    """Repack what is needed, and what is too young to be removed."""
    if not _is_worth(layout, seen, thorough=thorough):
        return _Packed(), ""
    loose = sum(file.size for file in seen.loose.values())
    if free_bytes(layout) < sum(pack.size for pack in seen.packs) + loose:
        return _Packed(), _NO_ROOM
    # All objects of a pack share its mtime: if it was touched recently, all of them stay.
    spared: set[bytes] = set()
    for pack in seen.packs:
        if pack.touched > seen.young:
            spared |= seen.in_packs[str(pack.stem)] - seen.needed
    try:
        made = _make_packs(layout, seen, spared)
    except GitFailedError as error:
        if not error.disk_full:
            raise
        return _Packed(), _NO_ROOM
    new = {str(pack.stem): pack.objects(layout.git()) for pack in made}
    for pack in made:
        _date(pack, seen, new[str(pack.stem)])
    old = [pack for pack in seen.packs if str(pack.stem) not in new and not pack.is_kept]
    there = set().union(*new.values())
    _check(layout, seen, old, there | spared)
    with storage_errors(f"clear {layout.store}"):
        # It would name packs that are gone; git can do without it.
        (layout.store / "objects" / "pack" / "multi-pack-index").unlink(missing_ok=True)
    return _Packed(objects=there, leaving=old), _WAITING if spared else ""


def _is_worth(layout: HermesLayout, seen: _Survey, *, thorough: bool) -> bool:
    if len(seen.loose) >= _MANY_LOOSE or len(seen.packs) >= _MANY_PACKS:
        return True
    unneeded = seen.unneeded
    if thorough:
        return bool(seen.loose or unneeded)
    text = "".join(f"{oid.hex()}\n" for oid in unneeded).encode("ascii")
    said = layout.git().run("cat-file", "--batch-check=%(objectsize:disk)", stdin=text)
    sizes = (int(line) for line in said.output.split() if line.isdigit())
    return sum(sizes) >= _LEAST_UNNEEDED


def _make_packs(layout: HermesLayout, seen: _Survey, spared: set[bytes]) -> list[PackFile]:
    """Make one pack of everything that references reach, with good deltas, and one of the rest."""
    first = pack_objects(layout, "--all", "--reflog", "--non-empty", anew=False)
    have = set().union(*(pack.objects(layout.git()) for pack in pack_files([first])))
    in_packs = set().union(*seen.in_packs.values())
    rest = ((seen.needed & in_packs) | spared) - have
    second = pack_objects(layout, anew=False, oids=sorted(rest)) if rest else None
    return pack_files([first, second])


def _date(pack: PackFile, seen: _Survey, objects: Collection[bytes]) -> None:
    """Give a new pack the mtime of the newest file that it was made from. Otherwise its objects
    would count as just written when they are dropped."""
    times = [file.touched for oid, file in seen.loose.items() if oid in objects]
    times += [
        each.touched
        for each in seen.packs
        if each.stem != pack.stem and not seen.in_packs[str(each.stem)].isdisjoint(objects)
    ]
    if times:
        with storage_errors(f"date {pack.stem}"):
            os.utime(pack.stem.with_suffix(".pack"), (max(times), max(times)))


def _check(
    layout: HermesLayout, seen: _Survey, old: Sequence[PackFile], there: Collection[bytes]
) -> None:
    """Before a pack is removed, all its needed objects must be in a pack that stays."""
    for pack in old:
        lost = (seen.in_packs[str(pack.stem)] & seen.needed) - set(there) - seen.loose.keys()
        if lost:
            raise DamageError(
                f"A new pack of {layout.store} lacks {len(lost):,} objects; nothing was removed.",
                hint="Run `holdfast checkpoints verify`.",
            )


def _is_missed(layout: HermesLayout, seen: _Survey) -> bool:
    """True if an object that appeared since the survey refers to one that was moved aside."""
    now = object_files(layout.store / "objects").loose
    came = [*(now.keys() - seen.loose.keys()), *indexed(layout)]
    return missing_below(layout, came, seen.needed)
