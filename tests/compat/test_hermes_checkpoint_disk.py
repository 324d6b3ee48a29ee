"""A disk that is full while space of Hermes's checkpoint store is given back: nothing is lost."""

from __future__ import annotations

import json
from pathlib import Path

from tests.small_disk import with_a_disk

SCRIPT = """
import json, os, sys
from pathlib import Path
from holdfast.policy.rules import CheckpointPolicy
from holdfast.homes.hermes.repository import reclaim
from holdfast.stores.checkpoints import pack_objects
from tests.compat.hermes_store import recorded
from tests.compat.test_hermes_checkpoint_prune import _grow

root = Path(sys.argv[1]).resolve()
home, site, tool = recorded(root)
_grow(home, site, checkpoints=6, size=600_000)
(site / "large").unlink()
home.age()
home.home.checkpoint_upkeep.pack()
kept = home.chain(site)[:5]
home.prune(CheckpointPolicy(max_count=5))
for ref in home.git("for-each-ref", "--format=%(refname)", "refs/holdfast-trash").split():
    home.git("update-ref", "-d", ref)
notes, whole = [], []
with (root / "ballast").open("wb") as ballast:
    while True:
        try:
            ballast.write(bytes(65_536))
            ballast.flush()
        except OSError:
            break
os.truncate(root / "ballast", (root / "ballast").stat().st_size - 262_144)
for margin in (pack_objects._MARGIN, -(10**9)):  # told by what is free; found out by git itself
    pack_objects._MARGIN = margin
    home.age()
    notes.append(reclaim.reclaim(home.layout, now=home.now, holder="x", thorough=True).note)
    home.fsck()
    whole.append(home.chain(site) == kept)
left = [path.name for path in (home.git_dir / "objects").rglob("tmp_*")]
(root / "ballast").unlink()
home.age()
freed = reclaim.reclaim(home.layout, now=home.now, holder="x", thorough=True).freed
home.fsck()
again = [path.name for path in (home.git_dir / "objects").rglob("tmp_*")]
print(json.dumps([notes, whole, freed, home.chain(site) == kept, left, again]))
"""


def test_a_full_disk_in_the_middle_of_a_reclaim_loses_nothing(tmp_path: Path) -> None:
    said = with_a_disk(tmp_path, SCRIPT, megabytes=32)
    notes, whole, freed, kept, _, again = json.loads(said)
    assert all("not enough disk space" in note for note in notes)
    assert whole == [True, True]
    assert freed > 500_000
    assert kept
    assert again == []
