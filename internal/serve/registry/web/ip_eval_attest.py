#!/usr/bin/env python3
"""Signs a receipt of one evaluation run (ip.eval.run.attestation.v1) with the runner's key.

    ip_eval_attest.py --harness-id lm-eval --harness-version-sha FILE-OR-HEX \\
        --eval-code-sha FILE-OR-HEX --dataset-sha FILE-OR-HEX --model-id huggingface://org/model \\
        --signing-key @key.hex < results.json > receipt.json

The results are any JSON object, on standard input or from --results-path. A digest is 64
digits of hex, or a file, which is hashed as it is. The key is the 32 bytes of an Ed25519
seed in hex; "@FILE" reads them from a file, which other people on the machine do not see as
they see an argument. Without --runner-did, the runner is the did:key of that key.

--dry-run prints the body that would be signed; it needs no key, but then --runner-did. Send
{"kind": "ip.eval.run.attestation.v1", "body": BODY} to POST /api/credentials/dry-run of a
registry to have it checked.

One file, Python 3.9, nothing to install, nothing sent anywhere. It exits with 0 (printed),
1 (something could not be read or is not as it must be) or 2 (usage error). The signature is a
W3C Data Integrity proof of eddsa-jcs-2022 over the body. The arithmetic of the signature takes
no care to run in constant time: do not let others time it.
"""
import argparse, hashlib, json, re, sys, time, uuid
from datetime import datetime, timezone
from decimal import Decimal

P, ORDER = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
CURVE = -121665 * pow(121666, -1, P) % P
BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


class Wrong(Exception):
    """What was given is not as it must be."""


# --- Canonical JSON, as RFC 8785 has it -----------------------------------------------

def canonical(value):
    """The one spelling of a JSON value: members by UTF-16 order, numbers as JavaScript has them."""
    if value is None or isinstance(value, (bool, str)):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, (int, float)):
        return spell(value)
    if isinstance(value, list):
        return "[%s]" % ",".join(map(canonical, value))
    names = sorted(value, key=lambda name: name.encode("utf-16-be"))
    return "{%s}" % ",".join(canonical(n) + ":" + canonical(value[n]) for n in names)


def spell(x):
    """A number as JSON.stringify spells it. 738.0 and 738 are the same number there."""
    if x == int(x) and abs(x) < 2**53:
        return str(int(x))
    if isinstance(x, int) or abs(x) < 1e21 and x == int(x):
        raise Wrong("%s is beyond 2^53-1: write it as a text" % x)
    sign, digits, exponent = Decimal(repr(x)).normalize().as_tuple()
    digits, point = "".join(map(str, digits)), len(digits) + exponent
    if -6 < point <= 0:
        text = "0." + "0" * -point + digits
    elif 0 < point <= 21:
        text = digits[:point] + "." + digits[point:]
    else:
        text = digits[0] + ("." + digits[1:]) * (len(digits) > 1) + "e%+d" % (point - 1)
    return "-" * sign + text


def once(pairs):
    value = dict(pairs)
    if len(value) != len(pairs):
        raise Wrong("a member is there twice in one object")
    return value


def no_number(name):
    raise Wrong("%s is not a number of JSON: write null" % name)


def sha256(value):
    return hashlib.sha256(canonical(value).encode()).digest()


# --- Ed25519 (RFC 8032) ---------------------------------------------------------------

def plus(p, q):
    """The sum of two points in extended coordinates."""
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % P, (p[1] + p[0]) * (q[1] + q[0]) % P
    c, d = 2 * CURVE * p[3] * q[3] % P, 2 * p[2] * q[2] % P
    return (b - a) * (d - c) % P, (d + c) * (b + a) % P, (d - c) * (d + c) % P, (b - a) * (b + a) % P


