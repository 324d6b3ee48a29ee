"""Subagents that leave with their session: a pin, a long conversation or a late activity of one
keeps the session, in every home whose agent stores the subagents with it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

import holdfast
from holdfast import Home
from holdfast.model.item import SESSION
from tests.contract.agent_homes import DAY, FOUR, NOW
from tests.contract.agents import cline, kimi_code, openhands, qwen, vibe
from tests.contract.agents.home import AgentHome

CLAUDE, CODEX, GEMINI, _ = FOUR
CODEX_CHILD = "01a1e1fd-dfcd-7650-aace-bd92297dd347"
#: More messages than the parent of any sample, and a bound between the two.
MANY, BOUND = 60, 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A session of a recorded home with a subagent. `add` makes the subagent if the recording has
    none, `grow` lets it say a lot."""

    agent: AgentHome
    child: str
    grow: Callable[[Path], object]
    add: Callable[[Path], object] = lambda _: None
    #: Makes the subagent the last to be active, where the agent records that.
    use: Callable[[Path, float], object] | None = None
    of: str = ""

    def home(self, root: Path) -> Home:
        self.agent.make(root)
        self.add(root)
        return opened(root)

    @property
    def parent(self) -> str:
        return self.of or self.agent.whole


def opened(root: Path) -> Home:
    return holdfast.open(root, clock=lambda: NOW)


