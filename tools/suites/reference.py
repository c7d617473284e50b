"""Generated outputs with the verdicts of the official code of public suites.

Prints a line of JSON for each: scorer, expected, output, passed. Which outputs depends on
the seed alone. The official functions are used as their packages have them; modules that
they import and do not need for a verdict (the vendors' clients) are left out, so that the
packages need none of what these need.

    reference.py SEED ROWS
"""

import ast
import builtins
import enum
import importlib.util
import json
import os
import random
import re
import string
import sys
import tempfile
import types

import numpy

rnd = random.Random(int(sys.argv[1]))
rows = int(sys.argv[2])


def row(scorer, expected, output, passed):
    print(json.dumps({"scorer": scorer, "expected": expected, "output": output, "passed": bool(passed)}))


def source(package, path):
    root = importlib.util.find_spec(package).submodule_search_locations[0]
    with open(root + "/" + path, encoding="utf-8") as f:
        return f.read()


def functions(text, names, scope):
    """Takes functions and classes out of a module and runs nothing else of it."""
    found = [n for n in ast.parse(text).body if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and n.name in names]
    assert len(found) == len(names), names
    exec(compile(ast.Module(found, []), "official", "exec"), scope)
    return scope


# ---- BFCL

class Config:
    def __init__(self, underscore):
        self.underscore_to_dot = underscore


def stand_in(name, **members):
    module = types.ModuleType(name)
    vars(module).update(members)
    sys.modules[name] = module


stand_in("bfcl_eval.constants.model_config", MODEL_CONFIG_MAPPING={"prompting": Config(False), "fc": Config(True)})
for language in ("java", "js"):
    name = f"{language}_type_converter"
    stand_in(f"bfcl_eval.eval_checker.ast_eval.type_convertor.{name}", **{name: None})

from bfcl_eval.constants.enums import Language, ReturnFormat
from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker

bfcl = functions(
    source("bfcl_eval", "model_handler/utils.py"),
    {"default_decode_ast_prompting", "ast_parse", "resolve_ast_call", "resolve_ast_by_type"},
    {"ast": ast, "re": re, "json": json, "builtins": builtins, "ReturnFormat": ReturnFormat},
)
functions(source("bfcl_eval", "utils.py"), {"is_function_calling_format_output", "is_empty_output"}, bfcl)


def decode(output, fc):
    if not fc:
        return bfcl["default_decode_ast_prompting"](output)
    calls = []  # as the handler of OpenAI's chat completions does
    for call in json.loads(output):
        name = list(call.keys())[0]
        calls.append({name: json.loads(call[name])})
    return calls


def bfcl_verdict(category, function, truth, output, fc):
    try:
        calls = decode(output, fc)
    except Exception:
        calls = None
    if "relevance" in category:
        called = calls is not None and not bfcl["is_empty_output"](calls)
        return (not called) if "irrelevance" in category else called
    if calls is None or not bfcl["is_function_calling_format_output"](calls):
        return False
    return ast_checker(function, calls, truth, Language.PYTHON, category, "fc" if fc else "prompting")["valid"]


def lines(path):
    return [json.loads(line) for line in source("bfcl_eval", path).splitlines() if line]


CATEGORIES = ["simple_python", "multiple", "parallel", "parallel_multiple", "live_simple", "live_multiple", "live_parallel",
              "live_parallel_multiple", "irrelevance", "live_irrelevance", "live_relevance"]
tasks = []
for category in CATEGORIES:
    truths = {}
    if "relevance" not in category:
        truths = {t["id"]: t["ground_truth"] for t in lines(f"data/possible_answer/BFCL_v4_{category}.json")}
    for task in lines(f"data/BFCL_v4_{category}.json"):
        tasks.append((category, task["function"], truths.get(task["id"])))


def accepted(value):
    if isinstance(value, dict):
        picked = {k: one_of(v) for k, v in value.items()}
        return {k: v for k, v in picked.items() if v is not None}
    if isinstance(value, list):
        return [accepted(item) for item in value]
    return value


def one_of(values):
    values = [v for v in values if v != ""] if isinstance(values, list) else [values]
    return accepted(rnd.choice(values)) if values else None


