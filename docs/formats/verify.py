#!/usr/bin/env python3
"""A second verifier of what Tallystick writes.

    verify.py receipt --key VKEY FILE
    verify.py anchor --key VKEY FILE            --key may be given again
    verify.py ledger --signers FILE FOLDER      FILE is version 1, FOLDER has segments/
    verify.py bench --signers FILE FOLDER       FILE is the version in force, FOLDER bench/CLASS
    verify.py trajectory [--head DIGEST] FILE
    verify.py bundle --signer HEX [--key VKEY] FILE
    verify.py vectors FOLDER                    every example in vectors/

It prints one line and exits with 0 (verified), 3 (does not verify), 1 (unreadable or
malformed) or 2 (usage error).

It was written from the pages in this folder and the specifications they name. The rules
of records, events, documents of a bench and bundles it reads from rules/, beside it; the
class Rules interprets them. Tests compare it with the program on thousands of samples and
forgeries, and it was corrected where the pages had left something open. It needs nothing
but Python 3.9. It is meant to be read: each part names its page. It is slow: seconds for a
megabyte.

What it leaves out: of SSH keys it knows only ssh-ed25519, and gives up on a signers file
with other keys, OpenPGP's included, or with authorities, and on OpenPGP signatures; those
of people on an anchor it does not read, and says so. It ignores cosignatures of witnesses.
That whole batches were cut from the end of a ledger it notices by what is left around it
(anchors, tiles, checkpoints, receipts), and not if all of that is gone too: it has no
memory and asks no witness. Of a bench it reads signed.json and no YAML. It grades nothing.
"""
import argparse, base64, hashlib, json, os, re, struct, sys, unicodedata
from datetime import datetime, timezone
from decimal import Decimal

class Refused(Exception):
    """The bytes were read and do not prove what they should. Exit code 3."""

class Malformed(Exception):
    """The bytes are not in the form that their page describes. Exit code 1."""

class Newer(Exception):
    """Written by a newer program: nothing is known about what it says. Exit code 1."""

class Unsupported(Exception):
    """Maybe good, but this program cannot tell. Exit code 1."""

def must(ok, why, error=Malformed):
    if not ok:
        raise error(why)

VERSION = "1-draft"

def check_format(found, expected):
    """Refuses a document of another format; another version of the same one is newer, not wrong."""
    family = expected[:-len(VERSION)]
    must(not (isinstance(found, str) and found != expected and re.fullmatch(re.escape(family) + "[0-9a-z.-]{1,40}", found)),
         "it was written in format %s by a newer program; this one reads %s" % (found, VERSION), Newer)
    must(found == expected, "the format is %.60r, expected %s" % (found, expected))

def sha256(data):
    return hashlib.sha256(data).digest()

def base64_decode(text, length=None):
    """Standard base64 in its only spelling: with padding, without stray bits."""
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        raise Malformed("not base64: %.20s" % text)
    must(base64.b64encode(data).decode() == text, "base64 with stray bits: %.20s" % text)
    must(length in (None, len(data)), "base64 of %d bytes, not %s" % (len(data), length))
    return data

# --- BLAKE3, for hashing only (c2sp.org/BLAKE3; digests.md) ---------------------------

IV = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A,
      0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
PERMUTATION = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
# The state is a square of 4 by 4 words: a round mixes its columns, then its diagonals.
LANES = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
         (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))
CHUNK_START, CHUNK_END, PARENT, ROOT = 1, 2, 4, 8

def compress(h, block, counter, flags):
    m = struct.unpack("<16I", block.ljust(64, b"\0"))
    v = [*h, *IV[:4], counter & 0xFFFFFFFF, counter >> 32, len(block), flags]
    for _ in range(7):
        for lane, (a, b, c, d) in enumerate(LANES):
            for word, turn_d, turn_b in ((m[2 * lane], 16, 12), (m[2 * lane + 1], 8, 7)):
                v[a] = (v[a] + v[b] + word) & 0xFFFFFFFF
                x = v[d] ^ v[a]
                v[d] = (x >> turn_d | x << (32 - turn_d)) & 0xFFFFFFFF
                v[c] = (v[c] + v[d]) & 0xFFFFFFFF
                x = v[b] ^ v[c]
                v[b] = (x >> turn_b | x << (32 - turn_b)) & 0xFFFFFFFF
        m = [m[i] for i in PERMUTATION]
    return [v[i] ^ v[i + 8] for i in range(8)]

