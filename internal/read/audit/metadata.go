package audit

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"tallystick/internal/record/jsonvalue"
	"tallystick/internal/record/refusal"
)

// maxMetadata bounds metadata.json, which is read whole.
const maxMetadata = 16 << 20

// A metadata is what a run says about itself.
type metadata struct {
	given       bool // a file, or the summary of a run's document
	voting      *float64
	split       *string
	submittedAt string
	cacheEvents *float64
}

func (a *auditor) readMetadata() error {
	in := a.in.Metadata
	if !in.Given() {
		return nil
	}
	return a.digested(in, &a.inputs.Metadata, func(src io.Reader) error {
		data, err := io.ReadAll(io.LimitReader(src, maxMetadata+1))
		if err != nil {
			return refusal.Newf(refusal.Unreadable, "%s: %w", in.Name, err)
		}
		if len(data) > maxMetadata {
			return refusal.Newf(refusal.TooLarge, "%s: more than %d bytes", in.Name, maxMetadata)
		}
		if err := wrongEncoding(in.Name, data[:min(4, len(data))]); err != nil {
			return err
		}
		return a.takeMetadata(in.Name, data, true)
	})
}

// takeMetadata takes what metadata.json or a summary says. The file comes first,
// and a summary that says something else contradicts it.
func (a *auditor) takeMetadata(place string, data []byte, file bool) error {
	m := metadata{given: true}
	legacy := map[string]*float64{}
	err := jsonvalue.Members(data, func(name string, v jsontext.Value) error {
		switch name {
		case "voting_attempts", "votingAttempts", "voting":
			if v.Kind() == '0' {
				var n *float64
				if err := jsonvalue.NumberInto(&n, name, v); err != nil {
					return err
				}
				legacy[name] = n
			}
		case "gaia_split":
			if s, ok := jsonvalue.Text(v); ok {
				m.split = &s
			}
		case "split":
			if s, ok := jsonvalue.Text(v); ok && m.split == nil {
				m.split = &s
			}
		case "submitted_at":
			m.submittedAt, _ = jsonvalue.Text(v)
		case "judge_cache_integrity_events":
			return eventsInto(&m.cacheEvents, name, v)
		}
		return nil
	})
	if err != nil {
		return refuseJSON(place, data, err)
	}
	for _, name := range []string{"voting", "votingAttempts", "voting_attempts"} {
		if legacy[name] != nil {
			m.voting = legacy[name]
		}
	}
	if file || !a.meta.given {
		if file || m.voting != nil || m.split != nil {
			a.meta = m
		}
		return nil
	}
	return a.meta.contradicts(&m, place, a.in.Metadata.Name)
}

// eventsInto counts events: a harness writes how many there were, or each of them in a list.
func eventsInto(to **float64, name string, v jsontext.Value) error {
	if v.Kind() != '[' {
		if err := jsonvalue.NumberInto(to, name, v); err != nil {
			return fmt.Errorf("%w or a list of events", err)
		}
		return nil
	}
	n := 0.0
	err := jsonvalue.Elements(v, func(int, jsontext.Value) error { n++; return nil })
	*to = &n
	return err
}

// contradicts refuses a summary that says something else than the metadata.
func (m *metadata) contradicts(n *metadata, here, there string) error {
	if m.voting != nil && n.voting != nil && *m.voting != *n.voting {
		return refusal.Newf(refusal.Malformed, "%s: voting_attempts is %s, and %s in %s", here, showNumber(*n.voting), showNumber(*m.voting), there)
	}
	if m.split != nil && n.split != nil && *m.split != *n.split {
		return refusal.Newf(refusal.Malformed, "%s: gaia_split is %s, and %s in %s", here, quoted(*n.split), quoted(*m.split), there)
	}
	return nil
}

// split is the split of the run, from receipts if there are any.
func (a *auditor) split() string {
	if v := a.in.Vouched; v != nil && v.Split != "" {
		return v.Split
	}
	if a.meta.split != nil {
		return *a.meta.split
	}
	return ""
}

// voting is AUD-6: does the run say from how many tries an answer was chosen?
func (a *auditor) voting() {
	f := &a.found[aud6]
	v := a.in.Vouched
	if !a.meta.given && v == nil {
		f.gap = "no metadata.json supplied: voting is not disclosed"
		return
	}
	f.auditable++
	if a.meta.voting == nil {
		f.fails = append(f.fails, "voting_attempts is not disclosed in metadata")
		f.gap = "the metadata does not state voting_attempts"
	} else {
		note := fmt.Sprintf("voting_attempts=%s disclosed in metadata", showNumber(*a.meta.voting))
		if *a.meta.voting > 1 {
			note += " (best-of-N is declared, not hidden)"
		}
		f.notes = append(f.notes, note)
	}
	if v == nil {
		if id, n := a.mostExecutions(); a.meta.voting != nil && float64(n) > max(1, *a.meta.voting) {
			f.fails = append(f.fails, fmt.Sprintf("voting_attempts=%s is claimed, and the trajectories show %d executions of task %s", showNumber(*a.meta.voting), n, id))
		}
		return
	}
	f.notes = append(f.notes, fmt.Sprintf("the ledger shows attempt %d of %d, answers chosen from %d executions, %d abandoned executions, %d redraws", v.Number, v.Of, v.VotingAttempts, v.Abandoned, v.Redraws))
	if a.meta.voting != nil && int(*a.meta.voting) != v.VotingAttempts {
		f.fails = append(f.fails, fmt.Sprintf("voting_attempts=%s is claimed, and the ledger shows answers chosen from %d executions", showNumber(*a.meta.voting), v.VotingAttempts))
	}
	if v.Abandoned > 0 {
		f.fails = append(f.fails, fmt.Sprintf("the ledger shows %d executions that were started and left no record", v.Abandoned))
	}
	if v.Redraws > 0 {
		f.fails = append(f.fails, fmt.Sprintf("the ledger shows %d verdicts that were drawn again", v.Redraws))
	}
}

