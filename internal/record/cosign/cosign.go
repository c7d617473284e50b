// Package cosign asks witnesses to cosign a ledger's checkpoints, and is such a
// witness (C2SP tlog-witness and tlog-cosignature, Ed25519).
//
// A witness remembers, for each log it watches, the one checkpoint it cosigned
// last, and cosigns another only with a proof that the new tree begins with
// the old one. So a log that shows two histories needs a witness that forgets
// or lies. The witness sees hashes only: it says nothing about what the
// entries mean, and it trusts the log's key for everything but consistency.
//
// A [Client] believes nothing of what a witness answers until the cosignature
// verifies over the checkpoint that was sent. The sizes in a witness's refusal
// are not signed: over plain HTTP an attacker in between can raise a false
// alarm with them, or keep a cosignature from arriving, and no more than that.
package cosign

import "net/http"

// Path is where a witness takes checkpoints, below its submission prefix.
const Path = "/add-checkpoint"

// sizeType marks the body of a "409 Conflict" as the size that the witness
// knows.
const sizeType = "text/x.tlog.size"

// maxBodyBytes bounds a request and a response: a proof of 63 hashes takes
// under 3 KiB, the rest is for signatures.
const maxBodyBytes = 64 << 10

// maxProofHashes is what the specification allows.
const maxProofHashes = 63

// maxSize bounds the size of a tree. It is the largest integer that an anchor
// can state. Far larger ones must not reach package tlog at all: beyond 2^62
// its search for a power of two never ends.
const maxSize = 1<<53 - 1

// statusText is how a refusal names a status.
func statusText(code int) string {
	if text := http.StatusText(code); text != "" {
		return text
	}
	return "no status that HTTP knows"
}
