"""The MCP server: it offers the `tools` to an agent, and asks the user before one of them changes
files.

No `from __future__ import annotations` here: the MCP package evaluates the tools' annotations to
build their schemas and questions.
"""

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Annotated, Any, ParamSpec

from mcp.server import MCPServer
from mcp.server.mcpserver import AcceptedElicitation, Context, Elicit, ElicitationResult, Resolve
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, InputRequiredResult, ToolAnnotations
from pydantic import BaseModel, Field, ValidationError

from holdfast import __version__
from holdfast.errors import HoldfastError, UsageError
from holdfast.mcp.tools import Answer, Tools, restore_question, restored, words_of
from holdfast.model.checkpoint import Preview
from holdfast.model.text import one_line

ASK, ALLOW, REFUSE = "ask", "allow", "refuse"
_P = ParamSpec("_P")
_ABOUT = (
    "Holdfast looks after the sessions and file checkpoints of all AI agents on this machine. Use "
    "it to look up what was said or done in earlier sessions of any agent, to see what changed in "
    "a directory since a checkpoint, and to restore a checkpoint."
)


class _Agreed(BaseModel):
    """The user's answer to a question."""

    go_ahead: bool = Field(description="Go ahead with the restore?")


class _Server(MCPServer):
    """Explains in plain text which arguments are wrong; the package would return its validator's
    dump."""

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context | None = None
    ) -> CallToolResult | InputRequiredResult:
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if not isinstance(error.__cause__, ValidationError):
                raise
            raise ToolError(_wrong_arguments(name, error.__cause__)) from error


def _wrong_arguments(tool: str, error: ValidationError) -> str:
    said = []
    for each in error.errors(include_url=False):
        where = one_line(".".join(map(str, each["loc"])))
        missing = each["type"] == "missing"
        said.append(f"{where} is missing" if missing else f"{where}: {one_line(each['msg'])}")
    return f"{tool} got wrong arguments: {'; '.join(said)}."


def server(tools: Tools, *, changes: Callable[[], str]) -> MCPServer:
    """The server with its tools. `changes` returns the current setting: "ask" before a restore,
    "allow" it, or "refuse" it, in which case no checkpoint is taken either. It is read on each
    call, because a server runs as long as its agent."""
    made = _Server("holdfast", instructions=_ABOUT, version=__version__, log_level="WARNING")
    reading = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    for each in tools.reading:
        made.add_tool(_in_words(each), annotations=reading)

    def take_checkpoint(
        directory: str, reason: str = "by an agent", session: str | None = None
    ) -> Answer:
        _unless_refused(changes(), f"{tools.command} checkpoints take")
        return tools.take_checkpoint(directory, reason, session)

    take_checkpoint.__doc__ = tools.take_checkpoint.__doc__
    made.add_tool(
        _in_words(take_checkpoint),
        annotations=ToolAnnotations(destructive_hint=False, open_world_hint=False),
    )

    #: The previews that the user was shown and has not answered: exactly that is done, or nothing.
    shown: dict[tuple[str, ...], Preview] = {}

    def agreed(
        ctx: Context, checkpoint: str, paths: list[str] | None = None
    ) -> Elicit[_Agreed] | _Agreed:
        """Ask the user, but only if a restore would change something."""
        asked = (checkpoint, *(paths or ()))
        with _as_answer():
            by_hand = _restore_by_hand(tools, checkpoint)
            may = _unless_refused(changes(), by_hand)
            with tools.plan_restore(checkpoint, paths, shown=shown.get(asked)) as plan:
                if may == ALLOW or plan.changes_nothing:
                    return _Agreed(go_ahead=True)
                _need_a_user(ctx, by_hand)
                shown[asked] = plan.preview
                return Elicit(restore_question(plan, tools.command), _Agreed)

    def restore_checkpoint(
        checkpoint: str,
        agreed: Annotated[ElicitationResult[_Agreed], Resolve(agreed)],
        paths: list[str] | None = None,
    ) -> Answer:
        """Restore a directory, or only the given paths, to a checkpoint, byte for byte. The user is
        asked first. `holdfast undo` reverts the restore."""
        seen = shown.pop((checkpoint, *(paths or ())), None)
        if not isinstance(agreed, AcceptedElicitation) or not agreed.data.go_ahead:
            raise ToolError("The user declined. Nothing was changed.")
        with _as_answer():
            # The user may have changed the setting while the question was open.
            _unless_refused(changes(), _restore_by_hand(tools, checkpoint))
            with tools.plan_restore(checkpoint, paths, shown=seen) as plan:
                if plan.changes_nothing:
                    return {"written": [], "deleted": [], "operation": None}
                return restored(plan, tools.command)

    made.add_tool(
        restore_checkpoint,
        annotations=ToolAnnotations(destructive_hint=True, open_world_hint=False),
    )
    return made


def _need_a_user(ctx: Context, by_hand: str) -> None:
    """Refuse if the client cannot ask its user."""
    capabilities = ctx.client_capabilities
    if capabilities is None or capabilities.elicitation is None:
        raise UsageError(
            "This changes files, and your client cannot ask its user. "
            f'The user can run `{by_hand}`, or set `changes = "allow"` in [mcp].'
        )


def _restore_by_hand(tools: Tools, checkpoint: str) -> str:
    return f"{tools.command} checkpoints restore {shlex.quote(checkpoint)}"


def _unless_refused(changes: str, by_hand: str) -> str:
    if changes == REFUSE:
        raise UsageError(
            f"The configuration refuses changes through MCP. The user can run `{by_hand}`."
        )
    return changes


@contextmanager
def _as_answer() -> Iterator[None]:
    """Turn our errors into answers that the model can read, instead of stack traces."""
    try:
        yield
    except HoldfastError as error:
        raise ToolError(words_of(error)) from error


def _in_words(tool: Callable[_P, Answer]) -> Callable[_P, Answer]:
    @wraps(tool)
    def told(*args: _P.args, **kwargs: _P.kwargs) -> Answer:
        with _as_answer():
            return tool(*args, **kwargs)

    return told
