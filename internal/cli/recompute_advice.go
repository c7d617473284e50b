package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"tallystick/internal/canon"
	"tallystick/internal/digest"
	"tallystick/internal/evidence"
	"tallystick/internal/ledger"
	"tallystick/internal/promote"
	"tallystick/internal/scorecard"
	"tallystick/internal/sequencer"
	"tallystick/internal/store"
)

// recommendations counts every recommendation of the ledger again, with its
// file where there is one.
func (r *recomputer) recommendations(all *recomputeAnswer) error {
	names, err := jsonFiles(r.past.w.Private("recommendations"))
	if err != nil {
		return err
	}
	filed := make(map[int64]bool)
	for _, name := range names {
		kind, data, err := readKept(name)
		if err != nil {
			return err
		}
		if kind != keptRecommendation {
			all.add(&scorecard.Recomputed{Checked: 1, Differences: []scorecard.Difference{{Where: name, Field: "recommended_tier", Written: "nothing", Computed: "a recommendation"}}})
			continue
		}
		var at struct {
			Index int64 `json:"index"`
		}
		if json.Unmarshal(data, &at) == nil {
			filed[at.Index] = true
		}
		counted, err := r.recommendation(name, data)
		if err != nil {
			return err
		}
		all.add(counted)
	}
	for _, index := range slices.Sorted(maps.Keys(r.seen.advised)) {
		all.Recommendations++
		if filed[index] {
			continue
		}
		counted, err := r.unfiled(index)
		if err != nil {
			return err
		}
		all.add(counted)
	}
	return nil
}

// recommendation counts a kept recommendation again: with the ledger's entry,
// with its receipts, and with the history of the moment before it.
func (r *recomputer) recommendation(name string, data []byte) (*scorecard.Recomputed, error) {
	out := &scorecard.Recomputed{Differences: []scorecard.Difference{}, Unchecked: []string{}}
	differs := func(field string, written, computed any) (*scorecard.Recomputed, error) {
		out.Checked++
		out.Differences = append(out.Differences, scorecard.Difference{Where: name, Field: field, Written: fmt.Sprint(written), Computed: fmt.Sprint(computed)})
		return out, nil
	}
	var kept struct {
		Class    string           `json:"class"`
		Index    int64            `json:"index"`
		Since    evidence.Time    `json:"since"`
		Bench    digest.ID        `json:"bench_digest"`
		Head     *digest.ID       `json:"head"`
		Receipts map[int64]string `json:"receipts"`
	}
	if err := json.Unmarshal(data, &kept); err != nil {
		return nil, scorecard.NotKept(name, err)
	}
	entry, ok := r.seen.advised[kept.Index]
	if !ok || entry.Class != kept.Class {
		return differs("index", kept.Index, "no recommendation of "+kept.Class+" is at that entry")
	}
	if head := r.seen.heads[kept.Index]; kept.Head != nil && *kept.Head != head {
		return differs("head", *kept.Head, head)
	}
	for i, receipt := range kept.Receipts {
		out.Checked++
		if p, err := r.provedBy(receipt); err != nil || p.Index != i {
			return differs(fmt.Sprintf("receipt of entry %d", i), "a receipt", fmt.Sprintf("it does not prove it: %v", err))
		}
	}
	rec, why, err := r.advise(entry, kept.Index, kept.Since.Go().Add(promote.DefaultWindow), kept.Bench)
	if err != nil {
		return nil, err
	}
	computed, skip := map[string]any{}, []string{"schema", "index", "head", "time", "receipts", "file"}
	// What the ledger holds is compared also where nothing can be counted.
	if err := members(entry.Recommendation, computed); err != nil {
		return nil, err
	}
	if rec == nil {
		out.Unchecked = append(out.Unchecked, name+": "+why)
		rest := map[string]any{}
		if err := members(promote.Recommendation{NextTier: "x", TargetDigest: &digest.Content{}, Target: "x"}, rest); err != nil {
			return nil, err
		}
		maps.DeleteFunc(rest, func(field string, _ any) bool { return computed[field] != nil })
		skip = slices.AppendSeq(skip, maps.Keys(rest))
	} else if err := members(rec, computed); err != nil {
		return nil, err
	}
	return out, out.Document(name, data, computed, skip...)
}

