"""Drive the ``tally`` program from Python.

    from tallystick import agent, run, scores

    @agent
    def answer(text):
        return "4"

    result = run("arithmetic", target="mine")
    for s in scores(result.attempt.id):
        print(s.case, s.outcome, s.score)

Everything here is what ``tally --json`` says, with types; nothing is computed
and nothing is verified in Python. ``tally`` is found on the path, or named by
the environment variable ``TALLY``.
"""

from typing import TYPE_CHECKING

from .agent import agent, parameters
from .rubric import rubric
from .tally import Attempt, Decision, Run, RunAttempt, Score, TallyError, attempts, attest, run, scores, tally

if TYPE_CHECKING:
    from .evals import Eval, EvalCase, EvalFailed, EvalResult, Hooks

__all__ = ["Eval", "EvalCase", "EvalFailed", "EvalResult", "Hooks", "agent", "parameters", "rubric", "run", "attempts", "scores", "attest", "tally", "Attempt", "Decision", "Run", "RunAttempt", "Score", "TallyError"]


def __getattr__(name: str) -> object:
    # Eval brings a server and an event loop, which an agent in the sandbox does not need.
    if name in ("Eval", "EvalCase", "EvalFailed", "EvalResult", "Hooks"):
        from . import evals

        return getattr(evals, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
