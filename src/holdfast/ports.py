"""What the services need from the world, in the words of the domain.

`homes` and `stores` implement these; services and the command line depend on nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

from holdfast.model.arguments import StrPath
from holdfast.model.plan import Action

if TYPE_CHECKING:  # named here only: a command pays for the values that it uses
    from holdfast.model.archive import ArchivedSession, ArchiveHits, ArchiveWeight, Blob
    from holdfast.model.checkpoint import (
        Captured,
        Capturing,
        Change,
        Checkpoint,
        Preview,
        Project,
        RestoreState,
        Rollback,
        Sight,
        Taking,
    )
    from holdfast.model.checkpoint_inventory import CheckpointInventory
    from holdfast.model.checkup import Finding, Repair, Verification
    from holdfast.model.figures import DiskRoom, HomeFigures, Tally
    from holdfast.model.guard import Estimate, Standing, Work
    from holdfast.model.item import Inventory, Item, Problem
    from holdfast.model.maintenance import Event, Marker
    from holdfast.model.operation import LogView, OperationAction, Removal
    from holdfast.model.part import Facts, Known, Leftover, Signs, Slot, Transcript, Unit
    from holdfast.model.part import Sight as PartSight
    from holdfast.model.plan import PlanItem
    from holdfast.model.report import Moved, Outcome, Presence
    from holdfast.model.session import (
        Addition,
        Hit,
        Json,
        Message,
        Search,
        Session,
        SessionChange,
        SessionFilter,
        SessionOrder,
    )
    from holdfast.model.stored_session import Copied, End, Found, Holder, Returned
    from holdfast.model.usage import Share, StoreStats, Usage, UsageEntry
    from holdfast.model.vault import Sweep, VaultFigures, VaultRefresh
    from holdfast.policy.prices import Prices

Clock = Callable[[], float]
T = TypeVar("T")


# --- Runs and their log ---------------------------------------------------------------------------


class Progress(Protocol):
    """Receives the progress of a long run, and is asked between two batches whether to stop."""

    def step(self, label: str, done: int, total: int | None) -> None: ...

    def stop_requested(self) -> bool: ...


class Doer(Protocol):
    """Does to items of one kind what their plan says, and undoes it; it never decides.

    Each call is safe to repeat after a kill at any point inside it. Outcomes come back in the
    order of the batch.
    """

    def prepare(self, items: Sequence[PlanItem]) -> None:
        """Called once before the first batch of a run, with everything that the run will do.

        No item changes here. A doer may drop what is cheaper to rebuild than to keep up to date.
        """

    def do(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        """Check version and life again, then act."""

    def settle(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        """After a kill inside `do`: make each item either done or untouched."""

    def undo(self, batch: Sequence[Removal]) -> Sequence[Outcome]:
        """Undo it; never overwrites anything."""


class Space(Protocol):
    """What a store does not use."""

    def measure(self) -> None:
        """Note the size of the store. Called before the first item of a run leaves."""

    def give_back(self, removal: Removal) -> Outcome:
        """Free unused space. The outcome says how much that was."""


class Mover(Protocol):
    """How items of one kind leave their place and come back.

    Answers come back in the order of the batch, and each call is safe to repeat after a kill at any
    point inside it. One item that fails does not affect the others: its answer says why.
    """

    def prepare(self, items: Sequence[PlanItem]) -> None:
        """Called once before the first batch of a run, with everything that it will move."""

    def look(self, batch: Sequence[Removal]) -> Sequence[Presence]: ...

    def copy(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        """Make the undo copies, durable on return. A mover whose `drop` keeps the copy in the same
        step (a rename, a moved reference) does nothing here."""

    def drop(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        """Take each item from its place. Checks version and life again in the same atomic step;
        finishes what a killed run began."""

    def put_back(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        """Put each item back from its copy, durable on return; never overwrites anything. What is
        back already is completed. An answer that is `copied` asks the keeper to discard the
        copy."""

    def discard(self, batch: Sequence[Removal]) -> Sequence[Moved]:
        """Remove the undo copies of these items, and of no others."""


class Journal(Protocol):
    """The record of one running operation. Every call is durable when it returns."""

    @property
    def operation(self) -> str: ...

    def intend(self, batch: Sequence[Removal]) -> None: ...

    def record(self, batch: Sequence[Removal], outcomes: Sequence[Outcome]) -> None: ...

    def finish(self, *, at: float, stopped: str | None = None) -> None: ...

    def bytes(self) -> int:
        """What the record takes on the disk."""


class Unfinished(Protocol):
    """An operation that a killed process left open."""

    @property
    def operation(self) -> str: ...

    @property
    def action(self) -> OperationAction: ...

    @property
    def pending(self) -> Sequence[Removal]:
        """What was intended and has no recorded outcome."""

    @property
    def removed(self) -> Collection[str]:
        """The ids of what is recorded as removed."""

    def resume(self) -> AbstractContextManager[Journal]: ...


class LogWriter(Protocol):
    """The log while this process alone may change it."""

    def read(self) -> LogView:
        """The log as it was when the lock was taken."""

    def elsewhere(self, removal: Removal) -> bool:
        """Whether only another home of those that share the log can deal with it."""

    def unfinished(self) -> Sequence[Unfinished]: ...

    def forget(self, *, before: float) -> int:
        """Drop the oldest operations that ended before this time and cannot be undone any more.
        Returns how many. An operation that a later one refers to stays as long as that one."""

    def begin(
        self,
        *,
        action: OperationAction,
        command: str,
        at: float,
        undoes: str | None = None,
        redoes: str | None = None,
    ) -> AbstractContextManager[Journal]: ...


class OperationLog(Protocol):
    """What was done to a home, and what can be undone. Reading creates nothing."""

    def read(self) -> LogView: ...

    def writing(self, command: str) -> AbstractContextManager[LogWriter]:
        """Take the home's lock; raises `BusyError` when another process keeps it."""


