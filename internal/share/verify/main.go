package verify

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
)

// Main is the program tally-verify, without its name in args. It returns the
// exit code.
func Main(args []string, stdout, stderr io.Writer) int {
	o, err := parseArgs(args)
	if errors.Is(err, flag.ErrHelp) {
		return finish(stdout, stderr, []byte(o.help), nil, false)
	}
	if err == nil {
		err = o.readTrust()
	}
	if err != nil {
		printError(stderr, err, o.json)
		return refusal.ExitCode(err)
	}
	items, err := Paths(o.paths, o.trust)
	return finish(stdout, stderr, render(items, o.json), err, o.json)
}

// finish writes the answer and then why it is "no", if it is, and returns the
// exit code.
func finish(stdout, stderr io.Writer, answer []byte, err error, asJSON bool) int {
	if _, werr := stdout.Write(answer); werr != nil {
		err = refusal.Newf(refusal.WriteFailed, "writing the answer to standard output: %w", werr)
	}
	if err != nil {
		printError(stderr, err, asJSON)
	}
	return refusal.ExitCode(err)
}

// options are what the command line says.
type options struct {
	trust                   Trust
	json                    bool
	signers, entry, hmacKey string
	people                  string
	held                    string
	dids, jwks, lists       []string
	receipts                []string
	paths                   []string
	help                    string
}

