"""What each page of the docs is run on: a user with the homes and files that it speaks of, and the
time at which it is read."""

from __future__ import annotations

import atexit
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from holdfast.cli.demo_home import build
from tests.cli import console_blocks
from tests.cli.console_blocks import Step
from tests.cli.page_shell import ROOT, Ran, Server
from tests.compat import hermes_sessions, hermes_store
from tests.contract import agent_homes
from tests.contract.agent_homes import FOUR
from tests.contract.agents.recorded import RECORDED

#: As long as the path of a temporary folder, so that tables and lines break in the same places.
USER = "/home/camille"
#: 2026-11-15, 12:00 UTC. In the past, so that nothing changes when that day comes.
NOW = 1_794_744_000.0
#: Where pipx puts the interpreter of a command.
PYTHON = f"{USER}/.local/share/pipx/venvs/holdfast/bin/python"
LATER = agent_homes.NOW
SAMPLE = "sample"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    make: Callable[[Path], None]
    now: float = NOW


def _made() -> Path:
    """A folder that goes with this process."""
    place = Path(tempfile.mkdtemp(prefix="holdfast-pages-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return place


@cache
def _sample() -> Path:
    """What `holdfast demo FOLDER` makes, made once a process."""
    place = _made()
    build(place / SAMPLE, NOW)
    return place


@cache
def _machine() -> Path:
    """The homes of five agents, and one of Holdfast's own, made once a process."""
    user = _made()
    for agent in FOUR:
        (user / agent.folder).parent.mkdir(parents=True, exist_ok=True)
        agent.make(user / agent.folder)
    hermes(user)
    build(user / ".holdfast", LATER)
    return user


@cache
def _server() -> Server:
    return Server()


def nothing(user: Path) -> None:
    """A new user."""


def sample(user: Path) -> None:
    """`~/sample`, as the quickstart makes it."""
    shutil.copytree(_sample() / SAMPLE, user / SAMPLE, symlinks=True)


def machine(user: Path) -> None:
    """The homes of five agents, and one of Holdfast's own."""
    shutil.copytree(_machine(), user, symlinks=True, dirs_exist_ok=True)


def sample_and_agents(user: Path) -> None:
    """The sample, and what three agents left."""
    sample(user)
    for agent in FOUR[:3]:
        agent.make(user / agent.folder)


def hermes(user: Path) -> None:
    hermes_sessions.recorded(user).rename(user / ".hermes")


def hermes_with_checkpoints(user: Path) -> None:
    (user / "work").mkdir()
    home, _, _ = hermes_store.recorded(user / "work")
    home.root.rename(user / ".hermes")


def claude_code(user: Path) -> None:
    FOUR[0].make(user / FOUR[0].folder)


def example(user: Path) -> None:
    shutil.copytree(ROOT / "examples", user / "examples")


def ailing(user: Path) -> None:
    """Homes with something for the doctor."""
    sample(user)
    with closing(sqlite3.connect(user / SAMPLE / "sessions.db")) as db:
        db.execute("INSERT INTO message_index(message_index) VALUES ('delete-all')")
        db.commit()
    shutil.copytree(_sample() / SAMPLE, user / "damaged", symlinks=True)
    with (user / "damaged" / "sessions.db").open("r+b") as file:
        file.seek(4096 * 300)
        file.write(bytes(4096 * 2))
    hermes(user)
    (user / ".hermes" / "config.yaml").write_text("modle: sonnet-4\n")
    (user / ".hermes" / ".env").write_text("API_SERVER_ENABLED=true\n")


#: By the path below the root of the repository. A page without an entry has no console block.
SCENES = {
    "README.md": Scene(make=machine, now=LATER),
    "docs/configuration.md": Scene(make=nothing),
    "docs/quickstart.md": Scene(make=nothing),
    "docs/how-to/all-agents.md": Scene(make=machine, now=LATER),
    "docs/how-to/archive-sessions.md": Scene(make=sample),
    "docs/how-to/checkpoints.md": Scene(make=nothing),
    "docs/how-to/doctor.md": Scene(make=ailing),
    "docs/how-to/embed.md": Scene(make=example),
    "docs/how-to/find-sessions.md": Scene(make=sample),
    "docs/how-to/hermes-checkpoints.md": Scene(
        make=hermes_with_checkpoints, now=hermes_store.START + 12 * hermes_store.HOUR
    ),
    "docs/how-to/hermes.md": Scene(make=hermes, now=hermes_sessions.NOW),
    "docs/how-to/maintenance.md": Scene(make=sample),
    "docs/how-to/move-sessions.md": Scene(make=sample_and_agents),
    "docs/how-to/prune-sessions.md": Scene(make=sample),
    "docs/how-to/vault.md": Scene(make=claude_code, now=LATER),
}
#: An agent without a page of its own has none to run.
AGENT_PAGES = {
    page: agent for agent in RECORDED if (ROOT / (page := f"docs/how-to/{agent.name}.md")).is_file()
}


def scene_of(page: Path) -> Scene:
    name = page.relative_to(ROOT).as_posix()
    if name not in AGENT_PAGES:
        return SCENES[name]
    agent = AGENT_PAGES[name]

    def make(user: Path) -> None:
        (user / agent.folder).parent.mkdir(parents=True, exist_ok=True)
        agent.make(user / agent.folder)

    return Scene(make=make, now=LATER)


@contextmanager
def shell_of(page: Path) -> Iterator[Callable[[str, list[str]], Ran]]:
    """The shell of the user who reads this page. What it prints names the user's folder as the
    page does."""
    scene = scene_of(page)
    user = Path(tempfile.mkdtemp(prefix="", dir="/tmp"))
    assert len(str(user)) == len(USER)
    try:
        scene.make(user)
        server = _server()
        server.begin(user, scene.now)

        def run(command: str, answers: list[str]) -> Ran:
            ran = server.run(command.replace(USER, str(user)), answers)
            out = ran.out.replace(str(user), USER).replace(sys.executable, PYTHON)
            return Ran(code=ran.code, out=out)

        try:
            yield run
        finally:
            server.end()
    finally:
        shutil.rmtree(user)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    step: Step
    ran: Ran
    #: What the page should show; None when a person has to say.
    better: tuple[str, ...] | None


def differences(page: Path) -> list[Difference]:
    """Follow a page from its first command to its last."""
    known: dict[str, str] = {}
    found: list[Difference] = []
    with shell_of(page) as run:
        for step in console_blocks.steps(page.read_text(encoding="utf-8")):
            ran = run(console_blocks.translated(step.command, known), step.answers)
            fine = console_blocks.matches(step, ran.out, known)
            if not fine or ran.code != step.code:
                better = None if fine else console_blocks.rewritten(step, ran.out, known)
                said = None if better is None else tuple(better)
                found.append(Difference(step=step, ran=ran, better=said))
    return found


def told(found: Sequence[Difference]) -> str:
    """For a person who looks at a test that failed."""
    return "\n\n".join(
        f"line {each.step.start}: {each.step.command}\n{each.ran.out}[exit code {each.ran.code}]"
        for each in found
    )


def close() -> None:
    """Remove what was made once for all pages."""
    for made in (_sample, _machine):
        if made.cache_info().currsize:
            shutil.rmtree(made())
            made.cache_clear()
    if _server.cache_info().currsize:
        _server().close()
        _server.cache_clear()
