"""A project and a store, for tests of taking checkpoints."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.model.checkpoint import Captured, Capturing, TakeOutcome, Taking
from holdfast.stores.checkpoints.store import ShadowGitStore

ROOT = Path(__file__).parents[2]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs to be root")


class Bench:
    """A project and a store, with a clock that moves by itself."""

    def __init__(self, place: Path) -> None:
        self.project = place / "project"
        self.project.mkdir()
        self.folder = place / "home 'of' \"mine\"" / "checkpoints"
        self.store = ShadowGitStore(self.folder, Capturing(user_home=place, max_file_size=1_000))
        self.now = 1_000.0

    def write(self, path: str, content: str | bytes = "text\n", mode: int = 0o644) -> Path:
        place = self.project / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
        place.chmod(mode)
        return place

    def take(self, *paths: str) -> Taking:
        self.now += 1
        return self.store.take(
            self.project, reason="before a turn", now=self.now, paths=list(paths) or None
        )

    def taken(self, *paths: str) -> str:
        taking = self.take(*paths)
        assert taking.outcome is TakeOutcome.TAKEN
        assert taking.id is not None
        return taking.id

    def taken_anew(self) -> str:
        """One that is taken as if it were the first, so that it judges anew what is usual."""
        refs = self.store.layout.store / "refs/holdfast"
        aside = refs.with_name("aside")
        refs.rename(aside)
        (self.private / "state.json").unlink()
        taken = self.taken()
        for ref in aside.glob("*/*"):
            ref.rename(refs / ref.relative_to(aside))
        return taken

    def captured(self) -> Captured:
        return self.store.captured(self.store.list(self.project)[0].tree)

    def content(self, path: str) -> bytes:
        return self.store.blob(self.captured().files[path].oid)

    @property
    def private(self) -> Path:
        (folder,) = (self.store.layout.store / "worktrees").iterdir()
        return folder

    def git(self, *arguments: str) -> str:
        return self.store.layout.git().run(*arguments).output.decode()


def left_out(taking: Taking) -> dict[str, str]:
    return {one.path: one.reason for one in taking.not_captured}
