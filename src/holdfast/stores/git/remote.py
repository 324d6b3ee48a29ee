"""git and another repository: list, push and fetch references.

The commands run in a small bare repository of their own, with the user's configuration and
credentials: ssh and its agent, credential helpers, proxies. Settings that could change what is sent
are turned off in the small repository's configuration. A password in an address never appears on a
command line: git gets it from a helper, which reads a private file.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from holdfast.errors import RemoteError
from holdfast.stores.files import PRIVATE_DIR, storage_errors, write_new
from holdfast.stores.git.program import Git, find_git
from holdfast.value import dataclass

#: True if git and ssh may prompt for a password. Otherwise they fail.
MAY_PROMPT: ContextVar[bool] = ContextVar("holdfast_may_prompt", default=False)

#: How often a running transfer calls `watch`, in seconds.
WATCH_EVERY = 0.5

_THERE = "holdfast"
_PLAIN = frozenset(range(32, 127)) - set(b'"\\')
_CREDENTIALS = "credentials"
#: The user's GIT_ variables that are kept. The others could point git to another repository, or
#: make it write what it sends to a trace.
_KEPT = frozenset(
    f"GIT_{name}"
    for name in (
        *("ASKPASS", "EXEC_PATH", "PROXY_COMMAND", "SSH", "SSH_COMMAND", "SSH_VARIANT"),
        *("CONFIG_COUNT", "CONFIG_GLOBAL", "CONFIG_NOSYSTEM", "CONFIG_SYSTEM"),
        *("SSL_CAINFO", "SSL_CAPATH", "SSL_CERT", "SSL_KEY", "SSL_NO_VERIFY", "SSL_VERSION"),
    )
)
_KEPT_PREFIXES = ("GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_", "GIT_HTTP_")
_CONFIG = {
    "core.bare": "true",
    "core.hooksPath": os.devnull,
    "core.fsync": "all",
    "core.alternateRefsCommand": "true",
    "fetch.fsckObjects": "true",
    "fetch.unpackLimit": "1",
    "fetch.prune": "false",
    "fetch.recurseSubmodules": "false",
    "fetch.writeCommitGraph": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "http.lowSpeedLimit": "1",
    "http.lowSpeedTime": "60",
    "pack.useBitmaps": "true",
    "protocol.version": "2",
    "push.followTags": "false",
    "push.gpgSign": "false",
    "push.negotiate": "false",
    "push.recurseSubmodules": "no",
}
#: git's complaints about files with special names. A project may contain any such file.
_OPINIONS = {
    "gitmodules": "Blob Large Missing Name Parse Path Symlink Update Url",
    "gitattributes": "Blob Large LineLength Missing",
}
#: A command line has room for this many references.
_AT_ONCE = 400
#: How git marks a refusal by the remote, and output of the remote.
_BY_THE_REMOTE = "[remote rejected]"
_SAID_THERE = "remote:"
#: Output of git on the remote that does not explain a refusal.
_OF_GIT = re.compile(
    r"error: hook declined|Total \d"
    r"|(Enumerating|Counting|Compressing|Receiving|Resolving|Unpacking|Checking) "
)
_MOST_WORDS = 500
_REFUSED = re.compile(r"^\[[a-z ]+\]\s*")
#: The values in the query of a URL; a word without `=` may be one, too.
_MASKED = re.compile(r"((?:^|&)(?:[^&=]*=)?)[^&]+")
_SHORTEST_SECRET = 4
#: git's messages for an object that is malformed, or that the remote itself cannot read.
_BAD_OBJECT = ("fsck error", "repository corruption", "not send all necessary objects")
_FSCK = re.compile(r"^error: object [0-9a-f]+: (\w+: .*)$", re.MULTILINE)
#: git's message for a missing reference, in all of its versions.
_NO_SUCH_REF = "couldn't find remote ref"
_CREDENTIALS_WANTED = (
    "It requires credentials. Set up a credential helper, an ssh key or a token as for any git"
    " remote, and try again."
)
_NO_RIGHTS = (
    "You have no permission to do that there. Ask its administrator, or check the key that git"
    " uses."
)
_NO_REPOSITORY = (
    "There is no repository at that address. Make an empty one there: `git init --bare`."
)
_CUT_SHORT = (
    "The connection broke off. Nothing is lost: try again, and only the missing part is"
    " transferred."
)
_OUT_OF_REACH = "It cannot be reached. Check the address and the network, and try again."
#: Parts of git's messages, and the hint for each.
_REASONS = (
    (("Authentication failed", "could not read Username", "could not read P"), _CREDENTIALS_WANTED),
    (("Could not resolve", "Connection refused", "timed out", "unable to connect"), _OUT_OF_REACH),
    (("Permission denied", "access denied", "403", "service not enabled"), _NO_RIGHTS),
    (("not appear to be a git repo", "not found", "does not exist", "not export"), _NO_REPOSITORY),
    (("hung up", "early EOF", "reset by peer", "Broken pipe", "unexpected disc"), _CUT_SHORT),
)


class BadObjectError(RemoteError):
    """git refused an object of one of the requested references. Nothing was fetched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The address of a remote: `url` for git, `shown` for messages, `credential` for git's helper.
    `query` are the URL's parameters, which may contain a token."""

    url: str
    shown: str
    credential: str = ""
    query: str = ""

    @property
    def secrets(self) -> tuple[str, ...]:
        password = urlsplit(self.credential).password or ""
        values = [each.partition("=")[2] or each for each in self.query.split("&")]
        # A short value is not a secret, and masking it everywhere would make messages unreadable.
        values = [each for each in values if len(each) >= _SHORTEST_SECRET]
        words = [each for word in (password, *values) for each in (word, unquote(word))]
        return tuple(sorted({word for word in words if word}, key=len, reverse=True))