// mostExecutions is the task with the most trajectories, and how many it has.
func (a *auditor) mostExecutions() (id string, n int) {
	for _, r := range a.results.list {
		if len(r.executions) > n {
			id, n = r.id, len(r.executions)
		}
	}
	return id, n
}

// splitIntegrity is AUD-7: does the run say on which questions it was?
func (a *auditor) splitIntegrity() {
	f := &a.found[aud7]
	v := a.in.Vouched
	if !a.meta.given && (v == nil || v.Split == "") {
		f.gap = "no metadata.json supplied: the split is not recorded"
		return
	}
	if v != nil && v.SplitUnknown && a.meta.split == nil {
		f.gap = "the registration of the class is not at hand: the split is not known"
		return
	}
	if v != nil && v.Split == "" && a.meta.split == nil {
		f.notes = append(f.notes, "the class is not made of a data set with splits")
		return
	}
	f.auditable++
	claimed := "missing"
	if a.meta.split != nil {
		claimed = *a.meta.split
	}
	switch {
	case claimed == "validation":
		f.notes = append(f.notes, "gaia_split=validation: the answers of this split are public")
	case claimed == "test":
		f.notes = append(f.notes, "gaia_split=test: the answers of this split are held back")
	default:
		f.fails = append(f.fails, fmt.Sprintf("gaia_split is %s, expected validation or test", quoted(claimed)))
		f.gap = "the metadata does not state a split of the data set"
	}
	if v != nil && v.Split != "" && claimed != v.Split {
		f.fails = append(f.fails, fmt.Sprintf("gaia_split=%s is claimed, and %s was registered", quoted(claimed), quoted(v.Split)))
	}
}

// cacheEvents is the part of AUD-4 about the judge's cache.
func (a *auditor) cacheEvents() {
	f := &a.found[aud4]
	if a.meta.cacheEvents == nil && a.in.Vouched == nil {
		f.lacks = append(f.lacks, "the metadata does not state judge_cache_integrity_events")
	}
	if n := a.meta.cacheEvents; n != nil && *n > 0 {
		f.fails = append(f.fails, fmt.Sprintf("judge_cache_integrity_events=%s: entries of the judge cache did not verify", showNumber(*n)))
	}
	if v := a.in.Vouched; v != nil {
		if v.JudgeCacheEvents > 0 {
			f.fails = append(f.fails, fmt.Sprintf("the ledger shows %d judge cache entries that did not verify", v.JudgeCacheEvents))
		}
		if n := a.meta.cacheEvents; n != nil && int(*n) != v.JudgeCacheEvents {
			f.fails = append(f.fails, "judge_cache_integrity_events="+showNumber(*n)+" is claimed, and the ledger shows "+strconv.Itoa(v.JudgeCacheEvents))
		}
	}
}

// auditedAt is the time in the report. No clock is read.
func (a *auditor) auditedAt() string {
	if !a.in.AuditedAt.IsZero() {
		return a.in.AuditedAt.UTC().Format(time.RFC3339Nano)
	}
	if t, err := time.Parse(time.RFC3339, a.meta.submittedAt); err == nil {
		return t.UTC().Format(time.RFC3339Nano)
	}
	return NoTime
}

// vouched says which inputs receipts stand for.
func (a *auditor) vouched() Inputs {
	in := a.inputs
	in.Log = a.in.Log
	if v := a.in.Vouched; v != nil {
		in.ByInput = InputsVouched{Results: v.Results, Trajectories: v.Trajectories && a.in.Trajectories.Given(), Metadata: v.Metadata && a.in.Metadata.Given()}
		in.ByInput.Sources = len(a.in.Sources) > 0
		for _, s := range a.in.Sources {
			in.ByInput.Sources = in.ByInput.Sources && s.SHA256 != ""
		}
	}
	b := in.ByInput
	in.Vouched = b.Results && (b.Trajectories || !a.in.Trajectories.Given()) && (b.Metadata || !a.in.Metadata.Given()) && (b.Sources || len(a.in.Sources) == 0)
	return in
}
