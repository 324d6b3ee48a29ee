"""Send checkpoints to a remote.

A checkpoint is a commit without parents, so git alone would send the whole project with each of
them: it looks for what the remote has only among the parents. With a reachability bitmap git
computes the exact difference, and it uses the bitmap as soon as a commit in it is on the remote. So
the ignore rules, which a restore elsewhere needs, are sent as small separate commits, and the small
repository that pushes has a bitmap of these.

No other process waits for the network: the store is locked only while it is being read.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from holdfast.errors import DamageError, GitFailedError, UsageError
from holdfast.model.checkpoint import Checkpoint, NotCaptured
from holdfast.model.remote import Outgoing, Push
from holdfast.model.text import format_bytes
from holdfast.stores import lock
from holdfast.stores.checkpoints import remotes
from holdfast.stores.checkpoints.checkpoint_commit import (
    Ref,
    all_refs,
    commit_bytes,
    plain_commit,
    read_checkpoint,
    shown_refs,
)
from holdfast.stores.checkpoints.content import FILES, RECORD, content_of
from holdfast.stores.checkpoints.default_excludes import Ignoring, digest_of
from holdfast.stores.checkpoints.finder import checkpoints
from holdfast.stores.checkpoints.remotes import RULES, THERE, KnownRemote, ThereRef, there
from holdfast.stores.checkpoints.repository import (
    OUTGOING,
    REMOTE_LOCK,
    Layout,
    machine_of,
    opened,
    project_lock,
    used,
)
from holdfast.stores.checkpoints.stored_modes import dump_record
from holdfast.stores.files import read_file, storage_errors
from holdfast.stores.git.object import Kind
from holdfast.stores.git.pack_writer import Pack
from holdfast.stores.git.program import EXCLUDES, Git
from holdfast.stores.git.remote import MAY_PROMPT, RemoteGit, remotes_of, same_place
from holdfast.stores.git.trees import FILE, TREE, Trees, path_text
from holdfast.value import dataclass, replace

_WAIT = 30.0
_TOO_LARGE = "{size}, larger than what is pushed: the limit is {limit}"
_IGNORED = "it is ignored now"
_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """A checkpoint to push, and its reference in the store."""

    ref: Ref
    checkpoint: Checkpoint


def chosen(
    layout: Layout, projects: Collection[str] | None = None, session: str | None = None
) -> list[Chosen]:
    """Return the checkpoints of these projects of this machine, or of all; with `session`, only
    those that belong to it."""
    with used(layout):
        found = {each.id: each for each in checkpoints(layout)}
        return [
            Chosen(ref=ref, checkpoint=checkpoint)
            for ref in shown_refs(layout)
            if not machine_of(ref.project)
            and (projects is None or ref.project in projects)
            and (checkpoint := found.get(ref.checkpoint)) is not None
            and session in (None, checkpoint.session)
        ]


@contextlib.contextmanager
def may_prompt(allowed: bool) -> Iterator[None]:
    """Set whether git may prompt for a password inside this context."""
    token = MAY_PROMPT.set(allowed)
    try:
        yield
    finally:
        MAY_PROMPT.reset(token)


@contextlib.contextmanager
def talking(layout: Layout, known: KnownRemote) -> Iterator[RemoteGit]:
    """Create the small repository through which the store talks to a remote. One process at a time
    can use it; leftovers of a killed one are cleared."""
    folder = layout.store / OUTGOING
    with lock.exclusive(
        layout.folder / REMOTE_LOCK,
        holder="checkpoints push",
        wait=_WAIT,
        doing="talking to a remote from",
        place=layout.folder,
    ):
        git = RemoteGit(folder=folder, address=known.address)
        _clear(folder)
        try:
            git.create([layout.store / "objects"])
            yield git
        finally:
            _clear(folder)


def _clear(folder: Path) -> None:
    with storage_errors(f"clear {folder}"), contextlib.suppress(FileNotFoundError):
        shutil.rmtree(folder)


class Pusher:
    """Pushes to one remote. Created inside `talking`."""

    def __init__(
        self, layout: Layout, git: RemoteGit, known: KnownRemote, machine: str, limit: int | None
    ) -> None:
        self._layout = layout
        self._git = git
        self._known = known
        self._machine = machine
        self._limit = limit
        self._rules = self._rule_commits()

    def plan(self, wanted: Sequence[Chosen]) -> Plan:
        """Return what is not on the remote yet. The remote is always contacted; if nothing seems
        new, only for one line, so that a push with nothing to do costs next to nothing."""
        paths = {self._path(each.ref): each for each in wanted}
        if paths.keys() <= self._known.pushed.keys() and self._is_as_remembered(paths):
            return Plan(new={}, known=len(paths))
        refs = self._git.refs()
        # Commits that are also here count as sent, even if the record of it was lost.
        self._remember(refs, {path: each.checkpoint.id for path, each in paths.items()})
        new = {path: each for path, each in paths.items() if path not in refs}
        return Plan(new=new, known=len(paths) - len(new), refs=refs)

    def gone(
        self, projects: Collection[str] | None
    ) -> tuple[Sequence[ThereRef], Sequence[ThereRef]]:
        """Return two lists for these projects, or all. First: checkpoints that this machine sent
        and no longer has. Second: those under its name that it never sent: anyone who can push to a
        remote can put such references there."""
        with used(self._layout):
            here = {(ref.project, ref.name) for ref in shown_refs(self._layout)}
        refs = self._git.refs()
        self._remember(refs)
        found = [
            each
            for each in sorted(there(refs), key=lambda each: each.path)
            if each.machine == self._machine
            and (projects is None or each.project in projects)
            and (each.project, each.name) not in here
        ]
        sent = self._known.pushed
        return (
            [each for each in found if each.path in sent],
            [each for each in found if each.path not in sent],
        )

    def prepare(self, plan: Plan) -> Sequence[Outgoing]:
        """Return the checkpoints that would be sent, each with its files that would not."""
        return [each.told for each in self._made(plan)]

    def send(self, plan: Plan) -> Push:
        if plan.new:  # before the commits are made: the repack would remove them
            self._write_bitmap()
        made = self._made(plan)
        refs = {each.path: each.oid for each in made}
        if refs:
            rules = {path: oid for path, oid in self._rules.items() if path not in plan.refs}
            # Before the push: if this process is killed, the next one knows what may be there.
            self._known = remotes.save(self._layout, replace(self._known, sending=refs))
            refused = dict(self._git.push(rules | refs))
        else:
            refused = {}
        done = {path: oid for path, oid in refs.items() if path not in refused}
        self._known = remotes.save(
            self._layout, replace(self._known, pushed={**self._known.pushed, **done}, sending={})
        )
        sent = [replace(each.told, refused=refused.get(each.path, "")) for each in made]
        return Push(
            remote=self._known.told(), machine=self._machine, sent=tuple(sent), known=plan.known
        )

    def _path(self, ref: Ref) -> str:
        return f"{THERE}{self._machine}/{ref.project}/{ref.name}"

    def _remember(self, refs: Mapping[str, str], here: Mapping[str, str] = _NOTHING) -> None:
        """Update what is remembered as sent: only what the remote still has, unchanged. `here` are
        references of the store, by their names on the remote."""
        known, start = self._known, f"{THERE}{self._machine}/"
        ours = {*known.pushed.items(), *known.sending.items(), *here.items()}
        there_still = ours.intersection(refs.items())
        mine = {path: oid for path, oid in there_still if path.startswith(start)}
        kept = replace(known, pushed=mine, sending={})
        if kept != known:
            self._known = remotes.save(self._layout, kept)

    def _is_as_remembered(self, paths: Mapping[str, Chosen]) -> bool:
        """Check only the newest checkpoint. Its object must be here, or git would fetch it."""
        pushed = self._known.pushed
        own = [path for path, each in paths.items() if pushed[path] == each.checkpoint.id]
        probe = max(own, default=None) or next(iter(self._rules))
        oid = pushed.get(probe) or self._rules[probe]
        self._git.local().run("update-ref", "refs/probe", oid)
        return self._git.has(probe)

    def _rule_commits(self) -> Mapping[str, str]:
        """Create a commit for each set of default excludes."""
        texts = {EXCLUDES: read_file(self._layout.store / EXCLUDES)}
        with contextlib.suppress(FileNotFoundError):
            for path in (self._layout.store / "rules").iterdir():
                texts[path.name] = read_file(path)
        found = {}
        packs = self._git.folder / "objects" / "pack"
        with Pack(packs, lambda _: False) as new:
            for text in texts.values():
                blob = new.put(Kind.BLOB, text)
                tree = new.put(Kind.TREE, b"%o %b\0%b" % (FILE, EXCLUDES.encode(), blob))
                commit = plain_commit(tree.hex(), 0, "What checkpoints leave out by default.\n")
                oid = new.put(Kind.COMMIT, commit).hex()
                found[f"{THERE}{self._machine}/{RULES}/{digest_of(text)}"] = oid
            new.flush()
        return found

    def _write_bitmap(self) -> None:
        local = self._git.local()
        lines = "".join(f"create {name} {oid}\n" for name, oid in sorted(self._rules.items()))
        local.run("update-ref", "--stdin", stdin=lines.encode("ascii"))
        with contextlib.suppress(GitFailedError):  # without it, more is sent
            local.run("repack", "-a", "-d", "-l", "-b", "-q")

    def _made(self, plan: Plan) -> Sequence[_Made]:
        """Return the commits to send: those of the store, or reduced ones."""
        if plan.made is None:
            packs = self._git.folder / "objects" / "pack"
            with used(self._layout), Pack(packs, (objects := opened(self._layout)).stored) as new:
                trees = Trees(objects, new)
                sieve = Sieve(self._layout, trees, self._limit)
                plan.made = [
                    self._reduced(trees, sieve, path, each)
                    for path, each in sorted(plan.new.items())
                ]
                new.flush()
        return plan.made

    def _reduced(self, trees: Trees, sieve: Sieve, path: str, one: Chosen) -> _Made:
        checkpoint = one.checkpoint
        left = sieve.left(checkpoint)
        if not left:
            return _Made(path=path, oid=checkpoint.id, told=Outgoing(checkpoint=checkpoint))
        content = content_of(trees, bytes.fromhex(checkpoint.tree))
        record = replace(
            content.record,
            modes={path: mode for path, mode in content.record.modes.items() if path not in left},
        )
        files = trees.patched(content.files, dict.fromkeys(left))
        blob = trees.put(Kind.BLOB, dump_record(record))
        root = trees.write({RECORD: (FILE, blob), FILES: (TREE, files)})
        told = tuple(
            NotCaptured(path=path_text(path), reason=why) for path, why in sorted(left.items())
        )
        changed = sieve.changed(one.ref, content.files, left)
        smaller = replace(
            checkpoint,
            tree=root.hex(),
            not_captured=(*checkpoint.not_captured, *told),
            files_changed=max(0, checkpoint.files_changed - changed),
            origin=f"pushed:{checkpoint.id}:{checkpoint.tree}",  # the id that `push` prints
        )
        oid = trees.put(Kind.COMMIT, commit_bytes(smaller)).hex()
        return _Made(path=path, oid=oid, told=Outgoing(checkpoint=checkpoint, left=told))


@dataclass(slots=True, kw_only=True)
class Plan:
    """What a push has to do. `new` and `refs` are keyed by reference names on the remote."""

    new: Mapping[str, Chosen]
    known: int
    refs: Mapping[str, str] = _NOTHING
    made: Sequence[_Made] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    path: str
    oid: str
    told: Outgoing


class Sieve:
    """Determines which files of a checkpoint are not sent: large ones, and those that were captured
    before a rule was written that ignores them. Each file and each path is examined only once."""

    def __init__(self, layout: Layout, trees: Trees, limit: int | None) -> None:
        self._layout = layout
        self._trees = trees
        self._limit = limit
        self._sizes: dict[bytes, int] = {}
        self._ignored: dict[tuple[str, bytes], bool] = {}
        self._refs: Sequence[Ref] | None = None

    def left(self, checkpoint: Checkpoint) -> Mapping[bytes, str]:
        content = content_of(self._trees, bytes.fromhex(checkpoint.tree))
        files = dict(self._trees.files(content.files))
        left = dict.fromkeys(self._now_ignored(checkpoint, sorted(files)), _IGNORED)
        if self._limit is not None:
            self._weigh({node[1] for node in files.values()})
            for path, (_, oid) in files.items():
                size = self._sizes.get(oid, 0)
                if size > self._limit:
                    words = {"size": format_bytes(size), "limit": format_bytes(self._limit)}
                    left[path] = _TOO_LARGE.format(**words)
        return left

    def changed(self, ref: Ref, files: bytes, left: Collection[bytes]) -> int:
        """Count how many of these files the checkpoint counts as changed: those that differ from
        the checkpoint before it, which may be in the trash by now. 0 if that one is damaged."""
        if self._refs is None:
            self._refs = all_refs(self._layout)
        earlier = [
            each for each in self._refs if each.project == ref.project and each.order < ref.order
        ]
        if not earlier:
            return len(left)
        last = max(earlier, key=lambda each: each.order)
        with contextlib.suppress(DamageError):
            before = read_checkpoint(self._trees, last.checkpoint)
            was = content_of(self._trees, bytes.fromhex(before.tree)).files
            return sum(self._trees.at(was, path) != self._trees.at(files, path) for path in left)
        return 0

    def _weigh(self, oids: set[bytes]) -> None:
        new = sorted(oids - self._sizes.keys())
        if not new:
            return
        said = self._layout.git().run(
            "cat-file",
            "--batch-check=%(objectname) %(objectsize)",
            stdin=b"".join(b"%b\n" % oid.hex().encode() for oid in new),
        )
        for line in said.output.splitlines():
            oid, _, size = line.partition(b" ")
            if not size.isdigit():
                raise DamageError(f"{oid.decode('ascii', 'replace')} is missing from the store.")
            self._sizes[bytes.fromhex(oid.decode("ascii"))] = int(size)

    def _now_ignored(self, checkpoint: Checkpoint, paths: Sequence[bytes]) -> Sequence[bytes]:
        workdir, project = Path(checkpoint.workdir), checkpoint.project
        if not workdir.is_dir():
            return ()
        new = [path for path in paths if (project, path) not in self._ignored]
        if new:
            layout = self._layout
            git = Git(store=layout.store, folder=layout.private(project), work_tree=workdir)
            # Maintenance takes what git needs out of the folder of a project that rests; who takes
            # the project's lock finds it there again.
            with (
                used(layout),
                project_lock(layout, project, str(workdir)),
                Ignoring(git) as ignoring,
            ):
                ignored = ignoring.ask(new)
            self._ignored |= {(project, path): path in ignored for path in new}
        return [path for path in paths if self._ignored[project, path]]


def refuse_own_remote(known: KnownRemote, workdirs: Sequence[str]) -> None:
    """Raise if an address is that of a project's own repository or of one of its remotes: everyone
    there could see what an agent tried, and files that were never committed."""
    for workdir in workdirs:
        place = Path(workdir)
        if not place.is_dir():
            continue
        if any(same_place(known.url, each) for each in remotes_of(place)):
            raise UsageError(
                f"{known.address.shown} is a remote of {workdir} itself; nothing was pushed.",
                hint="Use a repository of its own for checkpoints, or pass --own-remote.",
            )


def refs_there(layout: Layout, name: str) -> Mapping[str, str]:
    """Return every reference on a remote."""
    with talking(layout, remotes.remote(layout, name)) as git:
        return git.refs()


def remove_there(layout: Layout, name: str, refs: Mapping[str, str]) -> Mapping[str, str]:
    """Delete references on a remote that are still at these ids. Return the others, each with the
    reason; "" if it was already gone."""
    known = remotes.remote(layout, name)
    with talking(layout, known) as git:
        found = git.refs()
        refused = dict.fromkeys(refs.keys() - found.keys(), "")
        refused |= git.delete({ref: oid for ref, oid in refs.items() if ref in found})
    kept = {ref: oid for ref, oid in known.pushed.items() if ref not in refs or refused.get(ref)}
    remotes.save(layout, replace(known, pushed=kept))
    return refused
