package ceremony

import (
	"context"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
)

// A Naming is the name or the note that an attempt is given.
type Naming struct {
	Attempt string `json:"attempt"`
	Name    string `json:"name,omitempty"`
	Note    string `json:"note,omitempty"`
	// Number of Of: which attempt of its class it is.
	Number int `json:"number"`
	Of     int `json:"of"`
	// Was is the attempt that had the name before, "" if none.
	Was   string `json:"was,omitempty"`
	Index int64  `json:"entry"`
}

// MaxNoteBytes bounds a note.
const MaxNoteBytes = 4096

// Name records the name or the note of an attempt. The operator's seal signs it.
func Name(ctx context.Context, c *dossier.Corpus, n Naming) (*Naming, error) {
	if n.Name == "" && n.Note == "" {
		return nil, refusal.Newf(refusal.Usage, "neither a name nor --note is given").WithHint(`tally name %s "prompt v9"`, n.Attempt)
	}
	if n.Name != "" {
		if err := evidence.CheckName(n.Name); err != nil {
			return nil, err
		}
	}
	if len(n.Note) > MaxNoteBytes {
		return nil, refusal.Newf(refusal.Usage, "--note has %d bytes, at most %d are accepted", len(n.Note), MaxNoteBytes)
	}
	d, err := c.Reading.Attempt(n.Attempt)
	if err != nil {
		return nil, err
	}
	n.Number, n.Of = d.Ordinal, d.Siblings
	for _, a := range c.Reading.History.Attempts {
		if n.Name != "" && a.Name == n.Name && a.ID != n.Attempt {
			n.Was = a.ID
		}
	}
	pos, err := c.Append(ctx, evidence.AttemptNamedKind, &evidence.AttemptNamed{Attempt: n.Attempt, Name: n.Name, Note: n.Note})
	if err != nil {
		return nil, err
	}
	n.Index = pos.Index
	return &n, nil
}
