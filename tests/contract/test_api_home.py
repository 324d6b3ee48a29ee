"""`holdfast.open`: every use case is a method; planned, applied, in the log, and undone exactly.

The laws run over Holdfast's own home and that of another agent.
"""

from __future__ import annotations

import asyncio
import io
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import AsyncSessions, Home, HomePlan, HomeReport, Message, Session, SessionFilter
from holdfast.api.place import Place, checkpoints_to_import
from holdfast.cli.demo_home import build
from holdfast.errors import (
    CannotUndoError,
    ClosedError,
    ConfigError,
    EmptyWindowError,
    HoldfastError,
    NotAHomeError,
    PlanFileError,
    UnknownSessionError,
    UsageError,
)
from holdfast.model.item import REQUEST_DUMP, SESSION
from holdfast.model.report import Outcome, Report, Result
from tests.compat import hermes_sessions as hermes
from tests.stored import a_line, bring_in, see

NOW = hermes.NOW
DAY = 86_400.0


@dataclass(frozen=True)
class Sample:
    """A home with old sessions: one to name, and the number that a retention of 90 days lets go."""

    root: Path
    one: str
    two: str
    look: Callable[[], object]
    ids: Callable[[], set[str]]

    def open(self, **given: Any) -> Home:
        return holdfast.open(self.root, clock=lambda: NOW, **given)


def _own(place: Path) -> Sample:
    root = place / "home"
    (root / "sessions").mkdir(parents=True)
    past = NOW - 200 * DAY
    names = ["first", "second", "third"]
    lines = [a_line(name, at=past) for name in names]
    bring_in(root, [*lines, a_line("empty", at=past, messages=0, source="cron")], now=NOW)
    for name in names:
        path = root / "sessions" / f"{name}.jsonl"
        path.write_text('{"role": "user"}\n')
        os.utime(path, (past, past))

    def look() -> object:
        seen = see(root)
        return seen.sessions, seen.files

    return Sample(root, "first", "second", look, lambda: _ids(root))


def _hermes(place: Path) -> Sample:
    root = hermes.recorded(place)
    return Sample(
        root,
        "20260101_101010_aaaaaa",
        "20260103_000000_titled",
        lambda: (hermes.session_ids(root), hermes.files(root)),
        lambda: hermes.session_ids(root),
    )


def _ids(root: Path) -> set[str]:
    with holdfast.open(root, clock=lambda: NOW) as home:
        return {session.id for session in home.sessions.find()}


HOMES = {"holdfast": _own, "hermes": _hermes}


@pytest.fixture(params=list(HOMES.values()), ids=list(HOMES))
def sample(request: pytest.FixtureRequest, tmp_path: Path) -> Sample:
    made: Sample = request.param(tmp_path)
    return made


@pytest.fixture
def own(tmp_path: Path) -> Sample:
    return _own(tmp_path)


# --- Plan, apply, undo ----------------------------------------------------------------------------

Plan = Callable[[Home, Sample], HomePlan]
PLANS: dict[str, Plan] = {
    "prune": lambda home, _: home.plan_prune(),
    "prune by age": lambda home, _: home.plan_prune(older_than="30d"),
    "prune by a timedelta": lambda home, _: home.plan_prune(older_than=timedelta(days=30)),
    "prune by a moment": lambda home, _: home.plan_prune(
        older_than=datetime.fromtimestamp(NOW - 30 * DAY, UTC)
    ),
    "prune but the last": lambda home, _: home.plan_prune(keep_last=1),
    "prune a filter": lambda home, sample: home.plan_prune(
        wanted=SessionFilter(ids=(sample.one,)), older_than="1d"
    ),
    "prune the files": lambda home, _: home.plan_prune(older_than="30d", files="only"),
    "gc": lambda home, _: home.plan_gc(trivial_max=9),
    "delete": lambda home, sample: home.plan_delete(sample.one),
    "delete two": lambda home, sample: home.plan_delete([sample.one, sample.two]),
    "delete a session": lambda home, sample: home.plan_delete(home.sessions.get(sample.one)),
    "archive": lambda home, sample: home.plan_archive(sample.one),
    "archive a filter": lambda home, sample: home.plan_archive(
        wanted=SessionFilter(ids=(sample.one, sample.two))
    ),
}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_a_plan_is_applied_logged_and_undone(sample: Sample, plan: Plan) -> None:
    before = sample.look()
    with sample.open() as home:
        made = plan(home, sample)
        assert made.removals
        assert sample.look() == before, "a plan changes nothing"
        assert home.log.list() == []
        report = made.apply()
        assert report.removed == len(made.removals)
        assert not report.failed
        assert sample.look() != before
        (logged,) = home.log.list()
        assert logged.id == report.operation
        undone = report.undo()
        assert undone.undone is not None
        assert undone.undone.id == report.operation
        assert undone.brought_back
        assert not undone.failed
    assert sample.look() == before


