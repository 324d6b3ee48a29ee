"""A home, its store and a project, for tests of restoring checkpoints."""

from __future__ import annotations

from pathlib import Path

from holdfast.homes.holdfast import HoldfastHome
from holdfast.model.checkpoint import Rollback
from holdfast.services.rollback import rollback
from holdfast.stores.checkpoints.store import ShadowGitStore

ROOT = Path(__file__).parents[2]
LIMIT = 10_000
NOW = 1_800_000_000.0


def take(store: ShadowGitStore, project: Path) -> str:
    taking = store.take(project, reason="before a change", now=NOW)
    assert taking.id is not None
    return taking.id


def restore(store: ShadowGitStore, target: str, *paths: str) -> Rollback:
    some = list(paths) or None
    safety = store.secure(target, paths=some, now=NOW + 1)
    return store.restore(target, safety, paths=some, now=NOW + 2)


def roll_back(home: HoldfastHome, store: ShadowGitStore, target: str, *paths: str) -> Rollback:
    return rollback(
        home, store, target, list(paths) or None, command="checkpoints restore", clock=lambda: NOW
    )
