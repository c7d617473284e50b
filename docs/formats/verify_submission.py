#!/usr/bin/env python3
"""Verifies a Tallystick submission package without Tallystick.

    verify_submission.py --key LEDGER-KEY [--key ...] PACKAGE

PACKAGE is the folder, or the .zip, that "tally export --format submission" wrote; LEDGER-KEY the verifier key
of the ledger, NAME+ID+BASE64. It prints one line and exits with 0 (verified), 3 (does not
verify), 1 (unreadable or malformed) or 2 (usage error).

It was written from submission.md and reads receipts, entries and evidence with verify.py
beside it. Needs Python 3.9 and nothing else; nothing is fetched. BLAKE3 and Ed25519
are written out in Python: a package of 32 tasks takes seconds.

It derives again from receipts and evidence, and compares byte by byte: every line of
results.jsonl and trajectories.jsonl, metadata.json, README.md, compat/manifest.md.json and
manifest.json, and which pieces of evidence, bodies and receipts there are.

What it leaves out: it does not run the audit, so whether the checks found what is there is
the maker's word, and the line that it prints says so. Of audit-report.json it checks that it
has its one spelling and no other members, that it names the bytes of every input, that its
counts and its end follow from its own checks, and that the manifest says the same. The level
of the attempt is the maker's word; a correction that is signed with another kind of key than
Ed25519 it cannot check, and says so; why a correction does not count is in the maker's words.
"""
import argparse, base64, hashlib, json, math, os, re, struct, sys, zipfile, zlib
from datetime import datetime
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from verify import (BASE, L, P, VERSION, Malformed, Newer, Refused, add, blake3, canonical, check_format, digest, encode, is_number, leaf_hash, members, must, parse_entry, parse_receipt,
                    parse_vkey, read, root_from_proof, sshsig_verify, text, verify_checkpoint)

def refuse(ok, why):
    must(ok, why, Refused)

# --- Files ----------------------------------------------------------------------------

class Files(dict):
    """The files of a package by path. One that is missing is a package that does not verify."""
    def __missing__(self, path):
        raise Refused(path + " is missing")

def once(pairs):
    """An object whose members are there once: readers disagree about which of two holds."""
    names = [name for name, _ in pairs]
    for name in names:
        refuse(names.count(name) == 1, "the member %.60r is there twice" % name)
    return dict(pairs)

def loads(data, what):
    try:
        return json.loads(data, object_pairs_hook=once)
    except (ValueError, RecursionError) as err:
        raise Refused("%s: not JSON: %s" % (what, err))

def indented(value, depth=0):
    """Canonical JSON with two blanks for each level, as the files for people have it."""
    if not isinstance(value, (dict, list)) or not value:
        return encode(value)
    pad, inner = "  " * depth, "  " * (depth + 1)
    if isinstance(value, list):
        return "[\n" + ",\n".join(inner + indented(v, depth + 1) for v in value) + "\n" + pad + "]"
    names = sorted(value, key=lambda name: name.encode("utf-16-be"))
    return "{\n" + ",\n".join(inner + encode(n) + ": " + indented(value[n], depth + 1) for n in names) + "\n" + pad + "}"

def load(path):
    files = Files()
    if os.path.isdir(path):
        for folder, folders, names in os.walk(path):
            for name in names + [n for n in folders if os.path.islink(os.path.join(folder, n))]:
                whole = os.path.join(folder, name)
                refuse(os.path.isfile(whole) and not os.path.islink(whole), name + " is not a regular file")
                files[os.path.relpath(whole, path).replace(os.sep, "/")] = read(whole)
        return files
    data = read(path)
    try:
        with zipfile.ZipFile(path) as archive:
            for one in archive.infolist():
                refuse(one.compress_type == zipfile.ZIP_STORED and one.filename not in files, "an archive of another form")
                files[one.filename] = archive.read(one)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, ValueError, OSError, struct.error) as err:
        raise Refused("the archive: %s" % err)
    refuse(archived(files) == data, "the archive is not the one spelling of its files: stored, in order, nothing else")
    return files

