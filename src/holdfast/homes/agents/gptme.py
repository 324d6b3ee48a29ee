"""gptme.

logs/NAME/conversation.jsonl   the transcript, one message per line
logs/NAME/branches/*.jsonl     other branches of the same conversation
logs/NAME/                     events, settings, copies of attached files
logs/NAME/workspace            a link to the project, or a folder in which the agent works
logs/NAME/.lock                locked while a process has the conversation open; it stays behind

A conversation is its folder, and is moved as a whole. A folder `workspace` has the user's work: as
long as it holds a file, its conversation stays. With GPTME_LOGS_HOME, the home is the folder of the
conversations itself, without `logs`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from holdfast.homes.agents import signs_of_life as life
from holdfast.homes.agents.agent_format import AgentFormat, facts_of
from holdfast.homes.agents.json_lines import (
    INJECTED,
    Record,
    fields,
    first_records,
    is_plain_name,
    last_records,
    names_in,
    newest,
    opening,
    records,
    text_of,
    transcript_of,
    unit_of,
    within,
)
from holdfast.homes.agents.leftovers import leftover
from holdfast.homes.agents.message_blocks import tokens_in, tool_call
from holdfast.model.part import FolderPart, Known, Leftover, Places, Role, Signs, Transcript, Unit
from holdfast.model.session import Json, Message
from holdfast.value import replace

_TRANSCRIPT = "conversation.jsonl"
#: Created for every conversation, and never removed.
_LOCK = ".lock"
_WORKSPACE = "workspace"
#: What gptme creates before the first message. A folder among these must be empty.
_BEFORE_THE_FIRST = {
    _LOCK,
    ".events.jsonl.lock",
    "branches",
    "config.toml",
    "events.jsonl",
    "files",
    "model_selection_trace.json",
    "prompt-queue-closed",
    _WORKSPACE,
}
#: A tool call, as gptme writes it into the text of a message.
_CALL = re.compile(r"^@(\w+)\(([^)\n]*)\): (?=\{)", re.MULTILINE)
#: How a user message begins that gptme itself wrote.
_REMINDER = "<system>"


class Gptme(AgentFormat):
    facts = facts_of(
        "gptme",
        processes=("gptme", "gptme-server"),
        versions=("0",),
        places=Places(
            folders=("logs/{id}", "{id}"),
        ),
    )
    proofs = ("logs/*/conversation.jsonl", "*/conversation.jsonl")

    def recognise(self, root: Path) -> bool:
        """Many programs have a folder `logs`. Without conversations it is gptme's if the home is in
        the default place, or if we left nothing else there."""
        if any((_logs(root) / each / _TRANSCRIPT).is_file() for each in _names(root)):
            return True
        here = set(names_in(root))
        if here == {".holdfast"}:  # all conversations of this folder are in the trash or archived
            return (root / ".holdfast" / "index").is_dir()
        is_vibe = (root / "logs" / "session" / "unified").is_dir()
        is_left = here == {"logs", ".holdfast"} and not is_vibe
        return "logs" in here and (root.name == "gptme" or is_left)

    def is_proof(self, path: Path) -> bool:
        return any(_is_message(said) and "timestamp" in said for said in opening(path)[:1])

    def doubt(self, root: Path) -> str | None:
        """Transcripts name no version: the newest one must have the form we know."""
        latest = newest(_logs(root) / each / _TRANSCRIPT for each in _names(root))
        if latest is None:
            return None
        said = next(first_records(latest), None)
        if said is None or _is_message(said):
            return None
        return f"the messages of {latest.parent.name} have an unknown format"

    def units(self, root: Path, known: Known) -> Iterator[Unit]:
        for name in _names(root):
            folder = _logs(root) / name
            if (folder / _TRANSCRIPT).is_file():
                unit = unit_of(folder, known, _read, name=name)
                if unit is not None:
                    part = FolderPart(path=folder, role=Role.REFERENCE)
                    yield replace(unit, parts=(part,), transcript=folder / _TRANSCRIPT)

    def leftovers(self, root: Path) -> Iterator[Leftover]:
        """A conversation that ended before its first message leaves a folder without a transcript.
        With GPTME_LOGS_HOME, a folder may be anything else, too: any other file in it stays, and so
        does a folder without gptme's lock."""
        for name in _names(root):
            folder = _logs(root) / name
            if not folder.is_symlink() and _is_empty_conversation(folder):
                yield from leftover("empty-conversation", folder)

    def messages(self, root: Path, unit: Unit) -> Iterator[Message]:
        return spoken(transcript_of(unit))

    def signs(self, root: Path, now: float) -> Signs:
        """A process with an open conversation holds its lock. A server may open any conversation at
        any time."""
        return Signs(
            units=life.held({each: _logs(root) / each / _LOCK for each in _names(root)}),
            home=life.serving(("gptme", "gptme-server"), ("serve",))
            or life.serving(("gptme-server",), ("gptme-server",)),
        )

    def transcripts(self, path: Path) -> Iterator[Transcript] | None:
        """A conversation file, which may be anywhere; if it is in its own folder, that folder names
        it."""
        said = opening(path)
        if not said or not all(map(_is_message, said)) or "timestamp" not in said[0]:
            return None
        inside = path.name == _TRANSCRIPT and is_plain_name(path.parent.name)
        unit = _read(path.parent) if inside else _read_file(path, f"gptme-{path.stem}")
        return iter([Transcript(path=path, unit=unit, messages=spoken(path))])