def test_the_method_without_plan_does_the_same(own: Sample) -> None:
    with own.open() as home:
        calls: list[tuple[HomeReport, str]] = [
            (home.delete(own.one), "delete"),
            (home.gc(source="cron"), "gc"),
            (home.archive_sessions(own.two), "archive_sessions"),
            (home.prune(older_than="90d"), "prune"),
        ]
        for report, name in calls:
            assert report.removed
            assert home.log.get(report.operation or "").command == name
        assert own.ids() == set()
        for report, _ in reversed(calls):
            report.undo()
    assert len(own.ids()) == 4


def test_the_log_has_the_words_of_the_caller(own: Sample) -> None:
    with own.open(command="nightly cleaning") as home:
        home.delete(own.one)
        assert [each.command for each in home.log.list()] == ["nightly cleaning"]


def test_nothing_done_nothing_undone(sample: Sample) -> None:
    """Somebody else removed something just before: that is not ours to bring back."""
    with sample.open() as home:
        theirs = home.delete(sample.one)
        mine = home.prune(older_than="9999d")
        assert mine.operation is None
        assert str(mine) == "Nothing was done."
        undone = mine.undo()
        assert (undone.operation, undone.outcomes, str(undone)) == (None, (), "Nothing was done.")
        assert home.undo(mine.operation).operation is None
        assert sample.one not in sample.ids()
        latest = home.undo_latest()
        assert latest.undone is not None
        assert latest.undone.id == theirs.operation
        assert sample.one in sample.ids()


def test_a_run_that_only_gives_back_space_has_nothing_to_undo(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "home", create=True) as home:
        for _ in range(40):
            session = home.sessions.create(source="cli")
            home.sessions.append(session, {"role": "user", "content": "x"})
            home.sessions.end(session)
        plan = home.plan_prune(older_than="90d")
        assert [item.action for item in plan.plan.steps] == ["reclaim"]
        report = plan.apply()
        assert (report.operation, report.removed) == ("1", 0)
        assert str(report.undo()) == "Nothing was done."


def test_a_plan_can_be_saved_and_loaded(own: Sample, tmp_path: Path) -> None:
    with own.open() as home:
        made = home.plan_delete(own.one)
        made.save(str(tmp_path / "plan.json"))
        loaded = home.load_plan(tmp_path / "plan.json")
        assert loaded.plan == made.plan
        assert loaded.apply().removed == len(made.removals)
    with (
        holdfast.open(tmp_path / "other", create=True) as other,
        pytest.raises(PlanFileError, match="was made for"),
    ):
        other.load_plan(tmp_path / "plan.json")


def test_what_would_be_undone_is_shown(own: Sample) -> None:
    with own.open() as home:
        report = home.delete(own.one)
        planned = home.plan_undo()
        assert planned.operation.id == report.operation
        assert {each.item.id for each in planned.removals} >= {own.one}
        assert own.one not in own.ids()
        planned.apply()
    assert own.one in own.ids()


def test_undo_names_what_it_cannot_undo(own: Sample) -> None:
    with own.open() as home:
        with pytest.raises(UsageError, match="no operation"):
            home.undo("7")
        with pytest.raises(CannotUndoError, match="nothing to undo"):
            home.undo_latest()


