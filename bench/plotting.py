"""What a benchmark wants drawn: points, kept as JSON, so that drawing needs nothing of it."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType

import wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """One question, and a line for each who answers it. `lines` are points by label."""

    name: str
    title: str
    x: str
    y: str
    lines: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    log_x: bool = False
    log_y: bool = False

    def add(self, label: str, x: float, y: float) -> None:
        self.lines.setdefault(label, []).append((x, y))


def common_options(parser: argparse.ArgumentParser) -> None:
    """What every benchmark can be told. Processes that it starts may keep what Python compiled, as
    everybody's do: where that is forbidden, each command compiles hundreds of modules."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    parser.add_argument("--quick", action="store_true", help="only see that it works")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep what is to be drawn")


def save(
    path: Path | None, plots: Iterable[Plot] = (), found: wanted.Found = MappingProxyType({})
) -> None:
    """Keep what is to be drawn, and what was wanted; without a path nobody asked for it."""
    if path is not None:
        path.write_text(json.dumps([asdict(plot) for plot in plots], indent=1) + "\n")
    wanted.keep(path, found)


def load(path: Path) -> list[Plot]:
    return [Plot(**each) for each in json.loads(path.read_text())]
