"""Commands over several homes: each home in turn, with one document for all of them."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.main import INTERRUPTED
from holdfast.cli.output import collecting, joined, name, note, print_json, say
from holdfast.cli.report_error import as_holdfast_error, error_document, print_error
from holdfast.cli.streams import OutputError, state
from holdfast.errors import (
    COMMAND_FLAG,
    CannotUndoError,
    DamageError,
    FullDiskError,
    HoldfastError,
    MissingHomeError,
    NothingToUndoError,
    StorageError,
    UsageError,
)
from holdfast.model.text import format_count

if TYPE_CHECKING:
    from holdfast.api.agent_home import AgentHome, UnreadHome
    from holdfast.api.home import Home
    from holdfast.api.plan import HomePlan
    from holdfast.cli.invocation import Invocation, Later
    from holdfast.cli.removal import RemovalFlags

_Function = Callable[..., Any]
#: The exit code of the final step for all homes together, and its part of their document.
Last = tuple[int, dict[str, Any]]
#: The code of a home that has nothing to undo. It is not a failure if another home had something.
_NOTHING_LEFT = -1


def all_homes_option(
    first: Callable[..., int | None] | None = None,
    /,
    *,
    last: Callable[..., Last] | None = None,
    plan: Callable[..., HomePlan] | None = None,
    **alone: str,
) -> Callable[[_Function], _Function]:
    """`--all-homes`: the command runs in every home, one after the other. It cannot be combined
    with the parameters in `alone`. The decorated function takes the invocation first. So does
    `first`, which looks at all homes before; if it returns a code, the command ends with it. `last`
    runs once for all homes, at the end. `plan` returns the plan that the function would apply: on a
    full disk it decides which home comes first."""

    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def over(invocation: Invocation, /, *args: Any, all_homes: bool, **given: Any) -> Any:
            if not all_homes:
                return function(invocation, *args, **given)
            for parameter, what in {"plan_out": "--plan-out", **alone}.items():
                if given.get(parameter) or getattr(given.get("how"), parameter, None):
                    raise UsageError(
                        f"{what} is for one home; it cannot be combined with --all-homes."
                    )
            if invocation.home is not None:
                raise UsageError("--home and --all-homes contradict each other.")
            machine = invocation.machine
            if first is not None and (code := first(invocation, **given)) is not None:
                return code
            homes = machine.homes
            if asks_once(given.get("how"), json=invocation.json):
                invocation.later = []
            if plan is not None:
                asked = {key: value for key, value in given.items() if key != "how"}
                homes = machine.in_order_of_room(lambda home: plan(invocation.at(home), **asked))
            return each_home(
                invocation,
                homes,
                lambda child, _: function(child, *args, **given),
                unread=machine.unread,
                last=None if last is None else functools.partial(last, invocation, **given),
            )

        return click.option(
            "--all-homes", is_flag=True, help="Work on every home of this machine."
        )(over)

    return decorate


def asks_once(how: RemovalFlags | None, *, json: bool) -> bool:
    """Whether a person is asked about all homes together, after every plan was shown. Without a
    terminal, that nobody can be asked is said once."""
    asks = how is not None and not (how.yes or how.dry_run or how.plan_out)
    return asks and not json


def where_they_are(
    invocation: Invocation,
    ids: Sequence[str],
    run: Callable[[Invocation, Sequence[str]], int],
    *,
    how: RemovalFlags | None = None,
    store: bool = True,
    archive: bool = False,
) -> int:
    """Run a command for sessions by id, in the home that has them, or in each home if they are in
    several. Nothing runs before all ids are found."""
    machine = invocation.several()
    if machine is None:
        return run(invocation, ids)
    found = dict(machine.located(ids, surely=True, store=store, archive=archive))
    if len(found) == 1:
        [(home, whole)] = found.items()
        invocation.choose(home)
        return run(invocation, whole)
    if how is not None and how.plan_out is not None:
        raise UsageError(
            "--plan-out is for one home, and these sessions are in several.",
            hint="Pick one with --home.",
        )
    if asks_once(how, json=invocation.json):
        invocation.later = []
    return each_home(invocation, found, lambda child, home: run(child, found[home]))


def each_or_one(
    invocation: Invocation,
    command: Callable[[Invocation], int],
    *,
    what: str,
    is_empty: Callable[[Home], bool],
) -> int:
    """Run a command that only reads, in the named home, in the only one, or otherwise in each.
    Homes in which `what` is empty share a line."""
    if (machine := invocation.several()) is None:
        return command(invocation)

    def has_nothing(home: AgentHome) -> bool:
        with contextlib.suppress(HoldfastError, OSError):
            return is_empty(machine.open(home))
        return False

    empty = [] if invocation.json else [home for home in machine.homes if has_nothing(home)]
    told = [home for home in machine.homes if home not in empty]
    code = 0
    if told or not empty:
        code = each_home(invocation, told, lambda child, _: command(child), unread=machine.unread)
    else:
        code = tell_unread(machine.unread)
    if empty and told:
        say()
    if empty:
        homes = f"all {format_count(len(empty), 'home')}"
        if told:
            homes = "1 other home" if len(empty) == 1 else f"the other {len(empty):,} homes"
        say(f"{what} is empty in {homes}.")
    return code


def each_home(
    invocation: Invocation,
    homes: Iterable[AgentHome],
    command: Callable[[Invocation, AgentHome], int],
    *,
    unread: Sequence[UnreadHome] = (),
    last: Callable[[], Last] | None = None,
) -> int:
    """Run a command in each of these homes, even if it fails in some. The exit code is the largest
    one. The log of each home records the same run. `last` is not run after an interrupt."""
    from holdfast.cli.show_plan import show_together
    from holdfast.model.operation import one_run

    documents: list[dict[str, Any]] = []
    together: dict[str, Any] = {}
    codes: list[int] = []
    waiting: list[tuple[AgentHome, Later]] = []
    invocation.together, invocation.unpruned = [], []
    with one_run():
        homes = iter(homes)
        for number, home in enumerate(homes):
            if not invocation.json:
                if number:
                    say()
                say(joined((f"{home.title}  ", "bold"), name(str(home.path), "bold cyan")))
            with collecting() as said:
                code = _code(invocation.at(home), home, command)
            later = invocation.later or ()
            waiting += [(home, each) for each in later[len(waiting) :]]
            documents += [{"home": str(home.path), "agent": home.agent, **each} for each in said]
            codes.append(code)
            if code == INTERRUPTED or state.stop_asked:
                _name_untouched([*homes])
                codes.append(INTERRUPTED)
                break
        else:
            codes += _agreed(invocation, waiting)
            if last is not None:
                code, together = last()
                codes.append(code)
    if invocation.json:
        print_json({"homes": documents, "failed": failed_json(unread), **together})
    elif codes:
        show_together(invocation.together)
    elif not unread:
        say("There is no home of an agent on this machine.")
    # A home with nothing to undo is not an error, unless that is true of every home.
    told = [code for code in codes if code != _NOTHING_LEFT]
    if codes and not told and not unread:
        return CannotUndoError.exit_code
    return max([*told, tell_unread(unread)])


def _agreed(invocation: Invocation, waiting: Sequence[tuple[AgentHome, Later]]) -> list[int]:
    """Ask once about the plans of all homes, which were shown, and carry out each."""
    from holdfast.cli.removal import ask, print_declined
    from holdfast.cli.show_plan import show_together

    if not waiting:
        return []
    plans = [each.plan for _, each in waiting]
    show_together([(plan, None) for plan in plans])
    undo = "holdfast undo --all-homes"
    if (declined := ask(plans, undo)) is not None:
        return [print_declined(declined)]
    codes: list[int] = []
    for number, (home, each) in enumerate(waiting, 1):
        say()
        say(joined((f"{home.title}  ", "bold"), name(str(home.path), "bold cyan")))
        codes.append(_code(invocation.at(home), home, lambda *_, each=each: each.run()))
        if codes[-1] == INTERRUPTED or state.stop_asked:
            _name_untouched([home for home, _ in waiting[number:]])
            return [*codes, INTERRUPTED]
    return codes


def _name_untouched(homes: Sequence[AgentHome]) -> None:
    """After Ctrl-C: name the homes in which nothing was done."""
    if homes:
        names = ", ".join(home.label for home in homes)
        note(f"Stopped. Nothing was done in: {names}. To continue, run the same command again.")


def _code(child: Invocation, home: AgentHome, run: Callable[[Invocation, AgentHome], int]) -> int:
    try:
        return run(child, home) or 0
    except NothingToUndoError as nothing:
        note(f"note: {nothing.message}")
        if child.json:
            print_json({"applied": False, "note": nothing.message})
        return _NOTHING_LEFT
    except OutputError:
        raise  # our reader exiting is not a failure of this home, and further output would be lost
    except Exception as raised:
        if child.debug:
            raise
        error = as_holdfast_error(raised)  # a bug met in one home does not stop the others
        voice = COMMAND_FLAG.set(child.home_flag)
        try:
            print_error(error, as_json=False)
            if child.json:
                print_json(error_document(error))
        finally:
            COMMAND_FLAG.reset(voice)
        return error.exit_code


def home_json(invocation: Invocation, home: Home) -> dict[str, Any]:
    """Which home a document is about, if there are several."""
    several = invocation.several_homes
    return {"agent": home.kind, "home": str(home.path)} if several else {}


def tell_unread(unread: Sequence[UnreadHome]) -> int:
    """Name the homes that could not be read. The exit code is an error if there were any."""
    for each in unread:
        with _speaking_of(each):
            print_error(with_doctor(each.error), as_json=False)
    return unread[0].error.exit_code if unread else 0


def failed_json(unread: Sequence[UnreadHome]) -> list[dict[str, Any]]:
    found = []
    for each in unread:
        with _speaking_of(each):
            found.append({"home": str(each.path), **error_document(with_doctor(each.error))})
    return found


@contextlib.contextmanager
def _speaking_of(home: UnreadHome) -> Iterator[None]:
    """Within this context, hints name commands that work on this home. One that is not there is
    only in the configuration of Holdfast's own home."""
    from holdfast.cli.invocation import OWN_NAME, quoted

    is_missing = isinstance(home.error, MissingHomeError)
    voice = COMMAND_FLAG.set(f"--home {OWN_NAME if is_missing else quoted(home.path)} ")
    try:
        yield
    finally:
        COMMAND_FLAG.reset(voice)


def with_doctor(error: HoldfastError) -> HoldfastError:
    """The error of a home that cannot be read, with the command that diagnoses it."""
    is_home = isinstance(error, StorageError | DamageError) and not isinstance(
        error, FullDiskError | MissingHomeError
    )
    hint = error.hint or ""
    if is_home and "doctor" not in hint:
        error.hint = f"{hint} To see what is wrong: holdfast doctor".strip()
    return error
