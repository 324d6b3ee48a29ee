"""The program that an agent starts for each hook: python -I -S client.py AGENT CLOSED HOME

It asks the helper. Without one it starts one for the next hook, and does the work itself. Nothing
is imported at first but what the interpreter has built in: an agent waits for this.

CLOSED is `closed` when a tool must not run if this fails, else `open`. HOME is Holdfast's home.
With `alone` behind it asks nobody. With the words `helper FOLDER` it becomes the helper, with its
socket in that folder.
"""

import _signal  # type: ignore[import-not-found]  # `signal` loads more than is needed
import posix
import sys

TYPE_CHECKING = False  # as in `typing`, which would cost too much
if TYPE_CHECKING:
    import _socket

#: A hook about one of these changes nothing and is not worth starting Holdfast for.
_READING = {
    "claude-code": (b"Read", b"Glob", b"Grep", b"TodoWrite", b"WebFetch", b"WebSearch"),
    "gemini": (b"read_file", b"glob", b"list_directory", b"grep_search", b"read_many_files"),
    "codex": (b"view_image", b"update_plan"),
    "opencode": (),
}
#: In the place of an agent: a command that takes a checkpoint.
TAKE = "take"
_TEMPORARY = "/tmp"  # noqa: S108 - a folder in it is used only if it is private
_NEEDED = (b"HOME", b"LANG", b"LC_ALL", b"PATH", b"TMPDIR", b"USER", b"XDG_RUNTIME_DIR")
_TYPE, _FOLDER, _FILE = 0o170000, 0o040000, 0o100000
_LONGEST = 80  # bytes: the name of a socket may have little more than 100
_HEAD_WORDS = 3
#: A helper gives a sign of life twice a second. One that gives none is stopped, and one that gives
#: so many has lost its way.
_SILENT_SECONDS = 2.0
_MOST_SIGNS = 120
#: `connect` tells agents to wait for 120 seconds; one that waited in vain runs the tool. So before
#: that we say ourselves what happens.
LIMIT = 100
_FULL = 65_536
#: No agent says more to a hook; the helper takes no more than that with the home.
_MOST_BYTES = 60 * 1024**2


def runtime_folder() -> str:
    """Where the sockets of helpers are: a folder that nobody else can enter. The one of the session
    counts only if it is there and is ours: `su` and containers pass on that of somebody else."""
    given = posix.environ.get(b"XDG_RUNTIME_DIR", b"")
    folder = given.decode("utf-8", "surrogateescape")
    if folder.startswith("/") and len(given) <= _LONGEST and _is_own(folder, 0o022, links=True):
        return f"{folder}/holdfast"
    return f"{_TEMPORARY}/holdfast-{posix.getuid()}"


def is_private(folder: str) -> bool:
    return _is_own(folder, 0o077, links=False)


def _is_own(folder: str, closed: int, *, links: bool) -> bool:
    """Whether it is a folder of this user in which others lack the rights in `closed`."""
    try:
        status = posix.stat(folder, follow_symlinks=links)
    except OSError:
        return False
    is_folder = status.st_mode & _TYPE == _FOLDER
    return is_folder and status.st_uid == posix.getuid() and not status.st_mode & closed


def identity() -> bytes:
    """Who may answer: a helper that runs this very code, for this home directory, and sees the same
    files. A container may share the folder of the socket and nothing else."""
    package = __file__.rpartition("/hooks/")[0]
    code, root = posix.stat(f"{package}/__init__.py"), posix.stat("/")
    numbers = (code.st_ino, code.st_size, code[8], root.st_dev, root.st_ino)  # 8: whole seconds
    words = [package.encode("utf-8", "surrogateescape"), posix.environ.get(b"HOME", b"")]
    return b"\0".join((*words, *(b"%d" % each for each in numbers)))


def name_for(who: bytes) -> str:
    """How the socket of a helper is called. Perl has no digest without a module to load; that two
    have one name is no harm, because the helper looks at the whole identity."""
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
    if size > _MOST_BYTES:  # read to its end: the agent should not fail to write it
        raise ValueError(f"it was given {size:,} bytes, and {_MOST_BYTES:,} is the most")
    return b"".join(found)


def _write_all(number: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[posix.write(number, rest) :]


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def ask(agent: str, closed: str, home: str, raw: bytes) -> "tuple[int, bytes, bytes] | None":
    """What the helper says; None when there is none, or when it does not answer."""
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
        return None  # it was killed in the middle
    return int(words[0]), rest[: int(words[1])], rest[int(words[1]) :]


def _heard(peer: "_socket.socket") -> bytes:
    """Everything that a helper says, with the blanks by which it shows that it lives."""
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
    """Let a helper go on that somebody stopped: it may have a lock that all others wait for. Only
    Linux tells who it is."""
    import _socket

    which = getattr(_socket, "SO_PEERCRED", None)
    if which is None:
        return False
    said = peer.getsockopt(_socket.SOL_SOCKET, which, 12)
    process = int.from_bytes(said[:4], sys.byteorder)
    if process <= 1:  # it is none that we see
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
    """What the helper needs. It outlives the agent, whose keys it has no business with."""
    given = posix.environ
    return {name: given[name] for name in _NEEDED if name in given}


def start_helper() -> None:
    """Have the helper started as soon as this process has ended: until then it would take time
    from the answer that the agent waits for. It is nobody's child, so nobody waits for it."""
    ended, held = posix.pipe()  # `held` is closed by the end of this process, whatever that is
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
        # Without `-S`: the helper has time, and what it watches with may lie elsewhere than we do.
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
    """Whether a place in JSON is in the outermost object: what a tool is given may hold anything.
    To load the library for it would take longer than the answer may."""
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
    """Behind the quote that ends a text; the end of everything if there is none."""
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
    """What the configuration says about failures, in a moment in which nothing can be loaded."""
    try:
        text = _config(home)
    except OSError:
        return False
    lines = (line.partition(b"#")[0].translate(None, b" \t\r\"'") for line in text.split(b"\n"))
    return any(b"on_failure=block" in line for line in lines)


def _count_failure(agent: str, home: str) -> None:
    """As `stores/counters.py` does, in a moment in which nothing can be loaded: one byte more."""
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
    """Give up in time. Whatever was begun is finished, or taken back, by the next hook."""

    def late(*_: object) -> None:
        _count_failure(agent, home)
        _write_all(2, encoded(f"Holdfast: the hook failed: no answer in {LIMIT} seconds\n"))
        posix._exit(2 if closed == "closed" or _says_block(home) else 1)

    _signal.signal(_signal.SIGALRM, late)
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, (_signal.SIGALRM,))
    _signal.setitimer(_signal.ITIMER_REAL, LIMIT)


def _load() -> None:
    """Make Holdfast importable: this file lies in its package. A process that answers once ends
    before collecting garbage would pay."""
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
    """The configuration; nothing of a pipe or a device in its place."""
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
    """Whether the configuration lets a helper run; one that is wrong is reported elsewhere."""
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
