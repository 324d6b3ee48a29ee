"""Checkpoints on git remotes: pushed by one machine, fetched and restored by another."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import socket
import stat
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import unquote

import pytest

import holdfast
from holdfast import HoldfastError, Home
from holdfast.errors import RemoteError, UnknownCheckpointError, UsageError
from holdfast.model.checkpoint import Checkpoint, ProjectState
from holdfast.model.operation import Removal
from holdfast.model.report import Result
from holdfast.stores.checkpoints import fetch as fetching
from holdfast.stores.checkpoints import remotes
from holdfast.stores.checkpoints.reclaim import reclaim
from holdfast.stores.checkpoints.repository import Layout
from holdfast.stores.git import remote as talking
from holdfast.stores.git.remote import address_of, same_place
from tests import git_remotes
from tests.checkpointing import START
from tests.trees import everything


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


class Machine:
    """A home on a machine of its own, and a project in it."""

    def __init__(self, root: Path, name: str) -> None:
        self.root = root / name
        self.clock = Clock()
        self.home: Home = holdfast.open(self.root / "home", create=True, clock=self.clock)
        self.checkpoints = self.home.checkpoints
        self.project = (self.root / "project").resolve()
        self.project.mkdir()

    def write(self, path: str, data: str | bytes = "text") -> None:
        file = self.project / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data.encode() if isinstance(data, str) else data)

    def take(self, reason: str = "test") -> str:
        taken = self.checkpoints.take(self.project, reason=reason).id
        assert taken is not None
        return taken

    @property
    def layout(self) -> Layout:
        return Layout(folder=self.root / "home" / "checkpoints")


@pytest.fixture
def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Machine]]:
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    made: list[Machine] = []

    def make(name: str) -> Machine:
        made.append(Machine(tmp_path, name))
        return made[-1]

    yield make
    for each in made:
        each.home.close()


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    return git_remotes.bare(tmp_path / "remote.git")


@pytest.fixture
def one(machines: Callable[[str], Machine], remote: Path) -> Machine:
    """A machine with a project, one checkpoint, and a remote called "backup"."""
    made = machines("one")
    for number in range(20):
        made.write(f"src/{number}.txt", f"{number}\n" * 50)
    made.take("first")
    made.checkpoints.add_remote("backup", f"file://{remote}")
    return made


@pytest.fixture
def two(machines: Callable[[str], Machine], remote: Path) -> Machine:
    made = machines("two")
    made.checkpoints.add_remote("there", str(remote))
    return made


def _fetched(machine: Machine, **how: Any) -> list[Checkpoint]:
    return list(machine.checkpoints.fetch("there", **how).fetched)


def _odd_project(machine: Machine) -> None:
    """What git alone does not keep, and names that are not text."""
    project = machine.project
    machine.write("run.sh", "#!/bin/sh\n")
    (project / "run.sh").chmod(0o750)
    (project / "secretive").mkdir(mode=0o700)
    (project / "secretive" / "inner").write_text("x")
    (project / "empty" / "deep").mkdir(parents=True)
    (project / "link").symlink_to("src/1.txt")
    machine.write(".gitattributes", f"*.txt {'a' * 2_100}\n")  # git fetches no such line by itself
    Path(os.fsdecode(os.fsencode(project) + b"/caf\xe9")).write_bytes(b"\0\xff")


@pytest.mark.parametrize("how", ["file", pytest.param("daemon", marks=pytest.mark.deep)])
def test_what_one_machine_pushed_another_restores_byte_for_byte(
    one: Machine, machines: Callable[[str], Machine], remote: Path, how: str
) -> None:
    _odd_project(one)
    second = one.take("second")
    with contextlib.ExitStack() as stack:
        url = str(remote)
        if how == "daemon":
            port = stack.enter_context(git_remotes.daemon(remote.parent))
            url = f"git://127.0.0.1:{port}/{remote.name}"
        one.checkpoints.add_remote("other", url)
        pushed = one.checkpoints.push("other", one.project)
        assert [each.checkpoint.reason for each in pushed.sent] == ["first", "second"]
        two = machines("two")
        two.checkpoints.add_remote("there", url)
        found = _fetched(two)
    assert [each.reason for each in found] == ["second", "first"]
    assert found[0].id == second
    assert {each.machine for each in two.checkpoints.list()} == {pushed.machine}
    assert two.checkpoints.list(one.project) == []
    (project,) = two.checkpoints.projects()
    assert (project.state, project.machine) == (ProjectState.ELSEWHERE, pushed.machine)

    with pytest.raises(UsageError, match="on another machine"):
        two.checkpoints.restore(second)
    two.write("kept.txt", "what was here before")
    before = everything(two.project)
    report = two.checkpoints.restore(second, maps={str(one.root): two.root})
    assert everything(two.project) == everything(one.project)
    report.undo()
    assert everything(two.project) == before
    assert two.checkpoints.verify().ok


def test_a_second_push_sends_only_what_is_new(one: Machine, remote: Path) -> None:
    git_remotes.git("config", "receive.unpackLimit", "1", at=remote)  # it keeps what was sent
    one.checkpoints.push("backup", one.project)
    before = _objects(remote)
    one.write("src/1.txt", "changed")
    one.take("one more")
    pushed = one.checkpoints.push("backup", one.project)
    assert (len(pushed.sent), pushed.known) == (1, 1)
    # The file, two trees, the tree of the checkpoint and its commit; without the bitmap git sends
    # the whole project.
    assert _objects(remote) - before <= 6
    assert one.checkpoints.push("backup", one.project).sent == ()


def test_a_project_that_rests_is_pushed(one: Machine, remote: Path) -> None:
    """Maintenance takes what git needs out of the folder of a project, until its next take."""
    one.write("token.txt", "s3cret")
    one.take("with a secret")
    one.write(".gitignore", "token.txt\n")
    reclaim(one.layout, holder="test", thorough=True)
    (rests,) = (one.layout.store / "worktrees").iterdir()
    assert not (rests / "HEAD").exists()
    pushed = one.checkpoints.push("backup", one.project)
    assert len(pushed.sent) == 2
    assert {each.path for sent in pushed.sent for each in sent.left} == {"token.txt"}


def _objects(remote: Path) -> int:
    said = git_remotes.git("count-objects", "-v", at=remote).split()
    counts = dict(zip(said[::2], said[1::2], strict=True))
    return int(counts["count:"]) + int(counts["in-pack:"])


def test_a_push_with_no_change_transfers_next_to_nothing(one: Machine, remote: Path) -> None:
    with git_remotes.daemon(remote.parent) as port, git_remotes.wire(port) as wire:
        one.checkpoints.add_remote("far", f"git://127.0.0.1:{wire.port}/{remote.name}")
        one.checkpoints.push("far", one.project)
        # Many references: a list of them all would be far above the limit.
        commit = next(iter(git_remotes.refs(remote).values()))
        lines = "".join(f"create refs/holdfast/other/x/{n} {commit}\n" for n in range(500))
        (remote / "lines").write_text(lines)
        with (remote / "lines").open() as text:
            subprocess.run(["git", "update-ref", "--stdin"], cwd=remote, stdin=text, check=True)
        wire.bytes = 0
        assert one.checkpoints.push("far", one.project).sent == ()
    assert 0 < wire.bytes <= 10_000


def test_large_files_and_what_is_ignored_by_now_stay_here(
    one: Machine, two: Machine, remote: Path
) -> None:
    one.write("token.txt", "s3cret")
    one.write("big.bin", Random(1).randbytes(60_000))
    one.write("notes.txt")
    taken = one.take("with a secret")
    secret = git_remotes.git("hash-object", str(one.project / "token.txt")).strip()
    one.write(".gitignore", "token.txt\n")
    pushed = one.checkpoints.push("backup", one.project, max_file_size="50KB")
    (sent,) = [each for each in pushed.sent if each.checkpoint.id == taken]
    assert {each.path for each in sent.left} == {"big.bin", "token.txt"}
    everything_there = git_remotes.git(
        "cat-file", "--batch-all-objects", "--batch-check", at=remote
    )
    assert secret not in everything_there

    (found, _) = _fetched(two)
    assert {each.path for each in found.not_captured} == {"big.bin", "token.txt"}
    assert found.files_changed == 1  # notes.txt; what stayed there does not count
    # The id that the push showed is understood here, too, in full and in part.
    assert found.id != taken
    for known in (taken, taken[:12], taken[:6]):
        assert two.checkpoints.get(known).id == found.id
    for other in (f"{taken[:12]}0000", f"{taken[:8]}{'0' * 32}"):
        with pytest.raises(UnknownCheckpointError):
            two.checkpoints.get(other)
    two.write("token.txt", "of this machine")
    restored = two.checkpoints.restore(taken[:12], maps={str(one.project): two.project})
    # What did not come is not taken for deleted.
    assert (two.project / "token.txt").read_text() == "of this machine"
    assert (two.project / "src/1.txt").is_file()
    assert not (two.project / "big.bin").exists()
    # The restore did not touch it, so the undo has nothing to do with it, whatever became of it.
    two.write("token.txt", "changed since")
    (undone,) = restored.undo().outcomes
    assert (undone.result, undone.reason) == (Result.BROUGHT_BACK, "")
    assert (undone.in_part, undone.written) == (False, ())
    assert everything(two.project).keys() == {"token.txt"}
    assert (two.project / "token.txt").read_text() == "changed since"


def test_a_remote_must_be_named_and_the_projects_own_is_refused(one: Machine, remote: Path) -> None:
    with pytest.raises(UsageError, match="There is no remote"):
        one.checkpoints.push(f"file://{remote}", one.project)
    git_remotes.git("init", "--quiet", at=one.project)
    git_remotes.git("remote", "add", "origin", str(remote), at=one.project)
    with pytest.raises(UsageError, match="is a remote of"):
        one.checkpoints.push("backup", one.project)
    assert git_remotes.refs(remote) == {}
    assert one.checkpoints.push("backup", one.project, own_remote=True).accepted
    one.checkpoints.add_remote("itself", str(one.project))
    with pytest.raises(UsageError, match="is a remote of"):
        one.checkpoints.push("itself", one.project)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("git@Example.org:me/site.git", "ssh://git@example.org/me/site", True),
        ("https://u:p@example.org/me/site.git/", "git@example.org:me/site", True),
        ("ssh://example.org:2222/me/site", "example.org:me/site.git", True),
        ("file:///srv/site.git", "/srv/site", True),
        ("git@example.org:me/site", "git@example.org:me/site-checkpoints", False),
        ("/srv/site", "/srv/other", False),
    ],
)
def test_the_same_repository_has_many_addresses(one: str, other: str, same: bool) -> None:
    assert same_place(one, other) is same


def _hook(remote: Path, name: str, text: str) -> Path:
    hook = remote / "hooks" / name
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\n{text}\n")
    hook.chmod(0o755)
    return hook


@pytest.mark.deep
def test_a_remote_that_rejects_says_why_and_nothing_is_lost(one: Machine, remote: Path) -> None:
    hook = _hook(remote, "update", 'case "$1" in *rules*) exit 0;; *) exit 1;; esac')
    pushed = one.checkpoints.push("backup", one.project)
    assert [each.refused for each in pushed.sent] == ["hook declined"]
    assert one.checkpoints.remotes()[0].pushed == 0
    hook.unlink()
    assert len(one.checkpoints.push("backup", one.project).accepted) == 1
    assert len(git_remotes.checkpoints(remote)) == 1


def test_what_a_hook_says_is_the_reason(one: Machine, remote: Path) -> None:
    hook = _hook(remote, "pre-receive", "echo 'policy: no pushes on Fridays' >&2; exit 1")
    (sent,) = one.checkpoints.push("backup", one.project).refused
    assert sent.refused == "pre-receive hook declined: policy: no pushes on Fridays"
    long = "echo '\033[31mred'; for n in $(seq 200); do echo line $n; done; exit 1"
    hook.write_text(f"#!/bin/sh\n{long}\n")
    (sent,) = one.checkpoints.push("backup", one.project).refused
    assert "red / line 1 / line 2 / line 3" in sent.refused
    assert len(sent.refused) < 600


def test_the_reason_of_a_failure_is_whole(one: Machine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    one.checkpoints.add_remote("gone", f"git://127.0.0.1:{port}/x.git")
    with pytest.raises(RemoteError, match="Connection refused"):
        one.checkpoints.fetch("gone")


@pytest.mark.deep
def test_without_rights_or_a_repository_the_error_says_so(one: Machine, remote: Path) -> None:
    with git_remotes.daemon(remote.parent, may_push=False) as port:
        one.checkpoints.add_remote("read", f"git://127.0.0.1:{port}/{remote.name}")
        with pytest.raises(RemoteError, match="service not enabled") as denied:
            one.checkpoints.push("read", one.project)
        assert denied.value.hint is not None
        assert "You have no permission to do that there" in denied.value.hint
    with pytest.raises(RemoteError) as silent:
        one.checkpoints.push("read", one.project)
    assert silent.value.hint is not None
    assert "cannot be reached" in silent.value.hint
    one.checkpoints.add_remote("nowhere", str(remote.parent / "nowhere.git"))
    with pytest.raises(RemoteError) as missing:
        one.checkpoints.push("nowhere", one.project)
    assert missing.value.hint is not None
    assert "git init --bare" in missing.value.hint


@pytest.mark.deep
def test_a_wire_that_is_cut_loses_nothing(one: Machine, two: Machine, remote: Path) -> None:
    one.write("noise.bin", Random(2).randbytes(300_000))
    one.take("noise")
    with git_remotes.daemon(remote.parent) as port, git_remotes.wire(port) as wire:
        url = f"git://127.0.0.1:{wire.port}/{remote.name}"
        one.checkpoints.add_remote("far", url)
        wire.cut_after = 100_000
        with pytest.raises(RemoteError):
            one.checkpoints.push("far", one.project)
        assert git_remotes.checkpoints(remote) == []
        wire.cut_after = None
        assert len(one.checkpoints.push("far", one.project).accepted) == 2
        two.checkpoints.add_remote("far", url)
        wire.bytes, wire.cut_after = 0, 100_000
        with pytest.raises(RemoteError):
            two.checkpoints.fetch("far")
        assert two.checkpoints.list() == []
        assert two.checkpoints.verify().ok
        wire.cut_after = None
        assert len(two.checkpoints.fetch("far").fetched) == 2
    assert two.checkpoints.verify().ok


def test_what_is_removed_here_can_be_removed_there(
    one: Machine, two: Machine, remote: Path
) -> None:
    first = one.checkpoints.list(one.project)[0].id
    one.write("more.txt")
    one.take("second")
    one.checkpoints.push("backup", one.project)
    two.write("theirs.txt")
    two.take("theirs")
    two.checkpoints.push("there", two.project)
    assert one.checkpoints.plan_prune_remote("backup").removals == ()
    one.checkpoints.delete(first)

    plan = one.checkpoints.plan_prune_remote("backup", one.project)
    (item,) = plan.removals
    assert item.version == first
    assert not item.undoable
    report = plan.apply()
    assert report.removed == 1
    left = git_remotes.refs(remote)
    assert first not in left.values()
    assert len(git_remotes.checkpoints(remote)) == 2  # the other one of ours, and theirs
    operation = one.home.log.read().operations[-1]
    assert (operation.id, operation.removed) == (report.operation, 1)
    with pytest.raises(HoldfastError, match="for good"):
        report.undo()
    # What came back here goes there again.
    one.home.undo("1")
    assert len(one.checkpoints.push("backup", one.project).accepted) == 1


def test_what_somebody_else_put_there_under_our_name_stays(
    one: Machine, remote: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = remotes.save

    def killed(layout: Layout, known: remotes.KnownRemote) -> remotes.KnownRemote:
        if known.pushed:
            raise KeyboardInterrupt
        return save(layout, known)

    with monkeypatch.context() as during:  # it was sent, and nobody wrote that down
        during.setattr(remotes, "save", killed)
        with pytest.raises(KeyboardInterrupt):
            one.checkpoints.push("backup", one.project)
    (sent,) = git_remotes.checkpoints(remote)
    foreign = f"{sent.rpartition('/')[0]}/000000000000001-00000000"
    git_remotes.git("update-ref", foreign, sent, at=remote)
    one.checkpoints.delete(one.checkpoints.list(one.project)[0].id)
    plan = one.checkpoints.plan_prune_remote("backup")
    assert [each.id.rpartition("/")[2] for each in plan.removals] == [sent.rpartition("/")[2]]
    assert [each.id.rpartition("/")[2] for each in plan.kept] == ["000000000000001-00000000"]
    assert plan.apply().removed == 1
    assert git_remotes.checkpoints(remote) == [foreign]
    assert one.checkpoints.plan_prune_remote("backup").removals == ()


@pytest.mark.deep
def test_a_reference_that_changed_there_is_not_removed(one: Machine, remote: Path) -> None:
    one.checkpoints.push("backup", one.project)
    first = one.checkpoints.list(one.project)[0].id
    one.checkpoints.delete(first)
    plan = one.checkpoints.plan_prune_remote("backup")
    (ref,) = git_remotes.checkpoints(remote)
    rules = next(oid for name, oid in git_remotes.refs(remote).items() if "/rules/" in name)
    git_remotes.git("update-ref", ref, rules, at=remote)
    report = plan.apply()
    assert (report.removed, report.failed) == (0, 1)
    assert ref in git_remotes.refs(remote)


@pytest.mark.deep
def test_a_killed_prune_is_settled_by_asking_the_remote(one: Machine, remote: Path) -> None:
    one.checkpoints.push("backup", one.project)
    one.checkpoints.delete(one.checkpoints.list(one.project)[0].id)
    plan = one.checkpoints.plan_prune_remote("backup")
    doer = one.home._place.home.doer("pushed_checkpoint", plan.removals[0].action)
    removal = Removal(operation="9", number=0, item=plan.removals[0])
    assert [each.result for each in doer.settle([removal])] == [Result.SKIPPED]
    assert [each.result for each in doer.do([removal])] == [Result.REMOVED]
    assert [each.result for each in doer.settle([removal])] == [Result.REMOVED]
    assert [each.result for each in doer.do([removal])] == [Result.SKIPPED]
    shutil.rmtree(remote)
    assert [each.result for each in doer.settle([removal])] == [Result.FAILED]


@pytest.mark.deep
def test_the_copy_of_a_home_is_another_machine(one: Machine, remote: Path, tmp_path: Path) -> None:
    one.checkpoints.push("backup", one.project)
    shutil.copytree(one.root / "home", tmp_path / "copy")
    one.write("later.txt")
    one.take("later")
    pushed = one.checkpoints.push("backup", one.project)
    assert one.checkpoints.machine == pushed.machine
    with holdfast.open(tmp_path / "copy", clock=one.clock) as copy:
        assert copy.checkpoints.machine != pushed.machine
        # It does not have the later one, and would take it for one that was removed here.
        assert copy.checkpoints.plan_prune_remote("backup").removals == ()
        found = copy.checkpoints.fetch("backup", paths=one.project, dry_run=True)
        assert [each[2] for each in found.waiting] == [2]
        assert copy.checkpoints.fetch("backup", paths="/elsewhere", dry_run=True).waiting == ()


@pytest.mark.deep
def test_two_machines_push_at_once(one: Machine, two: Machine, remote: Path) -> None:
    for number in range(3):
        for each in (one, two):
            each.write("changing.txt", f"{each.root.name} {number}")
            each.take(f"{number}")
    done: list[object] = []

    def push(machine: Machine, name: str) -> None:
        done.append(machine.checkpoints.push(name, machine.project))

    threads = [
        threading.Thread(target=push, args=(one, "backup")),
        threading.Thread(target=push, args=(two, "there")),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 2
    assert len(git_remotes.checkpoints(remote)) == 7
    git_remotes.git("fsck", "--strict", at=remote)
    assert len(_fetched(two)) == 4


@pytest.mark.deep
def test_takes_go_on_while_a_slow_remote_is_talked_to(one: Machine, remote: Path) -> None:
    gate = remote / "gate"
    _hook(
        remote, "pre-receive", f"touch {gate}.reached; while [ ! -e {gate} ]; do sleep 0.02; done"
    )
    pushing = threading.Thread(target=one.checkpoints.push, args=("backup", one.project))
    pushing.start()
    try:
        while not Path(f"{gate}.reached").exists():
            assert pushing.is_alive()
        one.write("meanwhile.txt")
        one.take("meanwhile")
        one.home.checkpoints.prune(keep_last=1, max_total_size="0.1MB")  # needs the store alone
    finally:
        gate.touch()
        pushing.join()
    assert len(git_remotes.checkpoints(remote)) == 1


@pytest.mark.deep
def test_a_machine_that_comes_back_after_weeks(one: Machine, two: Machine, remote: Path) -> None:
    one.checkpoints.push("backup", one.project)
    assert len(_fetched(two)) == 1
    # Meanwhile somebody made the remote anew, and this machine has not been there since.
    for ref in git_remotes.refs(remote):
        git_remotes.git("update-ref", "-d", ref, at=remote)
    one.clock.now += 40 * 86_400
    one.write("later.txt")
    one.take("later")
    pushed = one.checkpoints.push("backup", one.project)
    assert [each.checkpoint.reason for each in pushed.accepted] == ["first", "later"]
    for ref in git_remotes.checkpoints(remote):
        git_remotes.git("update-ref", "-d", ref, at=remote)
    assert len(one.checkpoints.push("backup", one.project).accepted) == 2
    two.clock.now += 40 * 86_400
    assert [each.reason for each in _fetched(two)] == ["later"]


def test_what_was_fetched_and_removed_comes_back_only_when_asked(
    one: Machine, two: Machine
) -> None:
    one.checkpoints.push("backup", one.project)
    (found,) = _fetched(two)
    assert two.checkpoints.plan_prune(keep_orphans=False).removals == ()  # not an orphan
    assert two.checkpoints.fetch("there").known == 1
    two.checkpoints.delete(found.id, use_trash=False)
    assert _fetched(two) == []
    assert two.checkpoints.fetch("there", again=True, dry_run=True).waiting[0][2] == 1
    assert [each.id for each in _fetched(two, again=True)] == [found.id]
    # The rules of the other machine came along.
    assert found.rules is not None
    assert two.layout.rules(found.rules).read_bytes() == one.layout.rules(found.rules).read_bytes()


def test_what_no_checkpoint_may_have_stays_on_the_remote(
    one: Machine, two: Machine, remote: Path
) -> None:
    one.checkpoints.push("backup", one.project)
    (good,) = git_remotes.checkpoints(remote)
    start = good.rpartition("/")[0]
    message = git_remotes.git("log", "-1", "--format=%B", good, at=remote)
    blob = git_remotes.git("rev-parse", f"{good}:files/src/1.txt", at=remote).strip()
    for number, record in enumerate(
        (
            {"usual": ["0644", "0755", "0755"], "modes": {}, "empty": ["../out"]},
            {"usual": ["0644", "0755", "0755"], "modes": {"a/../../b": "0777"}, "empty": []},
        )
    ):
        (remote / "record").write_text(json.dumps(record))
        beside = git_remotes.git("hash-object", "-w", "record", at=remote).strip()
        files = _tree(remote, f"100644 blob {blob}\tfine.txt\n")
        root = _tree(remote, f"100644 blob {beside}\tbeside\n040000 tree {files}\tfiles\n")
        commit = git_remotes.git(
            *("-c", "user.name=x", "-c", "user.email=x", "commit-tree", root, "-m", message),
            at=remote,
        ).strip()
        ref = f"{start}/00000000000000{number}-00000000"
        git_remotes.git("update-ref", ref, commit, at=remote)
    git_remotes.git("update-ref", "refs/holdfast/UP/../x".replace("..", "y"), blob, at=remote)
    done = two.checkpoints.fetch("there")
    assert [each.reason for each in done.fetched] == ["first"]
    assert len(done.unusable) == 2
    assert all("that is not allowed" in each.why for each in done.unusable)
    assert len(two.checkpoints.list()) == 1


def test_an_object_that_git_refuses_keeps_nothing_else_away(
    one: Machine, two: Machine, remote: Path
) -> None:
    one.write("more.txt")
    one.take("second")
    one.checkpoints.push("backup", one.project)
    first, second = git_remotes.checkpoints(remote)
    blob = git_remotes.git("rev-parse", f"{first}:files/src/1.txt", at=remote).strip()
    (remote / "tree").write_bytes(b"100644 ..\0" + bytes.fromhex(blob))
    tree = git_remotes.git(
        *("hash-object", "-w", "-t", "tree", "--literally", "tree"), at=remote
    ).strip()
    commit = git_remotes.git(
        *("-c", "user.name=x", "-c", "user.email=x", "commit-tree", tree, "-m", "x"), at=remote
    ).strip()
    bad = f"{first.rpartition('/')[0]}/000000000000001-00000000"
    rules = f"{first.rsplit('/', 2)[0]}/rules/{'0' * 16}"
    for ref in (bad, rules):
        git_remotes.git("update-ref", ref, commit, at=remote)
    done = two.checkpoints.fetch("there")
    assert [each.reason for each in done.fetched] == ["second", "first"]
    assert {each.ref for each in done.unusable} == {bad, rules}
    assert all("hasDotdot" in each.why for each in done.unusable)
    assert two.checkpoints.verify().ok
    assert two.checkpoints.fetch("there").known == 2
    # What the remote itself cannot read keeps nothing else away, either.
    for ref in (bad, rules):
        git_remotes.git("update-ref", "-d", ref, at=remote)
    lost = git_remotes.git("rev-parse", f"{second}:files/more.txt", at=remote).strip()
    (remote / "objects" / lost[:2] / lost[2:]).unlink()
    two.checkpoints.delete([each.id for each in two.checkpoints.list()], use_trash=False)
    done = two.checkpoints.fetch("there", again=True)
    assert [each.reason for each in done.fetched] == ["first"]
    assert [each.ref for each in done.unusable] == [second]


def _tree(remote: Path, lines: str) -> str:
    return subprocess.run(
        ["git", "mktree"], cwd=remote, input=lines, text=True, check=True, capture_output=True
    ).stdout.strip()


class _Locked(BaseHTTPRequestHandler):
    """A web server that wants a password, and then has no repository."""

    heard: list[str]

    def do_GET(self) -> None:
        given = self.headers.get("Authorization", "")
        type(self).heard.append(given)
        self.send_response(404 if given else 401)
        self.send_header("WWW-Authenticate", 'Basic realm="here"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
        """Nobody reads it."""


def test_a_password_reaches_the_remote_and_nobody_else(
    one: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _Locked.heard = []
    server = HTTPServer(("127.0.0.1", 0), _Locked)
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    word = "p@ss w0rd"
    seen = tmp_path / "seen"
    _shim(tmp_path / "bin", seen, monkeypatch)
    try:
        url = f"http://me:p%40ss%20w0rd@127.0.0.1:{server.server_port}/x.git"
        told = one.checkpoints.add_remote("web", url)
        assert told.url == f"http://me:***@127.0.0.1:{server.server_port}/x.git"
        with pytest.raises(RemoteError) as failed:
            one.checkpoints.push("web", one.project)
    finally:
        server.shutdown()
        server.server_close()
        serving.join()
    assert f"Basic {base64.b64encode(f'me:{word}'.encode()).decode()}" in _Locked.heard
    texts = [
        str(failed.value),
        failed.value.said,
        seen.read_text(),
        repr(one.checkpoints.remotes()),
    ]
    assert not [each for each in texts if "p%40ss" in each or word in each]
    kept = one.layout.folder / "remotes" / "web.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert not (one.layout.store / "outgoing").exists()


def _shim(folder: Path, seen: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `git` that writes down its command lines, as a list of processes would show them."""
    real = shutil.which("git")
    folder.mkdir()
    (folder / "git").write_text(f'#!/bin/sh\necho "$@" >> {seen}\nexec {real} "$@"\n')
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://me:word@example.org/x", "https://me:***@example.org/x"),
        ("https://token@example.org/x", "https://***@example.org/x"),
        ("ssh://git@example.org/x", "ssh://git@example.org/x"),
        ("ssh://git:word@example.org/x", "ssh://git:***@example.org/x"),
        ("git@example.org:x", "git@example.org:x"),
        ("/srv/x.git", "/srv/x.git"),
        ("https://h/x.git?token=s%C3%A9same&v=1", "https://h/x.git?token=***&v=***"),
        ("https://h/x.git?s%C3%A9same", "https://h/x.git?***"),
        ("https://me:word@h/x?t=s%C3%A9same", "https://me:***@h/x?t=***"),
        ("ssh://me@h/x?t=s%C3%A9same==", "ssh://me@h/x?t=***"),
    ],
)
def test_no_address_shows_its_password(url: str, shown: str) -> None:
    address = address_of(url)
    assert address.shown == shown
    assert "word" not in address.url
    said = f"no {url}, nor {unquote(url)}"  # git says it in its own way
    hidden = talking.RemoteGit(folder=Path(), address=address)._hidden(said)
    assert "same" not in hidden