def test_trash_is_listed_and_emptied(own: Sample) -> None:
    with own.open() as home:
        report = home.delete(own.one)
        entries = home.trash.list()
        assert {each.removal.operation for each in entries} == {report.operation}
        assert home.trash.expires_at(entries[0]) == NOW + 7 * DAY
        assert home.trash.plan_empty(older_than="1d").removals == ()
        home.trash.empty(report.operation or "")
        assert home.trash.list() == []
        with pytest.raises(CannotUndoError):
            report.undo()


def test_the_trash_by_the_operation_that_filled_it(own: Sample) -> None:
    with own.open() as home:
        first, second = home.delete(own.one), home.delete(own.two)
        found = home.trash.by_operation()
        assert [each.operation for each in found] == [first.operation, second.operation]
        assert [each.entries[0].removal.item.id for each in found] == [own.one, own.two]
        assert sum(len(each.entries) for each in found) == len(home.trash.list())
        assert [each.bytes for each in found] == [
            first.report.bytes_in_trash,
            second.report.bytes_in_trash,
        ]
        assert {(each.removed_at, each.expires_at) for each in found} == {(NOW, NOW + 7 * DAY)}
        assert all(each.command for each in found)


def test_without_the_trash_it_is_gone(own: Sample) -> None:
    with own.open() as home:
        report = home.delete(own.one, use_trash=False)
        with pytest.raises(CannotUndoError) as refused:
            report.undo()
    assert "holdfast " not in (refused.value.hint or "")


def test_a_cap_that_cannot_be_reached_is_named(own: Sample) -> None:
    with own.open() as home:
        session = home.sessions.create(source="cli")
        home.sessions.append(session.id, Message(role="user", content="x" * 50_000))
        assert home.plan_prune(max_total_size=1_000).shortfalls


# --- The archive ----------------------------------------------------------------------------------


def test_archived_sessions_are_found_read_and_brought_back(sample: Sample) -> None:
    before = sample.look()
    with sample.open() as home:
        said = [each.content for each in home.sessions.messages(sample.one)]
        home.archive_sessions([sample.one, sample.two])
        assert home.archive.count() == len(home.archive.find()) == 2
        assert home.archive.get(sample.one[:-1]).session.id == sample.one
        assert [each.content for each in home.archive.messages(sample.one)] == said
        found = home.whereabouts(sample.one)
        assert found is not None
        assert found.place == "in the archive"
        with pytest.raises(UnknownSessionError, match="in the archive") as refused:
            home.resolve(sample.one)
        assert refused.value.hint == f"Bring it back: `home.restore_sessions('{sample.one}')`"
        assert [each.session.id for each in home.plan_restore_sessions(sample.one).sessions] == [
            sample.one
        ]
        assert home.restore_sessions(sample.one).brought_back == 1
        assert home.archive.restore(sample.two).brought_back == 1
    assert sample.look() == before


def test_the_archive_has_its_own_retention(own: Sample) -> None:
    with own.open() as home:
        home.archive_sessions(wanted=SessionFilter(sources=("cli",)))
    with holdfast.open(own.root, clock=lambda: NOW + 40 * DAY) as later:
        assert later.archive.plan_prune(older_than="50d").removals == ()
        report = later.archive.prune(older_than="30d")
        assert report.removed == 3
        report.undo()
        assert later.archive.count() == 3


# --- Seeing ---------------------------------------------------------------------------------------


def test_a_home_can_be_looked_at(sample: Sample) -> None:
    before = sample.look()
    with sample.open() as home:
        assert home.status().kind == home.kind
        assert home.stats().kind == home.kind
        assert home.costs().to_json() is not None
        assert home.doctor().ok
        assert len(home.sessions.find()) == len(sample.ids())
        assert home.resolve(sample.one[:-1]) == sample.one
        assert home.checkpoints.list() == []
        assert home.checkpoints.verify().ok
        assert home.checkpoints.status().projects == ()
        assert list(home.plan_maintain())
        assert home.log.list() == []
    assert sample.look() == before


