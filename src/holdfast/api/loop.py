"""In the loop of another agent: decisions and checkpoints for its hooks.

`Loop.decide` takes one event of an agent, counts it, takes a checkpoint when a tool is about to
change files, and returns whether the tool may run. It never raises: if it cannot decide, it reports
why, and the user's setting (`hooks.on_failure`) decides whether the tool runs.
"""

from __future__ import annotations

import errno
import os
import re
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.api.capture import Capture
from holdfast.api.loop_projects import candidates_for, project_now, project_of, projects_of
from holdfast.api.place import Place
from holdfast.errors import HoldfastError
from holdfast.homes.meters.meter import METERED, read_meter, transcript_paths
from holdfast.model.arguments import StrPath
from holdfast.model.loop import (
    DayNote,
    Decision,
    LoopEvent,
    Moment,
    ToolCall,
    Touches,
    Verdict,
)
from holdfast.model.text import one_line
from holdfast.model.usage import Usage
from holdfast.model.utc_day import utc_day
from holdfast.policy.budget_check import Measure
from holdfast.policy.budgets import ticked
from holdfast.policy.circuit_breaker import fingerprint
from holdfast.policy.loop_guard import (
    MISSED,
    UNDECIDED,
    LoopState,
    advice_key,
    before_call,
    gist,
    judge,
    largest,
    lost_words,
    measured,
    with_call,
    with_prompt,
    with_told,
    with_use,
)
from holdfast.policy.loop_rules import LoopRules, gaps
from holdfast.stores.connected_sessions import FileLoopBook
from holdfast.stores.files import DISK_FULL, next_step, read_file
from holdfast.stores.processes import this_process
from holdfast.value import replace

if TYPE_CHECKING:
    from holdfast.model.checkpoint import Taking
    from holdfast.stores.checkpoints.watched_takes import WatchedTakes
    from holdfast.stores.checkpoints.writer import CheckpointWriter

#: How long notes about a session are kept after its last event, in seconds.
NOTES_KEPT = 90 * 86_400.0
_LONGEST_NAME = 60
#: An agent works in few projects at a time, and each watched project uses kernel watches.
_MOST_WATCHED = 4
_BLOCK = re.compile(rb"^[^#\n]*\bon_failure[\"']?\s*=\s*[\"']block[\"']", re.MULTILINE)
_MOST_CONFIG = 1024**2
_UNTIL_FIXED = "Until it is fixed, checkpoints are taken with the defaults, and no budget applies."


def prepare() -> None:
    """Import what the first take needs: for a process that answers many hooks."""
    import subprocess  # noqa: PLC0415 - a hook that is started for one answer may need neither

    import holdfast.stores.checkpoints.writer  # noqa: PLC0415

    _ = holdfast.stores.checkpoints.writer, subprocess


