"""The remotes that were added for checkpoints, and the name of this store there.

Nothing is ever sent to a remote that is not in this list, so a project's own remote gets no
checkpoints unless the user adds it. Each remote has one private file: its address, and what was
pushed there and fetched from there. That is only a cache: the remote itself is authoritative.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast.errors import DamageError, UsageError
from holdfast.model.json_value import NO_RECORD
from holdfast.model.remote import Remote
from holdfast.stores.checkpoints.repository import Layout
from holdfast.stores.files import make_private_dir, read_file, replace, storage_errors
from holdfast.stores.git.remote import Address, address_of
from holdfast.stores.processes import host_name, machine_id
from holdfast.value import dataclass, field

_FORMAT = 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)
_MACHINE = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_PROJECT = re.compile(r"[0-9a-f]{16}", re.ASCII)
_CHECKPOINT = re.compile(r"[0-9]{15}-[0-9a-f]{8}", re.ASCII)
_RULES = re.compile(r"[0-9a-f]{16}", re.ASCII)
#: Addresses that make git run a command or use a descriptor, and hosts that look like an ssh
#: option.
_COMMAND = re.compile(r"\s*(ext|fd)::|[^/]*://([^/]*@)?-|[^/:]*@-", re.IGNORECASE)
_LONGEST_HOST = 40
_WHERE_BYTES = 8
#: refs/holdfast/<machine>/<project>/<name>, and refs/holdfast/<machine>/rules/<digest>.
THERE = "refs/holdfast/"
RULES = "rules"
_PARTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRemote:
    """A remote and what is remembered of it. References have their names on the remote; pushed ones
    are mapped to their ids there. `sending` was in flight when a push last began: it may be there
    or not."""

    name: str
    url: str
    pushed: Mapping[str, str] = field(default_factory=dict)
    sending: Mapping[str, str] = field(default_factory=dict)
    fetched: frozenset[str] = frozenset()

    @property
    def address(self) -> Address:
        return address_of(self.url)

    def told(self) -> Remote:
        return Remote(
            name=self.name,
            url=self.address.shown,
            pushed=sum(_parts(ref) is not None for ref in self.pushed),
            fetched=len(self.fetched),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ThereRef:
    """A checkpoint on a remote."""

    machine: str
    project: str
    name: str
    oid: str

    @property
    def path(self) -> str:
        return f"{THERE}{self.machine}/{self.project}/{self.name}"


def there(refs: Mapping[str, str]) -> Sequence[ThereRef]:
    """Return the checkpoints among the references of a remote. Other names are not ours."""
    found = ((parts, oid) for path, oid in refs.items() if (parts := _parts(path)) is not None)
    return [ThereRef(machine=m, project=p, name=n, oid=oid) for (m, p, n), oid in found]


def _parts(path: str) -> tuple[str, str, str] | None:
    machine, project, name = (*path.removeprefix(THERE).split("/"), "", "")[:_PARTS]
    good = path == f"{THERE}{machine}/{project}/{name}" and is_machine(machine)
    if good and _PROJECT.fullmatch(project) and _CHECKPOINT.fullmatch(name):
        return machine, project, name
    return None


def rules_there(refs: Mapping[str, str], machine: str) -> Mapping[str, str]:
    """Return the references with a machine's ignore rules on a remote, by digest."""
    start = f"{THERE}{machine}/{RULES}/"
    found = {path.removeprefix(start): path for path in refs if path.startswith(start)}
    return {digest: path for digest, path in found.items() if _RULES.fullmatch(digest)}


def is_machine(text: str) -> bool:
    return bool(_MACHINE.fullmatch(text)) and text != RULES


def machine_name(layout: Layout) -> str:
    """Return the name of this store on every remote: the host, and a few random digits, because
    many machines have the same name and one machine may have several homes.

    The name never changes, unless the home is copied or moved: a copy with the same name would
    treat the original's checkpoints as its own, and prune them.
    """
    path, where = layout.folder / "machine", _whereabouts(layout)
    with storage_errors(f"read {path}"):
        try:
            found, _, made_at = read_file(path).decode("ascii", "replace").strip().partition("\n")
        except FileNotFoundError:
            found = made_at = ""
        if not found or made_at != where:
            words = re.sub(r"[^a-z0-9]+", "-", host_name().partition(".")[0].lower()).strip("-")
            found = f"{words[:_LONGEST_HOST].strip('-') or 'machine'}-{os.urandom(3).hex()}"
            replace(path, f"{found}\n{where}\n".encode("ascii"))
    if not is_machine(found):
        raise DamageError(
            f"{path} does not contain a valid machine name.",
            hint="Remove the file: Holdfast writes a new one.",
        )
    return found