def nearly(v):
    """Another value that is nearly the same, or as models write it."""
    if isinstance(v, bool):
        return rnd.choice([not v, str(v), int(v), v])
    if isinstance(v, int):
        return rnd.choice([v + 1, float(v), str(v), bool(v), v, -v])
    if isinstance(v, float):
        return rnd.choice([v + 0.1, int(v), str(v), v])
    if isinstance(v, str):
        return rnd.choice([v.upper(), v + " ", v.replace(" ", "-"), v + "x", v.replace(",", "\n"), "O'" + v, v + ".", v.title(), "\u00e9" + v, ""])
    if isinstance(v, list):
        w = list(v)
        how = rnd.choice(["reversed", "shorter", "longer", "tuple", "item", "empty"])
        if how == "reversed":
            w.reverse()
        elif how == "shorter" and w:
            w.pop()
        elif how == "longer":
            w.append(rnd.choice([1, "x", 1.0, None, {}]))
        elif how == "tuple":
            return tuple(w)
        elif how == "item" and w:
            w[0] = nearly(w[0])
        elif how == "empty":
            w = []
        return w
    if isinstance(v, dict):
        w = dict(v)
        how = rnd.choice(["less", "more", "value", "text"])
        if how == "less" and w:
            w.pop(rnd.choice(list(w)))
        elif how == "more":
            w["zz"] = 1
        elif how == "value" and w:
            key = rnd.choice(list(w))
            w[key] = nearly(w[key])
        elif how == "text":
            return str(w)
        return w
    return v


# What models write beside calls, and spellings of calls on which parsers differ.
ODD = [
    '[]', '', 'I cannot help.', '[x]', "['no']", '[f()]', 'f()', '```python\n[f(a=1)]\n```', '[{}]', 'f(a=1);', '[f(a=1),]', 'f(from=1)', 'f(1,a=2)',
    'f(a=1,2)', 'f(a=-1)', 'f(a=+5)', 'f(a=not 5)', 'f(a=~5)', 'f(a=--5)', 'f(a=f"x")', 'f(a={1,2})', 'f(a=b.c)', 'f(a=...)', 'f(a=1+2)',
    'f(a="a"*3)', 'f(a=2**3)', 'f(a=x[1])', 'f(a=x[1:2])', 'f(a=lambda x:1)', 'f(a=[i for i in x])', 'f(*a)', 'f(**a)', 'f(a=1 if x else 2)',
    'f(a=1==1)', 'f(a=1 and 2)', 'f(a=g(1,2))', 'f(a=g(b=1))', 'f(a=(1,2))', 'f(a=(1))', 'f(a=01)', 'f(a=0x1F)', 'f(a=1_000)', 'f(a=1e3)', 'f(a=1j)',
    'f(a=b"x")', 'f(a=r"\\d")', 'f(a="a" "b")', 'f(a="""x\ny""")', 'f(a="x\ny")', 'f(a=“x”)', "f(a='it's')", 'a.b.c(d=1)', 'f()(a=1)', '"x".f(a=1)',
    'f(a=1)\n\ng(b=2)', 'f(a=1), g(b=2)', '[f(a=1)] extra', 'text [f(a=1)]', 'f(a=1) # note', 'f(a={"b":1})', 'f(a={**b})', 'f(a={[1]:2})',
    'f(a=None)', 'f(a=True)', 'f(a=true)', 'f(a=1/0)', 'f(a=10/4)', 'f(a=7//2)', 'f(a=-7%3)', 'f(a=1.)', 'f(a=.5)', 'f(a=1if x else 2)', 'f(a:1)',
    'f(a=1 b=2)', 'f((a)=1)', 'f(a=(yield))', 'f(a:=1)', 'f((a:=1))', 'await f(a=1)', '[await f(a=1)]', 'f (a = 1)', 'f\n(a=1)', 'f(a=\n1)',
    '\\\nf(a=1)', '[[f(a=1)]]', '[f(a=1)],[g(b=2)]', 'print("x")', 'f(a=1,a=2)', 'f(a=1,*b)', 'f(**b,*a)', 'f(x for x in y)', 'f(x for x in y, 1)',
    'é(a=1)', 'f(é=1)', 'f(a="\\u00e9")', 'f(a="\\x4")', 'f(a="\\q")', 'class(a=1)', 'f(a=1).g(b=2)', 'f[0](a=1)', '(f(a=1))', '[(f(a=1))]',
    '[*f(a=1)]', 'f(a=not x)', 'f(a=-x)', 'f(a=-True)', 'f(a=-"x")', 'f(a=-1.5)', 'f(a=(-1))', 'f(a=[-1,+2])', 'f(a=())', 'f(a=(1,))', "'f(a=1)'",
    "'[f(a=1)]'", 'f(a=1)`', '[f(a=1)]\n```', '\tf(a=1)', 'f(a=1)\t', ' [f(a=1)] ', 'f(a=1 ,b = 2 )', '<f(a=1)>', '{"name":"f"}', '[{"f":"{}"}]',
    'f(a=1)]', '[f(a=1)', 'None', '[None]', 'f(a=None.b)', 'f(a=5.real)', 'f(a=5 .real)', 'f(a=1<2<3)', 'f(a=x in y)', 'f(a=not x in y)',
    'f(a=x is not y)', 'f(a=@b)', 'f(a=b@c)', 'f(a=1,,b=2)', 'f(,)', '[,]', 'f(a=$5)', 'f(a=5%)', 'f(a=5%3)', 'f(a="50%")', 'f(a=1<<3)', 'f(a=6&3)',
    'f(a=6|1)', 'f(a=6^3)', 'f(a=[1]*3)', 'f(a="a"+"b")', 'f(a=[1]+[2])', 'f(a=(1,)+(2,))', 'f(a=1+x)', 'f(a=True+1)', 'f(a=-(-1))', 'f(a=2**-1)',
    'f(a=1.5*2)', 'f(a=3-1.5)', 'f(a=-7//2)', 'f(a=-7.5%2)', 'f(a=7.5//2)',
]