class Loop:
    """The loop of every agent whose checkpoints and budgets are kept in one home. The configuration
    is read once: a process that answers many hooks makes a new `Loop` when the file changes."""

    def __init__(self, place: Place, *, resident: bool = False) -> None:
        """`resident` is for a process that answers many hooks: see `follow`."""
        self._place = place
        self._resident = resident
        self._writers: dict[Path, tuple[threading.Lock, CheckpointWriter]] = {}
        self._watched: dict[Path, WatchedTakes] = {}
        self._said: set[tuple[str, str, str]] = set()

    @cached_property
    def book(self) -> FileLoopBook:
        return FileLoopBook(self._place.state)

    def decide(self, event: LoopEvent, *, closed: bool = False) -> Decision:
        """Decide about an event. With `closed`, no tool runs while the configuration is invalid."""
        rules, wrong = self._rules_now(closed=closed)
        decision = Decision()
        try:
            if event.moment is Moment.PROMPT:
                decision = self._prompt(event, rules, wrong)
            elif event.moment is Moment.BEFORE_TOOL:
                decision = self._before_tool(event, rules, wrong)
        except Exception as error:  # noqa: BLE001 - whatever it is, the user's setting decides
            decision = _on_failure(_words(error), blocks=rules.blocks_on_failure)
        if decision.undecided:
            self.count_failure(event.agent)
        elif not decision.passes:
            self._count("refusals", event.agent)
        return decision

    def count_failure(self, agent: str) -> None:
        """Count a hook of an agent that could not do its work. Never raises."""
        self._count("hook_failures", agent)

    def _count(self, what: str, agent: str) -> None:
        # Imported here: a hook seldom has anything to count.
        from holdfast.model.figures import Tally  # noqa: PLC0415
        from holdfast.stores.counters import FileTallies  # noqa: PLC0415

        FileTallies(self._place.state).add(Tally(what), agent)

    def lacks_prices(self, agent: str) -> bool:
        """True if a cost budget can never be checked, because prices are missing."""
        return self._rules_now()[0].lacks_prices(agent)

    def blocks_on_failure(self) -> bool:
        """True if a tool must not run when no decision is possible. Never raises."""
        try:
            return self._rules.blocks_on_failure
        except Exception:  # noqa: BLE001 - as above
            return self._says_block()

    def may_have_helper(self) -> bool:
        """True if a helper may answer for this home. Never raises."""
        try:
            return self._is_default or self._place.settings.hooks.helper
        except Exception:  # noqa: BLE001 - as above; `decide` reports what is wrong
            return True

    def _rules_now(self, *, closed: bool = False) -> tuple[LoopRules, str]:
        """Return the rules, and what is wrong with the configuration; if anything is, the rules are
        the defaults."""
        try:
            return self._rules, ""
        except Exception as error:  # noqa: BLE001 - as above
            why = f"the configuration cannot be used: {_words(error)}"
            blocks = closed or self._says_block()
            return LoopRules(blocks_on_failure=blocks), why if blocks else f"{why} {_UNTIL_FIXED}"

    def _says_block(self) -> bool:
        """True if a configuration that cannot be parsed appears to set `on_failure = "block"`."""
        try:
            return bool(_BLOCK.search(read_file(self._place.config_file, _MOST_CONFIG)))
        except OSError:
            return False

    def outlook(self, agent: str, directory: StrPath) -> tuple[Decision, Sequence[Measure]]:
        """The decision that a new session of an agent in a directory would get before a tool now,
        and the use of its budgets. Changes nothing."""
        rules, wrong = self._rules_now()
        project = str(project_of(Path(os.path.realpath(directory))))
        state = LoopState(agent=agent, session="", project=project)
        today = self.book.day(self._today())
        decision = judge(rules, state, today.uses, errors=0, tool="")
        lost = lost_words(rules, state, today) or rules.lacks_price(agent, "")
        undecided = wrong or decision.undecided or lost
        said = _settled(decision, undecided, rules, known=False)
        return said, measured(rules, state, today.uses)

    def next_tool(self, agent: str, session: str) -> Decision:
        """The decision that a session would get before its next tool now. Changes nothing."""
        rules, wrong = self._rules_now()
        state = self.book.look(agent, session)
        metered, errors, missing = self._metered(state, rules)
        today = self._seen_today(metered)
        decision = judge(rules, metered, today.uses, errors=errors, tool=state.run.tool)
        undecided = wrong or decision.undecided or missing or lost_words(rules, metered, today)
        return _settled(decision, undecided, rules, known=False)

    def _seen_today(self, state: LoopState) -> DayNote:
        today = self._today()
        note = self.book.day(today)
        return replace(note, uses=with_use(note.uses, state.used_on(today)))

    def forget_old(self) -> None:
        """Drop the notes about sessions that had no event for a long time."""
        self.book.sweep(self._place.clock() - NOTES_KEPT)

    # --- Events -----------------------------------------------------------------------------------

    def _prompt(self, event: LoopEvent, rules: LoopRules, wrong: str) -> Decision:
        """Decide about a prompt. Over a budget nothing more is sent to the model; a subagent is
        stopped at its first tool."""
        book = self.book
        with book.session(event.agent, event.session) as before:
            state, errors, missing = self._metered(self._seen(before, event, rules), rules)
            if not before.work.guarded.iterations:
                missing = ""  # nothing was done yet, so the transcript need not exist
            if not event.subagent:
                state = with_prompt(state, errors)
                state = replace(state, turn=event.turn or str(state.turns))
            today = self._used_today(before, state, rules)
            decision = judge(rules, state, today.uses, errors=errors, tool="")
            lost = lost_words(rules, state, today) or rules.lacks_price(event.agent, event.model)
            undecided = wrong or decision.undecided or missing or lost
            state, known = with_told(state, UNDECIDED, undecided)
            book.keep(state)
        return _settled(decision, undecided, rules, known=known)

    def _before_tool(self, event: LoopEvent, rules: LoopRules, wrong: str) -> Decision:
        """Decide about a tool. If it may run, the checkpoint is taken even if counting failed."""
        book = self.book
        state, decision, undecided, known = None, Decision(), wrong, False
        try:
            with book.session(event.agent, event.session) as before:
                state, errors, missing = self._metered(self._seen(before, event, rules), rules)
                given = fingerprint(event.arguments)
                call = f"{event.call} {given}" if event.call else ""
                if call not in state.counted:
                    state = replace(state, run=state.run.after(event.tool, given))
                today = self._used_today(before, state, rules)
                judged = before_call(state, call)
                decision = judge(rules, judged, today.uses, errors=errors, tool=event.tool)
                lost = lost_words(rules, state, today)
                lost = lost or rules.lacks_price(event.agent, event.model)
                undecided = wrong or decision.undecided or missing or lost
                if decision.passes and not (undecided and rules.blocks_on_failure):
                    state = with_call(state, call)
                if decision.advice:
                    state = replace(state, told=(*state.told, advice_key(decision.advice)))
                noted, known = with_told(state, UNDECIDED, undecided)
                book.keep(noted)
                state = noted
        except Exception as error:  # noqa: BLE001 - the checkpoint must be taken anyway
            undecided = undecided or f"this call cannot be counted. {_words(error)}"
            known = not self._is_news(event, undecided)
        if state is None:  # the session's note could not be locked or read
            state = book.look(event.agent, event.session)
            state = replace(state, turn=event.turn or state.turn)
        decision = _settled(decision, undecided, rules, known=known)
        if not decision.passes:
            return decision
        return self._with_checkpoint(event, state, decision, rules, by_default=bool(wrong))

    def _seen(self, state: LoopState, event: LoopEvent, rules: LoopRules) -> LoopState:
        """Update the state with the time at work and with the event's data about the session."""
        files = (
            tuple(dict.fromkeys((*state.transcripts, event.transcript))) if event.transcript else ()
        )
        work = ticked(
            state.work,
            boot=this_process().boot,
            at=time.monotonic(),
            messages=0,
            in_flight=False,
            idle_after=rules.options.idle_after,
        )
        return replace(
            state,
            work=work,
            transcripts=files or state.transcripts,
            project=project_now(state.project, event),
            turn=state.turn if event.subagent and state.turn else event.turn or state.turn,
        )

    def _metered(self, state: LoopState, rules: LoopRules) -> tuple[LoopState, int, str]:
        """Read the transcript; return the state with the new usage, the number of tool errors in a
        row, and why budgets cannot be checked (or "")."""
        if state.agent not in METERED:
            return state, 0, ""
        paths = transcript_paths(state.transcripts)
        try:
            reading, marks = read_meter(state.agent, paths, state.marks, session=state.session)
        except Exception as error:  # noqa: BLE001 - an agent's record may contain anything
            return state, 0, _unread(_words(error)) if rules.bounds_use(state.agent) else ""
        used = dict(state.used)
        for key, usage in reading.metered.by_day.items():
            used[key] = largest(used.get(key, Usage()), usage)
        missing = ""
        if rules.bounds_use(state.agent):
            if not paths:
                missing = _unread(f"{state.agent} did not tell the hook where it is")
            elif reading.missing and not _is_new(state, paths):
                missing = _unread(", ".join(reading.missing))
            elif reading.unclear:
                missing = (
                    "some answers in the transcript of the session are damaged or have no valid "
                    "usage figures, so its budgets cannot be checked"
                )
        return replace(state, marks=marks, used=used), reading.errors, missing

    def _used_today(self, before: LoopState, state: LoopState, rules: LoopRules) -> DayNote:
        """The usage of today. Once a day is counted, the usage of all sessions is added, whether or
        not a daily limit applies to them."""
        today = self._today()
        used, bounded = state.used_on(today), rules.bounds_days(state.agent)
        is_new = used.by_model != before.used_on(today).by_model
        if not bounded and not (is_new and self.book.has_day(today)):
            return DayNote()
        try:
            return self.book.note_day(today, used)
        except (HoldfastError, OSError):  # a daily budget also applies when the disk is full
            return self._seen_today(state) if bounded else DayNote()

    def _today(self) -> str:
        return utc_day(self._place.clock())

    @cached_property
    def _is_default(self) -> bool:
        return self._place.is_default()

    @cached_property
    def _rules(self) -> LoopRules:
        return LoopRules() if self._is_default else self._place.settings.loop_rules()

    # --- Checkpoints ------------------------------------------------------------------------------

    def _with_checkpoint(
        self,
        event: LoopEvent,
        state: LoopState,
        decision: Decision,
        rules: LoopRules,
        *,
        by_default: bool,
    ) -> Decision:
        """Try to take the checkpoint, and return the final decision. With `by_default` the settings
        are not read."""
        if event.touches is Touches.NOTHING:
            return decision
        if not (by_default or self._is_default or self._place.settings.hooks.checkpoints):
            return decision
        missed, on_purpose = "", False
        for number, place in enumerate(projects_of(event)):
            why, wanted = self._take(place, event, state, configured=not by_default)
            if number == 0:  # checkpoints outside the agent's own project are extra
                missed, on_purpose = why, wanted
        noted, known = with_told(state, MISSED, missed)
        if noted.told != state.told:
            try:
                with self.book.session(event.agent, event.session) as latest:
                    self.book.keep(with_told(latest, MISSED, missed)[0])
            except (HoldfastError, OSError):
                known = bool(missed) and not self._is_news(event, missed)
        if not missed:
            return decision
        said = _on_failure(missed, blocks=rules.blocks_on_failure and not on_purpose)
        if said.passes and known:  # the user was told already
            if not on_purpose and not decision.undecided:
                self.count_failure(event.agent)
            return decision
        notice = "\n".join(filter(None, (decision.notice, said.notice)))
        undecided = "" if on_purpose else said.undecided
        return replace(said, advice=decision.advice, notice=notice, undecided=undecided)

    def _is_news(self, event: LoopEvent, why: str) -> bool:
        """True if this was not reported before. Used when it cannot be written to the session's
        note: a helper remembers it, and without a helper it is reported again."""
        note = event.agent, event.session, gist(why)
        is_news = note not in self._said
        self._said.add(note)
        return is_news

    def _take(
        self, place: Path, event: LoopEvent, state: LoopState, *, configured: bool
    ) -> tuple[str, bool]:
        """Take a checkpoint and record it; return why there is none or what it lacks, and whether
        that is what the user configured."""
        turn = state.turn or None
        missed, found, workdir, wanted = "", "", str(place), False
        for attempt in candidates_for(place, event):
            try:
                taking = self._taken(attempt, event, turn, configured=configured)
            except (HoldfastError, OSError, ValueError) as error:
                missed = f"no checkpoint was taken. {_words(error)}"
                break
            found, workdir = taking.id or "", str(attempt)
            missed = f"no checkpoint was taken. {taking.reason}."
            if found:
                lacking = gaps(taking.not_captured)
                missed, wanted = lacking.words, not lacking.failed
                break
        call = ToolCall(
            at=self._place.clock(),
            turn=state.turn,
            call=event.call,
            tool=event.tool,
            workdir=workdir,
            checkpoint=found,
            missed=missed,
            subagent=event.subagent,
        )
        # A full disk may have no room for the record; the checkpoint itself names its session.
        with suppress(HoldfastError, OSError):
            self.book.add_call(event.agent, event.session, call)
        return missed, wanted

    def _taken(
        self, place: Path, event: LoopEvent, turn: str | None, *, configured: bool
    ) -> Taking:
        """Take a checkpoint, one at a time in each project: a writer's state is not thread-safe."""
        if place not in self._writers:
            writer = Capture(self._place, configured=configured).writer(looking_at=place)
            self._writers[place] = threading.Lock(), writer
            if self._resident:
                self._remember(place, writer)
        lock, writer = self._writers[place]
        watched = self._watched.get(place)
        reason, session = _reason(event), event.session
        with lock:
            now = self._place.clock()
            if watched is not None:
                return watched.take(reason=reason, now=now, session=session, turn=turn)
            return writer.take(place, reason=reason, now=now, session=session, turn=turn)

    def take(
        self, workdir: str, *, reason: str, session: str, turn: str, paths: Sequence[str]
    ) -> Taking:
        """Take a checkpoint for a command instead of a hook. With `paths`, only these are
        scanned."""
        place = Path(workdir)
        watched = None if paths else self._watched.get(place)
        if watched is None:
            return Capture(self._place).take(
                place, reason=reason, session=session or None, turn=turn or None, paths=paths
            )
        with self._writers[place][0]:
            return watched.take(
                reason=reason.strip(),
                now=self._place.clock(),
                session=session.strip() or None,
                turn=turn.strip() or None,
            )

    def _remember(self, place: Path, writer: CheckpointWriter) -> None:
        # Imported here: only the helper needs it.
        from holdfast.stores.checkpoints.watched_takes import WatchedTakes  # noqa: PLC0415

        self._watched[place] = WatchedTakes(writer, place)
        while len(self._watched) > _MOST_WATCHED:
            self._unwatch(next(iter(self._watched)))

    def _unwatch(self, place: Path) -> None:
        with self._writers[place][0]:
            if watched := self._watched.pop(place, None):
                watched.close()

    def close(self) -> None:
        """Stop watching."""
        for place in list(self._watched):
            self._unwatch(place)

    def follow(self) -> None:
        """Watch the projects with checkpoints, so that the cost of the next ones is proportional to
        the changes. Call this when no client waits for an answer."""
        for place, each in list(self._watched.items()):
            if each.is_to_be_followed() and (watch := each.watch()) is not None:
                with self._writers[place][0]:
                    each.follow(watch)


