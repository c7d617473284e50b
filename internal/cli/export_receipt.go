package cli

import (
	"fmt"
	"io"
	"strings"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/record/plain"
	"tallystick/internal/share/outgoing"
)

// exportReceipt writes a proof of how an attempt or a case ended.
func exportReceipt(env *Env, o exportOptions) error {
	p, err := read(env, dossier.Ask{Prove: true})
	if err != nil {
		return err
	}
	id, caseID, _ := strings.Cut(o.attempt, ":")
	attempt, err := p.Attempt(id)
	if err != nil {
		return err
	}
	var c *history.Case
	if caseID != "" {
		found, err := p.FindCase(dossier.CaseQuery{Case: caseID, Attempt: id})
		if err != nil {
			return err
		}
		c = found.Case
	}
	data, w, err := outgoing.ProveAttempt(attempt.Public(), c)
	if err != nil {
		return err
	}
	if err := acceptProof(env, w.Key, data); err != nil {
		return err
	}
	for _, c := range w.Corrected {
		env.Note(`it proves what was recorded; beside that stands %s; "tally ledger prove %d" proves the correction`, c.Text(), c.Index)
	}
	if o.out == "" {
		env.Note("check it with: tally-verify --key %s FILE", w.Key)
		return env.write(data)
	}
	if err := dossier.WriteOutput(o.out, data); err != nil {
		return err
	}
	w.File = o.out
	return env.Answer(w, func(out io.Writer) {
		fmt.Fprintf(out, "%s proves how %s ended (%d bytes)\nCheck it with: tally-verify --key %s %s\n", plain.Line(o.out), plain.Line(o.attempt), w.Bytes, w.Key, plain.Line(o.out))
	})
}