def spoken(path: Path) -> Iterator[Message]:
    """The messages. A tool result is a system message that names the call."""
    for said in records(path):
        if _is_message(said):
            yield _message(said)


def _message(said: Record) -> Message:
    about = within(said, "metadata")
    text = text_of(said.get("content"))
    called = said.get("call_id")
    calls: list[Json] = [*_calls(text)] if said["role"] == "assistant" else []
    hidden = bool(said.get("hide")) or text.startswith(_REMINDER)
    return Message(
        role="tool" if called else str(said["role"]),
        content=text,
        timestamp=_moment(said),
        tool_name=about.get("tool") if called else None,
        tool_call_id=str(called) if called else None,
        tool_calls=calls or None,
        tokens=tokens_in(
            about.get("usage"),
            input=("input_tokens", "cache_creation_tokens"),
            output=("output_tokens",),
            cached=("cache_read_tokens",),
        ),
        cost=about.get("cost"),
        extra={INJECTED: True} if hidden else {},
    )


def _calls(text: str) -> Iterator[dict[str, Json]]:
    for found in _CALL.finditer(text):
        with contextlib.suppress(ValueError):
            arguments, _ = json.JSONDecoder().raw_decode(text, found.end())
            yield tool_call(found[1], arguments, found[2])


def _is_message(said: Record) -> bool:
    return isinstance(said.get("role"), str) and "content" in said


def _moment(said: Record) -> float | None:
    """gptme writes local time without a zone."""
    with contextlib.suppress(ValueError, TypeError, OverflowError):
        return datetime.fromisoformat(str(said.get("timestamp"))).timestamp()
    return None


def _logs(root: Path) -> Path:
    """The folder of the conversations. A conversation may itself be called `logs`."""
    inside = root / "logs"
    return root if (inside / _TRANSCRIPT).exists() or not inside.is_dir() else inside


def _names(root: Path) -> list[str]:
    return [each for each in sorted(names_in(_logs(root))) if not each.startswith(".")]


def _read(folder: Path) -> Unit:
    """The working directory is the target of the link `workspace`."""
    cwd = ""
    with contextlib.suppress(OSError):
        cwd = str((folder / _WORKSPACE).readlink())
    if not cwd and (folder / _WORKSPACE).is_dir():
        cwd = str(folder / _WORKSPACE)
    unit = _read_file(folder / _TRANSCRIPT, folder.name)
    return replace(unit, cwd=cwd, stays=_why_it_stays(folder))


def _why_it_stays(folder: Path) -> str:
    """A workspace inside the folder of a conversation is a project of the user, however long ago
    the last word of the conversation was: it stays while it holds anything but empty folders."""
    place = os.path.realpath(folder / _WORKSPACE)
    if not place.startswith(os.path.realpath(folder) + os.sep):
        return ""  # a link to a project elsewhere: only the link would go
    try:
        held = _holds_files(place)
    except OSError as error:
        return f"its folder {_WORKSPACE} cannot be read ({error.strerror})"
    return f"its folder {_WORKSPACE} holds files" if held else ""


def _holds_files(folder: str) -> bool:
    """True if there is anything but folders below a folder, which may be missing."""
    try:
        with os.scandir(folder) as entries:
            return any(
                not each.is_dir(follow_symlinks=False) or _holds_files(each.path)
                for each in entries
            )
    except FileNotFoundError:
        return False
    except NotADirectoryError:  # it is a file itself
        return True


def _is_empty_conversation(folder: Path) -> bool:
    """True if gptme created a folder and nobody has put anything into it since."""
    names = set(names_in(folder))
    if _LOCK not in names or not names <= _BEFORE_THE_FIRST:
        return False
    inside = (folder / each for each in names)
    return not any(each.is_dir() and not each.is_symlink() and names_in(each) for each in inside)


def _read_file(path: Path, name: str) -> Unit:
    times = (_moment(said) for said in last_records(path))
    found = fields((within(said, "metadata") for said in last_records(path)), "model")
    return Unit(
        id=name,
        active=next((at for at in times if at), None) or path.stat().st_mtime,
        parts=(),
        started=next((at for at in map(_moment, first_records(path)) if at), None),
        model=str(found.get("model") or ""),
        transcript=path,
    )