// provedBy verifies a receipt of this ledger.
func (r *recomputer) provedBy(receipt string) (*ledger.Proved, error) {
	parsed, err := ledger.ParseReceipt([]byte(receipt))
	if err != nil {
		return nil, err
	}
	entry := parsed.Entry
	if entry == nil {
		// Too long for a receipt; the proof is of its content, and the ledger
		// that was verified has it.
		proofs, _, err := r.past.w.Prove([]int64{min(parsed.Index, r.past.history.Entries-1)})
		if err != nil {
			return nil, err
		}
		entry = proofs[parsed.Index].Raw
	}
	return ledger.VerifyReceipt([]byte(receipt), entry, ledger.Policy{Logs: r.keys})
}

// unfiled counts again a recommendation of which the ledger has the entry and
// nobody the file. When it was asked for is not known to the millisecond, so
// only what does not depend on that is compared.
func (r *recomputer) unfiled(index int64) (*scorecard.Recomputed, error) {
	out := &scorecard.Recomputed{Differences: []scorecard.Difference{}, Unchecked: []string{}}
	entry := r.seen.advised[index]
	name := fmt.Sprintf("entry %d (recommendation for %s)", index, entry.Class)
	rec, why, err := r.advise(entry, index, entry.time.Go(), digest.ID{})
	if err != nil {
		return nil, err
	}
	if rec == nil {
		out.Unchecked = append(out.Unchecked, name+": "+why)
		return out, nil
	}
	written, err := canon.Marshal(map[string]any{"current_tier": entry.CurrentTier, "recommended_tier": entry.RecommendedTier, "evidence": entry.Evidence})
	if err != nil {
		return nil, err
	}
	return out, out.Document(name, written, map[string]any{"current_tier": rec.CurrentTier, "recommended_tier": rec.RecommendedTier, "evidence": rec.Evidence})
}

// advise asks for the recommendation again, with the ledger as it was before
// the entry. It is nil, with a reason, if the bench or the rules at hand are
// others.
func (r *recomputer) advise(entry advice, index int64, now time.Time, benchDigest digest.ID) (*promote.Recommendation, string, error) {
	class := entry.Class
	if entry.Rules != promote.Rules {
		return nil, fmt.Sprintf("it was made by version %d of the rules, and this program has version %d", entry.Rules, promote.Rules), nil
	}
	v, err := r.bench(class)
	if err != nil {
		return nil, "the bench does not verify: " + err.Error(), nil
	}
	past, err := r.asOf(index)
	if err != nil {
		return nil, "", err
	}
	if benchDigest.IsZero() {
		benchDigest = newestBench(past, class)
	}
	// Where nothing was run, no bench carries anything.
	if !benchDigest.IsZero() && v.Digest() != benchDigest {
		return nil, fmt.Sprintf("it was made for the bench %s, and the one at hand is %s", benchDigest, v.Digest()), nil
	}
	anchors, err := r.anchors(past, index)
	if err != nil {
		return nil, "", err
	}
	rec, err := promote.Recommend(promote.Input{Bench: v, History: past.history, Anchors: anchors, Now: now, Evidence: past.evidence})
	return rec, "", err
}

// newestBench is the bench of the newest attempt of a class, zero without any.
func newestBench(p *pastReading, class string) digest.ID {
	var d digest.ID
	for _, a := range p.history.Attempts {
		if a.Class == class {
			d = a.Plan.BenchDigest
		}
	}
	return d
}

// anchors are those that had been published before an entry. The file of a day
// may have been replaced by a larger one since; the ledger says what there was.
func (r *recomputer) anchors(past *pastReading, index int64) ([]promote.Anchor, error) {
	files, err := sequencer.LoadAnchors(store.OS{}, r.past.w.AnchorsDir())
	if err == nil {
		err = missingAnchor(r.past, files)
	}
	if err != nil {
		return nil, r.past.w.Alarm(err)
	}
	known, err := r.env.cosignedAnchors(r.past, files)
	if err != nil {
		return nil, err
	}
	anchors := slices.DeleteFunc(known, func(a promote.Anchor) bool { return a.Size > index })
	for _, a := range past.history.Anchors {
		anchors = append(anchors, promote.Anchor{Size: a.Size})
	}
	return anchors, nil
}

// members puts the members of a JSON object into m.
func members(v any, m map[string]any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(data, &doc); err != nil {
		return err
	}
	for field, value := range doc {
		m[field] = value
	}
	return nil
}
