"""What a run would do and why, item by item: a value that can be printed, saved and applied."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from operator import itemgetter
from sys import intern
from typing import Any

from holdfast.errors import PlanFileError
from holdfast.model.json_value import TOO_LARGE, JsonValue, Reader, fields_to_json
from holdfast.value import dataclass

#: How the reason of an item begins that was removed by a cap on bytes.
OVER_THE_CAP = "over the cap of"


class Action(StrEnum):
    """`ARCHIVE` moves a session into the archive, `END` ends one, `RECLAIM` gives unused space
    back, `ROLL_BACK` restores a project from one of its checkpoints. `RENAME` and `PIN` change a
    session or a checkpoint in place, `REWRITE` changes entries of ours in a file of another
    program. `RESTORE` puts a session of the vault back into its home."""

    KEEP = "keep"
    REMOVE = "remove"
    ARCHIVE = "archive"
    END = "end"
    RECLAIM = "reclaim"
    ROLL_BACK = "roll_back"
    RENAME = "rename"
    PIN = "pin"
    REWRITE = "rewrite"
    RESTORE = "restore"


#: Actions that change one value of an item. The log has the old and the new value: `version`,
#: `target`.
EDITS = (Action.RENAME, Action.PIN, Action.REWRITE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanItem:
    """One decision. `undoable` removals go to the trash; the others are permanent at once.

    `goes_with` is the id of a session in the same plan: a file goes only after that session has
    gone. `owned` means that the session of a file was in the store when the file was judged.
    `without_end` means that a person named the session: only then may a session without an end be
    removed.

    `target` is the checkpoint that a project is rolled back to, and `paths` limits the rollback to
    these paths; empty means everywhere. The version of a project is its safety checkpoint. For an
    edit, `target` is the new name or pin and the version the old one, both as JSON; for a session
    that a person ends, it is the reason.
    """

    kind: str
    id: str
    source: str
    session: str = ""
    bytes: int
    last_active_at: float
    version: str
    action: Action
    reason: str
    undoable: bool = False
    goes_with: str = ""
    owned: bool = False
    without_end: bool = False
    target: str = ""
    paths: tuple[str, ...] = ()

    @property
    def rule(self) -> str:
        """The reason without its details; many items share it."""
        return self.reason.partition(":")[0]

    @property
    def gone_by_cap(self) -> bool:
        """True if a cap removes it permanently: the trash counts towards a cap on bytes."""
        return not self.undoable and self.reason.startswith(OVER_THE_CAP)

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "id": self.id,
            "source": self.source,
            "session": self.session,
            "action": self.action.value,
            "undoable": self.undoable,
            "bytes": self.bytes,
            "last_active_at": self.last_active_at,
            "version": self.version,
            "reason": self.reason,
            "goes_with": self.goes_with,
            "owned": self.owned,
            **({"without_end": True} if self.without_end else {}),
            **({"target": self.target, "paths": list(self.paths)} if self.target else {}),
        }

    @classmethod
    def from_json(cls, value: object) -> PlanItem:
        if type(value) is dict and value.keys() == _USUAL.keys() and _as_usual(value):
            known = dict(value, action=_ACTIONS[value["action"]], kind=intern(value["kind"]))
            known |= {"source": intern(value["source"]), "reason": intern(value["reason"])}
            return cls(**known)
        read = Reader(value, "plan item", PlanFileError)
        return cls(
            # Interned: a log or a plan repeats the same few words thousands of times.
            kind=intern(read.text("kind")),
            id=read.text("id"),
            source=intern(read.text("source")),
            session=read.text("session"),
            bytes=read.whole("bytes"),
            last_active_at=read.number("last_active_at"),
            version=read.text("version"),
            action=read.choice("action", Action),
            reason=intern(read.text("reason")),
            undoable=read.flag("undoable"),
            goes_with=read.text("goes_with") if "goes_with" in read else "",
            owned=read.flag("owned") if "owned" in read else False,
            without_end=read.flag("without_end") if "without_end" in read else False,
            target=read.text("target") if "target" in read else "",
            paths=tuple(map(str, read.array("paths"))) if "paths" in read else (),
        )


#: The fields that nearly every item in a log has, with their types. Such an item is read in one
#: step: a log has thousands, and reading them field by field takes a third of an undo.
_USUAL: Mapping[str, type] = {
    "kind": str,
    "id": str,
    "source": str,
    "session": str,
    "action": str,
    "undoable": bool,
    "bytes": int,
    "last_active_at": float,
    "version": str,
    "reason": str,
    "goes_with": str,
    "owned": bool,
}
_values = itemgetter(*_USUAL)
_TYPES = tuple(_USUAL.values())
_ACTIONS: Mapping[str, Action] = {action.value: action for action in Action}
_INFINITE = float("inf")


def _as_usual(value: dict[str, Any]) -> bool:
    return (
        tuple(map(type, _values(value))) == _TYPES
        and value["action"] in _ACTIONS
        and 0 <= value["bytes"] < TOO_LARGE
        and -_INFINITE < value["last_active_at"] < _INFINITE
    )


def fingerprint(*values: object) -> str:
    """A short string that differs if any of the values does."""
    from hashlib import sha256  # noqa: PLC0415 - slow to load, and no command needs it

    return sha256(repr(values).encode("utf-8", "backslashreplace")).hexdigest()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall(JsonValue):
    """A cap that the plan cannot reach, and what keeps the home above it, by reason."""

    cap: str
    limit: int
    remaining: int
    held_by: Mapping[str, int]

    @classmethod
    def from_json(cls, value: object) -> Shortfall:
        read = Reader(value, "shortfall", PlanFileError)
        held = Reader(read.value("held_by"), "held_by", PlanFileError)
        return cls(
            cap=read.text("cap"),
            limit=read.whole("limit"),
            remaining=read.whole("remaining"),
            held_by={reason: held.whole(reason) for reason in held},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outlook:
    """How many items a plan would remove, and how many bytes these are. Of the bytes, `in_rows`
    become free inside a database of the agent, which reuses them. Of what the file system gets
    back, `later` stays in the trash until that is emptied."""

    removals: int
    bytes: int
    in_rows: int = 0
    later: int = 0

    @property
    def frees(self) -> int:
        """What the file system gets back once the trash is emptied."""
        return self.bytes - self.in_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The decisions of one run over one home. `redoes` is the operation that it repeats, if any."""

    home: str
    command: str
    made_at: float
    items: tuple[PlanItem, ...]
    shortfalls: tuple[Shortfall, ...] = ()
    redoes: str = ""

    @property
    def steps(self) -> tuple[PlanItem, ...]:
        """Every item that a run would touch."""
        return tuple(item for item in self.items if item.action is not Action.KEEP)

    @property
    def removals(self) -> tuple[PlanItem, ...]:
        """What would leave its place: to the trash, to the archive or permanently."""
        leaving = (Action.REMOVE, Action.ARCHIVE)
        return tuple(item for item in self.items if item.action in leaving)

    @property
    def ends(self) -> tuple[PlanItem, ...]:
        """Sessions that would be ended."""
        return tuple(item for item in self.items if item.action is Action.END)

    @property
    def edits(self) -> tuple[PlanItem, ...]:
        """What would get a new name, or a changed pin."""
        return tuple(item for item in self.items if item.action in EDITS)

    @property
    def kept(self) -> tuple[PlanItem, ...]:
        return tuple(item for item in self.items if item.action is Action.KEEP)

    @property
    def bytes(self) -> int:
        return sum(item.bytes for item in self.removals)

    @property
    def fingerprint(self) -> str:
        """Equal for plans that do the same to the same items in the same versions. Consent to one
        plan is consent to every plan with its fingerprint."""
        touched = (item for item in self.steps if item.action is not Action.RECLAIM)
        return fingerprint(
            self.home,
            *sorted((i.kind, i.id, i.version, i.action, i.undoable, i.target) for i in touched),
        )

    def to_json(self) -> dict[str, Any]:
        again = {"redoes": self.redoes} if self.redoes else {}
        return fields_to_json(self, "bytes", without=("redoes",)) | again

    @classmethod
    def from_json(cls, value: object) -> Plan:
        read = Reader(value, "plan", PlanFileError)
        return cls(
            home=read.text("home"),
            command=read.text("command"),
            made_at=read.number("made_at"),
            items=tuple(map(PlanItem.from_json, read.array("items"))),
            shortfalls=tuple(map(Shortfall.from_json, read.array("shortfalls"))),
            redoes=read.text("redoes") if "redoes" in read else "",
        )
