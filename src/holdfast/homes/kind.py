"""A kind of home: how to recognise and open the homes of one agent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.value import dataclass

if TYPE_CHECKING:
    from typing import Protocol

    from holdfast.homes.options import HomeOptions
    from holdfast.model.checkpoint import Imported
    from holdfast.model.part import Transcript
    from holdfast.ports import Clock, Home, Progress
    from holdfast.stores.checkpoints.store import ShadowGitStore

    class CheckpointImport(Protocol):
        """Brings the checkpoints of a home into a store of ours, those of `workdir` or all."""

        def __call__(
            self,
            home: Path,
            store: ShadowGitStore,
            *,
            workdir: Path | None,
            now: float,
            dry_run: bool,
            progress: Progress,
        ) -> Sequence[Imported]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """`state` is where Holdfast keeps what is its own in such a home, `inside` are other homes that
    lie in one. `environment` is the variable that names another folder than the default one.
    `signs` are names of files that only this agent makes. Only an agent that takes checkpoints has
    `import_checkpoints`. `transcripts` gives the sessions in a file of this agent, and None for any
    other file."""

    name: str
    agent: str
    default_folder: str
    recognise: Callable[[Path], bool]
    open: Callable[[Path, Clock, HomeOptions], Home]
    state: Callable[[Path], Path]
    inside: Callable[[Path], Sequence[Path]] = lambda _: ()
    environment: str = ""
    signs: tuple[str, ...] = ()
    import_checkpoints: CheckpointImport | None = None
    transcripts: Callable[[Path], Iterator[Transcript] | None] = lambda _: None
