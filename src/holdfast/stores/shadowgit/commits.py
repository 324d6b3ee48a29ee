"""A checkpoint as a commit without parents: reason and details are its message."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.errors import DamageError
from holdfast.model.checkpoint import Checkpoint, NotCaptured
from holdfast.stores.shadowgit.git_object import Kind
from holdfast.stores.shadowgit.repository import REFS
from holdfast.stores.shadowgit.trees import Trees

_FORMAT = 1
_ID_DIGITS = 8
_ORDER_DIGITS = 15
_MILLISECONDS = 1000
_GAP = "\n\n"
_WHO = "Holdfast <checkpoint@holdfast.invalid>"
#: What comes of a message that is not one of ours, or was damaged.
_NO_DETAILS = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Details:
    """What a commit says of its checkpoint."""

    project: str
    workdir: str
    time: float
    reason: str
    session: str | None
    turn: str | None
    files_changed: int
    insertions: int | None
    deletions: int | None
    not_captured: tuple[NotCaptured, ...]
    origin: str | None = None
    rules: str | None = None


def ref_name(project: str, order: int, commit: str) -> str:
    return f"{REFS}{project}/{order:0{_ORDER_DIGITS}d}-{commit[:_ID_DIGITS]}"


def order_after(now: float, last_ref: str) -> int:
    """Milliseconds, and always later than the last: a clock that was set back changes no order."""
    return max(int(now * _MILLISECONDS), order_of(last_ref) + 1)


def order_of(ref: str) -> int:
    digits = ref.rpartition("/")[2].partition("-")[0]
    return int(digits) if digits.isdecimal() else 0


def write_commit(trees: Trees, details: Details, tree: bytes) -> str:
    # git has no time before 1970, and takes a commit that says one for damaged.
    who = f"{_WHO} {max(0, int(details.time))} +0000"
    text = f"tree {tree.hex()}\nauthor {who}\ncommitter {who}\n\n{_message(details)}"
    return trees.put(Kind.COMMIT, text.encode()).hex()


def parse(
    commit: str,
    tree: str,
    message: str,
    *,
    names: Mapping[str, str] | None = None,
    pins: frozenset[str] = frozenset(),
) -> Checkpoint:
    """The checkpoint that a commit is; raises `DamageError` when it is none of ours."""
    reason, _, line = message.rstrip("\n").rpartition(_GAP)
    try:
        data = json.loads(line)
        details = _details(data, reason)
    except _NO_DETAILS as error:
        raise DamageError(
            f"The commit {commit} in the checkpoint store is no checkpoint."
        ) from error
    return Checkpoint(
        id=commit,
        project=details.project,
        workdir=details.workdir,
        time=details.time,
        reason=details.reason,
        tree=tree,
        session=details.session,
        turn=details.turn,
        name=(names or {}).get(commit),
        pinned=commit in pins,
        files_changed=details.files_changed,
        insertions=details.insertions,
        deletions=details.deletions,
        not_captured=details.not_captured,
        origin=details.origin,
        rules=details.rules,
    )


def _message(details: Details) -> str:
    data: dict[str, Any] = {
        "format": _FORMAT,
        "project": details.project,
        "workdir": details.workdir,
        "time": details.time,
        "session": details.session,
        "turn": details.turn,
        "files_changed": details.files_changed,
    }
    if details.insertions is not None:
        data |= {"insertions": details.insertions, "deletions": details.deletions}
    data["not_captured"] = [
        {"path": left.path, "reason": left.reason} for left in details.not_captured
    ]
    if details.origin is not None:
        data["origin"] = details.origin
    if details.rules is not None:
        data["rules"] = details.rules
    reason = details.reason.encode("utf-8", "replace").decode().replace("\0", "")
    return f"{reason}{_GAP}{json.dumps(data)}\n"


def _details(data: Mapping[str, Any], reason: str) -> Details:
    insertions, deletions = data.get("insertions"), data.get("deletions")
    return Details(
        project=str(data["project"]),
        workdir=str(data["workdir"]),
        time=float(data["time"]),
        reason=reason,
        session=data.get("session"),
        turn=data.get("turn"),
        files_changed=int(data["files_changed"]),
        insertions=None if insertions is None else int(insertions),
        deletions=None if deletions is None else int(deletions),
        not_captured=tuple(
            NotCaptured(path=left["path"], reason=left["reason"]) for left in data["not_captured"]
        ),
        origin=data.get("origin"),
        rules=_text(data.get("rules")),
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