def test_another_agents_sessions_are_read_not_written(tmp_path: Path) -> None:
    with _hermes(tmp_path).open() as home:
        for write in (
            lambda: home.sessions.create(source="cli"),
            lambda: home.sessions.end("20260502_000000_open00"),
            lambda: home.sessions.guard("20260502_000000_open00"),
            lambda: home.sessions.dump_request("20260502_000000_open00", {}),
            lambda: home.import_(io.BytesIO(b"")),
        ):
            with pytest.raises(UsageError):
                write()


def test_unknown_sources_get_their_neighbour(own: Sample) -> None:
    with own.open() as home:
        assert home.plan_prune(source="corn").unknown_sources == {"corn": "cron"}
        assert home.plan_gc(source=["cli", "xyz"]).unknown_sources == {"xyz": None}


def test_an_age_of_small_sessions_is_that_of_empty_and_trivial_ones(own: Sample) -> None:
    with own.open() as home:
        for age, goes in (("199d", {"empty", "first"}), (timedelta(days=201), set())):
            going = home.plan_gc(older_than=age, trivial_max=100).removals
            assert {each.id for each in going} & {"empty", "first"} == goes


@pytest.mark.parametrize(
    ("since", "rules"),
    [
        (90, {}),  # retention_days
        (30, {"older_than": "30d"}),
        (29, {"older_than": "30d", "keep_last": 1}),
    ],
)
def test_a_window_without_time_in_it_is_an_error(
    sample: Sample, since: int, rules: dict[str, Any]
) -> None:
    wanted = SessionFilter(active_after=NOW - since * DAY)
    with sample.open() as home:
        with pytest.raises(EmptyWindowError, match="so nothing can match"):
            home.plan_prune(wanted=wanted, **rules)
        if rules:  # the archive has no age of its own
            with pytest.raises(EmptyWindowError, match="so nothing can match"):
                home.archive.plan_prune(wanted=wanted, **rules)
        wide = SessionFilter(active_after=NOW - 300 * DAY)
        assert home.plan_prune(wanted=wide, **rules).removals
        home.plan_prune(wanted=wanted, keep_last=1)  # these rules have no age
        # A cap takes sessions of any age, and a source may have an age of its own.
        home.plan_prune(wanted=wanted, max_count=1, **rules)
        home.plan_prune(wanted=wanted, max_total_size=1, **rules)


def test_a_source_with_an_age_of_its_own_leaves_a_window(own: Sample) -> None:
    config = own.root / "config.toml"
    config.write_text("[sessions.source.cron]\nretention_days = 7\n")
    with own.open() as home:
        wanted = SessionFilter(active_after=NOW - 30 * DAY)
        home.plan_prune(wanted=wanted)
        with pytest.raises(EmptyWindowError):
            home.plan_prune(wanted=wanted, older_than="40d")


def test_what_a_cap_takes_on_top_is_known_once_it_was_applied(tmp_path: Path) -> None:
    build(tmp_path / "home", NOW)
    with holdfast.open(tmp_path / "home", clock=lambda: NOW) as home:
        planned = home.plan_prune(max_total_size="3MB")
        planned.apply()
        more = {each.id for each in planned.still_over_cap()}
        assert more
        left = home.plan_prune(max_total_size="3MB").removals
        assert more == {each.id for each in left if each.gone_by_cap}
        assert home.plan_prune(older_than="30d").still_over_cap() == ()


def test_a_folder_to_import_from_is_a_home_or_a_directory_of_one(tmp_path: Path) -> None:
    elsewhere = {"HERMES_HOME": str(tmp_path / "usual")}
    home, project = _hermes(tmp_path).root, tmp_path / "project"
    project.mkdir()
    assert checkpoints_to_import(home, elsewhere) == (home, None)
    for folder in (project, tmp_path / "gone"):
        with pytest.raises(UsageError, match=f"{folder} is not a Hermes home, and there"):
            checkpoints_to_import(folder, elsewhere)
    (tmp_path / "usual").mkdir()
    for named in (project, tmp_path / "gone", None):
        assert checkpoints_to_import(named, elsewhere) == (tmp_path / "usual", named)