def archived(files):
    """A zip archive of the files in its one spelling: in order, stored, without times, comments and extra fields."""
    must(len(files) < 0xFFFF and sum(map(len, files.values())) < 0xFFFFFFFF, "an archive of so many files or bytes is not read here")
    body, directory = [], []
    at = 0
    for path in sorted(files, key=str.encode):
        name, data = path.encode(), files[path]
        about = struct.pack("<5H3L2H", 0, 0, 0, 0, 0, zlib.crc32(data), len(data), len(data), len(name), 0)
        body.append(b"PK\3\4" + about + name + data)
        directory.append(b"PK\1\2\0\0" + about + struct.pack("<3H2L", 0, 0, 0, 0, at) + name)
        at += len(body[-1])
    end = struct.pack("<4H2LH", 0, 0, len(files), len(files), sum(map(len, directory)), at, 0)
    return b"".join(body + directory) + b"PK\5\6" + end

def check_manifest(files, keys):
    data = files["manifest.json"]
    manifest = loads(data, "manifest.json")
    refuse(isinstance(manifest, dict), "manifest.json is not an object")
    check_format(manifest.get("type"), "tallystick-submission/" + VERSION)
    refuse((indented(manifest) + "\n").encode() == data, "manifest.json is not in its one spelling")
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
        self.times = {}  # of the entries, as they are written
        self.of = {name: self.read(name) for name in ("attempt", "class", "record", "draw", "disposition", "correction", "rest")}

    def read(self, name):
        indexes, n = [], 1
        while "receipts/%s-%04d.proof" % (name, n) in self.files:
            path = "receipts/%s-%04d.proof" % (name, n)
            self.used.add(path)
            magic, _, rest = self.files[path].partition(b"\n")
            check_format(magic.decode("ascii", "replace"), "tallystick-proof/" + VERSION)
            refuse(rest, path + " has no receipts")
            while rest:
                line, _, rest = rest.partition(b"\n")
                refuse(re.fullmatch(b"receipt [1-9][0-9]{0,8}", line), path + ": expected a line \"receipt N\"")
                size = int(line[8:])
                refuse(size <= len(rest), path + " ends within a receipt")
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
        self.entries[index], self.times[index] = parse_entry(entry), json.loads(entry)["time"]
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
    for name, until in (("draw", last), ("disposition", receipts.tree[1])):
        indexes = receipts.of[name]
        refuse(indexes == sorted(set(indexes)) and all(first < i < until for i in indexes), name + " receipts are twice, out of order or not of the attempt")
    refuse(all(b["attempt"] == r["attempt"] for _, b in receipts.bodies("disposition", "audit.disposed")), "a disposition is of another attempt")
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
    """The pieces of a package: in evidence/ by their BLAKE3, whole texts in bodies/ by their SHA-256."""
    def __init__(self, files):
        self.files, self.used, self.kept = files, set(), None

    def piece(self, name):
        path = "evidence/" + digest(text(name), "blake3").hex()
        if path not in self.files:
            return self.body(name)
        if path not in self.used:
            refuse("blake3:" + blake3(self.files[path]).hex() == name, path + " is not the piece of its name")
            self.used.add(path)
        return self.files[path]

    def body(self, name):
        if self.kept is None:
            self.kept = {"blake3:" + blake3(data).hex(): data for path, data in self.files.items() if path.startswith("bodies/")}
        refuse(name in self.kept, "the piece %s is missing" % name)
        return self.kept[name]

    def keep(self, name, sum, optional):
        """A whole text that a step has the beginning of. Of arguments that were denied there may be none."""
        path = "bodies/" + sum[7:]
        if optional and path not in self.files:
            return
        data = self.files[path]
        refuse(hashlib.sha256(data).hexdigest() == path[7:] and "blake3:" + blake3(data).hex() == name, path + " is not the text of its name")
        self.used.add(path)

    def all_used(self):
        for path in self.files:
            refuse(path.split("/")[0] not in ("evidence", "bodies") or path in self.used, path + " does not come from the attempt")

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
        self.whole = []  # texts of which steps have the beginning: digest, SHA-256, whether they may be missing
        for line in trajectory.split(b"\n")[:-1]:
            event = json.loads(line)
            if event["type"] in self.EVENTS:
                getattr(self, event["type"])(event.get("turn", 0), event.get("payload") or {})
        for step in self.asked.values():
            step["is_error"] = True  # no reply came

    def add(self, before, **members):
        step = {name: value for name, value in members.items() if value not in ("", 0, False, None)}
        at = len(self.steps) if before is None else next(i for i, s in enumerate(self.steps) if s is before)
        self.steps.insert(at, step)
        return step

    def about(self, step, prefix, sha, c, optional=False):
        """What is known of the whole of a text."""
        if c.get("truncated") and not c.get("redacted") and c["digest"] in self.notes and not self.notes[c["digest"]].get("salted"):
            self.whole.append((c["digest"], self.notes[c["digest"]]["sha256"], optional))
        note, hits = self.notes.get(c["digest"]), {"scanned": False, "offsets": []}
        if note:
            hits = {"scanned": self.gold, "offsets": note.get("hits", [])}
            if note.get("hit_count", 0) > len(hits["offsets"]):
                hits["count"] = note["hit_count"]
            if "question" in note:
                hits["question"] = note["question"]
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
                       "truncated": bool(a.get("cut") or raw and raw.get("truncated")), "lossy": raw and raw.get("lossy")}, optional=True)
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
    outputs = [s["output"] for s in told.steps if s["type"] == "llm_call" and "output" in s]
    row = {"task_id": record["case_id"], "model_answer": answer, "answer": answer or None, "expected_output": expected, "correct": correct, "outcome": record["outcome"],
           "repeat": record["repeat"], "entry": entry, "turns": sum(s["type"] == "llm_call" for s in told.steps), "inputTokens": told.tokens[0], "outputTokens": told.tokens[1],
           "model": ", ".join(told.models), "tools_used": told.tools, "reasoning_trace": outputs[-1] if outputs else "",
           "question": told.steps[0]["head"].split("\n\nAttached file: ")[0] if told.steps and told.steps[0]["type"] == "prompt" else "",
           "wall_seconds": seconds_between(record["started_at"], record["finished_at"])}
    if record["outcome"] not in ("passed", "failed", "unscored") and record.get("reason"):
        row["error"] = record["reason"]
    levels = [int(t[6:]) for t in record.get("tags") or [] if re.fullmatch("level-[1-9]", t)]
    if levels:
        row["level"] = levels[0]
    line = {"task_id": record["case_id"], "repeat": record["repeat"], "turns": row["turns"], "user_turns": record["turns"], "final_answer": answer,
            "tokens_in": told.tokens[0], "tokens_out": told.tokens[1], "tools_used": told.tools, "steps": told.steps}
    line.update({k: v for k, v in {"model": row["model"], "correct": correct, "vantage": record.get("vantage", "")}.items() if v not in ("", None)})
    return {"row": row, "line": line, "models": told.models, "whole": told.whole, "record": record, "entry": entry, "repeat": record["repeat"], "model_answer": answer}

