"""Bring checkpoints of other machines from a remote into the store.

Nothing from a remote is trusted: git checks every object, and a checkpoint with a path that leads
out of its directory, or that Holdfast did not write, is left there and reported.

Write-order rule: objects are received into a separate repository, then moved into the store, and
the references come last. A kill leaves a pack that nothing refers to, which maintenance removes.
"""

from __future__ import annotations

import contextlib
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from holdfast.errors import DamageError
from holdfast.model.checkpoint import Checkpoint
from holdfast.model.remote import Fetch, Unusable
from holdfast.model.text import format_bytes
from holdfast.stores.checkpoints import projects, remotes
from holdfast.stores.checkpoints.checkpoint_commit import (
    all_refs,
    order_of,
    read_checkpoint,
    write_checkpoint,
)
from holdfast.stores.checkpoints.content import content_of
from holdfast.stores.checkpoints.default_excludes import digest_of
from holdfast.stores.checkpoints.remotes import KnownRemote, ThereRef, rules_there, there
from holdfast.stores.checkpoints.repository import (
    INCOMING,
    REFS,
    Layout,
    elsewhere,
    opened,
    project_lock,
    project_of,
    used,
)
from holdfast.stores.checkpoints.size_cap import NoRoomError, most_for_takes, store_bytes, weigh
from holdfast.stores.files import (
    PRIVATE_DIR,
    allocated_below,
    storage_errors,
    sync_dir,
)
from holdfast.stores.files import replace as write
from holdfast.stores.git.object import Kind
from holdfast.stores.git.objects import Objects
from holdfast.stores.git.pack_writer import Pack
from holdfast.stores.git.program import EXCLUDES
from holdfast.stores.git.refs import RefUpdate, each_ref, update_refs
from holdfast.stores.git.remote import BadObjectError, RemoteGit
from holdfast.stores.git.trees import TREE, Trees, path_text, read_commit
from holdfast.value import replace

_MILLISECONDS = 1000
_RULES = "refs/rules/"
_NEVER = (b"", b".", b"..")


