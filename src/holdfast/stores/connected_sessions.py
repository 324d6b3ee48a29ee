"""Notes about the sessions of connected agents, kept from one hook to the next.

loop/AGENT/SESSION.json    what was counted, and where its transcripts were read to
loop/AGENT/SESSION.calls   a line for each call of a tool, with the checkpoint before it
loop/days/DAY.json         what each session used on that UTC day
….damaged                  a note that cannot be read, kept aside

Everything here can be lost without harm except to the budgets: a session without a note is read
from its transcript again. So nothing is flushed to disk; a file is written whole or not at all. A
note that a crash damaged is recognized. It is put aside and replaced with what is known from
elsewhere, and the result carries a warning that something may be missing, until the damaged note is
removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

from holdfast.config import NOTES
from holdfast.errors import BusyError
from holdfast.model.guard import Guarded, Work
from holdfast.model.json_value import fields_from_json
from holdfast.model.loop import DayNote, DayUse, ToolCall
from holdfast.model.session import Tokens
from holdfast.model.usage import Usage
from holdfast.policy.circuit_breaker import Run
from holdfast.policy.loop_guard import LoopState, with_use
from holdfast.stores.files import make_private_dir, opened_regular, read_file, write_all
from holdfast.value import replace

_FORMAT = 1
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_PAUSE = 0.002
_WAIT = 5.0
#: A larger file is not one of our notes.
_LARGEST = 64 * 1024**2
#: The most damaged notes that are kept of one session or day.
_MOST_ASIDE = 9
_UNREADABLE = (OSError, ValueError, TypeError, KeyError, AttributeError)


class FileLoopBook:
    """The notes of one home. Safe for many processes and threads."""

    def __init__(self, state: Path) -> None:
        self._folder = state / NOTES

    @contextlib.contextmanager
    def session(self, agent: str, session: str) -> Iterator[LoopState]:
        """The note of a session, locked until the block is left. Call `keep` inside the block."""
        make_private_dir(self._folder / agent)
        with _alone(self._path(agent, session, "lock")):
            state = self._read(agent, session)
            if state is None:
                _put_aside(self._path(agent, session, "json"))
            yield state or self._rebuilt(agent, session)

    def look(self, agent: str, session: str) -> LoopState:
        """The current note of a session; an empty one if there is none."""
        return self._read(agent, session) or self._rebuilt(agent, session)

    def _read(self, agent: str, session: str) -> LoopState | None:
        """The note of a session; None if it is damaged."""
        path = self._path(agent, session, "json")
        try:
            state = _state(agent, session, json.loads(read_file(path, _LARGEST)))
        except FileNotFoundError:
            if os.path.lexists(_aside(path)):
                return self._rebuilt(agent, session)
            return LoopState(agent=agent, session=session)
        except _UNREADABLE:
            return None
        return replace(state, lost=_lost(path)) if _lost(path) else state

    def _rebuilt(self, agent: str, session: str) -> LoopState:
        """What is known of a session without its note: at least the calls that it made."""
        calls = self.calls(session, agent)
        names = {call.call for call in calls if call.call}
        made = len(names) + sum(not call.call for call in calls)
        return LoopState(
            agent=agent,
            session=session,
            turn=calls[-1].turn if calls else "",
            work=Work(guarded=Guarded(iterations=made, seconds=0.0)),
            lost=str(_aside(self._path(agent, session, "json"))),
        )

    def keep(self, state: LoopState) -> None:
        """Write a note. Inside `session` only."""
        _write(self._path(state.agent, state.session, "json"), _state_json(state))

    def add_call(self, agent: str, session: str, call: ToolCall) -> None:
        """Append a line in one write: two tools of one session may run at once."""
        make_private_dir(self._folder / agent)
        path = self._path(agent, session, "calls")
        with opened_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT) as fd:
            line = json.dumps(call.to_json(), ensure_ascii=False)
            write_all(fd, line.encode(errors="surrogatepass") + b"\n")

    def calls(self, session: str, agent: str | None = None) -> Sequence[ToolCall]:
        """The calls of a session, oldest first. Without an agent, of any agent that has this
        session."""
        agents = [agent] if agent is not None else sorted(_names(self._folder))
        return [
            call
            for each in agents
            if each != "days"
            for call in _calls(self._path(each, session, "calls"))
        ]

    def beginning(self, start: str) -> set[str]:
        """The ids of sessions with calls that start with `start`. Ids that are stored as a hash are
        not found."""
        return {
            name.removesuffix(".calls")
            for agent in _names(self._folder)
            for name in _names(self._folder / agent)
            if name.startswith(start) and name.endswith(".calls")
        }

    def sessions(self, *, since: float) -> Sequence[tuple[str, str]]:
        """Agents and sessions whose note was written since then. A session whose id is stored as a
        hash is listed under that hash."""
        found = []
        for agent in sorted(_names(self._folder)):
            for name in sorted(_names(self._folder / agent)) if agent != "days" else ():
                path = self._folder / agent / name
                with contextlib.suppress(OSError):
                    if path.suffix == ".json" and path.stat().st_mtime >= since:
                        found.append((agent, path.stem))
        return found

    # --- Days -------------------------------------------------------------------------------------

    def note_day(self, day: str, use: DayUse) -> DayNote:
        """Record what a session used on a day, and return what all sessions used on it. The
        recorded usage never decreases: a transcript may have been cut since."""
        path = self._folder / "days" / f"{day}.json"
        make_private_dir(path.parent)
        with _alone(path.parent / "lock"):
            known = _read_day(path)
            if known is None:
                _put_aside(path)  # if there is one
            before = known or self._rebuilt_day(path)
            now = replace(before, uses=with_use(before.uses, use))
            if known is None or now != before:
                said = {"format": _FORMAT, "uses": [_use_json(each) for each in now.uses]}
                _write(path, said | ({"lost": True} if now.lost else {}))
        return now

    def has_day(self, day: str) -> bool:
        """True if some process keeps a count for this day; then all of them do. The first one adds
        up what the notes of the sessions say."""
        return os.path.lexists(self._folder / "days" / f"{day}.json")

    def day(self, day: str) -> DayNote:
        path = self._folder / "days" / f"{day}.json"
        return _read_day(path) or self._rebuilt_day(path)

    def _rebuilt_day(self, path: Path) -> DayNote:
        """What the notes of all sessions say about a day. If one of them cannot be read, something
        may be missing."""
        uses: list[DayUse] = []
        missing = False
        since = datetime.fromisoformat(f"{path.stem}T00:00:00+00:00").timestamp()
        for agent in sorted(_names(self._folder)):
            for name in sorted(_names(self._folder / agent)) if agent != "days" else ():
                is_damaged = ".damaged" in name
                if not is_damaged and not name.endswith(".json"):
                    continue
                try:
                    note = self._folder / agent / name
                    if note.stat().st_mtime < since:
                        continue
                    if is_damaged:
                        missing = True
                        continue
                    said = json.loads(read_file(note, _LARGEST))
                    session = str(said.get("session", name.removesuffix(".json")))
                    uses.append(_state(agent, session, said).used_on(path.stem))
                except _UNREADABLE:
                    missing = True
        lost = _lost(path) or (str(_aside(path)) if os.path.lexists(path) else "")
        lost = lost if missing else ""
        return DayNote(uses=tuple(each for each in uses if each.by_model), lost=lost)

    def sweep(self, before: float) -> int:
        """Drop notes not modified since; return the number of files."""
        gone = 0
        for folder, _, names in os.walk(self._folder):
            for name in names:
                path = Path(folder, name)
                with contextlib.suppress(OSError):
                    if path.stat().st_mtime < before:
                        path.unlink()
                        gone += 1
        return gone

    def _path(self, agent: str, session: str, ending: str) -> Path:
        """The path of a note. An agent's ids are used only as names, never as paths."""
        plain = _PLAIN.fullmatch(session) and _PLAIN.fullmatch(agent)
        digest = blake2b(f"{agent}/{session}".encode(errors="surrogatepass"), digest_size=16)
        name = session if plain else digest.hexdigest()
        folder = agent if _PLAIN.fullmatch(agent) else "other"
        return self._folder / folder / f"{name}.{ending}"


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    with opened_regular(path, os.O_RDWR | os.O_CREAT) as fd:
        until = time.monotonic() + _WAIT
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise BusyError(f"{path} is locked by another process.") from None
                time.sleep(_PAUSE)
        yield


