"""Edits of the sessions of a home by the user: titles, pins and ends."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.api.arguments import Ids, session_ids
from holdfast.api.plan import HomeReport
from holdfast.api.session_view import SessionView
from holdfast.model.argument_checks import checked
from holdfast.model.plan import PlanItem
from holdfast.model.session import Session, SessionRef
from holdfast.services.edits import (
    carry_out_edits,
    end_sessions,
    pin_sessions,
    rename_session,
)


@checked
class SessionEdits(SessionView):
    """Changes that are in the log, and that `undo` takes back. An agent that manages its own
    sessions does the same through `home.sessions`, and without the log."""

    def rename_session(self, session: SessionRef, title: str | None) -> HomeReport:
        """Give a session another title, or none."""
        home = self._place.home
        return self._edit(rename_session(home, self.resolve(session), title), "rename_session")

    def pin_sessions(self, ids: Ids, pinned: bool = True) -> HomeReport:
        """Pin sessions so that no policy removes them, or unpin them."""
        items = pin_sessions(self._place.home, self._whole(ids), pinned=pinned)
        return self._edit(items, "pin_sessions")

    def end_sessions(self, ids: Ids, reason: str = "ended") -> HomeReport:
        """End sessions that their agent will never end. If a process holds any of them, none is
        ended. Sessions that already ended are unchanged."""
        place = self._place
        items = end_sessions(place.home, self._whole(ids), reason, at=place.clock())
        return self._edit(items, "end_sessions")

    def end_session(self, session: SessionRef, reason: str = "ended") -> Session:
        """Like `end_sessions` for one session; returns the updated session."""
        name = self.resolve(session)
        self.end_sessions(name, reason)
        return self.need_store().get(name)

    def _whole(self, ids: Ids) -> Sequence[str]:
        return list(dict.fromkeys(map(self.resolve, session_ids(ids))))

    def _edit(self, items: Sequence[PlanItem], name: str) -> HomeReport:
        place = self._place
        report = carry_out_edits(place.home, items, command=place.command(name), clock=place.clock)
        return HomeReport(place=place, report=report)