def seconds_between(start, end):
    start, end = (datetime.strptime(t, "%Y-%m-%dT%H:%M:%S.%fZ") for t in (start, end))
    took = end - start
    return (took.days * 86400 + took.seconds) + took.microseconds / 1e6

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
    there = loads(said or "{}", what)
    refuse(isinstance(there, dict) and there, what + " has no line in trajectories.jsonl where it should be")
    compare(what + " in trajectories.jsonl", there, {k: v for k, v in line.items() if k != "steps"})
    for i, step in enumerate(line["steps"]):
        compare("%s: step %d" % (what, i), there["steps"][i] if i < len(there["steps"]) else {}, step)
    raise Refused(what + ": the line in trajectories.jsonl has members that the evidence does not give")

def check_rows(files, tasks, beside):
    lines, said = iter(files["trajectories.jsonl"].decode().split("\n")[:-1]), files["results.jsonl"].decode().split("\n")[:-1]
    refuse(len(said) == len(tasks) and all(files[f].endswith(b"\n") for f in ("results.jsonl", "trajectories.jsonl")), "results.jsonl has other tasks than the plan, or a file ends within a line")
    rows = []
    for (task, told), line in zip(tasks.items(), said):
        what = "task " + task
        refuse(told, what + " has no record")
        one, there = chosen(told), loads(line, what)
        refuse(isinstance(there, dict), what + " is not an object in results.jsonl")
        row = dict(one["row"], executions=len(told))
        listed = [c for t in told for c in beside[t["entry"]].list]
        if listed:
            row["corrections"] = [correction(c, o) for c, o in zip(listed, list(there.get("corrections", [])) + listed)]
            now = beside[one["entry"]].correct_now()
            if now is not None:
                row["corrected"] = now
        compare(what, there, row)
        refuse(line == encode(row), what + ": its line has members that the receipts and the evidence do not give, or another spelling")
        rows.append(row)
        for t in told:  # every execution has a line, and one of them is submitted
            line = dict(t["line"], submitted=True) if t is one else t["line"]
            check_line("%s, execution %d" % (what, t["repeat"]), next(lines, ""), line)
    refuse(next(lines, None) is None, "trajectories.jsonl has more lines than there are records")
    return rows

