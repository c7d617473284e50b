"""Evaluates a function: ``Eval(name, data, task, scorers)``.

    from tallystick import Eval

    Eval("capitals",
         data=[{"input": "Capital of France?", "expected": "Paris"}],
         task=lambda question: ask_my_model(question),
         scorers=["squad", lambda output, expected: output == expected])

The function runs in this process, which serves it to ``tally run`` on the loopback;
the attempt is in the ledger like any other. What this process says of itself is not
seen by anybody else, and the record says so: vantage ``reported``, no isolation. With
``sandbox=True`` the function runs in the sandbox of a ``command`` target instead, and
its model calls go through the gateway. docs/code-first.md describes both.
"""

from __future__ import annotations

import asyncio
import atexit
import csv
import hashlib
import hmac
import html
import inspect
import json
import math
import os
import pathlib
import re
import secrets
import signal
import subprocess
import sys
import threading
import traceback
import urllib.parse
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from .tally import Run, TallyError, _error, _program, _run_answer, tally

_MARK = "# Written by Eval of tallystick, and again by each Eval of this name."
_HERE = ".tallystick"  # the workspace that is made where there is none
_MOST = 4 << 20  # bytes of an answer, as tally takes it
_SOUGHT: List[str] = []  # the name of the Eval whose task the sandbox looks for


class EvalFailed(AssertionError):
    """An Eval that did not pass."""


class _Found(BaseException):
    """Ends a program in the sandbox: the task that was looked for is found."""

    def __init__(self, task: Callable[..., Any]):
        super().__init__("found")
        self.task = task


# -- what people get back ------------------------------------------------------


@dataclass
class EvalCase:
    """One case, as ``tally show`` has it, with what this process knows of it."""

    id: str
    input: Any
    expected: Any
    output: Any = None
    outcome: str = ""
    score: Optional[float] = None
    scores: Dict[str, Optional[float]] = field(default_factory=dict)
    reason: str = ""
    tags: List[str] = field(default_factory=list)
    metadata: Dict[str, Any] = field(default_factory=dict)
    repeat: int = 1

    def _told(self) -> str:
        """What was wrong: of an answer that failed, the answer and the one that was wanted."""
        if self.outcome != "failed" or self.output is None:
            return self.reason
        said = _line(_shown(self.output), 30)
        return said if self.expected is None else f"{said}, expected {_shown(self.expected)}"


