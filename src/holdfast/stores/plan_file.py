"""Saved plans: readable JSON with a checksum that reveals edits."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from holdfast.errors import PlanFileError
from holdfast.model.json_value import Reader
from holdfast.model.plan import Plan
from holdfast.stores.digest import sha256
from holdfast.stores.files import need_folder, read_file, replace, storage_errors

FORMAT = 1
_LARGEST = 512 * 1024 * 1024


def save(plan: Plan, path: Path) -> None:
    """Write a plan. An earlier plan is replaced; anything else at `path` is left alone."""
    if os.path.lexists(path) and not _is_plan(path):
        raise PlanFileError(
            f"{path} exists and is not a saved plan; it was left alone.",
            hint="Choose another name for --plan-out.",
        )
    data = document(plan)
    with storage_errors(f"save the plan to {path}"):
        # Only the file itself may not be a link; `/tmp` is one on macOS.
        need_folder(path)
        folder = Path(os.path.realpath(path.parent))
        replace(folder / path.name, data)


def document(plan: Plan) -> bytes:
    """The content of the file in which a plan is saved."""
    body = plan.to_json()
    saved = {"holdfast_plan": FORMAT, "seal": _seal(body), "plan": body}
    return json.dumps(saved, indent=1).encode() + b"\n"


def load(path: Path) -> Plan:
    """Read a saved plan; anything that is not exactly what `save` wrote is refused."""
    with storage_errors(f"read the plan {path}"):
        if not path.is_file():
            raise PlanFileError(f"{path} is not a file.", hint="Make one with --plan-out FILE.")
        if path.stat().st_size > _LARGEST:
            raise PlanFileError(f"{path} is too large to be a saved plan.")
        data = read_file(path)
    try:
        read = Reader(json.loads(data), "saved plan", PlanFileError)
        known = read.whole("holdfast_plan") == FORMAT
        body = read.value("plan")
        seal = read.text("seal")
    except (ValueError, RecursionError, PlanFileError) as error:
        raise PlanFileError(
            f"{path} is not a saved plan.", hint="Make one with --plan-out FILE."
        ) from error
    if not known:
        raise PlanFileError(f"{path} was saved by a newer version of Holdfast.")
    if seal != _seal(body):
        raise PlanFileError(
            f"{path} was edited or damaged after it was saved; nothing was done.",
            hint="Make a new plan, with other flags if it should remove something else.",
        )
    return Plan.from_json(body)


def _is_plan(path: Path) -> bool:
    """True if `path` is a saved plan; a link to one does not count."""
    if path.is_symlink():
        return False
    try:
        load(path)
    except PlanFileError:
        return False
    return True


def _seal(body: Any) -> str:
    """A checksum, not a signature: it only detects accidental edits."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return "sha256:" + sha256(text.encode()).hexdigest()
