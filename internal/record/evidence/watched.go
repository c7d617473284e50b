package evidence

import (
	"fmt"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/format"
)

// Watched is what was noted of the texts of a case while they passed whole, with
// their secrets: what cannot be had later. It is a piece of the case's evidence.
// A text is known by the digest under which the trajectory has it.
type Watched struct {
	Gold    bool          `json:"gold"`  // there was an expected answer to look for
	Texts   []WatchedText `json:"texts"` // by digest
	Version string        `json:"v"`     // [format.Version]
}

// A WatchedText is one text of a case as it passed.
type WatchedText struct {
	Bytes  int64          `json:"bytes"` // of the text with its secrets
	Digest digest.Content `json:"digest"`
	// Hits are where in the text the expected answer was found: offsets in bytes,
	// the first [MaxGoldHits] of them. HitCount says how many there are.
	HitCount int64   `json:"hit_count,omitempty"`
	Hits     []int64 `json:"hits,omitempty"`
	// Question says of a text with hits whether it holds the question too. It is
	// missing in what earlier programs wrote.
	Question *bool `json:"question,omitempty"`
	// Salted says that SHA256 is over the text with random bytes before it,
	// which were not kept: the text had a secret that could be guessed from the
	// digest.
	Salted bool      `json:"salted,omitempty"`
	SHA256 digest.ID `json:"sha256"`
}

// MaxGoldHits bounds the offsets of one text. A short answer is in a long text
// thousands of times, and the first ones tell as much.
const MaxGoldHits = 64

// Validate checks the shape.
func (w *Watched) Validate() error {
	if err := format.CheckVersion("the notes on texts", w.Version); err != nil {
		return err
	}
	for i := range w.Texts {
		t := &w.Texts[i]
		switch {
		case t.Bytes < 0 || t.SHA256.IsZero() || t.Digest.IsZero():
			return fmt.Errorf("text %d has %d bytes, digest %s, SHA-256 %s", i, t.Bytes, t.Digest, t.SHA256)
		case len(t.Hits) > MaxGoldHits || int64(len(t.Hits)) > t.HitCount || (t.HitCount > 0) != (len(t.Hits) > 0) || t.HitCount > 0 && !w.Gold:
			return fmt.Errorf("text %s: %d offsets of %d hits", t.Digest, len(t.Hits), t.HitCount)
		case t.Question != nil && t.HitCount == 0:
			return fmt.Errorf("text %s says whether it holds the question, and has no hits", t.Digest)
		}
		for j, at := range t.Hits {
			if at < 0 || at >= t.Bytes || j > 0 && at <= t.Hits[j-1] {
				return fmt.Errorf("text %s: an offset is %d in %d bytes, expected them in order", t.Digest, at, t.Bytes)
			}
		}
	}
	return nil
}
