"""The main screens are what the files in tests/data/screens say, at every width and in a pipe.

After a change on purpose: `.venv/bin/python -m tests.cli.screens`, and read the difference."""

from __future__ import annotations

import difflib

from holdfast.cli.plain import columns_of
from tests.cli.screens import FOLDER, WIDTHS, written


def test_screens_are_as_recorded_and_fit() -> None:
    shown = dict(written())
    recorded = {path.stem: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}
    assert shown.keys() == recorded.keys()
    differences = [
        "\n".join(
            difflib.unified_diff(
                recorded[name].splitlines(), text.splitlines(), name, "now", lineterm="", n=2
            )
        )
        for name, text in shown.items()
        if text != recorded[name]
    ]
    assert not differences, "\n\n".join(differences)
    for name, text in shown.items():
        assert "Internal error" not in text, name
        _check_widths(name, text)


def _check_widths(name: str, text: str) -> None:
    """No line is longer than its terminal, apart from commands to copy and from messages on
    stderr. What is missing has a sign."""
    sections = text.split("\n=== ")[1:]
    assert len(sections) == len(WIDTHS)
    for width, section in zip(WIDTHS, sections, strict=True):
        screen = section.partition("\n--- stderr")[0].splitlines()[1:]
        if width is not None:
            lines = [line for line in screen if not line.startswith("  holdfast ")]
            assert all(columns_of(line) <= width for line in lines), (name, width)
        else:
            assert not any(line.endswith(" ") or "█" in line for line in screen), name
