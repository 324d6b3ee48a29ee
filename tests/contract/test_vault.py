"""The vault over every agent of the factory: what an agent deletes by itself is not lost."""

from __future__ import annotations

import errno
import io
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import Home
from holdfast.api.machine import Machine
from holdfast.errors import (
    CannotUndoError,
    SessionExistsError,
    StorageError,
    UnknownSessionError,
    UsageError,
)
from holdfast.homes.vault import refresh
from holdfast.homes.vault.names import ABOUT
from holdfast.model.checkup import Severity
from holdfast.model.report import Result
from holdfast.parts.trees import remove_tree
from holdfast.stores.archive.archive import SessionArchive
from tests.contract import factory, swept
from tests.contract.factory import AGENTS, Sample, Templates
from tests.contract.swept import vaulted
from tests.contract.turns import Turns, marks
from tests.object_servers import CREDENTIALS, an_address, names_at, rclone

_turns = Turns(AGENTS, share=2)
#: The folders of a vault while nothing is done to it.
STORES = {"names", "cold"}


def over_agents(function: Any) -> Any:
    quick = _turns.take(AGENTS)
    params = [pytest.param(each, marks=marks(each in quick), id=each) for each in AGENTS]
    return pytest.mark.parametrize("bench", params, indirect=True)(function)


class Bench:
    """The home of an agent whose vault is on."""

    def __init__(self, sample: Sample, root: Path) -> None:
        self.sample = sample
        self.root = root
        self.now = sample.now
        swept.turn_on(sample, root)
        self.home = self.opened()

    def opened(self) -> Home:
        return holdfast.open(self.root, clock=lambda: self.now)

    def again(self) -> Home:
        """The home as the next process sees it."""
        self.home.close()
        self.home = self.opened()
        return self.home

    def going(self) -> list[str]:
        """Sessions that nobody uses."""
        return swept.idle(self.sample, self.home)


@pytest.fixture(scope="session")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Templates:
    return Templates(tmp_path_factory.mktemp("templates").resolve())


@pytest.fixture
def bench(request: pytest.FixtureRequest, templates: Templates, tmp_path: Path) -> Iterator[Bench]:
    with factory.formats_installed(tmp_path / "packages"):
        sample = templates.copy(request.param, tmp_path / "home")
        made = Bench(sample, (tmp_path / "home").resolve())
        yield made
        made.home.close()


def agent_deletes(bench: Bench, ids: list[str]) -> None:
    swept.sweep(bench.home, ids)
    bench.again()


def said(home: Home, session: str) -> list[Any]:
    return list(home.sessions.messages(session))


@over_agents
def test_what_an_agent_deletes_is_listed_read_found_and_comes_back(bench: Bench) -> None:
    home, going = bench.home, bench.going()
    before = {each: (home.sessions.get(each), said(home, each)) for each in going}
    done = home.refresh_vault()
    assert not done.problems
    assert done.named + done.copied >= len(going)
    assert not home.refresh_vault().changed
    agent_deletes(bench, going)
    for _ in range(2):  # before the vault has noticed, and after
        home = bench.home
        listed = {each.id for each in vaulted(home)}
        assert listed >= set(going)
        for each in going:
            assert said(home, each) == before[each][1]
            assert home.sessions.get(each).title == before[each][0].title
        hits = home.sessions.search(bench.sample.word)
        assert {hit.session.id for hit in hits} & set(going)
        home.refresh_vault()
        bench.again()
    report = bench.home.restore_sessions(going)
    assert {each.result for each in report.outcomes} == {Result.BROUGHT_BACK}, report.outcomes
    home = bench.again()
    assert not home.sessions.find(vaulted=True)
    for each in going:
        assert said(home, each) == before[each][1]
    # The vault has them still: an agent may delete them again before anybody looks after it.
    bench.now += 2 * 86_400
    bench.again()
    agent_deletes(bench, going)
    home = bench.home
    assert {each.id for each in vaulted(home)} == set(going)
    for each in going:
        assert said(home, each) == before[each][1]
    assert bench.again().restore_sessions(going).brought_back == len(going)
    assert not bench.again().refresh_vault().changed
    assert {each.name for each in (home.path / bench.sample.state / "vault").iterdir()} <= STORES


