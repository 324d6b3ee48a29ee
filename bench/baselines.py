"""The programs that Holdfast is measured and tested against, each in an environment of its own.

Kept between runs in `.bench`, which git does not look at. Standard library only.
"""

from __future__ import annotations

import fcntl
import subprocess
import sys
import venv
from pathlib import Path

HERMES = "0.19.0"
AGENTSVIEW = "0.46.1"
_FOLDER = Path(__file__).parents[1] / ".bench"


class NotInstallableError(Exception):
    """There is no way to get this package here, most likely because there is no network."""


def hermes_python(version: str = HERMES) -> Path:
    return _python(f"hermes-{version}", f"hermes-agent=={version}")


def agentsview(version: str = AGENTSVIEW) -> Path:
    """A program, not a module: it lies beside the interpreter."""
    return _python(f"agentsview-{version}", f"agentsview=={version}").with_name("agentsview")


def plotting_python() -> Path:
    return _python("plots", "matplotlib")


def _python(name: str, wanted: str) -> Path:
    """The interpreter of an environment with one package; made on first use, then kept.

    Many may ask at once: one makes it, the others wait.
    """
    folder = _FOLDER / name
    if folder.is_symlink():
        raise SystemExit(f"{folder} is a link; making the environment would clear what it names.")
    python, done = folder / "bin" / "python", folder / ".installed"
    _FOLDER.mkdir(exist_ok=True)
    with (_FOLDER / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            sys.stderr.write(f"Installing {wanted} into {folder.name} …\n")
            venv.create(folder, with_pip=True, clear=True)
            words = [str(python), "-m", "pip", "install", "--quiet", wanted]
            installed = subprocess.run(words, capture_output=True, text=True, check=False)
            if installed.returncode:
                raise NotInstallableError(installed.stderr.strip()[-300:])
            done.touch()
    return python
