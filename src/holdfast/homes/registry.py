"""The known kinds of homes, and how to tell which kind a folder is.

Recognising a home must not load the code that opens one; see `signs`.

Another package provides a format with an entry point of the group `holdfast.homes`: a format, or a
callable that creates one. Entry points are read only if a folder is not clearly one of the built-in
kinds, and when all homes of the machine are listed: reading the list of installed packages takes
longer than most commands.
"""

from __future__ import annotations

import contextlib
import os
import sys
from functools import cache, partial

from holdfast.errors import HoldfastError, NotAHomeError, StorageError
from holdfast.homes.agents.known import AGENTS, open_home_of
from holdfast.homes.hermes.kind import HERMES
from holdfast.homes.kind import LOG, OWN, SIGNS, Kind, has_our_log, is_surely_ours, may_be_ours
from holdfast.homes.options import USUAL, HomeOptions
from holdfast.model.arguments import StrPath, expanded, named_place
from holdfast.stores.files import make_private_dir, storage_errors
from holdfast.value import replace

TYPE_CHECKING = False  # as in `typing`, which is slow to load
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from holdfast.ports.formats import Format
    from holdfast.ports.home import Home
    from holdfast.ports.runs import Clock

#: The kinds that come with Holdfast, our own first.
_BUILT_IN: tuple[Kind, ...] = (OWN, HERMES, *AGENTS)
_, *_AGENTS = _BUILT_IN
#: The entry point group for formats from other packages.
GROUP = "holdfast.homes"


def kinds() -> tuple[Kind, ...]:
    """Every kind of home, including those from other packages."""
    return (*_BUILT_IN, *brought())


@cache
def brought() -> tuple[Kind, ...]:
    """The kinds from other installed packages. A broken one is left out, with a warning."""
    if not _may_bring():
        return ()
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow, and rarely needed

    found: dict[str, Kind] = {}
    for each in entry_points(group=GROUP):
        try:
            kind = kind_from(_format(each.load()))
        except Exception as error:  # noqa: BLE001 - it is third-party code
            _warn("the home format %s (%s) cannot be used: %s", each.name, each.value, error)
            continue
        if kind.name in found or any(kind.name == one.name for one in _BUILT_IN):
            _warn("the home format %s (%s) is already registered", kind.name, each.value)
            continue
        found[kind.name] = kind
    return tuple(found.values())


def _may_bring() -> bool:
    """True if an installed package may have an entry point for a format. Reading these files takes
    a hundredth of the time of `importlib.metadata`. When in doubt, return True."""
    for folder in sys.path:
        try:
            packages = os.listdir(folder or ".")  # noqa: PTH208 - as below
        except NotADirectoryError:
            return True  # an archive: only the standard library can look into it
        except OSError:
            continue
        for name in packages:
            if name.endswith((".dist-info", ".egg-info")):
                try:
                    with open(os.path.join(folder, name, "entry_points.txt"), "rb") as file:  # noqa: PTH118, PTH123 - pathlib is slower than all of this
                        if GROUP.encode() in file.read():
                            return True
                except OSError:
                    continue
    return False


def _format(named: Any) -> Format:
    """The format that an entry point names: the object itself, or what calling it returns."""
    made: Format = named if hasattr(named, "facts") and not isinstance(named, type) else named()
    missing = [name for name in _FORMAT_NAMES if not hasattr(made, name)]
    if missing:
        raise TypeError(f"it has no {', '.join(missing)}")
    return made


_FORMAT_NAMES = ("facts", "recognise", "doubt", "roots", "units", "leftovers", "messages", "signs")


def kind_from(form: Format) -> Kind:
    """The kind of home that a format describes."""
    facts = form.facts
    return Kind(
        name=facts.name,
        agent=facts.agent,
        default_folder=facts.folder,
        environment=facts.environment,
        recognise=form.recognise,
        open=partial(open_home_of, form),
        state=lambda root: root / facts.state,
        transcripts=getattr(form, "transcripts", lambda _: None),
    )


def find_home(path: StrPath, environ: Mapping[str, str] | None = None) -> Path:
    """The folder that a path or the name of an agent means.

    The name of an agent ("hermes", "holdfast") is the folder in its environment variable, else its
    usual place below the home directory. A folder of that name in the current directory is
    "./hermes", or a `Path`. Raises `UsageError` for what is not a path.
    """
    kind = agent_named(path)
    if kind is None:
        return named_place(path)
    variables = os.environ if environ is None else environ  # noqa: TID251 - the edge of the library
    return named_place(folder_in_variable(kind, variables) or f"~/{kind.default_folder}")


def agent_named(path: StrPath) -> Kind | None:
    """The kind of home that the name of an agent stands for; None for anything else."""
    if not isinstance(path, str) or not path.replace("-", "_").isidentifier():
        return None
    return next((each for each in kinds() if each.name == path), None)


def similar_name(path: StrPath) -> str | None:
    """The name of an agent that is similar to what the caller wrote, unless that is a path."""
    if not isinstance(path, str) or not path.replace("-", "_").isidentifier():
        return None
    from difflib import get_close_matches  # noqa: PLC0415 - only a mistake needs it

    return next(iter(get_close_matches(path, [each.name for each in kinds()], n=1)), None)