@pytest.mark.parametrize("bench", ["opencode"], indirect=True)
def test_ended_while_a_session_leaves_the_vault_its_agent_may_delete_it_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dropped_and_ended(archive: SessionArchive, files: Iterable[str], operation: str) -> None:
        archive.drop(files, operation)
        raise KeyboardInterrupt

    bench.home.refresh_vault()
    going = bench.going()[:1]
    with monkeypatch.context() as patch:
        patch.setattr(SessionArchive, "drop_in_time", dropped_and_ended)
        with pytest.raises(KeyboardInterrupt):
            bench.home.turn_vault(False)
    assert not bench.again().turn_vault(True).problems
    assert not (bench.home.path / bench.sample.state / "vault" / "going").exists()
    agent_deletes(bench, going)
    report = bench.home.restore_sessions(going)
    assert {each.result for each in report.outcomes} == {Result.BROUGHT_BACK}, report.outcomes


@pytest.mark.parametrize("bench", ["opencode"], indirect=True)
@pytest.mark.parametrize("dropped", [False, True])
def test_ended_while_a_session_leaves_the_vault_it_is_not_listed_there(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, dropped: bool
) -> None:
    def dropped_and_ended(archive: SessionArchive, files: Iterable[str], operation: str) -> None:
        if dropped:
            archive.drop(files, operation)
        raise KeyboardInterrupt

    bench.home.refresh_vault()
    [going, *_] = bench.going()
    before = said(bench.home, going)
    with monkeypatch.context() as patch:
        patch.setattr(SessionArchive, "drop_in_time", dropped_and_ended)
        with pytest.raises(KeyboardInterrupt):
            bench.home.delete([going])
    home = bench.again()
    assert not home.sessions.find(vaulted=True)
    assert not home.refresh_vault().problems
    assert not home.sessions.find(vaulted=True)
    assert not (home.path / bench.sample.state / "vault" / "going").exists()
    home.undo_latest()
    assert said(home, going) == before


