"""Writes logs for "inspect view" to be timed with, in the format of Inspect 0.3.

    inspect_logs.py events N FROM.eval OUT.eval   one sample with N events: a log made of
                                                  another one, whose header it takes
    inspect_logs.py copies N FROM.eval FOLDER     N logs that differ in name and id

An event is a call of a model or of a tool, nine to a turn, with texts as long as those of
the long case of benchmarks/viewer_browser.sh.
"""
import json
import sys
import zipfile

TIME = "2026-05-12T14:00:00.000+00:00"


def read(name):
    with zipfile.ZipFile(name) as z:
        return {n: json.loads(z.read(n)) for n in z.namelist()}


def write(name, files):
    with zipfile.ZipFile(name, "w", zipfile.ZIP_DEFLATED) as z:
        for n, v in files.items():
            z.writestr(n, json.dumps(v))


def model(i, prompt, reply):
    message = {"id": f"m{i}", "role": "assistant", "content": reply, "source": "generate", "model": "fake-1"}
    return {"uuid": f"e{i}", "event": "model", "timestamp": TIME, "working_start": i / 1000, "model": "fake-1",
            "input": [{"id": f"u{i}", "role": "user", "content": prompt}], "tools": [], "tool_choice": "auto", "config": {},
            "output": {"model": "fake-1", "completion": reply, "choices": [{"message": message, "stop_reason": "stop"}]}}


def tool(i, at):
    return {"uuid": f"e{i}", "event": "tool", "type": "function", "timestamp": TIME, "working_start": i / 1000,
            "id": f"t{i}", "function": "look", "arguments": {"at": at}, "result": '{"is":"here"}', "events": []}


def event(i):
    turn, k = divmod(i, 9)
    if 0 < k < 8:
        return tool(i, k)
    return model(i, f"Note {turn + 1}. The lift stops now and then.", "noted")


def events(n, source, out):
    files = read(source)
    sample_name = next(x for x in files if x.startswith("samples/"))
    sample = files[sample_name]
    sample["events"] = [event(i) for i in range(n)]
    write(out, files)


def copies(n, source, folder):
    files = read(source)
    for i in range(1, n + 1):
        for name in ("_journal/start.json", "header.json"):
            spec = files[name]["eval"]
            spec["eval_id"] = spec["run_id"] = spec["task_id"] = f"copy-{i:04d}"
        write(f"{folder}/2026-05-12T14-00-00+00-00_few_copy{i:04d}.eval", files)


if __name__ == "__main__":
    what, n, source, target = sys.argv[1:]
    {"events": events, "copies": copies}[what](int(n), source, target)