def correction(derived, said):
    """A correction as it stands in a row. Why it does not count is in the maker's words."""
    out = {k: v for k, v in derived.items() if k != "counts"}
    if not derived["counts"]:
        out["ignored"] = said.get("ignored") if isinstance(said, dict) and said.get("ignored") else "a reason"
    return out

def rate_of(what, said, correct):
    """What follows from which tasks are correct. Of the interval the last digits are the maker's: processors differ in them."""
    n, passed = len(correct), sum(c is True for c in correct)
    rate, ci = None, None
    if any(c is not None for c in correct):
        rate, z = passed / n, 1.959963984540054
        middle, wide, scale = rate + z * z / (2 * n), z * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n)), 1 + z * z / n
        ci = [max(0.0, (middle - wide) / scale), min(1.0, (middle + wide) / scale)]
        there = said.get("ci95")
        refuse(isinstance(there, list) and len(there) == 2 and all(is_number(a) and abs(a - b) < 1e-12 for a, b in zip(there, ci)), what + ": ci95 is another interval")
        ci = there
    return {"passed": passed, "pass_rate": rate, "ci95": ci, "unscored": sum(c is None for c in correct)}

def headline(what, said, rows, entries):
    n = len(rows)
    out = dict(rate_of(what, said, [r["correct"] for r in rows]), n=n, seed=None, mean_steps=sum(r["turns"] for r in rows) / n,
               empty_rate=sum(not r["model_answer"] for r in rows) / n)
    if entries:
        there = said.get("corrected")
        refuse(isinstance(there, dict), what + ": basis or corrected is not what the receipts give")
        counts = sum("ignored" not in c for r in rows for c in r.get("corrections", []))
        out["basis"], out["corrected"] = "recorded", dict(rate_of(what + ": corrected", there, [r.get("corrected") if r.get("corrections") else r["correct"] for r in rows]),
                                                          entries=entries, ignored=entries - counts)
    return out

def same_bytes(path, data, derived):
    """Compares a document with what it should be, and says which member differs."""
    there = loads(data, path)
    refuse(isinstance(there, dict), path + " is not an object")
    compare(path, there, derived)
    refuse(data == (indented(derived) + "\n").encode(), path + " has members that the receipts and the evidence do not give, or another spelling")

def added(lists):
    out = []
    for item in (item for items in lists for item in items):
        if item not in out:
            out.append(item)
    return out

def metadata_of(files, plan, r, end, number, level, tasks, rows, head, draws, submitted, events):
    levels, data = {}, canonical(files["registration.json"]).get("data_set") or {}
    for row in rows:
        if "level" in row:
            levels[str(row["level"])] = levels.get(str(row["level"]), 0) + 1
    records = [t["record"] for told in tasks.values() for t in told]
    out = dict(head, submitted_at=submitted, harness="tallystick", harness_version=records[-1]["harness_version"], target=r["target"], gaia_levels=levels,
               model=", ".join(added(chosen(told)["models"] for told in tasks.values())), tool_catalogue=added(row["tools_used"] for row in rows),
               total_questions=len(rows), est_cost_usd=end["cost_microdollars"] / 1e6, voting_attempts=max(len(t) for t in tasks.values()),
               view="majority" if plan["repeat"] > 1 else "primary", abandoned_executions=sum(x["execution"] - 1 for x in records), judge_cache_integrity_events=events,
               judge_draws=len(draws), judge_redraws=sum(b["draw"] > 1 for b in draws), recording=plan.get("recording", ""), adrs=[], mode=r["mode"],
               attempt=dict(number, level=level))
    out.update({k: end[k] for k in ("unpriced_calls", "cost_unknown_tasks") if k in end})
    out.update({k: v for k, v in (("gaia_split", data.get("split")), ("dataset_revision", data.get("revision")), ("dataset", data.get("name"))) if v})
    if len(levels) == 1:
        out["gaia_level"] = int(list(levels)[0])
    return out

def score(v, decimals=4):
    """A score below 1 is never shown as 1."""
    s = "%.*f" % (decimals, v)
    return s if v >= 1 or float(s) < 1 else "0." + "9" * decimals