# --- Homes ----------------------------------------------------------------------------------------


class Checkup(Protocol):
    """What a home knows about its own health."""

    def look(self, progress: Progress) -> Iterator[Finding]:
        """One finding for each check. Creates and changes nothing."""

    def give_access(self, findings: Sequence[Finding]) -> Iterator[Repair]:
        """Let the owner read and write what the findings say is closed to them. Needs no lock."""

    def mend(
        self, findings: Sequence[Finding], *, now: float, progress: Progress
    ) -> Iterator[Repair]:
        """Repair what the findings say can be repaired, after a backup."""


class Home(Protocol):
    """The state of one agent on disk."""

    @property
    def kind(self) -> str: ...

    @property
    def version(self) -> str | None:
        """The release of the agent that wrote this state, if it can be determined."""

    @property
    def root(self) -> Path: ...

    @property
    def state(self) -> Path:
        """Where Holdfast keeps its own files: configuration, log, trash, archive. In its own home
        this is the root, in the home of another agent a folder that the agent ignores."""

    @property
    def log(self) -> OperationLog: ...

    def scan(
        self,
        now: float,
        progress: Progress | None = None,
        *,
        wanted: SessionFilter | None = None,
    ) -> Inventory:
        """Look at everything. With `wanted`, only at these stored sessions and their files."""

    def sign_of_life(self, session_id: str, now: float) -> str | None:
        """Why a stored session counts as in use, in words; None if it does not."""

    @property
    def archive(self) -> Archive:
        """The sessions that left the store for the archive."""

    @property
    def written_to(self) -> Sequence[Path]:
        """The folders that the agent writes to: its home, and what it has elsewhere."""

    @property
    def programs(self) -> Sequence[str]:
        """The names of the agent's programs, as its processes have them."""

    @property
    def vault(self) -> Vault | None:
        """What keeps the sessions of another agent from being lost; None where nobody else deletes
        any."""

    def has_checkpoints(self) -> bool:
        """Whether there is a checkpoint folder; costs less than to open it."""

    def checkpoint_store(self, how: Capturing | None = None) -> CheckpointStore | None:
        """The checkpoints of this home; None when it has none. Creates nothing. `how` says what is
        captured by checkpoints that are taken through it."""

    @property
    def checkpoint_upkeep(self) -> CheckpointUpkeep:
        """The bounds of this home's checkpoints."""

    @property
    def own_checkpoint_upkeep(self) -> CheckpointUpkeep:
        """The same for the checkpoints that Holdfast itself takes here, without the agent's own."""

    def session_store(self) -> SessionStore | None:
        """The sessions of this home; None when it has no store. Creates nothing."""

    def make_index(self, progress: Progress | None = None) -> None:
        """Bring the index for searches up to date, where there is one apart from the store."""

    def search_index(
        self, asked: Search
    ) -> tuple[Sequence[Hit], Sequence[str], Sequence[Problem]] | None:
        """What a search finds in the index as it was made last, similar words when that is nothing,
        and what it cannot find. None where a search needs no such index."""

    def store_of(self, units: Sequence[bytes]) -> SessionStore | None:
        """The store for whoever wants certain sessions and packed them at the last look: one that
        would have to look at every session to find one makes do with these."""

    def doer(self, kind: str, action: Action = Action.REMOVE) -> Doer:
        """Who does this to items of this kind; raises `UsageError` for what cannot be here."""

    @property
    def maintenance_gate(self) -> MaintenanceGate:
        """Who may maintain this home, and when that was done."""

    def note_figures(self, inventory: Inventory) -> None:
        """Let other machines know what this home takes, if it shares its store with them. Never
        raises."""

    def bytes_elsewhere(self, inventory: Inventory) -> int:
        """How much of an inventory does not lie on a disk of this machine."""

    def disk_room(self) -> DiskRoom | None:
        """The disk that this home lies on; None where the system does not tell."""

    @property
    def figures(self) -> FigureBook:
        """What this home took on the disk, over time."""

    @property
    def tallies(self) -> Tallies:
        """What is counted as it happens here."""

    def checkup(self) -> Checkup:
        """How to check this home, and repair it."""

    def close(self) -> None:
        """Close the databases that this home has opened. It opens them again when asked to."""