@dataclass
class EvalResult:
    """What came of an Eval. passed says what ``tally run`` decided by its gates."""

    name: str
    attempt: str
    passed: bool
    cases: List[EvalCase]
    summary: Dict[str, Any]
    run: Run
    command: str
    workspace: str = ""
    code: int = 0  # the exit code of tally run: 4 if a gate is not met, 5 if a request was not answered

    def raise_for_failures(self) -> "EvalResult":
        """Raise EvalFailed unless it passed; give itself back if it did."""
        if not self.passed:
            raise EvalFailed(f"{self.name}: {self.run.refused or 'not passed'}\n{self.command}")
        return self

    def __str__(self) -> str:
        rows = [(c.id, c.outcome, _number(c.score), _line(c._told(), 60)) for c in self.cases[:20]]
        wide = [max([len(r[i]) for r in rows] + [0]) for i in range(3)]
        lines = ["  " + "  ".join([*(r[i].ljust(wide[i]) for i in range(3)), r[3]]).rstrip() for r in rows]
        if len(self.cases) > len(rows):
            lines.append(f"  and {len(self.cases) - len(rows)} more")
        return "\n".join([f"{self.name}: {self._said()}", *lines, self.command])

    def _said(self) -> str:
        s = self.summary
        if s["unanswered"]:
            missing = self.run.raw.get("missing") or {}
            ask = f": {json.dumps(missing['command'])} would pay {missing['estimate']}" if missing else ""
            return f"not answered, so it has no score: {s['unanswered']} of {s['total']} ask something new{ask}"
        parts = [f"{s['passed']} of {s['total']} passed"] + [f"{s[k]} {k}" for k in ("failed", "errors", "unscored", "truncated") if s[k]]
        parts += [f"{k} {_number(v)}" for k, v in s["scores"].items()]
        return ", ".join(parts) + ("" if self.passed else "; NOT PASSED")

    def report(self, path: Optional[str] = None) -> str:
        """Write the attempt as one page that opens from disk and checks itself; give its path.

        Without a path it is reports/ATTEMPT.html in the workspace."""
        at = os.path.abspath(path or os.path.join(self.workspace, "reports", self.attempt + ".html"))
        os.makedirs(os.path.dirname(at), exist_ok=True)
        tally("export", self.attempt, "--format", "html", "-o", at, workspace=self.workspace)
        return at

    @staticmethod
    def _address(path: str) -> str:
        """A link that a notebook opens: relative where it serves the file, else of this machine."""
        name = os.path.relpath(path).replace(os.sep, "/")
        if any(part.startswith(".") for part in name.split("/")):
            return pathlib.Path(path).as_uri()
        return urllib.parse.quote(name)

    def _repr_html_(self) -> str:
        """A table for notebooks. Whatever a model or a data set wrote is text, never markup."""
        cell = lambda v, most=300: f"<td style='text-align:left;white-space:pre-wrap'>{html.escape(_line(v, most))}</td>"
        rows = "".join(
            "<tr>" + cell(c.id) + cell(c.outcome) + cell(_number(c.score)) + cell(_shown(c.input)) + cell(_shown(c.output)) + cell(_shown(c.expected)) + cell(c.reason) + "</tr>"
            for c in self.cases[:100])
        more = f"<p>and {len(self.cases) - 100} more</p>" if len(self.cases) > 100 else ""
        head = "".join(f"<th style='text-align:left'>{h}</th>" for h in ("case", "outcome", "score", "input", "output", "expected", "reason"))
        try:
            link = f'<a href="{html.escape(self._address(self.report()))}">report</a> &middot; '
        except (OSError, TallyError):
            link = ""  # an attempt without a score has none; the commands show what there is
        return (f"<p><b>{html.escape(self.name)}</b>: {html.escape(self._said())}</p><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}"
                f"<p>{link}<code>{html.escape(self.command)}</code> &middot; <code>{html.escape(self.command.replace('tally show', 'tally view', 1))}</code></p>")


def _number(v: Optional[float]) -> str:
    return "-" if v is None else f"{v:.3g}"


def _line(text: str, most: int) -> str:
    """Text in one line, without what a terminal obeys."""
    text = "".join(c if c.isprintable() else " " for c in text[: most + 1])
    return text if len(text) <= most else text[: most - 1] + "…"


# -- texts that tally takes ----------------------------------------------------


def _text(s: str) -> str:
    """The text without halves of characters, which UTF-8 does not have."""
    return s.encode("utf-8", "backslashreplace").decode("utf-8")


def _plain(v: Any, depth: int = 0) -> Any:
    """A value as JSON that every reader understands alike; what has no such form becomes text."""
    if v is None or isinstance(v, bool):
        return v
    if isinstance(v, str):
        return _text(str(v))
    if isinstance(v, int):
        return int(v) if abs(v) < 2**53 else str(v)
    if isinstance(v, float):
        return float(v) if math.isfinite(v) and (v == 0 or 1e-300 < abs(v) < 1e300) else str(v)
    if depth < 20 and isinstance(v, Mapping):
        return {_text(str(k)): _plain(x, depth + 1) for k, x in v.items()}
    if depth < 20 and isinstance(v, (list, tuple)):
        return [_plain(x, depth + 1) for x in v]
    if isinstance(v, (bytes, bytearray)):
        return bytes(v).decode("utf-8", "backslashreplace")
    for name in ("model_dump", "dict", "to_dict"):  # pydantic and its like
        f = getattr(v, name, None)
        if depth < 20 and callable(f) and not isinstance(v, type):
            try:
                return _plain(f(), depth + 1)
            except Exception:
                break
    return _text(str(v))


def _shown(v: Any) -> str:
    """A value as the text that tally has of it."""
    if v is None:
        return ""
    plain = _plain(v)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def _slug(text: str, most: int = 60) -> str:
    return re.sub(r"[^A-Za-z0-9._]+", "-", text)[:most].strip("-.")


