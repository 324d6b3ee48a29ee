"""Click, with the behaviour that all Holdfast commands share.

Common flags work before and after the command; each help text ends with an example; groups import a
command's module only when it runs, and know its one-line help without importing it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

import click

from holdfast.cli.changing import CHANGING, asks_first, is_told_to_change, only_looks
from holdfast.cli.flags import COMMON, Flag
from holdfast.cli.invocation import Invocation
from holdfast.cli.output import note
from holdfast.cli.streams import be_quiet, state, tell_held
from holdfast.errors import COMMAND_FLAG
from holdfast.model.durations import minutes_meant
from holdfast.value import dataclass

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_LARGEST = 2**63 - 1
HELP = "help"
#: As wide as a hyphen, and no place to break a line.
_NO_BREAK = "\u2011"
_Function = Callable[..., Any]
_MakesCommand = Callable[[_Function], click.Command]
_FunctionT = TypeVar("_FunctionT", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Lazy:
    """A command that is imported when it is needed: its module, one-line help, and name in the
    module."""

    module: str
    short_help: str
    attribute: str | None = None

    def load(self, name: str) -> click.Command:
        module = importlib.import_module(self.module)
        command: click.Command = getattr(module, self.attribute or name)
        return command


class _HomePath(click.Path):
    """A path that must not be empty: `--home "$UNSET"` is not the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not str(value):
            self.fail("the path is empty", param, ctx)
        return str(value)  # not a `Path`, which turns "./codex" into "codex"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from holdfast.cli.completing import agents

        return [*agents(incomplete)]


class _AgentName(click.types.StringParamType):
    """The name of an agent. Which agents there are depends on the machine."""

    name = "agent"

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from holdfast.cli.completing import agents

        return [each for each in agents(incomplete) if each.type == "plain"]


_TYPES = {"home": _HomePath(), "agent": _AgentName()}


class Choice(click.Choice[str]):
    """One of a few words; a mistyped word gets a suggestion."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        from difflib import get_close_matches

        from holdfast.cli.suggestions import value_named

        if (named := value_named(str(value), ctx)) in self.choices:
            return f"{value!r} is called {named!r} here."
        near = get_close_matches(str(value), self.choices, n=1)
        also = f" Did you mean {near[0]!r}?" if near else ""
        return super().get_invalid_choice_message(value, ctx) + also

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None) -> str:
        """Click puts each word on its own line; our messages are one line."""
        return f"Choose one of: {', '.join(self.choices)}."


def common_options() -> list[click.Parameter]:
    return [
        click.Option(
            [*flag.names],
            **_as_click(flag),
            type=_TYPES.get(flag.parameter),
            expose_value=False,
            callback=_store(flag.parameter),
        )
        for flag in COMMON
    ]


def options(flags: Sequence[Flag]) -> Callable[[_FunctionT], _FunctionT]:
    """Click options for declared flags."""

    def decorate(function: _FunctionT) -> _FunctionT:
        for flag in reversed(flags):
            function = click.option(*flag.names, flag.parameter, **_as_click(flag))(function)
        return function

    return decorate


def option_group(*declared: _Function) -> Callable[[_Function], _Function]:
    """Options that several commands share, as one decorator. Help lists them in this order."""

    def decorate(function: _Function) -> _Function:
        for option in reversed(declared):
            function = option(function)
        return function

    return decorate


def _as_click(flag: Flag) -> dict[str, Any]:
    if flag.metavar is None:
        return {"is_flag": True, "help": flag.help}
    given = {} if flag.many else {"default": flag.default}
    return {"metavar": flag.metavar, "multiple": flag.many, "help": flag.help, **given}


def _store(field: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def callback(ctx: click.Context, _: click.Parameter, value: Any) -> None:
        # Before or after the command, the flag means the same; the inner one takes precedence.
        if value:
            setattr(ctx.ensure_object(Invocation), field, value)

    return callback


def _check_number(value: object, param: click.Parameter, ctx: click.Context) -> None:
    """Refuse numbers that a store cannot hold, which counts in 64 bits. Infinity and NaN pass every
    range check."""
    if isinstance(value, int | float) and not -_LARGEST <= value <= _LARGEST:
        too_large = f"{value:,} is too large; at most {_LARGEST:,}."
        is_nan = value != value  # noqa: PLR0124
        raise click.BadParameter("nan is not a number." if is_nan else too_large, ctx, param)


class _HelpFormatter(click.HelpFormatter):
    """Breaks lines at spaces only: `--older-than` is one word, also for whoever searches for it."""

    def write_text(self, text: str) -> None:
        super().write_text(text.replace("-", _NO_BREAK))

    def write_dl(
        self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2
    ) -> None:
        kept = [(first, second.replace("-", _NO_BREAK)) for first, second in rows]
        super().write_dl(kept, col_max, col_spacing)

    def getvalue(self) -> str:
        return super().getvalue().replace(_NO_BREAK, "-")


class _Context(click.Context):
    formatter_class = _HelpFormatter


class _Framed(click.Command):
    context_class = _Context

    def __init__(self, *args: Any, example: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.example = example
        self.params += common_options()

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        return ["-h", "--help"]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            rest = super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            from holdfast.cli.suggestions import option_error

            raise option_error(error, ctx) from None
        for param in self.params:
            given = ctx.params.get(param.name or "")
            for value in given if isinstance(given, tuple) else (given,):
                _check_number(value, param, ctx)
        return rest

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The command's own options first; the common ones, which are the same everywhere, come
        last."""
        common = {option.name for option in common_options()} | {"help"}
        for title, wanted in (("Options", False), ("Common options", True)):
            rows = [
                record
                for parameter in self.get_params(ctx)
                # Arguments are in the usage line; click 8.5.1 gives them an empty row here.
                if isinstance(parameter, click.Option)
                and (parameter.name in common) is wanted
                and (record := parameter.get_help_record(ctx)) is not None
            ]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        if self.example:
            with formatter.section("Example"):
                for line in self.example.splitlines():
                    formatter.write(f"{'':>{formatter.current_indent}}{line}\n")