# --- Sessions -------------------------------------------------------------------------------------


class SessionStore(Protocol):
    """Sessions and messages. Every call is durable on return, or a part of `transaction`."""

    def transaction(self) -> AbstractContextManager[object]: ...

    def create(self, new: Session) -> Session: ...

    def append(self, session_id: str, messages: Sequence[Message], *, now: float) -> Addition: ...

    def replace(
        self, session_id: str, messages: Sequence[Message], *, after: int, mark: str, now: float
    ) -> Addition:
        """Replace all messages after number `after`. Replaced messages stay in the store with
        their usage, and get the extra field `mark`. A message that is stored already, unchanged and
        under its number, is not stored again."""

    def update(self, session_id: str, change: SessionChange) -> Session:
        """Usage so far stays in the ledger under the model that it was for."""

    def end(self, session_id: str, reason: str, *, at: float) -> Session: ...

    def reopen(self, session_id: str, *, at: float) -> Session: ...

    def rename(self, session_id: str, title: str | None) -> Session: ...

    def as_title(self, title: str | None) -> str | None:
        """A title as `rename` would store it; raises `UsageError` for one that it refuses."""

    def pin(self, session_id: str, pinned: bool) -> Session: ...

    @property
    def edits(self) -> frozenset[Action]:
        """Which of renaming, pinning and ending it does not refuse."""

    def route(self, key: str, session_id: str) -> None: ...

    def routed(self, key: str) -> Session | None: ...

    def get(self, session_id: str) -> Session: ...

    def resolve(self, prefix: str) -> str: ...

    def find(
        self,
        wanted: SessionFilter,
        *,
        order_by: SessionOrder = ...,
        limit: int | None = None,
        offset: int = 0,
        prices: Prices | None = None,
    ) -> Sequence[Session]:
        """When sorted by cost, `prices` give the cost of tokens without a reported cost."""

    def count(self, wanted: SessionFilter) -> int: ...

    def sources(self) -> Sequence[str]: ...

    def folders(self) -> Mapping[str, str]:
        """The working directory of each session that has one, by id."""

    @property
    def deletes_every_delegate(self) -> bool:
        """Whether deleting a session deletes all its delegates, or only small ones."""

    def delegates_of(self, ids: Sequence[str]) -> Sequence[str]:
        """The delegates of these sessions, their delegates, and so on."""

    def messages(
        self,
        session_id: str,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int | None = None,
        newest_first: bool = False,
    ) -> Iterator[Message]:
        """All stored messages between two numbers, including replaced ones."""

    def openings(self, ids: Sequence[str]) -> Mapping[str, str]:
        """How each of these sessions began, in one line; empty for one without words."""

    def search(self, asked: Search) -> Sequence[Hit]: ...

    def close_words(self, text: str) -> Sequence[str]:
        """Words of the store that are close to those of a query which found nothing."""

    def unlisted(self) -> Sequence[Problem]:
        """What could not be read when the sessions were looked at, in words."""

    def unsearched(self) -> Sequence[Problem]:
        """What a search just now could not find, and why a search takes long here, in words."""

    def hold(self, session_id: str, holder: Holder, *, now: float) -> bool:
        """Take or renew a lease; False when there is no such session, or it has ended."""

    def release(self, session_id: str, holder: Holder) -> None: ...

    def weigh(self, wanted: SessionFilter) -> Share:
        """How many sessions these are, and their size on the disk. Reads none of them."""

    def statistics(self, *, now: float, ages: Sequence[tuple[str, float]]) -> StoreStats: ...

    @property
    def keeps_usage(self) -> bool:
        """Whether what removed sessions used stays in `usage_entries`."""

    def usage_entries(self, *, on: float | None = None) -> Sequence[UsageEntry]:
        """The lines of the ledger; with `on`, only those of the UTC day of this time."""

    def count_messages(self) -> None:
        """Make sure that statistics and usage know every message."""

    def refresh(self) -> None:
        """See what changed since the last look, in a store that does not see it by itself."""

    def close(self) -> None: ...


