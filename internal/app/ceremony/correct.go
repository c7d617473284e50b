package ceremony

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/grade"
)

// CorrectOptions say what the right score of a case is, and who says so.
type CorrectOptions struct {
	Case    string // ATTEMPT:CASE
	Repeat  int
	Score   float64
	Outcome string // passed or failed; "" to follow from the score
	Reason  string

	Pens       []Pen    // what people sign with
	Signatures []string // files with signatures made by hand
	Message    string   // file to write what is signed to; then nothing is recorded
}

// A Corrected is a correction as it stands after a person signed it.
type Corrected struct {
	Attempt string         `json:"attempt"`
	Case    string         `json:"case"`
	Repeat  int            `json:"repeat"`
	Entry   int64          `json:"entry"`  // the record
	Number  int            `json:"number"` // of the correction
	Was     evidence.Grade `json:"was"`
	Now     evidence.Grade `json:"now"`
	Reason  string         `json:"reason"`
	By      []string       `json:"by"`
	// CountsForPromotion says that promotion uses the corrected score; otherwise
	// it uses the lower of the two.
	CountsForPromotion bool  `json:"counts_for_promotion"`
	Index              int64 `json:"index"` // of the new entry; -1 if nothing was recorded
}

// Correct records what people hold to be the right score of a case. The record
// stays. The Corpus was read with the records of every attempt.
func Correct(ctx context.Context, c *dossier.Corpus, o CorrectOptions) (*Corrected, error) {
	h := c.Reading.History
	a, task, err := caseNamed(h, o)
	if err != nil {
		return nil, err
	}
	body, err := draftCorrection(h, a, task, o)
	if err != nil {
		return nil, err
	}
	if err := refuseBlockCodes(c, a, task, body); err != nil {
		return nil, err
	}
	message, err := body.Message()
	if err != nil {
		return nil, err
	}
	out := &Corrected{Attempt: a.ID, Case: task.ID, Repeat: int(task.Repeat), Entry: task.Index, Number: body.Number, Was: body.Was, Now: body.Now, Reason: body.Reason, By: []string{}, Index: -1}
	if o.Message != "" {
		return out, store.WriteFile(store.OS{}, o.Message, message, 0o644)
	}
	if body.Signatures, err = o.sign(c.Options.Signers, message); err != nil {
		return nil, err
	}
	if err := body.Validate(); err != nil {
		return nil, refusal.Newf(refusal.Usage, "the correction: %w", err)
	}
	people, err := whoCorrects(c, a, task, body, message)
	if err != nil {
		return nil, err
	}
	out.By = people.By
	out.CountsForPromotion = !raises(body) || people.ByTwo()
	pos, err := c.Append(ctx, evidence.ScoreCorrectedKind, body)
	out.Index = pos.Index
	return out, err
}

// caseNamed finds the case that ATTEMPT:CASE names.
func caseNamed(h *history.History, o CorrectOptions) (*history.Attempt, *history.Case, error) {
	for _, a := range h.Attempts {
		id, ok := strings.CutPrefix(o.Case, a.ID+":")
		if !ok {
			continue
		}
		var cases []string
		for c := range a.Cases() {
			if c.ID == id && int(c.Repeat) == o.Repeat {
				return a, c, nil
			}
			cases = append(cases, c.ID)
		}
		return nil, nil, refusal.Newf(refusal.UnknownName, "attempt %s has no case %q with repetition %d", a.ID, id, o.Repeat).
			Suggest(id, cases, `"tally show %s" lists the cases`, a.ID)
	}
	attempt, _, ok := strings.Cut(o.Case, ":")
	if !ok {
		return nil, nil, refusal.Newf(refusal.Usage, "found %q, expected ATTEMPT:CASE", o.Case)
	}
	return nil, nil, h.Unknown(attempt, history.Scope{})
}