def files_below(folder: Path) -> int:
    """What the disk says: each file once, however many names it has."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_dir():
            status = path.lstat()
            found[status.st_ino] = status.st_blocks * 512
    return sum(found.values())


@over_agents
def test_no_byte_counts_twice_and_what_holdfast_prunes_is_not_kept(bench: Bench) -> None:
    home = bench.home
    before = {each.id: each.bytes for each in home.scan().items}
    home.refresh_vault()
    home = bench.again()
    assert {each.id: each.bytes for each in home.scan().items} == before
    inventory = home.status().inventory
    assert inventory.total_bytes == files_below(bench.root)
    vault = bench.root / bench.sample.state / "vault"
    for each in (vault, vault / "names", *(vault / "names").glob("*"), *vault.glob("names/*/*")):
        assert each.stat().st_mode & 0o777 == 0o700  # what agents said is private
    assert bench.sample.plan(home).apply().removed
    home = bench.again()
    assert not home.sessions.find(vaulted=True)
    assert home.status().inventory.total_bytes == files_below(bench.root)
    home.trash.empty()
    assert not home.sessions.find(vaulted=True)
    assert home.status().inventory.total_bytes == files_below(bench.root)


@over_agents
def test_a_restore_is_not_undone_but_archived_again(bench: Bench) -> None:
    going = bench.going()[:1]
    before = said(bench.home, going[0])
    bench.home.refresh_vault()
    agent_deletes(bench, going)
    restored = bench.home.restore_sessions(going)
    with pytest.raises(CannotUndoError, match="removed nothing") as refused:
        bench.home.undo(restored.operation)
    assert "home.archive_sessions" in (refused.value.hint or "")
    bench.now += 7 * 86_400  # an agent may have written what is this young
    archived = bench.again().archive_sessions(going)
    assert archived.removed == 1, archived.outcomes
    assert not bench.again().sessions.find(vaulted=True), "the vault let go of it, too"
    assert bench.home.undo(archived.operation).brought_back == 1
    assert said(bench.again(), going[0]) == before


@pytest.mark.parametrize(
    "bench", ["claude-code", pytest.param("opencode", marks=pytest.mark.deep)], indirect=True
)
def test_the_vault_has_its_own_age_and_cap_through_plan_trash_and_undo(bench: Bench) -> None:
    day, going = 86_400.0, bench.going()
    swept.turn_on(bench.sample, bench.root, "cold_days = 0\nretention_days = 10\n")
    home = bench.again()
    home.refresh_vault()
    agent_deletes(bench, going)
    bench.home.refresh_vault()
    bench.now += 5 * day
    home = bench.again()
    home.maintain(force=True)
    assert {each.id for each in vaulted(home)} >= set(going)
    bench.now += 6 * day
    home = bench.again()
    home.pin_sessions(going)
    home.maintain(force=True)
    assert {each.id for each in vaulted(home)} >= set(going)  # a pin protects
    home.pin_sessions(going, pinned=False)
    result = home.maintain(force=True)
    assert not result.errors
    assert not home.sessions.find(vaulted=True)
    [operation] = [each for each in home.log.list() if each.removed and each.in_trash]
    assert operation.command == "maintain"
    assert home.undo(operation).brought_back == len(going)
    home = bench.again()
    assert {each.id for each in vaulted(home)} == set(going)
    swept.turn_on(bench.sample, bench.root, "cold_days = 0\nmax_total_size_mb = 1\n")
    home = bench.again()
    kept = home.plan_maintain()
    assert not [each for plan in kept for each in plan.plan.removals if "vault" in each.kind]
    assert home.restore_sessions(going).brought_back == len(going)


@pytest.mark.parametrize("bench", ["claude-code"], indirect=True)
def test_a_vaulted_session_is_deleted_exported_and_not_archived(bench: Bench) -> None:
    home, going = bench.home, bench.going()
    home.refresh_vault()
    agent_deletes(bench, going)
    home = bench.home
    with pytest.raises(UsageError, match="only in the vault"):
        home.archive_sessions(going[0])
    out = io.BytesIO()
    home.export(out, going)
    assert len(out.getvalue().splitlines()) == len(going)
    gone = home.delete(going)
    assert gone.removed == len(going)
    assert not bench.again().sessions.find(vaulted=True)
    assert bench.home.undo(gone.operation).brought_back == len(going)
    assert {each.id for each in vaulted(bench.again())} == set(going)
    assert bench.home.delete(going, use_trash=False).removed == len(going)
    assert not list((bench.root / bench.sample.state / "vault" / "names").iterdir())[4:]
    with pytest.raises(UnknownSessionError):
        bench.again().restore_sessions(going[0])


@pytest.mark.parametrize("bench", ["claude-code"], indirect=True)
def test_the_vault_that_is_off_lets_go_of_what_the_agent_has(bench: Bench) -> None:
    home, going = bench.home, bench.going()
    home.refresh_vault()
    agent_deletes(bench, going[:1])
    done = bench.home.turn_vault(False)
    home = bench.again()
    assert done.let_go == len(home.sessions.find(vaulted=False, roots=True))
    assert [each.id for each in vaulted(home)] == going[:1]
    assert home.vault is not None
    assert (home.vault.enabled, home.vault.sessions, home.vault.alone) == (False, 1, 1)
    assert home.restore_sessions(going[:1]).brought_back == 1


@pytest.mark.parametrize("bench", ["claude-code"], indirect=True)
def test_bad_days_of_the_vault(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a second name is impossible there is a copy; what was changed since is not restored; a
    link in place of the vault is not followed."""
    home, going = bench.home, bench.going()
    monkeypatch.setattr(os, "link", _no_links)
    (bench.root / "projects" / "-work").mkdir()
    (bench.root / "projects" / "-work" / "00000000-0000-4000-8000-000000000000.jsonl").touch()
    done = bench.again().refresh_vault()
    home = bench.home
    here = home.sessions.find(roots=True)
    assert (done.named, done.copied) == (0, len(here) - 1)  # an empty file is not worth a copy
    assert "as copies" in done.describe()
    monkeypatch.undo()
    assert not home.path.joinpath(".holdfast/vault").is_symlink()
    state = bench.root / bench.sample.state
    first, second = going[:2]
    copies = [path for path in (state / "vault/names" / first).rglob("*.0") if path.is_file()]
    assert copies
    assert all(path.stat().st_nlink == 1 for path in copies)
    agent_deletes(bench, going)
    bench.home.refresh_vault()
    bench.again()
    # Somebody edits a sealed file.
    with copies[0].open("ab") as file:
        file.write(b"more")
    found = [each for each in bench.home.doctor().findings if each.check == "vault"]
    assert found[0].severity.value == "damage"
    [outcome] = bench.home.restore_sessions(first).outcomes
    assert (outcome.result, "was changed" in outcome.reason) == (Result.DAMAGED, True)
    assert bench.again().restore_sessions(second).brought_back == 1
    elsewhere = bench.root.parent / "elsewhere"
    (state / "vault").rename(elsewhere)
    (state / "vault").symlink_to(elsewhere)
    with pytest.raises(StorageError, match="is a link"):
        bench.again().refresh_vault()
    assert not bench.home.sessions.find(vaulted=True)


def _no_links(*_: object, **__: object) -> None:
    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))


