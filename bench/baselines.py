"""The programs that Holdfast is measured against, each in an environment of its own."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

HERMES = "0.19.0"
_FOLDER = Path(__file__).parents[1] / ".bench"


def hermes_python() -> Path:
    return _python(f"hermes-{HERMES}", f"hermes-agent=={HERMES}")


def plotting_python() -> Path:
    return _python("plots", "matplotlib")


def _python(name: str, wanted: str) -> Path:
    """The interpreter of an environment with one package; made on first use, then kept."""
    folder = _FOLDER / name
    python = folder / "bin" / "python"
    done = folder / ".installed"
    if not done.exists():
        print(f"Installing {wanted} …", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", wanted]
        subprocess.run(pip, check=True, stdout=subprocess.DEVNULL)
        done.touch()
    return python