class LoopRunner(Protocol):
    """Runs calls of a store on an event loop, one after the other. A call that waits for the store
    lets the loop go on."""

    async def run(self, call: Callable[[], T]) -> T: ...


@runtime_checkable
class RunsOnLoop(Protocol):
    """A session store whose calls need no thread to wait in."""

    def loop_runner(self) -> LoopRunner: ...


class SessionCopies(Protocol):
    """Undo copies of the sessions of one operation, several to a file. In a store that keeps them
    itself a path is only their name."""

    def holding(self, numbers: Sequence[int]) -> Mapping[Path, list[int]]:
        """The files that hold these removals by their ranges, each with its removals."""

    def contents(self, path: Path) -> Sequence[Copied]:
        """Raises `DamageError` when it cannot be read."""

    def check(self, path: Path) -> None:
        """Raises `DamageError` unless it is byte for byte what was written."""

    def without(self, path: Path, ids: Collection[str]) -> Path | None:
        """Remove sessions from a file. Returns the new file, or None if nothing is left."""

    def drop(self, path: Path) -> None:
        """Remove a file with all that it holds."""

    def size(self, path: Path) -> int: ...

    def bytes(self) -> int:
        """The size of all copies on the disk."""

    def clear_unfinished(self) -> None: ...

    def drop_if_empty(self) -> None: ...


