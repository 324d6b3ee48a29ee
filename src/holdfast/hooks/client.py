"""The program that an agent starts for each hook: python -I -S client.py AGENT CLOSED HOME

It asks the helper. If there is none, it does the work itself and starts a helper for the next hook.
At first it imports only modules that are built into the interpreter: an agent waits for it.

CLOSED is `closed` if a tool must not run when this fails, else `open`. HOME is Holdfast's home.
With a fourth argument `alone` it does not ask the helper. With the arguments `helper FOLDER` it
becomes the helper, with its socket in that folder.
"""

import _signal  # type: ignore[import-not-found]  # `signal` loads more than is needed
import posix
import sys

TYPE_CHECKING = False  # as in `typing`, which would cost too much
if TYPE_CHECKING:
    import _socket

#: Tools that change nothing: a hook for one of them is not worth starting Holdfast.
_READING = {
    "claude-code": (b"Read", b"Glob", b"Grep", b"TodoWrite", b"WebFetch", b"WebSearch"),
    "gemini": (b"read_file", b"glob", b"list_directory", b"grep_search", b"read_many_files"),
    "codex": (b"view_image", b"update_plan"),
    "opencode": (),
}
#: Sent instead of an agent's name by a command that takes a checkpoint.
TAKE = "take"
_TEMPORARY = "/tmp"  # noqa: S108 - a folder in it is used only if it is private
_NEEDED = (b"HOME", b"LANG", b"LC_ALL", b"PATH", b"TMPDIR", b"USER", b"XDG_RUNTIME_DIR")
_TYPE, _FOLDER, _FILE = 0o170000, 0o040000, 0o100000
_LONGEST = 80  # bytes: the path of a socket is limited to little more than 100
_HEAD_WORDS = 3
#: A helper sends a sign of life twice a second. A silent helper has probably been suspended, and
#: one that sends this many signs without an answer is stuck.
_SILENT_SECONDS = 2.0
_MOST_SIGNS = 120
#: `connect` tells agents to wait for 120 seconds; after that, an agent runs the tool. So the client
#: gives up earlier, and decides by itself.
LIMIT = 100
_FULL = 65_536
#: No agent sends more than this to a hook; the helper's own limit has room for this and the home.
_MOST_BYTES = 60 * 1024**2


def runtime_folder() -> str:
    """The folder of the helpers' sockets, which no other user can enter. XDG_RUNTIME_DIR is used
    only if it exists and is ours: `su` and containers pass on that of another user."""
    given = posix.environ.get(b"XDG_RUNTIME_DIR", b"")
    folder = given.decode("utf-8", "surrogateescape")
    if folder.startswith("/") and len(given) <= _LONGEST and _is_own(folder, 0o022, links=True):
        return f"{folder}/holdfast"
    return f"{_TEMPORARY}/holdfast-{posix.getuid()}"


def is_private(folder: str) -> bool:
    return _is_own(folder, 0o077, links=False)


def _is_own(folder: str, closed: int, *, links: bool) -> bool:
    """True if it is a folder of this user and its mode has none of the bits in `closed`."""
    try:
        status = posix.stat(folder, follow_symlinks=links)
    except OSError:
        return False
    is_folder = status.st_mode & _TYPE == _FOLDER
    return is_folder and status.st_uid == posix.getuid() and not status.st_mode & closed


def identity() -> bytes:
    """Identify the helper that may answer: one that runs this very code, for this home directory,
    and sees the same files. A container may share the socket's folder and nothing else."""
    package = __file__.rpartition("/hooks/")[0]
    code, root = posix.stat(f"{package}/__init__.py"), posix.stat("/")
    numbers = (code.st_ino, code.st_size, code[8], root.st_dev, root.st_ino)  # 8: whole seconds
    words = [package.encode("utf-8", "surrogateescape"), posix.environ.get(b"HOME", b"")]
    return b"\0".join((*words, *(b"%d" % each for each in numbers)))


def name_for(who: bytes) -> str:
    """The name of a helper's socket. `client.pl` has to compute it too, and Perl has no digest
    without loading a module. Collisions do no harm: the helper compares the whole identity."""
    number = 0
    for byte in who:
        number = (number * 65_599 + byte) & 0xFFFFFFFF
    return f"{number:08x}"


def _read_all(number: int) -> bytes:
    found: list[bytes] = []
    size = 0
    while some := posix.read(number, _FULL):
        size += len(some)
        if size <= _MOST_BYTES:
            found.append(some)
    if size > _MOST_BYTES:  # all of it was read, so that the agent's write does not fail
        raise ValueError(f"its input has {size:,} bytes, and the limit is {_MOST_BYTES:,}")
    return b"".join(found)


