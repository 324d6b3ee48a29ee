"""Rewrites the files of a folder over and over, until it is told to stop.

`python -m tests.crash.rewriter FOLDER`. A line on stdin stops it. It then says, as JSON, what each
file held last.
"""

from __future__ import annotations

import itertools
import json
import select
import sys
from pathlib import Path


def main(folder: Path) -> None:
    names = sorted(path.name for path in folder.iterdir())
    last: dict[str, str] = {}
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for number in itertools.count():
        path = folder / names[number % len(names)]
        text = f"{path.name} {number}\n"
        if number % 2:
            path.write_text(text)
        else:
            beside = folder.parent / f"{path.name}.beside"
            beside.write_text(text)
            beside.replace(path)
        last[path.name] = text
        if number % 16 == 0 and select.select([sys.stdin], [], [], 0)[0]:
            break
    sys.stdout.write(json.dumps(last))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