@pytest.mark.deep
@pytest.mark.parametrize("bench", ["claude-code", "opencode"], indirect=True)
def test_what_is_cold_can_lie_in_an_object_store(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    place = an_address(rclone().endpoint)
    archive = f'[archive]\nendpoint = "{place.endpoint}"\nurl = "{place.url}"\n'
    swept.turn_on(bench.sample, bench.root, f'cold_days = 0\nurl = "{place.url}"\n{archive}')
    home, going = bench.again(), bench.going()
    before = {each: said(home, each) for each in going}
    home.refresh_vault()
    agent_deletes(bench, going)
    bench.home.refresh_vault()
    home = bench.again()
    assert {each.id for each in vaulted(home)} == set(going)
    assert not home.archive.count()  # what the vault has is not archived
    stored = [each for each in names_at(place.url, place.endpoint) if each.endswith(".tar.zst")]
    assert len(stored) >= len(going)
    assert not [*(bench.root / bench.sample.state).rglob("*.tar.zst")]
    assert {each: said(home, each) for each in going} == before
    gone = home.delete(going)
    assert not home.sessions.find(vaulted=True)
    assert home.undo(gone.operation).brought_back == len(going)
    assert bench.again().restore_sessions(going).brought_back == len(going)
    assert {each: said(bench.again(), each) for each in going} == before


@pytest.mark.parametrize(
    "bench",
    ["codex", *(pytest.param(each, marks=pytest.mark.deep) for each in ("copilot", "cline"))],
    indirect=True,
)
def test_a_row_whose_transcript_is_gone_is_vaulted(bench: Bench) -> None:
    """An agent, or somebody else, deletes the file and leaves the row: what is left must not take
    the place of what the vault has, nor take it away."""
    home, going = bench.home, bench.going()
    before = {each: said(home, each) for each in going}
    home.refresh_vault()
    home = bench.again()
    files = [home.need_store().transcript(each) for each in going]  # type: ignore[attr-defined]
    for path in files:
        path.unlink()
    for turn in range(3):
        home = bench.again()
        assert {each.id for each in vaulted(home)} == set(going)
        assert {each: said(home, each) for each in going} == before
        assert not [each for each in home.scan().items if each.id in going and each.in_use]
        if turn == 0:
            home.refresh_vault()
        else:
            home.turn_vault(False)  # which lets go of what the agent has
    plan = bench.sample.plan(home)
    report = plan.apply()  # what is left of them goes into the trash
    home = bench.again()
    assert {each: said(home, each) for each in going} == before
    home.undo(report.operation or "")
    home = bench.again()
    restored = home.restore_sessions(going)
    assert restored.brought_back == len(going), restored.outcomes
    assert all(path.exists() for path in files)
    assert {each: said(bench.again(), each) for each in going} == before


def _with_files(bench: Bench) -> tuple[str, Path, list[Path]]:
    """A session that has more than its transcript: its id, that, and the other files."""
    for session in bench.going():
        transcript = bench.home.need_store().transcript(session)  # type: ignore[attr-defined]
        others = [each for each in transcript.with_suffix("").rglob("*") if each.is_file()]
        if others:
            return session, transcript, others
    raise AssertionError("no session has files")


@pytest.mark.parametrize("bench", ["claude-code"], indirect=True)
@pytest.mark.parametrize("whole", [False, True])
def test_what_an_agent_deletes_of_a_session_that_it_has_is_kept(bench: Bench, whole: bool) -> None:
    session, transcript, others = _with_files(bench)
    before = {each: each.read_bytes() for each in (transcript, *others)}
    bench.home.refresh_vault()
    for each in others:
        each.unlink()
    if whole:
        shutil.rmtree(transcript.with_suffix(""))
    for _ in range(2):  # kept in the next generation, and in the one after that
        assert bench.again().refresh_vault().named == 1
        with transcript.open("ab") as file:
            file.write(b"\n")
    bench.again().refresh_vault()
    agent_deletes(bench, [session])
    bench.home.refresh_vault()
    assert bench.again().restore_sessions(session).brought_back == 1
    assert {each: each.read_bytes() for each in others} == {each: before[each] for each in others}
    assert transcript.read_bytes() == before[transcript] + b"\n\n"


@pytest.mark.parametrize("bench", ["claude-code"], indirect=True)
def test_sessions_inside_another_one_are_read_as_long_as_that(bench: Bench) -> None:
    """Listed, shown, found and restored, as before their agent deleted the session they lie in."""
    swept.turn_on(bench.sample, bench.root, "cold_days = 1\n")
    home, going = bench.again(), {*bench.going()}
    inner = [each.id for each in home.sessions.find() if each.parent_id in going]
    assert inner
    before = {each: (home.sessions.get(each).parent_id, said(home, each)) for each in inner}
    home.refresh_vault()
    agent_deletes(bench, [*going])
    for _ in range(3):  # before the vault has noticed, and after, and compressed
        home = bench.home
        assert {each.id for each in home.sessions.find(vaulted=True)} == {*going, *inner}
        for each in inner:
            assert (home.sessions.get(each).parent_id, said(home, each)) == before[each]
        hits = home.sessions.search("the", limit=1_000)
        assert {hit.session.id for hit in hits} & {*inner}
        bench.now += 86_400
        home.refresh_vault()
        bench.again()
    report = bench.home.restore_sessions(inner)
    assert report.brought_back == len({before[each][0] for each in inner}), report.outcomes
    assert {each: said(bench.again(), each) for each in inner} == {
        k: v[1] for k, v in before.items()
    }


@pytest.mark.parametrize("bench", ["claude-code"], indirect=True)
@pytest.mark.parametrize("by", ["less", "zeros", "link", "folder"])
def test_a_part_is_not_replaced_by_less(bench: Bench, by: str) -> None:
    session, transcript, others = _with_files(bench)
    edits = bench.root / "file-history" / session
    edits.mkdir(parents=True, exist_ok=True)
    others += [edits / "0123@v1", bench.root / "debug" / f"{session}.txt"]
    elsewhere = bench.root.parent / "elsewhere"
    elsewhere.mkdir()
    for each in (*others[-2:], elsewhere / "other"):
        each.parent.mkdir(exist_ok=True)
        each.write_bytes(b"an edit\n")
    before = {each: each.read_bytes() for each in (transcript, *others)}
    bench.again().refresh_vault()
    tops = [transcript.with_suffix(""), edits, others[-1]]
    for each in tops:
        remove_tree(each)
    bench.again().refresh_vault()  # it holds these alone now
    for each in others if by != "link" else tops:
        each.parent.mkdir(parents=True, exist_ok=True)
        if by == "link":
            each.symlink_to(elsewhere)
        elif by == "folder":
            each.mkdir()
        else:
            each.write_bytes(b"{}" if by == "less" else bytes(2 * len(before.get(each, b""))))
    for number in range(2):  # kept in the next generation, and in the one after that
        assert not bench.again().refresh_vault().problems
        with transcript.open("ab") as file:
            file.write(b"\n" * number)
    agent_deletes(bench, [session])
    bench.home.refresh_vault()
    for each in filter(Path.is_symlink, tops):
        each.unlink()
    report = bench.again().restore_sessions(session)
    assert report.brought_back == 1, report.outcomes
    for each in others:
        replaced = by == "folder" or (by == "less" and each.suffix != ".json")
        kept = each.with_name(f"earlier-1-{each.name}") if replaced else each
        assert kept.read_bytes() == before[each]
        assert not each.with_name(f"earlier-2-{each.name}").exists()
    assert not [each for each in bench.root.rglob("*") if each.is_symlink()]
    assert not bench.again().refresh_vault().changed


@pytest.mark.parametrize("bench", ["gptme"], indirect=True)
@pytest.mark.parametrize("cold", [False, True])
def test_a_link_of_a_session_comes_back_as_that_link(bench: Bench, cold: bool) -> None:
    """gptme notes the working directory of a session as a link in its folder."""
    if cold:
        swept.turn_on(bench.sample, bench.root, "cold_days = 0\n")
    session, _ = bench.going()
    link = bench.root / "logs" / session / "workspace"
    leads_to, cwd = link.readlink(), bench.home.sessions.get(session).cwd
    bench.again().refresh_vault()
    link.unlink()  # kept in the next generation too
    (link.parent / "events.jsonl").touch()
    assert not bench.again().refresh_vault().problems
    agent_deletes(bench, [session])
    bench.home.refresh_vault()
    link.parent.mkdir()
    link.symlink_to(leads_to)  # left behind by the agent, it is not in the way
    assert bench.again().restore_sessions(session).brought_back == 1
    assert link.readlink() == leads_to
    assert bench.again().sessions.get(session).cwd == cwd == str(leads_to)


@pytest.mark.parametrize("bench", ["gptme"], indirect=True)
def test_a_link_does_not_replace_what_the_vault_has(bench: Bench) -> None:
    session, _ = bench.going()
    folder = bench.root / "logs" / session
    kept, inner = folder / "events.jsonl", folder / "files"
    before = kept.read_bytes(), {each.name: each.read_bytes() for each in inner.iterdir()}
    elsewhere = bench.root.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "longer").write_bytes(before[0] + b"{}\n")
    bench.again().refresh_vault()
    kept.unlink()
    kept.symlink_to(elsewhere / "longer")
    remove_tree(inner)
    inner.symlink_to(elsewhere)
    assert not bench.again().refresh_vault().problems
    agent_deletes(bench, [session])
    assert bench.home.restore_sessions(session).brought_back == 1
    assert not kept.is_symlink()
    assert not inner.is_symlink()
    assert (kept.read_bytes(), {each.name: each.read_bytes() for each in inner.iterdir()}) == before
    assert [*elsewhere.iterdir()] == [elsewhere / "longer"]


