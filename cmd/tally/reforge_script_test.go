package main

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/seal"
)

// reforge ENTRY OLD NEW [KEY] appends an entry like another of the ledger with NEW in
// place of OLD, sealed by the operator as no command would: the forger runs the ledger.
// With KEY a label is signed again, by that person.
func cmdReforge(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 || len(args) > 4 {
		ts.Fatalf("usage: reforge ENTRY OLD NEW [KEY]")
	}
	place, err := dossier.Open(ts.MkAbs("."), dossier.World{Getenv: ts.Getenv, Now: func() time.Time { return time.Now().UTC() }, Note: func(string, ...any) {}})
	ts.Check(err)
	body := likeEntry(ts, place, args[0], args[1], args[2])
	if len(args) == 4 {
		label, ok := body.(*evidence.ReviewLabelled)
		if !ok {
			ts.Fatalf("reforge: entry %s is not a label", args[0])
		}
		resignLabel(ts, label, args[3])
	}
	c, err := place.OpenCorpus()
	ts.Check(err)
	defer c.Close()
	_, err = c.Append(context.Background(), body.Kind(), body)
	ts.Check(err)
}

func likeEntry(ts *testscript.TestScript, place *dossier.Place, entry, old, changed string) evidence.Body {
	n, err := strconv.ParseInt(entry, 10, 64)
	ts.Check(err)
	var body evidence.Body
	_, err = place.Verify(func(r ledger.Record) error {
		if r.Index != n {
			return nil
		}
		text := string(r.Envelope.Body)
		if !strings.Contains(text, old) {
			ts.Fatalf("reforge: %q is not in entry %d: %s", old, n, text)
		}
		data, err := canon.Canonicalize([]byte(strings.ReplaceAll(text, old, changed)))
		if err != nil {
			return err
		}
		body, err = evidence.DecodeBody(r.Envelope.Kind, data)
		return err
	})
	ts.Check(err)
	if body == nil {
		ts.Fatalf("reforge: there is no entry %d", n)
	}
	return body
}

func resignLabel(ts *testscript.TestScript, label *evidence.ReviewLabelled, file string) {
	key, err := seal.LoadKey(ts.MkAbs(file))
	ts.Check(err)
	message, err := label.Message()
	ts.Check(err)
	sig, err := seal.SignWith(key.Signer(), seal.NamespaceReview, message)
	ts.Check(err)
	label.Signature = string(sig)
}