def _whereabouts(layout: Layout) -> str:
    place = "\0".join((machine_id(), os.path.realpath(layout.folder)))
    return hashlib.blake2b(os.fsencode(place), digest_size=_WHERE_BYTES).hexdigest()


def remotes(layout: Layout) -> Sequence[KnownRemote]:
    """Return every remote, by name."""
    try:
        names = sorted(path.stem for path in _folder(layout).glob("*.json"))
    except FileNotFoundError:
        return ()
    return [each for name in names if (each := _read(layout, name)) is not None]


def remote(layout: Layout, name: str) -> KnownRemote:
    """Return one remote; raises `UsageError` if there is none with that name."""
    found = _read(layout, name) if _NAME.fullmatch(name) else None
    if found is not None:
        return found
    known = ", ".join(each.name for each in remotes(layout))
    raise UsageError(
        f"There is no remote {address_of(name).shown!r}.",
        hint=(f"The remotes are: {known}. " if known else "")
        + "Add one with `holdfast checkpoints remote add NAME URL`.",
    )


def add(layout: Layout, name: str, url: str) -> KnownRemote:
    """Add a remote. Adding the same name and address again changes nothing."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{name!r} cannot be the name of a remote: letters, digits, - and _, at most 64."
        )
    if not url.strip() or url.startswith("-") or "\n" in url or "\0" in url:
        raise UsageError(f"{address_of(url).shown!r} is not the address of a git repository.")
    if _COMMAND.match(url):  # not shown: it may contain anything
        raise UsageError(
            "That is not the address of a git repository: git would run a command for it.",
            hint="A remote for checkpoints is a URL, a path, or host:path.",
        )
    found = _read(layout, name)
    if found is not None and found.url != url:
        raise UsageError(
            f"A remote called {name} exists: {found.address.shown}",
            hint=f"Remove it first: `holdfast checkpoints remote remove {name}`.",
        )
    return found or save(layout, KnownRemote(name=name, url=url))


def is_path_of_here(url: str) -> bool:
    """True if git treats an address as a path. A colon before the first slash ends a host."""
    return bool(url.strip()) and "://" not in url and ":" not in url.partition("/")[0]


def remove(layout: Layout, name: str) -> KnownRemote:
    """Forget a remote. What is on it stays there."""
    found = remote(layout, name)
    with storage_errors(f"remove {_path(layout, name)}"):
        _path(layout, name).unlink(missing_ok=True)
    return found


def save(layout: Layout, known: KnownRemote) -> KnownRemote:
    data = {
        "format": _FORMAT,
        "url": known.url,
        "pushed": dict(sorted(known.pushed.items())),
        "sending": dict(sorted(known.sending.items())),
        "fetched": sorted(known.fetched),
    }
    path = _path(layout, known.name)
    with storage_errors(f"write {path}"):
        make_private_dir(path.parent)
        replace(path, json.dumps(data).encode("utf-8", "surrogateescape"))
    return known


def _read(layout: Layout, name: str) -> KnownRemote | None:
    path = _path(layout, name)
    try:
        data = json.loads(read_file(path).decode("utf-8", "surrogateescape"))
        return KnownRemote(
            name=name,
            url=str(data["url"]),
            pushed={str(ref): str(oid) for ref, oid in data["pushed"].items()},
            sending={str(ref): str(oid) for ref, oid in data.get("sending", {}).items()},
            fetched=frozenset(map(str, data["fetched"])),
        )
    except FileNotFoundError:
        return None
    except NO_RECORD as error:
        raise DamageError(
            f"{path} is damaged.",
            hint=f"Remove the file, and add the remote {name} again.",
        ) from error


def _folder(layout: Layout) -> Path:
    return layout.folder / "remotes"


def _path(layout: Layout, name: str) -> Path:
    return _folder(layout) / f"{name}.json"