class Command(_Framed):
    """A command of Holdfast."""

    def invoke(self, ctx: click.Context) -> Any:
        name = ctx.command_path.partition(" ")[2]
        COMMAND_FLAG.set(ctx.ensure_object(Invocation).home_flag)
        if name in CHANGING:
            _say_minutes(ctx.params)
        may = name in CHANGING and not only_looks(ctx.params)
        changes = is_told_to_change(name, ctx.params)
        # `--dry-run --plan-out FILE | head` still means that file.
        saves = ctx.params.get("plan_out") is not None
        state.only_reads, state.outlives_reader = not may, changes or saves
        state.will_ask = asks_first(name, ctx.params)
        if ctx.ensure_object(Invocation).quiet:
            be_quiet(silent=changes)
        with _ending_as_interrupt() if may else nullcontext():
            result = super().invoke(ctx)
        tell_held(result)
        return result


def _say_minutes(given: Mapping[str, Any]) -> None:
    """Warn about `3m`, which means three months in other tools. Here, such a rule would remove
    almost everything."""
    for flag in ("older_than", "keep_within"):
        meant = minutes_meant(given[flag]) if isinstance(given.get(flag), str) else None
        if meant is not None:
            note(f"note: --{flag.replace('_', '-')} {meant}")


def _ending_as_interrupt() -> AbstractContextManager[None]:
    from holdfast.cli.progress import ending_as_interrupt

    return ending_as_interrupt()


def command(name: str | None = None, **settings: Any) -> _MakesCommand:
    """Turn a function into a command. The function gets the invocation first. `example` is how the
    command is typed."""

    def decorate(function: _Function) -> click.Command:
        return click.command(name, cls=Command, **settings)(click.pass_obj(function))

    return decorate


class Group(_Framed, click.Group):
    """A group whose `lazy` commands are imported one by one, when needed. Called without a command,
    it runs its `default`, or lists its commands."""

    def __init__(
        self,
        *args: Any,
        lazy: Mapping[str, Lazy] | None = None,
        default: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, no_args_is_help=False, invoke_without_command=True, **kwargs)
        self.lazy = dict(lazy or {})
        self.default = default

    def command(self, *args: Any, **settings: Any) -> _MakesCommand:  # type: ignore[override]
        def decorate(function: _Function) -> click.Command:
            made = command(*args, **settings)(function)
            self.add_command(made)
            return made

        return decorate

    def invoke(self, ctx: click.Context) -> Any:
        result = super().invoke(ctx)
        if ctx.invoked_subcommand is not None:
            return result
        if self.default is not None and (usual := self.get_command(ctx, self.default)):
            with usual.make_context(self.default, [], parent=ctx) as below:
                return usual.invoke(below)
        from holdfast.cli.commands.help import show

        return show(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.lazy, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self.lazy:
            return self.lazy[cmd_name].load(cmd_name)
        found = super().get_command(ctx, cmd_name)
        if found is None and cmd_name == HELP:  # `sessions help prune`, as `help sessions prune`
            from holdfast.cli.commands.help import help_

            return help_
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        unknown = self.get_command(ctx, args[0]) is None and not args[0].startswith("-")
        if unknown and not ctx.resilient_parsing:  # no errors during shell completion
            from holdfast.cli.suggestions import command_error

            raise command_error(args[0], self.list_commands(ctx), ctx)
        return super().resolve_command(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.format_commands(ctx, formatter)
        _Framed.format_options(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if rows := self.members(ctx):
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def members(self, ctx: click.Context) -> list[tuple[str, str]]:
        """Its commands, each with its one-line help."""
        return [(name, self._short_help(ctx, name)) for name in self.list_commands(ctx)]

    def _short_help(self, ctx: click.Context, name: str) -> str:
        if name in self.lazy:
            return self.lazy[name].short_help
        command = self.get_command(ctx, name)
        return command.get_short_help_str(limit=200) if command else ""