def folder_in_variable(kind: Kind, environ: Mapping[str, str]) -> str | None:
    """The folder that the variable of an agent names, if it has one."""
    value = environ.get(kind.environment) if kind.environment else None
    return kind.named(value) if value else None


#: Signs of another agent's home. Such a folder is refused, because files with our names may mean
#: something else there.
_FOREIGN = {
    **dict.fromkeys(HERMES.signs, HERMES.agent),
    "thread-writer-locks": "Codex",
    "file-history": "Claude Code",
    "opencode.db": "OpenCode",
    "openclaw.json": "OpenClaw",
    "session-state": "Copilot CLI",
}


def open_home(
    path: StrPath, *, clock: Clock, idle: float | None = None, options: HomeOptions = USUAL
) -> Home:
    """Open the home at `path`, whatever its kind; raises `NotAHomeError` if it is not a home. A `~`
    at its start is the user's home directory.

    `idle` is short for `HomeOptions(idle=…)`.
    """
    root = check_folder(named_place(path))
    with storage_errors(f"read {root}"):
        names = {entry.name for entry in root.iterdir()}
        kind = kind_of(root)
    if kind is None:
        _refuse_awaited(root)
    if kind is None or kind is OWN:
        _refuse_foreign(root, names)
    if kind is None:
        wanted = ", ".join(f"`{sign}`" for sign in SIGNS)
        raise NotAHomeError(
            f"{root} is not the home of an agent: it has none of {wanted}.",
            hint="Pick another folder with --home, or make it one with `holdfast config init`.",
        )
    return kind.open(root, clock, options if idle is None else replace(options, idle=idle))


def kind_of(root: Path) -> Kind | None:
    """The kind of home that a folder is; None if it is not a home.

    Other agents, and the projects of users, have folders with the same names as ours. So content
    that only Holdfast writes decides at once; then every agent is asked, before any name counts.
    In the place of an agent, that agent is asked first; anywhere else, a home needs proof. Raises
    `StorageError` if two agents have a claim to the folder. See decision 0056.
    """
    if is_surely_ours(root):
        return OWN
    agent = next((kind for kind in _agents_at(root) if _is_recognised(kind, root)), None)
    if agent is not None:
        return agent
    claims = _claims(root)
    agent = _proven(claims, root)
    if agent is not None:
        return agent
    if not claims:
        with storage_errors(f"read {root}"):
            if may_be_ours(root):
                return OWN
    found = next((kind for kind in brought() if _is_recognised_by_another(kind, root)), None)
    if found is not None or claims:
        return found
    return OWN if OWN.recognise(root) and agent_at(root) is None else None


def _claims(root: Path) -> list[Kind]:
    """The agents that may have made a folder, going by the names in it."""
    return [kind for kind in _AGENTS if _is_recognised(kind, root)]


def _proven(claims: Sequence[Kind], root: Path) -> Kind | None:
    """The one of these agents whose home this is, outside the place of any agent.

    Something that only one agent writes is proof. Without any, a project of aider is only that, and
    a home from which Holdfast moved every session is still one: otherwise nothing could be undone.
    """
    with storage_errors(f"read {root}"):
        proven = [kind for kind in claims if kind.is_proven(root)]
    proven = proven or [kind for kind in claims if kind.in_projects]
    changed = [] if proven else [kind for kind in claims if _has_our_state(kind, root)]
    proven = proven or [kind for kind in changed if kind.is_emptied(root)] or changed
    proven = proven or [kind for kind in claims if _is_inside_another(kind, root)]
    if len(proven) > 1:
        names = " and ".join(kind.agent for kind in proven)
        raise StorageError(
            f"Cannot tell whose home {root} is: it has files of {names}.",
            hint="Nothing was touched. Move the files of one agent to a folder of their own.",
        )
    return next(iter(proven), None)


def _has_our_state(kind: Kind, root: Path) -> bool:
    """True if we logged changes in a home of this kind. A folder of that name with a database is a
    home of our own."""
    state = kind.state(root)
    return has_our_log(f"{state}/{LOG}") and not (state / str(OWN.database)).exists()


def _is_inside_another(kind: Kind, root: Path) -> bool:
    """True for a home inside one of the same kind, such as a profile."""
    above = root.parent.parent
    return root in kind.inside(above) and kind_of(above) is kind


def agent_at(root: Path) -> Kind | None:
    """The agent whose default folder, or whose variable's folder, this is, whatever it contains. An
    agent that was installed but never ran has its own config.toml there, which is not ours."""
    return next(_agents_at(root), None)


def _agents_at(root: Path) -> Iterator[Kind]:
    folder, real = os.path.abspath(root), ""  # noqa: PTH100 - for every agent
    for kind in _AGENTS:
        if folder.endswith(f"/{kind.default_folder}"):
            yield kind
    for kind in _AGENTS:
        named = os.environ.get(kind.environment)  # noqa: TID251 - as in `find_home`
        places = [f"~/{kind.default_folder}", *([kind.named(named)] if named else [])]
        real = real or os.path.realpath(root)
        if any(os.path.realpath(expanded(each)) == real for each in places):
            yield kind


