package ceremony

import (
	"context"
	"os"
	"path/filepath"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/harness"
)

// A Floor is what is known of answers that take no work, in a class that was imported.
type Floor struct {
	Floor    *evidence.Floor `json:"floor,omitempty"`
	NotTried string          `json:"floor_not_tried,omitempty"`
}

// floorOf tries null answers on a class before it is made: scratch are its files, or those
// of some of its cases, as a scratch class has them. A class that one of the answers nearly
// always passes is refused, unless the person who imports it says that it is meant.
func floorOf(ctx context.Context, c *dossier.Corpus, class string, scratch map[string][]byte, weak bool) (Floor, error) {
	b, err := nullAnswers(ctx, c, class, scratch)
	if err != nil {
		return Floor{}, refusal.Newf(refusal.Of(err).Name, "class %s: what was made of it cannot run: %w", class, err).WithHint("nothing was kept")
	}
	if f := b.Floor; f != nil && f.Weak() && !weak {
		return Floor{}, refusal.Newf(refusal.WeakBench, "class %s: %s, without any work; at nine of ten a class tests next to nothing", class, f.Text()).
			WithHint("check which column is what (--expected-column, --choices-column), or compare more strictly (--grade exact); --weak makes the class all the same, and every scorecard of it says so; nothing was kept")
	}
	return Floor{b.Floor, b.NotTried}, nil
}

// nullAnswers grades null answers in a class that is gone afterwards.
func nullAnswers(ctx context.Context, c *dossier.Corpus, class string, files map[string][]byte) (*harness.Baseline, error) {
	if err := bench.CheckID(class); err != nil {
		return nil, refusal.Newf(refusal.Usage, "class: %w", err)
	}
	dir, remove, err := store.TempDir("tally-floor-")
	if err != nil {
		return nil, err
	}
	defer remove()
	if err := WriteFiles(filepath.Join(dir, bench.Dir, class), files); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "opening the temporary folder: %w", err)
	}
	defer root.Close()
	v, err := bench.Verify(root, class, bench.Options{Now: c.Now()})
	if err != nil {
		return nil, err
	}
	return harness.NullAnswers(ctx, v)
}

// write puts the floor into the registration among the files of a class.
func (f Floor) write(files map[string][]byte) error {
	if f.Floor == nil {
		return nil
	}
	return bench.SetFloor(files, *f.Floor)
}

// spread takes as many of a list as null answers are tried on, from all over it.
func spread[T any](list []T) []T {
	n := min(len(list), harness.FloorCases)
	out := make([]T, n)
	for i := range out {
		out[i] = list[i*len(list)/n]
	}
	return out
}