@pytest.mark.parametrize("bench", ["claude-code", "copilot", "opencode"], indirect=True)
@pytest.mark.parametrize("damage", [None, b"{torn"])
def test_what_a_killed_refresh_had_begun_is_no_damage_while_its_agent_has_it(
    bench: Bench, damage: bytes | None
) -> None:
    """A killed run leaves no `vault.json`. A damaged one is damage, which the next run mends as
    long as the agent has all of it."""

    def looked_at() -> Severity:
        [found] = [each for each in bench.again().doctor().findings if each.check == "vault"]
        return found.severity

    going = bench.going()
    bench.home.refresh_vault()
    for name in bench.root.glob(f"{bench.sample.state}/vault/names/*/*/{ABOUT}"):
        if damage is None:
            name.unlink()
        else:
            name.write_bytes(damage)
    assert looked_at() is (Severity.OK if damage is None else Severity.DAMAGE)
    # Once its agent has deleted it, nobody can tell what the vault has.
    copy = bench.root.with_name("copy")
    shutil.copytree(bench.root, copy, symlinks=True)
    agent_deletes(bench, going)
    assert looked_at() is Severity.DAMAGE
    shutil.rmtree(bench.root)
    copy.rename(bench.root)
    assert not bench.again().refresh_vault().problems
    agent_deletes(bench, going)
    assert looked_at() is Severity.OK
    assert {each.id for each in vaulted(bench.home)} >= set(going)


