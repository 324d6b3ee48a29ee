"""Real agents at work on a small disk of their own, with the watcher beside them: it makes room,
and they never notice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.compat.agents.installed import NotInstallableError
from tests.compat.agents.lab import Claude, Codex, Lab
from tests.small_disk import with_a_disk

pytestmark = pytest.mark.deep

SCRIPT = """
import json, os, re, signal, subprocess, sys, time
from pathlib import Path
from uuid import uuid4
import holdfast
from tests.compat.agents.lab import Claude, Codex
from tests.compat.agents.model_server import serving

disk, name = Path(sys.argv[1]), sys.argv[2]
kind = {each.name: each for each in (Claude, Codex)}[name]
with serving() as model:
    lab = kind(disk / "place", model)
    lab.set_up()
    first = lab.say("apples")
    own = lab.user / ".holdfast"
    (own / "operations").mkdir(parents=True)
    own.joinpath("config.toml").write_text(
        "[maintenance]\\nmin_interval_hours = 0.001\\n"
        "[guardian]\\nmax_total_size_mb = 4\\nhigh_percent = 60\\nlow_percent = 40\\n"
        "reserve_mb = 1\\n")
    old = []
    if kind is Claude:  # sessions of the last weeks, each a file by itself
        [made] = lab.home.glob(f"projects/*/{first}.jsonl")
        for number in range(40):
            path = made.with_name(f"{uuid4()}.jsonl")
            text = made.read_text().replace(first, path.stem)
            text = re.sub('"timestamp":"[^"]+"', '"timestamp":"2026-01-01T00:00:00.000Z"', text)
            path.write_text(text + "\\n" * 60_000)
            # Claude Code itself deletes what is older than 30 days.
            os.utime(path, (time.time() - (3 + number / 2) * 86_400,) * 2)
            old.append(path)
    words = [sys.executable, "-m", "holdfast", "maintain", "--watch"]
    env = {**os.environ, "HOME": str(lab.user), "HOLDFAST_HOME": ""}
    watched = subprocess.Popen(words, env=env, stderr=subprocess.PIPE, text=True)
    for word in ("bananas", "cherries"):
        lab.say(word)
    filler = (disk / "filler").open("wb", buffering=0)
    while os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize > 12_000_000:
        filler.write(bytes(1 << 20))
    lab.say("damsons")
    lab.resume(first)
    time.sleep(20)  # no process of the agent runs now
    watched.send_signal(signal.SIGTERM)
    _, err = watched.communicate(timeout=120)
    for session in lab.said:
        lab.resume(session)
    with holdfast.open(lab.home) as home:
        there = {each.id for each in home.sessions.find()}
        back = len(home.trash.list())
        ok = home.doctor().ok
    left = sum(path.exists() for path in old)
said = [sorted(lab.said), sorted(there)]
print(json.dumps([watched.returncode, err, *said, len(old), left, back, ok]))
"""


@pytest.mark.parametrize("lab", [Claude, Codex], ids=lambda each: each.name)
def test_an_agent_works_while_the_watcher_makes_room(lab: type[Lab], tmp_path: Path) -> None:
    try:
        lab.installed()
    except NotInstallableError as error:
        pytest.skip(f"THE REAL AGENT WAS NOT TRIED: {error}")
    printed = with_a_disk(tmp_path, SCRIPT, lab.name, megabytes=96)
    code, err, said, there, old, left, back, ok = json.loads(printed.splitlines()[-1])
    assert code == 0, err
    assert "failed" not in err, err
    assert set(said) <= set(there), "what the agent works with stays"
    assert ok
    if old:
        assert 0 < left < old, "the oldest went, and no more than needed"
        assert back > 0, "and can come back"
