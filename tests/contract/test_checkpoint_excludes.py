"""What the default excludes leave out: which, how many, listed; and rules that change over time."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.homes.checkpoints.open_store import checkpoint_store
from holdfast.model.checkpoint import Capturing, Checkpoint
from holdfast.stores.checkpoints import creation, default_excludes
from holdfast.stores.checkpoints import take as take_module
from holdfast.stores.checkpoints.store import ShadowGitStore
from tests.contract.restore_bench import NOW, restore, take
from tests.trees import everything

PICTURES = ["logo.png", "icon.ICO", "drawing.svg", "photo.jpg", "a.gif", "b.webp"]


def test_the_pictures_of_a_project_come_back(store: ShadowGitStore, project: Path) -> None:
    for name in PICTURES:
        (project / name).write_bytes(b"\x89PNG\r\n" + name.encode())
    before, target = everything(project), take(store, project)
    for name in PICTURES:
        (project / name).unlink()
    assert set(restore(store, target).written) == set(PICTURES)
    assert everything(project) == before


def leave_some(project: Path) -> set[str]:
    for name in ("app.log", "node_modules/left/index.js", "src/movie.mp4", ".env", "deep/x.pyc"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("x")
    (project / "mine.tmp").write_text("x")
    (project / ".gitignore").write_text("*.tmp\n")
    return {"app.log", "node_modules", "src/movie.mp4", ".env", "deep/x.pyc"}


def test_what_is_left_out_is_counted_by_every_take_and_listed(
    store: ShadowGitStore, project: Path
) -> None:
    left = leave_some(project)
    assert store.take(project, reason="first", now=NOW).excluded == len(left)
    (project / "README").write_text("changed\n")
    assert store.take(project, reason="known", now=NOW, paths=["README"]).excluded == len(left)
    (project / "src/main.py").write_text("changed\n")
    again = ShadowGitStore(store.layout.folder)
    assert again.take(project, reason="whole", now=NOW).excluded == len(left)
    (project / "src/more.mp4").write_text("x")
    (project / "app.log").unlink()
    (project / "deep/x.pyc").unlink()
    assert again.take(project, reason="unchanged", now=NOW).excluded == len(left) - 1
    found = {each.path: each for each in again.excluded(project)}
    assert found.keys() == left - {"app.log", "deep/x.pyc"} | {"src/more.mp4"}
    assert found["node_modules"].is_directory
    assert found["node_modules"].rule == "node_modules/"
    assert found["src/more.mp4"].rule == "*.mp4"


def test_a_rule_that_was_dropped_costs_nothing_that_it_left_out(root: Path, project: Path) -> None:
    """The checkpoint lacks what the rules of its time left out: that says nothing about it."""
    (project / "data").mkdir()
    (project / "data/big.csv").write_text("1,2,3\n")
    target = take(checkpoint_store(root, Capturing(excludes=("data/",))), project)
    (project / "README").write_text("changed\n")
    (project / "later.txt").write_text("came later\n")
    store = checkpoint_store(root)
    foreseen = store.preview(target)
    done = restore(store, target)
    assert done.written == foreseen.written == ("README",)
    assert done.deleted == foreseen.deleted == ("later.txt",)
    assert [each.path for each in done.kept] == ["data/big.csv"]
    assert (project / "data/big.csv").read_text() == "1,2,3\n"


def test_pictures_survive_a_restore_of_a_checkpoint_of_an_earlier_version(
    root: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier versions left pictures out, and did not say under which rules they took one."""
    (project / "logo.png").write_bytes(b"\x89PNG")
    with monkeypatch.context() as earlier:
        rules = default_excludes.excludes_text
        earlier.setattr(
            creation, "excludes_text", lambda m: default_excludes.earlier_text(rules(m))
        )
        earlier.setattr(
            take_module, "Checkpoint", lambda **some: Checkpoint(**{**some, "rules": None})
        )
        target = take(checkpoint_store(root), project)
    store = checkpoint_store(root)
    assert store.get(target).rules is None
    assert "logo.png" not in store.captured(store.get(target).tree).files
    (project / "README").write_text("changed\n")
    assert "logo.png" in store.captured(store.look(project).tree).files
    done = restore(store, target)
    assert (project / "logo.png").read_bytes() == b"\x89PNG"
    assert done.deleted == ()
    assert [each.path for each in done.kept] == ["logo.png"]