ODD_FC = ["[]", '[{"f":"{}"}]', '[{"f":"[1]"}]', '[{"f":"x"}]', "text", "[1]", "{}", "[{}]", '[{"f":"{\\"a\\":1}","g":"{}"}]', '[{"f":{}}]', '""']


def written(calls):
    return "[" + ", ".join(f"{n}({', '.join(f'{k}={v!r}' for k, v in a.items())})" for n, a in calls) + "]"


def right_calls(truth, fc):
    calls = []
    for call in truth:
        name = list(call)[0]
        args = {k: one_of(v) for k, v in call[name].items()}
        args = {k: v for k, v in args.items() if v is not None and not ("" in call[name][k] and rnd.random() < 0.3)}
        calls.append([name.replace(".", "_") if fc and rnd.random() < 0.9 else name, args])
    return calls


def change(calls):
    call = rnd.choice(calls) if calls else ["x", {}]
    how = rnd.choice(["value", "value", "value", "less", "more", "name", "order", "arguments", "extra"])
    if how == "value" and call[1]:
        key = rnd.choice(list(call[1]))
        call[1][key] = nearly(call[1][key])
    elif how == "less" and call[1]:
        call[1].pop(rnd.choice(list(call[1])))
    elif how == "more":
        call[1]["unexpected"] = 1
    elif how == "name":
        call[0] = rnd.choice([call[0].upper(), call[0].replace("_", "."), call[0].replace(".", "_"), call[0] + "x"])
    elif how == "order":
        rnd.shuffle(calls)
    elif how == "arguments":
        call[1] = dict(reversed(list(call[1].items())))
    elif how == "extra":
        calls.append(list(call))


def dress(text):
    way = rnd.choice([None] * 6 + ["bare", "ticks", "fence", "prose", "double", "lines", "quoted", "positional"])
    return {None: text, "bare": text[1:-1], "ticks": "```" + text + "```", "fence": "```python\n" + text + "\n```", "prose": "Sure: " + text,
            "double": text.replace("'", '"'), "lines": text.replace(", ", ",\n"), "quoted": "'" + text + "'",
            "positional": re.sub(r"(\w+)=", "", text, count=1)}[way]


