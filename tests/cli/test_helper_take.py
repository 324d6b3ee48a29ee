"""A take by the helper of the hooks says and does what a take without one does."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.cli import helper_take
from holdfast.hooks import client
from holdfast.stores.checkpoints.store import ShadowGitStore
from tests.ending_helpers import end_helper

_CODE = """
import sys
from holdfast.cli.main import run
code = run(sys.argv[1:])
sys.stdout.flush()
loaded = "holdfast.cli.take" in sys.modules
sys.stderr.write("usual" if loaded else "quick")
sys.exit(code)
"""


class Asked:
    """A project, a home, and a helper that may run or not."""

    def __init__(self, place: Path) -> None:
        self.home, self.project, self.place = place / "user" / ".holdfast", place / "site", place
        self.run = place / "run"
        for folder in (self.home.parent, self.project, place / "nobody"):
            folder.mkdir()
        self.run.mkdir(mode=0o700)
        (self.project / "a").write_text("one\n")
        self.number = 0

    def environ(self, *, helped: bool) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        folder = self.run if helped else self.place / "nobody"
        return {**kept, "HOME": str(self.home.parent), "XDG_RUNTIME_DIR": str(folder)}

    def start(self) -> None:
        folder = self.run / "holdfast"
        words = [sys.executable, "-I", client.__file__, "helper", str(folder)]
        self.helper = subprocess.Popen(words, env=self.environ(helped=True))
        until = time.monotonic() + 60
        while not list(folder.glob("*.sock")):
            assert time.monotonic() < until
            time.sleep(0.01)

    def said(self, *args: str, helped: bool, cwd: Path | None = None) -> tuple[int, str, str]:
        """Exit code, output, and errors with the way it went."""
        self.number += 1
        (self.project / "a").write_text(f"{self.number}\n")
        done = subprocess.run(
            [sys.executable, "-c", _CODE, *args],
            capture_output=True,
            text=True,
            check=False,
            cwd=cwd or self.project,
            env=self.environ(helped=helped),
        )
        out = done.stdout
        for newest in self.store.list()[:1]:
            out = out.replace(newest.id, "ID").replace(newest.id[:12], "ID")
        return done.returncode, out, done.stderr

    @property
    def store(self) -> ShadowGitStore:
        return ShadowGitStore(self.home / "checkpoints")


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Asked]:
    made = Asked(tmp_path)
    assert made.said("checkpoints", "take", helped=False)[0] == 0
    made.start()
    yield made
    end_helper(made.run / "holdfast")
    made.helper.wait()


def test_both_ways_say_and_do_the_same(asked: Asked) -> None:
    home, project = str(asked.home), str(asked.project)
    (asked.project / "sub").mkdir()
    for quick, words in (
        (True, ["checkpoints", "take", "--path", "a"]),
        (True, ["--home", home, "checkpoints", "take", project, "--path", f"{project}/a"]),
        (
            True,
            ["checkpoints", "take", project, "--reason=why not", "--session", "s", "--turn", "7"],
        ),
        (False, ["checkpoints", "take", "--path", "a", "--json"]),
        (False, ["checkpoints", "take", "--path", "../outside"]),
        (False, ["checkpoints", "take", "--path"]),
        (False, ["checkpoints", "take", str(asked.home.parent)]),
    ):
        code, out, errors = asked.said(*words, helped=False)
        then = asked.store.list()[0]
        assert errors.endswith("usual")
        helped = asked.said(*words, helped=True)
        now = asked.store.list()[0]
        assert helped == (code, out, errors.removesuffix("usual") + ("quick" if quick else "usual"))
        if quick:
            assert then.id != now.id
        assert [now.reason, now.session, now.turn] == [then.reason, then.session, then.turn]


def test_what_is_left_out_is_told_in_the_same_words(asked: Asked) -> None:
    take = ("checkpoints", "take")
    for name in ("node_modules", "venv"):
        (asked.project / name).mkdir()
        first, second = asked.said(*take, helped=False), asked.said(*take, helped=True)
        assert "left out by default" in first[2]
        assert second == (*first[:2], first[2].removesuffix("usual") + "quick")
    os.mkfifo(asked.project / "pipe")
    first, second = asked.said(*take, helped=False), asked.said(*take, helped=True)
    assert "pipe" in first[1] + first[2]
    assert "Took checkpoint" in second[1]
    assert second == first


def test_without_an_answer_the_take_is_done_here(asked: Asked) -> None:
    end_helper(asked.run / "holdfast")
    code, out, errors = asked.said("checkpoints", "take", "--path", "a", helped=True)
    assert (code, errors) == (0, "usual")
    assert "Took checkpoint ID" in out


def test_a_home_may_go_without(asked: Asked) -> None:
    (asked.home / "config.toml").write_text("[hooks]\nhelper = false\n")
    assert asked.said("checkpoints", "take", "--path", "a", helped=True)[2] == "usual"


@pytest.mark.parametrize(
    "line",
    [
        "checkpoints list",
        "checkpoints take --dry-run",
        "checkpoints take a b",
        "--path a checkpoints take",
        "--home hermes checkpoints take",
        "--home /not!plain checkpoints take",
        "checkpoints take --path ~/a",
        "checkpoints take --reason= ",
    ],
)
def test_other_lines_are_for_the_usual_way(
    line: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    del capfd  # no terminal
    monkeypatch.setattr(os, "environ", {"HOME": "/home/me"})
    monkeypatch.setattr(helper_take, "_may_have_helper", lambda: True)
    monkeypatch.setattr(client, "ask", lambda *_: pytest.fail("it was asked"))
    assert helper_take.take(line.split(" "), lambda: None) is None


@pytest.mark.parametrize("name", ["HOLDFAST_CHECKPOINTS_MAX_SNAPSHOTS", "COLUMNS"])
def test_some_variables_are_for_the_usual_way(
    name: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    del capfd
    monkeypatch.setattr(os, "environ", {"HOME": "/home/me"})
    assert helper_take._asked(["checkpoints", "take"]) is not None
    monkeypatch.setattr(os, "environ", {"HOME": "/home/me", name: "30"})
    assert helper_take._asked(["checkpoints", "take"]) is None