def _look(name: str) -> str:
    """What tally compares, so that no two names look alike."""
    name = name.lower()
    for a, b in (("rn", "m"), ("vv", "w"), ("0", "o"), ("1", "l"), ("i", "l"), ("_", "-")):
        name = name.replace(a, b)
    return name


def _rows(data: Any) -> Iterable[Any]:
    if callable(data):
        data = data()
    if inspect.isawaitable(data):
        return asyncio.run(_awaited(data))
    if isinstance(data, os.PathLike) or isinstance(data, str):
        path = os.fspath(data)
        if path.endswith(".csv"):
            with open(path, encoding="utf-8-sig", newline="") as f:
                return list(csv.DictReader(f))
        with open(path, encoding="utf-8-sig") as f:
            return [json.loads(line) for line in f if line.strip()]
    return data


async def _awaited(v: Any) -> Any:
    return await v


def _cases(data: Any) -> List[EvalCase]:
    """The cases of the data, each with an id that tally takes."""
    cases: List[EvalCase] = []
    given: Dict[str, int] = {}
    taken: Dict[str, int] = {}
    for at, row in enumerate(_rows(data), 1):
        get = row.get if isinstance(row, Mapping) else lambda k, default=None, r=row: getattr(r, k, default)
        if (isinstance(row, Mapping) and "input" not in row) or (not isinstance(row, Mapping) and not hasattr(row, "input")):
            raise ValueError(f'row {at} of the data has no "input": {row!r:.80}')
        c = EvalCase(id="", input=get("input"), expected=get("expected"), tags=list(get("tags") or []), metadata=dict(get("metadata") or {}))
        said = get("id")
        said = "" if said is None else str(said)
        text = _shown(c.input)
        mark = hashlib.sha256(json.dumps([text, _plain(c.expected), said], ensure_ascii=False, separators=(",", ":")).encode()).hexdigest()[:8]
        if said:
            if said in given:
                raise ValueError(f"rows {given[said]} and {at} of the data have the same id {said!r:.80}; give each its own, or none")
            given[said] = at
            # An id that tally takes stays as it is; another keeps its beginning.
            c.id = said if re.fullmatch(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?", said) else f"{_slug(said, 80) or 'case'}-{mark}"
        else:
            c.id = f"{_slug(text, 32).lower() or 'case'}-{mark}"
        look = _look(c.id)
        taken[look] = taken.get(look, 0) + 1
        if taken[look] > 1:
            c.id = f"{c.id[:88]}-{mark}" if said else f"{c.id}-{taken[look]}"
        cases.append(c)
    if not cases:
        raise ValueError("the data has no rows")
    return cases


# -- scorers -------------------------------------------------------------------


@dataclass
class _Scorer:
    name: str
    check: Dict[str, Any]  # as dataset.jsonl has it
    function: Optional[Callable[..., Any]] = None


def _scorers(given: Any, threshold: float) -> List[_Scorer]:
    pairs: List[Tuple[str, Any]] = list(given.items()) if isinstance(given, Mapping) and not ("grader" in given or "kind" in given) else [("", s) for s in ([given] if callable(given) or isinstance(given, (str, Mapping)) else given)]
    made: List[_Scorer] = []
    for name, s in pairs:
        if isinstance(s, str):
            s = {"grader": s}
        if isinstance(s, Mapping):
            rule = {k: _plain(v) for k, v in s.items() if k not in ("grader", "name")}
            rule["kind"] = s.get("grader") or s.get("kind")
            if not rule["kind"]:
                raise ValueError(f'the scorer {dict(s)!r:.80} names no grader; expected {{"grader": "squad"}}, with the members that docs/formats/grading.md has for it')
            made.append(_Scorer(_named(name or s.get("name") or rule["kind"], made), {"grade": rule}))
        elif callable(s):
            said = name or getattr(s, "__name__", type(s).__name__)
            n = _named("scorer" if said == "<lambda>" else said, made)
            made.append(_Scorer(n, {"grade": {"kind": "reported", "scorer": n, "threshold": threshold}}, s))
        else:
            raise ValueError(f"a scorer is {s!r:.80}, expected a function or the name of a grader")
    if not made:
        raise ValueError('there are no scorers; expected functions of (input, output, expected), or graders such as "squad" or {"grader": "contains"}')
    return made


def _named(name: Any, others: Sequence[_Scorer]) -> str:
    base = (_slug(str(name), 50) or "scorer").lower()
    base = base if base != "grade" else "grade-1"
    n, i = base, 1
    while any(o.name == n for o in others):
        i += 1
        n = f"{base}-{i}"
    return n


def _arguments(f: Callable[..., Any], known: Dict[str, Any], order: Sequence[str]) -> Tuple[List[Any], Dict[str, Any]]:
    """What to call a function with: the names that it has, or else the order of ours."""
    try:
        takes = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return [known[k] for k in order], {}
    if any(p.kind == p.VAR_KEYWORD for p in takes):
        return [], dict(known)
    if any(p.name in known for p in takes):
        return [], {p.name: known[p.name] for p in takes if p.name in known and p.kind != p.POSITIONAL_ONLY}
    room = sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in takes)
    if any(p.kind == p.VAR_POSITIONAL for p in takes):
        room = len(order)
    return [known[k] for k in order][:room], {}


