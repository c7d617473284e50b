package grade

import (
	"strings"

	"tallystick/internal/extract"
)

func validateJudge(at place, r *Rule) error {
	if (r.Criteria != "") == (r.CriteriaFile != "") {
		return at.bad("a grader of kind judge needs criteria or criteria_file, and not both")
	}
	return nil
}

func (c *compiler) judge(at place, n *node, r *Rule) error {
	c.grader.judge = true
	spec := &JudgeSpec{Criteria: r.Criteria, Votes: max(1, r.Votes), Threshold: 0.5}
	if r.Threshold != nil {
		spec.Threshold = *r.Threshold
	}
	if r.CriteriaFile != "" {
		data, err := c.file(at.in("criteria_file"), r.CriteriaFile)
		if err != nil {
			return err
		}
		spec.Criteria = string(data)
	}
	if strings.TrimSpace(spec.Criteria) == "" {
		return at.bad("the criteria are empty")
	}
	// A judge may do without an expected answer; one that the rule names must
	// be there.
	if r.Expected != nil || r.ExpectedPointer != nil || r.ExpectedFile != "" || len(c.m.Expected) > 0 {
		var err error
		if n.expected, err = c.expected(at, r, false); err != nil {
			return err
		}
		spec.Expected = n.expected
	}
	n.judge = spec
	return nil
}

// judge asks a model. A judge that failed gives no score, which is not zero.
func (r *run) judge(n *node, d *Detail, v extract.Value, counts bool) tally {
	if !v.Found {
		return notFound(v)
	}
	r.judged = r.judged || counts
	if r.in.Judge == nil {
		return single(unscored("there is no judge to ask"))
	}
	o, err := r.in.Judge(*n.judge, v)
	r.events = append(r.events, o.Events...)
	d.Votes = o.Votes
	switch {
	case err != nil:
		return single(unscored("the judge failed: %v", err))
	case o.Unscored != "":
		return single(unscored("the judge: %s", o.Unscored))
	case !(o.Score >= 0 && o.Score <= 1): // also refuses NaN
		return single(unscored("the judge gave %v, expected 0 to 1", o.Score))
	}
	why := quoted(o.Reason)
	if decimal(o.Score).Cmp(decimal(n.judge.Threshold)) >= 0 {
		return tally{verdict: verdict{Passed, o.Score, "", "the judge says " + why}}
	}
	return single(verdict{Mismatch, o.Score, CodeBelowThreshold, "the judge says " + why})
}