class SessionEngine(Protocol):
    """How sessions leave a store and come back. The calls inside `transaction` take effect together
    or not at all. Errors of a store are raised as `HoldfastError`."""

    @property
    def place(self) -> Path | None:
        """A file or folder on the disk that the store fills; None if it is not on this machine."""

    def transaction(self) -> AbstractContextManager[None]: ...

    def reading(self) -> AbstractContextManager[None]:
        """Several calls see one state of the store."""

    def prepare(self, items: Sequence[PlanItem]) -> int:
        """Prepare for a run that removes these. Returns the message limit of a transaction."""

    def look(self, ids: Sequence[str]) -> Mapping[str, Found]:
        """The sessions that exist among these, with their signs of life."""

    def copies(self, folder: Path) -> SessionCopies:
        """The undo copies in a folder, in the format of this store."""

    def copy(self, folder: Path, going: Sequence[Found], first: int, last: int) -> Path:
        """Write an undo copy, for the removals from `first` to `last`; durable on return."""

    def delete(self, going: Sequence[Found]) -> None: ...

    def put_back(self, bundle: Path, ids: Collection[str]) -> Returned:
        """Put sessions back from their copies."""

    def is_copied(self, found: Found, copied: Copied) -> bool:
        """Whether a session is the one that was copied, and not a newer one with its id."""

    def ends(self, ids: Sequence[str]) -> Mapping[str, End]:
        """The sessions that exist among these, with their ends."""

    def set_end(self, chosen: Sequence[End], at: float | None, reason: str | None) -> None:
        """Give sessions an end, or remove their end. Nothing else changes."""

    def rest(self) -> None:
        """Called between two transactions, so that other writers get a turn."""

    def give_back(self) -> None:
        """Give unused space back to the file system."""

    def footprint(self) -> int:
        """The size of the store on the disk, as the file system reports it."""

    def truncate_log(self) -> None:
        """Truncate the write-ahead log now, if that is possible."""


#: None when the home has no store.
SessionEngines = Callable[[], SessionEngine | None]


class GuardBook(Protocol):
    """What guards read and write. A decision and what it changes are one `transaction`."""

    def transaction(self) -> AbstractContextManager[object]: ...

    def standing(self, session_id: str, *, today: float | None) -> Standing:
        """The state of a session. With a time, also the usage of that day, by source and model.
        Raises `UnknownSessionError`."""

    def keep(self, session_id: str, work: Work) -> None: ...

    def reserve(self, session_id: str, holder: Holder, estimate: Estimate, *, now: float) -> int:
        """Record a call in flight. Returns the number of the reservation."""

    def give_up(self, reservations: Sequence[int]) -> None:
        """Drop the reservations of calls that are over, or whose process has ended."""

    def book(self, session: Session, work: Work, usage: Usage, *, model: str, now: float) -> Work:
        """Book usage that is part of no message, in the ledger and in the totals of the session,
        even if it has ended. Returns the work to `keep` in the same transaction."""

    def end(self, session_id: str, reason: str, *, at: float) -> Session: ...

    def warned_on(self, today: float) -> Sequence[str]:
        """The warnings about daily budgets that were sent on that day."""

    def warn_on(self, today: float, told: Sequence[str]) -> None: ...


# --- The archive ----------------------------------------------------------------------------------


class Blobs(Protocol):
    """A store of immutable data under names, such as a folder or a bucket of an object store.

    A blob is written once, whole, and never changes. Every call is durable on return. `/` in a name
    separates folders, which exist as long as something is in them. A name that points outside the
    store is refused with `DamageError`. A name without a blob raises `FileNotFoundError`, a name
    that is taken by other content `FileExistsError`; what else fails is an `OSError` or a
    `StorageError`.

    Nothing here renames, appends to or replaces a blob: an object store cannot.
    """

    @property
    def place(self) -> str:
        """Where people find it: the path of a folder, the address of a bucket."""

    def check(self) -> bool:
        """Whether it exists. Raises `StorageError` when it should exist and does not, when it
        belongs to another home, or when it cannot be used."""

    def check_usable(self) -> bool:
        """`check`, and raise as well when nothing could be written to it."""

    def make(self) -> None:
        """Create it unless it exists, and claim it for this home."""

    def put_new(
        self,
        name: str,
        write: Callable[[IO[bytes]], object],
        checks: Sequence[Callable[[IO[bytes]], object]] = (),
    ) -> None:
        """Store what `write` writes under a new name, whole or not at all.

        Each of `checks` then reads it from its start. If one raises, there is no blob. A store that
        can read only what has a name proves, under its name, that it holds what they have read.
        """

    def copy(self, name: str, new_name: str) -> None:
        """Give the content of a blob to a new one as well."""

    def get(self, name: str) -> AbstractContextManager[IO[bytes]]:
        """The content as a stream that can be read once, from its start."""

    def find(self, name: str) -> Blob | None:
        """None when the name is free."""

    def names(self, folder: str = "") -> Iterator[Blob]:
        """The blobs directly in a folder, in any order. None when there is no such folder."""

    def delete(self, names: Iterable[str]) -> None:
        """Names without a blob are fine."""

    def clear_unfinished(self) -> None:
        """Remove what killed processes left of blobs that never got their names. Only while no
        other process writes."""


