"""Homes that a real agent is still working in: it must find everything that Holdfast left, and
everything that Holdfast brought back."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

import holdfast
from holdfast import Home
from holdfast.errors import HoldfastError
from holdfast.homes.agents.json_lines import INJECTED
from holdfast.model.item import SESSION
from holdfast.model.report import Result
from holdfast.model.session import Message, SessionFilter
from holdfast.value import replace
from tests import tally
from tests.compat.agents.installed import NotInstallableError
from tests.compat.agents.lab import Lab, copied, end
from tests.compat.agents.labs.all import LABS
from tests.compat.agents.model_server import LINE, serving
from tests.contract.agents.recorded import RECORDED
from tests.contract.factory import databases_of, rows_of

DAY = 86_400.0
#: Holdfast's clock is ahead of the agents': their sessions are old as soon as they are made.
AHEAD = 200 * DAY

pytestmark = pytest.mark.deep


@pytest.fixture(scope="module", params=LABS, ids=lambda each: each.name)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Three sessions, the first one resumed, and one that has a subagent."""
    place = tmp_path_factory.mktemp("agent").resolve() / "place"
    with serving() as model:
        try:
            lab = request.param(place, model)
        except NotInstallableError as error:
            pytest.skip(f"THE REAL AGENT WAS NOT TRIED: {error}")
        lab.set_up()
        first = lab.say("apples")
        for word in ("bananas", "cherries"):
            lab.say(word)
        if lab.delegating:
            lab.resume_with(lab.say("damsons"), lab.delegating)
        lab.resume(first)
        copied(place, place.with_name("saved"))
        yield lab


