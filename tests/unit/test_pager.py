"""A pager gets colours only if it shows them."""

from __future__ import annotations

import pytest

from holdfast.cli.pager import is_missing, shows_colours


@pytest.mark.parametrize(
    ("command", "less", "coloured"),
    [
        ("less", "FRX", True),
        ("less", "-F -X", False),
        ("less", "", False),
        ("less -R", "", True),
        ("/usr/bin/less --RAW-CONTROL-CHARS", "F", True),
        ("less --quit-if-one-screen", "F", False),
        ("more", "FRX", False),
        ("bat --plain", "", True),
        ("sed 's/a/b", "FRX", False),
    ],
)
def test_colours_for_a_pager(
    command: str, less: str, coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    assert shows_colours(command, less) is coloured
    monkeypatch.setenv("NO_COLOR", "1")
    assert shows_colours(command, less) is False


@pytest.mark.parametrize(
    ("command", "missing"),
    [
        ("no-such-pager", True),
        ("no-such-pager -R | cat", True),
        ("LESS=R no-such-pager", True),
        ("/no/such/pager", True),
        ("exec cat", False),
        ("sh -c cat", False),
        ("$PAGER_OF_MINE -R", False),
        ("'unfinished", False),
    ],
)
def test_only_a_pager_that_is_surely_not_there_is_missing(command: str, missing: bool) -> None:
    assert is_missing(command) is missing