@pytest.mark.parametrize("bench", ["claude-code"], indirect=True)
@pytest.mark.parametrize("damage", [None, b"{torn"])
@pytest.mark.parametrize("way", ["refresh", "off", "delete"])
def test_what_the_vault_has_more_of_is_kept_whether_its_entry_can_be_read_or_not(
    bench: Bench, damage: bytes | None, way: str
) -> None:
    session, transcript, _ = _with_files(bench)
    bench.home.refresh_vault()
    whole, before = transcript.read_bytes(), said(bench.home, session)
    [about] = bench.root.glob(f"{bench.sample.state}/vault/names/{session}/*/{ABOUT}")
    if damage is None:
        about.unlink()
    else:
        about.write_bytes(damage)
    transcript.unlink()
    transcript.write_bytes(b"".join(whole.splitlines(keepends=True)[:2]))
    home = bench.again()
    if way == "off":
        home.turn_vault(False)
        home.turn_vault(True)
    elif way == "delete":
        bench.now += 2 * 86_400
        bench.again().delete([session], use_trash=False)
        [found] = [each for each in bench.again().doctor().findings if each.check == "vault"]
        assert found.severity is Severity.DAMAGE
        [copy] = about.parent.glob("*.0")
        assert copy.read_bytes() == whole
        return
    else:
        [found] = [each for each in home.doctor().findings if each.check == "vault"]
        assert found.severity is Severity.DAMAGE
        assert home.refresh_vault().set_aside == 1
    home = bench.again()
    [kept] = vaulted(home)
    assert kept.id == f"earlier-1-{session}"
    assert said(home, kept.id) == before
    [found] = [each for each in home.doctor().findings if each.check == "vault"]
    assert found.severity is Severity.OK
    assert not home.refresh_vault().changed
    transcript.unlink()
    shutil.rmtree(transcript.with_suffix(""))
    assert bench.again().restore_sessions(kept.id).brought_back == 1
    assert transcript.read_bytes() == whole