def rate_text(h, n, unscored):
    if h["pass_rate"] is None:
        return unscored
    return "pass rate %s, %d of n = %d, 95 %% interval %.4f to %.4f" % (score(h["pass_rate"]), h["passed"], n, h["ci95"][0], h["ci95"][1])

def readme_of(metadata, manifest, report, dispositions):
    m, n, standing, audit = metadata, metadata["n"], manifest["attempt"], manifest["audit"]
    out = "# Submission of attempt %s\n\n" % m["attempt"]["id"]
    if "corrected" in m:
        c = m["corrected"]
        out += ("**Scores were corrected after the attempt.** The next line, results.jsonl (`correct`) and the audit count what was recorded. As corrected: %s. results.jsonl has each correction "
                "with its reason, the key that signed it and the entry of the ledger; whose key it is, the ledger's signers say.\n\nAs recorded: "
                % ("%s (%d corrections and amendments, of which %d do not count)" % (rate_text(c, n, "unscored"), c["entries"], c["ignored"])))
    if m["pass_rate"] is not None:
        out += "Pass rate %s: %d of n = %d, 95 %% interval (Wilson) %.4f to %.4f, seed none (every task was run).\n" % (score(m["pass_rate"]), m["passed"], n, m["ci95"][0], m["ci95"][1])
    else:
        out += "n = %d, unscored: the split has no public answers.\n" % n
    out += "Mean steps (model calls) %.2f, empty answers %.4f. Split %s, revision %s, view %s, voting attempts %d.\n" % (
        m["mean_steps"], m["empty_rate"], m.get("gaia_split") or "none", m.get("dataset_revision") or "none", m["view"], m["voting_attempts"])
    number = "number %d of %s%d of the class at tree size %d%s" % (standing["number"], "" if standing.get("exact") or standing.get("whole") else "at least ", standing["of"], standing["tree_size"],
                                                                 ", of which every entry is shown" if standing.get("whole") else "")
    out += "Attempt %s, by target %s, in the ledger %s.%s\n\n" % (number, m["target"], standing["origin"], "" if standing.get("exact") else " That there were no more is not shown.")
    if dispositions:
        out += "People signed %d dispositions of findings: audit-report.json lists them. A finding stays what it is.\n\n" % dispositions
    if not audit["clean"]:
        out += "**THE AUDIT IS NOT CLEAN.** audit-report.json says what it found. The package was made all the same, because its maker asked for that with --allow-dirty.\n\n"
    elif not audit["strict_clean"]:
        failures = report["attestation"]["critical_failures"] + report["attestation"]["warn_failures"]
        out += "The audit is clean, **with warnings**: no critical check failed, and these did: %s. %s\n\n" % (", ".join(failures),
            "No check wanted an input." if audit["complete"] else "It is not complete: audit-report.json lists what it could not check.")
    elif not audit["complete"]:
        out += "The audit is clean and not complete: audit-report.json lists what it could not check.\n\n"
    else:
        out += "The audit is clean and complete: no check failed, and none wanted an input. It shows that nothing was found, not that nothing is there.\n\n"
    return out + README

README = """## What these files may contain

trajectories.jsonl and evidence/ hold the beginnings of prompts (2 KiB), of tool results and model replies (4 KiB) and of arguments (8 KiB). They may contain text that the agent fetched, with names and other people's words. Secrets were taken out before anything was written, by shape and by name; a step says `redacted` where that happened, and its digest is then salted. bodies/ is there only if the attempt was registered to keep whole texts. results.jsonl holds the expected answers of a split that has them: keep them from crawlers.

## What is what

- results.jsonl, trajectories.jsonl: a line for each planned task; metadata.json; audit-report.json
- receipts/: proofs that registration, records and end are in the ledger, the registrations of all attempts of the class that are counted, draws of a judge, dispositions, and (rest) every other entry since, which shows that nothing was left out
- evidence/, registration.json, target.json: what the lines are derived from, named by BLAKE3
- manifest.json, manifest.json.sig: every file with its SHA-256, signed by the operator
- compat/manifest.md.json: a manifest in the original's form. Its key follows from public data, so anybody can make one: it proves nothing

## Check it

    tally-verify --key LEDGER-KEY FOLDER

verifies the receipts, derives every file again and compares. It needs nothing else.
"""

# --- The witness manifest of Ruflo, which proves nothing ---------------------------------

