"""The home of another agent, made from its format.

A format describes the agent's files. This class makes a home from it: scan, list, search, remove,
archive and undo, all with the common spine and one index.

    .holdfast/      our files: configuration, operation log, trash, archive, index
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import SchemaError
from holdfast.homes.agents.leftovers import places
from holdfast.homes.foreign.mirror import Mirror
from holdfast.homes.foreign.notes import Seen, unpacked
from holdfast.homes.foreign.pinned_sessions import Pins
from holdfast.homes.foreign.sessions import FormatSessions, hits_of
from holdfast.homes.foreign.shared_scan import once
from holdfast.homes.foreign.unchanged import glance
from holdfast.homes.home import Contents, Ground, Home
from holdfast.homes.home_bytes import Survey
from holdfast.homes.lost_database import why_lost
from holdfast.homes.may_leave import (
    NOT_THERE,
    Census,
    may_be_known,
    may_be_rewritten,
    seen_outside,
    tree_sight,
)
from holdfast.homes.options import USUAL, HomeOptions
from holdfast.homes.vault.vault import Vault
from holdfast.model.item import ARCHIVED, LEFTOVER, SESSION, VAULTED, VAULTED_BUNDLE, Item, Problem
from holdfast.model.part import (
    FilePart,
    FolderPart,
    Part,
    Role,
    RowsPart,
    Sight,
    Slot,
    Unit,
    version_of_parts,
)
from holdfast.model.plan import Action
from holdfast.model.session import Hit, Relation, Search, Session, SessionFilter
from holdfast.parts import movers
from holdfast.parts.units import PINNED, UnitMover, by_container
from holdfast.ports.archive import Archive
from holdfast.ports.formats import Format
from holdfast.ports.runs import Clock, Progress
from holdfast.spine.keeper import Keeper
from holdfast.stores.files import Doubled

if TYPE_CHECKING:  # loaded on first use: a list of sessions does without them
    from holdfast.homes.archive.home_archive import HomeArchive
    from holdfast.homes.changes_by_kind import Changes
    from holdfast.homes.checkup import FormatCheckup
    from holdfast.homes.vault.refresh import HomeVault

#: With more files than this plus so many per session, a glance takes longer than a full look.
_MOST_FILES = 10_000
_FILES_A_SESSION = 20
#: The limit before the first look, when the number of sessions is still unknown.
_MOST_AT_FIRST = 500_000


class FormatContents(Contents):
    """The sessions of an agent that has a format. Its index is in our folder."""

    foreign = True

    def __init__(self, form: Format, ground: Ground) -> None:
        super().__init__(ground)
        self.kind = form.facts.name
        self._root = ground.root
        self.form = form
        lasting = not form.facts.read_only
        self.mirror = Mirror(ground.state / "index", form, ground.root, lasting=lasting)
        self.movers = movers()
        self._problems: Sequence[Problem] = ()
        #: Why a database was gone at the last look for doubts.
        self._gone: str | None = None
        self._pins = Pins(ground.state / "pins.json")
        seat = (form, ground.root, ground.clock, self.mirror.notes, self._pins)
        self.census = Census(*seat)
        self._left = Census(*seat, of_leftovers=True)
        self.vault = Vault(ground, form)
        self.sessions = FormatSessions(
            form,
            ground.root,
            self._pins,
            self.mirror,
            self.now,
            self._unread,
            self.vault.seen,
        )

    # --- Reading ----------------------------------------------------------------------------------

    def survey(self, now: float, wanted: SessionFilter | None, progress: Progress | None) -> Survey:
        seen, problems = self._found()
        self.sessions.show(seen)
        by_id = {
            each.unit.id: each
            for each in self.census.held(seen)
            if not each.inside and not each.outside
        }
        small = None if wanted is None else wanted.max_messages
        chosen = {each.id: each for each in self.sessions.chosen(wanted or SessionFilter())}
        found = (*chosen.values(), *self._delegates_of(chosen, counted=small is not None))
        found = tuple(each for each in found if each.id in by_id)
        inside = self._inside(seen, {each.id for each in found}, small)
        items = [
            self._item(
                by_id[each.id],
                each,
                inside.get(each.id, ()),
                # A delegate whose parent session is gone is treated as a session of its own.
                follows=each.relation is Relation.DELEGATE and each.parent_id in by_id,
                small=small,
            )
            for each in found
        ]
        left, more, _ = self._look(self._left)
        leftovers = [each for each in left if not each.outside]
        if (gone := self._left.cut_off()) is not None:
            reason = (
                "is a link to a place that is missing or empty; leftovers stay until it is back"
            )
            more.append(Problem(path=str(gone), reason=reason))
        doubt = self._doubt()
        if doubt is not None:
            more.append(
                Problem(
                    path=str(self._root),
                    reason=f"{doubt}; it can be read, but is never changed",
                    usual=self.form.facts.read_only,
                )
            )
        return Survey(
            items=(*items, *map(_leftover, leftovers)),
            problems=(*problems, *more),
            counted=self._not_its_own(),
            read_only=doubt is not None,
            in_items=sum(
                each.bytes
                for each in (*seen, *leftovers)
                if not each.outside
                and not (each.unit.parts and _lies_elsewhere(each.unit.parts[0], self._root))
            ),
        )

    def _not_its_own(self) -> list[Path]:
        """If the home is a project of the user: the files next to the agent's. They are not the
        agent's."""
        tops = [*self.form.roots(self._root), self.ground.state]
        if self._root in tops:
            return []
        return [path for path in self._root.iterdir() if path not in tops]

    def _delegates_of(self, chosen: Collection[str], *, counted: bool) -> Sequence[Session]:
        """The delegates that a filter left out: they follow the sessions that it selected."""
        others = {*self.sessions.delegates_of([*chosen])}.difference(chosen)
        wanted = SessionFilter(ids=tuple(sorted(others)))
        return self.sessions.chosen(wanted, counted=counted) if others else ()

    def _inside(
        self, seen: Sequence[Seen], wanted: Collection[str], small: int | None
    ) -> Mapping[str, tuple[Item, ...]]:
        """What is stored inside these sessions, and inside that in turn: it leaves with them."""
        inner = {each.unit.id: each for each in seen if each.inside}
        tops: dict[str, str] = {}
        for name, each in inner.items():
            passed, top = {name}, each.unit.parent
            while top in inner and top not in passed:
                passed.add(top)
                top = inner[top].unit.parent
            if top in wanted:
                tops[name] = top
        found: dict[str, tuple[Item, ...]] = {}
        here = (inner[name] for name in tops)
        for session in self.sessions.of(here, counted=small is not None):
            item = self._item(inner[session.id], session, (), follows=True, small=small)
            found[tops[session.id]] = (*found.get(tops[session.id], ()), item)
        return found

    def _item(
        self,
        seen: Seen,
        session: Session,
        inside: tuple[Item, ...],
        *,
        follows: bool,
        small: int | None,
    ) -> Item:
        """An item with at most `small` messages says what of it was not read."""
        pinned = session.pinned or any(each.pinned for each in inside)
        return Item(
            kind=SESSION,
            id=session.id,
            source=session.source,
            session=session.id,
            bytes=seen.bytes,
            in_rows=seen.in_rows,
            last_active_at=session.last_active_at,
            version=f"{seen.version}{PINNED}" if pinned else seen.version,
            alive=seen.alive,
            messages=self.sessions.understood_messages(session.id),
            titled=session.title is not None,
            pinned=session.pinned,
            parent=seen.unit.parent,
            delegate=seen.unit.relation is Relation.DELEGATE,
            follows=follows,
            archived_in=self.form.facts.agent if seen.unit.archived else "",
            vaulted=session.vaulted,
            inside=inside,
            unread="" if small is None else self.sessions.unread_of(session.id, small),
        )

    def _doubt(self) -> str | None:
        """Why this home may only be read. A home that cannot be read is one of them, because its
        format is unknown."""
        try:
            self._gone = self._lost()
            return self._gone or self.form.doubt(self._root)
        except OSError as error:
            return f"{error.filename or self._root} cannot be read ({error.strerror})"

    def _lost(self) -> str | None:
        """Why a database of the agent is gone. Without it, a session may be one that its agent
        still lists, and nobody could remove all of it."""
        for pattern in getattr(self.form, "databases", ()):
            for path in places(self._root, pattern):
                if (why := why_lost(path)) is not None:
                    return f"{path.name} {why}"
        return None

    def _unread(self) -> Sequence[Problem]:
        """Why a list may be incomplete: what the last look could not read. A database that is being
        migrated may show no sessions that we know."""
        if self.sessions.is_empty and (doubt := self._doubt()) is not None:
            return (*self._problems, Problem(path=str(self._root), reason=doubt))
        return self._problems

    def store(self) -> FormatSessions:
        """The sessions, refreshed."""
        self.sessions.refresh()
        return self.sessions

    def make_index(self, progress: Progress | None) -> None:
        """Builds no index that would not last: then each search builds its own."""
        if self.mirror.lasts:
            self.store().index(progress)

    def search_index(
        self, asked: Search
    ) -> tuple[Sequence[Hit], Sequence[str], Sequence[Problem]] | None:
        """Search the index without looking at the home. The caller already knows which sessions
        exist."""
        if not self.mirror.lasts:
            return None
        index = self.mirror.store()
        hits = hits_of(index, asked, self._pins.read(), self.mirror.notes.units)
        close = () if hits or asked.substring else index.close_words(asked.text)
        return hits, close, self.mirror.problems()

    def store_of(self, seen: Sequence[Seen]) -> FormatSessions:
        """A store of only these sessions, as a look saw them. It caches nothing that it reads."""
        nowhere = Mirror(self.ground.trash.root / "-", self.form, self._root, lasting=False)
        return FormatSessions(self.form, self._root, self._pins, nowhere, lambda: seen, lambda: ())

    def stored(self, ids: Sequence[str]) -> Collection[str]:
        return self._ids().intersection(ids)

    def _ids(self) -> set[str]:
        return {each.unit.id for each in self.now()}

    def whole(self) -> set[str]:
        """The sessions that the agent itself still has."""
        return self.vault.whole(self.now())

    @property
    def written_to(self) -> Sequence[Path]:
        return self.form.roots(self._root)

    @property
    def programs(self) -> Sequence[str]:
        return self.form.facts.processes

    def checkup(self, archive: Archive) -> FormatCheckup:
        from holdfast.homes.checkup import FormatCheckup  # noqa: PLC0415 - no list needs it

        return FormatCheckup(self, archive)

    def close(self) -> None:
        self.mirror.close()

    def now(self) -> list[Seen]:
        return self._found()[0]

    def look(self) -> list[Seen]:
        """The same, with the parts of each session."""
        return self._look(self.census)[0]

    def _found(self) -> tuple[list[Seen], list[Problem]]:
        """The current sessions, or those that the shared look of this command has just seen."""
        return once(self, self._looked)

    def _looked(self) -> tuple[list[Seen], list[Problem]]:
        """From the notes if a glance shows that nothing has changed since, otherwise by a full
        look."""
        notes = self.mirror.notes
        taken = self.ground.clock()
        most = _MOST_FILES + _FILES_A_SESSION * len(notes) if len(notes) else _MOST_AT_FIRST
        before = glance(self.form.roots(self._root), without=self.ground.state, most=most)
        noted = notes.unchanged(before)
        if noted is not None:
            self._problems = []
            return self.census.judged(noted), []
        seen, problems, whole = self._look(self.census)
        notes.write(seen, before if whole and not problems else None, taken)
        self._problems = problems
        return seen, problems

    def _look(self, census: Census) -> tuple[list[Seen], list[Problem], bool]:
        """The units with their stamps, problems with units that were not examined, and whether all
        parts of the others could be read. A session with a part outside the home is read, but never
        changed."""
        problems: list[Problem] = []
        found: list[Unit] = []
        seen, whole = [], True
        for unit in census.units():
            outside = census.outside(unit)
            if outside is None:
                found.append(unit)
            else:
                problems.append(Problem(path=outside, reason=f"is outside the home: {unit.id}"))
                seen.append(seen_outside(unit, outside))
        sights = self._sights(found)
        for number, unit in enumerate(found):
            mine = zip(unit.parts, sights[number], strict=True)
            here = [(part, sight) for part, (sight, _) in mine if sight.here is not False]
            unseen = next((p for p, s in here if s.here is None and p.role is not Role.TRACE), None)
            whole = whole and all(sight.here for _, sight in here)
            made = Seen(
                unit=unit,
                version=version_of_parts(
                    tuple(part for part, _ in here), tuple(sight.stamp for _, sight in here)
                ),
                bytes=sum(sight.bytes for _, sight in here),
                in_rows=sum(sight.bytes for part, sight in here if isinstance(part, RowsPart)),
                changed=max((at for _, at in sights[number]), default=0.0),
                shared=any(may_be_rewritten(part) for part in unit.parts),
                stamps={str(p.place): s.stamp for p, s in here if may_be_known(p)},
                alive=None if unseen is None else f"{unseen.place} cannot be read",
            )
            seen.append(made if unit.parts else census.inside(unit))
        return census.judged(seen), problems, whole

    def _sights(self, units: Sequence[Unit]) -> Sequence[Sequence[tuple[Sight, float]]]:
        """For each unit, the movers' view of its parts and when its files were last written."""
        nowhere = self.ground.trash.root / "-"
        doubled = self.vault.doubled()
        found: list[list[tuple[Sight, float]]] = []
        slots: list[Slot] = []
        for number, unit in enumerate(units):
            mine = []
            for index, part in enumerate(unit.parts):
                if isinstance(part, FilePart | FolderPart):
                    mine.append(tree_sight(part.path, doubled))
                else:
                    mine.append(NOT_THERE)
                    slots.append(
                        Slot(number=number, index=index, part=part, stamp="", folder=nowhere)
                    )
            found.append(mine)
        for mover, group in by_container(self.movers, slots):
            for slot, sight in zip(group, mover.look(group), strict=True):
                found[slot.number][slot.index] = sight, 0.0
        return found

    # --- Changing ---------------------------------------------------------------------------------

    def finish(self) -> None:
        """Remove sessions from the index that have left the home."""
        if self.mirror.database.exists():
            here = self.now()
            vaulted = {each.unit.id for each in self.vault.seen(here)}
            self.mirror.forget_all_but({each.unit.id for each in here} | vaulted)

    @cached_property
    def units(self) -> UnitMover:
        return UnitMover(self.movers, self.ground.trash, self.census, self.vault.forget)

    def doubled(self) -> Doubled:
        return self.vault.doubled()

    def kept(self) -> HomeVault:
        from holdfast.homes.vault.refresh import HomeVault  # noqa: PLC0415 - no list needs it

        return HomeVault(self)

    def changes(self) -> Changes:
        from holdfast.homes.changes_by_kind import Changes  # noqa: PLC0415 - as above
        from holdfast.homes.vault.restore import (  # noqa: PLC0415 - as above
            VaultBundleMover,
            VaultCensus,
            VaultRestore,
        )

        left = UnitMover(self.movers, self.ground.trash, self._left)
        vaulted = UnitMover(self.movers, self.ground.trash, VaultCensus(self.vault, self.whole))
        return Changes(
            keepers={
                SESSION: Keeper(self.units),
                LEFTOVER: Keeper(left),
                VAULTED: Keeper(vaulted),
                VAULTED_BUNDLE: Keeper(VaultBundleMover(self.vault, self.ground)),
            },
            doers={(VAULTED, Action.RESTORE): VaultRestore(self)},
            archive=self._archive,
        )

    def _archive(self) -> HomeArchive:
        from holdfast.homes.archive.units import unit_archive  # noqa: PLC0415 - as above

        return unit_archive(self.ground, self.units, self.sessions, self._ids, self.kind)

    def check_writable(self, kind: str) -> None:
        doubt = self._doubt() if kind in (SESSION, LEFTOVER, ARCHIVED, VAULTED) else None
        if doubt is not None:
            later = (
                "Put the file back, or let the agent create it again."
                if doubt == self._gone
                else "A later version of Holdfast may support it."
            )
            raise SchemaError(
                f"{self._root}: {doubt}. Nothing was changed.",
                hint="Its sessions can be listed, shown, searched and exported."
                if self.form.facts.read_only
                else f"It can still be read. {later}",
            )