def bfcl_rows(n):
    while n:
        category, function, truth = rnd.choice(tasks)
        fc = rnd.random() < 0.3
        if truth is None or rnd.random() < 0.15:
            output = rnd.choice(ODD_FC if fc else ODD)
            if function and rnd.random() < 0.3:
                output = output.replace("f(", rnd.choice(function)["name"] + "(")
        else:
            calls = right_calls(truth, fc)
            if rnd.random() < 0.6:
                change(calls)
            try:
                output = json.dumps([{name: json.dumps(args)} for name, args in calls]) if fc else dress(written(calls))
            except TypeError:
                continue  # a key that JSON does not have
        try:
            passed = bfcl_verdict(category, function, truth, output, fc)
        except Exception:
            continue  # the official code gives no verdict
        expected = {"category": category, "function": json.dumps(function), "ground_truth": json.dumps(truth) if truth else ""}
        row("bfcl/fc" if fc else "bfcl/prompting", expected, output, passed)
        n -= 1


# ---- GSM8K and MMLU-Pro

lm_eval = functions(source("lm_eval", "api/metrics.py"), {"exact_match_hf_evaluate"}, {"np": numpy, "re": re, "string": string})
lm_eval.update(Filter=object, register_filter=lambda name: lambda c: c, Iterable=list, Sequence=list, Any=object)
functions(source("lm_eval", "filters/extraction.py"), {"RegexFilter"}, lm_eval)


def by_lm_eval(pattern, select, output, gold, **options):
    took = lm_eval["RegexFilter"](pattern, select).apply([[output]], [{}])[0][0]
    return lm_eval["exact_match_hf_evaluate"]([took], [gold], **options)["exact_match"]


def by_grade_school_math(output, gold):
    """is_correct of openai/grade-school-math, which is in no package."""

    def number(text):
        found = re.compile(r"#### (\-?[0-9\.\,]+)").search(text)
        return found.group(1).strip().replace(",", "") if found else None

    return number(output) is not None and number(output) == number(gold)


def by_mmlu_pro(output):
    """The three patterns of TIGER-AI-Lab/MMLU-Pro, which is in no package."""
    output = output.replace("**", "")
    for pattern in (r"answer is \(?([A-J])\)?", r".*[aA]nswer:\s*([A-J])"):
        found = re.search(pattern, output)
        if found:
            return found.group(1)
    found = re.search(r"\b[A-J]\b(?!.*\b[A-J]\b)", output, re.DOTALL)
    return found.group(0) if found else None


PIECES = ["The answer is ", "####", "#### ", "####  ", "\n", ".", ",", ",", " ", "$", "-", "%", "18", "1,800", "18.0", "3.", ".5", "x", "Q: ", "so ", "1",
          "\u00a0", "\u2003", "\u00e9", "\x0b", "answer is ", "answer is (", "answer is **", "Answer:", "answer: ", "A", "B", "C", "J", "K", "I", "Apple", "**",
          "(A)", "(B", "A)", "_B_", "\uff21", "\u0661", "\u00b2", "\t", "\r\n", "\x1c", "The best answer is (C).", "**Answer:** D", "Answer:\n\nE",
          "answer:F and answer:G", "\u0130", "\x00", "AB", "A1", "\u00c1", "\u00c1b", "B\u0301"]
GSM8K = {"ignore_case": True, "ignore_punctuation": False, "regexes_to_ignore": [",", "\\$", "(?s).*#### ", "\\.$"]}


def text_rows(n):
    for _ in range(n):
        output = "".join(rnd.choice(PIECES) for _ in range(rnd.randint(0, 9)))
        number = rnd.choice(["18", "1,800", "-5", "3.5", "18.", "0", "1", ".", "5.\n"])
        gold = "He has it.\n" + ("#### 7 no\n" if rnd.random() < 0.05 else "") + "#### " + number
        if rnd.random() < 0.5:
            output += rnd.choice(["#### ", "The answer is ", "= ", "$"]) + number + rnd.choice(["", ".", " ", "\n", ".\n", "x"])
        row("gsm8k/official", gold, output, by_grade_school_math(output, gold))
        row("gsm8k/strict-match", gold, output, by_lm_eval(r"#### (\-?[0-9\.\,]+)", 0, output, gold, **GSM8K))
        row("gsm8k/flexible-extract", gold, output, by_lm_eval(r"(-?[$0-9.,]{2,})|(-?[0-9]+)", -1, output, gold, **GSM8K))
        row("gsm8k/cot-strict-match", gold, output, by_lm_eval(r"The answer is (\-?[0-9\.\,]+).", 0, output, gold.split("####")[-1].strip(), **GSM8K))
        letter = rnd.choice("ABCDEFGHIJ")
        row("mmlu-pro/official", letter, output, by_mmlu_pro(output) == letter)
        row("mmlu-pro/lm-eval", letter, output, by_lm_eval(r"answer is \(?([ABCDEFGHIJ])\)?", 0, output, letter, ignore_case=True, ignore_punctuation=True))


