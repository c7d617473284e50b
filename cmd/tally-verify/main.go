// Command tally-verify is the stranger's verifier. It checks a ledger folder, a
// receipt, an anchor or a checkpoint offline, against keys that the person in
// front of it names. It needs nothing of Tallystick but the file.
//
// Usage:
//
//	tally-verify --key VKEY receipt.tlog-proof
//	tally-verify --trust-root sha256:… path/to/.tally/ledger
//
// Exit codes: 0 verified, 1 could not be read, 2 asked wrongly or not
// recognised, 3 does not verify.
package main

import (
	"os"

	"tallystick/internal/share/verify"
)

func main() { os.Exit(verify.Main(os.Args[1:], os.Stdout, os.Stderr)) }