def _write_all(number: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[posix.write(number, rest) :]


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def ask(agent: str, closed: str, home: str, raw: bytes) -> "tuple[int, bytes, bytes] | None":
    """Return the helper's answer; None if there is no helper or it does not answer."""
    folder = runtime_folder()
    if not is_private(folder):
        return None
    import _socket

    peer = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        peer.settimeout(_SILENT_SECONDS)
        who, place = identity(), home.encode("utf-8", "surrogateescape")
        peer.connect(f"{folder}/{name_for(who)}.sock")
        head = f"holdfast2 {agent} {closed} {len(who)} {len(place)} {len(raw)}\n".encode()
        peer.sendall(head + who + place + raw)
        found = _heard(peer)
    except OSError:
        return None
    finally:
        peer.close()
    head, _, rest = found.partition(b"\n")
    words = head.split()
    if len(words) != _HEAD_WORDS or not all(each.isdigit() for each in words):
        return None
    if len(rest) != int(words[1]) + int(words[2]):
        return None  # the helper was killed while it answered
    return int(words[0]), rest[: int(words[1])], rest[int(words[1]) :]


def _heard(peer: "_socket.socket") -> bytes:
    """Read everything that a helper sends, including the blanks that are its signs of life."""
    found, woken = b"", False
    while len(found) < _MOST_SIGNS or not found.isspace():
        try:
            some = peer.recv(_FULL)
        except TimeoutError:
            if woken or not _wake(peer):
                raise
            woken = True
            continue
        if not some:
            break
        found += some
    return found


def _wake(peer: "_socket.socket") -> bool:
    """Continue a helper that was suspended (SIGSTOP): it may hold a lock that all others wait for.
    Only Linux reports the process at the other end of a socket."""
    import _socket

    which = getattr(_socket, "SO_PEERCRED", None)
    if which is None:
        return False
    said = peer.getsockopt(_socket.SOL_SOCKET, which, 12)
    process = int.from_bytes(said[:4], sys.byteorder)
    if process <= 1:  # the process is in another PID namespace
        return False
    number = posix.open(f"/proc/{process}/stat", posix.O_RDONLY)
    try:
        is_stopped = posix.read(number, _FULL).rpartition(b") ")[2].startswith(b"T")
    finally:
        posix.close(number)
    if is_stopped:
        posix.kill(process, _signal.SIGCONT)
    return is_stopped


def _environment() -> "dict[bytes, bytes]":
    """The variables that the helper needs. It outlives the agent, and must not have its keys."""
    given = posix.environ
    return {name: given[name] for name in _NEEDED if name in given}


def start_helper() -> None:
    """Arrange for the helper to start as soon as this process has ended: earlier, it would delay
    the answer that the agent waits for. It is forked twice, so that no process has to wait for
    it."""
    ended, held = posix.pipe()  # `held` is closed when this process ends, however it ends
    if posix.fork():
        posix.wait()
        posix.close(ended)
        return
    try:
        posix.close(held)
        posix.setsid()
        if posix.fork():
            posix._exit(0)
        nothing = posix.open("/dev/null", posix.O_RDWR)
        for number in (0, 1, 2):
            posix.dup2(nothing, number)
        posix.chdir("/")
        posix.read(ended, 1)
        # Without `-S`: the helper has time, and the package it watches files with may be in another
        # site directory.
        words = [sys.executable, "-I", __file__, "helper", runtime_folder()]
        posix.execve(sys.executable, words, _environment())
    finally:
        posix._exit(1)


def _changes_nothing(agent: str, raw: bytes) -> bool:
    key = b'"tool_name":"'
    at = raw.find(key)
    name = raw[at + len(key) :].partition(b'"')[0]
    is_one = at >= 0 and raw.count(b'"tool_name"') == 1
    return is_one and name in _READING.get(agent, ()) and _is_outermost(raw, at)


def _is_outermost(raw: bytes, at: int) -> bool:
    """True if a position in JSON is in the outermost object: a tool's arguments may contain
    anything. Importing `json` for this would take too long."""
    depth = index = 0
    while index < at:
        letter = raw[index : index + 1]
        if letter == b'"':
            index = _end_of_text(raw, index)
            continue
        depth += (letter in (b"{", b"[")) - (letter in (b"}", b"]"))
        index += 1
    return index == at and depth == 1


def _end_of_text(raw: bytes, start: int) -> int:
    """The position after a string's closing quote, or the end of the input if there is none."""
    end = start
    while (end := raw.find(b'"', end + 1)) >= 0:
        back = end - 1
        while raw[back : back + 1] == b"\\":
            back -= 1
        if (end - back) % 2:
            return end + 1
    return len(raw)


def _is_configured(home: str) -> bool:
    try:
        posix.lstat(f"{home}/config.toml")
    except OSError:
        return False
    return True


def _says_block(home: str) -> bool:
    """True if the configuration has `on_failure = "block"`. Read without a TOML parser, because
    nothing can be imported at this point."""
    try:
        text = _config(home)
    except OSError:
        return False
    lines = (line.partition(b"#")[0].translate(None, b" \t\r\"'") for line in text.split(b"\n"))
    return any(b"on_failure=block" in line for line in lines)


def _count_failure(agent: str, home: str) -> None:
    """Append one byte to the counter, as `stores/counters.py` does: nothing can be imported at this
    point."""
    try:
        if agent not in _READING:
            return
        try:  # noqa: SIM105 - `contextlib` is not loaded
            posix.mkdir(f"{home}/tallies", 0o700)
        except FileExistsError:
            pass
        how = posix.O_WRONLY | posix.O_APPEND | posix.O_CREAT | posix.O_NOFOLLOW | posix.O_NONBLOCK
        number = posix.open(f"{home}/tallies/hook_failures.{agent}", how, 0o600)
        posix.write(number, b".")
    except OSError:
        pass


def limited(agent: str, closed: str, home: str) -> None:
    """Give up after `LIMIT` seconds. The next hook finishes what was begun, or rolls it back."""

    def late(*_: object) -> None:
        _count_failure(agent, home)
        _write_all(2, encoded(f"Holdfast: the hook failed: no answer in {LIMIT} seconds\n"))
        posix._exit(2 if closed == "closed" or _says_block(home) else 1)

    _signal.signal(_signal.SIGALRM, late)
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, (_signal.SIGALRM,))
    _signal.setitimer(_signal.ITIMER_REAL, LIMIT)


