#!/usr/bin/env python3
"""Verifies a Tallystick submission package without Tallystick.

    verify_submission.py --key LEDGER-KEY [--key ...] PACKAGE

PACKAGE is the folder, or the .zip, that "tally export --format submission" wrote; LEDGER-KEY the verifier key
of the ledger, NAME+ID+BASE64. It prints one line and exits with 0 (verified), 3 (does not
verify), 1 (unreadable or malformed) or 2 (usage error).

It was written from submission.md and reads receipts, entries and evidence with verify.py
beside it. Needs Python 3.9 and nothing else; nothing is fetched. BLAKE3 and Ed25519
are written out in Python: a package of 32 tasks takes seconds.

It derives again from receipts and evidence: which tasks there are, answer, expected answer,
outcome, turns, tokens and tools of each, every line and step of trajectories.jsonl, the
headline with its interval, votes, redraws, attempt k of n, and what the headline is as people corrected it.

What it leaves out: it does not run the audit, so whether the checks found what is there is
the maker's word, and the line that it prints says so. Of audit-report.json it checks that it
names the bytes of every input, that its counts and its end follow from its own checks, and
that the manifest says the same. The level of the attempt is the maker's word; a correction
that is signed with another kind of key than Ed25519 it cannot check, and says so.
"""
import argparse, base64, hashlib, json, math, os, struct, sys, zipfile
from datetime import datetime
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from verify import (VERSION, Malformed, Newer, Refused, blake3, canonical, check_format, digest, encode, leaf_hash, must, parse_entry, parse_receipt,
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
    check_format(manifest.get("type"), "tallystick-submission/" + VERSION)
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
        self.heads = {}  # of the ledger with the entry as its last, by index
        self.of = {name: self.read(name) for name in ("attempt", "class", "record", "draw", "disposition", "correction", "rest")}

    def read(self, name):
        indexes, n = [], 1
        while "receipts/%s-%04d.proof" % (name, n) in self.files:
            path = "receipts/%s-%04d.proof" % (name, n)
            self.used.add(path)
            magic, _, rest = self.files[path].partition(b"\n")
            check_format(magic.decode("ascii", "replace"), "tallystick-proof/" + VERSION)
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
        self.heads[index] = "sha256:" + hashlib.sha256(prev + content).hexdigest()
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
    return r, end, family, records, draws, check_span(receipts, first, r)

def check_span(receipts, first, r):
    """Whether every entry from the registration on is shown, and every one before it, and none is left uncounted."""
    told = {i for name in ("attempt", "class", "record", "draw", "disposition", "correction") for i in receipts.of[name]}
    exact = False
    for i in list(range(first, receipts.tree[1])) + list(range(first)):
        exact = exact or i < first  # all from the registration on were there
        if i not in receipts.entries:
            refuse(exact or not receipts.of["rest"], "entry %d is left out" % i)
            return exact, False
        kind, body = receipts.entries[i]["kind"], receipts.entries[i]["body"]
        if receipts.entries[i].get("manual") or i in told:
            continue
        of_class = kind == "attempt.registered" and body["class"] == r["class"]
        of_attempt = kind in ("case.scored", "judge.drawn", "attempt.finished", "audit.disposed", "score.corrected") and body["attempt"] == r["attempt"]
        of_record = kind == "score.amended" and body["entry"] in receipts.of["record"]
        refuse(not of_class and not of_attempt and not of_record, "entry %d is about the attempt or its class and is not counted" % i)
    return True, True

# --- Corrections ----------------------------------------------------------------------

class Beside:
    """What stands beside one record: amendments, and corrections that people signed."""
    def __init__(self, receipts, registered, index, record):
        self.receipts, self.registered, self.index, self.record = receipts, registered, index, record
        self.list, self.amended, self.corrected = [], None, None  # (entry, passed, fills); (last entry, number, passed, message, keys)
        for i in receipts.of["correction"]:
            kind, body = receipts.entries[i]["kind"], receipts.entries[i]["body"]
            if body["entry"] != index:
                continue
            line = {"entry": i, "kind": kind, "repeat": record["repeat"], "reason": body["reason"]}
            if kind == "score.amended":
                grade, by, counts = body["score"], [body["author"]], self.amend(i, body)
            else:
                grade, by = body["now"], self.signers(body)
                counts = self.correct(i, body, by)
            self.list.append(dict(line, by=by, passed=grade["passed"], score=grade["score"], counts=counts))

    def filled(self):
        return self.record["outcome"] == "unscored" and self.amended is not None and self.amended[2]

    def amend(self, i, body):
        passed, fills = body["score"]["passed"], body.get("fills", False)
        if self.filled():
            passed, fills = self.amended[1] and passed, True
        self.amended = (i, passed, fills)
        outcome, score = self.record["outcome"], (self.record.get("score") or {}).get("score", 0)
        return self.filled() or not (body["score"]["passed"] and outcome != "passed" or outcome not in ("passed", "failed") or body["score"]["score"] > score)

    @staticmethod
    def signers(body):
        message, keys = encode(dict(body, signatures=[])).encode(), []
        for signature in body["signatures"]:
            if signature.startswith("-----BEGIN PGP SIGNATURE-----"):
                keys.append("an OpenPGP key, which the package does not have")
                continue
            public = sshsig_verify(signature, message, "tallystick-correction")
            wire = b"".join(struct.pack(">I", len(f)) + f for f in (b"ssh-ed25519", public))
            keys.append("SHA256:" + base64.b64encode(hashlib.sha256(wire).digest()).decode().rstrip("="))
        return keys

    def correct(self, i, body, keys):
        now, was, record = body["now"], body["was"], self.record
        if now["passed"] and now["score"] == 0 or not now["passed"] and now["score"] == 1 or body["number"] == 1 and now == was:
            return False
        if (body["origin"] != self.receipts.tree[0] or body["head"] != self.receipts.heads[self.index] or body["case_id"] != record["case_id"]
                or body["repeat"] != record["repeat"] or record["outcome"] not in ("passed", "failed")
                or was != {"passed": record["outcome"] == "passed", "score": record["score"]["score"]}):
            return False
        message = encode(dict(body, signatures=[]))
        if self.corrected and self.corrected[3] == message:
            new = set(keys) - self.corrected[4]
            self.corrected = (i,) + self.corrected[1:4] + (self.corrected[4] | new,)
            return bool(new)
        number = self.corrected[1] + 1 if self.corrected else 1
        refuse(body["number"] <= number, "entry %d is correction %d of a record, and number %d is left out" % (i, body["number"], number))
        public = sshsig_verify(self.registered["signature"], encode(dict(self.registered, signature="")).encode(), "tallystick-attempt")
        wire = b"".join(struct.pack(">I", len(f)) + f for f in (b"ssh-ed25519", public))
        runner = "SHA256:" + base64.b64encode(hashlib.sha256(wire).digest()).decode().rstrip("=")
        if body["number"] < number or keys == [runner]:
            return False
        self.corrected = (i, number, now["passed"], message, set(keys))
        return True

    def correct_now(self):
        lowered = self.amended is not None and not self.amended[1]
        if self.filled():
            return self.amended[1]
        if self.corrected:
            return self.corrected[2] and not (lowered and self.amended[0] > self.corrected[0])
        if self.record["outcome"] == "unscored":
            return None
        return self.record["outcome"] == "passed" and not lowered

def check_beside(receipts, r, records):
    """What stands beside the records, by entry."""
    indexes = receipts.of["correction"]
    refuse(indexes == sorted(set(indexes)) and all(i > receipts.of["attempt"][0] for i in indexes), "corrections are twice, out of order or before the attempt")
    for i in indexes:
        kind, body = receipts.entries[i]["kind"], receipts.entries[i]["body"]
        refuse(kind == "score.corrected" and body["attempt"] == r["attempt"] or kind == "score.amended" and body["entry"] in receipts.of["record"],
               "entry %d is not a correction or an amendment of the attempt" % i)
    return {i: Beside(receipts, r, i, body) for i, body in records}

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

# The members of a step, and those that other recorders write and a package does not have.
# A test of package internal/read/step holds them to its schema.
STEP_MEMBERS = ("type", "turn", "name", "vantage", "content", "output", "head", "bytes", "truncated", "redacted", "salted", "lossy",
                "content_sha256", "output_sha256", "gold_hits", "input", "args", "input_bytes", "input_truncated", "input_redacted",
                "input_salted", "input_lossy", "input_sha256", "input_gold_hits", "url", "is_error", "model", "tokens_in", "tokens_out")
OTHERS_MEMBERS = ("text", "head_truncated")

class Steps:
    """The steps of a trajectory."""
    EVENTS = ("turn_started", "model_call_started", "model_call_completed", "tool_observed", "tool_proposed", "tool_executed")

    def __init__(self, trajectory, watched):
        self.notes, self.gold = {t["digest"]: t for t in watched["texts"]}, watched["gold"]
        self.steps, self.asked, self.by_id, self.by_call = [], {}, {}, {}
        self.tokens, self.models, self.tools = [0, 0], [], []
        for line in trajectory.split(b"\n")[:-1]:
            event = json.loads(line)
            if event["type"] in self.EVENTS:
                getattr(self, event["type"])(event.get("turn", 0), event.get("payload") or {})

    def add(self, before, **members):
        step = {name: value for name, value in members.items() if value not in ("", 0, False, None)}
        at = len(self.steps) if before is None else next(i for i, s in enumerate(self.steps) if s is before)
        self.steps.insert(at, step)
        return step

    def about(self, step, prefix, sha, c):
        """What is known of the whole of a text."""
        note, hits = self.notes.get(c["digest"]), {"scanned": False, "offsets": []}
        if note:
            hits = {"scanned": self.gold, "offsets": note.get("hits", [])}
            if note.get("hit_count", 0) > len(hits["offsets"]):
                hits["count"] = note["hit_count"]
            step[sha] = note["sha256"][7:]
        step[prefix + "bytes"], step[prefix + "gold_hits"] = c["bytes"], hits
        for mark in ("truncated", "redacted", "lossy"):
            if c.get(mark):
                step[prefix + mark] = True
        if note and note.get("salted"):
            step[prefix + "salted"] = True

    def shown(self, step, member, sha, c):
        self.about(step, "", sha, c)
        step["head"] = step[member] = c["head"]

    @staticmethod
    def url(args):
        for name in ("url", "URL", "uri", "link"):
            values = args.get("values") or {}
            if name in values and (values[name] is None or isinstance(values[name], str) and len(values[name].encode()) <= 2048):
                return values[name]

    def call(self, turn, p, vantage, before=None):
        a = p["args"]
        cut = lambda c: "%s…[truncated %d bytes]" % (c["head"], c["bytes"] - len(c["head"].encode()))
        args = dict(a.get("values") or {}, **{k: cut(c) for k, c in (a.get("cut") or {}).items()})
        raw = a.get("raw")
        if raw:
            args = {"raw": cut(raw) if raw.get("truncated") else raw["head"]}
        known = self.by_id.get(p.get("id") or None) or self.by_call.get(p["call"])
        if known and known.get("name", "") == p["name"] and encode(known["args"]) == encode(args):
            if vantage != "proposed":
                known["vantage"] = vantage
        else:
            known = self.add(before, type="tool_call", turn=turn, name=p["name"], vantage=vantage, url=self.url(a))
            known["args"] = known["input"] = args
            self.about(known, "input_", "input_sha256", {"bytes": a["bytes"], "digest": a["digest"], "redacted": a.get("redacted"),
                       "truncated": bool(a.get("cut") or raw and raw.get("truncated")), "lossy": raw and raw.get("lossy")})
            if p["name"] not in self.tools:
                self.tools.append(p["name"])
        if p.get("id"):
            self.by_id[p["id"]] = known
        if not p.get("vantage"):
            self.by_call[p["call"]] = known

    def result(self, turn, p, vantage, failed, before=None):
        if p.get("result"):
            step = self.add(before, type="tool_result", turn=turn, name=p["name"], vantage=vantage, is_error=failed, url=self.url(p["args"]))
            self.shown(step, "output", "output_sha256", p["result"])

    def turn_started(self, turn, p):
        if p.get("input"):
            self.shown(self.add(None, type="prompt", turn=turn), "content", "content_sha256", p["input"])

    def model_call_started(self, turn, p):
        step = self.asked[p["call"]] = self.add(None, type="llm_call", turn=turn, model=p["model"])
        step["input"] = p["prompt"]["head"]
        self.about(step, "input_", "input_sha256", p["prompt"])
        if p["model"] not in self.models:
            self.models.append(p["model"])

    def model_call_completed(self, turn, p):
        step = self.asked.pop(p["call"], None)
        if step is not None:
            self.shown(step, "output", "output_sha256", p["output"])
            step["tokens_in"], step["tokens_out"] = p.get("tokens_in", 0), p.get("tokens_out", 0)
            self.tokens[0] += step["tokens_in"]
            self.tokens[1] += step["tokens_out"]

    def tool_observed(self, turn, p):
        # What the agent reported in a request happened before the request.
        before = self.asked.get(p["call"]) if p["vantage"] == "reported" else None
        self.call(turn, p, p["vantage"], before)
        if p["vantage"] == "reported":
            self.result(turn, p, "reported", p.get("error") is True, before)

    def tool_proposed(self, turn, p):
        self.call(turn, p, "proposed")

    def tool_executed(self, turn, p):
        self.call(turn, p, "executed")
        self.result(turn, p, "executed", "error" in p)

NO_ANSWER = ("regex", "compare", "json_schema", "tool_calls", "cel", "absent", "not")

def tell(evidence, record, entry):
    """What a record says of its task."""
    index = canonical(evidence.piece(record["evidence"][0]))
    refuse("watch" in index, "case %s was not recorded whole" % record["case_id"])
    told = Steps(evidence.piece(index["trajectory"]["digest"]), canonical(evidence.piece(index["watch"])))
    answer = evidence.piece(index["answer"]).decode() if "answer" in index else ""
    expected = None
    for check in json.loads(evidence.piece(index["grading"])).get("checks", []) if "grading" in index else []:
        if check.get("expected") and check["grader"] not in NO_ANSWER:
            expected = check["expected"]["head"]
        if check.get("extracted"):
            answer = check["extracted"]["head"]
            break
    correct = None if record["outcome"] == "unscored" else record["outcome"] == "passed"
    row = {"model_answer": answer, "expected_output": expected, "correct": correct, "outcome": record["outcome"], "repeat": record["repeat"], "entry": entry,
           "turns": sum(s["type"] == "llm_call" for s in told.steps), "inputTokens": told.tokens[0], "outputTokens": told.tokens[1],
           "model": ", ".join(told.models), "tools_used": told.tools}
    line = {"task_id": record["case_id"], "repeat": record["repeat"], "turns": row["turns"], "user_turns": record["turns"], "final_answer": answer,
            "tokens_in": told.tokens[0], "tokens_out": told.tokens[1], "tools_used": told.tools, "steps": told.steps}
    line.update({k: v for k, v in {"model": row["model"], "correct": correct, "vantage": record.get("vantage", "")}.items() if v not in ("", None)})
    return dict(row, line=line)

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

def check_line(what, said, line):
    """Compares a line of trajectories.jsonl, and says which member differs."""
    if said == encode(line):
        return
    there = json.loads(said or "{}")
    refuse(isinstance(there, dict) and there, what + " has no line in trajectories.jsonl where it should be")
    compare(what + " in trajectories.jsonl", there, {k: v for k, v in line.items() if k != "steps"})
    for i, step in enumerate(line["steps"]):
        compare("%s: step %d" % (what, i), there["steps"][i] if i < len(there["steps"]) else {}, step)
    raise Refused(what + ": the line in trajectories.jsonl has members that the evidence does not give")

def check_rows(files, tasks, beside):
    rows = [json.loads(line) for line in files["results.jsonl"].decode().split("\n")[:-1]]
    lines = iter(files["trajectories.jsonl"].decode().split("\n")[:-1])
    refuse([r["task_id"] for r in rows] == list(tasks), "results.jsonl has other tasks than the plan")
    for row in rows:
        told = tasks[row["task_id"]]
        what = "task " + row["task_id"]
        refuse(told, what + " has no record")
        one = chosen(told)
        compare(what, row, {k: v for k, v in one.items() if k != "line"})
        listed = [c for t in told for c in beside[t["entry"]].list]
        said = [dict({k: v for k, v in c.items() if k != "ignored"}, counts="ignored" not in c) for c in row.get("corrections", [])]
        refuse(said == listed, what + ": the corrections are not those of the receipts")
        now = beside[one["entry"]].correct_now() if listed else None
        refuse(row.get("corrected") is now, what + ": corrected is %s, the receipts give %s" % (row.get("corrected"), now))
        for t in told:  # every execution has a line, and one of them is submitted
            line = dict(t["line"], submitted=True) if t is one else t["line"]
            check_line("%s, execution %d" % (what, t["repeat"]), next(lines, ""), line)
    refuse(next(lines, None) is None, "trajectories.jsonl has more lines than there are records")
    return rows

def count(what, said, correct):
    """Compares what follows from which tasks are correct."""
    n, passed = len(correct), sum(c is True for c in correct)
    rate, ci = None, None
    if any(c is not None for c in correct):
        rate, z = passed / n, 1.959963984540054
        middle, wide, scale = rate + z * z / (2 * n), z * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n)), 1 + z * z / n
        ci = [max(0.0, (middle - wide) / scale), min(1.0, (middle + wide) / scale)]
    compare(what, said, {"passed": passed, "pass_rate": rate, "unscored": sum(c is None for c in correct)})
    refuse((said["ci95"] is None) == (ci is None) and all(abs(a - b) < 1e-12 for a, b in zip(said["ci95"] or [], ci or [])), what + ": ci95 is another interval")

