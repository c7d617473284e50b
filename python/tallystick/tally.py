"""Calls the program and gives its JSON types."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass, field, fields
from typing import Any, Dict, List, Optional, Sequence, Tuple


class TallyError(Exception):
    """What tally refused: its name, its hint and its exit code."""

    def __init__(self, message: str, name: str = "", hint: str = "", code: int = 1):
        super().__init__(message + (f" ({hint})" if hint else ""))
        self.message, self.name, self.hint, self.code = message, name, hint, code


def _program() -> str:
    found = os.environ.get("TALLY") or shutil.which("tally")
    if not found:
        raise TallyError("the program tally was not found", "NotFound", "put it on the PATH, or name it in the environment variable TALLY", 2)
    return found


def _call(args: Sequence[str], workspace: Optional[str], accept: Sequence[int]) -> Tuple[Any, int, str]:
    where = ["--workspace", workspace] if workspace else []
    done = subprocess.run([_program(), *args, "--json", *where], capture_output=True, text=True, encoding="utf-8")
    if done.returncode not in accept or not done.stdout.strip():
        raise _error(done)
    lines = done.stdout.strip().splitlines()
    refused = "" if done.returncode == 0 else _error(done).message
    return (json.loads(lines[0]) if len(lines) == 1 else [json.loads(line) for line in lines]), done.returncode, refused


def tally(*args: str, workspace: Optional[str] = None) -> Any:
    """Run one command with --json and return its answer, or raise TallyError.

    JSON lines give a list.
    """
    return _call(args, workspace, (0,))[0]


def _error(done: "subprocess.CompletedProcess[str]") -> TallyError:
    for line in reversed(done.stderr.strip().splitlines()):
        try:
            said = json.loads(line)
            return TallyError(said["error"], said.get("name", ""), said.get("hint", ""), said.get("code", done.returncode))
        except (ValueError, KeyError, TypeError):
            continue
    return TallyError(done.stderr.strip() or f"tally ended with status {done.returncode}", code=done.returncode)


def _typed(kind: Any, said: Dict[str, Any], **more: Any) -> Any:
    """Make a dataclass of the members that it has; the rest stays in raw."""
    known = {f.name for f in fields(kind)} - {"raw"}
    return kind(**{**{k: v for k, v in said.items() if k in known}, **more}, raw=said)


@dataclass(frozen=True)
class RunAttempt:
    id: str
    number: int
    level: str
    properties: List[str] = field(default_factory=list)
    raw: Dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Decision:
    """What was decided about an attempt, as every command of tally says it.

    undecided: its gates are neither met nor missed, because it left cases of the class out.
    """

    met: bool
    by: str
    reason: str
    undecided: bool = False
    raw: Dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Run:
    """The answer of ``tally run``. ok says that its exit code was 0; refused says why not."""

    attempt: RunAttempt
    target: str
    total: int
    passed: int
    failed: int
    skipped: int
    unscored: int
    truncated: int
    errors: int
    mean_score: Optional[float]
    failure_modes: List[str]
    cost_usd: Optional[float]
    isolation_class: str
    head: str
    ok: bool
    decision: Optional[Decision] = None
    refused: str = ""
    raw: Dict[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Attempt:
    """One line of ``tally log``."""

    id: str
    target: str
    number: int
    level: str
    started_at: str
    finished: bool
    total: int
    passed: int
    failed: int
    errors: int
    unscored: int
    truncated: int
    not_run: int
    cost_usd: Optional[float]
    gate_met: Optional[bool]
    decision: Optional[Decision] = None
    raw: Dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def class_name(self) -> str:
        return self.raw["class"]


@dataclass(frozen=True)
class Score:
    """One repetition of one case. score is None where there is none."""

    case: str
    repeat: int
    outcome: str
    score: Optional[float]
    turns: int
    latency_ms: int
    cost_usd: Optional[float]
    reason: str = ""
    failure_modes: List[str] = field(default_factory=list)
    raw: Dict[str, Any] = field(default_factory=dict, repr=False)


def run(class_name: str, *flags: str, target: Optional[str] = None, workspace: Optional[str] = None) -> Run:
    """Run an attempt. A gate that is not met gives a Run whose ok is False."""
    chosen = ["--target", target] if target else []
    return _run_answer(*_call(["run", class_name, *chosen, *flags], workspace, (0, 4)))


def _run_answer(said: Dict[str, Any], code: int, refused: str) -> Run:
    return _typed(Run, said, attempt=_typed(RunAttempt, said["attempt"]), ok=code == 0, refused=refused, decision=_decision(said))


def _decision(said: Dict[str, Any]) -> Optional[Decision]:
    return _typed(Decision, said["decision"]) if said.get("decision") else None


def attempts(class_name: Optional[str] = None, target: Optional[str] = None, workspace: Optional[str] = None) -> List[Attempt]:
    """The attempts of the ledger, the newest first."""
    chosen = (["--class", class_name] if class_name else []) + (["--target", target] if target else [])
    return [_typed(Attempt, a, decision=_decision(a)) for a in tally("log", *chosen, workspace=workspace)["attempts"]]


def scores(attempt: str, workspace: Optional[str] = None) -> List[Score]:
    """The cases of an attempt, those that did not pass first."""
    return [_typed(Score, c) for c in tally("show", attempt, workspace=workspace)["cases"]]


def attest(what: str, *flags: str, workspace: Optional[str] = None) -> Dict[str, Any]:
    """A credential of an attempt or of a results file, as ``tally attest`` gives it."""
    return tally("attest", what, *flags, workspace=workspace)