def _reported(name: str, said: Any) -> Dict[str, Any]:
    """What a scorer returned, as it is reported to tally."""
    reason = ""
    if said is not None and not isinstance(said, (bool, int, float)):
        get = said.get if isinstance(said, Mapping) else lambda k, default=None: getattr(said, k, default)
        if not (isinstance(said, Mapping) and "score" in said) and not hasattr(said, "score"):
            return {"name": name, "reason": _text(f"it returned {said!r:.200}, expected True, False, a number from 0 to 1, None, or an object with a score")}
        more = get("metadata") or {}
        reason = get("reason") or (more.get("rationale") if isinstance(more, Mapping) else "") or ""
        said = get("score")
    out: Dict[str, Any] = {"name": name}
    if reason:
        out["reason"] = _text(str(reason))[:500]
    if said is None:
        return {**out, "skipped": True}
    try:
        value = float(said)
    except (TypeError, ValueError):
        value = math.nan
    if not 0 <= value <= 1:  # NaN is neither
        return {"name": name, "reason": _text(f"it returned {said!r:.200}, expected a number from 0 to 1")}
    return {**out, "score": value}


def _raised(e: BaseException) -> str:
    """An exception and where it came from: its last lines, the message first."""
    said = "".join(traceback.format_exception_only(type(e), e)).strip()
    frames = [f for f in traceback.extract_tb(e.__traceback__) if os.path.dirname(f.filename) != os.path.dirname(__file__)]
    at = "".join(f"; at {os.path.basename(f.filename)}:{f.lineno} in {f.name}" for f in frames[-1:-4:-1])
    return _text(said[:1200] + at)


# -- the process that is asked ---------------------------------------------------