@pytest.fixture
def lab(made: Lab, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """The home as it was made, at the place where it was made: agents note absolute paths."""
    why = made.undecided.get(request.function.__name__)
    if why is not None:
        pytest.skip(f"NOT DECIDED ON THE REAL AGENT: {why}")
    copied(made.place.with_name("saved"), made.place)
    made.configure()
    made.working_in = made.project
    made.model.released.clear()
    yield made
    made.model.released.set()
    made.close()


@pytest.mark.parametrize("agent", [each.name for each in RECORDED])
def test_every_agent_is_tried(agent: str) -> None:
    """Whoever reads the output of a long run sees which agents it says nothing about."""
    if agent not in {each.name for each in LABS}:
        pytest.skip(f"THE REAL AGENT WAS NOT TRIED: nothing here runs {agent} yet")


def opened(lab: Lab) -> Home:
    return holdfast.open(lab.home, clock=lambda: time.time() + AHEAD)


def seen(lab: Lab) -> set[str]:
    with opened(lab) as home:
        return {each.id for each in home.sessions.find(roots=True)}


def check_whole(lab: Lab) -> None:
    """What the agent has on disk is well in the eyes of git and SQLite."""
    for path in databases_of(lab.home):
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            assert db.execute("PRAGMA foreign_key_check").fetchall() == []
    for path in [*lab.home.glob("history/*/.git"), *lab.home.glob("snapshot/*/*")]:
        subprocess.run(["git", f"--git-dir={path}", "fsck", "--no-dangling"], check=True)
    tally.verified()


def check_others(lab: Lab, before: dict[str, list[str]], gone: set[str]) -> None:
    """Rows and lines that name no session that is gone are all there, and in the same order."""
    after = shared(lab)
    gone = {word for each in gone for word in lab.naming(each)}
    for name, entries in before.items():
        if name.endswith("_docsize"):  # numbers of an index, which name nobody
            continue
        strange = [each for each in entries if not any(one in each for one in gone)]
        left = [each for each in after[name] if not any(one in each for one in gone)]
        assert left == strange, name


def shared(lab: Lab) -> dict[str, list[str]]:
    found = {}
    for path in databases_of(lab.home):
        for table, rows in rows_of(path).items():
            found[f"{path.name}:{table}"] = [repr(each) for each in rows]
    for path in [*lab.home.glob("history.jsonl"), *lab.home.glob("tmp/*/logs.json")]:
        text = path.read_text()
        found[path.name] = (
            text.splitlines(keepends=True)
            if path.suffix == ".jsonl"
            else [json.dumps(each) for each in json.loads(text)]
        )
    return found


def prune(lab: Lab) -> set[str]:
    """Remove what was not used for longest: two sessions, and subagents that are as old."""
    with opened(lab) as home:
        plan = home.plan_prune(older_than="90d", keep_last=len(lab.said) - 2)
        report = plan.apply()
        assert not report.failed, report.outcomes
        return {
            each.id
            for each in report.outcomes
            if each.kind == SESSION and each.result is Result.REMOVED
        }


# --- Lists ----------------------------------------------------------------------------------------


def test_both_list_the_same(lab: Lab) -> None:
    assert seen(lab) == lab.listed() == lab.said.keys()


def test_what_is_shown_is_what_was_said(lab: Lab) -> None:
    with opened(lab) as home:
        for session, word in lab.said.items():
            said = list(home.sessions.messages(session))
            asked = [each for each in said if each.role == "user" and not each.extra.get(INJECTED)]
            assert word in str(asked[0].content)
            assert LINE in str(said[-1].content)
            shown = home.sessions.get(session)
            assert said[-1].usage.total or shown.tokens.total
            assert shown.cwd == str(lab.project)
            assert shown.model
            assert shown.bytes > 1_000
        assert {each.session.id for each in home.sessions.search("cherries")} == {
            next(name for name, word in lab.said.items() if word == "cherries")
        }


def test_a_subagent_is_a_delegate_of_its_session(lab: Lab) -> None:
    if not lab.delegating:
        pytest.skip("this agent needs more than a model for a subagent")
    [parent] = (name for name, word in lab.said.items() if word == "damsons")
    with opened(lab) as home:
        [child] = home.sessions.find(parent_id=parent)
        assert child.relation == "delegate"
        assert "Say hi" in str([each.content for each in home.sessions.messages(child.id)])
        home.plan_delete([parent]).apply()
        assert {parent, child.id}.isdisjoint(each.id for each in home.sessions.find())
    assert lab.listed() == lab.said.keys() - {parent}
    check_whole(lab)
    with opened(lab) as home:
        home.undo_latest()
        assert [each.id for each in home.sessions.find(parent_id=parent)] == [child.id]
    lab.resume(parent)
    check_whole(lab)


# --- Away and back --------------------------------------------------------------------------------


def test_what_is_pruned_is_gone_and_comes_back(lab: Lab) -> None:
    before = shared(lab)
    gone = prune(lab)
    assert len(gone & lab.said.keys()) == 2
    check_whole(lab)
    check_others(lab, before, gone)
    assert lab.listed() == seen(lab) == lab.said.keys() - gone
    for session in lab.said.keys() - gone:
        lab.resume(session)
    new = lab.begin("elderberries")
    with opened(lab) as home:
        assert not home.undo_latest().failed
    check_whole(lab)
    assert seen(lab) == {*lab.said, new}
    assert lab.listed() - {new} == lab.said.keys()
    for session in gone & lab.said.keys():
        lab.resume(session)
    check_whole(lab)


def test_what_is_archived_comes_back(lab: Lab) -> None:
    before = shared(lab)
    gone = {name for name, word in lab.said.items() if word in ("apples", "cherries")}
    with opened(lab) as home:
        home.archive_sessions(gone)
    check_whole(lab)
    check_others(lab, before, gone)
    assert lab.listed() == seen(lab) == lab.said.keys() - gone
    for session in lab.said.keys() - gone:
        lab.resume(session)
    with opened(lab) as home:
        home.restore_sessions(gone)
    check_whole(lab)
    assert lab.listed() == seen(lab) == lab.said.keys()
    for session in gone:
        lab.resume(session)


def test_undo_without_a_word_in_between_is_exact(lab: Lab) -> None:
    before = shared(lab)
    prune(lab)
    with opened(lab) as home:
        home.undo_latest()
    assert shared(lab) == before
    check_whole(lab)


# --- The living -----------------------------------------------------------------------------------


def everything(home: Home, session: str) -> Iterator[Callable[[], object]]:
    """Every way in which a session can leave."""
    yield lambda: home.plan_prune(older_than="0s").apply()
    yield lambda: home.plan_gc(empty_hours=0.001, trivial_days=0.001, trivial_max=10_000).apply()
    yield lambda: home.plan_delete([session]).apply()
    yield lambda: home.plan_archive([session]).apply()
    yield lambda: home.plan_archive(wanted=SessionFilter()).apply()
    yield lambda: home.maintain(force=True)


def unpriced(home: Home, session: str) -> list[Message]:
    """What was said. Some agents note only what all of it cost so far, which is told of the last
    message: when one more is written, the price moves on to that."""
    return [replace(each, cost=None) for each in home.sessions.messages(session)]


def attack(lab: Lab, session: str) -> None:
    tally.injected()
    with holdfast.open(
        lab.home,
        clock=lambda: time.time() + AHEAD,
        environ={"HOLDFAST_SESSIONS_AUTO_PRUNE": "true", "HOLDFAST_SESSIONS_AUTO_GC": "true"},
    ) as home:
        before = unpriced(home, session)
        for remove in everything(home, session):
            try:
                remove()
            except HoldfastError as error:
                assert error.message  # refused, in words  # noqa: PT017
            # It may have written more meanwhile: it is alive.
            assert unpriced(home, session)[: len(before)] == before


def test_a_working_agent_is_never_touched(lab: Lab) -> None:
    """Wherever it works: it may go on with a session that began in another folder."""
    [session] = (name for name, word in lab.said.items() if word == "bananas")
    elsewhere = lab.place / "elsewhere"
    elsewhere.mkdir()
    for folder in (lab.project, elsewhere) if lab.anywhere else (lab.project,):
        lab.model.released.clear()
        lab.working_in = folder
        process = lab.start(session, "WAIT, then say something about bananas")
        try:
            assert lab.model.waiting.wait(timeout=60)
            attack(lab, session)
            lab.model.released.set()
            said, _ = process.communicate(timeout=60)
            assert process.returncode == 0, said
            assert LINE in said.decode()
        finally:
            end(process)
        assert session in lab.listed()
    lab.resume(session)
    check_whole(lab)


def test_an_agent_that_shows_a_session_is_never_touched(lab: Lab) -> None:
    [session] = (name for name, word in lab.said.items() if word == "bananas")
    if not lab.showing(session):
        pytest.skip(f"THE TERMINAL OF {lab.name} WAS NOT TRIED: its sessions here have none")
    terminal = lab.terminal(*lab.showing(session))
    try:
        terminal.wait(lambda drawn: (lab.shown or "bananas") in drawn)
        before = terminal.settled().count(lab.drawn)
        attack(lab, session)
        terminal.type("One more thing about bananas")
        terminal.wait(lambda _: any(b"One more thing" in each for each in lab.model.heard))
        terminal.wait(lambda drawn: drawn.count(lab.drawn) > before)
        terminal.settled()
    finally:
        terminal.close()
    with opened(lab) as home:
        assert "One more thing" in str([each.content for each in home.sessions.messages(session)])


def test_a_killed_agent_is_dead(lab: Lab) -> None:
    """What a crash leaves behind does not protect a session for ever."""
    [session] = (name for name, word in lab.said.items() if word == "bananas")
    process = lab.start(session, "WAIT, then say something about bananas")
    assert lab.model.waiting.wait(timeout=60)
    lab.kill(process)
    with opened(lab) as home:
        home.plan_delete([session]).apply()
    check_whole(lab)
    assert session not in lab.listed() | seen(lab)
    with opened(lab) as home:
        home.undo_latest()
    lab.model.released.set()
    assert session in lab.listed()
    lab.resume(session)
    check_whole(lab)