def _refuse_awaited(root: Path) -> None:
    """Refuse to create one of our homes in another agent's default folder: it would not be found
    any more once that agent has a home there. Files there, config.toml included, belong to that
    agent. The same for a folder that looks like the home of an agent."""
    kind = agent_at(root)
    if kind is not None:
        raise NotAHomeError(
            f"There is no home of {kind.agent} here: it has no session at {root} yet.",
            hint="Nothing was touched. `holdfast status` lists the homes on this machine.",
        )
    claims = _claims(root)
    if claims:
        names = " or ".join(kind.agent for kind in claims)
        raise NotAHomeError(
            f"{root} may be a home of {names}, but has no session of it.",
            hint="Nothing was touched. Outside the usual place of an agent, a folder is its home"
            " only if there is something in it that only this agent writes.",
        )


def _is_recognised(kind: Kind, root: Path) -> bool:
    """A closed folder in a home of ours must not keep `doctor` from looking at the home."""
    try:
        return kind.recognise(root)
    except PermissionError as error:
        with contextlib.suppress(OSError):
            if may_be_ours(root):
                return False
        with storage_errors(f"read {error.filename or root}"):
            raise


def _is_recognised_by_another(kind: Kind, root: Path) -> bool:
    """The same for a format from another package: a bug in it must not hide the other homes."""
    try:
        return _is_recognised(kind, root)
    except HoldfastError:
        raise
    except Exception as error:  # noqa: BLE001 - it is third-party code
        said = f"{type(error).__name__}: {error}"
        _warn("the home format %s cannot tell whether %s is its home: %s", kind.name, root, said)
        return False


def _warn(message: str, *said: object) -> None:
    import logging  # noqa: PLC0415 - slow, and rarely needed

    logging.getLogger("holdfast").warning(message, *said)


def state_folder(root: Path) -> Path:
    """The folder for Holdfast's own files in a home, which need not exist yet.

    Raises `NotAHomeError` for the default folder of an agent that has no home there yet.
    """
    with storage_errors(f"read {root}"):
        kind = kind_of(root) if root.is_dir() else None
    if kind is None:
        _refuse_awaited(root)
        return root
    return kind.state(root)


def config_file(root: Path) -> Path:
    """The configuration file of a home, in our own folder: we never edit that of another agent."""
    return state_folder(root) / "config.toml"


def _refuse_foreign(root: Path, names: Collection[str]) -> None:
    foreign = next((agent for sign, agent in _FOREIGN.items() if sign in names), None)
    if foreign and "operations" not in names:
        raise NotAHomeError(
            f"{root} looks like the home of {foreign}, which this version cannot manage.",
            hint="Nothing was touched. Pick a Holdfast home with --home.",
        )


def usual_places(user_home: Path, named: Mapping[str, Path] | None = None) -> list[Path]:
    """Where homes may be: the default folders, the folders in `named` by kind, and homes inside
    these. Each folder is listed once, even if it has several names."""
    found: dict[str, Path] = {}
    for kind in kinds():
        elsewhere = (named or {}).get(kind.name)
        usual = user_home / kind.default_folder
        for place in (usual,) if elsewhere is None else (elsewhere, usual):
            for each in (place, *kind.inside(place)):
                found.setdefault(os.path.realpath(each), each)
    return list(found.values())


def check_folder(path: Path) -> Path:
    """The real path of an existing folder; a clear error for everything else."""
    try:
        root = path.resolve(strict=True)
        is_folder = root.is_dir()
    except FileNotFoundError:
        raise NotAHomeError(
            f"There is no home at {path}.",
            hint="Pick another folder with --home, or see `holdfast demo` for a sample.",
        ) from None
    except (OSError, RuntimeError) as error:
        raise StorageError(f"Cannot read {path}: {getattr(error, 'strerror', error)}") from error
    if not is_folder:
        raise NotAHomeError(f"{path} is a file; a home is a folder.")
    return root


def create_state(path: Path) -> Path:
    """Create our own folder in a home, and the home itself if there is none."""
    state = state_folder(path)
    if state == path:
        create_home(path)
    else:
        with storage_errors(f"create {state}"):
            make_private_dir(state)
    return state


def create_home(path: Path) -> None:
    """Create an empty Holdfast home, private to its owner; does nothing if the folder already is
    one."""
    with storage_errors(f"create {path}"):
        if path.exists() and not path.is_dir():
            raise NotAHomeError(f"{path} is a file; a home is a folder.")
        if not path.is_dir() or kind_of(path) is None:
            _refuse_awaited(path)
        make_private_dir(path)
        kind = kind_of(path)
        if kind is not None and kind is not OWN:
            raise NotAHomeError(
                f"{path} is a home of {kind.agent}, which writes its sessions itself.",
                hint="Nothing was touched. Write your own sessions to a Holdfast home.",
            )
        _refuse_foreign(path, {entry.name for entry in path.iterdir()})
