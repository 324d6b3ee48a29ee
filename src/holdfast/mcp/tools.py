"""The tools of the MCP server. `server` offers them, and asks the user before one of them changes
files. Each call opens what it needs and closes it again.

The text of sessions goes through the redactor: an agent that reads another agent's sessions must
not learn its keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from holdfast.api.checkpoint_restore import CheckpointRestorePlan
from holdfast.api.exchange import redactor
from holdfast.api.home import Home
from holdfast.api.machine import Machine
from holdfast.api.machine_sessions import FoundSession
from holdfast.api.place import Place
from holdfast.errors import HoldfastError, UsageError
from holdfast.model.checkpoint import Checkpoint, Preview
from holdfast.model.durations import parse_moment
from holdfast.model.session import Hit, Json, Message, Search, SessionFilter
from holdfast.model.text import format_count, one_line
from holdfast.value import dataclass, replace

if TYPE_CHECKING:
    from holdfast.api.values import Redactor

Answer: TypeAlias = dict[str, Any]
#: Limits that keep an answer small enough for a model's context.
_MOST_SESSIONS = 100
_MOST_MESSAGES = 200
_MOST_TITLE = 200
_MOST_REASON = 200
_MOST_QUOTED = 80
_MOST_TEXT = 4_000
_MOST_PATCH = 40_000
_MOST_PATHS = 200
_AROUND = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """`home` is the home with the checkpoints; `machine` finds the homes of all agents, for each
    call. `command` is the shell command, with its flags, that runs Holdfast on that home."""

    home: Path
    command: str
    machine: Callable[[Sequence[str] | None], Machine]
    clock: Callable[[], float]

    @property
    def reading(self) -> Sequence[Callable[..., Answer]]:
        """The tools that change nothing. The server adds the others: `take_checkpoint` and, with
        its question to the user, `restore_checkpoint`."""
        return (
            self.search_sessions,
            self.list_sessions,
            self.read_session,
            self.list_checkpoints,
            self.diff_checkpoint,
            self.show_budgets,
        )

    # --- Sessions of all agents -------------------------------------------------------------------

    def search_sessions(
        self,
        query: str,
        agent: str | None = None,
        directory: str | None = None,
        since: str | None = None,
        limit: int = 10,
    ) -> Answer:
        """Search the messages of past sessions of every agent on this machine for words. `agent`
        and `directory` narrow the search; `since` is an age or a date: 2d, 3w or 2026-03-25."""
        now, redact = self.clock(), redactor()
        asked = Search(
            text=query,
            wanted=SessionFilter(cwd=directory),
            since=None if since is None else parse_moment(since, now=now),
            limit=_within(limit, _MOST_SESSIONS),
        )
        with self._machine(agent) as machine:
            found = machine.search_sessions(asked)
            return {
                "hits": [
                    {
                        "agent": home.agent,
                        "session": hit.session.id,
                        "title": _shown(redact, hit.session.title),
                        "role": hit.message.role,
                        "time": hit.message.timestamp,
                        "message": hit.message.number,
                        "text": _around(redact, hit),
                    }
                    for home, hit in found.hits
                ],
                **_unread(found.looked.unread),
            }

    def list_sessions(
        self,
        agent: str | None = None,
        directory: str | None = None,
        limit: int = 20,
        offset: int = 0,
    ) -> Answer:
        """List past sessions of every agent on this machine, the most recently active first."""
        redact = redactor()
        with self._machine(agent) as machine:
            page = machine.list_sessions(
                SessionFilter(cwd=directory),
                limit=_within(limit, _MOST_SESSIONS),
                offset=_at_least_0(offset),
                openings=True,
            )
            return {
                "sessions": [_session(redact, each) for each in page.found],
                "total": page.total,
                **_unread(page.looked.unread),
            }

    def read_session(self, session: str, last: int = 30, before: int | None = None) -> Answer:
        """Read the `last` messages of a session, or the `last` ones before message number `before`.
        `session` is its id or the beginning of its id."""
        redact, most = redactor(), _within(last, _MOST_MESSAGES)
        with self._machine(None) as machine:
            found = machine.resolve(session)
            sessions = machine.open(found.home).sessions
            messages = list(sessions.messages(found.id, last=most, before=before))
            about = sessions.get(found.id)
            return {
                "agent": found.home.agent,
                "session": found.id,
                "title": _shown(redact, about.title),
                "directory": about.cwd,
                "message_count": about.message_count,
                "messages": [_message(redact, each) for each in messages],
            }

    # --- Checkpoints ------------------------------------------------------------------------------

    def list_checkpoints(
        self, directory: str | None = None, session: str | None = None, limit: int = 20
    ) -> Answer:
        """List the checkpoints of a directory, of a session, or all of them, newest first.
        `session` is its id or the beginning of its id."""
        with self._home() as home:
            found = home.checkpoints.list(
                directory, session=session, limit=_within(limit, _MOST_PATHS)
            )
            if session is not None and not found and not home.checkpoints.has_session(session):
                with self._machine(None) as machine:
                    machine.expect(session, self._place())
        return {"checkpoints": [_checkpoint(each) for each in found]}

    def diff_checkpoint(
        self,
        checkpoint: str,
        other: str | None = None,
        paths: list[str] | None = None,
        patch: bool = False,
    ) -> Answer:
        """Show which files changed between a checkpoint and now, or between two checkpoints. With
        `patch`, also the changed lines."""
        with self._home() as home:
            found = home.checkpoints.diff(checkpoint, other, paths or ())
            text = b"".join(found.patch()).decode("utf-8", "replace") if patch else None
        answer: Answer = {
            "checkpoint": _checkpoint(found.old),
            "changes": [
                {"path": each.path, "kind": each.kind.value} for each in found.changes[:_MOST_PATHS]
            ],
            "total": len(found.changes),
        }
        if text is not None:
            answer["patch"] = _cut(redactor().text(text), _MOST_PATCH)
        return answer

    def take_checkpoint(
        self, directory: str, reason: str = "by an agent", session: str | None = None
    ) -> Answer:
        """Take a checkpoint of a directory as it is now, if it changed since its last one."""
        why = _in_short(reason, _MOST_REASON)
        with self._home() as home:
            taking = home.checkpoints.take(directory, reason=why, session=session)
        return {
            "outcome": taking.outcome.value,
            "checkpoint": taking.id,
            "reason": taking.reason,
            "not_captured": [
                {"path": each.path, "reason": each.reason}
                for each in taking.not_captured[:_MOST_PATHS]
            ],
        }

    @contextmanager
    def plan_restore(
        self, checkpoint: str, paths: list[str] | None, *, shown: Preview | None = None
    ) -> Iterator[CheckpointRestorePlan]:
        """Plan a restore; applying the plan does exactly what its preview shows. With `shown`, that
        is the preview that the user saw, and files that changed since are left alone."""
        with self._home() as home:
            plan = home.checkpoints.plan_restore(checkpoint, paths or ())
            yield plan if shown is None else replace(plan, preview=shown)

    # --- Budgets ----------------------------------------------------------------------------------

    def show_budgets(self) -> Answer:
        """Show the configured limits on tokens, cost and time, and what each agent has used: in
        total, and by day, source and model."""
        limits: Mapping[str, Any] = {}
        with self._home() as home:
            if home.config_file.exists():
                budgets = home.settings.guard_options().everywhere
                limits = {budget.value: limit for budget, limit in budgets.limits()}
        with self._machine(None) as machine:
            costs = machine.costs()
            return {
                "limits": dict(limits),
                "agents": [
                    {"agent": each.agent, "home": str(each.path), **totals.to_json()}
                    for each, totals in costs.seen
                ],
                **_unread(costs.unread),
            }

    # --- What they work on ------------------------------------------------------------------------

    def _machine(self, agent: str | None) -> Machine:
        return self.machine(None if agent is None else (agent,))

    def _home(self) -> Home:
        return Home(self._place())

    def _place(self) -> Place:
        return Place(self.home, clock=self.clock, command="holdfast mcp")


def restore_question(plan: CheckpointRestorePlan, command: str) -> str:
    """The question to the user before a restore. Our own words come first: text from a checkpoint's
    reason or a directory's name must not be able to pass for them."""
    written, deleted = len(plan.preview.written), len(plan.preview.deleted)
    reason = _in_short(redactor().text(plan.checkpoint.reason), _MOST_QUOTED)
    return (
        f"Write {format_count(written, 'path')} and delete {format_count(deleted, 'path')} to "
        f"restore checkpoint {plan.checkpoint.id[:12]}? `{command} undo` reverts it. "
        f'Directory: "{_in_short(plan.checkpoint.workdir, _MOST_TITLE)}". '
        f'Reason for the checkpoint: "{reason}".'
    )