class _Process:
    """Answers tally: runs the task and the scorers, each call in a thread of its own."""

    def __init__(self, cases: List[EvalCase], task: Callable[..., Any], scorers: List[_Scorer], timeout: float):
        self.cases = {c.id: c for c in cases}
        self.task, self.scorers, self.timeout = task, [s for s in scorers if s.function], timeout
        self.token = secrets.token_urlsafe(24)
        self.outputs: Dict[str, List[Tuple[Any, Dict[str, Optional[float]]]]] = {}
        self.lock = threading.Lock()
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True, name="tallystick-loop").start()
        process = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                if not hmac.compare_digest(self.headers.get("Authorization", "").encode(), f"Bearer {process.token}".encode()):
                    return self.send_error(403)
                asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length", "0"))))
                body = json.dumps(process.answer(asked)).encode()
                if len(body) > _MOST:
                    body = json.dumps({"error": f"the output has {len(body)} bytes as JSON, more than the {_MOST} that tally takes; return a summary or a path"}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads, block_on_close, request_queue_size = True, False, 128

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass  # tally gave up on the call, and says so itself

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True, name="tallystick-tasks").start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.loop.call_soon_threadsafe(self.loop.stop)

    def call(self, f: Callable[..., Any], args: List[Any], named: Dict[str, Any]) -> Any:
        """Call a function, sync or async, and give up on it after the timeout."""
        done: List[Tuple[bool, Any]] = []

        def work() -> None:
            try:
                value = f(*args, **named)
                if inspect.isawaitable(value):
                    value = asyncio.run_coroutine_threadsafe(_awaited(value), self.loop).result(self.timeout)
                result = (True, value)
            except BaseException as e:  # SystemExit too: it ends the case, not the run
                result = (False, e)
            done.append(result)

        thread = threading.Thread(target=work, daemon=True, name="tallystick-task")
        thread.start()
        thread.join(self.timeout)
        if not done:
            raise TimeoutError(f"it took longer than {self.timeout:g} seconds; it may still be running in this process")
        ok, value = done[0]
        if not ok:
            raise value
        return value

    def answer(self, asked: Dict[str, Any]) -> Dict[str, Any]:
        c = self.cases.get(asked.get("case", ""))
        if c is None:
            return {"error": f"there is no case {asked.get('case')!r:.80} in the data of this Eval"}
        try:
            output = self.call(self.task, *_task_arguments(self.task, c))
        except BaseException as e:
            return {"error": _raised(e)}
        try:
            text = _shown(output)
        except BaseException as e:
            return {"error": f"the output cannot be told: {_raised(e)}"}
        scores = [self.score(s, c, output) for s in self.scorers]
        with self.lock:
            self.outputs.setdefault(c.id, []).append((output, {s["name"]: s.get("score") for s in scores}))
        return {"answer": text, **({"scores": scores} if scores else {})}

    def score(self, s: _Scorer, c: EvalCase, output: Any) -> Dict[str, Any]:
        known = {"input": c.input, "output": output, "expected": c.expected, "metadata": c.metadata}
        try:
            assert s.function is not None
            return _reported(s.name, self.call(s.function, *_arguments(s.function, known, ("input", "output", "expected"))))
        except BaseException as e:
            return {"name": s.name, "reason": _raised(e)[:1500]}


@dataclass
class Hooks:
    """What a task may ask for as its second argument."""

    id: str
    metadata: Dict[str, Any]
    tags: List[str]


def _task_arguments(task: Callable[..., Any], c: EvalCase) -> Tuple[List[Any], Dict[str, Any]]:
    try:
        takes = [p for p in inspect.signature(task).parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    except (TypeError, ValueError):
        takes = []
    if len(takes) > 1 and (takes[1].default is inspect.Parameter.empty or takes[1].name in ("hooks", "metadata")):
        return [c.input, c.metadata if takes[1].name == "metadata" else Hooks(c.id, c.metadata, c.tags)], {}
    return [c.input], {}


def _code(functions: Iterable[Callable[..., Any]]) -> str:
    """What this process says its code is: the source of the functions, not of what they call."""
    h = hashlib.sha256()
    for f in functions:
        try:
            h.update(inspect.getsource(f).encode())
        except (OSError, TypeError):
            code = getattr(f, "__code__", None)
            h.update(code.co_code + repr(code.co_consts).encode() if code else type(f).__qualname__.encode())
    return "sha256:" + h.hexdigest()


# -- the files of a workspace ------------------------------------------------------


def _workspace(given: Optional[str]) -> str:
    """The workspace: the one that is named, the nearest one, or one that is made here."""
    if given is None:
        at = os.getcwd()
        while True:
            for here in (at, os.path.join(at, _HERE)):
                if os.path.isfile(os.path.join(here, "tally.yaml")):
                    return here
            up = os.path.dirname(at)
            if up == at:
                break
            at = up
        given = _HERE
    if not os.path.isfile(os.path.join(given, "tally.yaml")):
        tally("init", given)
    return given


def _write(path: str, text: str) -> None:
    """Write a file of ours. One that a person wrote or changed is left alone."""
    mine = lambda body: f"{_MARK} sha256:{hashlib.sha256(body.encode()).hexdigest()}\n{body}"
    if os.path.lexists(path):
        with open(path, encoding="utf-8") as f:
            head, _, body = f.read().partition("\n")
        if mine(body) != f"{head}\n{body}":
            raise FileExistsError(f"{path} was not written by Eval, or was changed since; give this Eval another name, or the task another target name")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".new", "w", encoding="utf-8", newline="\n") as f:
        f.write(mine(text))
    os.replace(path + ".new", path)