class Archive(Protocol):
    """Sessions that left the store, to be seen, read and searched. Creates nothing."""

    def check(self) -> None:
        """Raise `StorageError` if the archive is not available."""

    def find(
        self,
        wanted: SessionFilter,
        *,
        order_by: SessionOrder = ...,
        limit: int | None = None,
        offset: int = 0,
        prices: Prices | None = None,
        everywhere: bool = True,
    ) -> Sequence[ArchivedSession]:
        """`everywhere` finds what other homes archived too that share it."""

    def count(self, wanted: SessionFilter) -> int: ...

    def problems(self) -> Sequence[Problem]: ...

    def damage(self, trash: Sequence[Removal], progress: Progress) -> Sequence[Problem]:
        """Bundles whose bytes are not those that were written, and what is missing of those that
        were removed into the `trash`. Reads every byte."""

    def leftovers(self) -> Sequence[Path]:
        """Files of earlier versions next to the bundles. The doer of bundles adopts them in
        `prepare`."""

    def remark(self) -> str:
        """What people should know about its store although nothing is wrong; mostly nothing."""

    def left_behind(self) -> Problem | None:
        """Bundles in the usual folder, when the configuration names another one."""

    def resolve(self, prefix: str) -> str: ...

    def get(self, session_id: str) -> ArchivedSession: ...

    def messages(self, session_id: str) -> Iterator[Message]: ...

    def search(self, asked: Search) -> ArchiveHits: ...

    def items(self, *, everywhere: bool = False) -> Sequence[Item]:
        """What this home archived as items of a plan; their age is their time in the archive. With
        `everywhere`, also what other homes archived that share it."""

    def made_by(self, operation: str) -> Sequence[ArchivedSession]:
        """What an operation of this home archived."""

    def weight(self) -> ArchiveWeight:
        """What all of it takes on the disk: bundles, the catalogue, and what is no bundle."""


class Vault(Protocol):
    """Second names of sessions, so that what an agent deletes by itself is not lost."""

    def refresh(self, progress: Progress | None = None) -> VaultRefresh:
        """Take in what is new, and notice what the agent deleted. Only while this process alone may
        change the home. Removes no session."""

    def items(self) -> Sequence[Item]:
        """Sessions that only the vault has, as items of a plan. Their age is the time since their
        agent deleted them."""

    def figures(self) -> VaultFigures: ...

    def sweep(self) -> Sweep | None:
        """What the agent deletes by itself; None when it deletes no session."""

    def unused_since(self, before: float) -> int:
        """Sessions of the agent that were last used before a time, as its sweep sees it."""

    def problems(self) -> Sequence[Problem]:
        """What in it cannot be read."""

    def damage(self, progress: Progress) -> Sequence[Problem]:
        """What is not what the agent left. Reads every byte that only the vault has."""


# --- Processes, files of sessions, maintenance ----------------------------------------------------


class Processes(Protocol):
    """Identifies this process, and says which processes have provably ended."""

    def this_process(self) -> Holder: ...

    def is_dead(self, holder: Holder) -> bool: ...


class SessionFiles(Protocol):
    """The files that belong to sessions: transcripts and request dumps."""

    def append(
        self, session_id: str, lines: Sequence[Mapping[str, Json]], *, sync: bool
    ) -> Path: ...

    def dump_request(self, session_id: str, stamp: str, request: Mapping[str, Json]) -> Path: ...

    def archive(self, session_id: str) -> None:
        """Compress the files of an ended session into the archive; the originals go."""

    def remove(self, session_id: str) -> Sequence[Path]:
        """Move the files of an ended session to the trash."""

    def remove_whole(self, session: Session, reason: str) -> None:
        """Move an ended session and its files to the trash."""

    def end_abandoned(self) -> Sequence[str]:
        """End the abandoned sessions of this home. Returns their ids."""


