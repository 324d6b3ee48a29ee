"""Have git write a pack of many objects; and the disk space available for one."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from holdfast.stores.checkpoints.repository import Layout
from holdfast.stores.git.program import PACKING_CONFIG

#: Left free on the disk.
_MARGIN = 16 * 1024 * 1024


def pack_objects(
    layout: Layout, *options: str, anew: bool, oids: Sequence[bytes] = ()
) -> Path | None:
    """Have git pack these objects, or those that the options select; return the pack, or None if
    there are no objects. With `anew`, git also searches for deltas inside old packs."""
    said = layout.git().run(
        "pack-objects",
        *options,
        "--delta-base-offset",
        "-q",
        *(["--no-reuse-object"] if anew else []),
        str(layout.packs / "pack"),
        stdin=b"".join(b"%b\n" % oid.hex().encode() for oid in oids),
        config=PACKING_CONFIG,
    )
    name = said.output.decode("ascii").strip()
    return layout.packs / f"pack-{name}.pack" if name else None


def free_bytes(layout: Layout) -> int:
    """Return the bytes on the disk that Holdfast may use."""
    return max(0, shutil.disk_usage(layout.store).free - _MARGIN)