def _quote(text: str) -> str:
    return json.dumps(_text(text), ensure_ascii=False)


def _write_class(workspace: str, name: str, cases: List[EvalCase], scorers: List[_Scorer], gates: Optional[List[Dict[str, Any]]], timeout: float) -> str:
    class_name = _slug(name, 90)
    if not class_name:
        raise ValueError(f"the name {name!r:.80} has no letters or digits of ASCII; tally needs one for the folder of the class")
    folder = os.path.join(workspace, "bench", class_name)
    lines = []
    for c in cases:
        line: Dict[str, Any] = {"id": c.id, "input": _shown(c.input), "checks": [{"name": s.name, **s.check} for s in scorers]}
        if not line["input"].strip():
            line["input"] = json.dumps(_plain(c.input))
        if c.expected is not None:
            line["expected"] = _plain(c.expected)
        if c.tags:
            line["tags"] = sorted({_slug(str(t), 100) for t in c.tags} - {""})
        if c.metadata:
            line["metadata"] = _plain(c.metadata)
        lines.append(json.dumps(line, ensure_ascii=False))
    data = "\n".join(lines) + "\n"
    dataset = os.path.join(folder, "dataset.jsonl")
    registration = [f"class: {class_name}", "trust: scratch", f"title: {_quote(_line(name, 70))}", "breakdown: " + json.dumps([s.name for s in scorers])]
    registration.append(f"# dataset: sha256:{hashlib.sha256(data.encode()).hexdigest()}")
    if timeout > 100:
        registration.append(f"limits: {{wall_clock_seconds: {min(86400, math.ceil(3 * timeout))}}}")
    if gates is not None:
        registration.append("gates: " + json.dumps(gates))
    path = os.path.join(folder, "registration.yaml")
    if os.path.isdir(folder) and os.listdir(folder):
        _check_ours(path, dataset, name)
    _write(path, "\n".join(registration) + "\n")
    with open(dataset + ".new", "w", encoding="utf-8", newline="\n") as f:
        f.write(data)
    os.replace(dataset + ".new", dataset)
    return class_name


def _check_ours(registration: str, dataset: str, name: str) -> None:
    """Refuse a class that a person wrote or changed, or that is of another name."""
    try:
        with open(registration, encoding="utf-8") as f:
            said = f.read()
        with open(dataset, "rb") as d:
            digest = hashlib.sha256(d.read()).hexdigest()
    except OSError:
        said, digest = "", "none"
    folder = os.path.dirname(registration)
    if not said.startswith(_MARK) or f"# dataset: sha256:{digest}\n" not in said:
        raise FileExistsError(f"{folder} was not written by Eval, or was changed since; give this Eval another name")
    if f"title: {_quote(_line(name, 70))}\n" not in said:
        raise FileExistsError(f"{folder} is of an Eval with another name that has the same letters; give this Eval another name")


def _write_target(workspace: str, name: str, settings: List[str]) -> str:
    _write(os.path.join(workspace, "targets", name + ".yaml"), "\n".join(["version: 1", *settings]) + "\n")
    return name


def _source(workspace: str, main: str) -> str:
    """The folder of a program, or else the program alone, as a target names it: relative to
    a folder that the workspace lies in, up to the top of the repository."""
    for wanted in (os.path.dirname(main), main):
        at = os.path.realpath(workspace)
        while True:
            name = os.path.relpath(wanted, at)
            if name != "." and not name.startswith(".."):
                return name.replace(os.sep, "/")
            if os.path.exists(os.path.join(at, ".git")) or os.path.dirname(at) == at:
                break
            at = os.path.dirname(at)
    raise ValueError(f"{main} does not lie in the repository of the workspace {workspace}; with sandbox=True tally must find it there")


