#!/usr/bin/env python3
"""Verifies a Tallystick submission package without Tallystick.

    verify_submission.py --key LEDGER-KEY [--key ...] PACKAGE

PACKAGE is the folder, or the .zip, that "tally submit" wrote; LEDGER-KEY the verifier key
of the ledger, NAME+ID+BASE64. It prints one line and exits with 0 (verified), 3 (does not
verify), 1 (unreadable or malformed) or 2 (usage error).

It was written from submission.md and reads receipts, entries and evidence with verify.py
beside it. Needs Python 3.9 and nothing else; nothing is fetched. BLAKE3 and Ed25519
are written out in Python: a package of 32 tasks takes seconds.

It derives again from receipts and evidence: which tasks there are, answer, expected answer,
outcome, turns, tokens and tools of each, steps and their digests, the headline with its
interval, votes, redraws, attempt k of n. What it leaves out: it does not run the audit, so
of audit-report.json it checks that it names the bytes of the other files, and that the
manifest says of it what it says itself; the level of the attempt is the maker's word; of
steps it compares type, tool, heads and digests, not every member.
"""
import argparse, hashlib, json, math, os, sys, zipfile
from datetime import datetime
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from verify import (Malformed, Refused, blake3, canonical, digest, encode, leaf_hash, must, parse_entry, parse_receipt,
                    parse_vkey, read, root_from_proof, sshsig_verify, text, verify_checkpoint)

def refuse(ok, why):
    must(ok, why, Refused)

# --- Files ----------------------------------------------------------------------------

def load(path):
    files = {}
    if os.path.isdir(path):
        for folder, _, names in os.walk(path):
            for name in names:
                whole = os.path.join(folder, name)
                refuse(os.path.isfile(whole) and not os.path.islink(whole), name + " is not a regular file")
                files[os.path.relpath(whole, path).replace(os.sep, "/")] = read(whole)
        return files
    try:
        with zipfile.ZipFile(path) as archive:
            for one in archive.infolist():
                refuse(one.compress_type == zipfile.ZIP_STORED and one.filename not in files, "an archive of another form")
                files[one.filename] = archive.read(one)
    except zipfile.BadZipFile as err:
        raise Refused("the archive: %s" % err)
    return files

def check_manifest(files, keys):
    refuse("manifest.json" in files and "manifest.json.sig" in files, "the manifest or its signature is missing")
    data = files["manifest.json"]
    manifest = json.loads(data)
    refuse(manifest.get("type") == "tallystick-submission/v1", "manifest.json is of another type")
    signer = sshsig_verify(files["manifest.json.sig"].decode(), data, "tallystick-submission")
    refuse(signer in [public for _, public in keys], "the manifest is signed by no key that was named")
    listed = {f["path"]: f for f in manifest["files"]}
    refuse(set(listed) == set(files) - {"manifest.json", "manifest.json.sig"}, "the files are not those of the manifest")
    for path, f in listed.items():
        refuse(f["bytes"] == len(files[path]) and f["sha256"] == "sha256:" + hashlib.sha256(files[path]).hexdigest(),
               path + " is not the file that the manifest lists")
    return manifest

# --- Receipts -------------------------------------------------------------------------

class Receipts:
    """The entries that a package proves, all in one tree."""
    def __init__(self, files, keys):
        self.files, self.keys, self.tree, self.checkpoint = files, keys, None, None
        self.entries = {}  # by index
        self.used = set()
        self.of = {name: self.read(name) for name in ("attempt", "class", "record", "draw", "disposition", "rest")}

    def read(self, name):
        indexes, n = [], 1
        while "receipts/%s-%04d.proof" % (name, n) in self.files:
            path = "receipts/%s-%04d.proof" % (name, n)
            self.used.add(path)
            magic, _, rest = self.files[path].partition(b"\n")
            refuse(magic == b"tallystick-proof/v1", path + " is not a file of receipts")
            while rest:
                line, _, rest = rest.partition(b"\n")
                refuse(line[:8] == b"receipt " and line[8:].isdigit(), path + ": expected a line \"receipt N\"")
                size = int(line[8:])
                indexes.append(self.check(rest[:size], path, name))
                rest = rest[size:]
            n += 1
        return indexes

    def check(self, data, path, name):
        index, proof, content, prev, entry, checkpoint = parse_receipt(data)
        if self.checkpoint is None:
            self.checkpoint, self.tree = checkpoint, verify_checkpoint(checkpoint, self.keys)
        refuse(checkpoint == self.checkpoint, path + " is for another tree")
        origin, size, root = self.tree
        refuse(entry is not None and blake3(entry) == content and index < size, path + ": an entry is not its receipt's")
        refuse(root_from_proof(leaf_hash(origin, index, prev, content), index, size, proof) == root,
               "%s: the proof of entry %d leads to another root" % (path, index))
        refuse(name == "rest" or not json.loads(entry).get("manual"), "entry %d was put into the ledger by hand" % index)
        self.entries[index] = parse_entry(entry)
        return index

    def bodies(self, name, kind):
        for i in self.of[name]:
            refuse(self.entries[i]["kind"] == kind, "entry %d is of %s, expected %s" % (i, self.entries[i]["kind"], kind))
        return [(i, self.entries[i]["body"]) for i in self.of[name]]

