"""Each case is a test, and so is the gate: pytest --tally CLASS [--tally-target TARGET].

pytest is red exactly if "tally run" is: a case that did not pass in an attempt which
its gates take all the same is an expected failure, and a gate that is not met fails,
whichever tests -k chose.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import pytest

from .tally import Run, Score, TallyError, run, scores, tally


def pytest_addoption(parser: Any) -> None:
    group = parser.getgroup("tallystick")
    group.addoption("--tally", action="append", default=[], metavar="CLASS", help="run this task class; each case is a test")
    group.addoption("--tally-target", default=None, metavar="TARGET", help="the agent under test")
    group.addoption("--tally-workspace", default=None, metavar="DIR", help="the workspace (default: as tally finds it)")


# First, so that -k and --deselect of pytest see the cases.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: Any, config: Any, items: List[Any]) -> None:
    for name in config.getoption("--tally"):
        try:
            items.extend(TallyClass.from_parent(session, name=name, nodeid=f"tally:{name}").collect())
        except TallyError as e:
            raise pytest.UsageError(f"tally run {name}: {e}") from e


def pytest_sessionfinish(session: Any, exitstatus: int) -> None:
    quiet = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    if quiet and not session.config.option.collectonly and any(not r.ok for _, r in _runs(session.config)):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int, config: Any) -> None:
    for name, result in _runs(config):
        terminalreporter.write_line(f"tally {name}: {_said(result)}")


def _runs(config: Any) -> List[Tuple[str, Run]]:
    """The attempts of this session, by class."""
    config._tally_runs = getattr(config, "_tally_runs", [])
    return config._tally_runs


def _said(result: Run) -> str:
    d = result.decision
    if not result.ok or d is None:
        return f"NOT MET: {result.refused}"
    return f"gate {'not decided' if d.undecided else 'met'}: {d.reason}"


class TallyClass(pytest.Collector):
    """One attempt at a class. It is run once, when its cases are collected."""

    def collect(self) -> List[Any]:
        get = self.config.getoption
        workspace: Optional[str] = get("--tally-workspace")
        result = run(self.name, target=get("--tally-target"), workspace=workspace)
        _runs(self.config).append((self.name, result))
        repeats: Dict[str, int] = {}
        items: List[Any] = []
        for s in sorted(scores(result.attempt.id, workspace=workspace), key=lambda s: (s.case, s.repeat)):
            repeats[s.case] = repeats.get(s.case, 0) + 1
            label = s.case if repeats[s.case] == 1 else f"{s.case}#{s.repeat}"
            items.append(TallyCase.from_parent(self, name=label, score=s, attempt=result.attempt.id, allowed=result.ok))
        items.append(TallyGate.from_parent(self, name="gate", result=result))
        return items


# The longest text of a check that a failure shows; "tally why" shows all of it.
_MOST = 500


def _check(attempt: str, case: str, workspace: Optional[str]) -> List[str]:
    """The check that decided, and what it found and wanted. Of a held-out case tally
    gives digests in place of texts."""
    try:
        checks = tally("why", f"{attempt}:{case}", workspace=workspace)["checks"]
    except (TallyError, KeyError):
        return []  # a help to people: without it the failure is as red
    failed = [c for c in checks if c["outcome"] != "passed" and c.get("weight", 1) > 0]
    leaves = [c for c in failed if c["grader"] not in ("all", "any", "weighted")]
    for c in (leaves or failed)[:1]:
        name = f"{c['check']} ({c['grader']})" if c.get("check") else c["grader"]
        lines = [f"check {name}: {_line(c.get('why', ''))}"]
        for label, member in (("found", "extracted"), ("wanted", "expected")):
            if c.get(member):
                lines.append(f"  {label}: {_line(c[member].get('head', ''))}")
        return lines
    return []


def _line(text: str) -> str:
    """One line that is safe on a terminal, of a bounded length."""
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return shown if len(shown) <= _MOST else shown[:_MOST] + "…"


class CaseFailed(Exception):
    """A case or a gate that did not pass, with what to type next."""


class TallyItem(pytest.Item):
    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        if isinstance(excinfo.value, (CaseFailed, TallyError)):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)


class TallyGate(TallyItem):
    """What was decided about the attempt: green exactly if the gate is met."""

    def __init__(self, *, result: Run, **more: Any) -> None:
        super().__init__(**more)
        self.result = result

    def runtest(self) -> None:
        if not self.result.ok:
            raise CaseFailed(f"{self.result.refused}\ntally show {self.result.attempt.id}")
        if self.result.decision is not None and self.result.decision.undecided:
            pytest.skip(_said(self.result))

    def reportinfo(self) -> Any:
        return self.path, None, f"tally gate of {self.result.raw['class']}"


class TallyCase(TallyItem):
    def __init__(self, *, score: Score, attempt: str, allowed: bool, **more: Any) -> None:
        super().__init__(**more)
        self.score, self.attempt, self.allowed = score, attempt, allowed

    def runtest(self) -> None:
        s = self.score
        if s.outcome == "skipped":
            pytest.skip(s.reason)
        if s.outcome != "passed":
            said = "; ".join([*s.failure_modes, *([s.reason] if s.reason else [])])
            score = "" if s.score is None else f", score {s.score}"
            text = f"{s.outcome}{score}{': ' + said if said else ''}"
            if self.allowed:
                pytest.xfail(f"{text}; allowed by the gates")
            # Its first line is all that the summary of pytest shows.
            name, *lines = _check(self.attempt, s.case, self.config.getoption("--tally-workspace")) or [""]
            if name:
                text, lines = f"{s.outcome}{score}: {name}", [*([said] if said else []), *lines]
            lines = [text, *lines]
            raise CaseFailed("\n".join([*lines, f"tally why {self.attempt}:{s.case}"]))

    def reportinfo(self) -> Any:
        return self.path, None, f"tally case {self.name}"
