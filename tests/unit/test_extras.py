"""What is missing is named as pyproject.toml asks for it, and pages say how to get it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from holdfast.errors import to_install_extra

_ROOT = Path(__file__).parents[2]
_EXTRAS: dict[str, list[str]] = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"][
    "optional-dependencies"
]


@pytest.mark.parametrize("extra", _EXTRAS)
def test_a_hint_names_the_versions_that_pyproject_asks_for(extra: str) -> None:
    hint = to_install_extra(extra)
    assert set(re.findall(r"'([^']+)'", hint)) == set(_EXTRAS[extra])
    assert "pipx inject holdfast" in hint
    assert "holdfast[" not in hint  # on PyPI that name belongs to somebody else


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md"])
def test_a_page_that_shows_a_command_says_how_to_install_it(page: str) -> None:
    text = (_ROOT / page).read_text(encoding="utf-8")
    installed = ",".join(re.findall(r"pipx install '\.\[([a-z,]+)\]'", text)).split(",")
    shown = [each for each in ("web", "mcp", "metrics") if f"`holdfast {each}`" in text]
    assert shown
    assert set(shown) <= set(installed)
