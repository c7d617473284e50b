#!/usr/bin/env python3
"""Verifies a Tallystick credential without Tallystick.

    verify_credential.py [--key METHOD=MULTIKEY]... [--status-list FILE]... FILE

FILE is a credential, or a body that its runner signed. --key names a key that you trust
for a verification method, as in did:web:a.example#key-1=z6Mk...; a did:key needs none.
It prints one line and exits with 0 (verified), 3 (does not verify), 1 (unreadable or
malformed) or 2 (usage error).

It was written from credential.md. It needs Python 3.9 and verify.py beside it, which has
the canonical JSON and the Ed25519. Nothing is fetched.

What it leaves out: of the body it checks the names of the members and resultsHash, not
the pattern and range of every value. It reads no DID documents and no JWKS, so whether a
key is retired is for the caller who passes --key.
"""
import argparse, base64, json, os, sys, zlib
from datetime import datetime, timezone
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from verify import Malformed, Refused, ed25519_verify, encode, members, must, read, sha256, text, weak

V2 = "https://www.w3.org/ns/credentials/v2"
CONTEXTS = [V2, "https://www.w3.org/ns/credentials/undefined-terms/v2"]
TYPES = ["VerifiableCredential", "EvalRunAttestationCredential"]
OBSERVED, IMPORTED = "ObservedRun", "ImportedNotObserved"
BODY = ("schemaVersion? runId harnessId harnessVersionSha evalCodeSha modelId modelVersionSha? "
        "datasetSha runnerDid submittedAt completedAt? results resultsHash judgesDigest? "
        "contaminationCheck? scaffoldDelta? sandboxRunId? samplingParams? mtebTaskType? extra?")
BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

# --- JSON in any spelling -------------------------------------------------------------

def once(pairs):
    value = dict(pairs)
    must(len(value) == len(pairs), "a name twice in one object")
    return value

def no_number(name):
    raise Malformed("%s is not a number of JSON" % name)

def load(data):
    try:
        value = json.loads(data.decode(), object_pairs_hook=once, parse_constant=no_number)
        encode(value).encode()                          # refuses what has no canonical spelling
    except (ValueError, RecursionError) as err:
        raise Malformed("not JSON: %s" % err)
    must(isinstance(value, dict), "not a JSON object")
    return value

def canonical(value):
    return encode(value).encode()

def without(value, name):
    return {n: v for n, v in value.items() if n != name}

def as_list(value):
    return value if isinstance(value, list) else [value]

# --- Keys and proofs ------------------------------------------------------------------