class MaintenanceGate(Protocol):
    """Lets one process at a time run maintenance, and knows when maintenance last ran."""

    def entered(self, holder: str) -> AbstractContextManager[None]:
        """Hold the lock of maintenance. Raises `BusyError` at once if another process has it."""

    def watching(self, holder: str) -> AbstractContextManager[None]:
        """Be the one process that watches the home, for as long as it lives."""

    def read(self) -> Marker:
        """The marker of the last run; an unreadable marker means never. Creates nothing."""

    def write(self, marker: Marker) -> None: ...


class FigureBook(Protocol):
    """The figures of one home, fewer of them the older they are."""

    def read(self) -> Sequence[HomeFigures]:
        """The oldest first. Creates nothing, and never raises."""

    def add(self, figures: HomeFigures) -> None: ...


class Tallies(Protocol):
    """Counts that many processes add to."""

    def add(self, what: Tally, agent: str = "") -> None:
        """Count one more. Never raises."""

    def read(self) -> Mapping[tuple[Tally, str], int]:
        """The counts by what was counted, and by agent. Never raises."""

    def total(self, what: Tally) -> int: ...


class Notifier(Protocol):
    """Receives events. Never raises."""

    def tell(self, event: Event, stop: Callable[[], bool] = ...) -> None: ...


# --- Checkpoints ----------------------------------------------------------------------------------


class CheckpointTaker(Protocol):
    """What an agent calls before it changes something."""

    def take(
        self,
        workdir: StrPath,
        *,
        reason: str,
        now: float,
        session: str | None = None,
        turn: str | None = None,
        paths: Sequence[str] | None = None,
    ) -> Taking:
        """Capture the working tree if it changed. With `paths`, only these paths and everything
        below them are scanned; the rest is taken from the last checkpoint."""


class CheckpointStore(CheckpointTaker, Protocol):
    """Checkpoints of all projects of a home. Reading creates nothing.

    A `tree` is that of a checkpoint (`Checkpoint.tree`) or of the working tree (`Sight.tree`).
    """

    def look(self, workdir: StrPath) -> Sight:
        """The working tree as it is now, to be compared with a checkpoint."""

    def list(self, workdir: StrPath | None = None) -> Sequence[Checkpoint]:
        """The checkpoints of one working directory or of all, the newest first."""

    def get(self, prefix: str) -> Checkpoint:
        """The one checkpoint whose id begins with `prefix`; raises `UnknownCheckpointError`
        otherwise."""

    def reading(self) -> AbstractContextManager[None]:
        """For calls that belong together: nothing that an answer named is removed meanwhile."""

    def ready(self, checkpoint: Checkpoint) -> Checkpoint:
        """The checkpoint in a form that can be compared and restored. One of another agent is
        imported into our store for that; it keeps its time and reason and gets a new id."""

    def patch(self, old: str, new: str, paths: Sequence[str] = ()) -> Iterator[bytes]:
        """The difference between two trees, as `git apply` understands it, line by line."""

    def statistics(
        self, old: str, new: str, paths: Sequence[str] = (), *, width: int
    ) -> Iterator[bytes]:
        """How much differs, file by file."""

    def pin(self, checkpoint: Checkpoint, pinned: bool) -> Checkpoint: ...

    def rename(self, checkpoint: Checkpoint, name: str | None) -> Checkpoint: ...

    def captured(self, tree: str) -> Captured: ...

    def blob(self, oid: str) -> bytes: ...

    def changes(self, old: str, new: str) -> Sequence[Change]:
        """What differs between two trees, sorted by path."""

    def projects(self) -> Sequence[Project]: ...

    def secure(self, target: str, *, paths: Sequence[str] | None = None, now: float) -> str:
        """Take the safety checkpoint for a restore: the present state of the target's project.

        Returns its id; when nothing changed since the latest checkpoint, that one's. When the same
        restore was cut short, the one that it took then: that one still holds what was there
        before. Raises `UsageError` for paths that cannot be restored."""

    def preview(self, target: str, *, paths: Sequence[str] | None = None) -> Preview:
        """What a restore would do to the working tree as it is. Touches nothing in it."""

    def preview_undo(
        self,
        target: str,
        safety: str,
        *,
        paths: Sequence[str] | None = None,
        undoing: bool = False,
    ) -> Preview:
        """What undoing a restore would do now: `restore` with the same two checkpoints, exchanged.
        Touches nothing in the working tree."""

    def restore(
        self,
        target: str,
        safety: str,
        *,
        paths: Sequence[str] | None = None,
        now: float,
        shown: Preview | None = None,
        undoing: bool = False,
    ) -> Rollback:
        """Bring the working tree from the safety checkpoint to the target, or only the given paths
        and what is below them. Repeated, it finishes; with the two swapped, it is undone. With
        `shown` it does only what that preview said: what changed since is left alone and named.
        With `undoing`, what the restore from the target to here did not touch is not touched."""

    def restore_state(
        self, target: str, safety: str, *, paths: Sequence[str] | None = None
    ) -> RestoreState:
        """The progress of this restore, if it is the latest of its project."""


