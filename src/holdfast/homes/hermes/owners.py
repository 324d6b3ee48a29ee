"""Which sessions own files, by what the names of the files call them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.homes.hermes.file_names import stems
from holdfast.homes.hermes.state_db import survey
from holdfast.homes.hermes.state_db.database import HermesDatabase
from holdfast.stores.sqlite.survey import Owner


def owners(database: HermesDatabase, wanted: Sequence[str]) -> Mapping[str, Owner]:
    """Nearly all are called by their ids; of the others each must be looked at."""
    found = dict(survey.owners(database, wanted))
    asked = set(wanted) - found.keys()
    if not asked:
        return found
    called = {stem: name for name in survey.odd_ids(database) for stem in stems(name)}
    names = {stem: called[stem] for stem in asked if stem in called}
    known = survey.owners(database, list(names.values())) if names else {}
    return found | {stem: known[name] for stem, name in names.items() if name in known}
