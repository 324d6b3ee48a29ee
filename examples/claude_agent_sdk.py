"""An agent of the Claude Agent SDK whose sessions are in a Holdfast home.

    pip install claude-agent-sdk
    python examples/claude_agent_sdk.py "What is in this folder?"
    python examples/claude_agent_sdk.py "And in the one above?" SESSION

The second call goes on with the session of the first one, also on another machine that has the same
store. `holdfast sessions list` shows it with all others.
"""

from __future__ import annotations

import asyncio
import sys

from claude_agent_sdk import AssistantMessage, ClaudeAgentOptions, ResultMessage, TextBlock, query

from holdfast.adapters.claude_agent_sdk import HoldfastSessionStore


async def main(prompt: str, session: str | None) -> None:
    async with HoldfastSessionStore("~/.holdfast") as store:
        options = ClaudeAgentOptions(session_store=store, resume=session)
        async for message in query(prompt=prompt, options=options):
            if isinstance(message, AssistantMessage):
                for block in message.content:
                    if isinstance(block, TextBlock):
                        print(block.text)
            elif isinstance(message, ResultMessage):
                print(f"\nTo go on: {sys.argv[0]} PROMPT {message.session_id}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], next(iter(sys.argv[2:]), None)))