def _load() -> None:
    """Make Holdfast importable; this file is in its package. Garbage collection is off: a process
    that answers once ends before it would pay."""
    import gc

    gc.disable()
    sys.path.insert(0, __file__.rpartition("/holdfast/hooks/")[0])


def main(words: "list[str]") -> int:
    if words[0] == "helper":
        _load()
        from holdfast.hooks.helper import run

        return run(words[1])
    agent, closed, home = words[:3]
    limited(agent, closed, home)
    try:
        raw = _read_all(0)
    except ValueError as error:
        _load()
        from pathlib import Path

        from holdfast.hooks.serve import refused

        reply = refused(agent, str(error), Path(home), fails_closed=closed == "closed")
        _write_all(2, encoded(reply.err))
        return reply.code
    found = None if words[3:] == ["alone"] else ask(agent, closed, home, raw)
    if found is None:
        quick = not _is_configured(home)
        if quick or _wants_helper(home):
            start_helper()
        if quick and _changes_nothing(agent, raw):
            return 0
        _load()
        from pathlib import Path

        from holdfast.hooks.serve import serve

        reply = serve(agent, Path(home), raw, fails_closed=closed == "closed")
        found = reply.code, encoded(reply.out), encoded(reply.err)
    _write_all(1, found[1])
    _write_all(2, found[2])
    return found[0]


def _config(home: str) -> bytes:
    """Read the configuration; empty if it is a pipe or a device."""
    number = posix.open(f"{home}/config.toml", posix.O_RDONLY | posix.O_NONBLOCK)
    try:
        found = b""
        if posix.fstat(number).st_mode & _TYPE != _FILE:
            return found
        while len(found) <= _MOST_BYTES and (some := posix.read(number, _FULL)):
            found += some
        return found
    finally:
        posix.close(number)


def _wants_helper(home: str) -> bool:
    """True if the configuration allows a helper. An invalid one is reported elsewhere."""
    text = _config(home)
    if b"helper" not in text:
        return True
    import tomllib  # Holdfast loads it next

    try:
        return tomllib.loads(text.decode())["hooks"]["helper"] is not False
    except (ValueError, KeyError, TypeError):
        return True


if __name__ == "__main__":
    try:
        code = main(sys.argv[1:])
    except Exception as error:
        if len(sys.argv) > 3:  # noqa: PLR2004 - the agent is the first of three words
            _count_failure(sys.argv[1], sys.argv[3])
        code = 2 if "closed" in sys.argv[2:3] or any(map(_says_block, sys.argv[3:4])) else 1
        _write_all(2, encoded(f"Holdfast: the hook failed: {type(error).__name__}: {error}\n"))
    posix._exit(code)
