package recount

import (
	"fmt"
	"slices"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/grade"
	"tallystick/internal/run/wire"
)

// An embedded is a check as far as vectors decide it.
type embedded struct {
	Check     string                 `json:"check"`
	Grader    grade.Kind             `json:"grader"`
	Score     *float64               `json:"score"`
	Embedding *grade.EmbeddingDetail `json:"embedding"`
	Extracted *struct {
		Digest digest.Content `json:"digest"`
	} `json:"extracted"`
}

// vectors computes again how near answers are to expected texts, from the vectors in
// the evidence. The cosine is arithmetic: that a provider gave the vectors is all that
// has to be taken on trust.
func (r *Recounted) vectors(where string, n *counts, read func(digest.Content) ([]byte, error)) error {
	if n.grade == nil {
		return nil
	}
	for i := range n.grade.Checks {
		d := &n.grade.Checks[i]
		if d.Grader != grade.Embedding || d.Embedding == nil {
			continue
		}
		at := where
		if d.Check != "" {
			at += ", check " + d.Check
		}
		named := slices.Contains(n.embeddings, evidence.EmbeddingFiles{Request: d.Embedding.Request, Reply: d.Embedding.Reply})
		r.Compare(at, "vectors", d.Embedding.Reply, "named by the index of the evidence", named)
		best, score, err := nearest(d, read)
		switch name := refusal.Of(err).Name; {
		case err == nil:
			r.Compare(at, "best", d.Embedding.Best, best, d.Embedding.Best == best)
			r.Compare(at, "similarity", d.Score, score, d.Score != nil && *d.Score == score)
		case name == refusal.NotFound || refusal.ExitCode(err) == refusal.ExitUnverified || name == refusal.Malformed:
			r.Compare(at, "vectors", d.Embedding.Reply, err.Error(), false)
		default:
			return fmt.Errorf("%s: reading its vectors: %w", at, err)
		}
	}
	return nil
}

// nearest reads what a model was asked and what it gave. The first text must be the
// answer that was extracted, or the vectors are of something else.
func nearest(d *embedded, read func(digest.Content) ([]byte, error)) (best int, score float64, err error) {
	request, err := read(d.Embedding.Request)
	if err != nil {
		return 0, 0, err
	}
	var asked struct {
		Model  string   `json:"model"`
		Input  []string `json:"input"`
		Format string   `json:"encoding_format"`
	}
	if err := canon.Unmarshal(request, &asked); err != nil {
		return 0, 0, refusal.Newf(refusal.Malformed, "the request for vectors: %w", err)
	}
	switch {
	case asked.Model != d.Embedding.Model:
		return 0, 0, refusal.Newf(refusal.Malformed, "the vectors are of the model %q", asked.Model)
	case len(asked.Input) == 0 || d.Extracted == nil || digest.ContentOf([]byte(asked.Input[0])) != d.Extracted.Digest:
		return 0, 0, refusal.Newf(refusal.Malformed, "the vectors are of another text than the answer")
	}
	reply, err := read(d.Embedding.Reply)
	if err != nil {
		return 0, 0, err
	}
	given, err := wire.ReadEmbeddings(reply, len(asked.Input))
	if err != nil {
		return 0, 0, refusal.Newf(refusal.Malformed, "the reply with vectors: %w", err)
	}
	best, score = grade.Nearest(given)
	return best, score, nil
}