def check_attempt(receipts, keys):
    refuse(len(receipts.of["attempt"]) == 2, "expected receipts of the registration and the end")
    first, last = receipts.of["attempt"]
    registered, finished = receipts.entries[first], receipts.entries[last]
    refuse(registered["kind"] == "attempt.registered" and finished["kind"] == "attempt.finished" and first < last,
           "expected a registration and then an end")
    r, end = registered["body"], finished["body"]
    refuse(r["origin"] == receipts.tree[0] and end["attempt"] == r["attempt"], "the end or the origin is of another attempt")
    signer = sshsig_verify(r["signature"], encode(dict(r, signature="")).encode(), "tallystick-attempt")
    refuse(signer in [public for _, public in keys], "the registration is signed by no key that was named")
    family = [body for _, body in receipts.bodies("class", "attempt.registered")]
    refuse([b["number"] for b in family] == list(range(1, len(family) + 1)) and all(b["class"] == r["class"] for b in family)
           and r["attempt"] in [b["attempt"] for b in family], "the registrations of the class are not 1 to n, or not with this one")
    records = receipts.bodies("record", "case.scored")
    refuse(all(b["attempt"] == r["attempt"] and first < i < last for i, b in records), "a record is not of the attempt")
    refuse([i for i, _ in records] == sorted({i for i, _ in records}), "records are twice or out of order")
    counts = {}
    for _, b in records:
        counts[b["outcome"]] = counts.get(b["outcome"], 0) + 1
    refuse(counts == {k: v for k, v in end["outcomes"].items() if v}, "the end counts other outcomes than the records have")
    draws = [b for _, b in receipts.bodies("draw", "judge.drawn")]
    refuse(all(b["attempt"] == r["attempt"] for b in draws), "a draw is of another attempt")
    return r, end, family, records, draws, check_span(receipts, first, r, family)

def check_span(receipts, first, r, family):
    """Whether every entry from the registration on is shown, and none is left uncounted."""
    told = {i for name in ("attempt", "record", "draw", "disposition") for i in receipts.of[name]}
    names = {b["attempt"] for b in family}
    for i in range(first, receipts.tree[1]):
        if i not in receipts.entries:
            refuse(not receipts.of["rest"], "entry %d is left out" % i)
            return False
        kind, body = receipts.entries[i]["kind"], receipts.entries[i]["body"]
        if receipts.entries[i].get("manual") or i in told:
            continue
        of_class = kind == "attempt.registered" and body["class"] == r["class"] and body["attempt"] not in names
        of_attempt = kind in ("case.scored", "judge.drawn", "attempt.finished", "audit.disposed") and body["attempt"] == r["attempt"]
        refuse(not of_class and not of_attempt, "entry %d is about the attempt or its class and is not counted" % i)
    return True

# --- Evidence -------------------------------------------------------------------------

class Evidence:
    def __init__(self, files):
        self.files, self.used = files, set()

    def piece(self, name):
        path = "evidence/" + digest(text(name), "blake3").hex()
        refuse(path in self.files, "the piece %s is missing" % name)
        if path not in self.used:
            refuse("blake3:" + blake3(self.files[path]).hex() == name, path + " is not the piece of its name")
            self.used.add(path)
        return self.files[path]

