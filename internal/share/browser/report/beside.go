package report

import (
	"cmp"
	"fmt"
	"strings"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/seal"
	"tallystick/internal/share/browser"
)

// recordOf is the record that an entry sets another score beside, -1 if it is not such
// an entry.
func recordOf(b evidence.Body) int64 {
	switch b := b.(type) {
	case *evidence.ScoreCorrected:
		return b.Entry
	case *evidence.ScoreAmended:
		return b.Entry
	}
	return -1
}

// checkBeside refuses a score beside a record that the report does not have.
func (p *parts) checkBeside() error {
	for _, x := range p.beside {
		if p.record(recordOf(x.body)) == nil {
			return fmt.Errorf("entry %d sets a score beside entry %d, which is not a record of this report", x.index, recordOf(x.body))
		}
		if b, ok := x.body.(*evidence.ScoreCorrected); ok {
			if _, err := signers(b); err != nil {
				return fmt.Errorf("entry %d: %w", x.index, err)
			}
		}
	}
	return nil
}

func (p *parts) record(index int64) *part {
	for _, x := range p.records {
		if x.index == index {
			return x
		}
	}
	return nil
}

// beside tells what was set beside the recorded scores: from what to what, by whom, when
// and why. Of people the entry has keys, and not names.
func (w *writer) beside(p *parts) {
	if len(p.beside) == 0 {
		return
	}
	w.add("<h2>Beside the records</h2>\n<p>Every number on this page is as recorded. These scores were set beside it later; a key stands for a person of the signers file of the ledger.</p>\n<ul>\n")
	for _, x := range p.beside {
		r := p.record(recordOf(x.body))
		fmt.Fprintf(&w.out, `<li data-entry="%d">Case `, x.index)
		w.cell(r.index, r.raw, "/case_id", browser.AsText)
		w.add(", repetition ")
		w.cell(r.index, r.raw, "/repeat", browser.AsText)
		w.add(": ")
		switch b := x.body.(type) {
		case *evidence.ScoreCorrected:
			w.cell(x.index, x.raw, "/was/score", browser.AsNumber)
			w.add(passedWord(b.Was.Passed), " → ")
			w.cell(x.index, x.raw, "/now/score", browser.AsNumber)
			w.add(passedWord(b.Now.Passed), " corrected by ")
			keys, err := signers(b)
			w.text(strings.Join(keys, ", "))
			w.err = cmp.Or(w.err, err)
		case *evidence.ScoreAmended:
			w.cell(r.index, r.raw, "/score/score", browser.AsNumber)
			w.add(" ")
			w.cell(r.index, r.raw, "/outcome", browser.AsOutcome)
			w.add(" → ")
			w.cell(x.index, x.raw, "/score/score", browser.AsNumber)
			w.add(passedWord(b.Score.Passed), " graded again by ")
			w.cell(x.index, x.raw, "/author", browser.AsText)
		}
		w.add(" at ")
		w.text(x.time.String())
		w.add(": ")
		w.cell(x.index, x.raw, "/reason", browser.AsText)
		fmt.Fprintf(&w.out, " (entry %d)</li>\n", x.index)
	}
	w.add("</ul>\n")
}

func passedWord(passed bool) string {
	if passed {
		return " passed"
	}
	return " failed"
}

// signers are the fingerprints of the keys that signed a correction, or what is wrong
// with a signature.
func signers(b *evidence.ScoreCorrected) ([]string, error) {
	message, err := b.Message()
	if err != nil {
		return nil, err
	}
	var keys []string
	for _, armored := range b.Signatures {
		if strings.HasPrefix(armored, "-----BEGIN PGP SIGNATURE-----") {
			keys = append(keys, "an OpenPGP key, which the report does not have")
			continue
		}
		key, err := seal.VerifySignature([]byte(armored), message, seal.NamespaceCorrection)
		if err != nil {
			return nil, fmt.Errorf("a signature of the correction: %w", err)
		}
		keys = append(keys, key.Fingerprint())
	}
	return keys, nil
}