def multiply(k, p):
    out = (0, 1, 1, 0)
    for bit in range(k.bit_length() - 1, -1, -1):
        out = add(out, out)
        if k >> bit & 1:
            out = add(out, p)
    z = pow(out[2], P - 2, P)
    x, y = out[0] * z % P, out[1] * z % P
    return (y | (x & 1) << 255).to_bytes(32, "little")

def ed25519_sign(seed, message):
    """The public key of a seed, and its signature (RFC 8032, section 5.1.6)."""
    h = hashlib.sha512(seed).digest()
    a = int.from_bytes(h[:32], "little") & (1 << 254) - 8 | 1 << 254
    public = multiply(a, BASE)
    whole = lambda *parts: int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little") % L
    r = whole(h[32:], message)
    point = multiply(r, BASE)
    return public, point + ((r + whole(point, public, message) * a) % L).to_bytes(32, "little")

def compat_of(files, plan, submitted):
    report = files["audit-report.json"]
    commit, clean, schema = digest(plan["bench_digest"], plan["bench_digest"].split(":")[0]).hex()[:40], b'"clean": true' in report, "ruflo-witness/v1"
    manifest = {"schema": schema, "issuedAt": submitted, "gitCommit": commit, "branch": "compatibility only: the key follows from public data", "releases": {},
                "summary": {"totalFixes": 1, "verified": int(clean), "missing": int(not clean)},
                "fixes": [{"id": "gaia-exploit-audit", "desc": "GAIA pre-submission exploit audit clean", "file": "audit-report.json",
                           "sha256": hashlib.sha256(report).hexdigest(), "marker": '"clean": true', "markerVerified": clean}]}
    hashed = hashlib.sha256(json.dumps(manifest, ensure_ascii=False, separators=(",", ":")).encode()).digest()
    public, signature = ed25519_sign(hashlib.sha256((commit + ":" + schema).encode()).digest(), hashed)
    return (json.dumps({"manifest": manifest, "integrity": {"manifestHashAlgo": "sha256", "manifestHash": hashed.hex(), "signatureAlgo": "ed25519", "publicKey": public.hex(),
                        "signature": signature.hex(), "seedDerivation": "sha256(gitCommit + ':" + schema + "')"}}, ensure_ascii=False, indent=2) + "\n").encode()

CHECKS = [("answer-leakage", "critical"), ("no-work-pass", "critical"), ("oracle-leakage", "critical"), ("grader-isolation", "critical"),
          ("normalization-collision", "warn"), ("voting-disclosure", "warn"), ("split-integrity", "warn"), ("answer-key-reads", "critical"),
          ("dynamic-eval", "critical"), ("judge-injection", "warn"), ("answers-carried", "critical"), ("answers-from-nowhere", "critical")]

def sources_sha256(files, evidence, plan):
    """The digest of the programs that decide the score, as far as the package has them; None without any."""
    sha, programs, carried = lambda data: hashlib.sha256(data).hexdigest(), [], False
    if "target.json" in files:
        programs.append(("target.json", sha(files["target.json"])))
    if "sources" in plan:
        carried = "evidence/" + digest(plan["sources"], "blake3").hex() in files
        if carried:
            programs += [(f["path"], sha(evidence.piece(f["digest"]))) for f in canonical(evidence.piece(plan["sources"]))["files"] if f.get("kept")]
    elif not programs or loads(files["target.json"], "target.json").get("kind") != "builtin" or "rubric_digest" in plan:
        programs = []
    if not programs and not carried:
        return None
    programs.sort(key=lambda p: p[0].encode())
    return sha("".join("%s  %s\n" % (d, path) for path, d in programs).encode())