class FormatHome(Home):
    """The home of any agent that has a format. Its index and our other files are in `.holdfast/`;
    reading creates nothing else."""

    _contents: FormatContents

    def __init__(
        self, root: Path, form: Format, *, clock: Clock, options: HomeOptions = USUAL
    ) -> None:
        super().__init__(
            root,
            partial(FormatContents, form),
            clock=clock,
            state=root / form.facts.state,
            options=options,
        )

    def session_store(self) -> FormatSessions:
        """The sessions, refreshed."""
        return self._contents.store()

    def make_index(self, progress: Progress | None = None) -> None:
        self._contents.make_index(progress)

    def search_index(
        self, asked: Search
    ) -> tuple[Sequence[Hit], Sequence[str], Sequence[Problem]] | None:
        return self._contents.search_index(asked)

    def store_of(self, units: Sequence[bytes]) -> FormatSessions:
        return self._contents.store_of([unpacked(each) for each in units])


def _lies_elsewhere(part: Part, root: Path) -> bool:
    """True if the part is outside the home's folder, whose bytes are counted as a whole."""
    return isinstance(part, FilePart | FolderPart) and not part.path.is_relative_to(root)


def _leftover(seen: Seen) -> Item:
    kind, _, _ = seen.unit.id.partition("/")
    return Item(
        kind=LEFTOVER,
        id=seen.unit.id,
        source=kind,
        bytes=seen.bytes,
        last_active_at=seen.unit.active,
        version=seen.version,
        alive=seen.alive,
    )