def _aside(path: Path) -> Path:
    return path.with_suffix(".damaged")


def _lost(path: Path) -> str:
    """The damaged note that was replaced; "" if there is none."""
    aside = _aside(path)
    return str(aside) if os.path.lexists(aside) else ""


def _put_aside(path: Path) -> None:
    """Put a damaged note aside without replacing earlier ones."""
    free = _aside(path)
    for number in range(2, _MOST_ASIDE):
        if not os.path.lexists(free):
            break
        free = path.with_suffix(f".damaged{number}")
    with contextlib.suppress(FileNotFoundError):
        path.replace(free)


def _read_day(path: Path) -> DayNote | None:
    """The note of a day; None if it is damaged."""
    try:
        said = json.loads(read_file(path, _LARGEST))
        if said["format"] != _FORMAT:
            return None
        uses = tuple(_use(each) for each in said["uses"])
        return DayNote(uses=uses, lost=_lost(path) if said.get("lost") else "")
    except FileNotFoundError:
        return None
    except _UNREADABLE:
        return None


def _write(path: Path, said: Mapping[str, Any]) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    with opened_regular(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as fd:
        write_all(fd, json.dumps(said, separators=(",", ":")).encode())
    temporary.replace(path)


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - a path each would cost more than the list
    except OSError:
        return []


def _calls(path: Path) -> Iterator[ToolCall]:
    try:
        lines = read_file(path).splitlines()
    except OSError:
        return
    for line in lines:
        with contextlib.suppress(*_UNREADABLE):
            yield fields_from_json(ToolCall, json.loads(line))


def _state_json(state: LoopState) -> dict[str, Any]:
    work, run = state.work, state.run
    return {
        "format": _FORMAT,
        "session": state.session,
        "project": state.project,
        "transcripts": list(state.transcripts),
        "turns": state.turns,
        "turn": state.turn,
        "forgiven": state.forgiven,
        "told": list(state.told),
        "work": [work.guarded.iterations, work.guarded.seconds, work.boot, work.ticked],
        "warned": list(work.warned),
        "run": [run.tool, run.arguments, run.same_tool, run.same_call],
        "marks": state.marks,
        "used": [[day, model, *_use_counts(use)] for (day, model), use in state.used.items()],
        "counted": list(state.counted),
    }


def _state(agent: str, session: str, said: Any) -> LoopState:
    if said["format"] != _FORMAT:
        raise ValueError(f"its format is {said['format']!r}")
    iterations, seconds, boot, ticked = said["work"]
    tool, arguments, same_tool, same_call = said["run"]
    return LoopState(
        agent=agent,
        session=session,
        project=str(said["project"]),
        transcripts=tuple(map(str, said["transcripts"])),
        turns=int(said["turns"]),
        turn=str(said["turn"]),
        forgiven=int(said["forgiven"]),
        told=tuple(map(str, said["told"])),
        work=Work(
            guarded=Guarded(iterations=int(iterations), seconds=float(seconds)),
            boot=boot,
            ticked=ticked,
            warned=tuple(map(str, said["warned"])),
        ),
        run=Run(
            tool=str(tool),
            arguments=str(arguments),
            same_tool=int(same_tool),
            same_call=int(same_call),
        ),
        marks=dict(said["marks"]),
        used={(day, model): _usage(counts) for day, model, *counts in said["used"]},
        counted=tuple(map(str, said.get("counted", ()))),
    )


def _use_json(use: DayUse) -> list[Any]:
    models = [[model, *_use_counts(usage)] for model, usage in use.by_model.items()]
    return [use.agent, use.session, use.project, models]


def _use(said: Any) -> DayUse:
    agent, session, project, models = said
    return DayUse(
        agent=agent,
        session=session,
        project=project,
        by_model={model: _usage(counts) for model, *counts in models},
    )


def _use_counts(usage: Usage) -> list[float]:
    return [usage.cost, *usage.tokens.counts, *usage.unpriced.counts]


def _usage(counts: Sequence[Any]) -> Usage:
    cost, *tokens = counts
    return Usage(
        cost=float(cost),
        tokens=Tokens(input=tokens[0], output=tokens[1], cached=tokens[2]),
        unpriced=Tokens(input=tokens[3], output=tokens[4], cached=tokens[5]),
    )
