"""Make the recorded home anew, with the real release: two projects with some checkpoints each.

    python tests/compat/record_hermes_checkpoints.py

What it writes is compared byte for byte nowhere: another run gives the same trees and times.
"""

from __future__ import annotations

import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.compat.hermes_release import NEWEST
from tests.compat.hermes_store import START, Hermes, git, hermes, write

_TARGET = Path(__file__).parents[1] / "data" / f"hermes-{NEWEST}-checkpoints.tar.gz"


def main() -> None:
    with tempfile.TemporaryDirectory() as made:
        place = Path(made).resolve()
        home = place / "home"
        home.mkdir()
        with hermes(home) as running:
            _site(running, place / "site")
            _tool(running, place / "tool")
        store = home / "checkpoints" / "store"
        git("--git-dir", str(store), "gc", "--quiet", "--prune=now")
        shutil.rmtree(store / "hooks")
        for each in place.rglob(".git"):
            shutil.rmtree(each / "hooks", ignore_errors=True)
        with tarfile.open(_TARGET, "w:gz") as archive:
            for name in ("home", "site", "tool"):
                archive.add(place / name, name)
    sys.stdout.write(f"{_TARGET}: {_TARGET.stat().st_size:,} bytes\n")


def _site(running: Hermes, site: Path) -> None:
    write(site, [("a.txt", "0\n"), (".gitignore", "ignored\n"), ("ignored", "never\n")])
    write(site, [("bin/run", "#!/bin/sh\n"), (".gitattributes", "*.bat text eol=crlf\n")])
    (site / "bin" / "run").chmod(0o755)
    (site / "link").symlink_to("a.txt")
    (site / "win.bat").write_bytes(b"echo one\r\n")
    _nested(site / "nested")
    _take(running, site, 0)
    write(site, [("a.txt", "1\n"), ("b.txt", "gone soon\n")])
    _take(running, site, 1)
    (site / "b.txt").unlink()
    write(site, [("c/d.txt", "deep\n"), ("a.txt", "2\n")])
    _take(running, site, 2)
    (site / "win.bat").write_bytes(b"echo two\r\n")
    _take(running, site, 3)
    for number in (4, 5):
        write(site, [("a.txt", f"{number}\n")])
        _take(running, site, number)


def _tool(running: Hermes, tool: Path) -> None:
    for number in range(3):
        write(tool, [("main.py", f"print({number})\n")])
        _take(running, tool, number)


def _nested(place: Path) -> None:
    """A repository of its own: Hermes stores that it is there, and nothing of what is in it."""
    write(place, [("inner.txt", "inside\n")])
    who = {
        f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    git("init", "--quiet", "--template=", str(place))
    git("-C", str(place), "add", "-A")
    git("-C", str(place), "commit", "--quiet", "-m", "x", **who)


def _take(running: Hermes, workdir: Path, number: int) -> None:
    if not running.take(workdir, f"before turn {number}", START + number * 3600):
        raise SystemExit(f"Hermes took no checkpoint of {workdir}")


if __name__ == "__main__":
    main()
