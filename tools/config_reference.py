"""Write the tables of docs/configuration.md from the declared keys; the text around them stays.

python -m tools.config_reference            write the page
python -m tools.config_reference --check    exit 1 when it is not what would be written
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from holdfast.config.key import Key
from holdfast.config.settings import BY_TABLE

PAGE = Path(__file__).parents[1] / "docs" / "configuration.md"
_HEADER = "| key | default | values | variable |\n|---|---|---|---|\n"
# The tables stand in the order of the file that `config init` writes.
_TABLE = re.compile(re.escape(_HEADER) + r"(?:\| `.*\n)*")


def render(page: str) -> str:
    """The page with every table as the declarations have it."""
    tables = [keys.values() for keys in BY_TABLE.values() if keys]
    if len(_TABLE.findall(page)) != len(tables):
        raise SystemExit(
            f"{PAGE.name} must have {len(tables)} tables of keys, one after each [table]."
        )
    remaining = iter(tables)
    return _TABLE.sub(lambda _: _HEADER + _rows(next(remaining)), page)


def _rows(keys: Iterable[Key]) -> str:
    return "".join(
        f"| `{key.name}` | {_default(key)} | {key.kind.allowed} | `{key.variable}` |\n"
        for key in keys
    )


def _default(key: Key) -> str:
    if key.default is None:
        return "not set"
    shown = json.dumps(key.default)
    return shown if isinstance(key.default, int | float) else f"`{shown}`"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when stale")
    check: bool = parser.parse_args().check
    page = PAGE.read_text(encoding="utf-8")
    wanted = render(page)
    if not check:
        PAGE.write_text(wanted, encoding="utf-8")
    elif page != wanted:
        print(f"{PAGE.name} is not what the keys say. Run: make docs", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
