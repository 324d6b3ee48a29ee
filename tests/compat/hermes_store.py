"""Homes of Hermes with checkpoints: recorded ones, and those that a real release makes."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdfast.homes.hermes.home import HermesHome
from holdfast.homes.hermes.repository.layout import HermesLayout
from holdfast.model.checkpoint import Capturing
from holdfast.model.plan import Plan
from holdfast.model.report import Report
from holdfast.policy.rules import CheckpointPolicy
from holdfast.ports.checkpoints import CheckpointStore
from holdfast.services.plans import plan_prune_checkpoints
from holdfast.spine.apply import apply
from holdfast.spine.carry_out import Silent
from holdfast.spine.undo import undo_latest
from holdfast.stores.checkpoints.store import ShadowGitStore
from tests.compat.hermes_release import NEWEST, hermes_python

#: When the first recorded checkpoint was taken; each is an hour after the one before.
START = 1_790_000_000
HOUR = 3_600.0
DAY = 24 * HOUR

_RECORDED = Path(__file__).parents[1] / "data" / f"hermes-{NEWEST}-checkpoints.tar.gz"
_WORKER = Path(__file__).with_name("hermes_checkpoint_worker.py")


class Home:
    """A home of Hermes, seen by Holdfast, with a clock that the test turns."""

    def __init__(self, root: Path, now: float = START + 12 * HOUR) -> None:
        self.root = root
        self.now = now
        self.folder = root / "checkpoints"
        self.git_dir = self.folder / "store"
        self.layout = HermesLayout(
            folder=self.folder, notes=root / ".holdfast" / "checkpoints" / "hermes"
        )

    @property
    def home(self) -> HermesHome:
        return HermesHome(self.root, clock=lambda: self.now)

    @property
    def store(self) -> CheckpointStore:
        store = self.home.checkpoint_store()
        assert store is not None
        return store

    def store_at(self, here: Path) -> CheckpointStore:
        """The same for a user who is in a directory."""
        store = self.home.checkpoint_store(Capturing(here=here))
        assert store is not None
        return store

    @property
    def own(self) -> ShadowGitStore:
        return ShadowGitStore(self.root / ".holdfast" / "checkpoints")

    def git(self, *arguments: str) -> str:
        return git("--git-dir", str(self.git_dir), *arguments)

    def chain(self, workdir: Path) -> list[str]:
        """What Hermes would list, the newest first."""
        ref = f"refs/hermes/{project(workdir)}"
        return self.git("log", "--format=%H", ref, "--").split()

    def facts(self, workdir: Path) -> list[str]:
        """The same by what must never change: tree, times, author, message."""
        ref = f"refs/hermes/{project(workdir)}"
        return self.git("log", "--format=%T %at %ct %an %ae %s", ref, "--").splitlines()

    def fsck(self) -> None:
        """Raises unless git finds everything whole."""
        said = self.git("fsck", "--full", "--strict", "--no-dangling")
        assert "missing" not in said, said
        assert "broken" not in said, said

    def plan(self, policy: CheckpointPolicy, *, changing: bool = True) -> Plan:
        upkeep = self.home.checkpoint_upkeep
        made, _ = plan_prune_checkpoints(
            upkeep, policy, now=self.now, command="checkpoints prune", changing=changing
        )
        return made

    def prune(self, policy: CheckpointPolicy) -> Report:
        return self.apply(self.plan(policy))

    def apply(self, plan: Plan) -> Report:
        return apply(plan, self.home, clock=lambda: self.now, progress=Silent())

    def undo(self) -> Report:
        return undo_latest(self.home, clock=lambda: self.now)[1]

    def age(self, seconds: float = HOUR) -> None:
        """As if nobody had used the store for so long."""
        for folder, _, names in os.walk(self.git_dir):
            for name in names:
                os.utime(Path(folder, name), (self.now - seconds, self.now - seconds))


def recorded(place: Path) -> tuple[Home, Path, Path]:
    """A home that the newest release made, and its two working directories, `site` and `tool`."""
    with tarfile.open(_RECORDED) as archive:
        archive.extractall(place, filter="tar")
    root = place / "home"
    (root / "config.yaml").write_text("model: none\n")
    (root / "SOUL.md").touch()
    made = Home(root)
    for name in ("site", "tool"):
        _move(made, name, place / name)
    made.age()
    return made, place / "site", place / "tool"


def _move(home: Home, name: str, workdir: Path) -> None:
    """Hermes names everything of a project after the hash of its directory."""
    for record in (home.git_dir / "projects").glob("*.json"):
        data = json.loads(record.read_text())
        if Path(data["workdir"]).name == name and data["workdir"] != str(workdir):
            new = project(workdir)
            data |= {"workdir": str(workdir), "created_at": START, "last_touch": START + 5 * HOUR}
            record.with_name(f"{new}.json").write_text(json.dumps(data))
            index = home.git_dir / "indexes" / record.stem
            index.rename(index.with_name(new))
            tip = home.git("rev-parse", f"refs/hermes/{record.stem}").strip()
            home.git("update-ref", f"refs/hermes/{new}", tip)
            home.git("update-ref", "-d", f"refs/hermes/{record.stem}")
            record.unlink()


def project(workdir: Path) -> str:
    return hashlib.sha256(os.fsencode(workdir)).hexdigest()[:16]


def git(*arguments: str, **environment: str) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(
        ["git", *arguments],
        check=True,
        capture_output=True,
        text=True,
        env=clean | {"GIT_CONFIG_GLOBAL": os.devnull, **environment},
    )
    return done.stdout


class Hermes:
    """A real Hermes that takes, lists and restores checkpoints when it is asked."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.id = process.pid

    def ask(self, work: str, *arguments: object) -> Any:
        self.begin(work, *arguments)
        return self.end()

    def begin(self, work: str, *arguments: object) -> None:
        """Ask, and do not wait for the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([work, *map(_plain, arguments)]) + "\n")
        self._process.stdin.flush()

    def end(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def take(self, workdir: Path, reason: str, when: int | None = None) -> bool:
        return bool(self.ask("take", workdir, reason, when))

    def ids(self, workdir: Path) -> list[str]:
        return [each["hash"] for each in self.ask("listed", workdir)]


@contextmanager
def hermes(home: Path, version: str = NEWEST, *, max_snapshots: int = 20) -> Iterator[Hermes]:
    environment = os.environ | {"HERMES_HOME": str(home), "MAX_SNAPSHOTS": str(max_snapshots)}
    with subprocess.Popen(
        [str(hermes_python(version)), str(_WORKER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=home,
        env=environment,
    ) as process:
        yield Hermes(process)
        if process.stdin is not None:
            process.stdin.close()
        process.wait()


@contextmanager
def somebody_in(home: Home) -> Iterator[None]:
    """A process that has a file of the home open, as a running Hermes does."""
    config = home.root / "config.yaml"
    config.touch()
    with config.open() as file:
        waiting = subprocess.Popen(["sleep", "600"], stdin=file)
    try:
        yield
    finally:
        waiting.kill()
        waiting.wait()


def _plain(value: object) -> object:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, Path) else value


def tree(workdir: Path) -> dict[str, tuple[str, int, bytes]]:
    """Everything below a directory but what git keeps for itself: kind, permissions, content."""
    found: dict[str, tuple[str, int, bytes]] = {}
    for folder, folders, names in os.walk(workdir):
        folders[:] = [name for name in folders if name != ".git"]
        for name in (*names, *folders):
            path = Path(folder, name)
            place = str(path.relative_to(workdir))
            if path.is_symlink():
                found[place] = ("link", 0, os.fsencode(path.readlink()))
            elif path.is_dir():
                found[place] = ("directory", path.stat().st_mode & 0o7777, b"")
            else:
                found[place] = ("file", path.stat().st_mode & 0o7777, path.read_bytes())
    return found


def write(workdir: Path, files: Sequence[tuple[str, str]]) -> None:
    for name, text in files:
        path = workdir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def rewritten_by_hermes(home: Home, workdir: Path) -> list[str]:
    """What Hermes does when it drops old ones: the same trees and reasons, new times and ids."""
    parent: list[str] = []
    who = {
        f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    for commit in reversed(home.chain(workdir)):
        found = home.git("log", "-1", "--format=%T %s", commit).strip().split(" ", 1)
        parents = ["-p", parent[0]] if parent else []
        made = git(
            "--git-dir", str(home.git_dir), "commit-tree", found[0], *parents, "-m", found[1], **who
        )
        parent = [made.strip()]
    home.git("update-ref", f"refs/hermes/{project(workdir)}", parent[0])
    return home.chain(workdir)
