"""A session that a real agent made on one machine, archived there, restored on another under other
paths: the real agent lists it there and goes on with it, and knows what was said."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest

import holdfast
from holdfast import Home
from tests.compat.agents.installed import NotInstallableError
from tests.compat.agents.lab import Claude, Codex, Lab
from tests.compat.agents.model_server import LINE, ModelServer, serving
from tests.contract.factory import databases_of

#: Holdfast's clock is ahead of the agents': their sessions are old as soon as they are made.
AHEAD = 200 * 86_400.0

pytestmark = pytest.mark.deep


def _lab(kind: type[Lab], place: Path, model: ModelServer) -> Lab:
    try:
        made = kind(place, model)
    except NotInstallableError as error:
        pytest.skip(f"THE REAL AGENT WAS NOT TRIED: {error}")
    made.set_up()
    return made


def _opened(lab: Lab) -> Home:
    return holdfast.open(lab.home, clock=lambda: time.time() + AHEAD)


@pytest.mark.parametrize("kind", [Claude, Codex], ids=lambda kind: kind.name)
def test_the_agent_goes_on_with_a_session_of_another_machine(
    kind: type[Lab], tmp_path: Path
) -> None:
    with serving() as model:
        one = _lab(kind, tmp_path.resolve() / "one", model)
        two = _lab(kind, tmp_path.resolve() / "another machine", model)
        try:
            session = one.say("apricots")
            one.resume(session)
            one.close()
            theirs = two.say("bananas")
            two.close()
            _carry(one, two, session)
            with _opened(two) as home:
                cwd = home.sessions.get(session).cwd
            assert cwd == str(two.project)

            model.heard.clear()
            two.said[session] = "apricots"
            two.resume(session)
            # The model was told what was said on the other machine, and where the agent works now.
            asked = b"".join(model.heard)
            assert b"apricots" in asked
            assert str(two.project).encode() in asked
            assert two.listed() == {session, theirs}
            with _opened(two) as home:
                said = [str(each.content) for each in home.sessions.messages(session)]
            assert sum(LINE in each for each in said) >= 3
            two.resume(theirs)
            for path in databases_of(two.home):
                checked = subprocess.run(
                    ["python3", "-c", _CHECK, str(path)], check=True, capture_output=True, text=True
                )
                assert checked.stdout.strip() == "ok"
        finally:
            one.close()
            two.close()


_CHECK = (
    "import sqlite3, sys;"
    "print(sqlite3.connect(sys.argv[1]).execute('PRAGMA integrity_check').fetchone()[0])"
)


def _carry(one: Lab, two: Lab, session: str) -> None:
    """Archive on one machine, copy the bundle, restore on the other."""
    with _opened(one) as home:
        assert home.archive_sessions(session).archived == 1
    assert session not in one.listed()
    one.close()
    [bundle] = (one.home / ".holdfast" / "archive").glob("*.tar.*")
    with _opened(two) as home:
        there = home.path / ".holdfast" / "archive"
        there.mkdir(parents=True, mode=0o700, exist_ok=True)
        shutil.copy2(bundle, there)
        report = home.restore_sessions(session, maps={str(one.project): two.project})
    assert report.brought_back == 1, report.outcomes
