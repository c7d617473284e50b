"""Makes a function the agent under test.

    from tallystick import agent

    @agent
    def answer(text, history):
        return my_agent.ask(text)

A target starts it with ``python -m tallystick FILE``. The function is given the
user's words; if it takes a second argument, also what was said before: a list of
``{"role": "user" | "assistant", "content": "…"}``. What it returns is the answer.
"""

from __future__ import annotations

import inspect
import json
import os
import runpy
import sys
from typing import Any, Callable, Dict, List

_agents: List[Callable[..., Any]] = []


def agent(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function as the agent of its file."""
    _agents.append(function)
    return function


def parameters() -> Dict[str, str]:
    """The parameters of the target's variant, as texts; a file by its path."""
    start = "TALLY_PARAM_"
    return {k[len(start):].lower(): v for k, v in os.environ.items() if k.startswith(start)}


def _messages(history: List[Dict[str, Any]]) -> List[Dict[str, str]]:
    """The history with the roles and names that the model APIs use."""
    out = []
    for m in history:
        role = m.get("role", "user")
        out.append({"role": "assistant" if role == "agent" else role, "content": m.get("content", m.get("text", ""))})
    return out


def main(path: str) -> int:
    """Answer one turn: JSON {turn, input, history}, or plain text, on standard input."""
    # What the agent prints is not its answer: only what it returns is.
    answer_to, sys.stdout = sys.stdout, sys.stderr
    # UTF-8 whatever the locale says: the words come from a file, not a keyboard.
    given = sys.stdin.buffer.read().decode("utf-8")
    runpy.run_path(path, run_name="tallystick_agent")
    if len(_agents) != 1:
        print(f"{path}: expected one function marked @agent, found {len(_agents)}", file=sys.stderr)
        return 2
    try:
        turn = json.loads(given)
        text, history = turn["input"], _messages(turn.get("history", []))
    except (ValueError, TypeError, KeyError):
        text, history = given, []
    wanted = len(inspect.signature(_agents[0]).parameters)
    answer = _agents[0](*(text, history)[:max(1, min(wanted, 2))])
    if inspect.isawaitable(answer):
        import asyncio

        async def waited() -> Any:
            return await answer

        answer = asyncio.run(waited())
    answer_to.buffer.write(("" if answer is None else str(answer)).encode("utf-8"))
    answer_to.flush()
    return 0