def restored(plan: CheckpointRestorePlan, command: str) -> Answer:
    """Apply the plan, and return what was done."""
    done = plan.apply()
    return {
        "written": list(done.written),
        "deleted": list(done.deleted),
        "left_alone": [{"path": each.path, "reason": each.reason} for each in done.kept],
        "changed_meanwhile": [each.path for each in done.left],
        "safety_checkpoint": done.safety_checkpoint,
        "operation": done.operation,
        "undo": None if done.operation is None else f"{command} undo {done.operation}",
    }


def _in_short(text: str, most: int) -> str:
    """One line of limited length that can be quoted safely: without control characters, hidden
    characters or double quotes."""
    line = one_line(" ".join(text.split())).replace('"', "'")
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _session(redact: Redactor, found: FoundSession) -> Answer:
    session = found.session
    return {
        "agent": found.home.agent,
        "session": session.id,
        "title": _shown(redact, session.title or found.opening[:_MOST_TITLE] or None),
        "directory": session.cwd,
        "started_at": session.started_at,
        "last_active_at": session.last_active_at,
        "messages": session.message_count,
        "model": session.model,
    }


def _message(redact: Redactor, message: Message) -> Answer:
    safe = redact.message(message)
    answer: Answer = {
        "message": message.number,
        "role": message.role,
        "time": message.timestamp,
        "text": _cut(_text(safe.content), _MOST_TEXT),
    }
    if message.tool_name:
        answer["tool"] = message.tool_name
    if safe.tool_calls:
        answer["tool_calls"] = _cut(str(safe.tool_calls), _MOST_TEXT)
    return answer