def test_what_git_would_run_is_no_address(machines: Callable[[str], Machine]) -> None:
    one = machines("one")
    for url in (
        "ext::sh -c touch% /tmp/x",
        "EXT::sh",
        "fd::17",
        "ssh://-oProxyCommand=touch/x",
        "ssh://me@-oProxyCommand=touch/x",
        "git@-oProxyCommand=touch:x",
        "-oProxyCommand=touch:x",
    ):
        with pytest.raises(UsageError, match="not the address of a git repository"):
            one.checkpoints.add_remote("bad", url)
    assert one.checkpoints.remotes() == []
    for url in ("ssh://git@example.org/a-b", "git@example.org:-x/y", "https://a-b.org/@-"):
        assert one.checkpoints.add_remote(f"r{len(url)}", url).url


@pytest.mark.deep
def test_what_a_killed_push_left_is_cleared(one: Machine, remote: Path) -> None:
    left = one.layout.store / "outgoing" / "objects"
    left.mkdir(parents=True)
    (left / "half").write_text("x")
    assert len(one.checkpoints.push("backup", one.project).accepted) == 1
    assert not left.exists()


@pytest.mark.deep
@pytest.mark.parametrize("step", ["_judged", "_move_packs", "update_refs", "weigh"])
def test_a_fetch_that_is_killed_is_repeated(
    one: Machine, two: Machine, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    one.checkpoints.push("backup", one.project)

    class KilledError(BaseException):
        pass

    def die(*_: object) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(fetching, step, die)
        with pytest.raises(KilledError):
            two.checkpoints.fetch("there")
    assert two.checkpoints.verify().ok
    two.checkpoints.fetch("there")
    assert [each.reason for each in two.checkpoints.list()] == ["first"]
    for left in ("incoming", "outgoing"):  # a real kill leaves them
        (two.layout.store / left).mkdir()
    reclaim(two.layout, holder="test")
    assert not any((two.layout.store / left).exists() for left in ("incoming", "outgoing"))
    assert two.checkpoints.verify().ok


@pytest.mark.deep
@pytest.mark.parametrize("every", [60, 0.005], ids=["at the end", "on the way"])
def test_a_fetch_that_does_not_fit_keeps_nothing(
    one: Machine, two: Machine, monkeypatch: pytest.MonkeyPatch, every: float
) -> None:
    monkeypatch.setattr(talking, "WATCH_EVERY", every)
    judged: list[object] = []
    real = fetching._judged

    def judge(*given: Any) -> Any:
        judged.append(given)
        return real(*given)

    monkeypatch.setattr(fetching, "_judged", judge)
    one.write("noise.bin", Random(3).randbytes(4_900_000))
    one.take("noise")
    one.checkpoints.push("backup", one.project)
    (two.root / "home" / "config.toml").write_text("[checkpoints]\nmax_total_size_mb = 1\n")
    with holdfast.open(two.root / "home", clock=two.clock) as small:
        with pytest.raises(HoldfastError, match="does not fit"):
            small.checkpoints.fetch("there")
        assert small.checkpoints.list() == []
    assert bool(judged) is (every == 60)  # on the way, git was ended
    assert not (two.layout.store / "incoming").exists()
