"""A home with checkpoints, made by the real store; and what of it a test wants to see."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from holdfast.homes.holdfast import HoldfastHome
from holdfast.model.checkpoint import Captured, Capturing, Checkpoint, TakeOutcome
from holdfast.model.checkpoint_inventory import CheckpointInventory
from holdfast.model.plan import Plan
from holdfast.model.report import Report
from holdfast.policy.rules import CheckpointPolicy
from holdfast.services.plans import plan_prune_checkpoints
from holdfast.spine.apply import apply
from holdfast.stores.checkpoints.store import ShadowGitStore

DAY = 86_400.0
START = 1_700_000_000.0


@dataclass
class Bench:
    """A home, its checkpoint store, and a clock that the test turns."""

    root: Path
    max_snapshots: int = 0
    now: float = START
    _chance: Random = field(default_factory=lambda: Random(5))

    def __post_init__(self) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        self.home = HoldfastHome(self.root / "home", clock=lambda: self.now)
        self.store = ShadowGitStore(
            self.root / "home" / "checkpoints", Capturing(max_snapshots=self.max_snapshots)
        )

    @property
    def folder(self) -> Path:
        return self.root / "home" / "checkpoints"

    @property
    def objects(self) -> Path:
        return self.folder / "store" / "objects"

    def project(self, name: str = "p", files: int = 3) -> Path:
        workdir = self.root / name
        for number in range(files):
            self.write(workdir / f"f{number}.txt", 100)
        return workdir

    def write(self, path: Path, size: int) -> None:
        """Content that does not compress, so that sizes are what they seem."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self._chance.randbytes(size))

    def take(self, workdir: Path, *, size: int = 5_000, reason: str = "test") -> str:
        """Change one file and take a checkpoint, a second after the last."""
        self.write(workdir / "changing.bin", size)
        self.now += 1
        taking = self.store.take(workdir, reason=reason, now=self.now)
        assert taking.outcome is TakeOutcome.TAKEN
        assert taking.id is not None
        return taking.id

    def takes(self, workdir: Path, count: int, *, size: int = 5_000) -> list[str]:
        return [self.take(workdir, size=size, reason=f"r{number}") for number in range(count)]

    def unpack(self) -> None:
        """Give every object a file of its own, so that a test can get at one of them."""
        loosen(self.folder / "store")

    def ids(self, workdir: Path | None = None) -> list[str]:
        """The oldest first."""
        return [checkpoint.id for checkpoint in reversed(self.store.list(workdir))]

    def scan(self) -> CheckpointInventory:
        return self.home.checkpoint_upkeep.scan(self.now)

    def plan(self, policy: CheckpointPolicy, *, changing: bool = False) -> Plan:
        upkeep = self.home.checkpoint_upkeep
        return plan_prune_checkpoints(
            upkeep, policy, now=self.now, command="checkpoints prune", changing=changing
        )[0]

    def prune(self, policy: CheckpointPolicy, *, changing: bool = True) -> Report:
        return self.apply(self.plan(policy, changing=changing))

    def apply(self, plan: Plan) -> Report:
        return apply(plan, self.home, clock=lambda: self.now)


def file_bytes(folder: Path) -> int:
    """What the files in a folder take on the disk."""
    return sum(
        Path(place, name).lstat().st_blocks * 512
        for place, _, names in os.walk(folder)
        for name in names
    )


def fsck(store: Path) -> str:
    """What git itself thinks of a store; empty when nothing is wrong."""
    said = subprocess.run(
        ["git", "--git-dir", str(store), "fsck", "--full", "--no-dangling", "--no-progress"],
        check=False,
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "LC_ALL": "C", "GIT_CONFIG_GLOBAL": os.devnull},
    )
    lines = [*said.stdout.splitlines(), *said.stderr.splitlines()]
    wrong = [line for line in lines if not line.startswith("notice: ")]
    return "\n".join(wrong if said.returncode == 0 else [*wrong, f"exit {said.returncode}"])


def contents(store: ShadowGitStore, checkpoint: Checkpoint) -> Mapping[str, tuple[int, bytes]]:
    """Everything that a checkpoint holds, read whole."""
    captured: Captured = store.captured(checkpoint.tree)
    return {path: (entry.mode, store.blob(entry.oid)) for path, entry in captured.files.items()}


def on_disk(workdir: Path) -> Mapping[str, tuple[int, bytes]]:
    """The same of a directory, for comparison."""
    found: dict[str, tuple[int, bytes]] = {}
    for place, _, names in os.walk(workdir):
        for name in names:
            path = Path(place, name)
            mode = path.lstat().st_mode
            data = os.fsencode(path.readlink()) if stat.S_ISLNK(mode) else path.read_bytes()
            found[str(path.relative_to(workdir))] = (mode, data)
    return found


def facts(checkpoints: Sequence[Checkpoint]) -> dict[str, tuple[float, str, str]]:
    """What never changes of a checkpoint."""
    return {each.id: (each.time, each.reason, each.tree) for each in checkpoints}


def loosen(store: Path) -> None:
    """Take every object out of its pack, so that one alone can be damaged."""
    packs = {path: path.read_bytes() for path in (store / "objects/pack").glob("pack-*.pack")}
    for path in packs:
        for part in path.parent.glob(f"{path.stem}.*"):
            part.unlink()
    for data in packs.values():
        subprocess.run(
            ["git", "--git-dir", str(store), "unpack-objects", "-q"], input=data, check=True
        )


def backdate(folder: Path, moment: float) -> None:
    """As if nobody had touched anything in it since."""
    for place, folders, files in os.walk(folder, topdown=False):
        for name in (*folders, *files):
            os.utime(Path(place, name), (moment, moment), follow_symlinks=False)
    os.utime(folder, (moment, moment))
