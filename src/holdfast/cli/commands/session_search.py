"""`holdfast sessions search`: find what was said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.frame import Command
from holdfast.cli.invocation import Invocation
from holdfast.cli.session_options import filter_options, session_filter
from holdfast.model.session import Search

if TYPE_CHECKING:
    from rich.text import Text

    from holdfast.model.session import Hit
    from holdfast.ports import Home


@click.command(
    "search",
    cls=Command,
    example='holdfast sessions search "disk full" --source cron\n'
    "holdfast sessions search 'backup* NOT weekly' --newer-than 30d\n"
    "holdfast sessions search --part otal_siz",
)
@click.argument("words", nargs=-1, required=True, metavar="QUERY...")
@click.option("--part", is_flag=True, help="Find a part of a word or identifier.")
@click.option("--role", "roles", multiple=True, metavar="ROLE", help="Said by: user, assistant, …")
@filter_options
@click.option("--archived", is_flag=True, help="In the archive; every bundle is read.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="N",
    help="At most N.",
)
@click.option("--offset", type=click.IntRange(min=0), default=0, metavar="N", help="Skip N.")
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    words: tuple[str, ...],
    *,
    part: bool,
    roles: tuple[str, ...],
    archived: bool,
    limit: int,
    offset: int,
    **flags: Any,
) -> int:
    """Find messages by their words, the best matches first.

    All words must occur. "A phrase" in quotes is found as it stands, word* finds what begins so,
    OR, NOT and parentheses combine. Text in Chinese, Japanese and Korean is found by any part.
    """
    wanted = session_filter(invocation, flags)
    home = invocation.open_place().home
    store = None if archived else home.session_store()
    query = " ".join(words)
    found: Sequence[Hit] = ()
    asked = Search(
        text=query,
        wanted=wanted,
        roles=roles or None,
        limit=limit,
        offset=offset,
        substring=part,
    )
    if archived:
        found = _search_archive(home, asked)
    elif store is not None:
        found = store.search(asked)
    if invocation.json:
        from holdfast.cli.output import print_json

        print_json({"hits": [_document(hit) for hit in found]})
    else:
        close = store.close_words(query) if store is not None and not found and not part else ()
        where = "--archived " if archived else ""
        _show(words, found, close, part=part, flags=(invocation.home_flag, where))
        if not found and not archived and _has_archived(home):
            _suggest_archive(words, invocation.home_flag, part=part)
    return 0


def _has_archived(home: Home) -> bool:
    from holdfast.errors import HoldfastError
    from holdfast.model.archive import Holds
    from holdfast.model.session import SessionFilter

    try:
        return any(each.holds is Holds.SESSION for each in home.archive.find(SessionFilter()))
    except HoldfastError:  # an archive that cannot be read is for doctor; here it is only a hint
        return False


def _suggest_archive(words: tuple[str, ...], home_flag: str, *, part: bool) -> None:
    import shlex

    from holdfast.cli.output import say, suggest

    say("This did not look into the archive. To search there:")
    dashes = "-- " if words[0].startswith("-") else ""
    flags = "--archived --part " if part else "--archived "
    suggest(f"holdfast {home_flag}sessions search {flags}{dashes}{shlex.join(words)}")


def _search_archive(home: Home, asked: Search) -> Sequence[Hit]:
    from holdfast.cli.output import note

    found = home.archive.search(asked)
    for problem in (*home.archive.problems(), *found.problems):
        note(f"warning: {problem.path}: {problem.reason}")
    return found.hits


def _document(hit: Hit) -> dict[str, Any]:
    return {
        "session": hit.session.id,
        "source": hit.session.source,
        "title": hit.session.title,
        "message": hit.message.number,
        "role": hit.message.role,
        "timestamp": hit.message.timestamp,
        "snippet": hit.snippet,
        "score": hit.score,
    }


def _show(
    words: tuple[str, ...],
    found: Sequence[Hit],
    close: Sequence[str],
    *,
    part: bool,
    flags: tuple[str, str],
) -> None:
    import shlex

    from rich.text import Text

    from holdfast.cli.output import name, say, suggest, when

    if not found:
        say(Text.assemble("Nothing was found for ", name(" ".join(words), "bold"), "."))
        if close:
            say(name(f"Words like it that do occur: {', '.join(close)}."))
        if not part:
            say("To look for a part of a word:")
            dashes = "-- " if words[0].startswith("-") else ""
            part_of = dashes + shlex.quote(words[0])
            home_flag, where = flags
            suggest(f"holdfast {home_flag}sessions search {where}--part {part_of}")
        return
    for hit in found:
        moment = when(hit.message.timestamp) if hit.message.timestamp is not None else ""
        said = f"  {hit.message.role}  {moment}"
        head = Text.assemble(name(hit.session.id, "bold"), name(said, "dim"))
        say(head.append_text(name(f"  {hit.session.title or ''}")))
        say(_marked(hit.snippet))
        say()


def _marked(snippet: str) -> Text:
    """The snippet with what matched in bold, brackets kept for terminals without it."""
    import re

    from rich.text import Text

    from holdfast.model.text import one_line

    text = Text("  " + one_line(snippet), overflow="fold")
    text.highlight_regex(re.compile(r"\[[^\[\]]*\]"), "bold magenta")
    return text