def check_headline(what, said, rows, entries):
    n = len(rows)
    count(what, said, [r["correct"] for r in rows])
    compare(what, said, {"n": n, "seed": None, "mean_steps": sum(r["turns"] for r in rows) / n, "empty_rate": sum(not r["model_answer"] for r in rows) / n})
    refuse(("corrected" in said) == bool(entries) and said.get("basis") == ("recorded" if entries else None), what + ": basis or corrected is not what the receipts give")
    if entries:
        count(what + ": corrected", said["corrected"], [r.get("corrected") if r.get("corrections") else r["correct"] for r in rows])
        counts = sum("ignored" not in c for r in rows for c in r.get("corrections", []))
        compare(what + ": corrected", said["corrected"], {"entries": entries, "ignored": entries - counts})

CHECKS = [("answer-leakage", "critical"), ("no-work-pass", "critical"), ("oracle-leakage", "critical"), ("grader-isolation", "critical"),
          ("normalization-collision", "warn"), ("voting-disclosure", "warn"), ("split-integrity", "warn"), ("answer-key-reads", "critical"),
          ("dynamic-eval", "critical"), ("judge-injection", "warn")]

def sources_sha256(files, evidence, plan):
    """The digest of the programs that decide the score, as far as the package has them; None without any."""
    sha, programs, carried = lambda data: hashlib.sha256(data).hexdigest(), [], False
    if "target.json" in files:
        programs.append(("target.json", sha(files["target.json"])))
    if "sources" in plan:
        carried = "evidence/" + digest(plan["sources"], "blake3").hex() in files
        if carried:
            programs += [(f["path"], sha(evidence.piece(f["digest"]))) for f in canonical(evidence.piece(plan["sources"]))["files"] if f.get("kept")]
    elif not programs or json.loads(files["target.json"]).get("kind") != "builtin" or "rubric_digest" in plan:
        programs = []
    if not programs and not carried:
        return None
    programs.sort(key=lambda p: p[0].encode())
    return sha("".join("%s  %s\n" % (d, path) for path, d in programs).encode())

