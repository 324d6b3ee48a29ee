"""Real releases of Hermes, each in an environment of its own. Standard library only: benchmarks
use it too."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import venv
from pathlib import Path

NEWEST, OLDEST = "0.19.0", "0.13.0"
#: Kept between runs; git does not look at it.
FOLDER = Path(__file__).parents[2] / ".bench"
_PACKAGE = "hermes-agent"


class NotInstallableError(Exception):
    """There is no way to get this release here, most likely because there is no network."""


def hermes_python(version: str = NEWEST) -> Path:
    """The interpreter of an environment with this release; made on first use, then kept.

    Many tests may ask at once: one makes it, the others wait.
    """
    folder = FOLDER / f"hermes-{version}"
    python, done = folder / "bin" / "python", folder / ".installed"
    FOLDER.mkdir(exist_ok=True)
    with (FOLDER / f"hermes-{version}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            sys.stderr.write(f"Installing Hermes {version} into {folder.name} …\n")
            venv.create(folder, with_pip=True, clear=True)
            words = [str(python), "-m", "pip", "install", "--quiet", f"{_PACKAGE}=={version}"]
            installed = subprocess.run(words, capture_output=True, text=True, check=False)
            if installed.returncode:
                raise NotInstallableError(installed.stderr.strip()[-300:])
            done.touch()
    return python