@pytest.mark.parametrize("bench", ["gptme"], indirect=True)
@pytest.mark.parametrize("known", [False, True])
def test_a_transcript_that_is_a_link_is_not_said_to_be_held(bench: Bench, known: bool) -> None:
    session, _ = bench.going()
    transcript = bench.root / "logs" / session / "conversation.jsonl"
    before = said(bench.home, session)
    if known:
        bench.again().refresh_vault()
    elsewhere = bench.root.parent / "elsewhere.jsonl"
    transcript.rename(elsewhere)
    transcript.symlink_to(elsewhere)
    problems = [each.reason for each in bench.again().refresh_vault().problems]
    # What it held before it still holds; what it never had it does not claim.
    assert problems == (
        [] if known else ["could not be stored in the vault: its transcript is a link"]
    )
    elsewhere.unlink()
    shutil.rmtree(transcript.parent)
    assert [each.id for each in vaulted(bench.again())] == [session] * known
    if known:
        assert said(bench.home, session) == before


@pytest.mark.parametrize("bench", ["claude-code"], indirect=True)
@pytest.mark.parametrize("cold", [False, True])
def test_what_the_vault_holds_is_not_replaced_by_less(bench: Bench, cold: bool) -> None:
    session, transcript, _ = _with_files(bench)
    if cold:
        swept.turn_on(bench.sample, bench.root, "cold_days = 0\n")
    home = bench.again()
    whole, before = transcript.read_bytes(), said(home, session)
    home.refresh_vault()
    transcript.unlink()
    assert bench.again().refresh_vault().found_alone == 1
    # An empty file is no transcript: the session stays in the vault alone.
    transcript.touch()
    for _ in range(2):
        home = bench.again()
        home.refresh_vault()
        home.turn_vault(False)
        home.turn_vault(True)
        assert said(home, session) == before
        assert [each.id for each in vaulted(home)] == [session]
    [outcome] = home.restore_sessions(session).outcomes
    assert (outcome.result, str(transcript) in outcome.reason) == (Result.FAILED, True)
    # Another one of the same id is taken in, and what the vault held is a session of its own.
    transcript.write_bytes(whole[: whole.index(b"\n") + 1])
    assert bench.again().turn_vault(False).set_aside == 0
    done = bench.again().turn_vault(True)
    assert (done.set_aside, done.problems) == (1, ())
    home = bench.again()
    [kept] = vaulted(home)
    assert kept.id == f"earlier-1-{session}"
    assert len(said(home, kept.id)) == len(before) > len(said(home, session))
    assert home.refresh_vault().set_aside == 0
    [found] = [each for each in home.doctor().findings if each.check == "vault"]
    assert found.severity.value == "ok", found
    [outcome] = home.restore_sessions(kept.id).outcomes
    assert (outcome.result, str(transcript) in outcome.reason) == (Result.FAILED, True)
    home.delete([session], use_trash=False)
    home = bench.again()
    for _ in range(2):  # what comes back stays in the vault: its agent may delete it again
        assert home.restore_sessions(kept.id).brought_back == 1
        assert transcript.read_bytes() == whole
        home = bench.again()
        assert not home.sessions.find(vaulted=True)
        assert not home.refresh_vault().changed
        transcript.unlink()
        home = bench.again()
        [kept] = vaulted(home)
        assert (kept.id, said(home, kept.id)) == (session, before)


@pytest.mark.parametrize("bench", ["claude-code"], indirect=True)
def test_a_living_transcript_that_a_shorter_one_replaces_is_kept(bench: Bench) -> None:
    session, transcript, _ = _with_files(bench)
    whole = transcript.read_bytes()
    bench.home.refresh_vault()
    for text, aside in ((whole + b"\n", 0), (whole[: whole.index(b"\n") + 1], 1), (whole, 0)):
        new = transcript.with_suffix(".new")
        new.write_bytes(text)
        new.replace(transcript)
        assert bench.again().refresh_vault().set_aside == aside
    [kept] = vaulted(bench.again())
    assert kept.id == f"earlier-1-{session}"
    transcript.unlink()
    shutil.rmtree(transcript.with_suffix(""))
    assert bench.again().restore_sessions(kept.id).brought_back == 1
    assert transcript.read_bytes() == whole + b"\n"


_OTHER_LETTERS = bytes.maketrans(b"abcdefghijklmnopqrstuvwxy", b"bcdefghijklmnopqrstuvwxyz")


