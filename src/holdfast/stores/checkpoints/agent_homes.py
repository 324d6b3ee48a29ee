"""Recognises the homes of agents, and our own, inside a project.

An agent writes to its home while it works, and Holdfast has its own rules for what may leave a
home. So a home is no part of a project's checkpoints, wherever it is: a restore would rewind the
sessions of an agent that is at work.

Only what an agent surely wrote counts, because a folder that is taken for a home has no
checkpoints: a project may have folders named `projects`, `sessions` or `.claude` of its own. Every
take asks, so the names in a directory decide first; few directories need a closer look.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice

from holdfast.model.checkpoint import A_HOME
from holdfast.stores.checkpoints.read_file import READ

#: Our folder in the home of another agent, or a home in the usual place.
OUR_FOLDERS = (b".holdfast", b".aider.holdfast")
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: How many names of a directory are looked at more closely.
_MOST = 100
#: In a directory with more names, each sign is asked for by name.
_MANY = 200
_LOG_BEGINS = b'{"format":'
#: The schema of a database is at its beginning, or in its log until that is copied.
_SCHEMA_BYTES = 65_536
_UUID, _HEX_ID = 36, 32
_HEX = frozenset(b"0123456789abcdef")


class _Folder:
    """A directory that may be a home."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def has(self, *paths: bytes) -> bool:
        """True if one of the paths exists."""
        return any(map(self._is, paths))

    def _is(self, path: bytes) -> bool:
        try:
            os.stat(path, dir_fd=self._fd, follow_symlinks=False)
        except OSError:
            return False
        return True

    def below(self, path: bytes) -> Sequence[bytes]:
        """Return some names in a directory below this one, the last first: the names of many
        sessions begin with a date."""
        try:
            fd = os.open(path, _DIRECTORY, dir_fd=self._fd)
        except OSError:
            return ()
        try:
            return sorted(map(os.fsencode, os.listdir(fd)), reverse=True)[:_MOST]  # noqa: PTH208 - a descriptor
        except OSError:
            return ()
        finally:
            os.close(fd)

    def head(self, path: bytes, size: int) -> bytes:
        """Return the beginning of a file; nothing if it cannot be read."""
        try:
            fd = os.open(path, READ, dir_fd=self._fd)
        except OSError:
            return b""
        try:
            return os.read(fd, size)
        except OSError:
            return b""
        finally:
            os.close(fd)


def home_at(folder: bytes, *, inside: int | None = None) -> str | None:
    """Return whose home a directory is, as a reason to leave it out; None if it is no home.
    `inside` is the descriptor of the folder that the path is relative to."""
    if folder.rpartition(b"/")[2] in OUR_FOLDERS:
        return f"{A_HOME}Holdfast"
    try:
        fd = os.open(folder or b".", _DIRECTORY, dir_fd=inside)
    except OSError:
        return None
    try:
        agent = next(_agents(_Folder(fd), _signs_in(fd)), None)
    finally:
        os.close(fd)
    return None if agent is None else f"{A_HOME}{agent}"


def may_be_home(names: Collection[bytes]) -> bool:
    """True if a directory with these names needs a closer look."""
    return not _SIGNS.keys().isdisjoint(names)


def _signs_in(fd: int) -> Collection[bytes]:
    """Return the names in a directory that need a closer look. Listing it is quicker than asking
    for each name, but every take asks about the directories above a project, such as /tmp."""
    found = set()
    try:
        with os.scandir(fd) as listed:
            for entry in islice(listed, _MANY):
                found.add(os.fsencode(entry.name))
            if next(listed, None) is None:
                return _SIGNS.keys() & found
    except OSError:  # it can be entered, but not read
        pass
    folder = _Folder(fd)
    return [name for name in _SIGNS if folder.has(name)]


def _agents(folder: _Folder, names: Collection[bytes]) -> Iterator[str]:
    for name, signs in _SIGNS.items():
        if name in names:
            yield from (agent for agent, is_home in signs if is_home(folder))


def _has_our_log(folder: _Folder) -> bool:
    logs = (name for name in folder.below(b"operations") if name.endswith(b".jsonl"))
    begins = len(_LOG_BEGINS)
    return any(folder.head(b"operations/" + each, begins) == _LOG_BEGINS for each in logs)


def _has_checkpoints(folder: _Folder) -> bool:
    store = b"checkpoints/store/"
    return folder.has(store + b"format", store + b"indexes") and folder.has(store + b"objects/pack")


def _is_claude(folder: _Folder) -> bool:
    left = folder.has(b"file-history", b"shell-snapshots", b"session-env", b"statsig")
    return (left and folder.has(b"history.jsonl")) or any(
        name.endswith(b".jsonl") or name == b"memory" for name in _in_slugs(folder, b"projects")
    )


def _is_qwen(folder: _Folder) -> bool:
    return b"chats" in _in_slugs(folder, b"projects")


def _is_pi(folder: _Folder) -> bool:
    return any(name.endswith(b".jsonl") for name in _in_slugs(folder, b"sessions", b"--"))


