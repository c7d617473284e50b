#!/usr/bin/env python3
"""Reads a golden workspace with other people's libraries.

    golden.py WORKSPACE             canonical JSON by rfc8785, JUnit by junitparser, SSH signatures by ssh-keygen
    golden.py WORKSPACE --signers   prints version 1 of the signers file and needs no library

Lines that begin with "conformance: " say what was done. Ends with 1 at the first fault.
"""
import glob, json, os, subprocess, sys, tempfile

workspace = sys.argv[1]


def entries():
    """The bytes of each ledger entry; docs/formats/ledger.md, Segments."""
    for segment in sorted(glob.glob(workspace + "/.tally/ledger/segments/*.log")):
        for line in open(segment, "rb").read().split(b"\n")[:-1]:
            text = line.split(b" ", 1)[1]
            if not text.startswith(b"~"):
                yield text


def check_canonical():
    import rfc8785
    count = 0
    for text in entries():
        assert rfc8785.dumps(json.loads(text)) == text, "entry is not canonical JSON: %r" % text
        count += 1
    assert count > 0, "the ledger has no entries"
    print("conformance: rfc8785 spelled %d entries as we did" % count)


def check_reports():
    from junitparser import JUnitXml
    suites = list(JUnitXml.fromfile(workspace + "/kept/gate.xml"))
    read = [(suite.tests, suite.failures, suite.errors, len(list(suite))) for suite in suites]
    assert read == [(6, 0, 0, 6), (1, 0, 0, 1)], "junitparser read %r" % read
    print("conformance: junitparser read our JUnit XML")


def ssh_verify(allowed, principal, namespace, signature, message):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("allowed", allowed), ("sig", signature)):
            open(os.path.join(folder, name), "w").write(text)
        done = subprocess.run(
            ["ssh-keygen", "-Y", "verify", "-f", os.path.join(folder, "allowed"), "-I", principal, "-n", namespace,
             "-s", os.path.join(folder, "sig")], input=message, capture_output=True)
        return done.returncode == 0


def check_signatures():
    """Every signature over a whole file holds for exactly one person, and for no other bytes."""
    opened = json.loads(next(entries()))["body"]["signers"]
    signed = [("tallystick-signers", body["signers"].encode(), body["signatures"]) for body in changes()]
    armoured = open(workspace + "/audit/operators.yaml.sig").read().split("-----BEGIN")[1:]
    signed.append(("tallystick-operators", open(workspace + "/audit/operators.yaml", "rb").read(), ["-----BEGIN" + a for a in armoured]))
    allowed = "".join(openssh_line(line) for line in opened.splitlines() if not line.startswith("#"))
    people = [line.split()[0] for line in allowed.splitlines()]
    count = 0
    for namespace, message, signatures in signed:
        assert len(signatures) >= 2, "%s: one person alone" % namespace
        for signature in signatures:
            who = [p for p in people if ssh_verify(allowed, p, namespace, signature, message)]
            assert len(who) == 1, "%s: a signature of %r" % (namespace, who)
            assert not ssh_verify(allowed, who[0], namespace, signature, message + b"x"), "%s: covers other bytes" % namespace
            count += 1
    print("conformance: ssh-keygen verified %d signatures" % count)


def changes():
    for text in entries():
        entry = json.loads(text)
        if entry["kind"] == "signers.changed":
            yield entry["body"]


def openssh_line(line):
    """A line of ours has roles= at its end, which OpenSSH does not know."""
    return " ".join(word for word in line.split() if not word.startswith("roles=")) + "\n"


if sys.argv[2:] == ["--signers"]:
    sys.stdout.write(json.loads(next(entries()))["body"]["signers"])
else:
    check_canonical()
    check_reports()
    check_signatures()