def check_audit(files, manifest, rows, receipts, sources):
    """That the report is about these files, and that what it sums up follows from its own checks. No rule is run."""
    report, what = json.loads(files["audit-report.json"]), "audit-report.json"
    check_format(report.get("schema"), "tallystick-audit/" + VERSION)
    for name, path in (("results_sha256", "results.jsonl"), ("trajectories_sha256", "trajectories.jsonl"), ("metadata_sha256", "metadata.json")):
        refuse(report["inputs"].get(name) == hashlib.sha256(files[path]).hexdigest(), what + " is about another " + path)
    refuse(report["inputs"].get("sources_sha256") == sources, what + " is about other programs")
    compare(what + ": totals", report["totals"], {"questions": len(rows), "marked_correct": sum(r["correct"] is True for r in rows),
                                                  "trajectories": files["trajectories.jsonl"].count(b"\n"), "trajectories_recorded": len(receipts.of["record"])})
    checks = report["checks"]
    # That the split is known is information.
    severities = [(c["id"], "warn" if (c["id"], c["severity"], c["status"]) == ("split-integrity", "info", "pass") else c["severity"]) for c in checks]
    refuse(severities == CHECKS, what + ": the checks are not the ten, with their severities")
    for c in checks:
        refuse(c["status"] in ("pass", "fail", "skip") and (c["status"] != "fail" or c["evidence"]), "%s: %s failed without evidence, or has no status" % (what, c["id"]))
    failed = [c for c in checks if c["status"] == "fail"]
    critical = [c["id"] for c in failed if c["severity"] == "critical"]
    gaps = ["%s: %s" % (c["id"], c["harness_gap"]) for c in checks if c.get("harness_gap")]
    said = report["attestation"]
    compare(what + ": attestation", said, {"clean": not critical, "strict_clean": not failed, "complete": not gaps, "critical_failures": critical,
                                          "warn_failures": [c["id"] for c in failed if c["severity"] != "critical"],
                                          "skipped": [c["id"] for c in checks if c["status"] == "skip"], "harness_gaps": gaps})
    compare("manifest.json: audit", manifest["audit"], {k: said[k] for k in ("clean", "strict_clean", "complete")})
    found = {hashlib.sha256((c["id"] + "\n" + e).encode()).hexdigest() for c in failed for e in c["evidence"]}
    people = [{"finding": b["finding"][7:], "check": b["check"], "reason": b["reason"], "key": b["key"], "entry": i, "present": b["finding"][7:] in found}
              for i, b in receipts.bodies("disposition", "audit.disposed")]
    refuse(report.get("dispositions", []) == people, what + ": the dispositions are not those of the receipts")