class Bounding(Protocol):
    """Brings a checkpoint store back within its bounds while an agent works. Never raises."""

    def later(self) -> None:
        """Schedule it. Returns at once."""

    def room_made(self) -> AbstractContextManager[None]:
        """Do it now. No other process does it until the context ends."""


class CheckpointUpkeep(Protocol):
    """What keeps the checkpoint folder of a home within its bounds. Looking creates nothing."""

    def scan(self, now: float) -> CheckpointInventory: ...

    def note(self, now: float) -> None:
        """Record facts that a later run needs. Called before a change."""

    def pack(self) -> int:
        """Repack the store without dropping anything. Returns the bytes freed."""

    def tidy(self) -> bool:
        """The cheap part of `pack`, if it is due."""

    def verify(self) -> Verification: ...


# --- Formats of other agents, and the parts of their sessions -------------------------------------


class PartMover(Protocol):
    """Takes one kind of part out of a home and brings it back; it never decides.

    The slots of a batch share one container: a folder, a database, a shared file, a repository.
    Every call is safe to repeat after a kill at any point inside it. Answers come back in the order
    of the batch: None when a slot is done, else why it stays.
    """

    def look(self, batch: Sequence[Slot]) -> Sequence[PartSight]: ...

    def copy(self, batch: Sequence[Slot]) -> None:
        """Make undo copies, durably. Nothing where `drop` is a rename."""

    def drop(self, batch: Sequence[Slot]) -> Sequence[str | None]:
        """Remove the originals. The stamp is checked again in the same atomic step."""

    def put_back(self, batch: Sequence[Slot]) -> Sequence[str | None]:
        """Bring the originals back from their copies; never overwrites anything."""

    def discard(self, batch: Sequence[Slot]) -> int:
        """Remove the copies of these slots and of no others. Returns the bytes freed."""


class Format(Protocol):
    """How one kind of agent lays out its home. It reads and describes; it never writes."""

    @property
    def facts(self) -> Facts: ...

    def recognise(self, root: Path) -> bool:
        """Whether a folder is a home of this agent. Cheap, and never raises for a strange one."""

    def doubt(self, root: Path) -> str | None:
        """Why this home may only be read: an unknown version, an unknown table."""

    def roots(self, root: Path) -> Sequence[Path]:
        """Where parts may lie. A part outside these folders is refused."""

    def units(self, root: Path, known: Known) -> Iterator[Unit]:
        """Every session. `known` gives what the last look made from a file that is unchanged."""

    def leftovers(self, root: Path) -> Iterator[Leftover]:
        """What no session owns."""

    def messages(self, root: Path, unit: Unit) -> Iterator[Message]:
        """The messages of a session, in order."""

    def signs(self, root: Path, now: float) -> Signs:
        """Who is alive now. Passive: it takes no lock and opens nothing for writing."""


class TranscriptReader(Protocol):
    """What a format can do besides: read its agent's files where they lie alone. Without it, only
    whole homes of that agent can be imported."""

    def transcripts(self, path: Path) -> Iterator[Transcript] | None:
        """The sessions in one file, a parent before its children; None for a file of anybody else.
        What is in the file tells, not its name."""
