"""What a round of the watcher found and did, home by home."""

from __future__ import annotations

import json

from holdfast.model.json_value import JsonValue, fields_from_json
from holdfast.value import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LookedAfter(JsonValue):
    """One home in a round: what was done there in one line, and when it is due again. `folders` are
    those that its agent writes to, and `programs` the names of that agent's programs."""

    home: str
    state: str
    did: str
    due: float
    ran: bool
    failed: bool
    folders: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Round(JsonValue):
    """All homes. `alarm_rate` is the growth in bytes a minute that is reported; `more` are lines
    about the machine as a whole."""

    homes: tuple[LookedAfter, ...]
    alarm_rate: float = 0.0
    more: tuple[str, ...] = ()

    def to_bytes(self) -> bytes:
        return json.dumps(self.to_json()).encode()

    @classmethod
    def of(cls, data: bytes) -> Round:
        said = json.loads(data)
        homes = tuple(fields_from_json(LookedAfter, each) for each in said["homes"])
        return fields_from_json(cls, said, homes=homes)
