package promote

import (
	"testing"
	"time"

	"tallystick/internal/read/dossier"
)

// The ledger's time is the operator's word; cosignatures bound it.
func TestSpanIsBoundedByCosignatures(t *testing.T) {
	at := func(days int) time.Time { return now.Add(time.Duration(days) * day) }
	c := newClock([]dossier.CosignedAnchor{{Size: 20, Cosigned: at(-10)}, {Size: 10, Cosigned: at(-20)}, {Size: 15}})
	for _, tt := range []struct {
		name        string
		c           clock
		index       int64
		claimed     int
		early, late int
	}{
		{"no witness at all", clock{}, 5, -7, -7, -7},
		{"before witnesses began", c, 5, -25, -25, -25},
		{"before witnesses began, dated ahead", c, 5, -3, -20, -20},
		{"between two cosignatures", c, 12, -15, -15, -10},
		{"between two, dated back", c, 12, -40, -40, -10},
		{"between two, dated ahead", c, 12, -1, -10, -10},
		{"the first entry that a checkpoint does not cover", c, 10, -15, -15, -10},
		{"the last entry that it covers", c, 9, -30, -30, -30},
		{"not yet seen by a witness", c, 30, -2, -2, -2},
		{"not yet seen, dated back", c, 30, -40, -40, -10},
	} {
		early, late := tt.c.span(tt.index, at(tt.claimed))
		if !early.Equal(at(tt.early)) || !late.Equal(at(tt.late)) {
			t.Errorf("%s: %s to %s, want %s to %s", tt.name, early, late, at(tt.early), at(tt.late))
		}
	}
}
