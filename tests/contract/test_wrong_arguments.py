"""Every public method refuses a value of the wrong type before it does anything, and says which.

The methods and their parameters are read from the classes, so that a new one is tested as well.
"""

from __future__ import annotations

import inspect
import math
import re
import reprlib
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import AsyncGuard, Guard, Home, HomePlan, HomeReport, Machine, Message, Recorder
from holdfast.api.archive import ArchivedSessions
from holdfast.api.arguments import KeepRules, PruneRules
from holdfast.api.capture import open_recorder
from holdfast.api.checkpoints import Checkpoints
from holdfast.api.run_limits import RunLimits
from holdfast.api.sessions import AgentSessions, open_sessions
from holdfast.api.trash import Log, Trash
from holdfast.api.undo import UndoPlan
from holdfast.errors import ClosedError, DamageError, NotAHomeError, UsageError
from holdfast.model.guard import Estimate
from holdfast.model.session import Search
from holdfast.services.session_reader import SearchOptions, SessionFilters

CLASSES = (
    Home,
    HomePlan,
    HomeReport,
    UndoPlan,
    Machine,
    AgentSessions,
    Guard,
    AsyncGuard,
    Checkpoints,
    ArchivedSessions,
    Trash,
    Log,
)
_KEYWORDS = {each.__name__: each for each in (KeepRules, PruneRules, SearchOptions, SessionFilters)}
#: Takes whatever it is given: any text, or a function of any kind.
_ANYTHING_GOES = {
    "AsyncGuard.tool_result(arguments)",
    "Checkpoints.take(turn)",
    "Guard.tool_result(arguments)",
    "Machine.look(what)",
}


def _methods() -> Iterator[tuple[type, str]]:
    for kind in CLASSES:
        for name, each in inspect.getmembers(kind, inspect.isfunction):
            if not name.startswith("_") and _parameters(each):
                yield kind, name


def _parameters(function: Any) -> list[tuple[str, str, inspect.Parameter | None]]:
    """The name and the annotation of each, of keyword rules too."""
    found: list[tuple[str, str, inspect.Parameter | None]] = []
    for each in list(inspect.signature(function).parameters.values())[1:]:
        if each.kind is inspect.Parameter.VAR_KEYWORD:
            keywords = _KEYWORDS[each.annotation.removeprefix("Unpack[").removesuffix("]")]
            found += [(name, _said(said), None) for name, said in keywords.__annotations__.items()]
        else:
            found.append((each.name, each.annotation, each))
    return found


def _said(annotation: Any) -> str:
    return str(getattr(annotation, "__forward_arg__", annotation))


def _wrong(said: str) -> Iterator[Any]:
    """Values that a parameter with this annotation does not take."""
    yield object()
    words = set(re.findall(r"\w+", said.partition("Callable")[0]))
    if "bool" in words:
        yield from (1, "no")
    if words & {"int", "float"}:
        yield from (math.nan, True)
        yield from () if "str" in words else ("x",)
    if words & {"str", "Ids", "SessionRef", "StrPath", "Which"}:
        yield from (5.5, b"x", [5])


