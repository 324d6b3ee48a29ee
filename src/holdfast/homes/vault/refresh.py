"""Keeps the vault of a home in step with its agent. New and changed sessions get second names;
sessions that the agent deleted are sealed, and compressed some time later.

Nothing of the agent's is changed, and a session leaves the vault here only if the home has it.

Write-order rule: `vault.json` is written last in its folder, all new folders are flushed together,
and only then are the older ones removed. A bundle is verified and recorded before the files are
removed that it was made from.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.errors import BusyError, DamageError, HoldfastError, StorageError
from holdfast.homes.agents.json_lines import UNREADABLE
from holdfast.homes.foreign.notes import Seen
from holdfast.homes.home_bytes import bytes_below
from holdfast.homes.vault.names import (
    ABOUT,
    OURS,
    Entry,
    Inner,
    check_sums,
    number_of,
    sums_of,
)
from holdfast.homes.vault.second_names import (
    kept_parts,
    leads_out,
    make_folder,
    name_again,
    place_in,
    place_now,
    roots_before,
    slots_now,
    stage,
    transcript_in,
    trees_of,
    write_plainly,
)
from holdfast.homes.vault.superseded import is_document
from holdfast.homes.vault.unread import is_damaged, is_folder_superseded, transcript_of
from holdfast.homes.vault.vault import BY_THE_VAULT, sweep_of
from holdfast.model.archive import ArchivedSession
from holdfast.model.arguments import file_stem
from holdfast.model.item import Item, Problem
from holdfast.model.part import Counts, Slot
from holdfast.model.session import Message, Session
from holdfast.model.vault import Sweep, VaultFigures, VaultRefresh
from holdfast.parts.trees import remove_tree
from holdfast.parts.unit_record import UnitRecord
from holdfast.ports.runs import Progress
from holdfast.spine.keeper import in_a_word
from holdfast.stores.files import storage_errors
from holdfast.value import replace

if TYPE_CHECKING:
    from holdfast.homes.foreign.home import FormatContents


#: The prefix of a session's id after another session with the same id replaced it.
_SET_ASIDE = r"^earlier-\d+-"
#: The names of a transcript that the vault keeps: its agent's, and the vault's.
_NAMES = 2


class HomeVault:
    """The port `Vault` for a home that has a format."""

    def __init__(self, contents: FormatContents) -> None:
        self._vault = contents.vault
        self._format = contents.form
        self._ground = contents.ground
        self._movers = contents.movers
        self._sessions = contents.sessions
        self._now = contents.now
        self._look = contents.look

    # --- What it holds ----------------------------------------------------------------------------

    def items(self) -> Sequence[Item]:
        pinned = self._sessions.pinned()
        items = self._vault.items(self._vault.whole(self._now()))
        return [replace(each, pinned=each.session in pinned) for each in items]

    def figures(self) -> VaultFigures:
        place = str(self._vault.folder)
        enabled = self._ground.options.vault.enabled
        if not self._vault.exists:
            return VaultFigures(enabled=enabled, place=place)
        alone = self._vault.alone(self._vault.whole(self._now()))
        return VaultFigures(
            enabled=enabled,
            place=place,
            sessions=len(self._vault.names.stems()),
            alone=len(alone),
            alone_bytes=sum(map(self._vault.bytes_of, alone)),
            bytes=bytes_below(self._vault.folder, (), []),
        )

    def sweep(self) -> Sweep | None:
        return sweep_of(self._format, self._ground.root)

    @property
    def is_swept_by_file_time(self) -> bool:
        sweep = self.sweep()
        return sweep is not None and sweep.by_file_time

    def unused_since(self, before: float) -> int:
        by_file_time = self.is_swept_by_file_time
        here = (each for each in self._now() if not each.inside and not each.outside)
        return sum((_written(each) if by_file_time else each.unit.active) < before for each in here)

    def problems(self) -> Sequence[Problem]:
        """Return the entries that cannot be read. Left out: those that a killed run had begun, if
        the agent has all of it. The next run takes these sessions in again."""
        found = self._vault.names.problems() if self._vault.exists else ()
        here = self._whole_by_stem() if found else {}
        stems = ((each, Path(each.path).name) for each in found)
        return [each for each, stem in stems if stem not in here or not self._is_begun(here[stem])]

    def _whole_by_stem(self) -> Mapping[str, Seen]:
        """Return the sessions that the agent still has, with their parts."""
        seen = self._look()
        ids = self._vault.whole(seen)
        return {file_stem(each.unit.id): each for each in seen if each.unit.id in ids}

    def _is_begun(self, seen: Seen) -> bool:
        folders = self._vault.names.folders(file_stem(seen.unit.id))
        kept = self._vault.kept_at(seen.unit, lambda place: (place,))
        return all(not is_damaged(each) and is_folder_superseded(each, kept) for each in folders)

    def damage(self, progress: Progress) -> Sequence[Problem]:
        """Compare bundles, and files of sessions sealed as deleted, with their checksums. Files
        that the agent still has are skipped: it may change them."""
        found: list[Problem] = []
        alone = self._vault.alone(self._vault.whole(self._now()))
        for number, entry in enumerate(alone):
            progress.step("reading the vault", number, len(alone))
            if entry.bundle:
                why = self._vault.cold.why_not(entry.bundle, entry.bundle_sha256)
                if why is not None:
                    place = self._vault.cold.shown(entry.bundle)
                    found.append(Problem(path=place, reason=why.replace("archived", "kept")))
                continue
            try:
                check_sums(entry)
            except (DamageError, OSError) as error:
                found.append(Problem(path=entry.session.id, reason=in_a_word(error)))
        return found

    # --- Keeping it in step -----------------------------------------------------------------------

    @property
    def is_on(self) -> bool:
        return self._ground.options.vault.enabled

    def take_in_again(self, ids: Collection[str]) -> Collection[str]:
        """Take in sessions that have just come back. Returns the ids of those taken in."""
        whole = self._look()
        self._sessions.show(whole)
        self._take_in(whole, Counter(), None, only=ids)
        entries = {each: self._vault.names.find(each) for each in ids}
        return {each for each, entry in entries.items() if entry and entry.alone_since is None}

    def refresh(self, progress: Progress | None = None) -> VaultRefresh:
        """Only call this while holding the home's lock."""
        vault, options = self._vault, self._ground.options.vault
        if self._format.facts.read_only or (not options.enabled and not vault.exists):
            return VaultRefresh()
        if vault.folder.is_symlink():
            raise StorageError(
                f"{vault.folder} is a link; Holdfast does not follow it out of the home.",
                hint="Remove the link.",
            )
        with storage_errors(f"write to {vault.folder}"):
            vault.clear()
            seen = self._now()
            ids = self._vault.whole(seen)
            if not options.enabled:
                return self._let_go(ids)
            done: Counter[str] = Counter()
            problems: list[Problem] = []
            self._heal()
            if any(self._is_stale(each) for each in seen):
                whole = self._look()
                self._sessions.show(whole)
                problems += self._take_in(whole, done, progress)
            self._tidy(done)
            problems += self._age(ids, done)
        return VaultRefresh(problems=tuple(problems), **done)

    def _let_go(self, ids: Collection[str]) -> VaultRefresh:
        """After the vault was turned off: drop the second names of sessions that the agent has.
        Sessions that it deleted stay."""
        here = self._vault.names.stems().intersection(map(file_stem, ids))
        entries = {stem: self._vault.names.at(stem) for stem in here}
        # A session that was sealed and exists again may be a different one with the same id; one
        # whose entry cannot be read may have been sealed.
        whole = self._whole_by_stem() if None in entries.values() else {}
        going = [
            stem
            for stem, each in entries.items()
            if (self._is_begun(whole[stem]) if each is None else each.alone_since is None)
        ]
        for stem in going:
            self._vault.drop(stem)
        return VaultRefresh(let_go=len(going))

    def _take_in(
        self,
        whole: Sequence[Seen],
        done: Counter[str],
        progress: Progress | None,
        *,
        only: Collection[str] = (),
    ) -> list[Problem]:
        """Take in the sessions that changed. `whole` is what a look saw, with the parts of each
        session; `only` limits it to some ids."""
        inside = _by_parent(whole)
        problems: list[Problem] = []
        kept: list[Entry] = []
        chosen = [each for each in whole if not only or each.unit.id in only]
        for number, each in enumerate(chosen):
            if progress is not None:
                progress.step("linking sessions", number, len(chosen))
                if progress.stop_requested():
                    break
            if not each.unit.parts or not self._is_stale(each):
                continue
            try:
                entry = self._keep(each, inside, done)
                done["copied" if entry.bundle or _is_copy(entry) else "named"] += 1
                kept.append(entry)
            except BusyError:
                raise
            except UNREADABLE as error:
                reason = in_a_word(error) if isinstance(error, HoldfastError | OSError) else error
                problems.append(
                    Problem(path=each.unit.id, reason=f"could not be stored in the vault: {reason}")
                )
        if kept:
            # One sync for all: thousands of single fsyncs take minutes. The agent still has what a
            # power cut loses before this, and the next look takes it in again.
            os.sync()
        for entry in kept:
            self._drop_older(entry, done)
        return problems

    def _is_stale(self, seen: Seen) -> bool:
        """True if the vault lacks a session or has an older version of it. False for a session that
        cannot be read now (the vault keeps what it has), one inside another (kept with that one),
        and one outside the home (not ours)."""
        if seen.inside or seen.outside or seen.unit.unread or self._vault.is_lost(seen):
            return False
        entry = self._vault.names.find(seen.unit.id)
        if entry is None:
            return not _is_empty(seen)
        if entry.version != seen.version or entry.alone_since is not None:
            return True
        return self._is_twice_here(entry, seen)

    def _is_twice_here(self, entry: Entry, seen: Seen) -> bool:
        """True if the vault has a transcript twice: earlier versions of Holdfast kept it at the
        former path of a moved home, too."""
        path = seen.unit.transcript
        with suppress(OSError):
            if path is not None and not entry.bundle and path.lstat().st_nlink > _NAMES:
                slots = trees_of(entry)
                parts = (slot.part for slot in slots)
                return bool(roots_before(parts, slots, self._ground.root))
        return False

    def _keep(self, seen: Seen, inside: Mapping[str, Sequence[Seen]], done: Counter[str]) -> Entry:
        """Take in a session as it is, with the sessions `inside` it (by the parent's id). The
        caller drops older folders of it."""
        names, stem = self._vault.names, file_stem(seen.unit.id)
        before = names.at(stem)
        root = self._ground.root
        earlier = self._earlier(seen, done)
        roots = roots_before(seen.unit.parts, earlier, root)
        earlier = [*slots_now(earlier, roots, root)]
        folder = names.next_folder(stem)
        unit = replace(seen.unit, parts=tuple(kept_parts(seen.unit, self._ground.root)))
        try:
            record = stage(unit, folder, earlier, self._movers)
            transcript = transcript_in(record, unit, folder)
            if transcript:
                entry = self._entry(seen, folder, self._sessions.described(seen))
                known = {
                    each.session.id: (each.session, str(place_now(Path(each.place), roots, root)))
                    for each in (() if before is None else before.inner)
                }
                inner = self._inner(seen.unit.id, inside, known, record, folder)
                entry = replace(entry, transcript=transcript, inner=tuple(inner))
                write_plainly(folder / ABOUT, entry.to_bytes())
                return entry
            session, said = self._sessions.taken_out(unit.id)
            made = self._pack(session, said, folder)
            stub = self._entry(seen, names.next_folder(stem), session)
            entry = _in_bundle(stub, made)
            entry.write()
        except BaseException:
            remove_tree(folder)
            raise
        self._vault.drop_folder(folder)
        return entry

    def _inner(
        self,
        session_id: str,
        inside: Mapping[str, Sequence[Seen]],
        found: dict[str, tuple[Session, str]],
        record: UnitRecord,
        folder: Path,
    ) -> Iterator[Inner]:
        """Yield the sessions in the files of this one, also those that the agent has deleted, which
        the vault `found` earlier: each with its path in the home, by its id."""
        waiting = [*inside.get(session_id, ())]
        while waiting:
            seen = waiting.pop()
            waiting += inside.get(seen.unit.id, ())
            if seen.unit.transcript is not None:
                session = self._sessions.described(seen)
                found[seen.unit.id] = session, str(seen.unit.transcript)
        for session, place in found.values():
            where = place_in(record, Path(place), folder)
            if where and (folder / where).is_file() and not leads_out(folder, Path(where)):
                yield Inner(session=session, transcript=where, place=place)

    def _earlier(self, seen: Seen, done: Counter[str]) -> Sequence[Slot]:
        """Return the parts that the vault has of a changed session, to be carried over. If its
        transcript was replaced by a different one, the old one would be lost with its folder, so it
        becomes a session of its own."""
        entry, path = self._vault.names.find(seen.unit.id), seen.unit.transcript
        if entry is None or path is None or not entry.transcript:
            return () if entry is None else trees_of(entry)
        if entry.bundle:
            folder = self._vault.bundles.unpacked(entry)
            entry = replace(entry, folder=folder, bundle="", bundle_sha256="", bundle_bytes=0)
        says = partial(seen.messages, self._format, self._ground.root)
        if self._vault.is_superseded(entry, path, says):
            return trees_of(entry)
        self._set_aside(entry, seen.unit.id)
        done["set_aside"] += 1
        return ()

    def _set_aside(self, entry: Entry, session_id: str) -> None:
        names, kept = self._vault.names, entry.folder / entry.transcript
        number = 1
        # Prefix, not suffix: the start of an id must still identify one session.
        while (other := names.find(called := f"earlier-{number}-{session_id}")) is not None:
            path = other.folder / other.transcript
            if not other.bundle and path.exists() and path.samefile(kept):
                return  # a killed run already did it
            number += 1
        folder = names.folder(file_stem(called), entry.number)
        remove_tree(folder.parent)
        make_folder(folder)
        for each in sorted(entry.folder.iterdir()):
            if each.name != ABOUT:
                name_again(each, folder / each.name, alone=each.name not in OURS)
        session = replace(entry.session, id=called)
        aside = replace(entry, folder=folder, session=session, inner=())
        if entry.alone_since is None:
            self._seal(aside, self._ground.clock())
        else:
            aside.write()

    def _entry(self, seen: Seen, folder: Path, session: Session) -> Entry:
        at = self._ground.clock()
        return Entry(folder=folder, session=session, version=seen.version, seen_at=at)

    def _drop_older(self, entry: Entry, done: Counter[str]) -> None:
        bundles = []
        for folder in self._vault.names.folders(entry.stem):
            if folder == entry.folder:
                continue
            try:
                bundles.append(Entry.read(folder).bundle)
            except (HoldfastError, OSError):
                if self._set_aside_unread(folder, entry):
                    done["set_aside"] += 1
                    continue
            self._vault.drop_folder(folder)
        older = [each for each in bundles if each and each != entry.bundle]
        if older:
            self._vault.cold.drop_in_time(older, BY_THE_VAULT)

    def _set_aside_unread(self, folder: Path, entry: Entry) -> bool:
        """Keep a folder without a readable entry as a session of its own, if it has more than the
        entry. Without a transcript it stays unreadable, and `problems` names it."""
        names, vault = self._vault.names, self._vault
        kept = vault.kept_in(entry)
        if is_folder_superseded(folder, kept) or self._is_source(entry, folder):
            return False
        taken, number, session = names.stems(), 1, own_id(entry.session.id)
        while file_stem(called := f"earlier-{number}-{session}") in taken:
            number += 1
        aside = names.root / file_stem(called) / folder.name
        make_folder(aside.parent)
        folder.rename(aside)
        with suppress(*UNREADABLE):
            transcript = transcript_of(aside, kept)
            if transcript:
                known = replace(entry.session, id=called)
                self._seal(
                    Entry(
                        folder=aside,
                        session=known,
                        version="",
                        seen_at=entry.seen_at,
                        transcript=transcript,
                    ),
                    self._ground.clock(),
                )
        return True

    def _is_source(self, entry: Entry, folder: Path) -> bool:
        """True if the bundle of the entry was made from this folder."""
        if not entry.bundle:
            return False
        try:
            return self._vault.cold.manifest(entry.bundle).number == number_of(folder)
        except (HoldfastError, OSError):  # a damaged bundle is the source of nothing
            return False

    # --- What the agent deleted -------------------------------------------------------------------

    def _age(self, ids: Collection[str], done: Counter[str]) -> list[Problem]:
        problems: list[Problem] = []
        now, cold_after = self._ground.clock(), self._ground.options.vault.cold_after
        for entry in self._vault.alone(ids):
            try:
                if entry.alone_since is None:
                    entry = self._seal(entry, now)  # noqa: PLW2901 - the same entry, updated
                    done["found_alone"] += 1
                since = now if entry.alone_since is None else entry.alone_since
                if not entry.bundle and entry.session.counted and now - since >= cold_after:
                    self._compress(entry, done)
                    done["compressed"] += 1
            except BusyError:
                raise
            except (HoldfastError, OSError) as error:
                problems.append(Problem(path=entry.session.id, reason=in_a_word(error)))
        return problems

    def _seal(self, entry: Entry, now: float) -> Entry:
        """The agent no longer writes to it: compute its counts and record its checksums."""
        session = entry.session
        if not entry.bundle:
            session = self._counted(entry)
        sealed = replace(
            entry, session=session, alone_since=now, sums={} if entry.bundle else sums_of(entry)
        )
        sealed.write()
        return sealed

    def _counted(self, entry: Entry) -> Session:
        try:
            counts = Counts.of(self._vault.said(entry))
        except UNREADABLE:
            return replace(entry.session, counted=False)
        return counts.of_session(entry.session)

    def _compress(self, entry: Entry, done: Counter[str]) -> None:
        check_sums(entry)
        made = self._pack(entry.session, self._vault.said(entry), entry.folder)
        stub = replace(entry, folder=self._vault.names.next_folder(entry.stem))
        cold = _in_bundle(stub, made)
        cold.write()
        self._drop_older(cold, done)

    def _pack(self, session: Session, said: Iterable[Message], folder: Path) -> ArchivedSession:
        return self._vault.bundles.pack(session, said, folder, self._ground.clock())

    def _tidy(self, done: Counter[str]) -> None:
        """Remove incomplete and outdated folders that a killed run left."""
        for stem in self._vault.names.stems():
            if len(self._vault.names.folders(stem)) > 1:
                entry = self._vault.names.at(stem)
                if entry is not None:
                    self._drop_older(entry, done)

    def _heal(self) -> None:
        """Handle bundles that a killed run left: record one without an entry, drop a duplicate."""
        if self._ground.options.vault.cold.url or not (self._vault.folder / "cold").is_dir():
            return
        self._vault.cold.clear_unfinished()
        for each in self._vault.cold.look().entries:
            entry = self._vault.names.find(each.session.id)
            if entry is None:
                self._vault.note(each)
            elif entry.bundle != each.file:
                self._vault.cold.drop_in_time([each.file], BY_THE_VAULT)


