"""Each case is a test: pytest --tally CLASS [--tally-target TARGET]."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import pytest

from .tally import Score, TallyError, run, scores


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


class TallyClass(pytest.Collector):
    """One attempt at a class. It is run once, when its cases are collected."""

    def collect(self) -> List["TallyCase"]:
        get = self.config.getoption
        workspace: Optional[str] = get("--tally-workspace")
        result = run(self.name, target=get("--tally-target"), workspace=workspace)
        repeats: Dict[str, int] = {}
        items = []
        for s in sorted(scores(result.attempt.id, workspace=workspace), key=lambda s: (s.case, s.repeat)):
            repeats[s.case] = repeats.get(s.case, 0) + 1
            label = s.case if repeats[s.case] == 1 else f"{s.case}#{s.repeat}"
            items.append(TallyCase.from_parent(self, name=label, score=s, attempt=result.attempt.id))
        return items


class CaseFailed(Exception):
    """A case that did not pass, with what to type next."""


class TallyCase(pytest.Item):
    def __init__(self, *, score: Score, attempt: str, **more: Any) -> None:
        super().__init__(**more)
        self.score, self.attempt = score, attempt

    def runtest(self) -> None:
        s = self.score
        if s.outcome == "skipped":
            pytest.skip(s.reason)
        if s.outcome != "passed":
            said = "; ".join([*s.failure_modes, *([s.reason] if s.reason else [])])
            score = "" if s.score is None else f", score {s.score}"
            raise CaseFailed(f"{s.outcome}{score}{': ' + said if said else ''}\ntally show {self.attempt}:{s.case}")

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        if isinstance(excinfo.value, (CaseFailed, TallyError)):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> Any:
        return self.path, None, f"tally case {self.name}"
