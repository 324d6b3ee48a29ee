"""The Python in the README is run as it stands there."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from holdfast.homes.sample import build

README = Path(__file__).parents[2] / "README.md"
_PYTHON = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def test_the_python_in_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [code] = _PYTHON.findall(README.read_text(encoding="utf-8"))
    home = tmp_path / ".holdfast"
    build(home, time.time())
    before = _names(home)
    monkeypatch.setenv("HOME", str(tmp_path))
    names: dict[str, object] = {"__name__": "readme"}
    exec(compile(code, str(README), "exec"), names)  # noqa: S102 - our own README
    report = names["report"]
    assert getattr(report, "removed", 0) > 0
    assert _names(home) == before, "it ends with an undo, so everything is back"


def _names(home: Path) -> set[str]:
    return {path.name for path in (home / "sessions").iterdir()}