// draftCorrection is the correction without signatures. If the last one says
// the same, it is that one: another person adds a signature to it.
func draftCorrection(h *history.History, a *history.Attempt, c *history.Case, o CorrectOptions) (*evidence.ScoreCorrected, error) {
	if !c.WasScored() {
		return nil, refusal.Newf(refusal.Usage, "case %s of %s is %s: it has no score to correct", c.ID, a.ID, c.Outcome()).
			WithHint(`"tally rescore %s" grades what could not be scored; a case that did not end is run again`, a.ID)
	}
	now := evidence.Grade{Passed: c.Outcome() == evidence.Passed, Score: o.Score}
	switch {
	case o.Outcome != "":
		now.Passed = o.Outcome == string(evidence.Passed)
	case o.Score == 0 || o.Score == 1:
		now.Passed = o.Score == 1
	}
	body := &evidence.ScoreCorrected{Origin: h.Origin, Attempt: a.ID, CaseID: c.ID, Repeat: int(c.Repeat), Entry: c.Index, Head: c.Head, Number: 1,
		Was: evidence.Grade{Passed: c.Outcome() == evidence.Passed, Score: c.Score}, Now: now, Reason: o.Reason, Signatures: []string{"none yet"}}
	if last := c.Correction; last != nil {
		body.Number = last.Number
		if last.Now != now || last.Reason != o.Reason {
			body.Number++
		}
	}
	for _, err := range []error{body.Validate(), body.Sensible()} {
		if err != nil {
			return nil, refusal.Newf(refusal.Usage, "case %s of %s: %w", c.ID, a.ID, err)
		}
	}
	return body, nil
}

func raises(b *evidence.ScoreCorrected) bool {
	return b.Now.Passed && !b.Was.Passed || b.Now.Score > b.Was.Score
}

// refuseBlockCodes refuses to raise a record with a failure that blocks. Such a
// code says that something happened that no score makes good.
func refuseBlockCodes(c *dossier.Corpus, a *history.Attempt, task *history.Case, body *evidence.ScoreCorrected) error {
	if !raises(body) {
		return nil
	}
	v, err := c.Bench(a.Class)
	if err != nil {
		return c.Alarm(err)
	}
	for _, mode := range task.FailureModes() {
		if grade.SeverityOf(mode, v.Registration()) == evidence.Block {
			return refusal.Newf(refusal.BlockCodeStands, "case %s of %s has the block-severity failure %s, which no correction takes away", task.ID, a.ID, mode).
				WithHint("a correction may lower the score; to raise it, mend what failed and run the case again")
		}
	}
	return nil
}

// sign makes a signature with each pen, and reads those made by hand.
func (o *CorrectOptions) sign(signers *seal.Signers, message []byte) ([]string, error) {
	var sigs []string
	for _, pen := range o.Pens {
		h, err := pen.ready(signers)
		if err != nil {
			return nil, err
		}
		armored, err := h.sign(seal.NamespaceCorrection, message, byHand{"correction.sig", "tally review correct … --signature correction.sig"})
		if err != nil {
			return nil, err
		}
		sigs = append(sigs, string(armored))
	}
	for _, file := range o.Signatures {
		data, err := store.ReadFile(store.OS{}, file, dossier.MaxSignedFile)
		if err != nil {
			return nil, err
		}
		blocks, err := seal.SplitArmored(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, b := range blocks {
			sigs = append(sigs, string(b))
		}
	}
	return sigs, nil
}

// whoCorrects judges the signatures as every reader of the ledger will.
func whoCorrects(c *dossier.Corpus, a *history.Attempt, task *history.Case, body *evidence.ScoreCorrected, message []byte) (*history.Correction, error) {
	sigs := make([][]byte, len(body.Signatures))
	for i, s := range body.Signatures {
		sigs[i] = []byte(s)
	}
	signed, err := c.Options.Signers.VerifyQuorum(sigs, message, seal.NamespaceCorrection, c.Now(), seal.Rule{People: 1})
	if err != nil {
		return nil, err
	}
	h := c.Reading.History
	for _, s := range signed {
		if ran := h.RanBy(a, s); ran != "" {
			may := slices.DeleteFunc(c.Options.Signers.Candidates(seal.NamespaceCorrection, c.Now(), ""), func(name string) bool { return strings.EqualFold(name, s.Principal()) })
			return nil, refusal.Newf(refusal.TwoPersonRule, "%s %s: neither signature of a correction of %s may be theirs", s.Principal(), ran, a.ID).
				WithHint("people who may sign corrections: %s", strings.Join(may, ", "))
		}
	}
	k, again := h.Correcting(task, body, signed)
	if again != "" {
		return nil, refusal.Newf(refusal.TwoPersonRule, "%s has signed this correction already", again).
			WithHint("another person signs, with the same score and reason")
	}
	return k, nil
}