def _sandboxed(workspace: str, name: str, cases: List[EvalCase], scorers: List[_Scorer]) -> List[str]:
    """The settings of a target that runs the program that calls Eval in the sandbox."""
    functions = [s.name for s in scorers if s.function]
    if functions:
        raise ValueError(f"the scorer {functions[0]} is a function of this process, and with sandbox=True the answer is graded by tally: use a grader, such as \"squad\", or a rubric (docs/python.md), or sandbox=False")
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    if not main:
        raise ValueError("sandbox=True needs a program in a file, which tally can start again; in a notebook use sandbox=False")
    if sys.prefix == sys.base_prefix:
        raise ValueError("sandbox=True needs a virtual environment with tallystick in it, so that the sandbox has the packages of this program; make one with: python -m venv .venv")
    texts = sum(isinstance(c.input, str) for c in cases)
    if texts not in (0, len(cases)):
        raise ValueError("with sandbox=True the inputs are all texts, or none is: the task is given what tally has of them")
    main = os.path.realpath(main)
    return ["kind: command", "command:", f"  command: [python, \"-m\", tallystick, task, {_quote('/agent/' + os.path.basename(main))}, {_quote(name)}, {'text' if texts else 'json'}]",
            "  input: json", f"  source: {_quote(_source(workspace, main))}", f"  venv: {_quote(sys.prefix)}", "  warm: python"]


# -- Eval ----------------------------------------------------------------------------


def Eval(name: str, data: Any, task: Callable[..., Any], scorers: Any = (), *, scores: Any = None, threshold: float = 0.5, gates: Optional[List[Dict[str, Any]]] = None,
         max_concurrency: int = 10, trials: int = 1, timeout: float = 60, sandbox: bool = False, target: Optional[str] = None, workspace: Optional[str] = None,
         flags: Sequence[str] = (), quiet: bool = False) -> EvalResult:
    """Run a task over data, score what it returns, and record the attempt.

    data: dicts with input, and expected, id, tags, metadata if you like; an iterable, a
    function, or the path of a JSONL or CSV file. scorers: functions of (input, output,
    expected), or names of graders. threshold: the score from which a scorer passes a
    case. gates: as registration.yaml has them; by default every case must pass.
    """
    if _SOUGHT:
        if name == _SOUGHT[0]:
            raise _Found(task)
        return None  # type: ignore[return-value]  # another Eval of the same program
    if not callable(task):
        raise TypeError(f"the task is {task!r:.80}, expected a function of an input")
    if not (0 < threshold <= 1) or not timeout > 0 or max_concurrency < 1 or trials < 1:
        raise ValueError("expected a threshold above 0 and at most 1, a timeout above 0, and at least one case at once and one trial")
    cases, made = _cases(data), _scorers(scores if scores is not None else scorers, threshold)
    place = _workspace(workspace)
    label = target or getattr(task, "__name__", "task")
    label = _slug("task" if label == "<lambda>" else label, 60) or "task"
    class_name = _write_class(place, name, cases, made, gates, timeout)
    wanted = ["run", class_name, "--jobs", str(max_concurrency), *(["--repeat", str(trials)] if trials > 1 else []), *flags]
    if sandbox:
        wanted += ["--target", _write_target(place, label, _sandboxed(place, name, cases, made))]
        (run, status), outputs = _run(wanted, place, {}), {}
    else:
        code = _code([task, *(s.function for s in made if s.function)])
        most = min(86400, math.ceil(timeout * (1 + sum(1 for s in made if s.function))) + 5)
        wanted += ["--target", _write_target(place, label, ["kind: http", f"http: {{in_process: true, code: {_quote(code)}, timeout_seconds: {most}}}"])]
        process = _Process(cases, task, made, timeout)
        try:
            (run, status), outputs = _run(wanted, place, {"TALLY_TASK_URL": process.url, "TALLY_TASK_TOKEN": process.token}), process.outputs
        finally:
            process.close()
    result = _result(name, run, place, cases, made, outputs)
    result.code = status
    _finish(result, quiet)
    return result


def _run(args: List[str], workspace: str, more: Dict[str, str]) -> Tuple[Run, int]:
    """Run tally and wait for it. Ctrl-C ends it in order, so that what is finished stays."""
    p = subprocess.Popen([_program(), *args, "--json", "--quiet", "--workspace", workspace], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         text=True, encoding="utf-8", env={**os.environ, **more})
    try:
        out, err = p.communicate()
    except BaseException:
        p.send_signal(signal.SIGINT)
        try:
            p.communicate(timeout=30)
        except BaseException:
            p.kill()
            p.communicate()
        print(f"interrupted; what is finished is in the ledger: tally log --class {args[1]} --workspace {_word(workspace)}", file=sys.stderr)
        raise
    done = subprocess.CompletedProcess(p.args, p.returncode, out, err)
    if p.returncode not in (0, 4, 5) or not out.strip():
        raise _error(done)
    refused = "" if p.returncode == 0 else _error(done).message
    return _run_answer(json.loads(out.strip().splitlines()[-1]), p.returncode, refused), p.returncode


