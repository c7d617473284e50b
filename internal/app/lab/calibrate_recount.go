package lab

import (
	"cmp"
	"fmt"
	"slices"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/read/recount"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/format"
)

// RecountCalibrations makes every calibration of the ledger again, from the labels
// that counted at its place and the verdicts in the evidence. A holder of the
// operator's key can append a table, but cannot make it follow from what people
// signed. It needs what [dossier.Place.ReadForRecount] reads.
func RecountCalibrations(r *dossier.Reading) (*recount.Recounted, error) {
	all := &recount.Recounted{}
	for i := range r.History.Calibrations {
		c := &r.History.Calibrations[i]
		where := fmt.Sprintf("entry %d (judge.calibrated of %s)", c.Index, c.Class)
		list, err := pairingOf(r, c)
		if err != nil {
			all.Compare(where, "pairs", c.Pairs, err.Error(), false)
			continue
		}
		if err := recountCalibration(all, where, r, c, list); err != nil {
			all.Compare(where, "pairs", c.Pairs, err.Error(), false)
		}
	}
	return all, nil
}

func pairingOf(r *dossier.Reading, c *history.Calibration) (*pairing, error) {
	data, err := r.Piece(c.Pairs)
	if err != nil {
		return nil, err
	}
	list := &pairing{}
	if err := canon.Unmarshal(data, list); err != nil {
		return nil, cmp.Or(format.Newer("the list", data, "v", format.Version), err)
	}
	return list, format.CheckVersion("the list", list.Version)
}

// recountCalibration chooses labels and attempts again, in the ledger as it was.
func recountCalibration(all *recount.Recounted, where string, r *dossier.Reading, c *history.Calibration, list *pairing) error {
	then, err := r.Then(c.Index)
	if err != nil {
		return err
	}
	o := CalibrateOptions{Class: c.Class, Attempt: list.Attempt, Check: c.Check}
	attempts, _, err := judgedAttempts(then, o)
	if err != nil {
		return err
	}
	plan := &attempts[0].Plan
	all.Compare(where, "judge_digest", c.Judge, plan.JudgeDigest, *plan.JudgeDigest == c.Judge)
	all.Compare(where, "judges_digest", c.Judges, plan.JudgesDigest, samePointer(c.Judges, plan.JudgesDigest))
	all.Compare(where, "question_digest", c.Question, plan.JudgeQuestion, samePointer(c.Question, plan.JudgeQuestion))

	m := &matcher{r: r, o: o, attempts: attempts, skipUnjudged: c.Source == evidence.FromReviews}
	labels := labelsIn(list.Pairs)
	if c.Source == evidence.FromReviews {
		labels = reviewsOf(then, attempts, list.Question).labels
	}
	pairs, err := m.pairs(labels)
	if err != nil {
		return err
	}
	all.Compare(where, "pairs", list.Pairs, pairs, slices.Equal(list.Pairs, pairs))
	body := &evidence.JudgeCalibrated{}
	if _, err := m.fill(body, pairs); err != nil {
		return err
	}
	all.Compare(where, "categories", c.Categories, body.Categories, slices.Equal(c.Categories, body.Categories) && c.Ordered == body.Ordered)
	all.Compare(where, "cells", c.Cells, body.Cells, slices.Equal(c.Cells, body.Cells))
	all.Compare(where, "unscored", c.Unscored, body.Unscored, c.Unscored == body.Unscored)
	return nil
}

// labelsIn are the labels of a file as the pairs have them: they are unsigned, so
// only what the judge said of the cases can be made again.
func labelsIn(pairs []pair) []label {
	var labels []label
	for _, p := range pairs {
		labels = append(labels, label{Attempt: p.Attempt, Case: p.CaseID, Repetition: p.Repeat, Label: p.People, Reviewer: p.Reviewer, place: "the pairs"})
	}
	return labels
}