def address_of(text: str) -> Address:
    """Take the password out of a URL. A path or an ssh address without a scheme has none."""
    if not re.match(r"[a-z][a-z0-9+.-]*://", text, re.IGNORECASE):
        return Address(url=text, shown=text)
    parts = urlsplit(text)
    query, masked = parts.query, _MASKED.sub(r"\1***", parts.query)
    user, at, host = parts.netloc.rpartition("@")
    if not at:
        shown = urlunsplit(parts._replace(query=masked)) if query else text
        return Address(url=text, shown=shown, query=query)
    name, colon, password = user.partition(":")
    is_web = parts.scheme.lower() in ("http", "https")
    # A token may be used as the user name.
    kept = "***" if is_web and not colon else name
    netloc = f"{kept}{':***' if colon else ''}@{host}"
    shown = urlunsplit(parts._replace(netloc=netloc, query=masked))
    if not colon:
        return Address(url=text, shown=shown, query=query)
    if not is_web:  # git cannot pass a password to any other
        url = urlunsplit(parts._replace(netloc=f"{name}@{host}"))
        return Address(url=url, shown=shown, query=query)
    url = urlunsplit(parts._replace(netloc=host))  # the helper supplies the name as well
    who = f"{quote(unquote(name), safe='')}:{quote(unquote(password), safe='')}"
    credential = f"{parts.scheme}://{who}@{host}"
    return Address(url=url, shown=shown, credential=credential, query=query)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteGit:
    """The small repository at `folder`, and the remote."""

    folder: Path
    address: Address

    def create(self, alternates: Sequence[Path] = ()) -> None:
        """Create the repository. `alternates` are folders with objects that it may use."""
        with storage_errors(f"make {self.folder}"):
            self.folder.mkdir(mode=PRIVATE_DIR)
            self.local().run("init", "--quiet", "--bare", "--template=", str(self.folder))
            if alternates:
                text = "".join(f"{_c_quoted(os.fsencode(each))}\n" for each in alternates).encode()
                (self.folder / "objects" / "info").mkdir(exist_ok=True)
                write_new(self.folder / "objects" / "info" / "alternates", text)
            (self.folder / "config").unlink()
            write_new(self.folder / "config", self._config().encode("utf-8", "surrogateescape"))
            if self.address.credential:
                write_new(self.folder / _CREDENTIALS, f"{self.address.credential}\n".encode())

    def local(self) -> Git:
        """git on the small repository only, without the user's settings."""
        return Git(store=self.folder)

    def refs(self) -> Mapping[str, str]:
        """Return every reference on the remote, with its id."""
        lines = self._run("ls-remote", "--quiet", _THERE).stdout.decode("utf-8", "replace")
        found = (line.partition("\t") for line in lines.splitlines())
        return {name: oid for oid, _, name in found if name}

    def has(self, ref: str) -> bool:
        """True if a reference exists on the remote. Unlike a list, this transfers one line,
        provided that the small repository has its object."""
        said = self._run(
            *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance"),
            *(_THERE, ref),
            fails=True,
        )
        if said.returncode and _NO_SUCH_REF not in said.stderr.decode("utf-8", "replace").lower():
            raise self._failed("fetch", said)
        return not said.returncode

    def push(self, refs: Mapping[str, str]) -> Mapping[str, str]:
        """Create references on the remote, by name, at these ids. Return refused ones, with
        reasons."""
        refused: dict[str, str] = {}
        names = sorted(refs)
        for start in range(0, len(names), _AT_ONCE):
            some = names[start : start + _AT_ONCE]
            refused |= self._push([f"{refs[name]}:{name}" for name in some])
        return refused

    def delete(self, refs: Mapping[str, str]) -> Mapping[str, str]:
        """Delete remote references that still have these ids. Return the others, with reasons."""
        refused: dict[str, str] = {}
        names = sorted(refs)
        for start in range(0, len(names), _AT_ONCE):
            some = names[start : start + _AT_ONCE]
            leases = [f"--force-with-lease={name}:{refs[name]}" for name in some]
            refused |= self._push([f":{name}" for name in some], leases)
        return refused

    def _push(self, refspecs: Sequence[str], options: Sequence[str] = ()) -> Mapping[str, str]:
        said = self._run("push", "--porcelain", "--quiet", *options, _THERE, *refspecs, fails=True)
        refused = {}
        words = _words_of_hooks(said.stderr.decode("utf-8", "replace"))
        for line in said.stdout.decode("utf-8", "replace").splitlines():
            flag, _, rest = line.partition("\t")
            if len(flag) == 1 and "\t" in rest:
                names, _, summary = rest.partition("\t")
                if flag == "!":
                    why = _reason(summary)
                    if words and summary.startswith(_BY_THE_REMOTE):
                        why = f"{why}: {words}"
                    refused[names.partition(":")[2]] = self._hidden(why)
        if said.returncode and not refused:
            raise self._failed("push", said)
        return refused

    def fetch(self, refs: Mapping[str, str], watch: Callable[[], None] = lambda: None) -> None:
        """Fetch references of the remote; `refs` maps local names to remote ones. Either all are
        fetched or none. `watch` is called regularly and may abort by raising."""
        lines = "".join(f"+{there}:{here}\n" for here, there in sorted(refs.items()))
        said = self._run(
            *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance"),
            *("--stdin", _THERE),
            stdin=lines.encode("utf-8", "surrogateescape"),
            watch=watch,
            fails=True,
        )
        if said.returncode:
            with storage_errors(f"clear {self.folder}"):
                for half in (self.folder / "objects" / "pack").glob("tmp_*"):
                    half.unlink(missing_ok=True)
            failed = self._failed("fetch", said)
            if not _any(_BAD_OBJECT, failed.said):
                raise failed
            found = _FSCK.search(failed.said)
            why = f"git refuses an object of it: {found[1]}." if found else failed.message
            raise BadObjectError(why, said=failed.said)

    def _run(
        self,
        *arguments: str,
        stdin: bytes = b"",
        fails: bool = False,
        watch: Callable[[], None] = lambda: None,
    ) -> subprocess.CompletedProcess[bytes]:
        program = find_git()
        process = subprocess.Popen(
            [program, *arguments],
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Without a controlling terminal, ssh cannot prompt either.
            start_new_session=not MAY_PROMPT.get(),
            umask=0o077,
        )
        with process:
            try:
                output, errors = _watched(process, stdin, watch)
            except BaseException:
                _end(process)
                raise
        said = subprocess.CompletedProcess(arguments, process.returncode, output, errors)
        if said.returncode and not fails:
            raise self._failed(arguments[0], said)
        return said

    def _environment(self) -> dict[str, str]:
        kept = {
            key: value
            for key, value in os.environ.items()  # noqa: TID251 - the user's credentials
            if not key.startswith("GIT_") or key in _KEPT or key.startswith(_KEPT_PREFIXES)
        }
        prompts = {} if MAY_PROMPT.get() else {"GIT_TERMINAL_PROMPT": "0"}
        return {**kept, "LC_ALL": "C", "GIT_DIR": str(self.folder), **prompts}

    def _config(self) -> str:
        lines = [f"[remote {_quoted(_THERE)}]", f"\turl = {_quoted(self.address.url)}"]
        for key, value in _CONFIG.items():
            section, _, name = key.partition(".")
            lines += [f"[{section}]", f"\t{name} = {_quoted(value)}"]
        lines.append('[fetch "fsck"]')
        for file, opinions in _OPINIONS.items():
            lines += [f"\t{file}{each} = ignore" for each in opinions.split()]
        if self.address.credential:
            file = shlex.quote(str(self.folder / _CREDENTIALS))
            lines += [
                "[credential]",
                '\thelper = ""',
                f"\thelper = {_quoted(f'store --file={file}')}",
            ]
        return "\n".join([*lines, ""])

    def _failed(self, verb: str, said: subprocess.CompletedProcess[bytes]) -> RemoteError:
        text = self._hidden(said.stderr.decode("utf-8", "replace").strip())
        told = [line for line in text.splitlines() if _tells(line)]
        why = told[0] if told else f"git {verb} ended with {said.returncode}"
        if why.endswith(":") and len(told) > 1:  # the reason is on the next line
            why = f"{why} {told[1].strip()}"
        hint = next((hint for words, hint in _REASONS if _any(words, text)), None)
        why = re.sub(r"^(fatal|error|remote|ERR): ", "", why).rstrip(".")
        return RemoteError(f"{self.address.shown}: {why}.", hint=hint, said=text)

    def _hidden(self, text: str) -> str:
        for secret in self.address.secrets:
            text = text.replace(secret, "***")
        return text