def steps_of(trajectory, notes):
    """The steps of a trajectory, as far as they are compared: type, tool, head, digest."""
    steps, asked, by_id, by_call, tokens, models, tools = [], {}, {}, {}, [0, 0], [], []
    sha = lambda c: notes[c["digest"]]["sha256"][7:] if c["digest"] in notes else ""
    def result(p):
        if p.get("result"):
            steps.append(("tool_result", p["name"], p["result"]["head"], sha(p["result"])))
    def call(p, vantage):
        a = p["args"]
        cut = lambda c: "%s…[truncated %d bytes]" % (c["head"], c["bytes"] - len(c["head"].encode()))
        args = dict(a.get("values") or {}, **{k: cut(c) for k, c in (a.get("cut") or {}).items()})
        if a.get("raw"):
            args = {"raw": cut(a["raw"]) if a["raw"].get("truncated") else a["raw"]["head"]}
        args = encode(args)
        known = by_id.get(p.get("id") or None) or by_call.get(p["call"])
        if not (known and known[1] == p["name"] and known[2] == args):
            known = ("tool_call", p["name"], args, "")
            steps.append(known)
            if p["name"] not in tools:
                tools.append(p["name"])
        if p.get("id"):
            by_id[p["id"]] = known
        if not p.get("vantage"):
            by_call[p["call"]] = known
    for line in trajectory.split(b"\n")[:-1]:
        event = json.loads(line)
        p = event.get("payload") or {}
        if event["type"] == "turn_started" and p.get("input"):
            steps.append(("prompt", "", p["input"]["head"], sha(p["input"])))
        elif event["type"] == "model_call_started":
            asked[p["call"]] = len(steps)
            steps.append(("llm_call", "", None, ""))
            if p["model"] not in models:
                models.append(p["model"])
        elif event["type"] == "model_call_completed" and p["call"] in asked:
            steps[asked[p["call"]]] = ("llm_call", "", p["output"]["head"], sha(p["output"]))
            tokens[0] += p.get("tokens_in", 0)
            tokens[1] += p.get("tokens_out", 0)
        elif event["type"] == "tool_observed":
            call(p, p["vantage"])
            if p["vantage"] == "reported":
                result(p)
        elif event["type"] == "tool_proposed":
            call(p, "proposed")
        elif event["type"] == "tool_executed":
            call(p, "executed")
            result(p)
    return steps, tokens, models, tools

NO_ANSWER = ("regex", "compare", "json_schema", "tool_calls", "cel", "absent", "not")

def tell(evidence, record):
    """What a record says of its task."""
    index = canonical(evidence.piece(record["evidence"][0]))
    refuse("watch" in index, "case %s was not recorded whole" % record["case_id"])
    notes = {t["digest"]: t for t in canonical(evidence.piece(index["watch"]))["texts"]}
    steps, tokens, models, tools = steps_of(evidence.piece(index["trajectory"]["digest"]), notes)
    answer = evidence.piece(index["answer"]).decode() if "answer" in index else ""
    expected = None
    for check in json.loads(evidence.piece(index["grading"])).get("checks", []) if "grading" in index else []:
        if check.get("expected") and check["grader"] not in NO_ANSWER:
            expected = check["expected"]["head"]
        if check.get("extracted"):
            answer = check["extracted"]["head"]
            break
    correct = None if record["outcome"] == "unscored" else record["outcome"] == "passed"
    return {"model_answer": answer, "expected_output": expected, "correct": correct, "outcome": record["outcome"], "repeat": record["repeat"],
            "turns": sum(s[0] == "llm_call" for s in steps), "inputTokens": tokens[0], "outputTokens": tokens[1],
            "model": ", ".join(models), "tools_used": tools, "steps": steps}

def chosen(told):
    """The answer that most repetitions gave, and of equals the first."""
    same = lambda t: " ".join(t["model_answer"].split()).lower()
    votes = [same(t) for t in told]
    best = told[0]
    for t in told:
        if votes.count(same(t)) > votes.count(same(best)):
            best = t
    return best

# --- The numbers ----------------------------------------------------------------------

def compare(what, said, derived):
    for name, value in derived.items():
        refuse(name in said and said[name] == value, "%s: %s is %.60r, the receipts and the evidence give %.60r" % (what, name, said.get(name), value))

def check_rows(files, tasks):
    rows = [json.loads(line) for line in files["results.jsonl"].decode().split("\n")[:-1]]
    lines = {t["task_id"]: t for t in map(json.loads, files["trajectories.jsonl"].decode().split("\n")[:-1])}
    refuse([r["task_id"] for r in rows] == list(tasks), "results.jsonl has other tasks than the plan")
    refuse(set(lines) == {t for t, told in tasks.items() if told}, "trajectories.jsonl has other tasks than the records")
    for row in rows:
        told = tasks[row["task_id"]]
        what = "task " + row["task_id"]
        refuse(told, what + " has no record")
        one = chosen(told)
        compare(what, row, {k: v for k, v in one.items() if k != "steps"})
        line = lines[row["task_id"]]
        compare(what + " in trajectories.jsonl", line, {"final_answer": one["model_answer"], "turns": one["turns"], "tokens_in": one["inputTokens"], "tokens_out": one["outputTokens"]})
        shown = [(s["type"], s.get("name", ""), encode(s["args"]) if s["type"] == "tool_call" else s.get("head"),
                  s.get("content_sha256") or s.get("output_sha256") or "") for s in line["steps"]]
        refuse(shown == one["steps"], what + ": the steps are not those of the trajectory")
    return rows

def headline(rows):
    n, passed = len(rows), sum(r["correct"] is True for r in rows)
    rate, ci = None, None
    if any(r["correct"] is not None for r in rows):
        rate, z = passed / n, 1.959963984540054
        middle, wide, scale = rate + z * z / (2 * n), z * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n)), 1 + z * z / n
        ci = [max(0.0, (middle - wide) / scale), min(1.0, (middle + wide) / scale)]
    return {"n": n, "passed": passed, "pass_rate": rate, "unscored": sum(r["correct"] is None for r in rows), "seed": None,
            "mean_steps": sum(r["turns"] for r in rows) / n, "empty_rate": sum(not r["model_answer"] for r in rows) / n}, ci

