package recount

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/read/promote"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
)

// An advice is given on the evidence, then its entry is appended, then its file
// is written. So far may these be apart: the evidence of a large bench takes
// minutes to read, and two clocks differ.
const (
	slowestAdvice  = time.Hour
	clockTolerance = 10 * time.Minute
)

// keptAdvice is what making a recommendation again needs of the kept one.
type keptAdvice struct {
	Schema   *string          `json:"schema"`
	Class    string           `json:"class"`
	Index    int64            `json:"index"`
	Since    evidence.Time    `json:"since"`
	Bench    digest.ID        `json:"bench_digest"`
	Time     any              `json:"time"`
	Receipts map[int64]string `json:"receipts"`
	File     *string          `json:"file"`
}

// recommendation makes a kept recommendation again: from the ledger's entry, and
// from the history of the moment before it.
func (s *Source) recommendation(name string, data []byte) (*Recounted, error) {
	var kept keptAdvice
	if err := json.Unmarshal(data, &kept); err != nil {
		return nil, NotKept(name, err)
	}
	out := newRecounted()
	entry, ok := s.Advised[kept.Index]
	if !ok || entry.Class != kept.Class {
		out.Compare(name, "index", kept.Index, "no recommendation of "+kept.Class+" is at that entry", false)
		return out, nil
	}
	asked := kept.Since.Go().Add(promote.Window(entry.WindowDays))
	if at := entry.Time.Go(); asked.Before(at.Add(-slowestAdvice)) || asked.After(at.Add(clockTolerance)) {
		out.Compare(name, "since", kept.Since, fmt.Sprintf("the entry is of %s, and %d days before it", entry.Time, entry.WindowDays), false)
		return out, nil
	}
	if err := s.outside(out, entry, kept.Index); err != nil {
		return nil, err
	}
	rec, why, err := s.advise(entry, kept.Index, asked, kept.Bench)
	if err != nil {
		return nil, err
	}
	var unmade map[string]string
	if rec == nil {
		// What the ledger holds is compared also where nothing can be made.
		rec = &promote.Recommendation{Recommendation: entry.Recommendation}
		if unmade, err = beyondTheEntry(rec, why); err != nil {
			return nil, err
		}
	} else if err := out.entry(name, kept.Index, entry, rec); err != nil {
		return nil, err
	}
	return out, out.document(name, data, s.adviceAs(&kept, entry, rec), unmade)
}

// outside compares who is said to have seen the history with who is known to have.
// A witness that remembers something keeps remembering it, so it must be known now too; on a
// machine without the witnesses' checkpoints or the remote it cannot be checked.
func (s *Source) outside(out *Recounted, entry dossier.Advice, index int64) error {
	if len(entry.Outside) == 0 {
		return nil
	}
	known, err := s.Outside()
	if err != nil {
		return err
	}
	for _, claimed := range entry.Outside {
		where := fmt.Sprintf("entry %d (recommendation for %s)", index, entry.Class)
		if claimed.Size > index {
			out.Compare(where, "outside", claimed.Size, fmt.Sprintf("the ledger had %d entries", index), false)
			continue
		}
		if !slices.ContainsFunc(known, func(k evidence.Outside) bool {
			return k.Kind == claimed.Kind && k.By == claimed.By && k.Size >= claimed.Size
		}) {
			out.Unchecked = append(out.Unchecked, fmt.Sprintf("%s: it says that %s %s had seen %d entries, and nothing on this machine shows it", where, claimed.Kind, claimed.By, claimed.Size))
		}
	}
	return nil
}

// entry compares what the ledger says was advised with what is advised now.
func (r *Recounted) entry(name string, index int64, entry dossier.Advice, rec *promote.Recommendation) error {
	written, err := canon.Marshal(&entry.Recommendation)
	if err != nil {
		return err
	}
	return r.document(fmt.Sprintf("%s: entry %d", name, index), written, rec.Recommendation, nil)
}

