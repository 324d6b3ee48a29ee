"""Sessions that leave the store: prune, gc, delete and archive."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Unpack

from holdfast.api.arguments import (
    Ids,
    PruneRules,
    expect_window,
    known_kinds,
    own_policy,
    session_ids,
    wanted_sessions,
)
from holdfast.api.plan import HomePlan, applied, scanned_plan
from holdfast.api.session_view import SessionView
from holdfast.errors import UsageError
from holdfast.model.argument_checks import checked
from holdfast.model.durations import Moment, moment
from holdfast.model.session import SessionFilter
from holdfast.policy.rules import DAY, HOUR, Files, Policy
from holdfast.policy.session_filter import Selection
from holdfast.ports.runs import Progress
from holdfast.services.plans import plan_archive, plan_delete, plan_home_gc, plan_prune
from holdfast.value import replace

_LONGEST = 1_000_000 * HOUR


@checked
class SessionRetention(SessionView):
    """The methods that remove sessions from a home. For each there is one that only plans."""

    def plan_prune(
        self,
        *,
        source: str | Iterable[str] | None = None,
        wanted: SessionFilter | None = None,
        kinds: str | Collection[str] | None = None,
        files: str = Files.WITH,
        use_trash: bool = True,
        caps_use_trash: bool = False,
        progress: Progress | None = None,
        **rules: Unpack[PruneRules],
    ) -> HomePlan:
        """Plan to remove what the policy does not keep, among the wanted sessions and their files.

        Without a rule the policy of config.toml applies. `older_than`, `keep_last`, `keep_within`,
        `keep_hourly`, `keep_daily`, `keep_weekly`, `keep_monthly` and `keep_yearly` replace its
        rules for this plan, `max_total_size` and `max_count` its caps. Keep rules apply to each
        source and kind separately: with `keep_last=20`, the last 20 sessions of each source stay.

        `kinds` are "session", "transcript", "request_dump" and "leftover", one or several; by
        default all. `files` is "with" their sessions, "only" the files, or "none" of them. A
        session that has not ended, that a process holds, or that is pinned always stays. What a cap
        on bytes removes is removed for good, because the trash counts towards the cap, unless
        `caps_use_trash`. Raises `EmptyWindowError` if the wanted sessions were all active too
        recently for the rules.
        """
        base = replace(
            self._place.settings.policy(use_trash=use_trash), caps_use_trash=caps_use_trash
        )
        chosen = wanted_sessions(wanted, source)

        def planned(progress: Progress | None) -> HomePlan:
            now = self._place.clock()
            policy = own_policy(base, rules, now)
            expect_window(policy, rules, chosen, now)
            return self.plan_policy(
                policy, wanted=chosen, kinds=kinds, files=files, progress=progress
            )

        return replace(planned(progress), again=planned)

    def plan_policy(
        self,
        policy: Policy,
        *,
        wanted: SessionFilter | None = None,
        kinds: str | Collection[str] | None = None,
        files: str = Files.WITH,
        progress: Progress | None = None,
    ) -> HomePlan:
        """Plan by the caller's policy."""
        chosen = wanted_sessions(wanted, None)
        policy = replace(policy, agent_archived=chosen.agent_archived is True)
        plan, inventory = plan_prune(
            self._place.home,
            policy,
            now=self._place.clock(),
            command=self._place.command("prune"),
            selection=Selection(kinds=known_kinds(kinds), sessions=chosen),
            files=_files(files),
            progress=progress,
        )
        return scanned_plan(self._place, plan, inventory, chosen)

    def plan_gc(  # noqa: PLR0913 - all are named
        self,
        *,
        older_than: Moment | None = None,
        empty_hours: float | None = None,
        trivial_days: float | None = None,
        trivial_max: int | None = None,
        keep_titled: bool | None = None,
        source: str | Iterable[str] | None = None,
        wanted: SessionFilter | None = None,
        use_trash: bool = True,
        progress: Progress | None = None,
    ) -> HomePlan:
        """Plan to remove sessions with no messages, or only a few. 0 turns a rule off; what you
        leave out comes from config.toml. `older_than` sets both ages, of empty and of trivial
        sessions."""
        chosen = wanted_sessions(wanted, source)
        rules: dict[str, Any] = {}
        if older_than is not None:
            if empty_hours is not None or trivial_days is not None:
                raise UsageError(
                    "older_than sets both ages: leave out empty_hours and trivial_days."
                )
            age = _small_age(older_than, self._place.clock())
            rules["empty_after"] = rules["trivial_after"] = age
        if empty_hours is not None:
            rules["empty_after"] = empty_hours * HOUR
        if trivial_days is not None:
            rules["trivial_after"] = trivial_days * DAY
        if trivial_max is not None:
            rules["trivial_max"] = trivial_max
        if keep_titled is not None:
            rules["keep_titled"] = keep_titled
        plan, inventory = plan_home_gc(
            self._place.home,
            replace(self._place.settings.gc_rules(), **rules),
            self._place.settings.policy(use_trash=use_trash),
            now=self._place.clock(),
            command=self._place.command("gc"),
            wanted=chosen,
            progress=progress,
        )
        return scanned_plan(self._place, plan, inventory, chosen)

    def plan_delete(self, ids: Ids, *, use_trash: bool = True) -> HomePlan:
        """Plan to remove these sessions with their files, by id or unique prefix.

        A session that a process holds stays, and so does one that has not ended, unless its process
        is provably dead; the plan says which and why. A pin does not protect a named session, but
        it protects a delegate that would leave with it. Without the trash, all copies in the store,
        the archive and the trash are removed.
        """
        plan = plan_delete(
            self._place.home,
            session_ids(ids),
            now=self._place.clock(),
            command=self._place.command("delete"),
            undoable=use_trash,
            trivial_max=self._place.settings.sessions.trivial_max,
            is_pinned=self._place.settings.policy().pins_item,
        )
        return HomePlan(place=self._place, home=self._place.home, plan=plan)

    def plan_archive(
        self,
        ids: Ids | None = None,
        *,
        wanted: SessionFilter | None = None,
        codec: str | None = None,
        progress: Progress | None = None,
    ) -> HomePlan:
        """Plan to move ended sessions with their files into the archive: by id, or by a filter.

        Pinned sessions stay unless they are named. `codec` is "zstd" or "gzip", for this plan only.
        """
        if (ids is None) == (wanted is None):
            raise UsageError("Name the sessions to archive: by `ids`, or with `wanted`.")
        if codec not in (None, "zstd", "gzip"):
            raise UsageError(f'codec must be "zstd" or "gzip", not {codec!r}.')
        home = self._place.home
        if codec is not None:
            home = self._place.another(
                lambda usual: replace(usual, archive=replace(usual.archive, codec=codec))
            )
        self.need_store()
        plan, inventory = plan_archive(
            home,
            home.archive,
            ids=[] if ids is None else [self.resolve(each) for each in session_ids(ids)],
            wanted=None if wanted is None else wanted_sessions(wanted, None),
            policy=self._place.settings.policy(),
            now=self._place.clock(),
            command=self._place.command("archive_sessions"),
            progress=progress,
        )
        planned = scanned_plan(self._place, plan, inventory, wanted or SessionFilter())
        return replace(planned, home=home)

    prune = applied(plan_prune)
    gc = applied(plan_gc)
    delete = applied(plan_delete, names=True)
    archive_sessions = applied(plan_archive, name="archive_sessions", names=True)


def _small_age(older_than: Moment, now: float) -> float:
    """The age in seconds from which empty and trivial sessions are removed; never 0, which would
    turn the rules off."""
    age = now - moment(older_than, now, "older_than")
    if not 0 < age <= _LONGEST:
        raise UsageError(f"{older_than} is not a time in the past, or too long ago.")
    return age


def _files(wanted: str) -> Files:
    try:
        return Files(wanted)
    except ValueError:
        raise UsageError(f'files must be "with", "only" or "none", not {wanted!r}.') from None