def _watched(
    process: subprocess.Popen[bytes], stdin: bytes, watch: Callable[[], None]
) -> tuple[bytes, bytes]:
    given: bytes | None = stdin
    while True:
        try:
            return process.communicate(given, timeout=WATCH_EVERY)
        except subprocess.TimeoutExpired:
            given = None  # it was passed the first time
            watch()


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill git, and its children if it leads a process group."""
    with contextlib.suppress(ProcessLookupError):
        if os.getpgid(process.pid) == process.pid:
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def same_place(one: str, other: str) -> bool:
    """True if two addresses denote the same repository, as far as their text shows."""
    return _plain(one) == _plain(other)


def _plain(url: str) -> str:
    """Normalize an address: no user, scheme, port or suffix; a path is resolved."""
    scheme, sep, rest = url.partition("://")
    if not sep:
        host, colon, path = url.partition(":")
        if not colon or "/" in host:
            return _real(url)
        return f"{host.rpartition('@')[2].lower()}/{_bare(path)}"
    if scheme.lower() == "file":
        return _real(unquote(rest))
    host, _, path = rest.partition("/")
    host = re.sub(r":\d+$", "", host.rpartition("@")[2].lower())
    return f"{host}/{_bare(path)}"


def _bare(path: str) -> str:
    return path.strip("/").removesuffix(".git").rstrip("/")


def _real(path: str) -> str:
    real = os.path.realpath(path)
    return real.removesuffix("/.git").removesuffix(".git")


def remotes_of(workdir: Path) -> Sequence[str]:
    """Return the addresses of a directory's repository: its remotes and its own path."""
    environment = {
        key: value
        for key, value in os.environ.items()  # noqa: TID251 - the user's configuration
        if not key.startswith("GIT_") or key.startswith("GIT_CONFIG_")
    }
    found: list[str] = []
    for arguments in (
        ("config", "--get-regexp", r"^remote\..*\.(push)?url$"),
        ("rev-parse", "--path-format=absolute", "--git-common-dir"),
    ):
        said = subprocess.run(
            [find_git(), *arguments],
            cwd=workdir,
            env={**environment, "LC_ALL": "C"},
            capture_output=True,
            check=False,
        )
        lines = os.fsdecode(said.stdout).splitlines() if not said.returncode else []
        found += [line.partition(" ")[2] if line.startswith("remote.") else line for line in lines]
    return [each for each in found if each]