class Fetcher:
    """Fetches from one remote. `machine` is the name of this store: its own are skipped."""

    def __init__(
        self, layout: Layout, git: RemoteGit, known: KnownRemote, *, machine: str, limit: int | None
    ) -> None:
        self._layout = layout
        self._git = git
        self._known = known
        self._machine = machine
        self._limit = limit
        self._refs: Mapping[str, str] = {}

    def waiting(
        self,
        machines: Collection[str] = (),
        projects: Collection[str] = (),
        *,
        again: bool = False,
    ) -> tuple[Sequence[ThereRef], int]:
        """Return checkpoints on the remote that were never here, and how many of the others there
        are. With `again`, include those that were fetched before and removed here."""
        self._refs = self._git.refs()
        others = [
            each
            for each in there(self._refs)
            if each.machine != self._machine
            and (not machines or each.machine in machines)
            and (not projects or each.project in projects)
        ]
        with used(self._layout):
            held = {(ref.project, ref.name) for ref in all_refs(self._layout)}
        seen = frozenset() if again else self._known.fetched
        new = [
            each
            for each in others
            if each.path not in seen
            and (elsewhere(each.project, each.machine), each.name) not in held
        ]
        return new, len(others) - len(new)

    def foresee(self, new: Sequence[ThereRef], known: int) -> Fetch:
        counts = Counter((each.machine, each.project) for each in new)
        waiting = tuple((*key, count) for key, count in sorted(counts.items()))
        return Fetch(remote=self._known.told(), known=known, waiting=waiting)

    def fetch(self, new: Sequence[ThereRef], known: int, *, now: float) -> Fetch:
        if not new:
            return Fetch(remote=self._known.told(), known=known)
        with _receiving(self._layout, self._git) as incoming:
            wanted = {_here(each): each.path for each in new}
            for machine in {each.machine for each in new}:
                for digest, path in rules_there(self._refs, machine).items():
                    wanted[f"{_RULES}{machine}/{digest}"] = path
            # Checked during the transfer: a large remote must not fill the disk.
            refused = _received(incoming, wanted, lambda: self._check_room(incoming.folder))
            trees = Trees(Objects(incoming.folder / "objects"))
            good, bad = _judged(trees, [each for each in new if each.path not in refused])
            bad += [Unusable(ref=path, why=why) for path, why in sorted(refused.items())]
            self._check_room(incoming.folder)
            with used(self._layout):
                self._keep_rules(incoming, trees)
                _move_packs(incoming.folder, self._layout)
                self._keep(good, now)
        weigh(self._layout)
        seen = self._known.fetched.intersection(self._refs) | {each.path for each, _ in good}
        self._known = remotes.save(self._layout, replace(self._known, fetched=seen))
        found = [
            replace(read, project=elsewhere(each.project, each.machine), machine=each.machine)
            for each, read in good
        ]
        found.sort(key=lambda each: -each.time)
        return Fetch(
            remote=self._known.told(), fetched=tuple(found), known=known, unusable=tuple(bad)
        )

    def _check_room(self, folder: Path) -> None:
        if self._limit is None:
            return
        size, held = allocated_below(folder / "objects"), store_bytes(self._layout)
        if held + size > most_for_takes(self._limit):
            raise NoRoomError(
                f"What was fetched takes {format_bytes(size)} and does not fit: the checkpoint"
                f" store has {format_bytes(held)} of {format_bytes(self._limit)}. Nothing"
                " was kept.",
                hint="Fetch one machine with --machine, run `holdfast checkpoints prune`, or raise"
                " checkpoints.max_total_size_mb.",
            )

    def _keep_rules(self, incoming: RemoteGit, trees: Trees) -> None:
        """Keep the default excludes under which these checkpoints were taken. Only a text whose
        digest is its name counts."""
        for name, oid in each_ref(incoming.local(), _RULES):
            digest = name.rpartition("/")[2]
            with contextlib.suppress(DamageError):
                tree = bytes.fromhex(read_commit(trees, oid).tree)
                node = trees.entries(tree).get(EXCLUDES.encode())
                text = b"" if node is None else trees.raw(node[1], Kind.BLOB)
                place = self._layout.rules(digest)
                if digest_of(text) == digest and not place.exists():
                    with storage_errors(f"write {place}"):
                        place.parent.mkdir(mode=PRIVATE_DIR, exist_ok=True)
                        write(place, text)

    def _keep(self, good: Sequence[tuple[ThereRef, Checkpoint]], now: float) -> None:
        newest: dict[str, Checkpoint] = {}
        for each, read in good:
            newest[elsewhere(each.project, each.machine)] = read
        for project, read in newest.items():
            record = projects.read_record(self._layout, project)
            if record is None:
                record = projects.ProjectRecord(
                    project=project, workdir=read.workdir, created_at=now, last_touch=now
                )
            projects.write_record(self._layout, replace(record, last_touch=now))
        # The references last: they turn the objects into checkpoints.
        update_refs(
            self._layout.git(),
            [RefUpdate(name=_here(each), new=each.oid) for each, _ in good],
        )


@contextlib.contextmanager
def _receiving(layout: Layout, git: RemoteGit) -> Iterator[RemoteGit]:
    """Create an empty repository. What it receives is complete in itself, no matter what is removed
    from the store meanwhile."""
    incoming = replace(git, folder=layout.store / INCOMING)
    with storage_errors(f"clear {incoming.folder}"):
        shutil.rmtree(incoming.folder, ignore_errors=True)
    try:
        incoming.create()
        yield incoming
    finally:
        shutil.rmtree(incoming.folder, ignore_errors=True)


