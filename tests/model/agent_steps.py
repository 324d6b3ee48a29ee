"""What an agent does: it talks, resets, ends, delivers, and dies. Time passes, too."""

from __future__ import annotations

import json
from typing import Any

from tests.model.judge import ANY, Step
from tests.model.kept import AGENT, ARCHIVE, DEAD, RELEASED, STORE, TRASH, Bundle, Edit, Session
from tests.model.look import SeenSession
from tests.model.removal_steps import remove
from tests.model.run import (
    DAY,
    HOUR,
    SOURCES,
    Run,
    Steps,
    a_session,
    agent_gone,
    pick,
    totals,
)
from tests.model.world import AgentError

KEYS = ("chat:1", "chat:2")
RELATIONS = ("branch", "continuation", "delegate")
_JUMPS = (60.0, HOUR, 13 * HOUR, DAY, 2 * DAY, 8 * DAY, 31 * DAY, 101 * DAY)


def create(run: Run, a: int, b: int, c: int) -> Step | None:
    parent = pick(run.model.here(), b) if a % 3 else None
    relation = RELATIONS[c % 3] if parent else None
    title = f"Title {c}" if c % 4 == 0 else None
    made = a_session(run.model.next_id(), SOURCES[a % 4], run.now, relation=relation, title=title)
    made.parent = parent
    run.model.sessions.append(made)
    answer = run.ask(
        "create",
        source=made.line["source"],
        id=made.id,
        title=title,
        parent_id=None if parent is None else parent.id,
        relation=relation,
    )
    step = Step()
    step.move(made, STORE)
    step.changes[made] = [{"holder": AGENT if run.world.agent else DEAD}]
    return sure(run, step, answer)


def sure(run: Run, step: Step, answer: Any) -> Step:
    """An answer is a promise, whatever else happened; only without one anything may be."""
    step.faulty = run.fault is not None and (answer is None or isinstance(answer, AgentError))
    if run.fault is None:
        assert not isinstance(answer, AgentError), answer.message
    return step


def append(run: Run, a: int, b: int, c: int) -> Step | None:
    session = pick(run.model.here(), a)
    if session is None:
        return None
    said = [
        {
            "role": ("user", "assistant", "tool")[(b + n) % 3],
            "content": f"zebra {session.id} {len(session.messages) + n}",
            "tokens": (c + n) % 50,
        }
        for n in range(1 + b % 4)
    ]
    answer = run.ask("append", session.id, said)
    if session.ended:
        assert run.fault or isinstance(answer, AgentError), f"{session} took messages after its end"
        return Step(faulty=run.fault is not None)
    spoken = [each | {"timestamp": run.now} for each in said]
    messages = [*session.messages, *spoken]
    holder = {"holder": AGENT if run.world.agent else DEAD}
    step = Step(grown=[f"{session.id}.jsonl"])
    step.changes[session] = [{"messages": messages, **totals(messages), **holder}]
    return sure(run, step, answer)


def end(run: Run, a: int, b: int, c: int) -> Step | None:
    here = run.model.here()
    session = pick([each for each in here if not each.ended or c % 5 == 0], a)
    if session is None:
        return None
    if b % 3 == 0:
        return _end_by_command(run, session)
    answer = run.ask("end", session.id, "done")
    step = Step()
    if not session.ended:
        change = {"ended_at": run.now, "end_reason": "done", "holder": None}
        step.changes[session] = [change]
    return sure(run, step, answer)


def _end_by_command(run: Run, session: Session) -> Step:
    """One that a process holds is left alone."""
    held = session.holder == AGENT
    codes = (0, 1, 2, 4) if held or session.ended else (0,)
    run.command("sessions", "end", session.id, codes=codes)
    step = Step(faulty=run.fault is not None)
    if not held and not session.ended:
        ended = {"ended_at": run.now, "end_reason": "ended", "ended_by": ANY}
        step.changes[session] = [ended]
    return step


def reopen(run: Run, a: int, _b: int, _c: int) -> Step | None:
    session = pick([each for each in run.model.here() if each.ended], a)
    if session is None:
        return None
    answer = run.ask("reopen", session.id)
    step = Step()
    holder = AGENT if run.world.agent else DEAD
    change = {"ended_at": None, "end_reason": None, "holder": holder, "reopened_at": run.now}
    step.changes[session] = [change]
    return sure(run, step, answer)


def rename(run: Run, a: int, b: int, c: int) -> Step | None:
    session = pick(run.model.here(), a)
    if session is None:
        return None
    title = f"Name {b}" if b % 3 else None
    step = Step()
    step.changes[session] = [{"title": title}]
    if c % 2:
        return sure(run, step, run.ask("rename", session.id, title))
    step.edit = _edit(session, "title", title)
    run.command("sessions", "rename", session.id, title or "")
    step.faulty = run.fault is not None
    return step


def _edit(session: Session, field: str, after: Any) -> Edit:
    """What a person changes can be undone; what the agent itself changes is part of its work."""
    made = Edit(session=session.id, field=field, before=None, after=after)
    made.before = made.value(session.line, session.row)
    return made