# ---- Terminal-Bench, and the replies of SimpleQA's grader

class Parser:
    pass


terminal_bench = {"re": re, "BaseParser": Parser, "UnitTestStatus": None, "Enum": enum.Enum}
functions(source("terminal_bench", "parsers/base_parser.py"), {"UnitTestStatus"}, terminal_bench)
functions(source("terminal_bench", "parsers/pytest_parser.py"), {"PytestTestStatus", "PytestParser"}, terminal_bench)
SUMMARY = ["=== short test summary info ===", "= Short Test Summary Info =", "short test summary info", "==\u00a0short test summary info\x0b=="]
STATUS = ["PASSED", "FAILED", "SKIPPED", "XFAIL", "XPASS", "ERROR", "UNKNOWN", "passed", "PASSED:", "\x1b[32mPASSED\x1b[0m", " FAILED", "::FAILED"]
REST = [" a.py::test_a", " a.py::test_b - assert 1 == 2", " - x", "", " ", "  a.py", " a.py::", " a.py::B::test_c[x - y]", " [1] a.py:3: later", "\u2003a.py::test_a"]


def resolved(log):
    """As the harness has it: there is a result, and every test passed."""
    try:
        results = terminal_bench["PytestParser"]().parse(log)
    except ValueError:
        return False
    return all(status == terminal_bench["UnitTestStatus"].PASSED for status in results.values())


def log_rows(n):
    for _ in range(n):
        end = rnd.choice(["\n", "\r\n", "\x0c", "\u2028", "\x1c"])
        bad = rnd.random() < 0.5
        log = "collected 3 items" + end
        for _ in range(rnd.choice([0, 1, 1, 1, 2])):
            log += rnd.choice(SUMMARY) + end
            for _ in range(rnd.randint(0, 4)):
                log += rnd.choice(STATUS if bad else ["PASSED", "XFAIL", "SKIPPED", "UNKNOWN"]) + rnd.choice(REST) + end
        row("terminal-bench/pytest", "resolved", log, resolved(log))
        reply = rnd.choice(["A", "B", "C", "CORRECT", "Because", "certainly", "", "(A)", "the answer is B", "INCORRECT: A", "NOT_ATTEMPTED", "D"])
        letter = rnd.choice("ABC")
        found = re.search(r"(A|B|C)", reply)  # grade_sample of openai/simple-evals, which is in no package
        row("simpleqa/reply", letter, reply, (found.group(0) if found else "C") == letter)


# ---- SWE-bench

class Status(enum.Enum):
    """TestStatus of swebench.harness.constants, in its order."""

    FAILED = "FAILED"
    PASSED = "PASSED"
    SKIPPED = "SKIPPED"
    ERROR = "ERROR"
    XFAIL = "XFAIL"


def constants(text):
    """The constants of a module that are texts."""
    found = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found[node.targets[0].id] = node.value.value
    return found


def module_of(path, scope):
    """Runs a module without what it imports from its package, which scope has."""
    body = [n for n in ast.parse(source("swebench", path)).body if not (isinstance(n, ast.ImportFrom) and (n.module or "").startswith("swebench"))]
    exec(compile(ast.Module(body, []), path, "exec"), scope)
    return scope


class EvalType(enum.Enum):
    PASS_AND_FAIL = "pass_and_fail"
    FAIL_ONLY = "fail_only"


class ResolvedStatus(enum.Enum):
    FULL, PARTIAL, NO = "FULL", "PARTIAL", "NO"


