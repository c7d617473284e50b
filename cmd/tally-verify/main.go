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
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	"tallystick/internal/digest"
	"tallystick/internal/plain"
	"tallystick/internal/refusal"
	"tallystick/internal/store"
	"tallystick/internal/verify"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	var trust verify.Trust
	var asJSON bool
	flags := flag.NewFlagSet("tally-verify", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintf(stderr, "usage: tally-verify [flags] PATH...\n\nVerifies ledger folders, receipts, anchors and checkpoints, offline.\nThere is no default trust: name a key or a trust root.\n\n")
		flags.PrintDefaults()
		fmt.Fprintf(stderr, "\nExit codes: 0 verified, 1 could not be read, 2 asked wrongly or not recognised, 3 does not verify.\n")
	}
	flags.BoolVar(&asJSON, "json", false, "answer with one JSON document")
	flags.Func("key", "trusted ledger key `NAME+ID+KEY`, for receipts, anchors and checkpoints; may be given again", trust.AddLog)
	flags.Func("witness", "trusted witness key `NAME+ID+KEY`; may be given again", trust.AddWitness)
	flags.IntVar(&trust.Quorum, "quorum", 0, "how many of the witnesses must have cosigned")
	flags.Func("trust-root", "trusted `DIGEST` of version 1 of the signers file, for ledgers", func(s string) (err error) {
		trust.Root, err = digest.ParseID(s)
		return err
	})
	flags.Func("signers", "version 1 of the signers `FILE`, whose digest becomes the trust root", func(s string) (err error) {
		trust.Root, err = verify.RootOf(s)
		return err
	})
	flags.Func("entry", "`FILE` with the entry of a receipt that does not carry it", func(s string) (err error) {
		trust.Entry, err = store.ReadFile(store.OS{}, s, 2<<20)
		return err
	})
	if err := flags.Parse(args); err != nil {
		return refusal.ExitUsage
	}
	if flags.NArg() == 0 {
		flags.Usage()
		return refusal.ExitUsage
	}
	items, err := verify.Paths(flags.Args(), trust)
	print(stdout, items, asJSON)
	if err != nil && !asJSON {
		if hint := refusal.Of(err).Hint; hint != "" {
			fmt.Fprintf(stderr, "tally-verify: hint: %s\n", plain.Line(hint))
		}
	}
	return refusal.ExitCode(err)
}

func print(w io.Writer, items []verify.Item, asJSON bool) {
	if asJSON {
		data, _ := json.Marshal(map[string]any{"items": items})
		fmt.Fprintf(w, "%s\n", plain.JSON(data))
		return
	}
	for _, i := range items {
		word := "VERIFIED"
		if !i.Verified {
			word = "REFUSED "
		}
		fmt.Fprintf(w, "%s  %s  %s\n          %s\n", word, i.Type, plain.Line(i.Path), plain.Line(i.Detail))
	}
}