def pin(run: Run, a: int, b: int, c: int) -> Step | None:
    session = pick(run.model.here(), a)
    if session is None:
        return None
    pinned = b % 3 != 0
    step = Step()
    step.changes[session] = [{"pinned": pinned}]
    if c % 2:
        return sure(run, step, run.ask("pin", session.id, pinned))
    step.edit = _edit(session, "pinned", pinned)
    run.command("sessions", "pin" if pinned else "unpin", session.id)
    step.faulty = run.fault is not None
    return step


def dump(run: Run, a: int, _b: int, c: int) -> Step | None:
    session = pick(run.model.here(), a)
    if session is None:
        return None
    answer = run.ask("dump_request", session.id, {"request": c})
    return sure(run, Step(grown=[f"request_dump_{session.id}_"]), answer)


def talk(run: Run, a: int, b: int, _: int) -> Step | None:
    """A chat asks for its session."""
    key = KEYS[a % 2]
    routed = next((each for each in run.model.here() if each.key == key), None)
    if routed is None:
        step = Step(adopt=lambda seen: _adopted(run, seen, SOURCES[b % 3], key))
        return sure(run, step, run.ask("current", key, source=SOURCES[b % 3]))
    if not routed.ended:
        step = Step()
        step.changes[routed] = [{"holder": AGENT if run.world.agent else DEAD}]
        return sure(run, step, run.ask("current", key, source=SOURCES[b % 3]))
    step = _reset(run, routed, key)
    return sure(run, step, run.ask("current", key, source=SOURCES[b % 3]))


def reset(run: Run, a: int, _b: int, _c: int) -> Step | None:
    key = KEYS[a % 2]
    routed = next((each for each in run.model.here() if each.key == key), None)
    if routed is None:
        return None
    step = _reset(run, routed, key)
    return sure(run, step, run.ask("reset", key))


def _reset(run: Run, old: Session, key: str) -> Step:
    """The old one ends, a new one has the key, and the files go where the configuration says."""
    step = Step(adopt=lambda seen: _adopted(run, seen, old.line["source"], key))
    change: dict[str, Any] = {"key": None, "holder": None}
    if not old.ended:
        change |= {"ended_at": run.now, "end_reason": "session_reset"}
    step.changes[old] = [change]
    files = run.model.files_of(old)
    for each in files if run.options.on_reset != "keep" else ():
        step.move(each, TRASH if run.options.on_reset == "delete" else ARCHIVE)
    if files and run.options.on_reset == "archive":
        bundle = Bundle(id=old.id, session=old, files=files)
        run.model.bundles.append(bundle)
        step.move(bundle, ARCHIVE)
    return step


def _adopted(run: Run, seen: SeenSession, source: str, key: str) -> Session | None:
    """A session that a reset or a chat began, under an id of its own making."""
    made = a_session(seen.line["id"], source, run.now)
    made.place, made.key = STORE, key
    made.holder = AGENT if run.world.agent else DEAD
    fits = (seen.line, seen.row, seen.key) == (made.line, made.row, key)
    return made if fits else None


def deliver(run: Run, a: int, _b: int, _c: int) -> Step | None:
    """A cron job's result has reached its reader."""
    session = pick([e for e in run.model.here() if e.line["source"] == "cron" and not e.ended], a)
    if session is None:
        return None
    step = Step()
    step.changes[session] = [{"ended_at": run.now, "end_reason": "delivered", "holder": None}]
    if run.options.remove_delivered and not session.row["pinned"]:
        remove(run, step, session, TRASH)
        session.line = session.line | {"ended_at": run.now, "end_reason": "delivered"}
        session.holder = session.holder if run.fault else None
    return sure(run, step, run.ask("delivered", session.id))


def die(run: Run, a: int, _b: int, _c: int) -> Step | None:
    """The agent is killed, or goes in peace. Its sessions stay as they are."""
    if run.world.agent is None:
        return None
    if a % 3:
        run.world.kill_agent()
    else:
        run.world.close_agent()
    agent_gone(run.model, DEAD if a % 3 else RELEASED)
    return Step()


def wait(run: Run, a: int, _b: int, _c: int) -> Step | None:
    """Time passes, and sometimes a clock is set back."""
    jump = -30 * 60.0 if a % 13 == 0 else pick(_JUMPS, a) or 0.0
    run.world.now += jump
    run.told.append(f"it is {jump:.0f} s later")
    return Step()


def stray(run: Run, a: int, _b: int, c: int) -> Step | None:
    """A file for a session that is not in the store: an agent that was late, or another copy."""
    elsewhere = [each for each in run.model.sessions if not each.here]
    session = pick(elsewhere, a)
    if session is None or run.model.stored(session.id) or not session.messages:
        return None
    path = run.world.files / f"{session.id}.jsonl"
    if path.exists():
        return None
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_text(json.dumps({"session_id": session.id, "stray": c}) + "\n")
    return Step(grown=[path.name])


STEPS: Steps = {
    "create": (8, create),
    "append": (10, append),
    "end": (8, end),
    "reopen": (2, reopen),
    "rename": (2, rename),
    "pin": (3, pin),
    "dump": (3, dump),
    "talk": (3, talk),
    "reset": (3, reset),
    "deliver": (1, deliver),
    "die": (2, die),
    "wait": (9, wait),
    "stray": (1, stray),
}
