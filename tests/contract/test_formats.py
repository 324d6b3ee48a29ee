"""What a home does when its format is odd, or its index. The laws are in `test_laws`."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.errors import StorageError, UsageError
from holdfast.homes.agents.claude_code import ClaudeCode
from holdfast.homes.agents.known import STATE
from holdfast.homes.foreign.home import FormatHome
from holdfast.model.item import LEFTOVER, SESSION, Item
from holdfast.model.part import FilePart, LinePart, Part, Role, Signs, Slot, Unit
from holdfast.model.plan import Action, Plan
from holdfast.model.report import Result
from holdfast.model.session import Search, SessionFilter
from holdfast.parts.trees import TreeMover
from holdfast.policy.plan_by_name import plan_all, plan_named
from holdfast.policy.planner import plan
from holdfast.policy.rules import DAY, Limits, Policy, Rules
from holdfast.spine.apply import apply
from holdfast.spine.undo import undo
from tests.contract.agent_homes import NOW as AGENTS_NOW
from tests.contract.agent_homes import make_claude
from tests.contract.factory import files_and_rows as snapshot
from tests.contract.factory import touch_marmot
from tests.contract.sample_format import MarmotFormat, make_home
from tests.contract.test_parts import everything_below, give_away

NOW = 1_800_000_000.0
IDS = ("aa01", "bb02", "bb02-sub", "cc03")
MARMOT = MarmotFormat()


def clock() -> float:
    return NOW


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "home"
    make_home(root, IDS)
    return root


@pytest.fixture
def home(root: Path) -> Iterator[FormatHome]:
    opened = FormatHome(root, MARMOT, clock=clock)
    yield opened
    opened.close()


def prune_plan(home: FormatHome) -> Plan:
    policy = Policy(everywhere=Limits(rules=Rules(max_age=30 * DAY)))
    return plan(policy, home.scan(NOW), NOW, command="sessions prune")


def sessions_of(home: FormatHome) -> list[Item]:
    return [item for item in home.scan(NOW).items if item.kind == SESSION]


def removing(home: FormatHome, *ids: str) -> Plan:
    """A plan that removes these sessions, whatever a policy would say."""
    items = [item for item in home.scan(NOW).items if item.id in ids]
    return plan_all(items, str(home.root), NOW, command="test", reason="asked for", undoable=True)


def results(report: object) -> dict[str, Result]:
    return {each.id: each.result for each in report.outcomes}  # type: ignore[attr-defined]


# --- Looking --------------------------------------------------------------------------------------


def test_the_index_answers_and_can_be_deleted(home: FormatHome, root: Path) -> None:
    store = home.session_store()
    assert len(list(store.messages(IDS[0]))) == 2
    assert {hit.session.id for hit in store.search(Search(text="zebra"))} == set(IDS)
    home.close()
    shutil.rmtree(root / STATE / "index")
    assert home.session_store().count(SessionFilter()) == len(IDS)


def test_a_damaged_index_is_made_anew(home: FormatHome, root: Path) -> None:
    home.session_store()
    home.close()
    (root / STATE / "index" / "sessions.db").write_bytes(b"no database" * 1000)
    (root / STATE / "index" / "units.json").write_bytes(b"no json")
    assert home.session_store().count(SessionFilter()) == len(IDS)


def test_only_what_changed_is_read_again(home: FormatHome, root: Path) -> None:
    home.session_store().index()
    touch_marmot(root, IDS[0])
    read: list[str] = []
    real = MARMOT.messages

    class Counting:
        def __getattr__(self, name: str) -> object:
            return getattr(MARMOT, name)

        def messages(self, root: Path, unit: Unit) -> object:
            read.append(unit.id)
            return real(root, unit)

    again = FormatHome(root, Counting(), clock=clock)  # type: ignore[arg-type]
    store = again.session_store()
    assert read == []  # nobody asked for a word
    store.index()
    assert read == [IDS[0]]
    assert len(list(store.messages(IDS[0]))) == 3
    again.close()


def test_the_sessions_are_the_agents(home: FormatHome) -> None:
    store = home.session_store()
    with pytest.raises(UsageError, match="writes its sessions itself"):
        store.rename(IDS[0], "mine")
    assert store.pin(IDS[0], True).pinned  # the agent knows no pins: ours keep it from our plans


def test_a_session_that_cannot_be_read_costs_itself(root: Path) -> None:
    class Failing:
        def __getattr__(self, name: str) -> object:
            return getattr(MARMOT, name)

        def messages(self, root: Path, unit: Unit) -> object:
            if unit.id == IDS[0]:
                raise ValueError("torn")
            return MARMOT.messages(root, unit)

    home = FormatHome(root, Failing(), clock=clock)  # type: ignore[arg-type]
    assert {item.id for item in home.scan(NOW).items if item.kind == SESSION} == set(IDS)
    store = home.session_store()
    found = {hit.session.id for hit in store.search(Search(text="zebra"))}
    assert found == set(IDS) - {IDS[0]}
    assert [each.reason for each in store.unsearched()] == ["cannot be read: torn"]
    home.close()


# --- Undo is identity -----------------------------------------------------------------------------


def test_nothing_returns_over_something(home: FormatHome, root: Path, tmp_path: Path) -> None:
    report = apply(removing(home, IDS[0]), home, clock=clock)
    place = root / "chats" / f"{IDS[0]}.jsonl"
    place.write_text("something else\n")
    _, back = undo(home, str(report.operation), clock=clock)
    assert results(back) == {IDS[0]: Result.FAILED}
    assert place.read_text() == "something else\n"
    place.unlink()
    _, again = undo(home, str(report.operation), clock=clock)
    assert results(again) == {IDS[0]: Result.BROUGHT_BACK}


# --- The living stay ------------------------------------------------------------------------------


def test_a_session_that_comes_alive_half_way_goes_back(root: Path) -> None:
    """Life is asked again before each container: what had left by then returns."""
    asked = 0

    class Waking:
        def __getattr__(self, name: str) -> object:
            return getattr(MARMOT, name)

        def signs(self, root: Path, now: float) -> Signs:
            nonlocal asked
            asked += 1
            return Signs(units={IDS[0]: "it woke up"} if asked > 4 else {})

    home = FormatHome(root, Waking(), clock=clock)  # type: ignore[arg-type]
    made = removing(home, *IDS)
    before = snapshot(root)
    asked = 1
    report = apply(made, home, clock=clock)
    assert results(report) == {
        name: Result.SKIPPED if name == IDS[0] else Result.REMOVED for name in IDS
    }
    undo(home, str(report.operation), clock=clock)
    assert snapshot(root) == before
    home.close()


def test_signs_that_cannot_be_read_protect(root: Path) -> None:
    class Broken:
        def __getattr__(self, name: str) -> object:
            return getattr(MARMOT, name)

        def signs(self, root: Path, now: float) -> Signs:
            raise OSError(13, "Permission denied")

    home = FormatHome(root, Broken(), clock=clock)  # type: ignore[arg-type]
    assert all(item.alive for item in sessions_of(home))
    home.close()


def test_a_session_used_lately_stays(root: Path) -> None:
    lately = FormatHome(root, MARMOT, clock=lambda: 1e9 + 3600)
    assert all("used 1 h ago" in str(item.alive) for item in lately.scan(1e9 + 3600).items)
    lately.close()


# --- What it may not touch ------------------------------------------------------------------------


def test_parts_outside_the_home_are_refused(root: Path, tmp_path: Path) -> None:
    """A row may hold an absolute path of another home, after a copy or a move."""
    other = tmp_path / "other.jsonl"
    other.write_text("precious")

    class Astray:
        def __getattr__(self, name: str) -> object:
            return getattr(MARMOT, name)

        def units(self, root: Path, known: object) -> Iterator[Unit]:
            for unit in MARMOT.units(root, lambda _: None):
                yield replace(unit, parts=(*unit.parts, FilePart(path=other)))

    home = FormatHome(root, Astray(), clock=clock)  # type: ignore[arg-type]
    inventory = home.scan(NOW)
    assert not [item for item in inventory.items if item.kind == SESSION]
    assert all("outside the home" in problem.reason for problem in inventory.problems)
    assert other.read_text() == "precious"
    home.close()


def test_leftovers_stay_unless_somebody_asks(home: FormatHome, root: Path) -> None:
    found = [item for item in home.scan(NOW).items if item.kind == LEFTOVER]
    if not found:
        pytest.skip("this format has no leftovers")
    before = snapshot(root)
    decided = {item.id: item.action for item in prune_plan(home).items}
    assert {decided[item.id] for item in found} == {Action.KEEP}
    made = plan_all(found, str(root), NOW, command="test", reason="asked for", undoable=True)
    report = apply(made, home, clock=clock)
    assert set(results(report).values()) == {Result.REMOVED}
    undo(home, str(report.operation), clock=clock)
    assert snapshot(root) == before


# --- Archive --------------------------------------------------------------------------------------


def test_a_pinned_session_goes_when_a_person_names_it(home: FormatHome) -> None:
    """As in every home: a pin protects from rules. Pinned after the plan was made, it stays."""
    home.session_store().pin(IDS[0], True)
    plan = removing(home, IDS[0], IDS[3])
    home.session_store().pin(IDS[3], True)
    done = results(apply(plan, home, clock=clock))
    assert done == {IDS[0]: Result.REMOVED, IDS[3]: Result.SKIPPED}


# --- What is said ---------------------------------------------------------------------------------


class RunningMarmot(MarmotFormat):
    """Its menu is a trace, and Marmot runs: it writes the menu back from memory."""

    def _parts(self, root: Path, path: Path) -> tuple[Part, ...]:
        return tuple(
            replace(each, role=Role.TRACE) if isinstance(each, LinePart) else each
            for each in super()._parts(root, path)
        )

    def signs(self, root: Path, now: float) -> Signs:
        return Signs(rewrites="Marmot is running, and may write it back from memory")


@pytest.mark.parametrize("undoable", [True, False])
def test_what_stays_of_a_removed_session_is_said(root: Path, undoable: bool) -> None:
    home = FormatHome(root, RunningMarmot(), clock=clock)
    items = [item for item in home.scan(NOW).items if item.id == "aa01"]
    made = plan_all(items, str(root), NOW, command="t", reason="asked", undoable=undoable)
    report = apply(made, home, clock=clock)
    assert [(each.result, each.reason) for each in report.outcomes] == [
        (
            Result.REMOVED,
            "its entry in recent.json stays: Marmot is running, and may write it back from memory",
        )
    ]
    assert "aa01" in (root / "recent.json").read_text()
    assert "aa01" not in (root / "history.jsonl").read_text()


@pytest.mark.parametrize("part", ["chats/aa01.jsonl", "files/aa01/deep/out.bin"])
def test_a_plan_knows_what_a_process_has_open(home: FormatHome, root: Path, part: str) -> None:
    with (root / part).open() as file:
        process = subprocess.Popen(["sleep", "60"], stdin=file)
    try:
        alive = {each.id: each.alive for each in sessions_of(home)}
    finally:
        process.kill()
        process.wait()
    assert alive.pop("aa01") == f"{Path(part).name} is open in process {process.pid}"
    assert set(alive.values()) == {None}


def test_a_link_in_place_of_our_folder_is_refused(root: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (root / STATE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="is a link"):
        FormatHome(root, MARMOT, clock=clock)
    assert not list((tmp_path / "elsewhere").iterdir())


# --- Owners ---------------------------------------------------------------------------------------


def archive(home: FormatHome, *ids: str) -> None:
    made = plan_named(
        ids,
        home.scan(NOW),
        NOW,
        command="test",
        reason="asked for",
        undoable=True,
        action=Action.ARCHIVE,
    )
    apply(made, home, clock=clock)


def _without_database(root: Path) -> dict[str, object]:
    """And without the folder that is made anew."""
    return {
        name: each
        for name, each in everything_below(root).items()
        if name not in ("marmot.db", "files")
    }


def test_an_archived_session_returns_to_its_owner(home: FormatHome, root: Path) -> None:
    """Restored by root in the home of somebody else, its files are theirs; and a file with two
    names has both again."""
    (root / "files" / "aa01" / "again.bin").hardlink_to(
        root / "files" / "aa01" / "deep" / "out.bin"
    )
    if os.geteuid() == 0:
        give_away(root)
    before = _without_database(root)
    archive(home, "aa01")
    assert not (root / "files" / "aa01").exists()
    (root / "files").rename(root / "swept")  # the folder that it was in is made anew
    undo(home, "1", clock=clock)
    for path in (root / "swept").iterdir():
        path.rename(root / "files" / path.name)
    (root / "swept").rmdir()
    found = _without_database(root)
    assert {name: found.get(name) for name in before} == before
    assert (root / "files").stat().st_uid == root.stat().st_uid


def test_a_bundle_gives_nobody_the_rights_of_another(home: FormatHome, root: Path) -> None:
    """Whoever may write to the archive could have root make a program that runs as root."""
    file = root / "files" / "aa01" / "deep" / "out.bin"
    file.chmod(0o6755)
    archive(home, "aa01")
    undo(home, "1", clock=clock)
    assert stat.S_IMODE(file.stat().st_mode) == 0o755


def test_what_the_system_refuses_is_a_failure_and_no_skip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script must see that not all was removed: in use is one thing, permission denied another.
    The sessions of Claude Code are in a folder for each project."""
    root = tmp_path / "home"
    make_claude(root)
    form = ClaudeCode()
    home = FormatHome(root, form, clock=lambda: AGENTS_NOW)
    inventory = home.scan(AGENTS_NOW)
    transcripts = {
        each.id: next(root.glob(f"projects/*/{each.id}.jsonl"))
        for each in inventory.items
        if each.kind == SESSION
    }
    one = min(transcripts)
    elsewhere = root / "projects" / "-home-me-other"
    elsewhere.mkdir()
    transcripts[one].rename(elsewhere / transcripts[one].name)
    before = snapshot(root)
    drop = TreeMover.drop

    def refuse(self: TreeMover, batch: Sequence[Slot]) -> Sequence[str | None]:
        if any(each.part.place.parent == elsewhere for each in batch):
            raise PermissionError(13, "Permission denied", str(elsewhere))
        return drop(self, batch)

    monkeypatch.setattr(TreeMover, "drop", refuse)
    items = [each for each in home.scan(AGENTS_NOW).items if each.id in transcripts]
    made = plan_all(items, str(root), AGENTS_NOW, command="t", reason="asked", undoable=True)
    report = apply(made, home, clock=lambda: AGENTS_NOW)
    assert results(report) == {
        name: Result.FAILED if name == one else Result.REMOVED for name in transcripts
    }
    [failed] = [each for each in report.outcomes if each.result is Result.FAILED]
    assert "Permission denied" in failed.reason
    monkeypatch.undo()
    undo(home, str(report.operation), clock=lambda: AGENTS_NOW)
    assert snapshot(root) == before
    home.close()