def _is_droid(folder: _Folder) -> bool:
    return any(name.endswith(b".jsonl") for name in _in_slugs(folder, b"sessions"))


def _in_slugs(folder: _Folder, place: bytes, start: bytes = b"-") -> Iterator[bytes]:
    """Yield the names in folders that are named after a path, as in `-home-me-project`."""
    for name in folder.below(place):
        if name.startswith(start):
            yield from folder.below(place + b"/" + name)


def _has_rollouts(folder: _Folder) -> bool:
    """True if there is `sessions/2026/11/16/rollout-….jsonl`, as Codex writes it."""
    places = [b"sessions"]
    for _ in range(3):
        places = [
            place + b"/" + name
            for place in places
            for name in folder.below(place)
            if name.isdigit()
        ][:_MOST]
    places.append(b"archived_sessions")
    return any(name.startswith(b"rollout-") for place in places for name in folder.below(place))


def _is_continue(folder: _Folder) -> bool:
    names = folder.below(b"sessions")
    return b"sessions.json" in names and any(
        len(name) == _UUID + len(b".json") and name.endswith(b".json") for name in names
    )


def _is_goose(folder: _Folder) -> bool:
    database = b"sessions/sessions.db"
    return any(
        b"recipe_json" in folder.head(database + each, _SCHEMA_BYTES) for each in (b"", b"-wal")
    )


def _is_gemini(folder: _Folder) -> bool:
    marks = (b"projects.json", b"state.json", b"settings.json", b"installation_id", b"history")
    return folder.has(*marks) and any(
        folder.has(b"tmp/%b/chats" % name, b"tmp/%b/logs.json" % name)
        for name in folder.below(b"tmp")
    )


def _is_cline(folder: _Folder) -> bool:
    marks = (b"db/teams.db", b"db/hub-events-hub-production.db", b"checkpoint-scratch")
    return folder.has(b"db/sessions.db") and folder.has(*marks)


def _is_copilot(folder: _Folder) -> bool:
    return folder.has(b"session-store.db", b"command-history-state.json") or any(
        len(name) == _UUID for name in folder.below(b"session-state")
    )


def _is_opencode(folder: _Folder) -> bool:
    return folder.has(b"storage", b"snapshot", b"repos", b"log", b"auth.json")


def _is_openhands(folder: _Folder) -> bool:
    names = folder.below(b"conversations")
    return any(len(name) == _HEX_ID and _HEX.issuperset(name) for name in names)


def _is_openclaw(folder: _Folder) -> bool:
    return folder.has(b"openclaw.json") or any(
        folder.has(b"agents/%b/agent/openclaw-agent.sqlite" % name)
        for name in folder.below(b"agents")
    )


def _is_conversation(folder: _Folder) -> bool:
    """gptme's conversations may be in any folder; each has these files."""
    return folder.has(b"events.jsonl", b"branches", b"workspace")


def _has_conversations(folder: _Folder) -> bool:
    return any(folder.has(b"logs/%b/conversation.jsonl" % name) for name in folder.below(b"logs"))


def _is_hermes(folder: _Folder) -> bool:
    return folder.has(b"SOUL.md", b"gateway_state.json", b"gateway.pid") or (
        folder.has(b"config.yaml") and folder.has(b"skills", b"memories")
    )


_Sign = tuple[str, Callable[[_Folder], bool]]
#: By a name that every home of an agent has: what else has to be there.
_SIGNS: dict[bytes, tuple[_Sign, ...]] = {
    # Writers of our database take turns at this file.
    b"sessions.db-gate": (("Holdfast", lambda _: True),),
    b"operations": (("Holdfast", _has_our_log),),
    b"checkpoints": (("Holdfast", _has_checkpoints),),
    b"projects": (("Qwen Code", _is_qwen), ("Claude Code", _is_claude)),
    b"thread-writer-locks": (("Codex", lambda _: True),),
    b"state_5.sqlite": (("Codex", lambda folder: folder.has(b"sessions", b"config.toml")),),
    b"archived_sessions": (("Codex", _has_rollouts),),
    b"sessions": (
        ("Codex", _has_rollouts),
        ("pi", _is_pi),
        ("droid", _is_droid),
        ("Continue", _is_continue),
        ("Goose", _is_goose),
    ),
    b"tmp": (("Gemini CLI", _is_gemini),),
    b"db": (("Cline", _is_cline),),
    b"session-state": (("Copilot CLI", _is_copilot),),
    b"kilo.db": (("Kilo", _is_opencode),),
    b"opencode.db": (("OpenCode", _is_opencode),),
    b"logs": (
        ("Mistral Vibe", lambda folder: folder.has(b"logs/session/unified")),
        ("gptme", _has_conversations),
    ),
    b"conversation.jsonl": (("gptme", _is_conversation),),
    b"session_index.jsonl": (("Kimi Code", lambda folder: folder.has(b"sessions")),),
    b"conversations": (("OpenHands", _is_openhands),),
    b"agents": (("OpenClaw", _is_openclaw),),
    b"state.db": (("Hermes", _is_hermes),),
}