def _tells(line: str) -> bool:
    noise = ("hint:", "warning:", "Please make sure", "and the repository exists")
    return bool(line.strip()) and not line.startswith(noise)


def _any(words: Iterable[str], text: str) -> bool:
    lower = text.lower()
    return any(word.lower() in lower for word in words)


def _reason(summary: str) -> str:
    """Shorten a summary such as `[remote rejected] (pre-receive hook declined)` to its reason."""
    found = re.search(r"\((.*)\)\s*$", summary)
    return found[1] if found else _REFUSED.sub("", summary).strip()


def _words_of_hooks(errors: str) -> str:
    """Return what the remote's hooks printed; git passes it on line by line. Lines from git itself
    are left out, and the text is cut to a few terminal lines."""
    said = [
        line.removeprefix(_SAID_THERE).strip()
        for line in errors.splitlines()
        if line.startswith(_SAID_THERE)
    ]
    own = [line for line in dict.fromkeys(said) if line and not _OF_GIT.match(line)]
    text = " / ".join(own)
    return text if len(text) <= _MOST_WORDS else f"{text[:_MOST_WORDS].rstrip()}…"


def _c_quoted(path: bytes) -> str:
    """Quote a path with arbitrary bytes as a C string: one line, and not a comment."""
    plain = (chr(each) if each in _PLAIN else f"\\{each:03o}" for each in path)
    return f'"{"".join(plain)}"'


def _quoted(text: str) -> str:
    inside = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{inside}"'
