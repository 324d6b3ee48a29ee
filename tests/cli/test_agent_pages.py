"""The pages about agents say what really happens: every command in them runs here, on the recorded
homes, and prints what the page shows. `…` in a page stands for any lines."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.runner import environment, run
from tests.cli.test_agent_homes import CLOCK, LATER
from tests.contract.agent_homes import FOUR
from tests.contract.agents.home import AgentHome

_PAGES = Path(__file__).parents[2] / "docs" / "how-to"
#: Sizes depend on the file system, and bars on sizes.
_SIZE = re.compile(r"[\d.,]+ [kMG]?B")
_BAR = re.compile(r"[▏▎▍▌▋▊▉█]+")


def _blocks(page: Path) -> list[tuple[str, list[str]]]:
    """Each command of a page, with the lines below it."""
    found: list[tuple[str, list[str]]] = []
    for block in re.findall(r"```console\n(.*?)```", page.read_text(), re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def _plain(line: str) -> str:
    return " ".join(_BAR.sub("", _SIZE.sub("SIZE", line)).split())


def _pattern(lines: list[str]) -> str:
    parts = [r"(?:.*\n)*?" if each == "…" else re.escape(_plain(each)) + r"\n" for each in lines]
    return "".join(parts)


@pytest.mark.parametrize("agent", FOUR, ids=lambda agent: agent.name)
def test_the_page_of_an_agent(agent: AgentHome, tmp_path: Path) -> None:
    user, clock = tmp_path / "user", tmp_path / "clock"
    clock.mkdir()
    (clock / "sitecustomize.py").write_text(CLOCK)
    (user / agent.folder).parent.mkdir(parents=True)
    agent.make(user / agent.folder)
    env = environment(user, PYTHONPATH=str(clock), TEST_NOW=str(LATER))
    blocks = _blocks(_PAGES / f"{agent.name}.md")
    assert len(blocks) > 5
    for command, shown in blocks:
        program, *words = shlex.split(command)
        assert program == "holdfast"
        done = run([each.replace("~", str(user), 1) for each in words], env, cwd=user)
        assert done.code == 0, (command, done)
        said = done.out.replace(str(user), "~")
        plain = "".join(_plain(line) + "\n" for line in said.splitlines())
        assert re.fullmatch(_pattern(shown), plain), f"{command}\n{said}"