// parseArgs reads flags and paths, in any order. With [flag.ErrHelp] comes the
// help.
func parseArgs(args []string) (*options, error) {
	// A script that asks for JSON gets it even if the rest cannot be parsed.
	o := &options{json: slices.Contains(args, "--json") || slices.Contains(args, "-json")}
	flags := flag.NewFlagSet("tally-verify", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.BoolVar(&o.json, "json", o.json, "answer with one JSON document, errors included")
	flags.Func("key", "trusted ledger key `NAME+ID+KEY`, for receipts, anchors, checkpoints and bundles; may be given again", o.trust.AddLog)
	flags.Func("witness", "trusted witness key `NAME+ID+KEY`; may be given again", o.trust.AddWitness)
	flags.IntVar(&o.trust.Quorum, "quorum", 0, "how many of the witnesses must have cosigned (default: all that are named)")
	flags.Func("trust-root", "trusted `DIGEST` of version 1 of the signers file, for ledgers", func(s string) (err error) {
		o.trust.Root, err = digest.ParseID(s)
		return err
	})
	flags.StringVar(&o.trust.Pins.Origin, "origin", "", "the `NAME` that the ledger must have")
	flags.Func("first-entry", "the content `DIGEST` of the entry that the ledger must begin with", func(s string) (err error) {
		o.trust.Pins.FirstEntry, err = digest.ParseContent(s)
		return err
	})
	flags.IntVar(&o.trust.Pins.MinSigners, "min-signers-version", 0, "the least `VERSION` of the signers that must be in force at the end of the ledger")
	flags.Func("known-head", "a `DIGEST` that was once the head of the ledger", func(s string) (err error) {
		o.trust.Pins.KnownHead, err = digest.ParseID(s)
		return err
	})
	flags.StringVar(&o.held, "extends", "", "a receipt, anchor or checkpoint `FILE` that you hold: the ledger must extend it")
	flags.StringVar(&o.signers, "signers", "", "version 1 of the signers `FILE`, whose digest becomes the trust root")
	flags.StringVar(&o.people, "people", "", "the signers `FILE` of when an anchor was published, for signatures of people on it")
	flags.StringVar(&o.entry, "entry", "", "`FILE` with the entry of a receipt that does not carry it")
	flags.StringVar(&o.hmacKey, "hmac-key-file", "", "`FILE` with the key that a bundle's HMAC was made with")
	several := func(name, usage string, to *[]string) {
		flags.Func(name, usage+"; may be given again", func(s string) error { *to = append(*to, s); return nil })
	}
	several("issuer", "trusted issuer `DID` of credentials", &o.trust.Credentials.Issuers)
	several("did", "DID document `FILE` of the signer of a credential", &o.dids)
	several("jwks", "key set of the signer of a credential, as `DID=FILE`", &o.jwks)
	several("status-list", "status list `FILE` that a credential refers to", &o.lists)
	several("receipt", "receipt `FILE` of an entry about a credential or its key", &o.receipts)

	for len(args) > 0 {
		err := flags.Parse(args)
		if errors.Is(err, flag.ErrHelp) {
			o.help = helpText(flags)
			return o, err
		}
		if err != nil {
			return o, refusal.Newf(refusal.Usage, "%v", err).WithHint(`"tally-verify --help" lists the flags`)
		}
		// Parsing stops at the first path: take it and continue, so that flags may
		// follow. After "--" everything is a path.
		rest := flags.Args()
		if read := len(args) - len(rest); read > 0 && args[read-1] == "--" {
			o.paths = append(o.paths, rest...)
			break
		}
		if len(rest) == 0 {
			break
		}
		o.paths, args = append(o.paths, rest[0]), rest[1:]
	}
	if len(o.paths) == 0 {
		return o, refusal.Newf(refusal.Usage, "nothing to verify was named").WithHint(`usage: tally-verify [flags] PATH...; "tally-verify --help" says more`)
	}
	return o, nil
}

func helpText(flags *flag.FlagSet) string {
	var b strings.Builder
	fmt.Fprintf(&b, "usage: tally-verify [flags] PATH...\n\nVerifies ledger folders, receipts, anchors, checkpoints, bundles, submission\npackages, reports, sites and credentials, offline.\nThere is no default trust: name a key or a trust root.\n\n")
	flags.SetOutput(&b)
	flags.PrintDefaults()
	fmt.Fprintf(&b, "\nExit codes: 0 verified, 1 could not be read, 2 usage error or file not recognised, 3 does not verify.\n")
	return b.String()
}

// readTrust reads the files that the flags name. A file that cannot be read is
// no mistake in the flags.
func (o *options) readTrust() (err error) {
	if o.signers != "" {
		if o.trust.Root, err = RootOf(o.signers); err != nil {
			return err
		}
	}
	if o.people != "" {
		if err = o.trust.TrustPeople(o.people); err != nil {
			return err
		}
	}
	if o.entry != "" {
		if o.trust.Entry, err = store.ReadFile(store.OS{}, o.entry, 2<<20); err != nil {
			return err
		}
	}
	if o.hmacKey != "" {
		if o.trust.HMACKey, err = seal.LoadSecret(o.hmacKey); err != nil {
			return err
		}
	}
	if err := o.trust.Credentials.Read(o.dids, o.jwks, o.lists, o.receipts); err != nil {
		return err
	}
	if o.held != "" {
		if err := o.trust.Hold(o.held); err != nil {
			return err
		}
	}
	return o.trust.Validate()
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

// render is the answer: a line of what it is and one of what it says for each
// path, or one JSON document.
func render(items []Item, asJSON bool) []byte {
	if asJSON {
		data, _ := json.Marshal(map[string]any{"items": items})
		if len(items) == 1 { // its members are the answer itself, too
			data, _ = json.Marshal(struct {
				Item
				Items []Item `json:"items"`
			}{items[0], items})
		}
		return append(plain.JSON(data), '\n')
	}
	var out bytes.Buffer
	for _, i := range items {
		word := "VERIFIED"
		if !i.Verified {
			word = "REFUSED "
		}
		fmt.Fprintf(&out, "%s  %s  %s\n          %s\n", word, i.Type, plain.Line(i.Path), plain.Line(i.Detail))
		for _, a := range i.Assumed {
			fmt.Fprintf(&out, "          assumed: %s\n", plain.Line(a))
		}
	}
	return out.Bytes()
}
