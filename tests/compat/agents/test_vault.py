"""Real Claude Code deletes sessions that are 40 days old. With the vault on none of them is lost,
and Claude Code itself goes on with one that was restored."""

from __future__ import annotations

import faulthandler
import os
import time
from pathlib import Path

import pytest

import holdfast
from tests.compat.agents.installed import NotInstallableError
from tests.compat.agents.lab import Claude
from tests.compat.agents.model_server import serving

pytestmark = pytest.mark.deep

DAY = 86_400.0
#: It looks after 5 s, and puts the sweep off for 10 minutes while somebody was active.
_SWEEP = 14 * 60.0


def _age(folder: Path, days: float) -> None:
    then = time.time() - days * DAY
    for path in folder.rglob("*"):
        os.utime(path, (then, then), follow_symlinks=False)


def test_what_claude_code_sweeps_is_resumed(tmp_path: Path) -> None:
    faulthandler.cancel_dump_traceback_later()  # it takes longer than any other test
    with serving() as model:
        try:
            lab = Claude(tmp_path.resolve() / "user", model)
        except NotInstallableError as error:
            pytest.skip(f"THE REAL AGENT WAS NOT TRIED: {error}")
        lab.set_up()
        words = {lab.say(word): word for word in ("apricots", "bananas", "cherries")}
        home = lab.home
        with holdfast.open(home) as opened:
            opened.turn_vault(True)
        transcripts = {name: next(home.glob(f"projects/*/{name}.jsonl")) for name in words}
        kept = {name: path.read_bytes() for name, path in transcripts.items()}
        for folder in ("projects", "file-history", "session-env", "todos", "tasks"):
            if (home / folder).is_dir():
                _age(home / folder, 40)
        with holdfast.open(home) as opened:  # as the maintenance of every day does
            opened.refresh_vault()

        window = lab.terminal("--dangerously-skip-permissions", "Tell me about dates")
        try:
            window.wait(lambda drawn: "Noted." in drawn)
            until = time.monotonic() + _SWEEP
            while any(path.exists() for path in transcripts.values()):
                assert time.monotonic() < until, "Claude Code swept nothing"
                assert window.process.poll() is None, window.text[-2_000:]
                time.sleep(2)
            window.type("/exit")
            window.process.wait(timeout=20)
        finally:
            window.close()

        with holdfast.open(home) as opened:
            opened.refresh_vault()
            vaulted = {each.id for each in opened.sessions.find(vaulted=True)}
            assert vaulted == words.keys()
            for name, word in words.items():
                assert word in " ".join(str(m.content) for m in opened.sessions.messages(name))
            report = opened.restore_sessions(sorted(words))
            assert report.brought_back == len(words), report.outcomes
        for name, path in transcripts.items():
            assert path.read_bytes() == kept[name]
        for name, word in words.items():
            lab.said[name] = word
            model.heard.clear()
            lab.resume(name)
            assert word.encode() in b"".join(model.heard)
        assert lab.listed() >= words.keys()
        lab.close()
