"""The programs that Holdfast is measured against, each in an environment of its own."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

HERMES = "0.19.0"
_FOLDER = Path(__file__).parents[1] / ".bench"


def hermes_python() -> Path:
    """The interpreter of an environment with Hermes in it; made on first use, then kept."""
    folder = _FOLDER / f"hermes-{HERMES}"
    python = folder / "bin" / "python"
    done = folder / ".installed"
    if not done.exists():
        print(f"Installing Hermes {HERMES} as a baseline …", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", f"hermes-agent=={HERMES}"]
        subprocess.run(pip, check=True, stdout=subprocess.DEVNULL)
        done.touch()
    return python