def blake3_node(data, chunk, root):
    """Eight words: the hash of data, whose first 1024 bytes are chunk number chunk."""
    if len(data) <= 1024:
        h, last = IV, max(0, len(data) - 1) // 64 * 64
        for at in range(0, last + 1, 64):
            flags = (CHUNK_START if at == 0 else 0) | (CHUNK_END | root if at == last else 0)
            h = compress(h, data[at:at + 64], chunk, flags)
        return h
    cut = 1024  # The left side has as many chunks as a power of two below their number.
    while cut * 2 < len(data):
        cut *= 2
    left = blake3_node(data[:cut], chunk, 0)
    right = blake3_node(data[cut:], chunk + cut // 1024, 0)
    return compress(IV, struct.pack("<16I", *left, *right), 0, PARENT | root)

def blake3(data):
    return struct.pack("<8I", *blake3_node(data, 0, ROOT))

# --- Ed25519, for verifying only (RFC 8032, section 5.1; signers.md, weak keys) -------

P = 2**255 - 19                                         # the field
L = 2**252 + 27742317777372353535851937790883648493     # the order of the base point
D = -121665 * pow(121666, P - 2, P) % P                 # the curve: -x² + y² = 1 + D x² y²
SMALL_ORDER = [int.from_bytes(bytes.fromhex(y), "little") for y in (
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a")]

def weak(public):
    y = int.from_bytes(public, "little") % 2**255
    return y >= P or y in SMALL_ORDER

def add(p, q):
    """The sum of two points, each as X, Y, Z, T with x = X/Z, y = Y/Z, x y = T/Z."""
    a, b = (p[1] - p[0]) * (q[1] - q[0]), (p[1] + p[0]) * (q[1] + q[0])
    c, d = 2 * D * p[3] * q[3], 2 * p[2] * q[2]
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P

def point(encoded):
    """The point that 32 bytes stand for (y, and the lowest bit of x), or None."""
    y = int.from_bytes(encoded, "little")
    y, odd = y % 2**255, y >> 255
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square:
        x = x * pow(2, (P - 1) // 4, P) % P             # times the root of -1
    if y >= P or x * x % P != square or (x == 0 and odd):
        return None
    x = x if x % 2 == odd else P - x
    return x, y, 1, x * y % P

BASE = point((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))     # y = 4/5

def ed25519_verify(public, message, signature):
    a, s = point(public), int.from_bytes(signature[32:], "little")
    if len(signature) != 64 or s >= L or a is None or weak(public):
        return False
    k = int.from_bytes(hashlib.sha512(signature[:32] + public + message).digest(), "little") % L
    # R must be s B - k A, without cofactor and in its one encoding.
    minus_a, r = (P - a[0], a[1], 1, P - a[3]), (0, 1, 1, 0)
    table = (None, BASE, minus_a, add(BASE, minus_a))
    for bit in range(252, -1, -1):
        r = add(r, r)
        pick = (s >> bit & 1) + 2 * (k >> bit & 1)
        if pick:
            r = add(r, table[pick])
    z = pow(r[2], P - 2, P)
    x, y = r[0] * z % P, r[1] * z % P
    return (y | (x & 1) << 255).to_bytes(32, "little") == signature[:32]

# --- Canonical JSON (canonical-json.md) -----------------------------------------------

def number(x):
    """A number as ECMAScript spells it."""
    must(abs(x) < 2**53 or isinstance(x, float) and 1e21 <= abs(x) < float("inf"),
         "an integer beyond 2^53-1, or a number beyond the largest double")
    if abs(x) < 2**53 and x == int(x):
        return str(int(x))
    sign, digits, exponent = Decimal(repr(x)).normalize().as_tuple()    # repr: shortest digits
    sign, digits, point_at = "-" * sign, "".join(map(str, digits)), len(digits) + exponent
    if not -6 < point_at <= 21:
        return sign + digits[0] + "." * (len(digits) > 1) + digits[1:] + "e%+d" % (point_at - 1)
    digits = "0" * (1 - point_at) + digits
    return sign + digits[:exponent] + "." + digits[exponent:]

def encode(value, depth=1):
    if value is None or isinstance(value, (bool, str)):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, (int, float)):
        return number(value)
    must(depth <= 64, "more than 64 arrays and objects inside each other")
    if isinstance(value, list):
        return "[" + ",".join(encode(item, depth + 1) for item in value) + "]"
    names = sorted(value, key=lambda name: name.encode("utf-16-be"))
    return "{" + ",".join(encode(n) + ":" + encode(value[n], depth + 1) for n in names) + "}"

def canonical(data):
    """Decode JSON that must be what encoding gives. That refuses white space, another
    order or spelling, and a name that is there twice: the copy has it once."""
    try:
        value = json.loads(data.decode())
        copy = encode(value).encode()
    except (ValueError, RecursionError) as err:
        raise Malformed("not JSON: %s" % err)
    must(copy == data, "not canonical JSON: %.60r" % data)
    return value

def members(value, names):
    """value, which must be an object with these members (question mark: maybe absent)."""
    required = {name for name in names.split() if not name.endswith("?")}
    must(isinstance(value, dict) and required <= set(value) <= set(names.replace("?", "").split()),
         "not an object with the members " + names)
    return value

def text(value):
    must(isinstance(value, str), "not a text: %.20r" % (value,))
    return value

def digest(value, prefix):
    must(re.fullmatch(prefix + ":[0-9a-f]{64}", text(value)), "not %s: %.20s" % (prefix, value))
    return bytes.fromhex(value[len(prefix) + 1:])

# --- The rules of documents (rules/README.md) ------------------------------------------

BANNED = ("confidence", "llm", "self_reported", "model_says")
INVISIBLE = re.compile("[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
                       "\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
                       "\U000e0000-\U000e0fff\x00-\x1f\x7f-\x9f]")

def is_time(value, pattern, layout):
    try:
        return bool(re.fullmatch(pattern, value)) and bool(datetime.strptime(value, layout))
    except ValueError:
        return False

def is_objective(name):
    """No word of a name, in any case and however joined, is one that no score may claim."""
    kinds = [unicodedata.category(c) for c in name]
    words = ""
    for i, (c, kind) in enumerate(zip(name, kinds)):
        if kind[0] != "L":
            words += "_"
            continue
        before, after = i > 0 and kinds[i - 1], i + 1 < len(name) and kinds[i + 1]
        if kind == "Lu" and before and before[0] == "L" and (before == "Ll" or after == "Ll"):
            words += "_"
        words += c.lower()[:1]
    words = "_%s_" % "_".join(word for word in words.split("_") if word)
    return not any("_%s_" % word in words for word in BANNED)

def is_ssh_key(line):
    """A label and base64 that begins with it; whether it is a good key is for signers.md."""
    fields = line.split()
    if re.search("[\r\n]", line) or len(fields) < 2 or not re.fullmatch(
            "ssh-(ed25519|rsa)|ecdsa-sha2-nistp(256|384|521)|"
            "sk-(ssh-ed25519|ecdsa-sha2-nistp256)@openssh[.]com", fields[0]):
        return False
    try:
        wire, label = base64_decode(fields[1]), fields[0].encode()
    except Malformed:
        return False
    label = struct.pack(">I", len(label)) + label
    rest = wire[len(label):]
    return wire.startswith(label) and (fields[0] != "ssh-ed25519"
                                       or len(rest) == 36 and rest.startswith(b"\0\0\0\x20"))

FORMS = {
    "blake3": lambda v: re.fullmatch("blake3:[0-9a-f]{64}", v),
    "sha256": lambda v: re.fullmatch("sha256:[0-9a-f]{64}", v),
    "not_zero": lambda v: not v.endswith(":" + "0" * 64),
    "time": lambda v: is_time(v, r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z", "%Y-%m-%dT%H:%M:%S.%fZ"),
    "second": lambda v: is_time(v, r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", "%Y-%m-%dT%H:%M:%SZ"),
    "origin": lambda v: re.fullmatch("[a-z0-9._/-]{1,200}", v) and not {"", ".", ".."} & set(v.split("/")),
    "name": lambda v: re.fullmatch("[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?", v),
    "objective": is_objective,
    "visible": lambda v: not INVISIBLE.search(v),
    "no_control": lambda v: not re.search("[\x00-\x1f\x7f-\x9f]", v),
    "relative_path": lambda v: not v.startswith("..") and not {"", ".", ".."} & set(v.split("/")),
    "ssh_public_key": lambda v: is_ssh_key(v[:-1] if v.endswith("\n") else v),
    "six_decimals": lambda v: round(v * 1e6) / 1e6 == v,
}

def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)

def same(a, b):
    return type(a) is type(b) and a == b or is_number(a) and is_number(b) and a == b

def find(value, path):
    """The member at a path with dots, or None: null is no value of ours."""
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value

def identity(by, item):
    if by == "look":
        for old, new in ("rn", "m"), ("vv", "w"), ("0", "o"), ("1", "l"), ("i", "l"), ("_", "-"):
            item = item.lower().replace(old, new)
        return item
    return encode(item if by == "value" else [item.get(name) for name in by.split()])

def size(value):
    return len(encode(value).encode())

class Rules:
    """One file of rules. check raises Malformed where a document does not keep them."""

    def __init__(self, name):
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "rules", name + ".json")) as file:
            self.file = json.load(file)
        check_format(self.file["rules"], "tallystick-rules/" + VERSION)
        self.shapes = {**self.file.get("shapes", {}), **self.file["documents"]}

    def check(self, name, value):
        must(name in self.shapes, "the rules know no %.40s" % name)
        self.value(self.shapes[name], value, name)

    def value(self, s, v, at):
        what = s["is"]
        if what == "any":
            return
        if what not in CHECKED:
            return self.value(self.file["shapes"][what], v, at)
        must(CHECKED[what](v), "%s is not a %s" % (at, what))
        amount = v if is_number(v) else len(v.encode()) if isinstance(v, str) else 0 if what == "flag" else len(v)
        if what not in ("flag", "object"):
            must(s.get("min", amount) <= amount <= s.get("max", amount)
                 and ("above" not in s or amount > s["above"]), "%s is too small or too large" % at)
        must("one_of" not in s or any(same(v, w) for w in s["one_of"]), "%s is %.60r" % (at, v))
        must("pattern" not in s or re.fullmatch(s["pattern"], v), "%s is %.60r" % (at, v))
        for form in s.get("like", ()):
            must(FORMS[form](v), "%s is %.60r, which is not like %s" % (at, v, form))
        if what in ("list", "map"):
            for name, item in enumerate(v) if what == "list" else v.items():
                must("names" not in s or self.value(s["names"], name, "a name in " + at) is None, at)
                self.value(s["of"], item, "%s.%s" % (at, name))
        if "distinct" in s:
            keys = [identity(s["distinct"], item) for item in v]
            must(len(set(keys)) == len(keys), "%s has something twice" % at)
        must(not s.get("sorted") or v == sorted(v, key=str.encode), "%s is not in order" % at)
        if what == "object":
            self.object(s, v, at)

    def object(self, s, v, at):
        known = s.get("members", {})
        must(set(v) <= set(known), "%s has a member that it does not know: %.60s" % (at, set(v) - set(known)))
        for name, shape in known.items():
            must(name in v or shape.get("optional"), "%s has no %s" % (at, name))
            if name in v:
                self.value(shape, v[name], "%s.%s" % (at, name))
        for rule in s.get("rules", ()):
            must(self.holds(v, *rule), "%s: not so: %.120s" % (at, " ".join(map(str, rule))))

    def holds(self, v, rule, *args):
        """A relation between members. One that needs a member that is absent holds."""
        there = [find(v, a) is not None if isinstance(a, str) else None for a in args]
        a, b = ([find(v, x) if isinstance(x, str) else None for x in args] + [None, None])[:2]
        listed = b is not None and any(same(b, x) for x in args[2:])
        if rule == "exactly_one":
            return sum(there) == 1
        if rule == "together":
            return len(set(there)) == 1
        if rule == "needs":
            return there[1] or not there[0]
        if rule == "needed_when":
            return there[0] or not listed
        if rule == "absent_when":
            return not (there[0] and listed)
        if rule == "there_when":
            return there[0] == listed
        if rule == "true_when":
            return a is None or a == listed
        if rule == "document":
            must(b in self.file["documents"], "no document is called %.40r" % (b,))
            return self.check(b, a) is None
        if rule == "head":
            return len((find(v, args[0] + ".head") or "").encode()) <= args[1]
        if rule == "bytes":
            return size(v) <= args[0]
        if rule == "whole_text":
            flags = [name for name in ("lossy", "redacted", "truncated") if name in v]
            head = v["head"].encode()
            if flags == ["truncated"]:
                return v["bytes"] > len(head)
            return flags or v["bytes"] == len(head) and v["digest"] == "blake3:" + blake3(head).hex()
        if rule == "whole_arguments":
            values, cut, raw = v.get("values", {}), v.get("cut", {}), v.get("raw")
            if raw:
                return not values and not cut and (raw["bytes"], raw["digest"]) == (v["bytes"], v["digest"])
            if set(values) & set(cut) or any(size(value) > 8192 for value in values.values()):
                return False
            whole = encode(values).encode()
            return (bool(cut) or "redacted" in v
                    or v["bytes"] == len(whole) and v["digest"] == "blake3:" + blake3(whole).hex())
        if rule == "ascending":
            values = [find(v, ".".join(filter(None, (args[0], name, args[1])))) for name, _ in args[2]]
            values = [default if value is None else value for value, (_, default) in zip(values, args[2])]
            return values == sorted(values)
        if a is None or b is None:
            return True
        if rule == "at_most":
            return a <= b
        if rule == "differ":
            return not same(a, b)
        if rule == "length":
            return len(a) == b
        if rule == "sum":
            return sum(a.values()) == b
        must(rule == "fits", "the rules have a relation that is not known: %.40s" % rule)
        return any(same(b, x) for x in args[2].get(str(a), ()))

CHECKED = {
    "text": lambda v: isinstance(v, str),
    "count": lambda v: isinstance(v, int) and not isinstance(v, bool) and abs(v) < 2**53,
    "number": is_number,
    "flag": lambda v: isinstance(v, bool),
    "list": lambda v: isinstance(v, list),
    "map": lambda v: isinstance(v, dict),
    "object": lambda v: isinstance(v, dict),
}

def rules(name, known={}):
    if name not in known:
        known[name] = Rules(name)
    return known[name]

# --- The signers file (signers.md) ----------------------------------------------------

SIGNERS_HEADER = re.compile("# (tallystick-signers/[0-9a-z.-]{1,40})\n# version: ([1-9][0-9]{0,9})\n"
                            "(?:# previous: (sha256:[0-9a-f]{64})\n)?")
LATER_HEADER = re.compile(r"#[# \t]*(tallystick-signers|version:|previous:)", re.I)
OPENPGP_LIKE = re.compile(r"#[# \t]*openpgp-signer", re.I)
SIGNERS_LINE = re.compile(r'([A-Za-z0-9._@+-]{1,255})[ \t]+(?:((?:[^" \t]|"[^"]*")+)[ \t]+)?'
                          r"ssh-ed25519[ \t]+([A-Za-z0-9+/=]+)(?:[ \t]+(.*))?")
TIME_FORMATS = {9: "%Y%m%dZ", 13: "%Y%m%d%H%MZ", 15: "%Y%m%d%H%M%SZ"}

def signers_time(value):
    must(re.fullmatch("[0-9]+Z", value) and len(value) in TIME_FORMATS, "not a time: " + value)
    try:
        time = datetime.strptime(value, TIME_FORMATS[len(value)])
    except ValueError as err:
        raise Malformed("not a time: %s" % err)
    must(time > datetime(1970, 1, 1), "not after 1970 began: " + value)
    return time

class Line:
    """One key of one person, with what it may do and when."""

    def __init__(self, line):
        match = SIGNERS_LINE.fullmatch(line)
        must(match or not re.search("[ \t](cert-authority|ssh-rsa|ecdsa-|sk-)", line),
             "a signers file with more than plain ssh-ed25519 keys", Unsupported)
        must(match, "not a signers line: %.60s" % line)
        self.person, options, blob, comment = match.groups("")
        self.options, self.remark = options, [word for word in comment.split() if not word.startswith("roles=")]
        must("cert-authority" not in options, "a signers file with authorities", Unsupported)
        self.key = ssh_key(base64_decode(blob))

        found = re.findall('([a-z-]+)="([^"]+)"', options)
        values = dict(found)
        must(",".join('%s="%s"' % option for option in found) == options
             and len(values) == len(found), "not options, or one twice: " + options)
        must(set(values) <= {"namespaces", "valid-after", "valid-before"}, "options: " + options)
        self.namespaces = values.get("namespaces", "*").split(",")
        must(all(re.fullmatch("!?[A-Za-z0-9._@+*?:/-]{1,255}", pattern) for pattern in self.namespaces),
             "options: " + options)
        self.after = signers_time(values["valid-after"]) if "valid-after" in values else datetime.min
        self.before = signers_time(values["valid-before"]) if "valid-before" in values else datetime.max
        must(self.after < self.before, "valid-before is not later than valid-after")

        words = [word for word in comment.split() if word.lower().startswith("role")]
        self.roles = words[0][len("roles="):].split(",") if words else []
        must(not words or len(words) == 1 and words[0].startswith("roles=")
             and set(self.roles) <= {"curator", "security", "operator", "worker"}
             and len(set(self.roles)) == len(self.roles), "roles: " + " ".join(words))

    def admits(self, namespace, time):
        def some(patterns):
            return any(re.fullmatch(re.escape(p).replace(r"\*", ".*").replace(r"\?", "."), namespace)
                       for p in patterns)
        return (some(p for p in self.namespaces if p[:1] != "!")
                and not some(p[1:] for p in self.namespaces if p[:1] == "!")
                and self.after <= time.replace(microsecond=0) <= self.before)

def count(lines):
    """The people of some lines who count, with their roles: curators, and who holds the
    security role."""
    roles = {}
    for line in lines:
        roles.setdefault(line.person, set()).update(line.roles)
    return {person: held for person, held in roles.items()
            if held & {"curator", "security"}}

def enough(people):
    """Two people, one of them with the security role."""
    return len(people) >= 2 and any("security" in held for held in people.values())

class Signers:
    """One version of the signers file."""

    def __init__(self, content):
        header, size = SIGNERS_HEADER.match(content), len(content.encode())
        must(header and content.endswith("\n") and size <= 1 << 20 and content.count("\n") <= 4096,
             "not a signers file")
        check_format(header[1], "tallystick-signers/" + VERSION)
        self.digest, self.version = sha256(content.encode()), int(header[2])
        self.previous = header[3] and digest(header[3], "sha256")
        must(self.version < 2**31 and (self.version > 1) == (self.previous is not None),
             "signers file: version %d, previous %s" % (self.version, header[3]))
        lines = content[header.end():].split("\n")[:-1]
        for line in lines:
            must(len(line.encode()) <= 16384 and line == line.strip(" \t")
                 and line.isascii() and line.replace("\t", " ").isprintable()
                 and not LATER_HEADER.match(line),
                 "signers file: not an acceptable line: %.60r" % line)
            must(not line.startswith("# openpgp-signer: "), "a signers file with OpenPGP keys", Unsupported)
            must(not OPENPGP_LIKE.match(line), "signers file: not an acceptable line: %.60r" % line)
        self.lines = [Line(line) for line in lines if line and not line.startswith("#")]
        must(all("worker" not in line.roles or line.roles == ["worker"] for line in self.lines),
             "signers file: a worker with another role")
        self.people = {line.person for line in self.lines}
        must(len({person.lower() for person in self.people}) == len(self.people),
             "signers file: two names that differ only in case")
        must(len({(line.key, line.person) for line in self.lines})
             == len({line.key for line in self.lines}), "signers file: a key of two people", Refused)

    def signed_by(self, message, signatures, namespace, time):
        """The people behind some SSH signatures, every one of which must be good."""
        signing = []
        for armoured in signatures:
            key = sshsig_verify(armoured, message, namespace)
            good = [line for line in self.lines if line.key == key and line.admits(namespace, time)]
            must(good, "signed with a key that is not listed for this act and time", Refused)
            signing += good
        return count(signing)

    def operators(self, time):
        return {line.key for line in self.lines
                if "operator" in line.roles and line.admits("tallystick-attempt", time)}

    def next(self, content, signatures, time):
        """The version after this one, if two people of this one signed it."""
        new = Signers(content)
        must(new.version == self.version + 1 and new.previous == self.digest,
             "signers version %d does not follow version %d" % (new.version, self.version), Refused)
        if self.lone():
            return self.next_key(new, content, signatures, time)
        people = self.signed_by(content.encode(), signatures, "tallystick-signers", time)
        must(enough(people),
             "signers version %d was not signed by two people who count" % new.version, Refused)
        must(enough(count(new.lines)),
             "signers version %d could never be changed" % new.version, Refused)
        return new

    def lone(self):
        """The one line of a file that names an operator and no other person, or None."""
        line = self.lines[0] if len(self.lines) == 1 else None
        return line if line and line.roles == ["operator"] and not line.options else None

    def next_key(self, new, content, signatures, time):
        """A lone operator changes the key, which the old and the new one sign."""
        old, fresh = self.lone(), new.lone()
        must(fresh and fresh.person == old.person and fresh.remark == old.remark and fresh.key != old.key,
             "signers version %d changes more than the operator's key" % new.version, Refused)
        must([sshsig_verify(s, content.encode(), "tallystick-signers") for s in signatures] == [old.key, fresh.key],
             "signers version %d was not signed by the old key and the new one" % new.version, Refused)
        return new

# --- SSH keys and signatures (signers.md; PROTOCOL.sshsig of OpenSSH) -----------------

ARMOUR = re.compile("-----BEGIN SSH SIGNATURE-----\n(%s)-----END SSH SIGNATURE-----\n" % "|".join(
    "(?:.{%d}\n)*.{1,%d}\n" % (width, width) for width in (70, 64, 76)))

def ssh_fields(data, count):
    """Exactly count strings, each after its length in four bytes."""
    fields = []
    for _ in range(count):
        end = 4 + int.from_bytes(data[:4], "big")
        must(len(data) >= end, "an SSH key or signature is cut off")
        fields.append(data[4:end])
        data = data[end:]
    must(not data, "bytes after an SSH key or signature")
    return fields

def ssh_key(blob):
    kind, key = ssh_fields(blob, 2)
    must(kind == b"ssh-ed25519" and len(key) == 32, "not an ssh-ed25519 key")
    must(not weak(key), "a weak key", Refused)
    return key

def sshsig_verify(armoured, message, namespace):
    """The Ed25519 key that made one armoured signature of message."""
    match = ARMOUR.fullmatch(text(armoured))
    must("BEGIN PGP" not in armoured, "an OpenPGP signature", Unsupported)
    must(match and len(armoured) < 1 << 16, "not one armoured SSH signature")
    blob = base64_decode(match[1].replace("\n", ""))
    must(blob[:10] == b"SSHSIG\0\0\0\1", "not an SSHSIG of version 1")
    public, space, reserved, algorithm, signature = ssh_fields(blob[10:], 5)
    must(not reserved and algorithm in (b"sha512", b"sha256"), "an SSHSIG with an unknown hash")
    must(space == namespace.encode(), "an SSH signature for another act", Refused)
    key, (kind, raw) = ssh_key(public), ssh_fields(signature, 2)
    hashed = hashlib.new(algorithm.decode(), message).digest()
    signed = b"SSHSIG" + b"".join(struct.pack(">I", len(field)) + field
                                  for field in (space, reserved, algorithm, hashed))
    must(kind == b"ssh-ed25519" and ed25519_verify(key, signed, raw), "a wrong SSH signature", Refused)
    return key

# --- Entries, chain and tree (ledger.md; RFC 6962, section 2.1) -----------------------

def parse_time(value):
    must(re.fullmatch(r"[0-9]{4}(-[0-9]{2}){2}T[0-9]{2}(:[0-9]{2}){2}\.[0-9]{3}Z", text(value)),
         "not a time with three decimals: %.30s" % value)
    try:
        return datetime.fromisoformat(value[:-1])
    except ValueError as err:
        raise Malformed("not a time: %s" % err)

def parse_entry(data):
    must(len(data) <= 1 << 20, "an entry of more than 1,048,576 bytes")
    entry = canonical(data)
    check_format(find(entry, "v"), VERSION)
    rules("records").check("entry", entry)
    entry["time"] = parse_time(entry["time"])
    return entry

def check_origin(origin):
    must(re.fullmatch("[a-z0-9._/-]{1,200}", text(origin))
         and not {"", ".", ".."} & set(origin.split("/")), "no origin: %.40s" % origin)
    return origin

def leaf_record(origin, index, prev, content):
    return encode({"content": "blake3:" + content.hex(), "index": index,
                   "origin": origin, "prev": "sha256:" + prev.hex()}).encode()

def leaf_hash(origin, index, prev, content):
    return sha256(b"\0" + leaf_record(origin, index, prev, content))

def node_hash(left, right):
    return sha256(b"\1" + left + right)

class Tree:
    """Grows by a leaf at a time; keeps only the roots of its complete subtrees."""

    def __init__(self):
        self.size, self.roots = 0, []

    def add(self, leaf):
        self.roots.append(leaf)
        self.size += 1
        bits = self.size
        while bits % 2 == 0:
            right, left = self.roots.pop(), self.roots.pop()
            self.roots.append(node_hash(left, right))
            bits //= 2

    def root(self):
        root = self.roots[-1]
        for left in self.roots[-2::-1]:
            root = node_hash(left, root)
        return root

def root_from_proof(leaf, index, size, proof):
    """The root over size leaves, from one of them and the hashes beside its way up."""
    if size == 1:
        must(not proof, "the proof is too long", Refused)
        return leaf
    must(proof, "the proof is too short", Refused)
    left = 1 << (size - 1).bit_length() - 1             # the largest power of two below size
    if index < left:
        return node_hash(root_from_proof(leaf, index, left, proof[:-1]), proof[-1])
    return node_hash(proof[-1], root_from_proof(leaf, index - left, size - left, proof[:-1]))

# --- Checkpoints (receipt.md; c2sp.org/signed-note, c2sp.org/tlog-checkpoint) ---------

CHECKPOINT = re.compile("([^\n]*)\n(0|[1-9][0-9]{0,15})\n([^\n]*)\n\n((?:— [^ \n]+ [^ \n]+\n){1,100})")

def key_id(name, public):
    return sha256(name.encode() + b"\n\1" + public)[:4]

def parse_vkey(vkey):
    name, ident, blob = (vkey.split("+", 2) + ["", ""])[:3]
    kind_and_key = base64_decode(blob, 33)
    public = kind_and_key[1:]
    must(kind_and_key[0] == 1 and not weak(public) and key_id(check_origin(name), public).hex() == ident,
         "not the verifier key of a ledger: " + vkey)
    return name, public

def checkpoint_text(origin, size, root):
    return "%s\n%d\n%s\n" % (origin, size, base64.b64encode(root).decode())

def verify_checkpoint(note, keys):
    """Origin, size and root of a checkpoint that one of the keys signed."""
    match = CHECKPOINT.fullmatch(note)
    must(match and len(note.encode()) <= 65536, "not a checkpoint of three lines, and signatures")
    origin, size, root = check_origin(match[1]), int(match[2]), base64_decode(match[3], 32)
    known = {(name, key_id(name, public)): public for name, public in keys if name == origin}
    signers = set()
    for line in match[4].split("\n")[:-1]:
        _, name, signature = line.split(" ")
        signature = base64_decode(signature)
        signer = name, signature[:4]
        must(len(signature) > 4 and not re.search(r"[+\s\0-\x1f]", name), "a bad signature line")
        must(signer not in signers, "a key signed the checkpoint twice")
        signers.add(signer)
        if signer in known:
            signed = checkpoint_text(origin, size, root).encode()
            must(ed25519_verify(known[signer], signed, signature[4:]),
                 "a wrong signature on the checkpoint", Refused)
    must(signers & set(known), "the checkpoint of %s is signed by no key that was named" % origin, Refused)
    return origin, size, root

# --- Receipts (receipt.md; c2sp.org/tlog-proof) ---------------------------------------

RECEIPT = re.compile("c2sp[.]org/tlog-proof@v1\nextra ([^\n]+)\nindex (0|[1-9][0-9]{0,15})\n"
                     "((?:[^\n]+\n)*)\n(.*)", re.S)

def parse_receipt(data):
    """The parts of a receipt, of which nothing is believed yet."""
    match = RECEIPT.fullmatch(data.decode())
    must(match and len(data) <= 65536, "not a receipt")
    index, proof = int(match[2]), [base64_decode(line, 32) for line in match[3].split("\n")[:-1]]
    extra = members(canonical(base64_decode(match[1])), "content entry? prev")
    content, prev = digest(extra["content"], "blake3"), digest(extra["prev"], "sha256")
    # extra is canonical, so encoding a part of it gives the bytes that stand there.
    entry = encode(extra["entry"]).encode() if "entry" in extra else None
    return index, proof, content, prev, entry, match[4]

def verify_receipt(path, keys):
    return check_receipt(read(path), path + ".entry.json", keys)

def check_receipt(data, beside, keys):
    index, proof, content, prev, entry, checkpoint = parse_receipt(data)
    entry = read(beside) if entry is None else entry
    origin, size, root = verify_checkpoint(checkpoint, keys)
    must(blake3(entry) == content, "the entry is not the one that the receipt is for", Refused)
    must(index < size, "the checkpoint does not cover the entry", Refused)
    leaf = leaf_hash(origin, index, prev, content)
    must(root_from_proof(leaf, index, size, proof) == root, "the proof leads to another root", Refused)
    parsed = parse_entry(entry)
    kind = parsed["kind"]
    must((kind == "ledger.opened") == (index == 0), "ledger.opened is the first entry and no other", Refused)
    must(index > 0 or prev == bytes(32) and parsed["body"]["origin"] == origin,
         "the ledger was opened after something, or under another name", Refused)
    return "entry %d (%s) is in the ledger %s of %d entries" % (index, kind, origin, size)

# --- Anchors (anchor.md) --------------------------------------------------------------

def verify_anchor(path, keys):
    date, origin, size, _, _, unread = check_anchor(path, keys)
    return "anchor of %s: %s has %d entries%s" % (date, origin, size, unread)

def check_anchor(path, keys):
    """Date, origin, size, head and root of an anchor, and what of it was not read."""
    data = read(path)
    must(data.endswith(b"\n") and len(data) <= 131072, "not one line of at most 131,072 bytes")
    anchor = canonical(data[:-1])
    check_format(find(anchor, "schema"), "tallystick-anchor/" + VERSION)
    people = anchor.pop("people", None) if isinstance(anchor, dict) else None
    must(people is None or isinstance(people, list) and 1 <= len(people) <= 16
         and all(isinstance(one, str) for one in people), "people is not a list of 1 to 16 signatures")
    anchor = members(anchor, "checkpoint date head origin published_at root schema signature size")
    must(digest(anchor["head"], "sha256") != bytes(32), "an anchor of no history")
    parse_time(anchor["published_at"])
    must(anchor["published_at"][:10] == anchor["date"], "not published on its date")
    origin, size, root = verify_checkpoint(text(anchor["checkpoint"]), keys)
    must(size > 0, "an anchor of no entry")
    said = anchor["origin"], encode(anchor["size"]), base64_decode(text(anchor["root"]))
    must(said == (origin, str(size), root), "the anchor and its checkpoint disagree", Refused)
    signature = anchor.pop("signature")
    signer = sshsig_verify(signature, encode(anchor).encode(), "tallystick-anchor")
    must((origin, signer) in keys, "the anchor is signed by no key that was named", Refused)
    unread = "" if people is None else "; its %d signatures of people are not read here" % len(people)
    return anchor["date"], origin, size, digest(anchor["head"], "sha256"), root, unread

# --- Ledgers (ledger.md) --------------------------------------------------------------

MAX_BATCH = 16 << 20
SEAL = rb"~([1-9][0-9]{0,15}) ([A-Za-z0-9+/]{91}=)"
SEAL_LINE = re.compile(rb"^.{16} " + SEAL + rb"\n", re.M)

class Ledger:
    """What is known after some lines."""

    def __init__(self, signers):
        self.tree, self.head, self.time = Tree(), bytes(32), datetime.min
        self.signers = signers                  # the version in force
        self.origin = None                      # from entry 0
        self.changed = None                     # the signers from the next batch on
        self.once = set()                       # reproductions so far
        self.sealed = 0                         # how many entries the last seal covers
        self.batch = 0                          # bytes of lines since that seal
        self.seals = {}                         # head and root at the size of each seal
        self.keys = set()                       # of every operator who was in force at one
        self.leaves = []                        # the leaf records

    def line(self, line):
        must(self.batch <= MAX_BATCH, "no seal where the longest batch would end")
        self.batch += len(line) + 1
        check, _, rest = line.partition(b" ")
        (self.seal if rest.startswith(b"~") else self.entry)(check, rest)

    def entry(self, check, data):
        index, prev, content = self.tree.size, self.head, blake3(data)
        self.head = sha256(prev + content)
        must(check == self.head[:8].hex().encode(), "the line does not fit the chain")
        must(not self.changed, "a batch goes on after a change of signers")
        entry = parse_entry(data)
        must(self.time <= entry["time"], "the time goes back")
        self.time, kind, body = entry["time"], entry["kind"], entry["body"]
        must((kind == "ledger.opened") == (index == 0), "ledger.opened is entry 0 and only that")
        if kind == "ledger.opened":
            self.origin = check_origin(body["origin"])
            must(sha256(text(body["signers"]).encode()) == self.signers.digest,
                 "the ledger was not opened with the signers that were named")
        if kind == "attempt.reproduced" and not entry.get("manual"):
            said = encode(dict(body, signature=""))
            must(said not in self.once, "the same reproduction stands twice")
            self.once.add(said)
        if kind == "signers.changed":
            must(isinstance(body["signatures"], list), "signatures is not a list")
            self.changed = self.signers.next(text(body["signers"]), body["signatures"], self.time)
            must(encode(body["version"]) == str(self.changed.version), "version is another one")
        self.leaves.append(leaf_record(self.origin, index, prev, content))
        self.tree.add(sha256(b"\0" + self.leaves[-1]))

    def seal(self, check, data):
        match = re.fullmatch(SEAL, data)
        must(match and check == sha256(self.head + data)[:8].hex().encode(),
             "the seal does not fit the chain")
        must(int(match[1]) == self.tree.size > self.sealed, "the seal is not one of its batch")
        signature = base64_decode(match[2].decode(), 68)
        root, operators = self.tree.root(), self.signers.operators(self.time)
        signed = checkpoint_text(self.origin, self.tree.size, root).encode()
        must(any(key_id(self.origin, key) == signature[:4] and ed25519_verify(key, signed, signature[4:])
                 for key in operators), "the seal is by no operator in force")
        self.seals[self.tree.size] = self.head, root
        self.keys |= operators
        self.sealed, self.signers, self.changed = self.tree.size, self.changed or self.signers, None
        self.batch = 0

def verify_ledger(folder, signers):
    """A ledger, or that of a workspace: its segments, and what is left of it around them."""
    workspace = folder if os.path.isdir(os.path.join(folder, ".tally")) else None
    beside, kept = os.path.join(folder, "anchors"), None
    if workspace:
        beside, kept = os.path.join(folder, "audit", "anchors"), os.path.join(folder, ".tally", "checkpoints")
        folder = os.path.join(folder, ".tally", "ledger")
    anchors, notes = named(beside, ".json"), named(kept, ".checkpoint")
    segments, tiles = os.path.join(folder, "segments"), os.path.join(folder, "tiles")
    note, pieces = os.path.join(tiles, "checkpoint"), find_tiles(tiles)
    published = os.path.exists(note)
    found, ledger = walk({name: os.path.join(segments, name) for name in os.listdir(segments)},
                         read(signers).decode(), bool(anchors or notes or pieces or published))
    keys = [(ledger.origin, key) for key in ledger.keys]
    for path in notes + [note] * published:
        origin, size, root = here(path, lambda: verify_checkpoint(read(path).decode(), keys))
        covers(path, ledger, origin, size, root)
        pieces |= tiles_of(size) if path == note else set()     # what it covers must be there
    for path in anchors:
        _, origin, size, head, root, _ = here(path, lambda: check_anchor(path, keys))
        covers(path, ledger, origin, size, root, head)
    check_tiles(tiles, pieces, ledger)
    for name, receipt in receipts_in(workspace):
        try:
            note = parse_receipt(receipt)[-1]
        except (Malformed, UnicodeError):       # only the name is a receipt's
            continue
        if note.split("\n")[0] == ledger.origin:        # people keep those of other ledgers too
            origin, size, root = here(name, lambda: verify_checkpoint(note, keys))
            covers(name, ledger, origin, size, root)
    for path in below(os.path.join(workspace, "cassettes", "replies") if workspace else None):
        if path.endswith(".json"):
            here(path, lambda: check_reply(path, read(os.path.join(workspace, "cassettes", "replies", path))))
    return found + "; %d anchors" % len(anchors)

def check_reply(path, data):
    """replies.md: the members of a reply give its name, and its server is the one it is named for."""
    reply = canonical(data)
    try:
        model, at = reply["model"], reply["model"]["from"]
        host = "[%s]" % at["host"] if ":" in at["host"] else at["host"]
        must(reply["endpoint"] == "%s://%s:%d%s" % (at["scheme"], host, at["port"], at.get("path", "")),
             "its reply is of another endpoint", Refused)
        asked = {"api": model["api"], "request": model["request"]}
        asked |= {name: reply[name] for name in ("endpoint", "format", "ordinal", "party", "repeat", "scope") if name in reply}
        key = sha256(encode(asked).encode()).hex()
        must(path == "%s/%s.%d.json" % (key[:2], key, reply["draw"]), "what it answers has the key " + key, Refused)
    except (KeyError, TypeError) as err:
        raise Malformed("not a reply: %s" % err)

TILE = re.compile("tile/(entries|0|[1-6])/((?:x[0-9]{3}/)*[0-9]{3})(?:[.]p/([1-9][0-9]{0,2}))?")

def tile_path(level, number, width):
    """receipt.md; c2sp.org/tlog-tiles."""
    digits = "%03d" % (number % 1000)
    while number >= 1000:
        number //= 1000
        digits = "x%03d/%s" % (number % 1000, digits)
    return "tile/%s/%s%s" % (level, digits, "" if width == 256 else ".p/%d" % width)

def parse_tile(path):
    """Level, number and width of the tile that a path names; None if it names none."""
    match = TILE.fullmatch(path)
    if not match:
        return None
    tile = match[1], int(match[2].replace("x", "").replace("/", "")), int(match[3] or 256)
    return tile if tile_path(*tile) == path and (match[3] is None or tile[2] < 256) else None

def tiles_of(size):
    """The paths of all tiles of a tree."""
    paths, level = set(), 0
    while size:
        for number in range((size + 255) // 256):
            width = min(256, size - 256 * number)
            paths |= {tile_path(name, number, width) for name in [level] + ["entries"] * (level == 0)}
        size, level = size // 256, level + 1
    return paths

def find_tiles(folder):
    """The paths below a folder that name tiles; others are not of the ledger."""
    return {path for path in below(folder) if parse_tile(path)}

def check_tiles(folder, paths, ledger):
    hashes = [[sha256(b"\0" + leaf) for leaf in ledger.leaves]]
    for path in sorted(paths):
        level, number, width = parse_tile(path)
        first, up = 256 * number, 0 if level == "entries" else int(level)
        must((first + width) << 8 * up <= ledger.sealed, "tiles/%s is of more entries than the ledger has" % path, Refused)
        while len(hashes) <= up:
            below_it = hashes[-1]
            hashes.append([subtree(below_it[i:i + 256]) for i in range(0, len(below_it) - 255, 256)])
        want = hashes[up][first:first + width]
        if level == "entries":
            want = [struct.pack(">H", len(leaf)) + leaf for leaf in ledger.leaves[first:first + width]]
        file = os.path.join(folder, *path.split("/"))
        must(os.path.isfile(file), "tiles/%s is missing" % path, Refused)
        must(read(file) == b"".join(want), "tiles/%s is of other entries" % path, Refused)

def subtree(hashes):
    """The root over 256 hashes."""
    while len(hashes) > 1:
        hashes = [node_hash(hashes[i], hashes[i + 1]) for i in range(0, len(hashes), 2)]
    return hashes[0]

def below(folder, skip=lambda path: False):
    """The paths of the regular files below a folder."""
    for at, folders, files in os.walk(folder or os.devnull):
        where = os.path.relpath(at, folder).replace(os.sep, "/")
        inside = [name if where == "." else where + "/" + name for name in files]
        folders[:] = [name for name in folders if not skip(name if where == "." else where + "/" + name)]
        yield from (path for path in inside if os.path.isfile(os.path.join(folder, path))
                    and not os.path.islink(os.path.join(folder, path)))

def receipts_in(workspace):
    """What may be receipts in a workspace, with their places: files of any name, and those in recommendations."""
    def skip(path):
        return path.split("/")[-1] == ".git" or path == "bench" or re.match("[.]tally/(?!recommendations(/|$))", path)
    for path in below(workspace, skip):
        advice, file = path.startswith(".tally/recommendations/"), os.path.join(workspace, path)
        if path.startswith(".tally/") and not advice or not os.access(file, os.R_OK) \
                or os.path.getsize(file) > (64 << 20 if advice else 65536):
            continue
        data = read(file)
        yield path, data
        try:
            receipts = json.loads(data)["receipts"].values() if advice else ()
        except (ValueError, LookupError, TypeError, AttributeError):
            continue
        yield from (("a receipt in " + path, receipt.encode()) for receipt in receipts if isinstance(receipt, str))

def named(folder, end):
    """The files of a folder whose names end so."""
    return [os.path.join(folder, name) for name in sorted(listed(folder)) if name.endswith(end)] if folder else []

def listed(folder):
    return os.listdir(folder) if os.path.isdir(folder) else []

def here(name, check):
    """Beside a ledger bad form is evidence too: the name claims to be one."""
    try:
        return check()
    except (Refused, Malformed, UnicodeError) as err:
        raise Refused("%s: %s" % (name, err))

def covers(name, ledger, origin, size, root, head=None):
    must(origin == ledger.origin, "%s is of another ledger" % name, Refused)
    must(size <= ledger.sealed, "%s covers more entries than the ledger has" % name, Refused)
    must(size in ledger.seals, "%s is of a size at which there is no seal" % name, Refused)
    was, tree = ledger.seals[size]
    must(tree == root and head in (None, was), "%s is of another history" % name, Refused)

def verify_segments(segments, signers):
    return walk(segments, signers)[0]

def walk(segments, signers, anchored=False):
    ledger, rest = Ledger(Signers(signers)), b""
    must(ledger.signers.version == 1, "the signers file is not version 1")
    for name in sorted(segments):
        must(re.fullmatch("[0-9]{16}[.]log", name), "%s is not the name of a segment" % name)
        must(not rest and name == "%016d.log" % ledger.tree.size,
             "segment %s does not follow on a sealed one" % name, Refused)
        data = read(segments[name])
        end = max((seal.end() for seal in SEAL_LINE.finditer(data)), default=0)
        rest = data[end:]
        for line in data[:end].split(b"\n")[:-1]:
            try:
                ledger.line(line)
            except (Refused, Malformed, UnicodeError) as err:   # here, bad form is evidence too
                raise Refused("after %d entries: %s" % (ledger.tree.size, err))
    must(len(rest) <= MAX_BATCH, "more bytes that no seal covers than a crash can leave")
    found = "%d entries of %s, head sha256:%s" % (ledger.sealed, ledger.origin, ledger.head.hex())
    must(ledger.sealed or not anchored, "there are anchors, and no batch that is sealed", Refused)
    must(ledger.sealed, "no batch that is sealed")
    return found + "; %d bytes that no seal covers are not part of it" % len(rest) * bool(rest), ledger

# --- Trajectories (trajectory.md, events.md) -------------------------------------------

def verify_trajectory(data, head=None):
    """Every line, their chain and order, and the head if one is asked for."""
    must(data.endswith(b"\n") and len(data) <= 256 << 20, "not lines, or more than 256 MiB")
    prev, turn, time, ended, size = bytes(32), 0, 0, False, 0
    for size, line in enumerate(data.split(b"\n")[:-1], 1):
        event = canonical(line)
        if size == 1 and find(event, "type") == "run_started":
            check_format(find(event, "payload.format"), "tallystick-trajectory/" + VERSION)
        rules("events").check("line", event)
        kind = event["type"]
        must(event["prev"] == "sha256:" + prev.hex(), "line %d: the chain is broken" % size, Refused)
        turn += kind == "turn_started"
        must(event["seq"] == size and event["turn"] == turn and event["t"] >= time and not ended
             and (kind == "run_started") == (size == 1), "line %d: out of order" % size, Refused)
        prev, time, ended = sha256(line), event["t"], kind in ("run_completed", "run_failed")
    must(head in (None, "sha256:" + prev.hex()), "the head is another one", Refused)
    return "%d events%s, head sha256:%s%s" % (size, "" if ended else ", without an end", prev.hex(),
                                             "" if head else ", compared with no head from outside")

# --- Benches (case.md, digests.md), from signed.json alone -----------------------------

def ustar(path, data):
    """One file of a tree as it is hashed: header, bytes, zeros up to a multiple of 512."""
    name, prefix = path.encode(), b""
    if len(name) > 100:
        cut = name[:156].rfind(b"/")
        must(cut > 0, "a path that cannot be cut: " + path)
        prefix, name = name[:cut], name[cut + 1:]
    header = (name.ljust(100, b"\0") + b"0000644\0" + b"0000000\0" * 2 + b"%011o\0" % len(data)
              + b"00000000000\0" + b" " * 8 + b"0" + bytes(100) + b"ustar\x0000" + bytes(64)
              + b"0000000\0" * 2 + prefix.ljust(155, b"\0") + bytes(12))
    header = header[:148] + b"%06o\0 " % sum(header) + header[156:]
    return header + data + bytes(-len(data) % 512)

def tree_digest(files):
    """The digest of a folder, from its files by path."""
    stream = b"".join(ustar(path, files[path]) for path in sorted(files, key=str.encode))
    return "blake3:" + blake3(stream + bytes(1024)).hex()

def files_below(folder, skip=()):
    files = {}
    for top, folders, names in os.walk(folder):
        for name in names:
            path = os.path.relpath(os.path.join(top, name), folder).replace(os.sep, "/")
            must(not os.path.islink(os.path.join(top, name)), "a link: " + path, Refused)
            if path not in skip:
                files[path] = read(os.path.join(top, name))
    return files

def armoured(data):
    must(b"BEGIN PGP" not in data and not data[:1] >= b"\x80", "an OpenPGP signature", Unsupported)
    return re.findall("-----BEGIN SSH SIGNATURE-----\n.*?-----END SSH SIGNATURE-----\n", data.decode(), re.S)

def verify_bench(folder, signers, now):
    """Digests and signatures of a class. It reads no YAML, so it does not say that the YAML
    beside the JSON says the same: the program does."""
    signers, now = Signers(read(signers).decode()), parse_time(now[:-1] + ".000Z")
    data = read(os.path.join(folder, "signed.json"))
    must(data.endswith(b"\n"), "no newline at the end")
    signed = members(canonical(data[:-1]), "documents manifest signatures version")
    must(signed["version"] == 1, "another version")
    try:
        return check_bench(folder, signed, signers, now)
    except Malformed as err:                    # what breaks a rule is not what was signed
        raise Refused(str(err))

def check_bench(folder, signed, signers, now):
    documents, manifest = signed["documents"], signed["manifest"]
    b3 = lambda value: "blake3:" + blake3(encode(value).encode()).hex()
    rules("bench").check("manifest", manifest)
    rules("bench").check("registration", documents["registration.yaml"])
    must(manifest.get("documents") == b3(documents), "the manifest pins other documents", Refused)
    must(manifest["registration"] == b3(documents["registration.yaml"]), "another registration", Refused)
    files = files_below(folder)
    rubric = {path: data for path, data in files.items()
              if path in ("rubric.star", "rubric.py") or path.startswith("rubric/")}
    must(manifest.get("rubric") == (tree_digest(rubric) if rubric else None), "another rubric", Refused)
    judges = {path[len("judges/"):]: data for path, data in files.items() if path.startswith("judges/")}
    must(manifest.get("judges") == (tree_digest(judges) if judges else None), "other templates of judges", Refused)
    data = files.get("dataset.jsonl")
    must(manifest.get("dataset") == (None if data is None else "blake3:" + blake3(data).hex()),
         "another dataset", Refused)
    cases = {path.split("/")[1] for path in files if path.startswith("cases/") and path != "cases/digests.yaml"}
    must(cases == set(manifest["cases"]), "other cases than the manifest lists", Refused)
    for case in sorted(cases):
        name = "cases/%s/case.yaml" % case
        message = documents[name]
        text_of = encode(message).encode()
        rules("bench").check("case", message["case"])
        must(manifest["cases"][case]["signed"] == "sha256:" + sha256(text_of).hex()
             and manifest["cases"][case].get("cassette") == message["case"].get("cassette_digest"),
             "case %s is not the one that the manifest lists" % case, Refused)
        digest_there = tree_digest(files_below(os.path.join(folder, "cases", case), ["case.yaml"]))
        must(message["case_digest"] == message["case"].get("case_digest") == digest_there
             == documents["cases/digests.yaml"]["cases"].get(case), "case %s: other files" % case, Refused)
        people = [(message["case"]["provenance"][who]["identity"], roles) for who, roles in
                  (("added_by", {"curator"}), ("reviewed_by", {"curator", "security"}))]
        keys = set()
        must(len(signed["signatures"].get(name, ())) == 2 and people[0][0].lower() != people[1][0].lower(),
             "case %s is not signed by two people" % case, Refused)
        for (person, roles), signature in zip(people, signed["signatures"][name]):
            keys.add(sshsig_verify(signature, text_of, "tallystick-case"))
            found = signers.signed_by(text_of, [signature], "tallystick-case", now)
            must(found.get(person, set()) & roles, "case %s: not signed by %s" % (case, person), Refused)
        must(len(keys) == 2, "case %s: one key twice" % case, Refused)
    signatures = [block for path, data in sorted(files.items())
                  if re.fullmatch("manifest[.]yaml([.][^/]+)?[.]sig", path) for block in armoured(data)]
    people = signers.signed_by(encode(manifest).encode(), signatures, "tallystick-bench", now)
    must(len(people) >= 2 and any("security" in held for held in people.values()),
         "the manifest is not signed by two people, one of them security", Refused)
    return "class %s, %d cases, bench digest sha256:%s" % (
        manifest["class"], len(cases), sha256(encode(manifest).encode()).hex())

# --- Bundles (bundle.md) ---------------------------------------------------------------

def unpack(layout, data):
    """The fields that lie at the beginning of data, as rules/bundle.json has them."""
    fields, at = {}, 0
    for name, kind in layout:
        size = kind if isinstance(kind, int) else {"u8": 1, "u16": 2, "u32": 4, "u64": 8}[kind]
        raw = data[at:at + size]
        must(len(raw) == size, "%s is cut off" % name)
        value = int.from_bytes(raw, "little")
        fields[name] = raw.hex() if isinstance(kind, int) else str(value) if kind == "u64" else value
        at += size
    return fields, at

def parse_bundle(data):
    """Header, sections and trace of a bundle that agrees with itself; no seal is checked."""
    known = rules("bundle").file
    header, at = unpack(known["layouts"]["header"], data)
    rules("bundle").check("header", header)
    end = len(data) - 32 * (header["flags"] & 1)
    must(header["total_bundle_size"] == len(data) and end >= at, "another number of bytes than the header says")
    order, flags = [s["tag"] for s in known["sections"]], header["flags"] & 1
    sections, last, start = {}, -1, {}
    while at < end:
        must(end - at >= 6, "a section is cut off")
        tag, length = struct.unpack("<HI", data[at:at + 6])
        must(tag not in sections and length <= end - at - 6, "section %#x twice, or too long" % tag)
        if tag in order:
            must(order.index(tag) > last, "section %#x is not in order" % tag)
            last = order.index(tag)
            flags |= known["sections"][last].get("flag", 0)
        else:
            must(last < order.index(0x0100), "section %#x after the signature" % tag)
        sections[tag], start[tag] = data[at + 6:at + 6 + length], at
        at += 6 + length
    must(len(sections) == header["section_count"] and flags == header["flags"], "other sections than the header says")
    must(header["outcome"] == 0 or 6 in sections, "not solved, and no postmortem")
    calls, rest = [], sections.get(3, b"")
    must(rest or 3 not in sections, "a trace of nothing")
    while rest:
        call, size = unpack(known["layouts"]["trace_entry"], rest)
        rules("bundle").check("trace_entry", call)
        size += call["action_length"]
        must(size <= len(rest), "the trace is cut off")
        rest[size - call["action_length"]:size].decode()
        calls, rest = calls + [call], rest[size:]
    must(len(calls) == header["tool_call_count"], "another number of calls")
    work = {"cost_microdollars": 0, "latency_ms": 0, "tokens": 0}
    if 0x0103 in sections:
        work, size = unpack(known["layouts"]["observed"], sections[0x0103])
        vantages = sections[0x0103][size:]
        must(len(vantages) == len(calls) and all(v <= 2 for v in vantages), "not a known vantage for each call")
    for total, part in ("total_cost_microdollars", "cost_microdollars"), ("total_latency_ms", "latency_ms"), \
            ("total_tokens", "tokens"):
        must(header[total] == min(sum(call[part] for call in calls) + work[part], 2**32 - 1), "another " + total)
    if 0x0102 in sections:
        short = header["policy_hash"] + "".join(c["args_hash"] + c["result_hash"] for c in calls)
        full = sections[0x0102].hex()
        must(len(full) == 4 * len(short) and short == "".join(full[i:i + 16] for i in range(0, len(full), 64)),
             "the full hashes are not those of the short ones")
    must(len(sections.get(0x0100, bytes(96))) == 96, "a signature of another length")
    if 0x0101 in sections:
        index, _, _, _, entry, _ = parse_receipt(sections[0x0101])
        must(entry is not None, "a receipt without its entry")
        entry = parse_entry(entry)
        body = entry["body"]
        must(entry["kind"] == "case.scored" and "manual" not in entry, "a receipt of something else")
        task = {"case": body["case_digest"], "case_id": body["case_id"], "class": body["class"]}
        task = bytearray(sha256(b"tallystick-task-v1\0" + encode(task).encode())[:16])
        task[6], task[8] = task[6] & 15 | 128, task[8] & 63 | 128
        outcome = ("passed", "failed", "skipped").index(body["outcome"]) if body["outcome"] in (
            "passed", "failed", "skipped") else 3
        must((header["task_id"], header["outcome"], header["retry_count"])
             == (task.hex(), outcome, min(body["retries"], 65535)), "a receipt of another task")
    return header, sections, start, end

def verify_bundle(path, signers, keys):
    data = read(path)
    must(data.startswith(b"\x57\x56\x57\x52"), "not a bundle")
    try:
        header, sections, start, end = parse_bundle(data)
    except (Malformed, UnicodeError) as err:
        raise Refused(str(err))
    must(0x0100 in sections, "not signed for strangers", Refused)
    own, seal = start[0x0100], sections[0x0100]
    message = b"tallystick-bundle-v1\0" + sha256(data[:own] + data[own + 102:end])
    must(seal[:32].hex() in signers and ed25519_verify(seal[:32], message, seal[32:]),
         "not signed by a key that was named", Refused)
    said = "a bundle of task %s, outcome %d" % (header["task_id"], header["outcome"])
    if 0x0101 in sections and keys:
        return said + ", " + check_receipt(sections[0x0101], path, keys)
    return said + "; its receipt, if it has one, was not checked"

# --- Vectors (vectors/README.md) -------------------------------------------------------

def verify_vector(folder, kind, path, trust):
    data, keys = read(path), [parse_vkey(trust["key"])] if "key" in trust else []
    if kind == "trajectory":
        return verify_trajectory(data)
    if kind == "ledger":
        return verify_segments({"%016d.log" % 0: path}, trust["signers"])
    if kind == "receipt":
        return verify_receipt(path, keys)
    if kind == "checkpoint":
        return verify_checkpoint(data.decode(), keys)
    if kind == "anchor":
        return verify_anchor(path, keys)
    if kind == "bundle":
        return parse_bundle(data)
    if kind == "signers":
        return must(Signers(data.decode()).version == 1, "not version 1")
    must(data.endswith(b"\n"), "no newline at the end")
    rules(folder).check(kind, canonical(data[:-1]))

def verify_vectors(top):
    tried, wrong = 0, []
    for folder in sorted(os.listdir(top)):
        if not os.path.isdir(os.path.join(top, folder)):
            continue
        index = json.loads(read(os.path.join(top, folder, "index.json")))
        for verdict in ("accepted", "refused"):
            here = os.path.join(top, folder, verdict)
            must(sorted(os.listdir(here)) == sorted(index[verdict]), "%s is not what its index lists" % here)
            for name, vector in index[verdict].items():
                tried += 1
                try:
                    verify_vector(folder, vector["as"], os.path.join(here, name), index.get("trust", {}))
                    found = "accepted"
                except (Refused, Malformed, Newer, UnicodeError) as err:
                    found = "refused"
                if found != verdict:
                    wrong.append("%s/%s/%s" % (folder, verdict, name))
    must(not wrong, "%d of %d vectors are thought otherwise of here: %s" % (len(wrong), tried, ", ".join(wrong)),
         Refused)
    return "%d vectors" % tried

# --- The program ----------------------------------------------------------------------

def read(path):
    with open(path, "rb") as file:
        return file.read()

def main():
    parser = argparse.ArgumentParser(description="Verify what Tallystick wrote, without Tallystick.")
    what = parser.add_subparsers(dest="what", required=True)
    for name in ("receipt", "anchor", "ledger", "bench", "trajectory", "bundle", "vectors"):
        command = what.add_parser(name)
        if name == "ledger":
            command.add_argument("--signers", required=True, help="version 1 of the signers file")
        elif name == "bench":
            command.add_argument("--signers", required=True, help="the version of the signers file in force")
            command.add_argument("--now", default=datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                                 help="when the signatures are judged")
        elif name == "trajectory":
            command.add_argument("--head", help="the head that the ledger's record names")
        elif name == "bundle":
            command.add_argument("--signer", required=True, action="append", help="trusted key, 64 hexadecimal digits")
            command.add_argument("--key", default=[], action="append", help="trusted verifier key, for the receipt")
        elif name != "vectors":
            command.add_argument("--key", required=True, action="append", help="trusted verifier key")
        command.add_argument("path")
    args = parser.parse_args()
    try:
        if args.what == "ledger":
            found = verify_ledger(args.path, args.signers)
        elif args.what == "bench":
            found = verify_bench(args.path, args.signers, args.now)
        elif args.what == "trajectory":
            found = verify_trajectory(read(args.path), args.head)
        elif args.what == "bundle":
            found = verify_bundle(args.path, args.signer, [parse_vkey(key) for key in args.key])
        elif args.what == "vectors":
            found = verify_vectors(args.path)
        else:
            verify = verify_receipt if args.what == "receipt" else verify_anchor
            found = verify(args.path, [parse_vkey(key) for key in args.key])
        code, answer = 0, "verified: %s" % found
    except Refused as err:
        code, answer = 3, "does not verify: %s" % err
    except Newer as err:
        code, answer = 1, "newer: %s" % err
    except (Malformed, Unsupported, OSError, UnicodeError) as err:
        code, answer = 1, "cannot be read: %s" % err
    # What was read may say anything: keep the answer one line of plain characters.
    print("".join(c if c.isascii() and c.isprintable() else "?" for c in answer))
    return code

if __name__ == "__main__":
    sys.exit(main())
