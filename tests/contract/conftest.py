"""What the tests of restoring checkpoints begin with; other modules have fixtures of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.homes.checkpoints.open_store import checkpoint_store
from holdfast.homes.holdfast import HoldfastHome
from holdfast.model.checkpoint import Capturing
from holdfast.stores.checkpoints.store import ShadowGitStore
from tests.contract.restore_bench import LIMIT, NOW


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = (tmp_path / "a project").resolve()
    (made / "src").mkdir(parents=True)
    (made / "src/main.py").write_text("one\n")
    (made / "src/other.py").write_text("other\n")
    (made / "README").write_text("read me\n")
    return made


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    (made / "operations").mkdir(parents=True)
    return made.resolve()


@pytest.fixture
def store(root: Path) -> ShadowGitStore:
    return checkpoint_store(root, Capturing(max_file_size=LIMIT))


@pytest.fixture
def home(root: Path) -> HoldfastHome:
    return HoldfastHome(root, clock=lambda: NOW)
