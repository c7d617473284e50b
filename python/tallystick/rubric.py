"""Makes a function a rubric.

A rubric runs in a sandbox that has nothing but Python and the files of the bench,
so this one file is put beside it: ``python -m tallystick vendor bench/CLASS``.

    from tallystick import rubric

    @rubric
    def score(output, expected, metadata):
        return output["answer"] == expected["answer"]

The function returns True or False, a number from 0 to 1 (passed from 0.5 on, or
from ``@rubric(threshold=…)``), or the whole score as an object.
"""

import json
import sys


def rubric(function=None, *, threshold=0.5):
    """Mark a function as the rubric of its file; it runs when the file does."""
    if function is None:
        return lambda f: rubric(f, threshold=threshold)
    if sys.modules["__main__"].__dict__.get("__name__") == "__main__" and function.__module__ == "__main__":
        given = json.load(sys.stdin)
        said = function(given["harness_output"], given["expected"], given["case_metadata"])
        json.dump(full(said, threshold), sys.stdout, allow_nan=False)
    return function


def full(said, threshold=0.5):
    """The six members of a score, from what a rubric returned."""
    if isinstance(said, dict):
        return {"breakdown": {}, "failure_modes": [], "cost_usd": 0, "duration_seconds": 0, **said}
    value = float(said)
    if not 0 <= value <= 1:
        raise ValueError(f"a rubric returned {said!r}, expected True, False, a number from 0 to 1, or a score")
    return {"passed": value >= threshold and value > 0, "score": value, "breakdown": {}, "failure_modes": [], "cost_usd": 0, "duration_seconds": 0}
