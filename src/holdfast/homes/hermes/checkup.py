"""The check-up of a Hermes home: its database and configuration, and the folder that is ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from holdfast.homes.checkup import HomeCheckup, is_private
from holdfast.homes.hermes import signs
from holdfast.homes.hermes.state_db import checkup, usage
from holdfast.homes.hermes.state_db.moves import HermesEngine
from holdfast.model.checkup import Finding, Repair, Severity
from holdfast.ports import OperationLog, Progress
from holdfast.stores.files import PRIVATE_DIR, storage_errors
from holdfast.stores.trash_folder import TrashFolder


class HermesCheckup(HomeCheckup):
    """Repairs what is ours. In Hermes's database it only finishes what a killed run left undone."""

    def __init__(
        self,
        root: Path,
        log: OperationLog,
        trash: TrashFolder,
        engine: Callable[[], HermesEngine | None],
    ) -> None:
        super().__init__(signs.state_folder(root), usage.NAME, log, trash)
        self._of = root / signs.DATABASE
        self._engine = engine

    def _look_at_permissions(self) -> Finding:
        """Only of our folder: what others may read of Hermes's files is for Hermes to say, and a
        copy in the trash keeps the mode that it returns with."""
        if is_private(self._root):
            return Finding(check="permissions")
        return Finding(
            check="permissions",
            severity=Severity.WARNING,
            message=f"other users of this machine can look into {self._root}",
            advice="`holdfast doctor --repair` takes that right away from them.",
            repairable=True,
        )

    def _tighten(self) -> Repair:
        with storage_errors(f"change {self._root}"):
            self._root.chmod(PRIVATE_DIR)
        return Repair(steps=(f"made {self._root} private",))

    def _look_at_store(self, progress: Progress) -> Iterator[Finding]:
        progress.step("looking at Hermes's database", 0, None)
        yield from checkup.check(self._of)
        # Only a check-up parses YAML; no other command should pay for the parser.
        from holdfast.homes.hermes import config_check  # noqa: PLC0415

        yield from config_check.check(self._of.parent)

    def _mend_store(self, wanted: set[str], now: float, progress: Progress) -> Iterator[Repair]:
        engine = self._engine() if checkup.SEARCH in wanted else None
        if engine is not None:
            engine.search.complete()
            yield Repair(steps=("put messages back into Hermes's search tables",))