def check_headline(what, said, rows):
    numbers, ci = headline(rows)
    compare(what, said, numbers)
    refuse((said["ci95"] is None) == (ci is None) and all(abs(a - b) < 1e-12 for a, b in zip(said["ci95"] or [], ci or [])), what + ": ci95 is another interval")

def check_audit(files, manifest):
    report = json.loads(files["audit-report.json"])
    for name, path in (("results_sha256", "results.jsonl"), ("trajectories_sha256", "trajectories.jsonl"), ("metadata_sha256", "metadata.json")):
        refuse(report["inputs"].get(name) == hashlib.sha256(files[path]).hexdigest(), "audit-report.json is about another " + path)
    failed = [c for c in report["checks"] if c["status"] == "fail"]
    said = report["attestation"]
    compare("audit-report.json", said, {"clean": not any(c["severity"] == "critical" for c in failed), "strict_clean": not failed,
                                       "complete": not any(c.get("harness_gap") for c in report["checks"])})
    compare("manifest.json: audit", manifest["audit"], {k: said[k] for k in ("clean", "strict_clean", "complete")})

def verify(path, keys):
    files = load(path)
    manifest = check_manifest(files, keys)
    receipts = Receipts(files, keys)
    r, end, family, records, draws, exact = check_attempt(receipts, keys)
    plan = r["plan"]
    refuse(plan.get("submit_intent") is True and not plan.get("filtered") and not r.get("scratch"), "the attempt was not registered to be submitted whole")
    refuse("blake3:" + blake3(files["registration.json"]).hex() == plan["registration_digest"], "registration.json is not the plan's")
    if "target.json" in files:
        refuse("blake3:" + blake3(files["target.json"]).hex() == plan["target_digest"], "target.json is not the plan's")
    evidence = Evidence(files)
    planned = plan.get("cases") or canonical(evidence.piece(plan["cases_digest"]))
    tasks = {c["id"]: [] for c in planned}
    for _, record in records:
        refuse(record["case_id"] in tasks, "case %s was not planned" % record["case_id"])
        tasks[record["case_id"]].append(tell(evidence, record))
    refuse(all(len(t) == plan["repeat"] for t in tasks.values()), "a task has not as many records as were planned")
    for told in tasks.values():
        told.sort(key=lambda t: t["repeat"])
    rows = check_rows(files, tasks)
    metadata = json.loads(files["metadata.json"])
    check_headline("metadata.json", metadata, rows)
    check_headline("manifest.json", manifest["headline"], rows)
    data = json.loads(files["registration.json"]).get("data_set") or {}
    compare("metadata.json", metadata, {"voting_attempts": max(len(t) for t in tasks.values()), "abandoned_executions": sum(b["execution"] - 1 for _, b in records),
                                       "judge_draws": len(draws), "judge_redraws": sum(b["draw"] > 1 for b in draws), "total_questions": len(tasks)})
    if data:
        compare("metadata.json", metadata, {"gaia_split": data["split"], "dataset_revision": data["revision"]})
    origin, size, _ = receipts.tree
    number = {"id": r["attempt"], "number": r["number"], "of": len(family), "origin": origin}
    compare("metadata.json: attempt", metadata["attempt"], number)
    compare("manifest.json: attempt", dict({"exact": False}, **manifest["attempt"]), dict(number, tree_size=size, exact=exact))
    check_audit(files, manifest)
    for path in files:
        folder = path.split("/")[0]
        refuse(folder != "receipts" or path in receipts.used, path + " does not come from the attempt")
    rate = metadata["pass_rate"]
    return "class %s: %s; attempt %s, number %d of %s%d of the class at tree size %d; in %s; the audit was not run again" % (
        r["class"], "%d tasks, unscored" % len(rows) if rate is None else "pass rate %.4f, %d of %d" % (rate, metadata["passed"], len(rows)),
        r["attempt"], r["number"], "" if exact else "at least ", len(family), size, origin)

def main():
    parser = argparse.ArgumentParser(description="Verifies a Tallystick submission package.")
    parser.add_argument("--key", action="append", required=True)
    parser.add_argument("package")
    args = parser.parse_args()
    try:
        print("verified: " + verify(args.package, [parse_vkey(k) for k in args.key]))
    except Refused as err:
        print("does not verify: %s" % err)
        return 3
    except (Malformed, OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as err:
        print("malformed: %s: %s" % (type(err).__name__, err))
        return 1
    return 0

if __name__ == "__main__":
    sys.exit(main())