def times(n):
    """n times the base point, encoded."""
    y = 4 * pow(5, -1, P) % P
    x = pow((y * y - 1) * pow(CURVE * y * y + 1, -1, P), (P + 3) // 8, P)
    if (x * x * (CURVE * y * y + 1) - y * y + 1) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    x = x if x % 2 == 0 else P - x
    total, base = (0, 1, 1, 0), (x, y, 1, x * y % P)
    while n:
        if n & 1:
            total = plus(total, base)
        base, n = plus(base, base), n >> 1
    z = pow(total[2], -1, P)
    return (total[1] * z % P | (total[0] * z % P & 1) << 255).to_bytes(32, "little")


def halves(seed):
    hashed = hashlib.sha512(seed).digest()
    return int.from_bytes(hashed[:32], "little") & 2**254 - 8 | 2**254, hashed[32:]


def public_key(seed):
    return times(halves(seed)[0])


def sign(seed, message):
    scalar, prefix = halves(seed)
    r = int.from_bytes(hashlib.sha512(prefix + message).digest(), "little") % ORDER
    encoded = times(r)
    k = int.from_bytes(hashlib.sha512(encoded + times(scalar) + message).digest(), "little")
    return encoded + ((r + k * scalar) % ORDER).to_bytes(32, "little")


def multibase(data):
    number, digits = int.from_bytes(data, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        digits = BASE58[digit] + digits
    return "z" + "1" * (len(data) - len(data.lstrip(b"\0"))) + digits


# --- The receipt ----------------------------------------------------------------------

def read_json(path, what):
    try:
        with (open(path, encoding="utf-8") if path != "-" else sys.stdin) as file:
            value = json.load(file, object_pairs_hook=once, parse_constant=no_number)
    except (OSError, ValueError, RecursionError) as err:
        raise Wrong("%s cannot be read: %s" % (what, err))
    if not isinstance(value, dict):
        raise Wrong("%s must be a JSON object; put a list under a name" % what)
    return value


def digest(given, what):
    if re.fullmatch("[0-9a-f]{64}", given):
        return given
    try:
        with open(given, "rb") as file:
            hashed = hashlib.sha256()
            for part in iter(lambda: file.read(1 << 20), b""):
                hashed.update(part)
            return hashed.hexdigest()
    except OSError as err:
        raise Wrong("%s is neither 64 digits of lower-case hex nor a file: %s" % (what, err))


def read_seed(given):
    if given.startswith("@"):
        try:
            with open(given[1:], encoding="ascii") as file:
                given = file.read().strip()
        except (OSError, ValueError) as err:
            raise Wrong("the signing key cannot be read: %s" % err)
    if not re.fullmatch("[0-9a-fA-F]{64}", given):
        raise Wrong("the signing key must be the 32 bytes of an Ed25519 seed in hex, or @FILE with them")
    return bytes.fromhex(given)


def make_body(args, results, runner):
    submitted = args.submitted_at if args.submitted_at is not None else int(time.time() * 1000)
    for name, at in (("--submitted-at", submitted), ("--completed-at", args.completed_at)):
        if at is not None and at < 100000000000:
            raise Wrong("%s must be in milliseconds; %d looks like seconds" % (name, at))
    body = {
        "schemaVersion": "1.0.0",
        "runId": args.run_id or str(uuid.uuid4()),
        "harnessId": args.harness_id,
        "harnessVersionSha": digest(args.harness_version_sha, "--harness-version-sha"),
        "evalCodeSha": digest(args.eval_code_sha, "--eval-code-sha"),
        "modelId": args.model_id,
        "datasetSha": digest(args.dataset_sha, "--dataset-sha"),
        "runnerDid": runner,
        "submittedAt": submitted,
        "results": results,
        "resultsHash": sha256(results).hex(),
    }
    if args.model_version_sha:
        body["modelVersionSha"] = digest(args.model_version_sha, "--model-version-sha")
    if args.completed_at is not None:
        if args.completed_at < submitted:
            raise Wrong("--completed-at is before --submitted-at")
        body["completedAt"] = args.completed_at
    for path, member in ((args.sampling_params, "samplingParams"), (args.extra, "extra")):
        if path:
            body[member] = read_json(path, "the file of %s" % member)
    if args.mteb_task_type:
        body["mtebTaskType"] = args.mteb_task_type
    return body


def attest(args):
    seed = read_seed(args.signing_key) if args.signing_key else None
    if seed is None and not (args.dry_run and args.runner_did):
        raise Wrong("--signing-key is missing; --dry-run needs only --runner-did")
    runner, method = args.runner_did, args.verification_method
    if seed:
        name = multibase(b"\xed\x01" + public_key(seed))
        runner = runner or "did:key:" + name
        if runner.startswith("did:key:"):
            if runner != "did:key:" + name:
                raise Wrong("the signing key is that of did:key:%s, not of --runner-did" % name)
            method = runner + "#" + name
        elif not (method or "").startswith(runner + "#"):
            raise Wrong("a did:web needs --verification-method %s#NAME, as its DID document names the key" % runner)
    body = make_body(args, read_json(args.results_path, "the results"), runner)
    if args.dry_run:
        return body
    proof = {
        "type": "DataIntegrityProof",
        "cryptosuite": "eddsa-jcs-2022",
        "created": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "proofPurpose": "assertionMethod",
        "verificationMethod": method,
    }
    proof["proofValue"] = multibase(sign(seed, sha256(proof) + sha256(body)))
    return {**body, "proof": proof}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--results-path", default="-", metavar="FILE", help="the results; standard input without it")
    add("--runner-did", help="did:key or did:web of the runner")
    add("--verification-method", metavar="DID#NAME", help="of a did:web: which of its keys signs")
    add("--signing-key", metavar="HEX or @FILE", help="Ed25519 seed, 32 bytes")
    add("--harness-id", required=True)
    add("--harness-version-sha", required=True, metavar="HEX or FILE")
    add("--eval-code-sha", required=True, metavar="HEX or FILE")
    add("--dataset-sha", required=True, metavar="HEX or FILE")
    add("--model-id", required=True)
    add("--model-version-sha", metavar="HEX or FILE")
    add("--run-id", metavar="UUID", help="version 4 or 7; a new one without it")
    add("--submitted-at", type=int, metavar="MS", help="when the run began, in milliseconds since 1970; now without it")
    add("--completed-at", type=int, metavar="MS")
    add("--sampling-params", metavar="FILE")
    add("--mteb-task-type")
    add("--extra", metavar="FILE")
    add("--dry-run", action="store_true", help="print the body and sign nothing")
    return parser.parse_args()


def main():
    try:
        receipt = attest(arguments())
    except Wrong as err:
        print("ip_eval_attest: %s" % err, file=sys.stderr)
        return 1
    print(json.dumps(receipt, indent=2, sort_keys=True, ensure_ascii=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