def multibase(value):
    must(text(value)[:1] == "z" and len(value) < 257, "not multibase base58-btc: %.20s" % value)
    number = 0
    for digit in value[1:]:
        must(digit in BASE58, "not base58: %.20s" % value)
        number = number * 58 + BASE58.index(digit)
    zeros = len(value[1:]) - len(value[1:].lstrip("1"))
    return bytes(zeros) + number.to_bytes((number.bit_length() + 7) // 8, "big")

def multikey(value):
    data = multibase(value)
    must(data[:2] == b"\xed\x01" and len(data) == 34, "not an Ed25519 Multikey: %.60s" % value)
    must(not weak(data[2:]), "a weak key", Refused)
    return data[2:]

def find_key(method, keys):
    controller, _, name = text(method).partition("#")
    if controller.startswith("did:key:"):
        must(name == controller[len("did:key:"):], "not the method of a did:key: %.80s" % method, Refused)
        return multikey(name)
    must(method in keys, "no --key for %.120s" % method, Refused)
    return keys[method]

def time(value):
    try:
        at = datetime.fromisoformat(text(value).replace("Z", "+00:00"))
    except ValueError:
        raise Refused("not a date and time: %.40s" % value)
    must(at.tzinfo, "a time without a zone: %.40s" % value, Refused)
    return at

def verify_proofs(document, keys, now):
    """The controllers of the keys behind the proofs, every one of which must be good."""
    proofs, rest, controllers = as_list(document.get("proof", [])), without(document, "proof"), []
    must(0 < len(proofs) <= 32, "no proof, or more than 32", Refused)
    signers = set()
    for proof in proofs:
        members(proof, "type cryptosuite verificationMethod proofPurpose proofValue "
                       "created? expires? id? @context?")
        must(proof["type"] == "DataIntegrityProof" and proof["cryptosuite"] == "eddsa-jcs-2022"
             and proof["proofPurpose"] == "assertionMethod", "a proof of another kind", Refused)
        must(proof.get("@context", rest.get("@context")) == rest.get("@context"),
             "the proof was made for other contexts", Refused)
        if "created" in proof:
            time(proof["created"])                      # a claim; it proves nothing
        must("expires" not in proof or now < time(proof["expires"]), "the proof has expired", Refused)
        key = find_key(proof["verificationMethod"], keys)
        must(key not in signers, "a key signed twice", Refused)
        signers.add(key)
        signed = sha256(canonical(without(proof, "proofValue"))) + sha256(canonical(rest))
        must(ed25519_verify(key, signed, multibase(proof["proofValue"])), "a wrong signature", Refused)
        controllers.append(proof["verificationMethod"].partition("#")[0])
    return controllers

# --- Body, status list, credential ----------------------------------------------------

def verify_body(body, keys, now, must_be_signed=False):
    """Checks a body and, if it has one, the runner's proof over it."""
    plain = members(without(body, "proof"), BODY)
    must(isinstance(plain["results"], dict), "results must be object", Refused)
    computed = sha256(canonical(plain["results"])).hex()
    must(plain["resultsHash"] == computed, "resultsHash is not that of the results, " + computed, Refused)
    if "proof" in body or must_be_signed:
        must(verify_proofs(body, keys, now) == [plain["runnerDid"]],
             "the proof over the body is not the runner's", Refused)
    return plain

def valid(credential, now):
    must("validFrom" not in credential or time(credential["validFrom"]) <= now, "not yet valid", Refused)
    must("validUntil" not in credential or now <= time(credential["validUntil"]), "no longer valid", Refused)

def check_status(entry, issuer, lists, keys, now):
    members(entry, "type statusListCredential statusListIndex statusPurpose id? statusSize?")
    given = [one for one in lists if one.get("id") == entry["statusListCredential"]]
    must(given, "the status list %.120s was not given" % entry["statusListCredential"])
    index = text(entry["statusListIndex"])
    must(index.isdigit() and str(int(index)) == index and entry.get("statusSize", 1) == 1
         and entry["type"] == "BitstringStatusListEntry", "not a status entry of one bit", Refused)
    for one in given:
        must(one.get("issuer") == issuer and issuer in verify_proofs(one, keys, now)
             and one.get("@context") == [V2]
             and one.get("type") == ["VerifiableCredential", "BitstringStatusListCredential"],
             "the status list is not the issuer's", Refused)
        valid(one, now)
        subject = members(one.get("credentialSubject"), "type statusPurpose encodedList id? ttl?")
        must(subject["type"] == "BitstringStatusList" and subject["statusPurpose"] == entry["statusPurpose"]
             and entry["statusPurpose"] in ("revocation", "suspension"), "a list for another purpose", Refused)
        encoded = text(subject["encodedList"])
        must(encoded[:1] == "u", "not base64url")
        packed = base64.urlsafe_b64decode(encoded[1:] + "=" * (-len(encoded[1:]) % 4))
        bits = zlib.decompressobj(31).decompress(packed, (4 << 20) + 1)     # 31: gzip; bounded
        must(16384 <= len(bits) <= 4 << 20 and int(index) < 8 * len(bits), "a list of a wrong length", Refused)
        must(not bits[int(index) // 8] & 0x80 >> int(index) % 8,
             "the issuer's list says %s" % entry["statusPurpose"], Refused)

def verify_credential(credential, lists, keys, now):
    controllers = verify_proofs(credential, keys, now)
    members(without(credential, "proof"), "@context type issuer credentialSubject id? validFrom? validUntil? "
                                          "credentialSchema? credentialStatus? evidence?")
    must(credential["@context"] == CONTEXTS, "other contexts, which could change what the members mean", Refused)
    types, issuer = credential["type"], text(credential["issuer"])
    must(types in (TYPES + [OBSERVED], TYPES + [IMPORTED]), "not an attestation of an evaluation run", Refused)
    must(issuer in controllers, "the issuer did not sign", Refused)
    subject = credential["credentialSubject"]
    must(isinstance(subject, dict), "credentialSubject must be object", Refused)
    body = verify_body(subject, keys, now)
    valid(credential, now)
    for entry in as_list(credential.get("credentialStatus", [])):
        check_status(entry, issuer, lists, keys, now)
    return "run %s%s, issued by %s, %s, results %s" % (
        body["runId"], " (imported, not observed)" if types[2] == IMPORTED else "", issuer,
        "signed by its runner" if "proof" in subject else "not signed by its runner", body["resultsHash"])

# --- The program ----------------------------------------------------------------------

def main():
    parser = argparse.ArgumentParser(description="Verify a credential, without Tallystick.")
    parser.add_argument("--key", action="append", default=[], help="METHOD=MULTIKEY")
    parser.add_argument("--status-list", action="append", default=[])
    parser.add_argument("--now", help="the time to judge at, for tests; else the clock's")
    parser.add_argument("path")
    args = parser.parse_args()
    try:
        now = time(args.now) if args.now else datetime.now(timezone.utc)
        keys = {method: multikey(key) for method, _, key in (k.rpartition("=") for k in args.key)}
        document = load(read(args.path))
        if "credentialSubject" in document:
            found = verify_credential(document, [load(read(path)) for path in args.status_list], keys, now)
        else:
            body = verify_body(document, keys, now, must_be_signed=True)
            found = "run %s, signed by its runner %s, results %s" % (
                body["runId"], body["runnerDid"], body["resultsHash"])
        code, answer = 0, "verified: %s" % found
    except Refused as err:
        code, answer = 3, "does not verify: %s" % err
    except (Malformed, OSError, UnicodeError, ValueError, zlib.error) as err:
        code, answer = 1, "cannot be read: %s" % err
    # What was read may say anything: keep the answer one line of plain characters.
    print("".join(c if c.isascii() and c.isprintable() else "?" for c in answer))
    return code

if __name__ == "__main__":
    sys.exit(main())
