"""Data, tasks and scorers that do what they should not: one case each, and the others go on."""
import asyncio
import math
import os
import sys
import time
import urllib.error
import urllib.request

import tallystick.evals
from tallystick import Eval, EvalFailed, TallyError


def task(x, hooks):
    print("not an answer")
    k = hooks.metadata["k"]
    if k == "big":
        return "x" * 10_000_000
    if k == "none":
        return None
    if k == "odd":
        return {"a": math.nan, "b": 2**80, "c": b"\xff", "d": {1}, 7: "seven"}
    if k == "unicode":
        return "h\ud800é\u202e😀"
    if k == "exit":
        sys.exit(0)
    if k == "raise":
        raise RuntimeError("no <b>such</b> thing")
    if k == "fork":
        child = os.fork()
        if child:
            os.waitpid(child, 0)
        return "forked"
    if k == "hang":
        time.sleep(1000)
    if k == "interrupt":
        raise KeyboardInterrupt
    return "<script>alert(1)</script>\x1b[2J"


def wrong_number(output):
    return math.nan if output == "forked" else 1


def raises(input, output, expected):
    if output is None:
        raise ValueError("the scorer broke")
    return True


async def waits(output, **more):
    await asyncio.sleep(0)
    return None if output == "forked" else {"name": "other", "score": 1.0, "reason": "ok \x1b[2J"}


names = ["big", "none", "odd", "unicode", "exit", "raise", "fork", "hang", "interrupt", "html"]
data = [{"id": f"{k}/../x", "input": {"k": k, "half \ud800": "\udfff"}, "metadata": {"k": k, "n": math.inf}, "tags": ["a b", "ünï"]} for k in names]
name = 'Hostile / ../ "Eval": <i>'
r = Eval(name, data, task, [wrong_number, raises, waits], timeout=3, quiet=True)
got = {c.id.split("-..-")[0]: c for c in r.cases}
want = {"big": "errored", "none": "unscored", "odd": "passed", "unicode": "passed", "exit": "errored", "raise": "errored", "fork": "unscored", "hang": "errored", "interrupt": "errored", "html": "passed"}
assert {k: c.outcome for k, c in got.items()} == want, {k: (c.outcome, c.reason) for k, c in got.items()}
for k, said in {"big": "more than the 4194304", "none": "ValueError: the scorer broke; at hostile.py:", "exit": "SystemExit: 0", "raise": "RuntimeError: no <b>such</b> thing; at hostile.py:",
                "fork": "it returned nan", "hang": "took longer than 3 seconds", "interrupt": "KeyboardInterrupt"}.items():
    assert said in got[k].reason, (k, got[k].reason)
assert not r.passed and r.code == 4 and r.summary["passed"] == 3 and r.summary["errors"] == 5 and r.summary["unscored"] == 2, r.summary
page = r._repr_html_()
assert "<script>" not in page and "<b>such" not in page and "<i>" not in page and "\x1b" not in page + str(r), page
assert f'<a href="file://{os.path.realpath(".tallystick")}/reports/{r.attempt}.html">' in page and os.path.exists(r.report()), page[-600:]
assert got["html"].scores == {"wrong_number": 1.0, "raises": 1.0, "waits": 1.0}, got["html"].scores
try:
    r.raise_for_failures()
    raise SystemExit("a failure was not raised")
except EvalFailed as e:
    assert "tally show" in str(e), e


def refused(kind, words, *args, **more):
    try:
        Eval(*args, **{"quiet": True, **more})
    except kind as e:
        assert words in str(e), e
    else:
        raise SystemExit(f"not refused: {words}")


one = [{"input": "a", "expected": "a"}]
same = lambda x: x
refused(ValueError, "rows 1 and 2", "twice", [{"id": "x", "input": 1}, {"id": "x", "input": 2}], same, ["exact"])
refused(ValueError, "no rows", "empty", [], same, ["exact"])
refused(ValueError, 'row 1 of the data has no "input"', "rowless", [{"question": 1}], same, ["exact"])
refused(ValueError, "no scorers", "unscored", one, same, [])
refused(ValueError, "no letters", "/../", one, same, ["exact"])
refused(TypeError, "expected a function", "tasks", one, "same", ["exact"])
refused(TallyError, "kind", "unknown", one, same, ["no_such_grader"])
refused(TallyError, "llm", "words", one, same, {"llm_judge": lambda output: 1})
refused(FileExistsError, "another name", 'Hostile-..-"Eval"-<i>', one, same, ["exact"])
refused(ValueError, "function of this process", "boxed", one, same, [lambda output: 1], sandbox=True)
# What a person wrote is left alone: a class, a target, a data set that was changed.
os.makedirs(".tallystick/bench/mine", exist_ok=True)
with open(".tallystick/bench/mine/registration.yaml", "w") as f:
    f.write("class: mine\ntrust: scratch\n")
refused(FileExistsError, "was not written by Eval", "mine", one, same, ["exact"])
with open(".tallystick/targets/theirs.yaml", "w") as f:
    f.write("version: 1\nkind: builtin\n")
refused(FileExistsError, "was not written by Eval", "theirs", one, same, ["exact"], target="theirs")
assert Eval("changed", one, same, ["exact"], quiet=True).passed
with open(".tallystick/bench/changed/dataset.jsonl", "a") as f:
    f.write("\n")
refused(FileExistsError, "was changed since", "changed", one, same, ["exact"])
assert open(".tallystick/bench/mine/registration.yaml").read() == "class: mine\ntrust: scratch\n"

# Rows that look alike, the same row twice, no text at all: each is a case of its own.
alike = Eval("alike", [{"id": "case_1", "input": ""}, {"id": "case-l", "input": None}, {"input": "x"}, {"input": "x"}, {"input": "X"}], lambda x: "y", ["absent", lambda: True], quiet=True)
assert len(alike.cases) == 5 and len({c.id for c in alike.cases}) == 5, alike.cases
# A second Eval of the same name with other data is another bench, and its attempts are compared.
assert Eval("alike", one, same, ["exact"], quiet=True).attempt != alike.attempt

# The port answers nobody but tally.
cases = tallystick.evals._cases(one)
process = tallystick.evals._Process(cases, lambda x: "secret", [], 5)
for token in ("", "Bearer ", "Bearer x", "bearer " + process.token):
    try:
        urllib.request.urlopen(urllib.request.Request(process.url, b'{"case": "%s"}' % cases[0].id.encode(), {"Authorization": token}))
        raise SystemExit(f"answered to {token!r}")
    except urllib.error.HTTPError as e:
        assert e.code == 403, e
process.close()
print("all as expected")
