"""What `exclude` asks for with a `!`: captured although the project ignores it, and restored."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from holdfast.homes.checkpoints.open_store import checkpoint_store
from holdfast.model.checkpoint import Capturing
from tests.contract.restore_bench import NOW, restore, take
from tests.trees import everything

FILES = {
    "app.log": b"\x00one\r\n",
    "src/deep/run.log": b"two",
    "out/report.txt": b"three",
    "out/sub/more.txt": b"four",
    "out/sub/.env": b"KEY=1",
    "out/node_modules/x.js": b"five",
    "logs/a.log": b"six",
    ".env": b"KEY=2",
    "id.pem": b"key",
    "kept.txt": b"seven",
}
IGNORED = "*.log\nout/\nlogs/\n.env\n"

CASES: Mapping[tuple[str, ...], set[str]] = {
    (): set(),
    ("!*.log",): {"app.log", "src/deep/run.log"},
    ("!*.log", "app.log"): {"src/deep/run.log"},
    ("!/app.log",): {"app.log"},
    ("!src/**/*.log",): {"src/deep/run.log"},
    ("!out/",): {"out/report.txt", "out/sub/more.txt"},
    ("!out/", "!.env"): {"out/report.txt", "out/sub/more.txt", "out/sub/.env", ".env"},
    ("!out", "sub/"): {"out/report.txt"},
    ("!out/", "!logs", "!*.log"): {
        *("app.log", "src/deep/run.log", "logs/a.log", "out/report.txt", "out/sub/more.txt")
    },
    ("!*",): {
        *("app.log", "src/deep/run.log", "logs/a.log", "out/report.txt", "out/sub/more.txt"),
        "out/node_modules/x.js",
    },
    ("!*.pem",): {"id.pem"},
}


def fill(project: Path) -> None:
    for name, data in FILES.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_bytes(data)
        (project / name).chmod(0o640)
    (project / ".gitignore").write_text(IGNORED)


@pytest.mark.parametrize("excludes", CASES, ids=" ".join)
def test_what_is_asked_for_is_captured_and_comes_back_byte_for_byte(
    root: Path, project: Path, excludes: tuple[str, ...]
) -> None:
    fill(project)
    store = checkpoint_store(root, Capturing(excludes=excludes))
    before, target = everything(project), take(store, project)
    held = store.captured(store.get(target).tree).files.keys() & FILES.keys()
    assert held == CASES[excludes] | {"kept.txt"}
    for name in held:
        (project / name).write_bytes(b"changed " + FILES[name])
    (project / "later.log").write_bytes(b"came later")
    restore(store, target)
    if "!*.log" in excludes or "!*" in excludes:
        assert not (project / "later.log").exists()
    else:
        (project / "later.log").unlink()
    assert everything(project) == before


def test_a_known_path_a_second_look_and_the_size_limit(root: Path, project: Path) -> None:
    fill(project)
    store = checkpoint_store(root, Capturing(excludes=("!*.log", "!out/"), max_file_size=100))
    take(store, project)
    (project / "out/sub/new.txt").write_bytes(b"new")
    (project / "big.log").write_bytes(b"x" * 101)
    (project / "logs/b.log").write_bytes(b"in an ignored folder")
    paths = ["out/sub/new.txt", "big.log", "logs/b.log", "out/sub/.env"]
    known = store.take(project, reason="known", now=NOW + 1, paths=paths)
    files = store.captured(store.get(known.id or "").tree).files
    assert "out/sub/new.txt" in files
    assert not files.keys() & {"big.log", "logs/b.log", "out/sub/.env"}
    assert [each.path for each in known.not_captured] == ["big.log"]
    again = checkpoint_store(root, store.how).take(project, reason="whole", now=NOW + 2)
    assert again.id == known.id
    found = {each.path for each in store.excluded(project)}
    assert found == {"out/node_modules", "out/sub/.env", "id.pem"}


def test_a_request_that_came_or_went_later_deletes_and_overwrites_nothing_unsaved(
    root: Path, project: Path
) -> None:
    fill(project)
    plain = checkpoint_store(root, Capturing())
    without = take(plain, project)
    asking = checkpoint_store(root, Capturing(excludes=("!*.log",)))
    (project / "kept.txt").write_bytes(b"changed")
    with_logs = take(asking, project)
    assert restore(asking, without).deleted == ()  # it does not say that there were no logs
    assert (project / "app.log").read_bytes() == FILES["app.log"]
    (project / "app.log").write_bytes(b"not in any checkpoint")
    (project / "kept.txt").write_bytes(b"changed again")
    done = restore(checkpoint_store(root, Capturing()), with_logs)
    assert "kept.txt" in done.written
    assert "app.log" not in done.written
    assert (project / "app.log").read_bytes() == b"not in any checkpoint"