def repeat(path: Path, *types: str) -> None:
    """Append the lines of these types again and again, with ids of their own."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    said = [each for each in lines if each.get("type") in types]
    with path.open("a") as file:
        for number in range(MANY):
            new = dict(said[number % len(said)])
            new |= {name: f"n{number}" for name in ("uuid", "id") if name in new}
            if isinstance(new.get("message"), dict) and "id" in new["message"]:
                new["message"] = new["message"] | {"id": f"m{number}"}
            file.write(json.dumps(new) + "\n")


def in_claude(root: Path) -> Path:
    return next(root.glob("projects/*/*/subagents/agent-*.jsonl"))


def in_qwen(root: Path) -> Path:
    return next(root.glob("projects/*/subagents/*/agent-*.jsonl"))


def in_cline(root: Path) -> Path:
    return next(root.glob("sessions/*/agent_*.messages.json"))


def grow_cline(root: Path) -> None:
    said = json.loads(in_cline(root).read_text())
    said["messages"] *= MANY
    in_cline(root).write_text(json.dumps(said))


def in_gemini(root: Path) -> Path:
    return root / "tmp" / "project" / "chats" / GEMINI.whole / "helper.jsonl"


def add_gemini(root: Path) -> None:
    other = next(
        path
        for path in root.glob("tmp/*/chats/session-*.jsonl")
        if GEMINI.whole[:8] not in path.name
    )
    in_gemini(root).parent.mkdir()
    in_gemini(root).write_text(other.read_text())


def in_kimi(root: Path) -> Path:
    folder = next(root.glob(f"sessions/*/{kimi_code.HOME.whole}"))
    return folder / "agents" / "helper" / "wire.jsonl"


def add_kimi(root: Path) -> None:
    other = in_kimi(root).parents[1] / "main" / "wire.jsonl"
    in_kimi(root).parent.mkdir()
    in_kimi(root).write_text("".join(other.read_text().splitlines(keepends=True)[:20]))


def grow_kimi(root: Path) -> None:
    main = in_kimi(root).parents[1] / "main" / "wire.jsonl"
    lines = [line for line in main.read_text().splitlines() if '"context.append_message"' in line]
    with in_kimi(root).open("a") as file:
        file.writelines(f"{lines[number % len(lines)]}\n" for number in range(MANY))


def grow_openhands(root: Path) -> None:
    events = next(root.glob(f"conversations/*/subagents/{openhands.CHILD}/events"))
    last = max(events.glob("event-*.json"))
    for number in range(100, 100 + MANY):
        (events / f"event-{number:05}-{number}.json").write_text(last.read_text())


def add_codex(root: Path) -> None:
    with closing(sqlite3.connect(root / "state_5.sqlite")) as db, db:
        db.execute(
            "INSERT INTO thread_spawn_edges (parent_thread_id, child_thread_id, status)"
            " VALUES (?, ?, 'closed')",
            (CODEX.whole, CODEX_CHILD),
        )


def grow_codex(root: Path) -> None:
    repeat(next(root.glob(f"sessions/*/*/*/*{CODEX_CHILD}.jsonl")), "response_item")


def moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat()


def says_when(find: Callable[[Path], Path]) -> Callable[[Path, float], None]:
    def use(root: Path, at: float) -> None:
        lines = find(root).read_text().splitlines()
        last = json.loads(lines[-1])
        with find(root).open("a") as file:
            file.write(json.dumps(last | {"timestamp": moment(at), "uuid": "late"}) + "\n")

    return use


def use_gemini(root: Path, at: float) -> None:
    with in_gemini(root).open("a") as file:
        file.write(json.dumps({"$set": {"lastUpdated": moment(at)}}) + "\n")


def use_cline(root: Path, at: float) -> None:
    with closing(sqlite3.connect(root / "db" / "sessions.db")) as db, db:
        db.execute(
            "UPDATE sessions SET updated_at = ? WHERE parent_session_id IS NOT NULL", (moment(at),)
        )


def use_codex(root: Path, at: float) -> None:
    with closing(sqlite3.connect(root / "state_5.sqlite")) as db, db:
        row = (int(at * 1000), CODEX_CHILD)
        db.execute("UPDATE threads SET recency_at_ms = ? WHERE id = ?", row)


INNER = (
    Family(
        agent=CLAUDE,
        child="agent-a80b2ea1420c07006",
        grow=lambda root: repeat(in_claude(root), "user", "assistant"),
        use=says_when(in_claude),
    ),
    Family(
        agent=qwen.HOME,
        child="agent-general-purpose-call_5445a05d1e51",
        grow=lambda root: repeat(in_qwen(root), "user", "assistant"),
        use=says_when(in_qwen),
    ),
    Family(
        agent=cline.HOME,
        of="1794804542844_ftbu3",
        child="1794804542844_ftbu3__agent_1794804543754_o0idww",
        grow=grow_cline,
        use=use_cline,
    ),
    Family(
        agent=GEMINI,
        child="helper",
        add=add_gemini,
        grow=lambda root: repeat(in_gemini(root), "user", "gemini"),
        use=use_gemini,
    ),
    Family(
        agent=kimi_code.HOME,
        child=f"{kimi_code.HOME.whole}.helper",
        add=add_kimi,
        grow=grow_kimi,
    ),
    Family(
        agent=openhands.HOME,
        child=openhands.CHILD,
        add=openhands.add_subagent,
        grow=grow_openhands,
    ),
)
#: These subagents have parts of their own, but the agent deletes them with their session.
BESIDE = (
    Family(agent=CODEX, child=CODEX_CHILD, add=add_codex, grow=grow_codex, use=use_codex),
    Family(
        agent=vibe.HOME,
        child="child-ae909952595d7c9794382cd6",
        add=vibe.add_subagent,
        grow=lambda _: None,
    ),
)
EVERY = (*INNER, *BESIDE)


def names(families: tuple[Family, ...]) -> list[str]:
    return [each.agent.name for each in families]


def going(plan: holdfast.HomePlan) -> set[str]:
    return {item.id for item in plan.removals if item.kind == SESSION}


def why(plan: holdfast.HomePlan, name: str) -> str:
    [reason] = [item.reason for item in plan.items if item.id == name and item.kind == SESSION]
    return reason


@pytest.mark.parametrize("family", EVERY, ids=names(EVERY))
def test_a_pinned_subagent_keeps_its_session(family: Family, tmp_path: Path) -> None:
    with family.home(tmp_path / "home") as home:
        home.pin_sessions([family.child])
        for plan in (
            home.plan_prune(older_than="90d", use_trash=False),
            home.plan_gc(trivial_max=BOUND, use_trash=False),
            home.plan_delete([family.parent], use_trash=False),
            home.plan_archive(wanted=holdfast.SessionFilter(active_before=NOW)),
        ):
            assert why(plan, family.parent) == "one of its delegates stays: pinned"
            assert not {family.parent, family.child} & going(plan)
            assert not plan.apply().failed
        assert home.sessions.get(family.child).parent_id == family.parent
        assert [*home.sessions.messages(family.child)]


@pytest.mark.parametrize("family", EVERY, ids=names(EVERY))
def test_a_pinned_subagent_goes_if_it_is_named_with_its_session(
    family: Family, tmp_path: Path
) -> None:
    with family.home(tmp_path / "home") as home:
        home.pin_sessions([family.child])
        report = home.delete([family.parent, family.child])
        assert not {family.parent, family.child} & {each.id for each in home.sessions.find()}
        assert not report.undo().failed
        assert home.sessions.get(family.child).pinned


@pytest.mark.parametrize("family", INNER, ids=names(INNER))
def test_a_subagent_pinned_after_the_plan_keeps_its_session(family: Family, tmp_path: Path) -> None:
    with family.home(tmp_path / "home") as home:
        plan = home.plan_prune(older_than="90d", use_trash=False)
        assert family.parent in going(plan)
        home.pin_sessions([family.child])
        [kept] = [each for each in plan.apply().outcomes if each.id == family.parent]
        assert kept.reason == f"{family.child}, which is inside it, is pinned"
        assert [*home.sessions.messages(family.child)]


@pytest.mark.parametrize("family", EVERY[:-1], ids=names(EVERY[:-1]))
def test_gc_leaves_a_short_session_with_a_long_subagent(family: Family, tmp_path: Path) -> None:
    with family.home(tmp_path / "home") as home:
        assert family.parent in going(home.plan_gc(trivial_max=BOUND))
    family.grow(tmp_path / "home")
    with opened(tmp_path / "home") as home:
        plan = home.plan_gc(trivial_max=BOUND)
        assert not {family.parent, family.child} & going(plan)
        assert why(plan, family.parent).startswith("one of its delegates stays: substantial")


USED = tuple(each for each in EVERY if each.use is not None)


@pytest.mark.parametrize("family", USED, ids=names(USED))
def test_the_age_of_a_session_is_that_of_its_subagents(family: Family, tmp_path: Path) -> None:
    with family.home(tmp_path / "home") as home:
        assert family.parent in going(home.plan_prune(older_than="90d"))
    assert family.use is not None
    family.use(tmp_path / "home", NOW - 2 * DAY)
    with opened(tmp_path / "home") as home:
        plan = home.plan_prune(older_than="90d")
        assert not {family.parent, family.child} & going(plan)
        assert why(plan, family.parent) == "active within 90 d"
        assert home.sessions.get(family.parent).last_active_at == pytest.approx(NOW - 2 * DAY)
        assert family.parent in going(home.plan_prune(older_than="1d"))