@pytest.mark.parametrize("as_copies", [False, True])
@pytest.mark.parametrize(
    "bench", ["claude-code", pytest.param("codex", marks=pytest.mark.deep)], indirect=True
)
def test_a_file_in_which_nobody_said_anything_displaces_no_transcript(
    bench: Bench, as_copies: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long it is. On another file system the vault has copies, which a change in place does
    not reach."""
    session = bench.going()[0]
    transcript = bench.home.need_store().transcript(session)  # type: ignore[attr-defined]
    if as_copies:
        monkeypatch.setattr(os, "link", _no_links)
    whole, before = transcript.read_bytes(), said(bench.home, session)
    bench.home.refresh_vault()

    def becomes(text: bytes) -> None:
        if not as_copies:
            transcript.unlink()
        transcript.write_bytes(text)

    kept = []
    for number, text in enumerate((bytes(2 * len(whole)), whole.translate(_OTHER_LETTERS)), 1):
        becomes(text)
        assert bench.again().refresh_vault().set_aside == 1
        assert not bench.again().refresh_vault().changed
        kept.append(f"earlier-{number}-{session}")
        assert {each.id for each in vaulted(bench.home)} == {*kept}
        assert said(bench.home, kept[-1]) == before
        becomes(whole)
        assert bench.again().refresh_vault().set_aside == 0
    # Nor is it what left with the session, if Holdfast itself removes that.
    becomes(bytes(2 * len(whole)))
    bench.now += 2 * 86_400
    bench.again().delete([session], use_trash=False)
    assert {each.id for each in vaulted(bench.again())} == {*kept, session}
    assert said(bench.home, session) == before


@pytest.mark.parametrize("bench", ["claude-code"], indirect=True)
def test_a_place_that_is_taken_is_named_and_a_session_that_is_there_too(bench: Bench) -> None:
    session, transcript, _ = _with_files(bench)
    whole = transcript.read_bytes()

    def resolved(prefix: str) -> str:
        environ = {"CLAUDE_CONFIG_DIR": str(bench.root)}
        with Machine(bench.root.parent, environ=environ, clock=lambda: bench.now) as machine:
            return machine.resolve(prefix, store=False, archive=True).id

    bench.home.refresh_vault()
    for restore in (bench.home.restore_sessions, resolved):
        with pytest.raises(SessionExistsError, match="is already here"):
            restore(session)
    with pytest.raises(UnknownSessionError):
        resolved("nobody")
    transcript.unlink()
    for is_link in (False, True):
        if is_link:
            transcript.symlink_to("nowhere")
        else:
            transcript.mkdir()
        assert resolved(session) == session
        [outcome] = bench.again().restore_sessions(session).outcomes
        assert (outcome.result, str(transcript) in outcome.reason) == (Result.FAILED, True)
        assert os.path.lexists(transcript)
        if is_link:
            transcript.unlink()
        else:
            transcript.rmdir()
    assert bench.again().restore_sessions(session).brought_back == 1
    assert transcript.read_bytes() == whole


@pytest.mark.parametrize("bench", ["claude-code"], indirect=True)
def test_what_the_agent_will_delete_is_judged_by_the_time_that_it_goes_by(bench: Bench) -> None:
    (bench.root / bench.sample.state / "config.toml").unlink()
    transcripts = [*bench.root.glob("projects/*/*.jsonl")]
    for age, count in ((1, 0), (28, len(transcripts))):
        then = bench.now - age * 86_400
        for each in transcripts:
            os.utime(each, (then, then))
        threat = bench.again().status().threat
        assert (0 if threat is None else threat.sessions) == count


@pytest.mark.parametrize("bench", ["claude-code", "copilot", "openclaw", "gemini"], indirect=True)
@pytest.mark.parametrize("before", [False, True])
def test_a_home_copied_with_its_hard_links_keeps_its_sizes(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    bench.home.refresh_vault()
    sizes = {each.id: each.bytes for each in bench.again().sessions.find()}
    assert any(sizes.values())
    bench.home.close()
    copied = tmp_path / "copied"
    subprocess.run(["cp", "-a", bench.root, copied], check=True)
    shutil.rmtree(bench.root)
    bench.root = copied
    with monkeypatch.context() as earlier:
        if before:  # as earlier versions filed a copied home
            earlier.setattr(refresh, "roots_before", lambda *_: ())
            bench.again().refresh_vault()
    for _ in range(2):
        home = bench.again()
        assert not home.refresh_vault().problems
        assert {each.id: each.bytes for each in bench.again().sessions.find()} == sizes
    assert not bench.home.refresh_vault().changed
    going = bench.going()
    links = {
        path.stat().st_nlink
        for path in (copied / bench.sample.state / "vault" / "names").rglob("*.jsonl")
    }
    assert links <= {2}
    agent_deletes(bench, going)
    report = bench.home.restore_sessions(going)
    assert {each.result for each in report.outcomes} == {Result.BROUGHT_BACK}, report.outcomes
    assert not bench.root.with_name("home").exists()