def test_only_one_kind(own: Sample) -> None:
    with own.open() as home:
        assert home.plan_prune(older_than="1d", kinds=[SESSION]).removals
        assert home.plan_prune(older_than="1d", kinds=[REQUEST_DUMP]).removals == ()


# --- Export and import ----------------------------------------------------------------------------


def test_sessions_go_out_and_come_in(sample: Sample, tmp_path: Path) -> None:
    with sample.open() as home:
        report = home.export(tmp_path / "out.jsonl", [sample.one])
        assert report.sessions == 1
        written = io.BytesIO()
        home.export(written, wanted=SessionFilter(ids=(sample.one,)))
        assert written.getvalue() == (tmp_path / "out.jsonl").read_bytes()
        home.export(str(tmp_path / "out.md"), sample.one, form="markdown", redact=True)
        with pytest.raises(UsageError, match="form"):
            home.export(tmp_path / "x", form="html")
    with holdfast.open(tmp_path / "new", create=True) as new:
        done = new.import_(tmp_path / "out.jsonl")
        assert done.report.imported == 1
        assert new.import_(tmp_path / "out.jsonl").report.skipped == (sample.one,)
        same = new.import_(tmp_path / "out.jsonl", replace=True)
        assert (same.report.replaced, same.operation) == (0, None)
        new.sessions.rename(sample.one, "another title")
        again = new.import_(tmp_path / "out.jsonl", replace=True)
        assert (again.report.replaced, again.operation is None) == (1, False)
        assert again.kept_in is not None
        out = io.BytesIO()
        new.export(out)
        assert out.getvalue() == written.getvalue()


def test_an_export_that_was_stopped_leaves_the_file_alone(own: Sample, tmp_path: Path) -> None:
    class Stopped:
        def step(self, label: str, done: int, total: int | None) -> None: ...

        def stop_requested(self) -> bool:
            return True

    (tmp_path / "out.jsonl").write_text("earlier")
    with own.open() as home:
        assert home.export(tmp_path / "out.jsonl", progress=Stopped()).stopped
    assert (tmp_path / "out.jsonl").read_text() == "earlier"
    assert not list(tmp_path.glob(".out*"))


# --- Opening --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [str, Path])
def test_a_home_is_a_text_or_a_path_with_a_tilde(
    own: Sample, kind: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(own.root.parent))
    with holdfast.open(kind(f"~/{own.root.name}")) as home:
        assert home.path == own.root
        assert home.kind == "holdfast"


def test_an_agent_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = hermes.recorded(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    monkeypatch.setenv("HERMES_HOME", str(root))
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "mine"))
    with holdfast.open("hermes") as home:
        assert (home.path, home.kind) == (root, "hermes")
    with holdfast.open("holdfast", create=True) as home:
        assert home.path == tmp_path / "mine"
    monkeypatch.delenv("HERMES_HOME")
    root.rename(tmp_path / ".hermes")
    monkeypatch.setenv("HOME", str(tmp_path))
    with holdfast.open("hermes") as home:
        assert home.path == tmp_path / ".hermes"
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotAHomeError):
        holdfast.open("./hermes")


def test_nothing_is_made_where_there_is_no_home(tmp_path: Path) -> None:
    with pytest.raises(NotAHomeError) as refused:
        holdfast.open(tmp_path / "none")
    assert "holdfast.open(path, create=True)" in (refused.value.hint or "")
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotAHomeError):
        holdfast.open(tmp_path / "empty")
    assert [path.name for path in tmp_path.rglob("*")] == ["empty"]


@pytest.mark.parametrize("wrong", [None, 5, b"x", "", "x\0y", ["a"], object()])
def test_what_is_no_path_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError):
        holdfast.open(wrong)


