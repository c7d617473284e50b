package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"tallystick/internal/read/bundle/describe"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/workspace"
	"tallystick/internal/share/outgoing"
)

// namesAttempt reports whether the source of pack is an attempt of the
// workspace. A file or folder that describes a bundle goes before one; what
// looks like a path, and everything outside a workspace, is none.
func namesAttempt(e *Env, source string) bool {
	info, err := os.Stat(source)
	if err == nil && (!info.IsDir() || workspace.Exists(filepath.Join(source, describe.MetaFile))) {
		return false
	}
	if strings.ContainsRune(source, filepath.Separator) || filepath.Ext(source) == ".json" {
		return false
	}
	_, err = openPlace(e)
	return err == nil
}

// packAttempt packs a bundle for each record of an attempt, from the verified
// ledger and from evidence that has the digests which the ledger names.
func packAttempt(env *Env, o exportOptions) error {
	if o.receipt != "" {
		return refusal.Newf(refusal.Usage, "--receipt is for a bundle that is described; those of an attempt get the ledger's own")
	}
	place, err := openPlace(env)
	if err != nil {
		return err
	}
	seals, err := o.seals()
	if err != nil {
		return err
	}
	id, caseID, _ := strings.Cut(o.attempt, ":")
	bundles, worst := outgoing.PackAttempt(place, outgoing.PackOptions{Attempt: id, Case: caseID, Out: o.out, Seals: seals, ShowHeldOut: o.showHeldOut, Accept: acceptBundle(env)})
	if bundles == nil {
		return worst
	}
	if err := env.Answer(bundles, func(out io.Writer) { bundlesText(out, bundles) }); err != nil {
		return err
	}
	return worst
}

func bundlesText(out io.Writer, a *outgoing.Bundles) {
	for _, b := range a.Bundles {
		fmt.Fprintf(out, "packed   %s: case %s, entry %d, %s, %d bytes\n", plain.Line(b.Path), plain.Line(b.CaseID), b.Entry, b.Outcome, b.Bytes)
	}
	for _, x := range a.Problems {
		fmt.Fprintf(out, "REFUSED  %s\n", plain.Line(x.Detail))
	}
	if a.NotRun > 0 {
		fmt.Fprintf(out, "not run  %d tasks: there is no record of them, so no bundle\n", a.NotRun)
	}
	if len(a.Bundles) > 0 && a.Ed25519Key != "" {
		fmt.Fprintf(out, "Check with: tally verify --signer %s --key %s FILE\n", a.Ed25519Key, plain.Line(a.LedgerKey))
	}
}
