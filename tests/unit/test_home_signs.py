"""Which folder has the sign of an agent's home: what is no sign ends nothing."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from holdfast.homes.agents import known as agents


def test_a_sign_is_what_can_be_reached(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "round").symlink_to("round")
    (tmp_path / "gone").symlink_to("nowhere")
    (tmp_path / "link").symlink_to("there")
    signs = ("there", "file", "link", "round", "gone", "file/inside", "nul\0")
    has = [sign for sign in signs if agents._has(tmp_path, sign)]
    assert has == ["there", "file", "link"]


def test_a_folder_that_cannot_be_looked_into_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever asks tells a closed folder from one without a sign."""

    def refuse(path: str) -> os.stat_result:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(os, "stat", refuse)
    with pytest.raises(PermissionError):
        agents._has(tmp_path, "closed")
