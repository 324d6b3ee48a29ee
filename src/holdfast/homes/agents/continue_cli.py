"""Continue: its command line, and its extensions for editors, which share one home.

sessions/ID.json         a session as one document, always rewritten as a whole
sessions/sessions.json   the list of all sessions, through which it finds them
index/*.sqlite           an extension's index of the code, open as long as its editor is
logs/                    logs

Its command line leaves no sign of life, and can resume sessions of any folder. So while one of its
processes runs, no entry is removed from the list, and no session is removed. Messages have no time,
so the file's mtime is the last use.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from holdfast.homes.agents import signs_of_life as life
from holdfast.homes.agents.agent_format import AgentFormat, facts_of, is_home, unless_uuid
from holdfast.homes.agents.json_lines import (
    INJECTED,
    Record,
    document_in,
    moment,
    names_in,
    newest,
    objects_in,
    text_of,
    transcript_of,
    unit_of,
    within,
)
from holdfast.homes.agents.message_blocks import tokens_in, tool_call, used
from holdfast.model.part import FilePart, Known, LinePart, Places, Signs, Transcript, Unit
from holdfast.model.session import Message
from holdfast.model.usage import Usage
from holdfast.stores.files import read_file
from holdfast.value import replace

_LIST = "sessions.json"
_DOCUMENT = {"sessionId", "title", "workspaceDirectory", "history"}
_ROLES = {"user": "user", "assistant": "assistant", "tool": "tool"}
#: Continue's title for a session without one.
_UNTITLED = "Untitled Session"


class Continue(AgentFormat):
    facts = facts_of(
        "continue",
        processes=("cn",),
        versions=("1.5.47",),
        places=Places(
            files=("sessions/*.json",),
            lines=("sessions/sessions.json",),
        ),
    )
    proofs = ("sessions/*.json",)
    left = (("log", "logs/*"),)

    def recognise(self, root: Path) -> bool:
        return (root / "sessions").is_dir() and is_home(
            root,
            ("config.yaml", "config.json", "permissions.yaml"),
            files=_files(root),
            is_session=lambda path: _is_document(document_in(path)),
            emptied=[self.is_emptied(root)],
        )

    def is_emptied(self, root: Path) -> bool:
        return isinstance(_list(root), list)

    def is_proof(self, path: Path) -> bool:
        return path.name != _LIST and _is_document(document_in(path))

    def doubt(self, root: Path) -> str | None:
        listed = root / "sessions" / _LIST
        if listed.is_file() and not isinstance(_list(root), list):
            return f"{_LIST} has an unknown format"
        path = newest(_files(root))
        said = document_in(path) if path else {}
        if path and said and not _is_document(said):
            return f"{path.name} has an unknown format"
        return None

    def units(self, root: Path, known: Known) -> Iterator[Unit]:
        begun = _begun(root)
        for path in _files(root):
            if unit := unit_of(path, known, _read):
                line = LinePart(path=root / "sessions" / _LIST, key="sessionId", value=unit.id)
                parts = (line, FilePart(path=path))
                odd = unless_uuid(unit.id, self.facts.agent)
                yield replace(unit, started=begun.get(unit.id), parts=parts, stays=odd)

    def messages(self, root: Path, unit: Unit) -> Iterator[Message]:
        return spoken(transcript_of(unit))

    def signs(self, root: Path, now: float) -> Signs:
        """An extension runs inside its editor's process, which has another name."""
        return Signs(home=life.opened_by(sorted(root.glob("index/*.sqlite"))))

    def transcripts(self, path: Path) -> Iterator[Transcript] | None:
        said = document_in(path)
        if not _is_document(said) or not isinstance(said["history"], list):
            return None
        unit = replace(_read(path), id=str(said["sessionId"]))
        return iter([Transcript(path=path, unit=unit, messages=spoken(path))])


def spoken(path: Path) -> Iterator[Message]:
    for entry in objects_in(document_in(path).get("history")):
        said = entry.get("message")
        if isinstance(said, dict):
            yield from _messages(said, entry.get("toolCallStates"))


def _messages(said: Record, states: object) -> Iterator[Message]:
    role = str(said.get("role"))
    calls = [each for each in said.get("toolCalls") or () if isinstance(each, dict)]
    yield Message(
        role=_ROLES.get(role, "system"),
        content=text_of(said.get("content")),
        tool_calls=[_call(each) for each in calls] or None,
        tool_call_id=said.get("toolCallId"),
        extra={INJECTED: True} if role == "system" else {},
    )
    for state in objects_in(states):
        texts = [str(each.get("content") or "") for each in objects_in(state.get("output"))]
        if texts:
            yield Message(
                role="tool",
                content="\n".join(texts),
                tool_name=within(state, "toolCall", "function").get("name"),
                tool_call_id=state.get("toolCallId"),
            )


def _call(said: Record) -> dict[str, Any]:
    function = within(said, "function")
    arguments = function.get("arguments")
    with contextlib.suppress(ValueError):  # truncated JSON: keep the string
        arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
    return tool_call(function.get("name"), arguments, said.get("id"))


def _read(path: Path) -> Unit:
    said = document_in(path)
    title = str(said.get("title") or "")
    return Unit(
        id=path.stem,
        active=path.stat().st_mtime,
        parts=(),
        cwd=str(said.get("workspaceDirectory") or "").removeprefix("file://"),
        title="" if title == _UNTITLED else title,
        model=_model(said),
        transcript=path,
        used=_used(said.get("usage")),
    )


def _used(said: object) -> Usage | None:
    """Continue's total for the session. Its messages have tokens too, but no correct cost."""
    if not isinstance(said, dict):
        return None
    tokens = tokens_in(
        {**said, "cached": within(said, "promptTokensDetails").get("cachedTokens")},
        input=("promptTokens",),
        output=("completionTokens",),
        cached=("cached",),
        cached_is_input=True,
    )
    return used(tokens, said.get("totalCost"))


def _model(said: Record) -> str:
    for entry in reversed(objects_in(said.get("history"))):
        if model := within(entry, "message", "usage").get("model"):
            return str(model)
    return str(said.get("chatModelTitle") or "")


def _is_document(said: Record) -> bool:
    return said.keys() >= _DOCUMENT


def _list(root: Path) -> object:
    try:
        return json.loads(read_file(root / "sessions" / _LIST))
    except (OSError, ValueError):
        return None


def _begun(root: Path) -> Mapping[str, float | None]:
    """The start time of each session: milliseconds, written as text."""
    return {
        str(each.get("sessionId")): moment(
            int(date) if (date := str(each.get("dateCreated"))).isdecimal() else date
        )
        for each in objects_in(_list(root))
    }


def _files(root: Path) -> Iterator[Path]:
    """Lazily: to recognise a home, the first few are enough."""
    folder = root / "sessions"
    names = (name for name in sorted(names_in(folder)) if name.endswith(".json"))
    return (folder / name for name in names if name != _LIST)
