"""Exporting and importing sessions and checkpoints."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Iterator
from io import TextIOBase
from pathlib import Path
from shlex import quote
from types import MappingProxyType
from typing import TYPE_CHECKING, BinaryIO, TextIO, cast

from holdfast.api.arguments import Ids, file_path, session_ids, wanted_sessions
from holdfast.api.place import find_home, open_place
from holdfast.api.session_view import SessionView
from holdfast.errors import UsageError
from holdfast.homes.foreign.transcripts import agent_of, from_store, of_agent, source_in
from holdfast.homes.output_place import check_output
from holdfast.homes.registry import kind_of
from holdfast.model.argument_checks import checked
from holdfast.model.arguments import StrPath, several, shown
from holdfast.model.session import SessionFilter
from holdfast.ports.runs import Clock, Progress
from holdfast.services.exchange.json_lines import RawLine, raw_lines
from holdfast.services.exchange.markdown import export_markdown
from holdfast.services.exchange.session_export import (
    ByteSink,
    ExportReport,
    Form,
    export_sessions,
)
from holdfast.services.exchange.session_import import (
    ImportReport,
    ImportStore,
    ImportTrial,
    import_lines,
)
from holdfast.services.exchange.session_line import session_line
from holdfast.services.exchange.sessions_as_lines import sessions_as_lines
from holdfast.stores.files import (
    PRIVATE_FILE,
    need_folder,
    open_regular,
    read_file,
    storage_errors,
)
from holdfast.value import dataclass
from holdfast.value import replace as copied

if TYPE_CHECKING:
    from holdfast.services.exchange.redactor import Redactor

_FORMS = {"jsonl": session_line, "markdown": export_markdown}


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionImport:
    """What an import stored. `agent` wrote what was read, unless that was an export of ours.
    Sessions that it replaced are in the archive, at `kept_in`; `operation` put them there."""

    report: ImportReport
    agent: str | None = None
    kept_in: str | None = None
    operation: str | None = None


def redactor() -> Redactor:
    """What replaces secrets in text, as an export with `redact` does, for text that leaves a home
    in another way."""
    from holdfast.services.exchange.redactor import Redactor  # noqa: PLC0415 - it takes 10 ms

    return Redactor()


#: How compressed files begin, and the command that reads one.
_COMPRESSED = MappingProxyType(
    {b"\x1f\x8b": "zcat", b"\x28\xb5\x2f\xfd": "zstdcat", b"BZh": "bzcat", b"\xfd7zXZ": "xzcat"}
)


@checked
class SessionExchange(SessionView):
    """Exports and imports the sessions of a home."""

    def export(
        self,
        output: StrPath | BinaryIO | TextIO | ByteSink,
        ids: Ids | None = None,
        *,
        wanted: SessionFilter | None = None,
        form: str = "jsonl",
        redact: bool = False,
        progress: Progress | None = None,
    ) -> ExportReport:
        """Write sessions out: those with these ids, those that match a filter, or all.

        `output` is a path, which gets a whole export or none, or an open file: a binary one, or one
        for text, which gets text. `form` is "jsonl", which can be imported again, or "markdown".
        `redact` replaces secrets with a placeholder.
        """
        if form not in _FORMS:
            raise UsageError(f'form must be "jsonl" or "markdown", not {form!r}.')
        self.need_store()
        chosen = wanted_sessions(wanted, None)
        if ids is not None:
            named = tuple(self.resolve(each) for each in session_ids(ids))
            chosen = copied(chosen, ids=named)
        with export_sink(output, [self._place.root]) as sink:
            report = export_sessions(
                self.need_store(),
                chosen,
                sink.file,
                form=self._named(_FORMS[form]),
                redactor=redactor() if redact else None,
                progress=progress,
            )
            sink.whole = not report.stopped
        return report

    def _named(self, form: Form) -> Form:
        """Name the agent in each exported session: outside its home nothing else does."""
        agent = agent_of(self._place.root)
        if agent is None:
            return form
        return lambda session, messages: form(of_agent(session, agent), messages)

    def import_(
        self,
        source: StrPath | BinaryIO | ImportSource,
        *,
        sessions: Ids = (),
        replace: bool = False,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> SessionImport:
        """Store sessions from elsewhere: a JSONL file, one a line, as `export` writes them; a file
        in which an agent keeps sessions; or the folder of a home, or the name of its agent.
        `source` is a path or such a name, or a file that was opened in binary mode.

        Each is stored whole or not at all. An id that exists is skipped, or with `replace` the old
        session goes into the archive first. `sessions` picks some out of an agent's file or home.
        With `dry_run` nothing is stored: the report says what would be.
        """
        place = self._place
        with contextlib.ExitStack() as stack:
            if not isinstance(source, ImportSource):
                source = stack.enter_context(import_source(source, sessions, clock=place.clock))
            if source.root is not None and source.root == place.root.resolve():
                raise UsageError(f"{source.root} is the home that the sessions would go into.")
            if dry_run:
                report = import_lines(
                    ImportTrial(self._store_to_try()),
                    source.lines,
                    replace=replace,
                    now=place.clock(),
                    progress=progress,
                )
                return SessionImport(report=report, agent=source.agent)
            home = place.own()
            store = home.create_session_store()
            kept = stack.enter_context(home.replacing(place.command("import"))) if replace else None
            report = import_lines(
                home.own.importing(None if kept is None else kept.keep),
                source.lines,
                replace=replace,
                now=place.clock(),
                progress=progress,
            )
        if kept is not None and kept.same:
            report = copied(
                report,
                replaced=report.replaced - len(kept.same),
                skipped=(*report.skipped, *kept.same),
                messages=report.messages - sum(store.get(i).message_count for i in kept.same),
            )
        done = SessionImport(report=report, agent=source.agent)
        if kept is None or kept.operation is None:
            return done
        return copied(done, kept_in=kept.folder, operation=kept.operation)

    def _store_to_try(self) -> ImportStore | None:
        """The store that an import would go into; None when it would be made."""
        if kind_of(self._place.root) is None:
            _ = self._place.state  # no home of ours can be made in the place of another agent
            return None
        home = self._place.own()
        return None if home.session_store() is None else home.own.importing()


@dataclass(slots=True)
class _Sink:
    """Where an export goes, and whether it was completed."""

    file: ByteSink
    whole: bool = False


class _TextSink:
    """A file for text as a sink. An export writes whole characters."""

    def __init__(self, file: TextIOBase) -> None:
        self._file = file

    def write(self, data: bytes, /) -> object:
        return self._file.write(data.decode("utf-8"))


def _for_bytes(output: object) -> ByteSink:
    """A file that the caller opened, to write bytes to."""
    if not hasattr(output, "write"):
        raise UsageError(f"An export goes to a path or an open file, not {shown(output)}.")
    return _TextSink(output) if isinstance(output, TextIOBase) else cast("ByteSink", output)


def _has_bytes(source: object) -> bool:
    return hasattr(source, "readline") and not isinstance(source, TextIOBase)


@contextlib.contextmanager
def export_sink(
    output: StrPath | BinaryIO | TextIO | ByteSink, homes: Iterable[Path] = ()
) -> Iterator[_Sink]:
    """A private file that is renamed when it is complete; or the file that the caller opened.
    `homes` are those that are exported."""
    if not isinstance(output, str | os.PathLike):
        yield _Sink(_for_bytes(output))
        return
    path = file_path(output, "output")
    if path.exists() and not path.is_file():
        raise UsageError(f"{path} is not a file.")
    check_output(path, homes)
    target = path.resolve()  # a link stays one
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    with storage_errors(f"write {path}"):
        need_folder(target)
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE)
        try:
            with os.fdopen(fd, "wb") as file:
                sink = _Sink(file)
                yield sink
                file.flush()
                os.fsync(file.fileno())
            if sink.whole:  # a partial export must not replace a complete one
                temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportSource:
    """Sessions as lines, opened. `agent` wrote them, unless they are an export of ours; `root` is
    the home that they are in."""

    lines: Iterable[RawLine]
    agent: str | None = None
    root: Path | None = None


@contextlib.contextmanager
def import_source(
    source: StrPath | BinaryIO, sessions: Ids = (), *, clock: Clock | None = None
) -> Iterator[ImportSource]:
    """What an import reads: a file that the caller opened, a path, or the name of an agent, which
    stands for its home."""
    picked = several(sessions)
    ids = session_ids(picked, "sessions") if picked else ()
    if not isinstance(source, str | os.PathLike):
        if not _has_bytes(source):
            raise UsageError(
                "An import reads a path, or a file that was opened in binary mode, "
                f"not {shown(source)}."
            )
        _need_all(ids, "a stream")
        yield ImportSource(lines=raw_lines(source))
        return
    path = file_path(source, "source")
    if isinstance(source, str) and not path.exists():
        path = find_home(source)
    if path.is_dir():
        with contextlib.closing(open_place(path, clock=clock)) as place:
            store = SessionView(place).need_store()
            sessions = from_store(store, ids, agent=agent_of(place.root))
            kind = kind_of(place.root)
            agent = None if kind is None else kind.agent
            yield ImportSource(lines=sessions_as_lines(sessions), agent=agent, root=place.root)
        return
    with storage_errors(f"read {path}"):
        if not path.exists():
            raise _missing(path, named=str(source))
        # A shell passes a pipe for `<(zcat …)`, which has a writer already.
        piped = str(path).startswith(("/dev/fd/", "/dev/stdin", "/proc/"))
        stream = path.open("rb") if piped else os.fdopen(open_regular(path), "rb")
    with stream:
        with storage_errors(f"read {path}"):
            found = None if piped else source_in(path, ids)
        if found is None:
            if not piped:
                _refuse_compressed(path)
            _need_all(ids, str(path))
            yield ImportSource(lines=raw_lines(stream))
        else:
            yield ImportSource(lines=sessions_as_lines(found.sessions), agent=found.agent)


def _refuse_compressed(path: Path) -> None:
    """Raise `UsageError` for a compressed file, with the command that reads it."""
    begin = read_file(path, max(map(len, _COMPRESSED)))
    for magic, reader in _COMPRESSED.items():
        if begin.startswith(magic):
            raise UsageError(
                f"{path} is compressed.",
                hint=f"Unpack it on the way: {reader} {quote(str(path))} | "
                "holdfast sessions import -",
            )


def _missing(path: Path, *, named: str) -> UsageError:
    """The error for a path that is not there, or an agent that has no home here."""
    if str(path) == named or os.sep in named:
        return UsageError(
            f"There is no file {path}.",
            hint="What can be imported: a JSONL file, a file in which an agent keeps sessions, the "
            "folder of a home, or the name of an agent.",
        )
    return UsageError(
        f"There is no file {named}, and no home of an agent at {path}.",
        hint="`holdfast status` lists the homes on this machine.",
    )


def _need_all(ids: Collection[str], place: str) -> None:
    if ids:
        raise UsageError(
            f"Sessions can be picked from the home or the file of an agent, and {place} is neither."
        )
