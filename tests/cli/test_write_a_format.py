"""The page on formats, followed to the letter: its two files are a package that works, and what is
wrong in such a package is said with its name."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.cli.machine import Machine

_PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "write-a-format.md"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A user who did step 1 of the page, up to the installation, which is done by hand here: the
    module, and the entry point as pip writes it."""
    blocks = [(kind, text) for kind, text in _BLOCK.findall(_PAGE.read_text())]
    [project] = (text for kind, text in blocks if kind == "toml")
    [module] = (text for kind, text in blocks if kind == "python")
    shell = next(text for kind, text in blocks if kind == "sh")
    site = tmp_path / "site"
    made = tomllib.loads(project)["project"]
    info = site / f"marmot_format-{made['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Name: {made['name']}\nVersion: {made['version']}\n")
    entries = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in names.items())
        for group, names in made["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("\n".join(entries))
    (site / "marmot_format.py").write_text(module)
    user = Machine(root=tmp_path)
    chats = user.user / ".marmot" / "chats"
    chats.mkdir(parents=True)
    (chats.parent / "VERSION").write_text("1\n")
    [chat] = re.findall(r"<<'END'\n(.*?)END\n", shell, re.DOTALL)
    (chats / "aa01.jsonl").write_text(chat)
    return user


def env(machine: Machine) -> dict[str, str]:
    return {"PYTHONPATH": str(machine.root / "site")}


def test_the_package_of_the_page_works(machine: Machine) -> None:
    listed = machine.ok("--home", "marmot", "sessions", "list", env=env(machine)).words
    assert "aa01" in listed
    assert "A chat" in listed
    assert "[zebra]" in machine.ok("sessions", "search", "zebra", env=env(machine)).words
    assert "marmot home" in machine.ok("status", env=env(machine)).words
    refused = machine.run(
        "--home", "marmot", "sessions", "delete", "aa01", "--yes", env=env(machine)
    )
    assert (refused.code, "aa01 stays: used " in refused.words) == (1, True)


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("class MarmotFormat", "class Marmot", "marmot_format:MarmotFormat) cannot be used"),
        ("def signs", "def sings", "cannot be used: it has no signs"),
        ("return (root", "return (rood", "cannot tell whether"),
        ("path.stem", "path.stim", "bug in marmot_format, the format of Marmot"),
    ],
    ids=("no such class", "a method is missing", "recognise fails", "units fails"),
)
def test_what_is_wrong_in_a_package_is_said_with_its_name(
    machine: Machine, right: str, wrong: str, said: str
) -> None:
    path = machine.root / "site" / "marmot_format.py"
    path.write_text(path.read_text().replace(right, wrong, 1))
    (machine.user / ".holdfast" / "sessions").mkdir(parents=True)
    done = machine.run("status", env=env(machine))
    assert said in done.words
    assert "holdfast" in done.out, "the other homes are shown"
    assert "bug in Holdfast" not in done.words
