"""How commands start: the quick lane says what click would, and little is loaded."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from holdfast.cli import take
from holdfast.cli.flags import read
from tests.cli import forked
from tests.cli.machine import Machine
from tests.cli.runner import PATIENCE
from tests.contract.agent_homes import make_claude

#: The lane of every other command.
_BY_CLICK = "from holdfast.cli import main; main._quick_take = lambda args: None"
_LOADED = (
    "import sys; from holdfast.cli import main; main.run(sys.argv[1:]); "
    "print(*sorted(sys.modules), file=sys.stderr)"
)
_PLAIN = [
    ["checkpoints", "take"],
    ["checkpoints", "take", "--json"],
    ["--json", "checkpoints", "take", "--path", "a"],
    ["checkpoints", "--json", "take", "--path=a", "--path", "b"],
    ["checkpoints", "take", ".", "--reason", "before the refactoring", "--all"],
    ["checkpoints", "take", "--session", "s", "--turn", "3", "--hash", "--json"],
    ["checkpoints", "take", "--reason="],
    ["checkpoints", "take", "--path", "../elsewhere"],
    ["checkpoints", "take", "--path", "../elsewhere", "--json"],
    ["checkpoints", "take", "--path="],
    ["checkpoints", "take", "missing"],
    ["checkpoints", "take", ""],
    ["checkpoints", "take", "/"],
    ["checkpoints", "take", "/", "--json"],
    ["checkpoints", "take", "--home", "other home", "--path", "a"],
    ["--home", "first", "checkpoints", "take", "--home=second"],
    ["checkpoints", "take", "--reason", "\udcff"],
    ["checkpoints", "take", "--home", "a"],
]
_OTHER = [
    ["checkpoints", "take", "--pat", "a"],
    ["checkpoints", "take", "--reason"],
    ["checkpoints", "take", "--reason", "-x"],
    ["checkpoints", "take", "one", "two"],
    ["checkpoints", "take", "--home", ""],
    ["checkpoints", "take", "--json=1"],
    ["checkpoints", "take", "--", "-x"],
    ["checkpoints", "take", "-x"],
    ["checkpoints", "take", "--help"],
    ["--path", "a", "checkpoints", "take"],
    ["take", "checkpoints"],
]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(line, marks=pytest.mark.deep if number % 2 else (), id=" ".join(line))
        for number, line in enumerate(_PLAIN + _OTHER)
    ],
)
def test_both_lanes_say_and_do_the_same(tmp_path: Path, line: list[str]) -> None:
    quick, by_click = (_said(tmp_path / name, first, line) for name, first in _LANES)
    assert quick == by_click


_LANES = [("one", ""), ("two", _BY_CLICK)]


def _said(root: Path, first: str, line: Sequence[str]) -> list[tuple[int, str, str]]:
    """What a first take, one that finds nothing new, and one after a change say."""
    machine = Machine(root=root)
    project = root / "project"
    project.mkdir(parents=True)
    (root / "user").mkdir()
    said = []
    for content in ("1\n", "1\n", "2\n"):
        (project / "a").write_text(content)
        done = _run(first, line, machine, project)
        out, err = (_without_names(text.decode(), root) for text in (done.stdout, done.stderr))
        said.append((done.returncode, out, err))
    return said


def _run(
    first: str, line: Sequence[str], machine: Machine, cwd: Path
) -> subprocess.CompletedProcess[bytes]:
    env = machine.env()
    done = forked.run(line, env, b"", cwd=cwd, patience=PATIENCE, first=first)
    code = f"{first}\nfrom holdfast.cli import main; main.main()"
    return done or subprocess.run(
        [sys.executable, "-c", code, *line],
        check=False,
        capture_output=True,
        env=env,
        cwd=cwd,
        timeout=PATIENCE,
    )


def _without_names(text: str, root: Path) -> str:
    return re.sub(r"\b[0-9a-f]{12,40}\b", "ID", text.replace(str(root), "ROOT"))


@pytest.mark.parametrize("line", _PLAIN, ids=" ".join)
def test_a_plain_line_needs_no_click(line: list[str]) -> None:
    assert read(line, take.COMMAND, take.FLAGS, most=1) is not None


@pytest.mark.parametrize("line", _OTHER, ids=" ".join)
def test_every_other_line_is_left_to_click(line: list[str]) -> None:
    assert read(line, take.COMMAND, take.FLAGS, most=1) is None


_NOT_FOR_A_TAKE = {
    "_hashlib",
    "ast",
    "asyncio",
    "click",
    "concurrent.futures",
    "ctypes",
    "dataclasses",
    "datetime",
    "difflib",
    "holdfast.api.home",
    "holdfast.config.settings",
    "holdfast.homes.checkpoints.keep_within_bounds",
    "holdfast.homes.holdfast",
    "holdfast.ports",
    "holdfast.stores.checkpoints.store",
    "importlib.metadata",
    "inspect",
    "logging",
    "random",
    "rich",
    "shlex",
    "shutil",
    "socket",
    "sqlite3",
    "subprocess",
    "tempfile",
    "threading",
    "tomllib",
    "traceback",
    "typing",
    "uuid",
}
#: Which agents there are, without the format of any.
_SIGNS = {"holdfast.homes.agents.known"}
_NOT_FOR_A_LIST = {
    "asyncio",
    "concurrent.futures",
    "ctypes",
    "dataclasses",
    "difflib",
    "holdfast.api.home",
    "holdfast.config.settings",
    "holdfast.homes.archive.home_archive",
    "importlib.metadata",
    "logging",
    "random",
    "rich",
    "shutil",
    "socket",
    "subprocess",
    "tempfile",
    "tomllib",
    "traceback",
}


#: What a `Home` is made of, and sessions that go and come back do not touch.
_NOT_FOR_A_REMOVAL = {
    "concurrent.futures",
    "ctypes",
    "difflib",
    "holdfast.api.checkpoints",
    "holdfast.api.exchange",
    "holdfast.api.home",
    "holdfast.api.machine",
    "holdfast.homes.archive.home_archive",
    "holdfast.services.doctor",
    "holdfast.stores.checkpoints.store",
    "logging",
    "rich",
    "subprocess",
}


@pytest.mark.parametrize("line", [("prune", "--older-than", "90d"), ("gc",)], ids=" ".join)
def test_a_removal_of_sessions_and_its_undo_load_no_whole_home(
    machine: Machine, project: Path, line: Sequence[str]
) -> None:
    home = str(machine.root / "sample")
    assert machine.run("demo", home).code == 0
    for words in (("sessions", *line, "--yes"), ("undo", "--yes")):
        loaded = _loaded(machine, project, "--home", home, *words)
        assert not loaded & _NOT_FOR_A_REMOVAL
        assert len({name for name in loaded if name.startswith("holdfast.")}) <= 190


def test_a_take_loads_no_more_than_it_needs(machine: Machine, project: Path) -> None:
    (project / "a").write_text("first\n")
    assert machine.run("checkpoints", "take", cwd=project).code == 0
    (project / "a").write_text("changed\n")
    loaded = _loaded(machine, project, "checkpoints", "take", "--path", "a")
    assert not loaded & _NOT_FOR_A_TAKE
    assert len({name for name in loaded if name.startswith("holdfast.")}) <= 66


@pytest.mark.parametrize("line", [["project"], ["/"], ["project", "--json"], ["missing"]], ids=str)
@pytest.mark.parametrize("sink", ["pipe", "/dev/full"])
def test_a_quick_end_loses_no_word_and_no_exit_code(
    machine: Machine, project: Path, line: list[str], sink: str
) -> None:
    """A take ends without taking the interpreter apart, unless threads may run."""
    ends = []
    for number, first in enumerate(("", "import threading; ")):
        (project / "a").write_text(f"{number}\n")
        code = f"{first}from holdfast.cli import main; main.main()"
        words = ["checkpoints", "take", *(str(project) if w == "project" else w for w in line)]
        with open(sink if sink != "pipe" else os.devnull, "wb") as full:  # noqa: PTH123
            done = subprocess.run(
                [sys.executable, "-c", code, *words],
                check=False,
                stdout=subprocess.PIPE if sink == "pipe" else full,
                stderr=subprocess.PIPE,
                env={**machine.env(), "XDG_RUNTIME_DIR": str(project.parent)},
                timeout=PATIENCE,
            )
        said = (done.stdout or b"") + done.stderr
        ends.append((done.returncode, _without_names(said.decode(), project)))
    assert ends[0] == ends[1]
    assert ends[0][1]


def test_a_take_beyond_a_bound_loads_no_planner(machine: Machine, project: Path) -> None:
    for number in range(22):
        (project / "a").write_text(f"{number}\n")
        assert machine.run("checkpoints", "take", "--path", "a", cwd=project).code == 0
    (project / "a").write_text("changed\n")
    loaded = _loaded(machine, project, "checkpoints", "take", "--path", "a")
    assert not loaded & {
        "click",
        "rich",
        "sqlite3",
        "holdfast.homes.checkpoints.keep_within_bounds",
    }


def test_a_list_on_a_pipe_loads_no_more_than_it_needs(machine: Machine, project: Path) -> None:
    make = (
        "import sys, holdfast; home = holdfast.open(sys.argv[1], create=True); "
        "home.sessions.create(source='cli', title='one'); home.close()"
    )
    subprocess.run([sys.executable, "-c", make, str(machine.home)], check=True, env=machine.env())
    # Several agents keep files in a folder of this name. None of them is asked about a home that
    # is surely ours: one that reads 20 of these files to decide takes as long as the list.
    (machine.home / "sessions").mkdir()
    loaded = _loaded(machine, project, "sessions", "list")
    assert not loaded & _NOT_FOR_A_LIST
    assert not {each for each in loaded if each.startswith("holdfast.homes.agents.")} - _SIGNS


def test_a_list_of_another_agent_loads_nothing_of_archives(machine: Machine, project: Path) -> None:
    root = machine.root / "claude"
    make_claude(root)
    loaded = _loaded(machine, project, "--home", str(root), "sessions", "list")
    assert "holdfast.homes.foreign.sessions" in loaded
    assert not loaded & {"backports.zstd", "logging", "tarfile", "holdfast.stores.archive.archive"}


def _loaded(machine: Machine, cwd: Path, *args: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", _LOADED, *args],
        check=True,
        capture_output=True,
        text=True,
        env={**machine.env(), "XDG_RUNTIME_DIR": str(cwd)},  # where nobody answers for it
        cwd=cwd,
        timeout=PATIENCE,
    )
    return set(done.stderr.split())
