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

from .agent import agent, parameters
from .rubric import rubric
from .tally import Attempt, Decision, Run, RunAttempt, Score, TallyError, attempts, attest, run, scores, tally

__all__ = ["agent", "parameters", "rubric", "run", "attempts", "scores", "attest", "tally", "Attempt", "Decision", "Run", "RunAttempt", "Score", "TallyError"]
