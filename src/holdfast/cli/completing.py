"""Shell completion for the word at the cursor. It runs at every press of the tab key: so it is
quick, changes nothing, and reports no errors, which would only clutter the line."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.cli.invocation import Invocation, here
from holdfast.model.text import one_line

if TYPE_CHECKING:
    import click
    from click.shell_completion import CompletionItem

    from holdfast.api.completion_words import Offer


_Offers = Callable[[Invocation, str], Iterable["Offer"]]


def _completer(offered: _Offers) -> Callable[..., Sequence[CompletionItem]]:
    """Turn a function that offers words of a home into a click completer. On errors it offers
    nothing."""

    @functools.wraps(offered)
    def complete(
        ctx: click.Context, _param: click.Parameter, incomplete: str
    ) -> Sequence[CompletionItem]:
        invocation = ctx.find_root().ensure_object(Invocation)
        with suppress(Exception):
            try:
                return _items(offered(invocation, incomplete))
            finally:
                invocation.close()
        return []

    return complete


@_completer
def session_ids(invocation: Invocation, incomplete: str) -> Iterable[Offer]:
    """Sessions of the chosen home, or of all homes."""
    from holdfast.api import completion_words

    return completion_words.sessions(_homes(invocation), incomplete)


@_completer
def sources(invocation: Invocation, incomplete: str) -> Iterable[Offer]:
    from holdfast.api import completion_words

    return (
        each for root in _homes(invocation) for each in completion_words.sources(root, incomplete)
    )


@_completer
def checkpoint_ids(invocation: Invocation, incomplete: str) -> Iterable[Offer]:
    from holdfast.api import completion_words

    return completion_words.checkpoints(invocation.open_place(), incomplete, here())


@_completer
def operations(invocation: Invocation, incomplete: str) -> Iterable[Offer]:
    """Numbers of operations, of the named home or of our own."""
    from holdfast.api import completion_words

    return completion_words.operations(invocation.open_place(), incomplete)


def command_words(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> Sequence[CompletionItem]:
    """The commands that can follow the words so far, for `help`."""
    import click

    page = ctx.parent or ctx
    for word in ctx.params.get(param.name or "") or ():
        command = page.command
        member = command.get_command(page, word) if isinstance(command, click.Group) else None
        if member is None:
            return []
        page = click.Context(member, info_name=word, parent=page)
    if not isinstance(page.command, click.Group):
        return []
    return page.command.shell_complete(page, incomplete) if not incomplete.startswith("-") else []


def files_and_agents(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> Sequence[CompletionItem]:
    return agents(incomplete, type_="file")


def agents(incomplete: str, *, type_: str = "dir") -> Sequence[CompletionItem]:
    """Names of agents that have a home here, and folders, as the shell completes them."""
    from click.shell_completion import CompletionItem

    folders = CompletionItem(incomplete, type=type_)
    with suppress(Exception):
        from holdfast.api import completion_words

        return [folders, *_items(completion_words.agents(Path.home(), os.environ, incomplete))]
    return [folders]


def keys(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> Sequence[CompletionItem]:
    """Keys of the configuration."""
    from holdfast.api.completion_words import Offer
    from holdfast.config.kinds import dotted
    from holdfast.config.settings import KEYS

    names = (Offer(dotted(key.path), " ".join(key.about)) for key in KEYS)
    return _items(each for each in names if each.word.startswith(incomplete))


def sections(
    _ctx: click.Context, _param: click.Parameter, incomplete: str
) -> Sequence[CompletionItem]:
    from holdfast.api.completion_words import Offer
    from holdfast.config.settings import TABLES

    return _items(Offer(each) for each in TABLES if each.startswith(incomplete))


def _homes(invocation: Invocation) -> Sequence[Path]:
    from holdfast.api import completion_words

    if invocation.chosen_home is not None:
        return [invocation.chosen_home]
    return completion_words.homes(invocation.user_home, os.environ)


def _items(offered: Iterable[Offer]) -> Sequence[CompletionItem]:
    """Each word once. The description is shown on the line of its word, so it must be a single
    line."""
    from click.shell_completion import CompletionItem

    words = {each.word: one_line(each.about) for each in offered if each.word.isprintable()}
    return [CompletionItem(word, help=about or None) for word, about in words.items()]
