"""The check-up of a Hermes home: its database and configuration, and the folder that is ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from holdfast.homes.checkup import HomeCheckup
from holdfast.homes.hermes import signs
from holdfast.homes.hermes.state_db import checkup, usage
from holdfast.homes.hermes.state_db.moves import HermesEngine
from holdfast.homes.home import Ground
from holdfast.model.checkup import Finding, Repair
from holdfast.ports import Progress


class HermesCheckup(HomeCheckup):
    """Repairs what is ours. In Hermes's database it only finishes what a killed run left undone."""

    def __init__(self, ground: Ground, engine: Callable[[], HermesEngine | None]) -> None:
        super().__init__(ground, usage.NAME)
        self._of = ground.root / signs.DATABASE
        self._engine = engine

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