class Sample:
    """A home with a bit of everything, opened, and a right value for each parameter that must be
    given."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.person = folder / "person"
        project = self.person / "project"
        (project / ".git").mkdir(parents=True)
        (project / "file").write_text("x")
        self.home = home = holdfast.open(self.person / ".holdfast", create=True)
        sessions = home.sessions
        for name in ("here", "gone", "removed"):
            sessions.append(sessions.create(source="cli", id=name), Message("user", "hello"))
            sessions.end(name)
        home.archive_sessions("gone")
        report = home.delete("removed")
        guard = sessions.guard(sessions.create(source="cli", id="guarded"))
        taken = home.checkpoints.take(project).id
        home.checkpoints.add_remote("backup", str(folder / "nowhere"))
        self.machine = holdfast.machine(user_home=self.person)
        (agent_home,) = self.machine.homes
        self.objects: Mapping[type, object] = {
            Home: home,
            HomePlan: home.plan_delete("here"),
            HomeReport: report,
            UndoPlan: home.plan_undo(),
            Machine: self.machine,
            AgentSessions: sessions,
            Guard: guard,
            AsyncGuard: AsyncGuard(guard),
            Checkpoints: home.checkpoints,
            ArchivedSessions: home.archive,
            Trash: home.trash,
            Log: home.log,
        }
        self.right: Mapping[str, Any] = {
            "act": lambda: None,
            "agent": "claude-code",
            "archived": home.archive.find(),
            "asked": Search(text="hello"),
            "estimate": Estimate(),
            "entry": home.trash.list()[0],
            "failed": True,
            "fails_closed": True,
            "file": folder / "file.jsonl",
            "found": home.checkpoints.list()[0],
            "from_number": 1,
            "home": agent_home,
            "ids": "here",
            "maps": {},
            "make": lambda home: home.plan_prune(),
            "messages": [Message("user", "x")],
            "name": "name",
            "on": True,
            "operation": report.operation,
            "operations": [],
            "output": folder / "out.jsonl",
            "path": project,
            "paths": "file",
            "place": self.machine.place(agent_home),
            "policy": home.settings.policy(),
            "prefix": "here",
            "remote": "backup",
            "reservation": None,
            "request": {},
            "routing_key": "key",
            "run": "run",
            "scheduler": "cron",
            "seconds": 1.0,
            "session": "here",
            "sessions": [sessions.get("here")],
            "source": "cli",
            "stopped": lambda: True,
            "text": "hello",
            "title": "title",
            "tool": "bash",
            "url": "/nowhere",
            "usage": None,
            "model": None,
            "verb": "undo",
            "what": lambda place: place,
            "which": taken,
            "workdir": project,
            "Checkpoints.policy": home.settings.checkpoint_policy(),
        }
        sessions.find(source="cli")

    def close(self) -> None:
        self.machine.close()
        self.home.close()

    def files(self) -> Mapping[str, bytes]:
        found = (each for each in self.folder.rglob("*") if each.is_file())
        return {str(each): each.read_bytes() for each in found if each.suffix != ".db-shm"}


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sample]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("wrong")
        patch.setenv("HOME", str(folder / "person"))
        made = Sample(folder)
        yield made
        made.close()


@pytest.mark.parametrize(
    ("kind", "name"), [*_methods()], ids=[f"{kind.__name__}.{name}" for kind, name in _methods()]
)
def test_a_value_of_the_wrong_type_is_refused(sample: Sample, kind: type, name: str) -> None:
    method = getattr(sample.objects[kind], name)
    before = sample.files()
    for wanted, said, _ in _parameters(getattr(kind, name)):
        if f"{kind.__name__}.{name}({wanted})" in _ANYTHING_GOES:
            continue
        for wrong in _wrong(said):
            with pytest.raises(UsageError) as caught:  # noqa: PT012 - an iterator is lazy
                found = _called(sample, method, wanted, wrong)
                if inspect.isgenerator(found):
                    next(found)
            # Not something else that is wrong: it names the parameter, or shows the value.
            shown = {repr(wrong), reprlib.repr(wrong), repr(wrong[0] if wrong == [5] else wrong)}
            said_wrong = {wanted, wanted.rstrip("s"), *shown}
            assert any(each in caught.value.message for each in said_wrong), (wanted, wrong)
            assert sample.files() == before, (wanted, wrong)


def _called(sample: Sample, method: Callable[..., Any], wanted: str, wrong: Any) -> Any:
    """The method with one wrong value, and right ones where some must be given."""
    first: list[Any] = []
    named: dict[str, Any] = {}
    for name, each in inspect.signature(method).parameters.items():
        if each.kind is inspect.Parameter.VAR_POSITIONAL:
            first += [wrong] if name == wanted else []
        elif name == wanted:
            named[name] = wrong
        elif each.default is inspect.Parameter.empty and each.kind is not each.VAR_KEYWORD:
            kind = type(method.__self__).__name__  # type: ignore[attr-defined]
            named[name] = sample.right.get(f"{kind}.{name}", sample.right.get(name))
    if wanted not in named and not first:
        named[wanted] = wrong  # a keyword rule
    if wanted == "parent_id" and method.__name__ == "create":
        named["relation"] = "fork"
    if first:  # what stands before `*messages`
        return method(*named.values(), *first)
    return method(**named)


# --- What has no class ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("create", 1),
        ("clock", 5),
        ("command", 5),
        ("environ", 5),
        ("environ", {"HOLDFAST_SESSIONS_RETENTION_DAYS": 5}),
    ],
)
def test_a_home_is_opened_with_right_types_only(tmp_path: Path, name: str, wrong: Any) -> None:
    with pytest.raises(UsageError, match=f"`{name}`"):
        holdfast.open(tmp_path / "home", **{"create": True, name: wrong})
    assert not (tmp_path / "home").exists()
    if name != "create":
        with pytest.raises(UsageError, match=f"`{name}`"):
            holdfast.machine(user_home=tmp_path, **{name: wrong})


def test_one_agent_of_a_machine_is_one(tmp_path: Path) -> None:
    holdfast.open(tmp_path / ".holdfast", create=True).close()
    with holdfast.machine(user_home=tmp_path, environ={}, agents="holdfast") as machine:
        assert [each.agent for each in machine.homes] == ["holdfast"]
    with pytest.raises(UsageError, match="`agents` takes strings, not 5"):
        holdfast.machine(user_home=tmp_path, agents=5)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no agent 'hermse'"):
        _ = holdfast.machine(user_home=tmp_path, agents="hermse").homes


def test_the_variables_of_a_caller_say_where_a_home_is(tmp_path: Path) -> None:
    place = tmp_path / "elsewhere"
    holdfast.open(place, create=True).close()
    with holdfast.open("holdfast", environ={"HOLDFAST_HOME": str(place)}) as home:
        assert home.path == place.resolve()


# --- Messages and requests ------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with holdfast.open(tmp_path / "home", create=True) as home:
        for name in ("one", "two", "three"):
            home.sessions.append(home.sessions.create(source="cli", id=name), Message("user", "x"))
            home.sessions.end(name)
        yield home


@pytest.mark.parametrize("wrong", [Message("user", "x"), {"role": "user"}, "x", None])
def test_a_message_alone_does_not_replace_a_list(home: Home, wrong: Any) -> None:
    home.sessions.reopen("one")
    for replace in (home.sessions.replace_messages, home.sessions.compact):
        with pytest.raises(UsageError, match="must be a list of messages") as caught:
            replace("one", wrong)
        assert caught.value.hint == "Put a single message into a list: `[message]`."
    assert [each.content for each in home.sessions.messages("one")] == ["x"]


def test_a_request_that_is_not_json_leaves_no_file(home: Home) -> None:
    with pytest.raises(UsageError, match="cannot be written as JSON"):
        home.sessions.dump_request("one", {"a": object()})  # type: ignore[dict-item]
    assert not [*home.path.glob("sessions/request_dump*")]


def test_one_checkpoint_to_pin_may_stand_alone(home: Home, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "file").write_text("x")
    taken = home.checkpoints.take(project).id or ""
    assert [each.pinned for each in home.checkpoints.pin_all(taken)] == [True]


# --- The log, and a home that was closed ----------------------------------------------------------


def test_a_damaged_record_is_not_passed_over_by_undo(home: Home) -> None:
    for name in ("one", "two", "three"):
        assert home.delete(name).operation
    path = home.path / "operations" / "3.jsonl"
    path.write_text(path.read_text().replace('"undoable":true', '"undoable":1'))
    for undo in (home.undo_latest, home.plan_undo):
        with pytest.raises(DamageError, match="record of operation 3 is damaged") as caught:
            undo()
        assert (caught.value.hint or "").startswith("The latest before it: `home.undo('2')`.")
    assert home.undo("2").brought_back
    assert not [each for each in home.log.read().operations if each.id == "1" and each.undone_by]
    home.delete("two")
    assert home.undo_latest().brought_back  # it is later than what is damaged


def test_a_closed_home_says_so_first(home: Home, tmp_path: Path) -> None:
    home.close()
    calls: tuple[Callable[[], object], ...] = (
        lambda: home.undo(None),
        lambda: home.load_plan(tmp_path / "none"),
        lambda: home.import_checkpoints(tmp_path / "none"),
        home.scan,
        lambda: home.sessions,
    )
    for call in calls:
        with pytest.raises(ClosedError, match="was closed"):
            call()


def test_no_home_is_where_none_is(tmp_path: Path) -> None:
    with pytest.raises(NotAHomeError):
        holdfast.open("holdfast", environ={"HOLDFAST_HOME": str(tmp_path / "none")})


# --- What is not made by calling its class --------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "way"),
    [
        (Home, "`holdfast.open(path)`"),
        (partial(Home, create=True), "`holdfast.open(path)`"),  # type: ignore[call-arg]
        (Machine, "`holdfast.machine()`"),
        (partial(Machine, environ=5), "`holdfast.machine()`"),  # type: ignore[arg-type]
        (Guard, "`home.sessions.guard(session)`"),
        (AgentSessions, "`home.sessions`"),
        (Recorder, "`home.checkpoints.recorder()`"),
        (partial(Recorder, clock=time.time), "`home.checkpoints.recorder()`"),
    ],
    ids=map(str, range(8)),
)
def test_a_constructor_says_how_to_get_one(tmp_path: Path, made: Any, way: str) -> None:
    for given in ((), (tmp_path,), (str(tmp_path),)):
        with pytest.raises(UsageError) as caught:
            made(*given)
        assert way in (caught.value.hint or "")


@pytest.mark.parametrize("told", [datetime(2026, 1, 1, tzinfo=UTC), None, math.nan, "now"], ids=str)
def test_a_clock_that_tells_no_time_is_named(tmp_path: Path, told: Any) -> None:
    with holdfast.open(tmp_path / "home", create=True, clock=lambda: told) as home:
        calls: tuple[Callable[[], object], ...] = (
            home.plan_prune,
            lambda: home.plan_prune(older_than="1d"),
            lambda: home.sessions.create(source="cli"),
            home.status,
        )
        for call in calls:
            with pytest.raises(UsageError, match="not a time in epoch seconds"):
                call()
        assert "not a time in epoch seconds" in str(home.maintain().error)
    machine = holdfast.machine(user_home=tmp_path, environ={}, clock=lambda: told)
    with pytest.raises(UsageError, match="not a time in epoch seconds"):
        machine.overview()


@pytest.mark.parametrize(
    ("budgets", "given"), [([5], {}), ([], {"max_time": 5}), ([], {"strict": "no"})]
)
def test_limits_of_a_run_have_right_types(budgets: Any, given: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="must be"):
        RunLimits.read(budgets, **given)
    assert RunLimits.read("5USD") == RunLimits(cost=5.0)
    with pytest.raises(UsageError, match="must be a number"):
        RunLimits(tokens="5")  # type: ignore[arg-type]


def test_a_refused_plan_of_a_machine_makes_nothing(tmp_path: Path) -> None:
    machine = holdfast.machine(user_home=tmp_path)
    for plan in (machine.plan_connect("claude-code"), machine.plan(lambda home: home.plan_prune())):
        with pytest.raises(UsageError, match="progress"):
            plan.apply(progress=object())  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="pairs of a home and a number"):
        machine.undo_each(["x"])  # type: ignore[list-item]
    assert not [*tmp_path.iterdir()]


def test_maintenance_is_not_forced_by_a_word(tmp_path: Path) -> None:
    holdfast.open(tmp_path / "home", create=True).close()
    result = holdfast.maintain(tmp_path / "home", force="no")  # type: ignore[arg-type]
    assert "`force` must be True or False" in str(result.error)


def test_the_name_of_an_agent_is_its_home_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    monkeypatch.delenv("HOLDFAST_HOME", raising=False)
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    open_sessions("holdfast").close()
    open_recorder("holdfast")
    assert holdfast.maintain("holdfast").home == str(tmp_path / "person" / ".holdfast")
    assert not [*here.iterdir()]
    assert (tmp_path / "person" / ".holdfast").is_dir()


def test_a_mistyped_agent_is_corrected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for wrong, meant in (("codx", "codex"), ("claude", "claude-code")):
        with pytest.raises(NotAHomeError) as caught:
            holdfast.open(wrong)
        assert f"Did you mean {meant!r}?" in (caught.value.hint or "")


def test_a_variable_that_is_none_of_ours_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    environ = {"HOLDFAST_SESSIONS_RETENTION_DAY": "5"}
    with holdfast.open(tmp_path / "home", create=True, environ=environ):
        pass
    assert "did you mean HOLDFAST_SESSIONS_RETENTION_DAYS?" in caplog.text