def _received(
    incoming: RemoteGit, wanted: Mapping[str, str], watch: Callable[[], None]
) -> Mapping[str, str]:
    """Receive references; `wanted` maps local names to remote ones. Returns those with an object
    that git refuses, by remote name, with the error. A fetch is all or nothing, so it is bisected
    until only the refused ones are left."""
    try:
        incoming.fetch(wanted, watch)
    except BadObjectError as error:
        names = sorted(wanted)
        if len(names) == 1:
            return {wanted[names[0]]: error.message}
        half = len(names) // 2
        refused: dict[str, str] = {}
        for some in (names[:half], names[half:]):
            refused |= _received(incoming, {name: wanted[name] for name in some}, watch)
        return refused
    return {}


def _here(each: ThereRef) -> str:
    return f"{REFS}{elsewhere(each.project, each.machine)}/{each.name}"


def _judged(
    trees: Trees, new: Sequence[ThereRef]
) -> tuple[list[tuple[ThereRef, Checkpoint]], list[Unusable]]:
    good, bad, seen = [], [], set[bytes]()
    for each in sorted(new, key=lambda each: each.name):
        try:
            read = read_checkpoint(trees, each.oid)
            _check_project(read, each)
            _check_tree(trees, bytes.fromhex(read.tree), seen)
        except DamageError as error:
            bad.append(Unusable(ref=each.path, why=error.message))
        else:
            good.append((each, read))
    return good, bad


def _check_project(read: Checkpoint, each: ThereRef) -> None:
    if read.project != each.project or project_of(Path(read.workdir)) != each.project:
        raise DamageError("Its name and its content belong to different projects.")


def _check_tree(trees: Trees, root: bytes, seen: set[bytes]) -> None:
    """Raise for a path that leads out of the directory, or into a nested repository."""
    content = content_of(trees, root)
    for path in (*content.record.modes, *content.record.empty):
        if any(_is_bad(name) for name in path.split(b"/")):
            raise DamageError(f"It contains a path that is not allowed: {path_text(path)!r}.")
    waiting = [content.files]
    while waiting:
        tree = waiting.pop()
        if tree in seen:
            continue
        for name, (mode, oid) in trees.entries(tree).items():
            if _is_bad(name):
                raise DamageError(f"It contains a name that is not allowed: {path_text(name)!r}.")
            if mode == TREE:
                waiting.append(oid)
        seen.add(tree)


def _is_bad(name: bytes) -> bool:
    return name in _NEVER or b"/" in name or name.lower() == b".git"


def _move_packs(folder: Path, layout: Layout) -> None:
    """Move the received packs into the store. git sees a pack once its index is there."""
    packs = sorted((folder / "objects" / "pack").glob("pack-*.pack"))
    with storage_errors(f"move packs to {layout.packs}"):
        for pack in packs:
            for suffix in (".pack", ".idx"):
                pack.with_suffix(suffix).replace((layout.packs / pack.name).with_suffix(suffix))
        sync_dir(layout.packs)


def bring_here(layout: Layout, found: Checkpoint, workdir: Path) -> Checkpoint:
    """Copy a checkpoint of another machine into a project here. Content, time and reason stay; it
    gets a new id. Safe to repeat."""
    project = project_of(workdir)
    here = replace(
        found,
        project=project,
        workdir=str(workdir),
        name=None,
        pinned=False,
        machine="",
        origin=f"{found.machine}:{found.known_id}:{found.tree}",
    )
    with (
        used(layout),
        project_lock(layout, project, str(workdir)),
        Pack(layout.packs, (objects := opened(layout)).stored) as new,
    ):
        return write_checkpoint(layout, Trees(objects, new), new, here, _order(layout, found))


def _order(layout: Layout, found: Checkpoint) -> int:
    """Return its position: when it was taken, by the other machine's clock."""
    for name, oid in each_ref(layout.git(), f"{REFS}{found.project}/"):
        if oid == found.id:
            return order_of(name)
    return round(found.time * _MILLISECONDS)
