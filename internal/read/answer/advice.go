package answer

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/read/promote"
	"tallystick/internal/read/recount"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/bench"
)

// Recommend verifies the bench, the ledger and its anchors, asks package promote
// for its advice, and records that in the ledger and in a file. It changes no
// tier: people do. Days is the window, 0 for that of the registration.
func Recommend(ctx context.Context, p *dossier.Place, class, trustRoot string, days int) (*promote.Answer, error) {
	p.ReadFor = "TB-5" // what does not verify from here on stops at the gate of promotion
	ask := dossier.Ask{Prove: true, Want: func(a *history.Attempt) bool { return a.Class == class }}
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
	// A recommendation for a history that was put back is worse than none.
	if err = r.CompareGit(ctx); err != nil && !refusal.Is(err, refusal.MissingAnchor) {
		return nil, r.Alarm(err)
	}
	var rec *promote.Recommendation
	if err == nil {
		rec, err = advise(ctx, r, v, days)
	}
	if refusal.Is(err, refusal.MissingAnchor) {
		return nil, recordBlock(ctx, c, err)
	}
	if err != nil {
		return nil, err
	}
	return recordAdvice(ctx, c, rec)
}

// Advise is what [Recommend] would say now. It records nothing.
func Advise(r *dossier.Reading, class string) (*promote.Recommendation, error) {
	v, err := r.Bench(class)
	if err != nil {
		return nil, err
	}
	return advise(context.Background(), r, v, 0)
}

func advise(ctx context.Context, r *dossier.Reading, v *bench.Verified, days int) (*promote.Recommendation, error) {
	published, err := r.Anchors()
	if err != nil {
		return nil, err
	}
	outside, err := r.Outside(ctx)
	if err != nil {
		return nil, err
	}
	return promote.Recommend(promote.Input{Bench: v, History: r.History, Anchors: published, Outside: outside, Now: r.Now(), Evidence: r.ReadAll, WindowDays: days})
}

// Advised are the recommendations of a class in the ledger, by their index.
func Advised(r *dossier.Reading, class string) map[int64]dossier.Advice {
	out := make(map[int64]dossier.Advice)
	for i, a := range r.Advised() {
		if a.Class == class {
			out[i] = a
		}
	}
	return out
}

// recordBlock records that promotion stopped at evidence that does not verify,
// in the ledger, which is whole, and as an alarm. It returns err.
func recordBlock(ctx context.Context, c *dossier.Corpus, err error) error {
	event := &evidence.IntegrityEvent{Name: string(refusal.Of(err).Name), Severity: evidence.Block, Boundary: "TB-5", Detail: err.Error()}
	if _, rerr := c.Append(ctx, evidence.IntegrityEventKind, event); rerr != nil {
		c.Note("the event could not be recorded in the ledger: %v", rerr)
	}
	return c.Alarm(err)
}

// recordAdvice makes the receipts, appends the advice to the ledger and writes
// the file. A crash before the file is written leaves an entry without one,
// which [Recount] tells; asking again makes both.
func recordAdvice(ctx context.Context, c *dossier.Corpus, rec *promote.Recommendation) (*promote.Answer, error) {
	receipts, err := receipts(c.Reading, rec.Evidence)
	if err != nil {
		return nil, err
	}
	crossed := evidence.IntegrityEvent{Name: string(evidence.RecommendationKind), Severity: evidence.Info, Boundary: "TB-5",
		Detail: fmt.Sprintf("class %s: %s; the next entry has the advice", rec.Class, rec.RecommendedTier)}
	pos, err := c.AppendAfter(ctx, crossed, evidence.RecommendationKind, &rec.Recommendation)
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

// receipts proves that the entries are in the ledger, to a reader who has its key.
func receipts(r *dossier.Reading, indexes []int64) (map[int64]string, error) {
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
