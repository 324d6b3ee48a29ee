"""Make the home that docs/how-to/hermes.md shows, with the real release.

python tests/compat/make_hermes_example.py FOLDER
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.compat.hermes_sessions import hermes


def main(folder: str) -> None:
    home = Path(folder).resolve()
    home.parent.mkdir(parents=True, exist_ok=True)
    made = hermes(home, "example", str(time.time()))
    print(f"{made['sessions']:,} sessions in {home}")


if __name__ == "__main__":
    main(sys.argv[1])
