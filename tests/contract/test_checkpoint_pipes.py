"""A pipe where a file is expected in a project: nothing ever waits for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.stores.checkpoints.store import ShadowGitStore
from tests import tally

ROOT = Path(__file__).parents[2]
PATIENCE = 60
CODE = """
import sys; from pathlib import Path
from holdfast.stores.checkpoints.store import ShadowGitStore
store, project = ShadowGitStore(Path(sys.argv[1])), Path(sys.argv[2])
first = store.list(project)[-1].id
for number in range(3):
    for name in range(80):  # so many that the private index is brought up to date
        (project / f"new {name}").write_text(f"{number}")
    taking = store.take(project, reason="test", now=2.0 + number)
store.take(project, reason="test", now=9.0, paths=["sub/file", "new 1"])
store.excluded(project)
done = store.restore(first, store.secure(first, now=10.0), now=11.0)
print([each.path for each in taking.not_captured], [each.path for each in done.kept])
"""


@pytest.mark.parametrize(
    ("pipe", "left"),
    [
        ("README", "README"),
        ("sub/file", "sub/file"),
        ("sub", "sub"),
        ("sub/.gitignore", "sub"),
        (".gitattributes", ".gitattributes"),
        ("sub/.gitattributes", "sub/.gitattributes"),
        (".gitmodules", ".gitmodules"),
        ("other/.git", ""),
    ],
)
def test_nothing_waits_for_a_pipe_in_a_project(
    store: ShadowGitStore, project: Path, pipe: str, left: str
) -> None:
    (project / "sub").mkdir()
    (project / "sub/file").write_text("one\n")
    (project / "other").mkdir()
    store.take(project, reason="first", now=1.0)
    path = project / pipe
    if path.is_dir():
        (project / "sub/file").unlink()
        path.rmdir()
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    tally.injected()
    said = subprocess.run(
        [sys.executable, "-c", CODE, str(store.layout.folder), str(project)],
        check=True,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    ).stdout
    assert f"'{left}'" in said if left else "[] []" in said
    assert path.is_fifo()
    tally.verified()