def _around(redact: Redactor, hit: Hit) -> str:
    """The text around a match. The whole message is redacted before it is cut: half a key, or a key
    with match marks in it, would not be recognised."""
    safe = redact.message(hit.message)
    text = " ".join((_text(safe.content) or str(safe.tool_calls or "")).split())
    words = (hit.snippet[start:end] for start, end in hit.matches)
    at = min((at for each in words if (at := text.find(each)) >= 0), default=0)
    begin = max(0, at - _AROUND)
    cut = text[begin : at + 2 * _AROUND]
    return f"{'…' if begin else ''}{cut}{'…' if begin + len(cut) < len(text) else ''}"


def _text(content: Json) -> str:
    """The text of a message's content, in any of the agents' formats."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(_text(each) for each in content)
    if isinstance(content, dict):
        inner = content.get("text", content.get("content", ""))
        return _text(inner)
    return "" if content is None else str(content)


def _checkpoint(checkpoint: Checkpoint) -> Answer:
    return {
        "checkpoint": checkpoint.id,
        "time": checkpoint.time,
        "reason": redactor().text(checkpoint.reason),
        "directory": checkpoint.workdir,
        "session": checkpoint.session,
        "turn": checkpoint.turn,
        "files_changed": checkpoint.files_changed,
    }


def _unread(homes: Sequence[Any]) -> Answer:
    """The homes that could not be read, so that an empty answer is not taken for "nothing
    there"."""
    return {"not_read": [str(each.path) for each in homes]} if homes else {}


def _shown(redact: Redactor, text: str | None) -> str | None:
    return None if text is None else redact.text(text)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most:,} more characters)"


def _within(limit: int, most: int) -> int:
    if limit < 1:
        raise UsageError("A limit must be 1 or more.")
    return min(limit, most)


def _at_least_0(offset: int) -> int:
    if offset < 0:
        raise UsageError("An offset must be 0 or more.")
    return offset


def words_of(error: HoldfastError) -> str:
    """An error's text for a model. Hints with command-line flags are left out: it cannot use
    them."""
    message = error.message if error.message[-1:] in ".!?" else f"{error.message}."
    if error.hint is None or " --" in error.hint:
        return message
    return f"{message} {error.hint}"
