package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"

	"tallystick/internal/digest"
	"tallystick/internal/plain"
	"tallystick/internal/refusal"
	"tallystick/internal/seal"
	"tallystick/internal/store"
)

// Main is the program tally-verify, without its name in args. It returns the
// exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	var trust Trust
	var asJSON bool
	var signers, entry, hmacKey string
	flags := flag.NewFlagSet("tally-verify", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprintf(stderr, "usage: tally-verify [flags] PATH...\n\nVerifies ledger folders, receipts, anchors, checkpoints and witness bundles, offline.\nThere is no default trust: name a key or a trust root.\n\n")
		flags.PrintDefaults()
		fmt.Fprintf(stderr, "\nExit codes: 0 verified, 1 could not be read, 2 asked wrongly or not recognised, 3 does not verify.\n")
	}
	flags.BoolVar(&asJSON, "json", false, "answer with one JSON document")
	flags.Func("key", "trusted ledger key `NAME+ID+KEY`, for receipts, anchors, checkpoints and bundles; may be given again", trust.AddLog)
	flags.Func("witness", "trusted witness key `NAME+ID+KEY`; may be given again", trust.AddWitness)
	flags.IntVar(&trust.Quorum, "quorum", 0, "how many of the witnesses must have cosigned")
	flags.Func("trust-root", "trusted `DIGEST` of version 1 of the signers file, for ledgers", func(s string) (err error) {
		trust.Root, err = digest.ParseID(s)
		return err
	})
	flags.StringVar(&signers, "signers", "", "version 1 of the signers `FILE`, whose digest becomes the trust root")
	flags.StringVar(&entry, "entry", "", "`FILE` with the entry of a receipt that does not carry it")
	flags.StringVar(&hmacKey, "hmac-key-file", "", "`FILE` with the key that a bundle's HMAC was made with")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return refusal.ExitUsage
	}
	if flags.NArg() == 0 {
		flags.Usage()
		return refusal.ExitUsage
	}
	err := readTrust(&trust, signers, entry, hmacKey)
	if err != nil {
		printError(stderr, err, asJSON)
		return refusal.ExitCode(err)
	}
	items, err := Paths(flags.Args(), trust)
	if werr := printItems(stdout, items, asJSON); werr != nil {
		err = refusal.Newf(refusal.WriteFailed, "writing the answer to standard output: %w", werr)
	}
	if err != nil {
		printError(stderr, err, asJSON)
	}
	return refusal.ExitCode(err)
}

// readTrust reads the files that the flags name. A file that cannot be read is
// no mistake in the flags.
func readTrust(trust *Trust, signers, entry, hmacKey string) (err error) {
	if signers != "" {
		if trust.Root, err = RootOf(signers); err != nil {
			return err
		}
	}
	if entry != "" {
		if trust.Entry, err = store.ReadFile(store.OS{}, entry, 2<<20); err != nil {
			return err
		}
	}
	if hmacKey != "" {
		if trust.HMACKey, err = seal.LoadSecret(hmacKey); err != nil {
			return err
		}
	}
	return trust.Validate()
}

// printError prints an error in the form that tally gives it.
func printError(w io.Writer, err error, asJSON bool) {
	r := refusal.Of(err)
	if asJSON {
		data, _ := json.Marshal(map[string]any{"error": r.Error(), "name": r.Name, "hint": r.Hint, "code": refusal.ExitCode(err)})
		fmt.Fprintf(w, "%s\n", plain.JSON(data))
		return
	}
	fmt.Fprintf(w, "tally-verify: error: %s\n", plain.Line(r.Error()))
	if r.Hint != "" {
		fmt.Fprintf(w, "tally-verify: hint: %s\n", plain.Line(r.Hint))
	}
}

func printItems(w io.Writer, items []Item, asJSON bool) error {
	var out bytes.Buffer
	if asJSON {
		data, err := json.Marshal(map[string]any{"items": items})
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%s\n", plain.JSON(data))
	} else {
		for _, i := range items {
			word := "VERIFIED"
			if !i.Verified {
				word = "REFUSED "
			}
			fmt.Fprintf(&out, "%s  %s  %s\n          %s\n", word, i.Type, plain.Line(i.Path), plain.Line(i.Detail))
		}
	}
	_, err := w.Write(out.Bytes())
	return err
}