def _by_parent(seen: Iterable[Seen]) -> Mapping[str, Sequence[Seen]]:
    """Group sessions that are stored inside others by the id of their parent."""
    inside: dict[str, list[Seen]] = defaultdict(list)
    for each in seen:
        if each.inside:
            inside[each.unit.parent].append(each)
    return inside


def _is_empty(seen: Seen) -> bool:
    """True if nothing was ever written to its transcript, so there is nothing to lose."""
    path = seen.unit.transcript
    return path is not None and seen.stamps.get(str(path), "").startswith("8:0:")


def _written(seen: Seen) -> float:
    """Return the mtime of the transcript of a session, or of all its files if it has none."""
    path = seen.unit.transcript
    with suppress(OSError):
        if path is not None:
            return path.stat().st_mtime
    return seen.changed or seen.unit.active


def own_id(session_id: str) -> str:
    """Return the id that its agent gave to a session, also if it has been set aside."""
    return re.sub(_SET_ASIDE, "", session_id)


def _is_copy(entry: Entry) -> bool:
    """True if a second name was impossible. Documents do not count: they are always copied."""
    path = entry.folder / entry.transcript
    return not is_document(path) and path.lstat().st_nlink == 1


def _in_bundle(entry: Entry, made: ArchivedSession) -> Entry:
    return replace(
        entry,
        bundle=made.file,
        bundle_sha256=made.sha256,
        bundle_bytes=made.archive_bytes,
    )
