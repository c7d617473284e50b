package dossier

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"tallystick/internal/read/history"
	"tallystick/internal/read/promote"
	"tallystick/internal/read/recount"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/bench"
)

// RecommendationsDir is the folder of recommendation files.
func (p *Place) RecommendationsDir() string { return p.Private("recommendations") }

// RunsDir is the folder of the kept answers of runs.
func (p *Place) RunsDir() string { return p.Private("runs") }

// Recommend verifies the bench, the ledger and its anchors, asks package promote
// for its advice, and records that in the ledger and in a file. It changes no
// tier: people do. Days is the window, 0 for that of the registration.
func (p *Place) Recommend(ctx context.Context, class, trustRoot string, days int) (*promote.Answer, error) {
	p.ReadFor = "TB-5" // what does not verify from here on stops at the gate of promotion
	ask := Ask{Prove: true, Want: func(a *history.Attempt) bool { return a.Class == class }}
	c, err := p.ReadCorpus(trustRoot, ask)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	v, err := bench.Verify(c.Root, class, c.Options)
	if err != nil {
		return nil, err
	}
	r := c.Reading
	if r == nil { // there is no ledger: say so as every reader of it does
		_, err := p.Read(ask)
		return nil, err
	}
	rec, err := r.advise(v, days)
	if refusal.Is(err, refusal.MissingAnchor) {
		return nil, c.recordBlock(ctx, err)
	}
	if err != nil {
		return nil, err
	}
	return c.recordAdvice(ctx, rec)
}

// Advise is what [Place.Recommend] would say now. It records nothing.
func (r *Reading) Advise(class string) (*promote.Recommendation, error) {
	v, err := r.bench(class)
	if err != nil {
		return nil, err
	}
	return r.advise(v, 0)
}

func (r *Reading) advise(v *bench.Verified, days int) (*promote.Recommendation, error) {
	anchors, err := r.Anchors()
	if err != nil {
		return nil, err
	}
	return promote.Recommend(promote.Input{Bench: v, History: r.History, Anchors: anchors, Now: r.Now(), Evidence: r.Evidence, WindowDays: days})
}

// Advised are the recommendations of a class in the ledger, by their index.
func (r *Reading) Advised(class string) map[int64]recount.Advice {
	out := make(map[int64]recount.Advice)
	for i, a := range r.advised {
		if a.Class == class {
			out[i] = a
		}
	}
	return out
}

// recordBlock records that promotion stopped at evidence that does not verify,
// in the ledger, which is whole, and as an alarm. It returns err.
func (c *Corpus) recordBlock(ctx context.Context, err error) error {
	event := &evidence.IntegrityEvent{Name: string(refusal.Of(err).Name), Severity: evidence.Block, Boundary: "TB-5", Detail: err.Error()}
	if _, rerr := c.Append(ctx, evidence.IntegrityEventKind, event); rerr != nil {
		c.Note("the event could not be recorded in the ledger: %v", rerr)
	}
	return c.Alarm(err)
}

// recordAdvice makes the receipts, appends the advice to the ledger and writes
// the file. A crash before the file is written leaves an entry without one,
// which [Reading.Recount] tells; asking again makes both.
func (c *Corpus) recordAdvice(ctx context.Context, rec *promote.Recommendation) (*promote.Answer, error) {
	receipts, err := c.Reading.receipts(rec.Evidence)
	if err != nil {
		return nil, err
	}
	crossed := &evidence.IntegrityEvent{Name: string(evidence.RecommendationKind), Severity: evidence.Info, Boundary: "TB-5",
		Detail: fmt.Sprintf("class %s: %s; the next entry has the advice", rec.Class, rec.RecommendedTier)}
	pos, err := appendTo(c.OpenLedger(ctx))(evidence.IntegrityEventKind, crossed, entry{evidence.RecommendationKind, &rec.Recommendation})
	if err != nil {
		return nil, err
	}
	var data bytes.Buffer
	enc := json.NewEncoder(&data)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	file := promote.File{Schema: promote.FileSchema, Recommendation: rec, Index: pos.Index, Head: pos.Head, Time: evidence.At(c.Now()), Receipts: receipts}
	if err := enc.Encode(file); err != nil {
		return nil, fmt.Errorf("encoding the recommendation: %w", err)
	}
	dir := c.RecommendationsDir()
	if err := store.MakeDir(store.OS{}, dir, 0o700); err != nil {
		return nil, err
	}
	name := filepath.Join(dir, recount.AdviceFile(rec.Class, pos.Index))
	if err := store.CreateFile(store.OS{}, name, plain.JSON(data.Bytes()), 0o600); err != nil {
		return nil, err
	}
	return &promote.Answer{Recommendation: rec, Index: pos.Index, File: name}, nil
}

// receipts proves that the entries are in the ledger, to whoever has its key.
func (r *Reading) receipts(indexes []int64) (map[int64]string, error) {
	if len(indexes) == 0 || len(indexes) > promote.MaxReceipts {
		return map[int64]string{}, nil
	}
	proofs, _, err := r.Prove(indexes...)
	if err != nil {
		return nil, err
	}
	out := make(map[int64]string, len(indexes))
	for i, x := range proofs {
		data, err := x.Receipt().Marshal()
		if err != nil {
			return nil, err
		}
		out[i] = string(data)
	}
	return out, nil
}
