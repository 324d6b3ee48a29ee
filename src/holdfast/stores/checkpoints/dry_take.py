"""What a take would do, without a checkpoint. Agents never ask that, so no take loads it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast.model.arguments import StrPath
from holdfast.model.checkpoint import Taking
from holdfast.stores.checkpoints.writer import CheckpointWriter


def foresee(
    writer: CheckpointWriter, workdir: StrPath, *, paths: Sequence[str] | None = None
) -> Taking:
    """What `writer.take` would do now. A store that does not exist yet is not created."""
    if writer.layout.exists():
        return writer.foresee(workdir, paths=paths)
    why = writer.refusal(workdir)  # a temporary store does not know where the real one would be
    if why is not None:
        return why
    with TemporaryDirectory(prefix="holdfast-") as folder:
        return CheckpointWriter(Path(folder, "checkpoints"), writer.how).foresee(
            workdir, paths=paths
        )
