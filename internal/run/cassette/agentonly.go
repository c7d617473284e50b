package cassette

import "slices"

// WithoutJudge is a cassette's file without the calls of judges, for whoever drives an
// agent and must not learn what a judge was told. The rest answers as before.
// It is nil if nothing else is in it.
func WithoutJudge(data []byte) ([]byte, error) {
	c, err := Parse(data, Limits{})
	if err != nil {
		return nil, err
	}
	judged := c.forJudge()
	if !slices.Contains(judged, true) {
		return data, nil
	}
	var kept []Interaction
	for i, it := range c.Interactions {
		if !judged[i] {
			kept = append(kept, it)
		}
	}
	if kept == nil {
		return nil, nil
	}
	left, err := New(c.Header.Provenance, c.Header.RecordedAt, c.Header.Redactions, kept)
	if err != nil {
		return nil, err
	}
	return left.Marshal()
}
