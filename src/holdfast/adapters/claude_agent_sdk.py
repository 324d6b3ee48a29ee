"""The sessions of a home as the session store of the Claude Agent SDK.

    from claude_agent_sdk import ClaudeAgentOptions
    from holdfast.adapters.claude_agent_sdk import HoldfastSessionStore

    options = ClaudeAgentOptions(session_store=HoldfastSessionStore("~/.holdfast"))

Each transcript is a session, and is listed, searched, pruned, archived and undone like any other.
Each line is a message. What the user or the model said is its content; the rest of the line is in
the extra fields, so that the SDK gets back exactly what it stored. A subagent's transcript is a
delegate of its session.

The SDK calls us, so it is not imported here, except for one function that makes its summaries.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, cast

from holdfast.api.home import Home
from holdfast.api.home import open as open_home
from holdfast.api.place import system_clock
from holdfast.errors import HoldfastError, SessionEndedError, UnknownSessionError
from holdfast.model.arguments import StrPath
from holdfast.model.session import Json, Message, Relation, Session, Tokens
from holdfast.policy.session_limits import SessionLimits
from holdfast.ports.runs import Clock
from holdfast.value import dataclass, field, replace

if TYPE_CHECKING:
    from claude_agent_sdk import (
        SessionKey,
        SessionListSubkeysKey,
        SessionStoreEntry,
        SessionStoreListEntry,
        SessionSummaryEntry,
    )

    from holdfast.api.sessions import AgentSessions

SOURCE = "claude-agent-sdk"
#: Our extra field of sessions and messages.
FIELD = "claude_agent_sdk"
_P = ParamSpec("_P")
_R = TypeVar("_R")
_SPOKEN = ("user", "assistant")
_TITLES = ("customTitle", "aiTitle", "summary")
_ROLE = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")
_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST = 80
_DIGEST = 6
#: For how many transcripts the ids of their lines are kept in memory.
_REMEMBERED = 64
_MILLISECONDS = 1000


@dataclass(slots=True, kw_only=True)
class _Open:
    """A recently used transcript: its session, the ids of its lines, and the model's message whose
    usage was counted last."""

    id: str
    lines: set[str] = field(default_factory=set)
    counted: str = ""


class HoldfastSessionStore:
    """A session store for `ClaudeAgentOptions(session_store=…)`, in a home of Holdfast's own, which
    is created if it does not exist. Calls run one after another, off the event loop.

    The home's retention applies: `holdfast maintain` enforces it. An archived session is restored
    when the SDK loads it. What the SDK deletes stays in the trash until that is emptied.
    """

    def __init__(self, home: StrPath, *, source: str = SOURCE, clock: Clock | None = None) -> None:
        self._path = home
        self._source = source
        self._clock = clock or system_clock
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="holdfast-sdk")
        self._opened: tuple[Home, AgentSessions] | None = None
        self._recent: OrderedDict[str, _Open] = OrderedDict()
        self._last_write = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the home. Everything that was appended is already on disk."""
        await self._run(self._close)
        self._worker.shutdown(wait=False)

    # --- What the SDK calls -----------------------------------------------------------------------

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Store lines of a transcript. A line whose `uuid` is already stored is skipped."""
        if entries:
            await self._run(self._append, _key(key), cast("list[dict[str, Json]]", entries))

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return all lines of a transcript; None if there are none."""
        return cast("list[SessionStoreEntry] | None", await self._run(self._load, _key(key)))

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        found = await self._run(self._of_project, project_key)
        return [
            {"session_id": str(noted["session_id"]), "mtime": _written(noted, each)}
            for each, noted in found
        ]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        return await self._run(self._summaries, project_key)

    async def delete(self, key: SessionKey) -> None:
        """Remove a transcript; without a `subpath`, its subagents' transcripts too. `holdfast undo`
        brings it back until the trash is emptied."""
        await self._run(self._delete, _key(key))

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        return await self._run(self._subkeys, _key(key))

    # --- In the worker ----------------------------------------------------------------------------

    async def _run(self, call: Callable[_P, _R], *args: _P.args, **kwargs: _P.kwargs) -> _R:
        bound = functools.partial(call, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._worker, bound)

    def _home(self) -> tuple[Home, AgentSessions]:
        if self._opened is None:
            home = open_home(self._path, create=True, clock=self._clock)
            # A transcript stays one session, however long it gets: the SDK has one id for it.
            usual = home.settings.session_options()
            options = replace(usual, limits=SessionLimits(max_messages=0, max_bytes=0))
            self._opened = home, home.open_sessions(options=options)
        return self._opened

    def _close(self) -> None:
        if self._opened is not None:
            self._opened[0].close()
            self._opened = None

    def _append(self, key: _Key, entries: list[dict[str, Json]]) -> None:
        _, sessions = self._home()
        for last_try in (False, True):
            known = self._known(key, entries)
            new = list(_new(entries, known.lines))
            if not new:
                return
            counted = known.counted
            messages = []
            for entry in new:
                counts = _message_id(entry) != counted
                counted = _message_id(entry) or counted
                messages.append(_as_message(entry, counts=counts))
            try:
                sessions.append(known.id, messages)
            except (UnknownSessionError, SessionEndedError):
                # Another process has removed or ended it in the meantime.
                self._recent.pop(known.id, None)
                if last_try:
                    raise
                continue
            known.counted = counted
            known.lines.update(str(each["uuid"]) for each in new if each.get("uuid"))
            self._note(key, known.id, new)
            return

    def _known(self, key: _Key, entries: Iterable[Mapping[str, Json]]) -> _Open:
        """The session of a transcript, created if it does not exist."""
        if key.id in self._recent:
            self._recent.move_to_end(key.id)
            return self._recent[key.id]
        _, sessions = self._home()
        found = self._found(key.id)
        known = _Open(id=key.id)
        if found is None:
            self._create(key, entries)
        else:
            if found.ended:
                sessions.reopen(found.id)
            for each in sessions.messages(found.id):
                line = _as_entry(each)
                if line is not None:
                    known.lines.add(str(line.get("uuid", "")))
                    known.counted = _message_id(line) or known.counted
        self._recent[key.id] = known
        while len(self._recent) > _REMEMBERED:
            self._recent.popitem(last=False)
        return known

    def _found(self, session_id: str) -> Session | None:
        """Find a session in the store; an archived one is restored first."""
        home, sessions = self._home()
        try:
            return sessions.get(session_id)
        except UnknownSessionError:
            pass
        if not home.archive.find(ids=[session_id]):
            return None
        home.restore_sessions(session_id)
        return sessions.get(session_id)

    def _create(self, key: _Key, entries: Iterable[Mapping[str, Json]]) -> None:
        _, sessions = self._home()
        cwd = next((each["cwd"] for each in entries if isinstance(each.get("cwd"), str)), None)
        parent = None
        if key.subpath is not None:
            parent = replace(key, subpath=None)
            if self._found(parent.id) is None:
                self._create(parent, entries)
        sessions.create(
            source=self._source,
            id=key.id,
            cwd=cast("str | None", cwd),
            parent_id=None if parent is None else parent.id,
            relation=None if parent is None else Relation.DELEGATE,
            extra={FIELD: key.noted()},
        )

    def _note(self, key: _Key, session_id: str, new: list[dict[str, Json]]) -> None:
        """Update what the SDK lists for a session: its mtime and summary. Written after the lines;
        if that did not happen, the next listing computes the summary from the lines."""
        _, sessions = self._home()
        if key.subpath is not None:
            return
        session = sessions.get(session_id)
        noted = _noted(session) or key.noted()
        folded = noted.get("folded")
        whole = isinstance(folded, int) and folded + len(new) == session.message_count
        if whole or session.message_count == len(new):
            noted = {**noted, "folded": session.message_count, "summary": _fold(key, noted, new)}
        noted = {**noted, "mtime": self._now()}
        sessions.update(session_id, extra={**session.extra, FIELD: noted})
        titles = [each[name] for each in new for name in _TITLES if each.get(name)]
        if titles and isinstance(titles[-1], str):
            sessions.rename(session_id, titles[-1])

    def _now(self) -> int:
        """The time in milliseconds, strictly increasing with every write."""
        self._last_write = max(int(self._clock() * _MILLISECONDS), self._last_write + 1)
        return self._last_write

    def _load(self, key: _Key) -> list[dict[str, Json]] | None:
        _, sessions = self._home()
        found = self._found(key.id)
        if found is None:
            return None
        entries = (_as_entry(each) for each in sessions.messages(found.id))
        return [each for each in entries if each is not None] or None

    def _of_project(self, project_key: str) -> list[tuple[Session, dict[str, Json]]]:
        _, sessions = self._home()
        found = []
        for each in sessions.find(source=[self._source], roots=True):
            noted = _noted(each)
            mine = noted is not None and noted.get("project_key") == project_key
            if mine and noted is not None and each.message_count:
                found.append((each, noted))
        return found

    def _summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        found: list[SessionSummaryEntry] = []
        for each, noted in self._of_project(project_key):
            key = _Key(project=project_key, session=str(noted["session_id"]))
            data = noted.get("summary")
            if noted.get("folded") != each.message_count or not isinstance(data, dict):
                data = _fold(key, {}, self._load(key) or [])
            mtime = _written(noted, each)
            found.append({"session_id": key.session, "mtime": mtime, "data": cast("Any", data)})
        return found

    def _subkeys(self, key: _Key) -> list[str]:
        _, sessions = self._home()
        if self._found(key.id) is None:
            return []
        noted = [_noted(each) for each in sessions.children(key.id)]
        return [str(each["subpath"]) for each in noted if each is not None and "subpath" in each]

    def _delete(self, key: _Key) -> None:
        home, sessions = self._home()
        if self._found(key.id) is None:
            return
        going = [key.id]
        if key.subpath is None:
            going += [each.id for each in sessions.children(key.id) if _noted(each) is not None]
        for each in going:
            self._recent.pop(each, None)
            sessions.end(each)
        report = home.delete(going)
        if report.removed < len(going):
            why = next((each.reason for each in report.outcomes if each.reason), "it is in use")
            raise HoldfastError(f"Session {key.session} was not deleted: {why}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Key:
    """The SDK's key of a transcript."""

    project: str
    session: str
    subpath: str | None = None

    @property
    def id(self) -> str:
        """The session's id: the SDK's id and a short digest, because two projects may use the same
        id."""
        whole = "\0".join((self.project, self.session, self.subpath or ""))
        digest = hashlib.blake2b(whole.encode("utf-8", "surrogatepass"), digest_size=_DIGEST)
        name = _NO_NAME.sub("-", self.session)[:_LONGEST].strip("._-") or "session"
        return f"{name}-{digest.hexdigest()}"

    def noted(self) -> dict[str, Json]:
        noted: dict[str, Json] = {"project_key": self.project, "session_id": self.session}
        return noted if self.subpath is None else {**noted, "subpath": self.subpath}


def _key(key: SessionKey | SessionListSubkeysKey) -> _Key:
    return _Key(
        project=key["project_key"],
        session=key["session_id"],
        subpath=cast("SessionKey", key).get("subpath"),
    )


def _noted(session: Session) -> dict[str, Json] | None:
    noted = session.extra.get(FIELD)
    return noted if isinstance(noted, dict) else None


def _written(noted: Mapping[str, Json], session: Session) -> int:
    mtime = noted.get("mtime")
    return mtime if isinstance(mtime, int) else int(session.last_active_at * _MILLISECONDS)


def _new(entries: Iterable[dict[str, Json]], known: set[str]) -> Iterator[dict[str, Json]]:
    """The lines that are not stored yet. A line without an id is always new."""
    seen: set[str] = set()
    for each in entries:
        line = each.get("uuid")
        if isinstance(line, str) and line:
            if line in known or line in seen:
                continue
            seen.add(line)
        yield each


def _fold(key: _Key, noted: Mapping[str, Json], entries: list[dict[str, Json]]) -> dict[str, Json]:
    """The SDK's summary of a session, opaque to us. The SDK is installed, because it called us."""
    from claude_agent_sdk import fold_session_summary  # noqa: PLC0415 - see the module

    data = noted.get("summary")
    before: Any = None
    if isinstance(data, dict):
        before = {"session_id": key.session, "mtime": 0, "data": data}
    name: SessionKey = {"project_key": key.project, "session_id": key.session}
    folded = fold_session_summary(before, name, cast("list[SessionStoreEntry]", entries))
    return cast("dict[str, Json]", folded["data"])


def _as_message(entry: Mapping[str, Json], *, counts: bool) -> Message:
    """Turn a line into a message: what was said is the content, the rest is in an extra field."""
    message = entry.get("message")
    rest, content = dict(entry), None
    kind = str(entry.get("type"))
    is_said = kind in _SPOKEN and isinstance(message, dict)
    if is_said and isinstance(message, dict) and isinstance(message.get("content"), str | list):
        content = message["content"]
        rest["message"] = {name: each for name, each in message.items() if name != "content"}
    return Message(
        kind if _ROLE.fullmatch(kind) else "other",
        content,
        timestamp=_moment(entry.get("timestamp")),
        tokens=_tokens(message) if counts and isinstance(message, dict) else None,
        extra={FIELD: {"entry": rest, "said": content is not None}},
    )


def _as_entry(message: Message) -> dict[str, Json] | None:
    """Turn a message back into its line; None for a message that the SDK did not append."""
    noted = message.extra.get(FIELD)
    if not isinstance(noted, dict) or not isinstance(noted.get("entry"), dict):
        return None
    entry = dict(cast("dict[str, Json]", noted["entry"]))
    if noted.get("said"):
        entry["message"] = {**cast("dict[str, Json]", entry["message"]), "content": message.content}
    return entry


def _message_id(entry: Mapping[str, Json]) -> str:
    """The id of the model's message. The SDK writes a message block by block, and each block has
    the usage of the whole message, so usage is counted once for each id."""
    message = entry.get("message")
    found = message.get("id") if isinstance(message, dict) else None
    return found if isinstance(found, str) else ""


def _tokens(message: Mapping[str, Json]) -> Tokens | None:
    usage = message.get("usage")
    if not isinstance(usage, dict):
        return None

    def count(*names: str) -> int:
        found = (usage.get(name) for name in names)
        return sum(each for each in found if isinstance(each, int) and each > 0)

    return Tokens(
        input=count("input_tokens", "cache_creation_input_tokens"),
        output=count("output_tokens"),
        cached=count("cache_read_input_tokens"),
    )


def _moment(said: Json) -> float | None:
    if not isinstance(said, str):
        return None
    try:
        return datetime.fromisoformat(said).timestamp()
    except (ValueError, OverflowError, OSError):
        return None