def _reason(event: LoopEvent) -> str:
    names = ", ".join(Path(each).name for each in event.paths[:3])
    return one_line(f"before {event.tool or 'a tool'} {names}".strip())[: 2 * _LONGEST_NAME]


def _is_new(state: LoopState, paths: Sequence[Path]) -> bool:
    """True before the first tool of a session whose agent has not written anything yet."""
    started = state.work.guarded.iterations or state.used
    return not started and not any(os.path.lexists(each) for each in paths)


def _unread(why: str) -> str:
    return f"the transcript of the session cannot be read, so its budgets cannot be checked ({why})"


def _settled(decision: Decision, undecided: str, rules: LoopRules, *, known: bool) -> Decision:
    """The decision, given the reason why a part of it is unknown. If the user was already told
    (`known`), there is no notice."""
    if not decision.passes or not undecided:
        return decision
    said = _on_failure(undecided, blocks=rules.blocks_on_failure)
    return replace(said, advice=decision.advice, notice="" if known else said.notice)


def _on_failure(why: str, *, blocks: bool) -> Decision:
    if blocks:
        reason = f"Holdfast could not do its job, and hooks.on_failure is block: {why}"
        return Decision(verdict=Verdict.BLOCK, reason=reason, undecided=why)
    return Decision(notice=f"Holdfast: {why}", undecided=why)


def _words(error: Exception) -> str:
    if isinstance(error, HoldfastError):
        said = (error.message,) if error.hint is None else (error.message, error.hint)
        return " ".join(each if each[-1:] in ".!?" else f"{each}." for each in said)
    if not isinstance(error, OSError):
        return f"{type(error).__name__}: {error}"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return next_step(error) or DISK_FULL
    where = "" if error.filename is None else f": {error.filename}"
    return f"{error.strerror or error}{where}."