def check_audit(files, manifest, rows, receipts, sources, audited):
    """That the report is about these files, and that what it sums up follows from its own checks. No rule is run."""
    what, data = "audit-report.json", files["audit-report.json"]
    report = loads(data, what)
    refuse(isinstance(report, dict) and (json.dumps(report, ensure_ascii=False, indent=2) + "\n").encode() == data, what + " is not in its one spelling")
    members(report, "schema audited_at threat_model totals checks attestation inputs rules bodies_demanded dispositions?")
    members(report["totals"], "questions marked_correct trajectories trajectories_recorded")
    members(report["attestation"], "clean strict_clean complete critical_failures warn_failures skipped harness_gaps")
    members(report["rules"], "version digest")
    for c in report["checks"]:
        members(c, "id severity status evidence harness_gap? decided? not_decidable?")
    check_format(report.get("schema"), "tallystick-audit/" + VERSION)
    sums = {name: hashlib.sha256(files[path]).hexdigest() for name, path in (("results_sha256", "results.jsonl"), ("trajectories_sha256", "trajectories.jsonl"), ("metadata_sha256", "metadata.json"))}
    vouched = {"results": True, "trajectories": True, "metadata": True, "sources": sources is not None}
    refuse(report["inputs"] == dict(sums, vouched=True, vouched_inputs=vouched, **({"sources_sha256": sources} if sources else {})), what + " is about other files, or other programs")
    refuse(report["audited_at"] == re.sub(r"\.?0*Z$", "Z", audited), what + " was made at another time than the attempt ended")
    compare(what + ": totals", report["totals"], {"questions": len(rows), "marked_correct": sum(r["correct"] is True for r in rows),
                                                  "trajectories": files["trajectories.jsonl"].count(b"\n"), "trajectories_recorded": len(receipts.of["record"])})
    checks = report["checks"]
    # That the split is known is information.
    severities = [(c["id"], "warn" if (c["id"], c["severity"], c["status"]) == ("split-integrity", "info", "pass") else c["severity"]) for c in checks]
    refuse(severities == CHECKS, what + ": the checks are not the twelve, with their severities")
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
    return report

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
    for t in (t for told in tasks.values() for t in told if plan.get("recording") == "bodies"):
        for name, sum_, optional in t["whole"]:
            evidence.keep(name, sum_, optional)
    events = 0
    if "events" in end:
        events = sum(json.loads(line)["event"]["name"].startswith("judge.cache_") for line in evidence.piece(end["events"]).splitlines())
    said, entries, submitted = loads(files["metadata.json"], "metadata.json"), len(receipts.of["correction"]), receipts.times[receipts.of["attempt"][1]]
    origin, size, _ = receipts.tree
    number = {"id": r["attempt"], "number": r["number"], "of": len(family), "origin": origin}
    level = manifest["attempt"]["level"]
    refuse(level == "signed", "the attempt is of the level %.40r, and only signed ones are submitted" % level)
    metadata = metadata_of(files, plan, r, end, number, level, tasks, rows, headline("metadata.json", said, rows, entries), draws, submitted, events)
    same_bytes("metadata.json", files["metadata.json"], metadata)
    report = check_audit(files, manifest, rows, receipts, sources_sha256(files, evidence, plan), submitted)
    standing = dict(number, tree_size=size, level=level, **{k: True for k, v in (("exact", exact), ("whole", whole)) if v})
    compare("manifest.json: attempt", dict({"exact": False, "whole": False}, **manifest["attempt"]), dict(standing, exact=exact, whole=whole))
    same_bytes("manifest.json", files["manifest.json"], {
        "type": "tallystick-submission/" + VERSION, "class": r["class"], "attempt": standing, "headline": headline("manifest.json", manifest["headline"], rows, entries),
        "audit": {k: report["attestation"][k] for k in ("clean", "strict_clean", "complete")},
        "decision": {"submittable": True, "reason": "registered with --submit-intent, %s, recorded whole, every planned task has its record" % level},
        "files": [{"bytes": len(files[p]), "path": p, "sha256": "sha256:" + hashlib.sha256(files[p]).hexdigest()}
                  for p in sorted(files, key=str.encode) if p not in ("manifest.json", "manifest.json.sig")]})
    refuse(files["README.md"] == readme_of(metadata, manifest, report, len(receipts.of["disposition"])).encode(), "README.md is not what the receipts and the evidence give")
    refuse(files["compat/manifest.md.json"] == compat_of(files, plan, submitted), "compat/manifest.md.json is not what the receipts and the evidence give")
    evidence.all_used()
    known = {"manifest.json", "manifest.json.sig", "README.md", "results.jsonl", "trajectories.jsonl", "metadata.json", "audit-report.json", "registration.json", "target.json", "compat/manifest.md.json"}
    for path in files:
        refuse(path in known or path in receipts.used or path in evidence.used, path + " does not come from the attempt")
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
    except OSError as err:
        print("unreadable: %s" % err)
        return 1
    except Exception as err:  # a package may be made to break a reader: it then does not verify
        print("malformed: %s: %s" % (type(err).__name__, err))
        return 1
    return 0

if __name__ == "__main__":
    sys.exit(main())