known = {**constants(source("swebench", "harness/constants/__init__.py")), "TestStatus": Status, "EvalType": EvalType, "ResolvedStatus": ResolvedStatus,
         "TestSpec": object, "classify_logs": lambda path: None, "TIER_ENVIRONMENT": None}
parsers = module_of("harness/log_parsers/python.py", dict(known))
by_repo = parsers["MAP_REPO_TO_PARSER_PY"]
grading = module_of("harness/grading.py", {**known, "PARSER_REGISTRY": by_repo})
NAMES = ["a.py::test_a", "a.py::test_b[x-1]", "a.py::test_b[/tmp/x/y.txt]", "a.py::test_b[//h/p]", "a.py::test_c[log(photon / s)]", "[100%]", "[3]", "a.py::test_d",
         "test_e (admin.Tests)", "test_f", "test_b[MouseButton.LEFT]", "a.py::test_g - x", "Applying sites.0002_alter_domain_unique...test_no_migrations (a.B)"]
FORMS = ["{s} {n}", "{s} {n} - assert 1 - 2", "{n} {s}", "\x1b[32m{s}\x1b[0m {n}", "{n} ... ok", "{n} ... OK", "{n} ...  OK", "{n} ... FAIL", "{n} ... ERROR", "{n} ... skipped 'no'",
         "FAIL: {n}", "ERROR: {n}", "{n} ... Internal Server Error: /x/\nok", "{n} ... System check identified no issues (0 silenced)\nok", "{n} ok", "{n} E", "{n} F",
         "__ {n}.py:f __", "{s}: {n}", "{s}", "{n} ... Testing against Django installed in '/x' with up to 4 processes (0 silenced).\nok", "  {n} ok ", "{s}\u00a0{n}",
         "{n} {s} [ 3%]", "--version is equivalent to version", "{n} ... x\nok"]


def swe_rows(n):
    path = os.path.join(tempfile.mkdtemp(), "log")
    while n:
        repo = rnd.choice(list(by_repo))
        log = rnd.choice(["", "PASSED before\n", "+ pytest\n"])
        start, end = known["START_TEST_OUTPUT"], known["END_TEST_OUTPUT"]
        if rnd.random() < 0.95:
            log += start + "\n"
        right = rnd.random() < 0.6
        names = rnd.sample(NAMES, 4)
        for name in names:
            form = rnd.choice(FORMS)
            if right:
                form = {"django/django": "{n} ... ok", "sympy/sympy": "{n} ok", "mwaskom/seaborn": "PASSED {n}"}.get(repo, "{s} {n}")
            log += form.format(n=name, s=rnd.choice(["PASSED", "PASSED", "XFAIL", "SKIPPED"] if right else [s.value for s in Status] + ["XPASS"])) + rnd.choice(["\n", "\n", "\r\n"])
        if rnd.random() < 0.95:
            log += end + "\n"
        if rnd.random() < 0.4:
            log += known["TEST_EXIT_CODE"] + ": " + rnd.choice(["0", "1", "-9", "x"]) + "\n"
        if rnd.random() < 0.05:
            log += rnd.choice([known["TESTS_TIMEOUT"], known["APPLY_PATCH_FAIL"], "3 passing", start])
        if repo == "sympy/sympy":
            log = log.replace(" (admin.Tests)", "")
        cutoff = [rnd.choice([name, name, name, name[:-3] or name]) for name in names]
        wanted = {"FAIL_TO_PASS": [c.split()[0] if rnd.random() < 0.5 else c for c in cutoff[: rnd.randint(1, 2)]], "PASS_TO_PASS": cutoff[2 : rnd.randint(2, 4)]}
        with open(path, "w", encoding="utf-8", newline="") as f:
            f.write(log)
        spec = types.SimpleNamespace(instance_id="i", log_parser=repo, eval_type="pass_and_fail", **wanted)
        try:
            report = grading["get_eval_report"](spec, {"instance_id": "i", "model_patch": "x"}, path, False)
        except IndexError:
            continue  # the official parser breaks on a bare "FAIL:"
        row("swe-bench/log", {"repo": repo, **wanted}, log, report["i"]["resolved"])
        n -= 1


bfcl_rows(rows)
swe_rows(rows // 3)
log_rows(rows // 6)
text_rows(rows // 6)
