"""A checkpoint in git: a commit without parents whose message holds the details, and a reference.

Dropping a checkpoint only renames its reference, so nothing in it changes, and undo restores it:

refs/holdfast/<project>/<name>                            listed, can be restored
refs/holdfast-trash/<operation>/<n>/<project>/<name>      in the trash
refs/holdfast-trash/rotated/<project>/<name>              made room for a newer checkpoint
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence

from holdfast.errors import DamageError
from holdfast.model.checkpoint import Checkpoint, NotCaptured
from holdfast.model.json_value import NO_RECORD, fields_from_json
from holdfast.stores.checkpoints.repository import REFS, TRASH_REFS, Layout
from holdfast.stores.files import make_private_dir
from holdfast.stores.git.object import Kind
from holdfast.stores.git.pack_writer import Pack
from holdfast.stores.git.refs import (
    NewReference,
    RefUpdate,
    each_ref,
    is_listed,
    listed,
    locked,
    loose_names,
    read_refs,
    small_text,
    unlist,
    update_refs,
)
from holdfast.stores.git.trees import Trees, is_id, read_commit
from holdfast.value import dataclass, replace

TYPE_CHECKING = False  # as in `typing`, which is slow to load
if TYPE_CHECKING:
    from typing import Any

_FORMAT = 1
#: How many digits of its id are in the name of a reference.
NAME_DIGITS = 8
_ORDER_DIGITS = 15
_MILLISECONDS = 1000
_GAP = "\n\n"
_WHO = "Holdfast <checkpoint@holdfast.invalid>"

ROTATED = "rotated"

_ID = 40
_NOTHING = "0" * _ID


def order_after(now: float, last_ref: str) -> int:
    """Return milliseconds, later than the last checkpoint even if the clock was set back."""
    return max(int(now * _MILLISECONDS), order_of(last_ref) + 1)


def order_of(ref: str) -> int:
    digits = ref.rpartition("/")[2].partition("-")[0]
    return int(digits) if digits.isdecimal() else 0


def write_checkpoint(
    layout: Layout, trees: Trees, new: Pack, checkpoint: Checkpoint, order: int
) -> Checkpoint:
    """Write a checkpoint with all new objects; return it with its id.

    Write-order rule: the objects are durable before the reference that makes them a checkpoint.
    """
    commit = trees.put(Kind.COMMIT, commit_bytes(checkpoint)).hex()
    ref = f"{REFS}{checkpoint.project}/{order:0{_ORDER_DIGITS}d}-{commit[:NAME_DIGITS]}"
    with NewReference(layout.store, ref, commit) as reference:
        new.flush([reference.fd])
        reference.publish()
    return replace(checkpoint, id=commit)


def commit_bytes(checkpoint: Checkpoint) -> bytes:
    """Return the commit of a checkpoint. Equal checkpoints produce equal bytes."""
    return plain_commit(checkpoint.tree, checkpoint.time, _message(checkpoint))


def plain_commit(tree: str, time: float, message: str) -> bytes:
    # git has no times before 1970, and treats such a commit as damaged.
    who = f"{_WHO} {max(0, int(time))} +0000"
    return f"tree {tree}\nauthor {who}\ncommitter {who}\n\n{message}".encode()


def _message(checkpoint: Checkpoint) -> str:
    data: dict[str, Any] = {
        "format": _FORMAT,
        "project": checkpoint.project,
        "workdir": checkpoint.workdir,
        "time": checkpoint.time,
        "session": checkpoint.session,
        "turn": checkpoint.turn,
        "files_changed": checkpoint.files_changed,
    }
    if checkpoint.insertions is not None:
        data |= {"insertions": checkpoint.insertions, "deletions": checkpoint.deletions}
    data["not_captured"] = [
        {"path": left.path, "reason": left.reason} for left in checkpoint.not_captured
    ]
    data |= {key: text for key in ("origin", "rules") if (text := getattr(checkpoint, key))}
    reason = checkpoint.reason.encode("utf-8", "replace").decode().replace("\0", "")
    return f"{reason}{_GAP}{json.dumps(data)}\n"


def parse(
    commit: str,
    tree: str,
    message: str,
    *,
    names: Mapping[str, str] | None = None,
    pins: frozenset[str] = frozenset(),
) -> Checkpoint:
    """Parse the checkpoint in a commit; raises `DamageError` if Holdfast did not write it."""
    reason, _, line = message.rstrip("\n").rpartition(_GAP)
    try:
        data = json.loads(line)
        left = tuple(fields_from_json(NotCaptured, each) for each in data["not_captured"])
        return fields_from_json(
            Checkpoint,
            data,
            id=commit,
            reason=reason,
            tree=tree,
            name=(names or {}).get(commit),
            pinned=commit in pins,
            not_captured=left,
        )
    except NO_RECORD as error:
        raise DamageError(
            f"The commit {commit} in the checkpoint store is not a checkpoint."
        ) from error


def read_checkpoint(trees: Trees, commit: str) -> Checkpoint:
    """Raises `DamageError` if there is no such commit, or Holdfast did not write it."""
    found = read_commit(trees, commit)
    return parse(commit, found.tree, found.message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ref:
    """A reference to a checkpoint. `operation` and `number` are set in the trash; for a checkpoint
    that was rotated out, `operation` is `ROTATED`."""

    checkpoint: str
    project: str
    name: str
    operation: str = ""
    number: int = 0

    @property
    def path(self) -> str:
        if not self.operation:
            return f"{REFS}{self.project}/{self.name}"
        place = ROTATED if self.operation == ROTATED else f"{self.operation}/{self.number}"
        return f"{TRASH_REFS}{place}/{self.project}/{self.name}"

    @property
    def order(self) -> int:
        """The time in milliseconds; later checkpoints of a project have higher numbers."""
        return order_of(self.name)

    @property
    def rotated(self) -> bool:
        return self.operation == ROTATED

    def hidden(self, operation: str, number: int = 0) -> Ref:
        return replace(self, operation=operation, number=number)

    def shown(self) -> Ref:
        return replace(self, operation="", number=0)


def all_refs(layout: Layout) -> Sequence[Ref]:
    """Return every readable reference to a checkpoint, the oldest of each project first."""
    return _found(each_ref(layout.git(), REFS, TRASH_REFS))


def shown_refs(layout: Layout, project: str | None = None) -> Sequence[Ref]:
    """Return the references that were not dropped, of one project or of all."""
    return _found(each_ref(layout.git(), REFS if project is None else f"{REFS}{project}/"))


def present_refs(layout: Layout) -> Sequence[Ref]:
    """Return the same for all projects, without starting a process. Hold the shared lock."""
    return _found(read_refs(layout.store, REFS))


def _found(refs: Iterable[tuple[str, str]]) -> Sequence[Ref]:
    found = (_parsed(oid, name) for name, oid in refs)
    return [ref for ref in found if ref is not None]


def change(layout: Layout, *, create: Iterable[Ref] = (), delete: Iterable[Ref] = ()) -> None:
    """Create and delete references, all or none; raises `GitFailedError` if one has changed."""
    updates = [RefUpdate(name=ref.path, new=ref.checkpoint) for ref in create]
    updates += [RefUpdate(name=ref.path, old=ref.checkpoint) for ref in delete]
    update_refs(layout.git(), updates)


def rotate(layout: Layout, project: str, limit: int, *, keep: Collection[str] = ()) -> int:
    """Hide the oldest checkpoints of a project beyond the limit; return how many.

    The newest checkpoint and the ids in `keep` stay, and count against the limit. This runs at the
    end of every take, so it does not start a process. If another process has locked packed-refs,
    the next take does it.
    """
    prefix = f"{REFS}{project}/"
    in_list, folder = listed(layout.store, prefix), str(layout.store / prefix)
    loose = loose_names(folder)
    if limit <= 0 or len(in_list.keys() | loose) <= limit:
        return 0
    ids = _ids(folder, in_list, loose)
    names = [name for name in sorted(ids) if _is_checkpoint(ids[name])]
    going = [name for name in names[:-1] if ids[name] not in keep][: max(0, len(names) - limit)]
    due = [Ref(checkpoint=ids[name], project=project, name=name) for name in going]
    with contextlib.suppress(OSError):
        if any(ref.name in in_list for ref in due):
            unlist(layout.store, prefix)
            in_list = {}
    return sum(_hide(layout, ref) for ref in due if ref.name not in in_list)


def _hide(layout: Layout, ref: Ref) -> bool:
    """Rename a loose reference. A rename is atomic, so a kill cannot leave half of it."""
    old, new = layout.store / ref.path, layout.store / ref.hidden(ROTATED).path
    # Leave a reference alone that git is changing.
    with contextlib.suppress(OSError), locked(old):
        try:
            old.replace(new)
        except FileNotFoundError:  # the first of its project
            make_private_dir(new.parent)
            old.replace(new)
        return True
    return False


def project_refs(layout: Layout, project: str) -> Sequence[Ref]:
    """Return the references of one project, the oldest first, without starting a process."""
    prefix = f"{REFS}{project}/"
    folder = str(layout.store / prefix)
    found = _ids(folder, listed(layout.store, prefix), loose_names(folder))
    return _found((prefix + name, oid) for name, oid in sorted(found.items()))


def _ids(folder: str, in_list: Mapping[str, str], loose: Iterable[str]) -> dict[str, str]:
    """Return the ids in the references of one folder, by name. Loose files take precedence."""
    found = dict(in_list)
    for name in loose:
        with contextlib.suppress(OSError):
            found[name] = small_text(f"{folder}/{name}")
    return found


def has_rotated(layout: Layout) -> bool:
    """True if a checkpoint was rotated out and is still there. Does not start a process."""
    prefix = f"{TRASH_REFS}{ROTATED}/"
    folder = layout.store / prefix
    projects = loose_names(folder)
    return any(loose_names(folder / each) for each in projects) or is_listed(layout.store, prefix)


def ref_names(layout: Layout, project: str) -> Sequence[str]:
    """Return the names of the same references, without reading them."""
    prefix = f"{REFS}{project}/"
    names = set(listed(layout.store, prefix))
    names.update(loose_names(layout.store / prefix))
    return [prefix + name for name in sorted(names)]


def _is_checkpoint(oid: str) -> bool:
    return is_id(oid) and oid != _NOTHING


def _parsed(oid: str, path: str) -> Ref | None:
    """Parse a reference; None for a name that Holdfast does not use, and for a null id."""
    if not _is_checkpoint(oid):
        return None
    if path.startswith(REFS):
        parts = path.removeprefix(REFS).split("/")
        if len(parts) != len(("project", "name")):
            return None
        return Ref(checkpoint=oid, project=parts[0], name=parts[1])
    place, *rest = path.removeprefix(TRASH_REFS).split("/")
    if place == ROTATED and len(rest) == len(("project", "name")):
        return Ref(checkpoint=oid, project=rest[0], name=rest[1], operation=ROTATED)
    if len(rest) != len(("number", "project", "name")) or not rest[0].isdecimal():
        return None
    return Ref(checkpoint=oid, project=rest[1], name=rest[2], operation=place, number=int(rest[0]))
