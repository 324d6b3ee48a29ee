"""An agent's whole loop: a session, checkpoints and a guard, with a model that follows a script.

Nothing here needs a network. Run it with `python examples/agent_loop.py`.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import holdfast
from holdfast import BudgetExceededError, Budgets, Level, Message, Tokens

Reply = tuple[str, list[Any], Tokens]  # what a model says, the tools it wants, what it used

BUDGETS = Budgets(tokens=20_000, iterations=25, wall_seconds=600, messages_per_minute=120)


def work(home: Path, project: Path, model: Iterator[Reply], task: str) -> holdfast.Session:
    """Let the model work on a task until it is done, or until somebody stops it."""
    with holdfast.open(home, create=True) as opened:
        sessions = opened.sessions
        session = sessions.create(source="cli", model="scripted", cwd=project)
        guard = sessions.guard(session.id, budgets=BUDGETS)
        recorder = opened.checkpoints.recorder(session=session.id, workdirs=[project])
        sessions.append(session.id, Message(role="user", content=task))
        try:
            while True:
                with guard.call() as call:  # refused here, before it costs anything
                    text, tools, used = next(model)  # yours, with sessions.messages(session.id)
                    reply = Message("assistant", text, tool_calls=tools or None, tokens=used)
                    call.append(reply)  # stores it, counts what it used, and ends the call
                if not tools:
                    return sessions.end(session.id, "done")
                recorder.new_turn()  # one checkpoint of each directory that this turn changes
                for tool in tools:
                    result, failed = run_tool(project, recorder, **tool)
                    advice = guard.tool_result(tool["name"], tool["arguments"], failed=failed)
                    result += f"\n\n{advice.text}" if advice else ""  # for the model
                    sessions.append(session.id, Message(role="tool", content=result))
                    if advice.level is Level.STOP:  # for you
                        return sessions.end(session.id, "stuck")
        except BudgetExceededError as error:
            print(f"  {error.message}")
        return sessions.get(session.id)  # the guard has ended it, with the reason


def run_tool(
    project: Path, recorder: holdfast.Recorder, name: str, arguments: dict[str, str]
) -> tuple[str, bool]:
    """What a tool says, and whether it failed."""
    path = project / arguments["path"]
    try:
        if name == "write":
            recorder.before_change(path)
            path.write_text(arguments["text"], encoding="utf-8")
            return f"wrote {path.name}", False
        return path.read_text(encoding="utf-8"), False
    except OSError as error:
        return f"{name} failed: {error.strerror}", True


def careful() -> Iterator[Reply]:
    """A model that does what it was asked to."""
    used, notes = Tokens(input=900, output=80), {"path": "notes.txt"}
    yield "I look first.", [{"name": "read", "arguments": notes}], used
    yield "I write.", [{"name": "write", "arguments": notes | {"text": "Buy milk.\n"}}], used
    yield "Done.", [], used


def stubborn() -> Iterator[Reply]:
    """A model that asks for the same missing file until somebody stops it."""
    while True:
        tool = {"name": "read", "arguments": {"path": "missing.txt"}}
        yield "Once more.", [tool], Tokens(input=500, output=20)


def runaway() -> Iterator[Reply]:
    """A model that always finds something to write, and never ends."""
    for number in range(1_000_000):
        tool = {"name": "write", "arguments": {"path": "log.txt", "text": f"{number}\n"}}
        yield "And another.", [tool], Tokens(input=1_500, output=100)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        home, project = Path(folder, "home"), Path(folder, "project")
        project.mkdir()
        (project / "notes.txt").write_text("Buy bread.\n", encoding="utf-8")
        for model in (careful, stubborn, runaway):
            print(f"{model.__name__}:")
            session = work(home, project, model(), "Put milk on my list.")
            print(f"  ended ({session.end_reason}) after {session.tokens.total:,} tokens")


if __name__ == "__main__":
    main()