def test_a_wrong_configuration_is_said_at_once(own: Sample) -> None:
    (own.root / "config.toml").write_text("[sessions]\nretention = 1\n")
    with pytest.raises(ConfigError, match="unknown key"):
        own.open()


def test_variables_count_only_when_they_are_handed_in(
    own: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = {"HOLDFAST_SESSIONS_RETENTION_DAYS": "3650"}
    monkeypatch.setenv(*next(iter(variables.items())))
    with own.open() as home:
        assert home.plan_prune().removals
    with own.open(environ=variables) as home:
        assert not home.plan_prune().removals


def test_nothing_stays_open_behind_a_home(sample: Sample) -> None:
    with sample.open() as home:
        home.sessions.find()
        home.delete(sample.one)
        home.status()
    held = [link.resolve() for link in Path("/proc/self/fd").iterdir()]
    assert not [path for path in held if path.is_relative_to(sample.root)]


def test_a_home_closed_by_its_sessions_still_works(own: Sample) -> None:
    with own.open() as home:
        with home.sessions as sessions:
            sessions.get(own.one)
        assert home.delete(own.one).removed


def test_what_lives_stays_and_the_plan_says_why(own: Sample) -> None:
    with own.open() as home:
        home.sessions.create(source="cli", id="living")
        plan = home.plan_delete("living")
        assert plan.removals == ()
        (kept,) = (item for item in plan.kept if item.id == "living")
        assert "in use" in kept.reason
        assert plan.apply().operation is None


def test_maintenance_is_a_method(own: Sample) -> None:
    (own.root / "config.toml").write_text("[sessions]\nauto_prune = true\n")
    with own.open() as home:
        result = home.maintain()
        assert (result.ok, result.removed > 0) == (True, True)
        assert not home.maintain().ran
        assert home.maintain(force=True).ran
    assert own.ids() == set()


def test_an_empty_home_can_be_looked_at(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "new", create=True) as home:
        assert home.status().inventory.items == ()
        assert home.plan_prune().removals == ()
        assert home.session_store is None
        with pytest.raises(UsageError, match="no session store"):
            home.resolve("x")


# --- What people tripped over ---------------------------------------------------------------------


@pytest.fixture
def home(own: Sample) -> Iterator[Home]:
    with own.open() as home:
        yield home


WRONG: list[tuple[Callable[[Any], object], str]] = [
    (lambda home: home.plan_prune(older_than=90), "length of time"),
    (lambda home: home.plan_prune(older_than="ninety"), "neither a duration nor a date"),
    (lambda home: home.plan_prune(older_than="2999-01-01"), "future"),
    (lambda home: home.plan_prune(keep_within=3), "length of time"),
    (lambda home: home.plan_prune(keep_last=0), "1 or more"),
    (lambda home: home.plan_prune(max_total_size=0), "no room"),
    (lambda home: home.plan_prune(max_total_size="much"), "not a size"),
    (lambda home: home.plan_prune(files="all"), "files must be"),
    (lambda home: home.plan_prune(source="cli", wanted=SessionFilter()), "not both"),
    (lambda home: home.plan_prune(wanted={"source": "cli"}), "SessionFilter"),
    (lambda home: home.plan_gc(trivial_max=-1), "0 or more"),
    (lambda home: home.plan_gc(empty_hours=float("nan")), "0 or more"),
    (lambda home: home.plan_gc(older_than="2999-01-01"), "not a time in the past"),
    (lambda home: home.plan_gc(older_than="0h"), "not a time in the past"),
    (lambda home: home.plan_gc(older_than="2d", trivial_days=3), "sets both ages"),
    (lambda home: home.plan_delete([]), "`ids` must be"),
    (lambda home: home.plan_delete(7), "`ids` must be"),
    (lambda home: home.plan_delete("nobody-9"), "nobody-9"),
    (lambda home: home.plan_archive(), "sessions to archive"),
    (lambda home: home.plan_archive("first", codec="rar"), "codec"),
    (lambda home: home.undo(7.5), "An operation must be its number"),
    (lambda home: home.checkpoints.get("abcd"), "no checkpoints yet"),
    (lambda home: home.checkpoints.plan_prune(max_snapshots=0), "1 or more"),
    (lambda home: home.checkpoints.take(""), "name is empty"),
    (lambda home: home.import_(5), "binary mode"),
    (lambda home: home.import_(io.StringIO("{}")), "binary mode"),
    (lambda home: home.export(5), "a path or an open file"),
    (lambda home: home.checkpoints.project_root(None), "a string or a Path"),
]


@pytest.mark.parametrize(("call", "said"), WRONG, ids=map(str, range(len(WRONG))))
def test_a_wrong_call_says_what_is_wrong(
    home: Home, call: Callable[[Any], object], said: str
) -> None:
    with pytest.raises(HoldfastError, match=said) as refused:
        call(home)
    assert "holdfast sessions" not in (refused.value.hint or "")


def test_a_knob_that_there_is_none_of_is_an_error(home: Home) -> None:
    with pytest.raises(TypeError, match="older_then"):
        home.prune(older_then="90d")  # type: ignore[call-arg]


def test_time_is_handed_in(own: Sample) -> None:
    with holdfast.open(own.root, clock=lambda: NOW - 199 * DAY) as home:
        assert home.plan_prune(older_than="90d").removals == ()
    with holdfast.open(own.root) as home:
        assert home.plan_prune(older_than="90d").plan.made_at == pytest.approx(time.time(), abs=600)


def test_a_home_that_was_made_is_a_home_to_the_next(tmp_path: Path) -> None:
    holdfast.open(tmp_path / "new", create=True).close()
    with holdfast.open(tmp_path / "new") as home:
        assert home.kind == "holdfast"
        assert home.doctor().ok
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["operations"]


def test_an_export_goes_to_a_file_for_text_too(own: Sample) -> None:
    with own.open() as home:
        as_text, as_bytes = io.StringIO(), io.BytesIO()
        home.export(as_text)
        home.export(as_bytes)
        assert as_text.getvalue().encode() == as_bytes.getvalue() != b""


def test_what_was_archived_was_not_removed(sample: Sample) -> None:
    with sample.open() as home:
        plan = home.plan_archive(sample.one)
        assert str(plan).startswith("The plan archives 1 session, ")
        report = plan.apply()
        assert report.archived == report.removed > 0
        assert str(report).startswith("1 archived")
        assert "removed" not in str(report)
        assert str(home.delete(sample.two)).partition(" (")[0].endswith("removed")


def test_a_session_that_left_is_not_unknown(own: Sample) -> None:
    with own.open() as home:
        home.archive_sessions("first")
        deleted = home.delete("second").operation
        ways: list[Callable[[str], object]] = [
            home.sessions.get,
            home.sessions.resolve,
            home.resolve,
        ]
        for method in ways:
            with pytest.raises(UnknownSessionError, match="first is in the archive") as archived:
                method("first")
            assert "home.restore_sessions('first')" in (archived.value.hint or "")
        for method in (*ways, home.plan_delete):
            with pytest.raises(UnknownSessionError, match="second is in the trash") as removed:
                method("second")
            assert f"home.undo('{deleted}')" in (removed.value.hint or "")
        with pytest.raises(UnknownSessionError, match="There is no session 'nobody'"):
            home.sessions.get("nobody")


def test_bringing_back_takes_nothing_away_and_has_no_undo(own: Sample) -> None:
    with own.open() as home:
        home.archive_sessions("first")
        restored = home.restore_sessions("first")
        with pytest.raises(CannotUndoError, match="removed nothing: nothing to undo") as refused:
            restored.undo()
        assert "home.archive_sessions(ids)" in (refused.value.hint or "")


def test_advice_of_the_doctor_names_methods(own: Sample) -> None:
    own.root.chmod(0o777)
    (own.root / "config.toml").write_text("[sessions]\nretention_days = 'x'\n")
    with Home(Place(own.root).checked()) as home:
        advice = " ".join(each.advice for each in home.doctor().findings)
    assert "`home.repair()` makes" in advice
    assert "`holdfast.open(path)`" in advice
    assert "holdfast doctor" not in advice
    assert "holdfast config" not in advice


# --- What is said of what stays, and of nothing ---------------------------------------------------


def test_a_named_session_that_stays_is_in_the_report(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "home", create=True) as home:
        for name in ("held", "ended"):
            home.sessions.append(home.sessions.create(source="cli", id=name), Message("user", "x"))
        home.sessions.end("ended")
        for remove in (home.archive_sessions, home.delete):
            report = remove("held")
            assert (report.operation, report.skipped) == (None, 1)
            [stays] = report.outcomes
            assert (stays.id, stays.result) == ("held", Result.SKIPPED)
            assert stays.reason.startswith("in use: ")
            assert str(report) == "Nothing was done: 1 skipped."
            assert report.undo().operation is None
        both = home.delete(["held", "ended"])
        assert (both.removed, both.skipped) == (1, 1)
        assert both.undo().brought_back == 1
        some = home.archive_sessions(wanted=SessionFilter(sources="cli"))
        assert (some.archived, some.skipped) == (1, 0)  # a filter names none


def test_a_run_that_only_gave_back_space_says_so(own: Sample) -> None:
    freed = Outcome(kind="space", id="x", result=Result.RECLAIMED, bytes_freed=934_000)
    with holdfast.open(own.root) as home:
        report = HomeReport(
            place=home.plan_prune().place, report=Report(operation="1", outcomes=(freed,))
        )
    assert str(report) == "934.0 kB given back (operation 1)."


def test_sessions_that_were_closed_open_again(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "home", create=True) as home:
        with home.sessions as sessions:
            sessions.create(source="cli", id="mine")
        assert [each.id for each in home.sessions.find()] == ["mine"]

        async def awaited() -> Sequence[Session]:
            async with AsyncSessions(home.sessions) as waiting:
                return await waiting.find()

        assert [each.id for each in asyncio.run(awaited())] == ["mine"]
        assert home.sessions.get("mine").source == "cli"
        assert home.sessions is home.sessions
        with pytest.raises(ClosedError, match="was closed") as caught:
            sessions.find()
        assert "`home.sessions` opens it again" in (caught.value.hint or "")


def test_sessions_that_were_closed_leave_nothing_behind(tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "home", create=True) as home:
        before = len(home._place._homes)
        for _ in range(5):
            with home.sessions as sessions:
                sessions.find()
        assert len(home._place._homes) == before


def test_an_unknown_argument_is_told_by_the_method_that_was_called(own: Sample) -> None:
    with own.open() as home, pytest.raises(TypeError, match=r"archive_sessions\(\) got an unexp"):
        home.archive_sessions(source="cli")  # type: ignore[call-arg]


def test_reasons_of_a_report_name_methods(own: Sample) -> None:
    stays = Outcome(
        kind="session", id="x", result=Result.SKIPPED, reason="elsewhere; here: --map /a b=DIR"
    )
    with holdfast.open(own.root) as home:
        made = HomeReport(
            place=home.plan_prune().place, report=Report(operation=None, outcomes=(stays,))
        )
    assert made.outcomes[0].reason == "elsewhere; here: `maps={'/a b': path}`"


def test_hints_about_imports_name_what_works(own: Sample, tmp_path: Path) -> None:
    with holdfast.open(tmp_path / "home", create=True) as home:
        with pytest.raises(UsageError) as caught:
            home.import_(tmp_path / "none")
        assert "import_" not in (caught.value.hint or "")
        with pytest.raises(UsageError) as caught:
            home.import_checkpoints(tmp_path / "none")
        assert caught.value.hint == "Name that home: `home.import_checkpoints(path)`."
        with pytest.raises(CannotUndoError) as caught_undo:
            home.plan_undo()
        assert "Nothing was removed, archived or changed" in (caught_undo.value.hint or "")
