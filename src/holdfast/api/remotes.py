"""Checkpoints on git remotes: push them there, and fetch those of other machines."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from holdfast.api.arguments import Size, size
from holdfast.api.capture import Capture, directory, session_id
from holdfast.api.plan import HomePlan
from holdfast.errors import UsageError
from holdfast.model.argument_checks import checked
from holdfast.model.arguments import StrPath, expanded, paths_of, several, text
from holdfast.model.checkpoint import Checkpoint
from holdfast.model.item import PUSHED
from holdfast.model.path_map import mapped, path_maps
from holdfast.model.plan import Action, Plan, PlanItem
from holdfast.model.remote import Fetch, Push, Remote
from holdfast.model.session import SessionRef
from holdfast.stores.checkpoints import remotes as known_remotes
from holdfast.stores.checkpoints.checkpoint_commit import order_of
from holdfast.stores.checkpoints.fetch import Fetcher, bring_here
from holdfast.stores.checkpoints.push import (
    Chosen,
    Pusher,
    chosen,
    may_prompt,
    refuse_own_remote,
    talking,
)
from holdfast.stores.checkpoints.remotes import KnownRemote
from holdfast.stores.checkpoints.repository import Layout, project_of

_MILLISECONDS = 1000
_REMOVED_HERE = "removed here"
_NOT_SENT = "not sent from here"
#: Paths on another machine, mapped to paths here.
Maps = Mapping[str, StrPath]


def prompting(allowed: bool) -> AbstractContextManager[None]:
    """A context in which git may, or may not, ask for a password: for applying a plan about a
    remote."""
    return may_prompt(allowed)


@checked
class CheckpointRemotes(Capture):
    """Pushes checkpoints to remotes that the user named for that, and fetches those of other
    machines."""

    def remotes(self) -> Sequence[Remote]:
        """The remotes that were named for checkpoints."""
        layout = self.own_store(create=False).layout
        return [each.told() for each in known_remotes.remotes(layout)]

    def add_remote(self, name: str, url: str) -> Remote:
        """Name a remote for checkpoints: a URL or a path, as git takes it. Nothing is sent yet.

        A password in the URL is kept in a private file of the home and never shown, but a
        credential helper of git is a better place for it.
        """
        layout = self.own_store().layout
        name, url = text(name, "The name of a remote"), text(url, "The address of a remote")
        if known_remotes.is_path_of_here(url):  # git runs in another directory
            url = os.path.normpath((self._here or Path.cwd()) / expanded(url))
        return known_remotes.add(layout, name, url).told()

    def remove_remote(self, name: str) -> Remote:
        """Forget a remote. The checkpoints on it stay there."""
        layout = self.own_store(create=False).layout
        return known_remotes.remove(layout, text(name, "The name of a remote")).told()

    def push(
        self,
        remote: str,
        paths: StrPath | Iterable[StrPath] = (),
        *,
        session: SessionRef | None = None,
        max_file_size: Size | None = None,
        own_remote: bool = False,
        dry_run: bool = False,
        prompt: bool = False,
    ) -> Push:
        """Push checkpoints of the projects in these directories, or of all projects, to a remote;
        with `session`, only those that belong to it.

        Checkpoints that are there already are not sent again. Files above `max_file_size` are left
        out (by default `push_max_file_size_mb` of the configuration; 0 means no limit), and so are
        files that an ignore rule now matches; the pushed checkpoint lists them. A remote of the
        project's own repository is refused unless `own_remote`. With `prompt`, git may ask for a
        password.
        """
        layout = self.need_layout()
        wanted = self._wanted(layout, paths, session)
        known = known_remotes.remote(layout, text(remote, "The name of a remote"))
        if not own_remote:
            refuse_own_remote(known, sorted({each.checkpoint.workdir for each in wanted}))
        with self._pusher(layout, known, max_file_size, prompt=prompt) as pusher:
            plan = pusher.plan(wanted)
            if not dry_run:
                return pusher.send(plan)
            return Push(
                remote=known.told(),
                machine=known_remotes.machine_name(layout),
                sent=tuple(pusher.prepare(plan)),
                known=plan.known,
            )

    def plan_prune_remote(
        self,
        remote: str,
        paths: StrPath | Iterable[StrPath] = (),
        *,
        prompt: bool = False,
    ) -> HomePlan:
        """Plan to remove from a remote the checkpoints that this machine pushed and has removed
        since, of the projects in these directories or of all. This cannot be undone. Checkpoints
        under this machine's name that are not in its record of pushes are kept."""
        layout, place = self.need_layout(), self._place
        known = known_remotes.remote(layout, text(remote, "The name of a remote"))
        projects = self._projects(paths)
        with self._pusher(layout, known, None, prompt=prompt) as pusher:
            gone, foreign = pusher.gone(projects)
        names = {each.id: each.workdir for each in self.own_store(create=False).projects()}
        items = tuple(
            PlanItem(
                kind=PUSHED,
                id=f"{known.name}/{each.machine}/{each.project}/{each.name}",
                source=known.name,
                bytes=0,
                last_active_at=order_of(each.name) / _MILLISECONDS,
                version=each.oid,
                action=action,
                reason=f"{reason}: {names.get(each.project, each.project)}",
            )
            for found, action, reason in (
                (gone, Action.REMOVE, _REMOVED_HERE),
                (foreign, Action.KEEP, _NOT_SENT),
            )
            for each in found
        )
        command = place.command("checkpoints.prune_remote")
        plan = Plan(home=str(place.home.root), command=command, made_at=place.clock(), items=items)
        return HomePlan(place=place, home=place.home, plan=plan, names=names)

    def fetch(
        self,
        remote: str,
        machines: str | Iterable[str] = (),
        *,
        paths: StrPath | Iterable[StrPath] = (),
        again: bool = False,
        dry_run: bool = False,
        prompt: bool = False,
    ) -> Fetch:
        """Fetch the checkpoints of other machines from a remote into this home; with `machines`,
        only of these machines, and with `paths`, directories on them, only of these directories.

        They are listed with the machine that they come from. Use `restore` with `maps` to restore
        them to paths here. Checkpoints that were fetched before and then removed here come back
        only with `again`.
        """
        store = self.own_store()
        store.prepare()
        layout = store.layout
        known = known_remotes.remote(layout, text(remote, "The name of a remote"))
        names = [text(each, "The name of a machine") for each in several(machines)]
        places = {project_of(Path(os.path.normpath(each))) for each in paths_of(paths, "A path")}
        limit = self.capturing().max_bytes
        with may_prompt(prompt), talking(layout, known) as git:
            fetcher = Fetcher(
                layout, git, known, machine=known_remotes.machine_name(layout), limit=limit
            )
            new, held = fetcher.waiting(names, places, again=again)
            if dry_run:
                return fetcher.foresee(new, held)
            return fetcher.fetch(new, held, now=self._place.clock())

    @property
    def machine(self) -> str:
        """The name of this home on remotes. The first use sets it."""
        return known_remotes.machine_name(self.need_layout())

    def need_layout(self) -> Layout:
        """Where the checkpoints are; raises `UsageError` if there are none."""
        layout = self.own_store(create=False).layout
        if not layout.exists():
            raise UsageError(
                f"{self._place.root} has no checkpoints yet.",
                hint="Take one with `holdfast checkpoints take`.",
            )
        return layout

    def brought_here(self, found: Checkpoint, maps: Maps) -> Checkpoint:
        """Turn a checkpoint of another machine into one of a directory here, by `maps`."""
        if not found.machine:
            return found
        here = mapped(found.workdir, path_maps(maps))
        if here is None:
            raise UsageError(
                f"Checkpoint {found.id[:12]} is of {found.place}, on another machine.",
                hint=f"Say where that is here: --map {found.workdir}=DIR.",
            )
        return bring_here(self.own_store().layout, found, Path(os.path.realpath(here)))

    @contextlib.contextmanager
    def _pusher(
        self, layout: Layout, known: KnownRemote, limit: Size | None, *, prompt: bool
    ) -> Iterator[Pusher]:
        most = self._place.settings.checkpoints.push_max_file_bytes
        if limit is not None:
            most = size(limit, "max_file_size") or None
        with may_prompt(prompt), talking(layout, known) as git:
            yield Pusher(layout, git, known, known_remotes.machine_name(layout), most)

    def _projects(self, paths: StrPath | Iterable[StrPath]) -> set[str] | None:
        found = [directory(each) for each in several(paths)]
        return {project_of(each) for each in found} or None

    def _wanted(
        self, layout: Layout, paths: StrPath | Iterable[StrPath], session: SessionRef | None
    ) -> Sequence[Chosen]:
        projects = self._projects(paths)
        found = chosen(layout, projects, session_id(session) or None)
        if not found:
            where = ", ".join(str(directory(each)) for each in several(paths))
            raise UsageError(
                f"There are no checkpoints of {where} yet."
                if where and session is None
                else "No checkpoint matches.",
                hint="`holdfast checkpoints list` shows what there is.",
            )
        return found