def _result(name: str, run: Run, workspace: str, cases: List[EvalCase], scorers: List[_Scorer], outputs: Dict[str, List[Tuple[Any, Dict[str, Optional[float]]]]]) -> EvalResult:
    known = {c.id: c for c in cases}
    rows = []
    for s in tally("show", run.attempt.id, workspace=workspace)["cases"]:
        c = known[s["case"]]
        had = outputs.get(c.id, [])
        # Trials of one case end in any order: only one that ran once has an output of its own here.
        output, said = had[0] if len(had) == 1 else (None, {})
        rows.append(EvalCase(id=c.id, input=c.input, expected=c.expected, output=output, outcome="unanswered" if s.get("unanswered") else s["outcome"], score=s["score"], scores=dict(said),
                             reason=s.get("reason") or "; ".join(s.get("failure_modes") or []), tags=c.tags, metadata=c.metadata, repeat=s["repeat"]))
    summary: Dict[str, Any] = {k: getattr(run, k) for k in ("total", "passed", "failed", "errors", "unscored", "truncated", "skipped", "mean_score")}
    summary["unanswered"] = run.raw.get("unanswered", 0)  # of the errors and the unscored: what asks something new
    summary["scores"] = {}
    for s in scorers:
        if s.function:
            got = [v for of in outputs.values() for _, all_of in of for v in [all_of.get(s.name)] if v is not None]
            summary["scores"][s.name] = sum(got) / len(got) if got else None
    where = "" if os.path.abspath(workspace) == os.getcwd() else f" --workspace {_word(os.path.relpath(workspace))}"
    return EvalResult(name=name, attempt=run.attempt.id, passed=run.ok, cases=rows, summary=summary, run=run, command=f"tally show {run.attempt.id}{where}", workspace=os.path.abspath(workspace))


def _word(text: str) -> str:
    import shlex

    return shlex.quote(text)


# -- the end of a program --------------------------------------------------------------

_failed: List[EvalResult] = []


def _finish(result: EvalResult, quiet: bool) -> None:
    if not quiet and not _in_notebook():
        print(result, flush=True)
    if not result.passed and _is_program(sys._getframe(2)):
        if not _failed:
            atexit.register(_end)
        _failed.append(result)


def _in_notebook() -> bool:
    return "get_ipython" in vars(sys.modules.get("builtins", object()))


def _is_program(caller: Any) -> bool:
    """Whether a program that is run from a file calls Eval itself: not a test, not a prompt."""
    return caller.f_globals.get("__name__") == "__main__" and not hasattr(sys, "ps1") and not _in_notebook() and bool(getattr(sys.modules.get("__main__"), "__file__", None))


def _end() -> None:
    """End with the status of tally, so that CI is not green over an Eval that did not pass."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(max(r.code for r in _failed))


def task_main(path: str, name: str, form: str) -> int:
    """In the sandbox: find the task of the Eval called name in the program, and answer one turn."""
    answer_to, sys.stdout = sys.stdout, sys.stderr
    turn = json.loads(sys.stdin.buffer.read().decode("utf-8"))
    import runpy

    sys.path.insert(0, os.path.dirname(path))
    _SOUGHT.append(name)
    try:
        runpy.run_path(path, run_name="__main__")
    except _Found as found:
        task = found.task
    else:
        print(f"{path}: no Eval called {name!r} was reached", file=sys.stderr)
        return 2
    given = json.loads(turn["input"]) if form == "json" else turn["input"]
    output = task(*_task_arguments(task, EvalCase(id="", input=given, expected=None))[0])
    if inspect.isawaitable(output):
        output = asyncio.run(_awaited(output))
    answer_to.buffer.write(_shown(output).encode("utf-8"))
    answer_to.flush()
    return 0
