"""What Hermes means by its own flags and fields, obeyed: turns taken back, sessions archived in
Hermes, delegates, titles, auxiliary usage."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import UsageError
from holdfast.homes.hermes.state_db import values
from holdfast.model.item import SESSION
from holdfast.model.plan import Plan
from holdfast.model.session import Search, SessionFilter
from holdfast.policy.rules import DAY, Caps, GcRules, Limits, Policy, Rules
from holdfast.policy.session_filter import Selection
from holdfast.services.plans import plan_delete, plan_home_gc, plan_prune
from tests.cli.machine import Machine
from tests.compat.hermes_sessions import (
    NOW,
    OLD,
    applied,
    database,
    deleted,
    opened,
    prune_plan,
    recorded,
    session_ids,
    undone,
)
from tests.stored import usage_of

FIRST = "20260101_101010_aaaaaa"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(root=tmp_path)
    made.user.mkdir()
    recorded(tmp_path).rename(made.user / ".hermes")
    return made


@pytest.fixture
def root(machine: Machine) -> Path:
    return machine.user / ".hermes"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One home for many examples, of which each sets what it looks at."""
    return recorded(tmp_path_factory.mktemp("shared"))


# --- Turns taken back -----------------------------------------------------------------------------


def take_back(root: Path, flags: list[tuple[int, int]]) -> list[tuple[int, str]]:
    """Messages with these flags (active, compacted) in place of those of the first session; the
    number and the text of each."""
    with database(root) as db:
        db.execute("DELETE FROM messages WHERE session_id = ?", (FIRST,))
        made = []
        for place, (active, compacted) in enumerate(flags):
            text = f"walrus{place} walrus 海象{place}"
            number = db.execute(
                "INSERT INTO messages (session_id, role, content, timestamp, active, compacted) "
                "VALUES (?, 'user', ?, ?, ?, ?)",
                (FIRST, text, NOW - 200 * 86_400 + place, active, compacted),
            ).lastrowid
            made.append((number or 0, text))
    return made


@settings(max_examples=15)
@given(flags=st.lists(st.sampled_from([(1, 0), (0, 1), (0, 0)]), max_size=8))
def test_what_was_taken_back_is_kept_and_not_said(
    shared: Path, flags: list[tuple[int, int]]
) -> None:
    """What Hermes summed up was said; what its user took back was not."""
    made = take_back(shared, flags)
    said = [each for each, flag in zip(made, flags, strict=True) if flag != (0, 0)]
    store = opened(shared).session_store()
    assert store is not None
    assert store.get(FIRST).message_count == len(said)
    read = [(m.number, m.content) for m in store.messages(FIRST) if not m.taken_back]
    assert read == said
    assert len(list(store.messages(FIRST))) == len(made), "an archive has all of it"
    for query in ("walrus", "海象", "walrus -nothing"):
        hits = store.search(Search(text=query, limit=100))
        assert sorted(hit.message.number or 0 for hit in hits) == [number for number, _ in said]
    store.close()


def test_what_was_taken_back_is_told_and_shown_when_asked_for(machine: Machine, root: Path) -> None:
    take_back(root, [(1, 0), (0, 0), (0, 1)])
    shown = machine.ok("--home", str(root), "sessions", "show", FIRST).out
    assert "walrus0" in shown
    assert "walrus2" in shown
    assert "walrus1" not in shown
    assert "1 message was taken back" in shown
    whole = machine.ok("--home", str(root), "sessions", "show", FIRST, "--taken-back").out
    assert "walrus1" in whole
    assert "taken back" in whole
    last = machine.json("--home", str(root), "sessions", "show", FIRST, "--last", "2")
    assert [each["content"][:7] for each in last["messages"]] == ["walrus0", "walrus2"]
    assert last["taken_back"] == 1
    [listed] = [
        each
        for each in machine.json("--home", str(root), "sessions", "list", "--limit", "100")[
            "sessions"
        ]
        if each["id"] == FIRST
    ]
    assert listed["message_count"] == 2


