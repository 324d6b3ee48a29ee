"""Where chains end: git's file `shallow`.

A commit that is named there counts as having no parent, for every git and so for Hermes. So the
oldest checkpoints of a project can go while the others stay what they are, with their ids, and
while Hermes takes the next one: the reference that it moves is not touched.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Collection
from pathlib import Path

from holdfast.errors import BusyError
from holdfast.homes.hermes.repository.git_lock import GitLock
from holdfast.stores.files import read_file, storage_errors

_NAME = "shallow"
_OID = re.compile(r"[0-9a-f]{40}")
_PAUSE = 0.05
_TRIES = 100
_USUAL_FILE = 0o644


def read_cuts(store: Path) -> frozenset[str]:
    """The commits that count as having no parent."""
    try:
        text = read_file(store / _NAME).decode("ascii", "replace")
    except FileNotFoundError:
        return frozenset()
    return frozenset(line for line in text.split() if _OID.fullmatch(line))


def write_cuts(store: Path, cuts: Collection[str]) -> None:
    """Replace them all, at one stroke, under git's own lock."""
    if frozenset(cuts) == read_cuts(store):
        return
    path = store / _NAME
    data = "".join(f"{cut}\n" for cut in sorted(cuts)).encode("ascii")
    lock = GitLock(path)
    with storage_errors(f"write {path}"):
        for _ in range(_TRIES):
            with lock.holding(data, _USUAL_FILE) as held:
                if held:
                    # git believes its list of parents before it looks here, where it has one.
                    forget_graph(store)
                    if cuts:
                        lock.commit()
                    else:
                        path.unlink(missing_ok=True)
                    return
            time.sleep(_PAUSE)
    raise BusyError(f"git has locked {path}.", hint="Wait until it is done, then try again.")


def forget_graph(store: Path) -> None:
    """Remove git's list of commits and their parents, which must not name what is gone. `git gc`
    makes it anew."""
    info = store / "objects" / "info"
    (info / "commit-graph").unlink(missing_ok=True)
    shutil.rmtree(info / "commit-graphs", ignore_errors=True)
