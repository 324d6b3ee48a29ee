"""A home without a configuration does not load the settings: what holds there must be the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.config import is_default
from holdfast.config.settings import Settings
from holdfast.homes.options import UNCONFIGURED, HomeOptions
from holdfast.model.checkpoint import BY_DEFAULT
from holdfast.policy.prices import Prices


def test_what_holds_without_a_configuration_is_what_its_defaults_say() -> None:
    usual = Settings()
    assert usual.checkpoints.capturing() == BY_DEFAULT
    assert HomeOptions.of(usual) == UNCONFIGURED
    assert usual.prices() == Prices()


def test_a_missing_file_sets_nothing(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    assert is_default(path, {"HOLDFAST_HOME": "x", "HOLDFAST_DEBUG": "1", "PATH": "y"})
    assert is_default(path, {"HOLDFAST_TRASH_DAYS": ""})


@pytest.mark.parametrize("variable", ["HOLDFAST_TRASH_DAYS", "HOLDFAST_UNKNOWN"])
def test_a_variable_of_ours_sets_something(tmp_path: Path, variable: str) -> None:
    assert not is_default(tmp_path / "config.toml", {variable: "1"})


def test_whatever_is_in_the_place_of_the_file_has_to_be_read(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.symlink_to("nowhere")
    assert not is_default(path, {})
    path.unlink()
    path.touch()
    assert not is_default(path, {})
    assert not is_default(path / "config.toml", {})
    assert not is_default(Path("a\0b"), {})
