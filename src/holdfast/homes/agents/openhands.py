"""OpenHands, its command line.

conversations/ID/base_state.json           model, folder, usage and status of the conversation
conversations/ID/events/event-N-UUID.json  one file per event
conversations/ID/subagents/ID/             a subagent: a conversation in the same form
cache/                                     compiled templates, and a lock for skills

After a crash the status stays `running`, and the lock next to the events is never held: the only
sign of life is the agent's processes. Times are local, without a zone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from holdfast.homes.agents import signs_of_life as life
from holdfast.homes.agents.agent_format import AgentFormat, facts_of
from holdfast.homes.agents.json_lines import (
    INJECTED,
    Record,
    names_in,
    newest,
    settings_in,
    text_of,
    within,
)
from holdfast.homes.agents.message_blocks import tokens_in, tool_call, used
from holdfast.model.part import FolderPart, Known, Places, Role, Signs, Transcript, Unit
from holdfast.model.session import Json, Message, Relation
from holdfast.model.usage import Usage
from holdfast.value import replace

_STATE = "base_state.json"
_SUBAGENTS = "subagents"
#: Commands that can have conversations of any folder open: for editors, and for browsers.
_SERVERS = ("acp", "openhands-acp", "serve", "web")
#: Prefixes of the usage entries of subagents.
_DELEGATED = ("task:", "delegate:")
_KNOWN = {"id", "agent", "workspace", "execution_status"}
_ID = re.compile(r"[0-9a-f]{32}")
_EVENT = re.compile(r"event-(\d+)-.+\.json")


class OpenHands(AgentFormat):
    facts = facts_of(
        "openhands",
        processes=("openhands", "openhands-acp"),
        versions=("1.16.0",),
        places=Places(
            folders=("conversations/{id}",),
        ),
    )
    proofs = ("conversations/*/base_state.json", "conversations/*/events/event-*.json")
    left = (("cache", "cache/jinja/*"),)

    def recognise(self, root: Path) -> bool:
        return (root / "conversations").is_dir()

    def is_proof(self, path: Path) -> bool:
        name = path.parent.name if path.name == _STATE else path.parents[1].name
        return _ID.fullmatch(name) is not None

    def doubt(self, root: Path) -> str | None:
        path = newest(each / _STATE for each in _folders(root / "conversations"))
        said = settings_in(path) if path else {}
        if path and said and not said.keys() >= _KNOWN:
            return f"{path.parent.name}/{_STATE} has an unknown format"
        return None

    def units(self, root: Path, known: Known) -> Iterator[Unit]:
        for folder in _folders(root / "conversations"):
            yield _read(folder)
            yield from _subagents(folder, known)

    def messages(self, root: Path, unit: Unit) -> Iterator[Message]:
        """Only a subagent has a transcript, its folder; other conversations are found by id."""
        for path in _events(unit.transcript or root / "conversations" / unit.id):
            yield from _messages(settings_in(path))

    def written(self, root: Path, unit: Unit) -> Sequence[Path]:
        return _events(unit.transcript or root / "conversations" / unit.id)

    def signs(self, root: Path, now: float) -> Signs:
        """An editor names a folder for each conversation, independent of the working directory of
        the process."""
        return Signs(home=life.serving(self.facts.processes, _SERVERS))

    def transcripts(self, path: Path) -> Iterator[Transcript] | None:
        return None  # no single file has a whole conversation


def _messages(said: Record) -> Iterator[Message]:
    match said.get("kind"):
        case "SystemPromptEvent":
            text = text_of([said.get("system_prompt")])
            yield _message(said, "system", text, extra={INJECTED: True})
        case "MessageEvent":
            spoken = within(said, "llm_message")
            role = "user" if said.get("source") == "user" else "assistant"
            text = text_of(spoken.get("content"))
            yield _message(said, role, text, reasoning=spoken.get("reasoning_content"))
        case "ActionEvent":
            call = tool_call(said.get("tool_name"), _arguments(said), said.get("tool_call_id"))
            thought = text_of(said.get("thought"))
            reasoning = said.get("reasoning_content")
            yield _message(said, "assistant", thought, calls=[call], reasoning=reasoning)
        case "ObservationEvent":
            yield _message(said, "tool", text_of(within(said, "observation").get("content")))
        case "AgentErrorEvent" | "UserRejectObservation":
            yield _message(said, "tool", str(said.get("error") or said.get("rejection_reason")))
        case "Condensation":
            yield _message(said, "system", str(said.get("summary") or ""))
        case _:
            pass  # a change of state, a pause: no message


def _message(
    said: Record,
    role: str,
    text: str,
    *,
    calls: list[Json] | None = None,
    reasoning: object = None,
    extra: dict[str, Json] | None = None,
) -> Message:
    return Message(
        role=role,
        content=text,
        timestamp=_moment(said.get("timestamp")),
        tool_calls=calls,
        tool_name=said.get("tool_name") if role == "tool" else None,
        tool_call_id=said.get("tool_call_id") if role == "tool" else None,
        reasoning=reasoning if isinstance(reasoning, str) else None,
        extra=extra or {},
    )


def _arguments(said: Record) -> object:
    written = within(said, "tool_call").get("arguments")
    try:
        return json.loads(written) if isinstance(written, str) else said.get("action")
    except ValueError:
        return written


def _read(folder: Path) -> Unit:
    said = settings_in(folder / _STATE)
    events = _events(folder)
    times = [_moment(settings_in(path).get("timestamp")) for path in (*events[:1], *events[-1:])]
    return Unit(
        id=folder.name,
        active=(times[-1] if times else None) or folder.stat().st_mtime,
        parts=(FolderPart(path=folder, role=Role.REFERENCE),),
        started=times[0] if times else None,
        cwd=str(within(said, "workspace").get("working_dir") or ""),
        model=str(within(said, "agent", "llm").get("model") or ""),
        used=_used(within(said, "stats", "usage_to_metrics"), alone=(folder / _SUBAGENTS).is_dir()),
    )


def _used(metrics: Record, *, alone: bool) -> Usage | None:
    """The usage of all its models: the agent's own, and one that writes summaries. `alone` leaves
    out subagents, which are listed themselves."""
    total = Usage()
    for name, each in metrics.items():
        if not isinstance(each, dict) or (alone and name.startswith(_DELEGATED)):
            continue
        tokens = tokens_in(
            each.get("accumulated_token_usage"),
            input=("prompt_tokens",),
            output=("completion_tokens",),
            cached=("cache_read_tokens",),
            cached_is_input=True,
        )
        total = total.plus(used(tokens, each.get("accumulated_cost")) or Usage())
    return total if total.tokens.any else None


def _moment(value: object) -> float | None:
    """A time without a zone: this machine's local time."""
    try:
        return datetime.fromisoformat(value).timestamp() if isinstance(value, str) else None
    except (ValueError, OverflowError):
        return None


def _subagents(folder: Path, known: Known) -> Iterator[Unit]:
    """Subagents are stored in the folder of their conversation, and are removed and restored with
    it."""
    for child in _folders(folder / _SUBAGENTS):
        yield known(child) or replace(
            _read(child),
            parent=folder.name,
            relation=Relation.DELEGATE,
            parts=(),
            transcript=child,
        )
        yield from _subagents(child, known)


def _folders(folder: Path) -> list[Path]:
    """The conversations in a folder."""
    found = [folder / name for name in sorted(names_in(folder))]
    return [each for each in found if (each / _STATE).exists() or (each / "events").is_dir()]


def _events(folder: Path) -> list[Path]:
    """The event files, in order."""
    events = folder / "events"
    found = [(int(hit[1]), name) for name in names_in(events) if (hit := _EVENT.fullmatch(name))]
    return [events / name for _, name in sorted(found)]
