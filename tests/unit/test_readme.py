"""The Python in the README and in the page on embedding is run as it stands there."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.cli.demo_home import build

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
EMBEDDING = ROOT / "docs/how-to/embed-sessions.md"
CHECKPOINTS = ROOT / "docs/how-to/checkpoints.md"
FROM_PYTHON = ROOT / "docs/how-to/python.md"
_PYTHON = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_SESSIONS, _PRUNING = _PYTHON.findall(README.read_text(encoding="utf-8"))


def _run(code: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "readme"}
    exec(compile(code, str(README), "exec"), names)  # noqa: S102 - our own README
    return names


def test_the_sessions_in_the_readme_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = _run(_SESSIONS)
    [hit] = names["hits"]
    assert hit.session.id == names["session"].id
    assert hit.snippet == "[Checkpoints]."
    [listed] = names["recent"]
    assert listed.title == "Disk clean-up"
    assert (listed.message_count, listed.tokens.input, listed.tokens.output) == (2, 52, 4)
    held = [link.resolve() for link in Path("/proc/self/fd").iterdir()]
    assert not [path for path in held if path.is_relative_to(tmp_path)], "closed with the block"
    assert [path.name for path in tmp_path.iterdir()] == ["agent-home"]


def test_the_sessions_in_the_readme_are_ten_lines() -> None:
    assert len([line for line in _SESSIONS.splitlines() if line]) == 10
    assert max(map(len, _SESSIONS.splitlines())) <= 100


def test_the_pruning_in_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "agent-home"
    build(home, time.time())
    before = _names(home)
    monkeypatch.chdir(tmp_path)
    names = _run(_PRUNING)
    assert names["report"].removed > 0
    assert names["undone"].brought_back == names["report"].removed
    assert names["result"].ok
    assert _names(home) == before, "it ends with an undo, so everything is back"


def test_the_pruning_in_the_readme_undoes_nothing_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With nothing to prune there is nothing of its own to undo."""
    home = tmp_path / "agent-home"
    with holdfast.open(home, create=True) as opened:
        for name in ("deleted", "kept"):
            opened.sessions.end(opened.sessions.create(source="cli", id=name).id)
        assert opened.delete("deleted").operation == "1"
    monkeypatch.chdir(tmp_path)
    names = _run(_PRUNING)
    assert names["report"].operation is None
    assert names["undone"].brought_back == 0
    with holdfast.open(home) as opened:
        assert [session.id for session in opened.sessions.find()] == ["kept"]


def test_the_page_on_embedding_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its blocks go on from each other."""
    monkeypatch.chdir(tmp_path)
    blocks = _PYTHON.findall(EMBEDDING.read_text(encoding="utf-8"))
    names = _run("\n".join(blocks))
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "1 user What fills the disk?"
    assert said[-1] == "hello"
    assert names["fresh"].id != names["current"].id
    assert {child.relation.value for child in names["children"]} == {"branch", "delegate"}
    assert names["path"].name.startswith(f"request_dump_{names['branch'].id}_")


def test_the_page_on_python_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    [code] = _PYTHON.findall(FROM_PYTHON.read_text(encoding="utf-8"))
    _run(code)
    assert capsys.readouterr().out == "0 would go\n"


def test_the_page_on_checkpoints_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the folder that the page makes at its top."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    shop = tmp_path / "site/src/shop.py"
    shop.parent.mkdir(parents=True)
    shop.write_text("as it was")
    names = _run("\n".join(_PYTHON.findall(CHECKPOINTS.read_text(encoding="utf-8"))))
    assert names["report"].written == ("src/shop.py",)
    assert shop.read_text() == "as it was"
    names["home"].close()


def _names(home: Path) -> set[str]:
    return {path.name for path in (home / "sessions").iterdir()}
