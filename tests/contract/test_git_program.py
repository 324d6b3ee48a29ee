"""Which git is used: one that was found good is not asked again, and any other one is."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import StorageError
from holdfast.stores.git import program


def test_a_git_is_asked_for_its_version_once_in_its_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, noted, fake = tmp_path / "asked", tmp_path / "noted", tmp_path / "bin" / "git"
    noted.mkdir()
    fake.parent.mkdir()
    monkeypatch.setenv("PATH", str(fake.parent))

    def install(version: str) -> None:
        fake.unlink(missing_ok=True)
        fake.write_text(f"#!/bin/sh\necho x >> '{asked}'\necho git version {version}\n")
        fake.chmod(0o755)

    def find(folder: Path | None = noted) -> int:
        """How often it was asked so far, by all processes: each knows nothing of the others."""
        program._check_version.cache_clear()
        assert program.find_git(folder) == str(fake)
        return len(asked.read_text().split())

    install("2.50.1")
    assert [find(), find(), find()] == [1, 1, 1]
    assert find(None) == 2  # another agent's repository gets no note
    install("2.51.0")
    assert [find(), find()] == [3, 3]
    install("2.9.5")
    with pytest.raises(StorageError, match=r"git 2\.32 or later"):
        find()
    install("2.52.0")
    (noted / "git").unlink()
    (noted / "git").mkdir()  # it cannot be noted
    assert [find(), find()] == [5, 6]
    program._check_version.cache_clear()