def test_exports_mark_what_was_taken_back_and_an_import_keeps_the_mark(
    machine: Machine, root: Path
) -> None:
    take_back(root, [(1, 0), (0, 0), (0, 1)])
    file, again = machine.root / "one.jsonl", machine.root / "two.jsonl"
    machine.ok("--home", str(root), "sessions", "export", FIRST, "--output", str(file))
    line = json.loads(file.read_text())
    assert [each.get("taken_back") for each in line["messages"]] == [None, True, None]
    pages = machine.ok("--home", str(root), "sessions", "export", FIRST, "--format", "markdown").out
    assert pages.count("taken back") == 1
    machine.ok("sessions", "import", str(file))
    machine.ok("--home", str(machine.home), "sessions", "export", FIRST, "--output", str(again))
    assert again.read_bytes() == file.read_bytes()
    shown = machine.ok("--home", str(machine.home), "sessions", "show", FIRST).out
    assert "walrus1" not in shown
    assert "1 message was taken back" in shown
    for words in (["walrus1"], ["--part", "alrus1"], ["海象1"]):
        assert machine.json("--home", str(machine.home), "sessions", "search", *words)["hits"] == []
    assert (
        len(machine.json("--home", str(machine.home), "sessions", "search", "walrus")["hits"]) == 2
    )


# --- Archived in Hermes ---------------------------------------------------------------------------


def archive_in_hermes(root: Path, ids: set[str]) -> None:
    with database(root) as db:
        db.execute(
            "UPDATE sessions SET archived = id IN (SELECT value FROM json_each(?))",
            (json.dumps(sorted(ids)),),
        )


def removed(made: Plan) -> set[str]:
    return {item.id for item in made.removals if item.kind == SESSION}


@settings(max_examples=15)
@given(put_away=st.sets(st.sampled_from(sorted(OLD))))
def test_no_rule_and_no_cap_takes_what_was_archived_in_hermes(
    shared: Path, put_away: set[str]
) -> None:
    archive_in_hermes(shared, put_away)
    home = opened(shared)
    old = Policy(everywhere=Limits(rules=Rules(max_age=90 * DAY), caps=Caps(max_count=1)))
    made, _ = plan_prune(home, old, now=NOW, command="prune", selection=Selection())
    assert removed(made) >= OLD - put_away
    assert not removed(made) & put_away
    kept = {item.id: item.reason for item in made.kept}
    assert {kept[name] for name in put_away} <= {"archived in Hermes"}
    little = GcRules(empty_after=1, trivial_after=1, trivial_max=100)
    gc, _ = plan_home_gc(
        home, little, Policy(), now=NOW, command="sessions gc", wanted=SessionFilter()
    )
    assert not removed(gc) & put_away
    wanted = Selection(sessions=SessionFilter(agent_archived=True))
    too, _ = plan_prune(
        home, replace(old, agent_archived=True), now=NOW, command="prune", selection=wanted
    )
    assert removed(too) == put_away
    named = plan_delete(home, sorted(put_away) or [FIRST], now=NOW, command="sessions delete")
    assert removed(named) >= put_away, "a person who names it may delete it"


def test_a_session_that_is_archived_in_hermes_after_the_plan_is_left_alone(root: Path) -> None:
    made = prune_plan(root)
    archive_in_hermes(root, {FIRST})
    report = applied(root, made)
    reasons = {each.id: each.reason for each in report.outcomes}
    assert reasons[FIRST] == "changed since the plan was made"
    assert FIRST in session_ids(root)


def test_the_filter_shows_and_takes_what_was_archived_in_hermes(
    machine: Machine, root: Path
) -> None:
    archive_in_hermes(root, {FIRST})
    home = ("--home", str(root))
    listed = machine.json(*home, "sessions", "list", "--agent-archived")["sessions"]
    assert [each["id"] for each in listed] == [FIRST]
    plain = machine.json(*home, "sessions", "prune", "--older-than", "1d", "--dry-run")
    [kept] = [each for each in plain["plan"]["items"] if each["id"] == FIRST]
    assert (kept["action"], kept["reason"]) == ("keep", "archived in Hermes")
    asked = ("sessions", "prune", "--older-than", "1d", "--agent-archived", "--yes")
    assert machine.json(*home, *asked)["applied"]
    assert FIRST not in session_ids(root)