def verify(path, keys):
    files = load(path)
    manifest = check_manifest(files, keys)
    receipts = Receipts(files, keys)
    r, end, family, records, draws, (exact, whole) = check_attempt(receipts, keys)
    plan = r["plan"]
    refuse(plan.get("submit_intent") is True and not plan.get("filtered") and not r.get("scratch"), "the attempt was not registered to be submitted whole")
    refuse("blake3:" + blake3(files["registration.json"]).hex() == plan["registration_digest"], "registration.json is not the plan's")
    if "target.json" in files:
        refuse("blake3:" + blake3(files["target.json"]).hex() == plan["target_digest"], "target.json is not the plan's")
    evidence = Evidence(files)
    planned = plan.get("cases") or canonical(evidence.piece(plan["cases_digest"]))
    tasks = {c["id"]: [] for c in planned}
    for index, record in records:
        refuse(record["case_id"] in tasks, "case %s was not planned" % record["case_id"])
        tasks[record["case_id"]].append(tell(evidence, record, index))
    refuse(all(len(t) == plan["repeat"] for t in tasks.values()), "a task has not as many records as were planned")
    for told in tasks.values():
        told.sort(key=lambda t: t["repeat"])
    rows = check_rows(files, tasks, check_beside(receipts, r, records))
    metadata, entries = json.loads(files["metadata.json"]), len(receipts.of["correction"])
    check_headline("metadata.json", metadata, rows, entries)
    check_headline("manifest.json", manifest["headline"], rows, entries)
    data = json.loads(files["registration.json"]).get("data_set") or {}
    compare("metadata.json", metadata, {"voting_attempts": max(len(t) for t in tasks.values()), "abandoned_executions": sum(b["execution"] - 1 for _, b in records),
                                       "judge_draws": len(draws), "judge_redraws": sum(b["draw"] > 1 for b in draws), "total_questions": len(tasks)})
    if data:
        compare("metadata.json", metadata, {"gaia_split": data["split"], "dataset_revision": data["revision"]})
    origin, size, _ = receipts.tree
    number = {"id": r["attempt"], "number": r["number"], "of": len(family), "origin": origin}
    compare("metadata.json: attempt", metadata["attempt"], number)
    compare("manifest.json: attempt", dict({"exact": False, "whole": False}, **manifest["attempt"]), dict(number, tree_size=size, exact=exact, whole=whole))
    check_audit(files, manifest, rows, receipts, sources_sha256(files, evidence, plan))
    for path in files:
        folder = path.split("/")[0]
        refuse(folder != "receipts" or path in receipts.used, path + " does not come from the attempt")
    def result(h):
        return "%d tasks, unscored" % len(rows) if h["pass_rate"] is None else "pass rate %.4f, %d of %d" % (h["pass_rate"], h["passed"], len(rows))
    said = result(metadata)
    if entries:
        said = "as recorded %s; AS CORRECTED %s" % (said, result(metadata["corrected"]))
    return "class %s: %s; attempt %s, number %d of %s%d of the class at tree size %d; in %s; the rules of the audit were NOT run again: what it found is its maker's word" % (
        r["class"], said,
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
    except Newer as err:
        print("newer: %s" % err)
        return 1
    except (Malformed, OSError, ValueError, KeyError, TypeError, IndexError, AttributeError) as err:
        print("malformed: %s: %s" % (type(err).__name__, err))
        return 1
    return 0

if __name__ == "__main__":
    sys.exit(main())