// adviceAs puts a recommendation into the form of the kept one: the file, or the
// answer that says where the file is. What no record tells is taken from the kept
// one if it can be true.
func (s *Source) adviceAs(kept *keptAdvice, entry dossier.Advice, rec *promote.Recommendation) any {
	file := AdviceFile(entry.Class, kept.Index)
	if kept.Schema == nil && kept.File != nil {
		if filepath.Base(*kept.File) == file {
			file = *kept.File
		}
		return promote.Answer{Recommendation: rec, Index: kept.Index, File: file}
	}
	made := promote.File{Schema: promote.FileSchema, Recommendation: rec, Index: kept.Index, Head: s.History.HeadAfter(kept.Index + 1), Time: entry.Time, Receipts: map[int64]string{}}
	if text, ok := kept.Time.(string); ok {
		at, err := evidence.ParseTime(text)
		if early, late := entry.Time.Go().Add(-clockTolerance), entry.Time.Go().Add(slowestAdvice); err == nil && !at.Go().Before(early) && !at.Go().After(late) {
			made.Time = at
		}
	}
	if n := len(rec.Evidence); n > promote.MaxReceipts {
		return made
	}
	for _, i := range rec.Evidence {
		made.Receipts[i] = fmt.Sprintf("a receipt that proves entry %d", i)
		if index, err := s.Proves(kept.Receipts[i]); err == nil && index == i {
			made.Receipts[i] = kept.Receipts[i]
		}
	}
	return made
}

// AdviceFile is the name of the file of a recommendation.
func AdviceFile(class string, index int64) string { return fmt.Sprintf("%s-%d.json", class, index) }

// beyondTheEntry names the members of a recommendation that its entry does not
// hold.
func beyondTheEntry(rec *promote.Recommendation, why string) (map[string]string, error) {
	whole := *rec
	whole.NextTier, whole.Target, whole.TargetDigest, whole.Tiers = "x", "x", &digest.Content{}, []promote.TierCheck{{}}
	members, err := membersOf(whole)
	if err != nil {
		return nil, err
	}
	held, err := membersOf(rec.Recommendation)
	if err != nil {
		return nil, err
	}
	unmade := make(map[string]string)
	for member := range members {
		if _, ok := held[member]; !ok {
			unmade[member] = why
		}
	}
	return unmade, nil
}

func membersOf(v any) (map[string]any, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return tree(data)
}

// Unfiled compares a recommendation whose entry is in the ledger and whose file
// is missing, which is a difference: it was taken away, or a crash came between
// the two. When it was asked for is not known to the millisecond, so only what
// does not depend on that is compared.
func (s *Source) Unfiled(index int64) (*Recounted, error) {
	out := newRecounted()
	entry := s.Advised[index]
	name := fmt.Sprintf("entry %d (recommendation for %s)", index, entry.Class)
	out.Compare(name, "file", nothing, AdviceFile(entry.Class, index), false)
	rec, why, err := s.advise(entry, index, entry.Time.Go(), digest.ID{})
	if err != nil {
		return nil, err
	}
	if rec == nil {
		out.Unchecked = append(out.Unchecked, name+": "+why)
		return out, nil
	}
	advised := func(r *evidence.Recommendation) map[string]any {
		return map[string]any{"current_tier": r.CurrentTier, "recommended_tier": r.RecommendedTier, "evidence": r.Evidence}
	}
	written, err := canon.Marshal(advised(&entry.Recommendation))
	if err != nil {
		return nil, err
	}
	return out, out.document(name, written, advised(&rec.Recommendation), nil)
}

// advise asks for the recommendation again, with the ledger as it was before the
// entry. It is nil, with a reason, if the bench or the rules at hand are others.
func (s *Source) advise(entry dossier.Advice, index int64, now time.Time, benchDigest digest.ID) (*promote.Recommendation, string, error) {
	if entry.Rules != promote.Rules {
		return nil, fmt.Sprintf("it was made by version %d of the rules, and this program has version %d", entry.Rules, promote.Rules), nil
	}
	v, err := s.Bench(entry.Class)
	if err != nil {
		return nil, "the bench does not verify: " + err.Error(), nil
	}
	h, err := s.At(index)
	if err != nil {
		return nil, "", err
	}
	if benchDigest.IsZero() {
		benchDigest = newestBench(h, entry.Class)
	}
	// Where nothing was run, no bench carries anything.
	if !benchDigest.IsZero() && v.Digest() != benchDigest {
		return nil, fmt.Sprintf("it was made for the bench %s, and the one at hand is %s", benchDigest, v.Digest()), nil
	}
	anchors, err := s.Anchors(h)
	if err != nil {
		return nil, "", err
	}
	rec, err := promote.Recommend(promote.Input{Bench: v, History: h, Anchors: anchors, Outside: entry.Outside, Now: now, Evidence: s.Whole, WindowDays: entry.WindowDays})
	return rec, "", err
}

// newestBench is the bench of the newest attempt of a class, zero without any.
func newestBench(h *history.History, class string) digest.ID {
	var d digest.ID
	for _, a := range h.Attempts {
		if a.Class == class {
			d = a.Plan.BenchDigest
		}
	}
	return d
}