# --- Auxiliary usage ------------------------------------------------------------------------------


@settings(max_examples=8)
@given(
    used=st.lists(
        st.tuples(
            st.sampled_from(["", "vision", "compression"]),
            st.sampled_from(["some/model", "other/model", ""]),
            st.sampled_from(["", "provider"]),
            st.integers(0, 1000),
            st.sampled_from([0.0, 0.5]),
        ),
        max_size=6,
        unique_by=lambda each: each[:3],
    )
)
def test_what_auxiliary_models_used_is_counted_once_whatever_leaves_and_returns(
    tmp_path_factory: pytest.TempPathFactory, used: list[tuple[str, str, str, int, float]]
) -> None:
    root = recorded(tmp_path_factory.mktemp("home"))
    with database(root) as db:
        db.execute("DELETE FROM session_model_usage")
        db.executemany(
            "INSERT INTO session_model_usage (session_id, task, model, billing_provider, "
            "input_tokens, estimated_cost_usd) VALUES (?, ?, ?, ?, ?, ?)",
            [(FIRST, *each) for each in used],
        )
    expected: dict[str | None, int] = {}
    for task, _, _, tokens, cost in used:
        if task and (tokens or cost):
            expected[task] = expected.get(task, 0) + tokens

    def check() -> None:
        store = opened(root).session_store()
        assert store is not None
        usage = usage_of(store)
        assert {each.name: each.cost.usage.tokens.input for each in usage.by_task} == expected
        assert usage.ever.usage.tokens.input == 1000 + sum(expected.values()), (
            "the row has 1000 itself"
        )
        unpriced = sum(tokens for task, *_, tokens, cost in used if task and not cost)
        assert usage.ever.usage.unpriced.input == unpriced
        store.close()

    check()
    deleted(root, FIRST)
    check()
    undone(root)
    check()


def test_stats_show_what_auxiliary_models_used(machine: Machine, root: Path) -> None:
    with database(root) as db:
        db.execute(
            "INSERT INTO session_model_usage (session_id, task, model, input_tokens, "
            "estimated_cost_usd) VALUES (?, 'vision', 'small/eye', 777, 0.5)",
            (FIRST,),
        )
    for words in (("sessions", "stats"), ("sessions", "stats", "--cost")):
        screen = machine.ok("--home", str(root), *words).out
        assert "auxiliary task" in screen
        assert "small/eye" in screen
    document = machine.json("--home", str(root), "sessions", "stats")
    [told] = document["costs"]["by_task"]
    assert (told["task"], told["tokens_in"], told["known_cost"]) == ("vision", 777, 0.5)
    assert document["sessions"]["usage"]["by_task"][0]["task"] == "vision"


# --- Titles ---------------------------------------------------------------------------------------


@given(title=st.text(st.characters() | st.sampled_from(" \t\n\u200b\u202e\ufeff"), max_size=90))
def test_a_title_is_stored_on_one_line_and_without_what_cannot_be_seen(title: str) -> None:
    left = values.clean_title(title)
    assert left is None or (
        left == " ".join(left.split()) and 0 < len(left) <= values.LONGEST_TITLE
    )
    assert values.clean_title(left) == left
    if left is not None:
        left.encode()
        assert not any(ord(each) < 32 or each == "\x7f" for each in left)


def test_renaming_follows_hermess_rules(root: Path) -> None:
    store = opened(root).session_store()
    assert store is not None
    assert store.rename(FIRST, "  A\u200b \x1b[31mred\n title ").title == "A [31mred title"
    assert store.rename(FIRST, "x" * 100 + " ").title == "x" * 100
    with pytest.raises(UsageError, match="at most 100"):
        store.rename(FIRST, "x" * 101)
    assert store.get(FIRST).title == "x" * 100, "a title that is refused changes nothing"
    with pytest.raises(UsageError, match="unique"):
        store.rename(FIRST, "A \u200btitle")
    assert store.rename(FIRST, "\u200b \n").title is None
    store.close()
