"""aider, to be read only: its home is the project, and one file there holds every chat.

.aider.chat.history.md    all chats of the project, one after the other, without ids
.aider.input.history      what the user typed
.aider.tags.cache.v*/     an index of the source files
.aider.model.*            settings

A chat is a section of a file that aider appends to, and its changes are commits on the user's
branch: a chat cannot be removed on its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from holdfast.homes.agents.agent_format import AgentFormat, facts_of
from holdfast.model.part import Known, Transcript, Unit
from holdfast.model.session import Message, Tokens
from holdfast.stores.files import open_file
from holdfast.value import dataclass, replace

_HISTORY = ".aider.chat.history.md"
#: Ours begins with `.aider`, too: aider puts `.aider*` into the user's .gitignore.
_STATE = ".aider.holdfast"
_BEGIN = b"# aider chat started at "
_USER, _NOTE = "#### ", "> "
#: A longer line is not part of a chat.
_MOST_LINE = 1024**2
_MODEL = re.compile(r"(?:Main m|M)odel: (\S+)")
_USED = re.compile(r"Tokens: ([\d.]+)(k|M)? sent,(?: ([\d.]+)(k|M)? cache \w+,)* ([\d.]+)(k|M)? re")
_COST = re.compile(r"Cost: \$([\d.]+) message")
_SCALE = {None: 1, "k": 1_000, "M": 1_000_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chat:
    """Where a chat begins in the file, and when it began."""

    id: str
    at: float
    offset: int
    end: int
    model: str = ""
    title: str = ""


class Aider(AgentFormat):
    facts = facts_of("aider", processes=("aider",), state=_STATE, read_only=True)
    left = (("tags-cache", ".aider.tags.cache.v*"), ("cache", "caches/*"))

    def recognise(self, root: Path) -> bool:
        """A project, or aider's own folder in the user's home."""
        own = root.name == self.facts.folder and (root / "installs.json").is_file()
        return own or (root / _HISTORY).is_file()

    def is_proven(self, root: Path) -> bool:
        """An empty file has no chat."""
        return (root / _HISTORY).stat().st_size > 0 if (root / _HISTORY).is_file() else True

    def doubt(self, root: Path) -> str | None:
        return "aider keeps all chats of a project in one file that only aider writes"

    def roots(self, root: Path) -> Sequence[Path]:
        """Only aider's files, not the project around them."""
        if root.name == self.facts.folder:
            return [root]
        return [path for path in sorted(root.glob(".aider*")) if path.name != _STATE]

    def units(self, root: Path, known: Known) -> Iterator[Unit]:
        path = root / _HISTORY
        for chat in _chats(path) if path.is_file() else ():
            known(path)  # all chats are in this file, so it tells whether any of them changed
            yield _unit(root, chat)

    def messages(self, root: Path, unit: Unit) -> Iterator[Message]:
        for chat in _chats(root / _HISTORY):
            if chat.id == unit.id:
                yield from spoken(root / _HISTORY, chat)

    def transcripts(self, path: Path) -> Iterator[Transcript] | None:
        with open_file(path) as file:
            if _BEGIN not in file.read(4_096):
                return None
        return (
            Transcript(path=path, unit=_unit(path.parent, chat), messages=spoken(path, chat))
            for chat in _chats(path)
        )


def _unit(root: Path, chat: _Chat) -> Unit:
    return Unit(
        id=chat.id,
        active=chat.at,
        started=chat.at,
        parts=(),
        cwd=str(root),
        title=chat.title,
        model=chat.model,
    )


def _chats(path: Path) -> Iterator[_Chat]:
    """The chats of a file, in order. A chat is named after the time when it began; if two began in
    the same second, the later one gets a number."""
    begun: _Chat | None = None
    taken: dict[str, int] = {}
    with open_file(path) as file:
        while line := file.readline(_MOST_LINE):
            if line.startswith(_BEGIN):
                offset = file.tell() - len(line)
                if begun is not None:
                    yield replace(begun, end=offset)
                begun = _begun(line, offset, taken)
            elif begun is not None and not (begun.model and begun.title):
                begun = _known(begun, line.decode(errors="replace"))
        if begun is not None:
            yield replace(begun, end=file.tell())


def _begun(line: bytes, offset: int, taken: dict[str, int]) -> _Chat | None:
    said = line.removeprefix(_BEGIN).decode(errors="replace").strip()
    try:
        at = datetime.fromisoformat(said)  # local time, without a zone
    except ValueError:
        return None
    name = f"{at:%Y%m%d_%H%M%S}"
    taken[name] = taken.get(name, 0) + 1
    name = name if taken[name] == 1 else f"{name}_{taken[name]}"
    return _Chat(id=name, at=at.timestamp(), offset=offset, end=offset)


def _known(chat: _Chat, line: str) -> _Chat:
    """Add what a line tells about a chat: the model, or the first prompt."""
    model = _MODEL.search(line) if line.startswith(_NOTE) and not chat.model else None
    if model is not None:
        return replace(chat, model=model[1])
    if line.startswith(_USER) and not chat.title:
        return replace(chat, title=line.removeprefix(_USER).strip())
    return chat


def spoken(path: Path, chat: _Chat) -> Iterator[Message]:
    """The messages of a chat. Lines of the user begin with one mark, aider's own notes with
    another; the rest is the model's. The tokens of an answer are noted below it."""
    role, lines = "", list[str]()
    with open_file(path) as file:
        file.seek(chat.offset)
        file.readline(_MOST_LINE)
        while file.tell() < chat.end and (raw := file.readline(_MOST_LINE)):
            line = raw.decode(errors="replace").rstrip("\n")
            if line.startswith(_NOTE):
                used = _used(line)
                if used is not None and role == "assistant":
                    yield from _message(role, lines, chat.at, *used)
                    role, lines = "", []
                continue
            speaker = "user" if line.startswith(_USER) else "assistant" if line.strip() else role
            if speaker != role:
                yield from _message(role, lines, chat.at)
                role, lines = speaker, []
            lines.append(line.removeprefix(_USER).rstrip() if speaker == "user" else line)
    yield from _message(role, lines, chat.at)


def _message(
    role: str, lines: Sequence[str], at: float, tokens: Tokens | None = None, cost: float = 0.0
) -> Iterator[Message]:
    text = "\n".join(lines).strip()
    if role and text:
        yield Message(role=role, content=text, timestamp=at, tokens=tokens, cost=cost or None)


def _used(line: str) -> tuple[Tokens, float] | None:
    found = _USED.search(line)
    if found is None:
        return None
    cost = _COST.search(line)
    return (
        Tokens(input=_number(found[1], found[2]), output=_number(found[5], found[6])),
        float(cost[1].rstrip(".")) if cost else 0.0,
    )


def _number(digits: str, scale: str | None) -> int:
    return round(float(digits.rstrip(".")) * _SCALE[scale])
