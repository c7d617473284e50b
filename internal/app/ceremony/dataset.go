package ceremony

import (
	"context"
	"path/filepath"
	"strings"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/bench"
	"tallystick/internal/share/dataset"
)

// DatasetOptions say what to make a class of.
type DatasetOptions struct {
	Path    string
	Class   string // a name made of that of the file if empty
	Split   string // of a folder that has several
	Mapping dataset.Mapping
	Signed  bool // two people will sign it; else it is a scratch class
	Weak    bool // make it even if an answer that takes no work passes
}

// A NewDataset is a class that was made of another project's data.
type NewDataset struct {
	Class string      `json:"class"`
	Trust bench.Trust `json:"trust"`
	Count int         `json:"cases"`
	*dataset.Imported
	Floor
}

// ImportDataset makes a class whose cases are the rows of a table or the tests
// of another tool's configuration. Nothing is written unless all of it is.
func ImportDataset(ctx context.Context, c *dossier.Corpus, o DatasetOptions) (*NewDataset, error) {
	imported, err := dataset.Import(o.Path, o.Split, o.Mapping)
	if err != nil {
		return nil, err
	}
	if o.Class == "" {
		if o.Class, err = classOf(o.Path); err != nil {
			return nil, err
		}
	}
	lines, err := imported.JSONL()
	if err != nil {
		return nil, err
	}
	floor, err := datasetFloor(ctx, c, o, imported)
	if err != nil {
		return nil, err
	}
	trust, err := newClass(c, ClassOptions{Class: o.Class, Scratch: !o.Signed, Dataset: true}, func(files map[string][]byte) error {
		files[bench.DatasetFile] = lines
		return floor.write(files)
	})
	if err != nil {
		return nil, err
	}
	// Whatever the file held, a class that cannot run must not be left behind.
	if trust == bench.Scratch {
		if _, _, err := VerifyClasses(c, []string{o.Class}); err != nil {
			if rerr := store.RemoveTree(c.ClassDir(o.Class)); rerr != nil {
				c.Note("bench/%s could not be removed: %v", o.Class, rerr)
			}
			return nil, refusal.Newf(refusal.Malformed, "%s: what was made of it cannot run: %w", o.Path, err).WithHint("nothing was kept")
		}
	}
	return &NewDataset{o.Class, trust, len(imported.Cases), imported, floor}, nil
}

// datasetFloor tries null answers on cases from all over the data.
func datasetFloor(ctx context.Context, c *dossier.Corpus, o DatasetOptions, imported *dataset.Imported) (Floor, error) {
	lines, err := (&dataset.Imported{Cases: spread(imported.Cases)}).JSONL()
	if err != nil {
		return Floor{}, err
	}
	files := bench.ExampleDataset(o.Class, bench.Scratch)
	files[bench.DatasetFile] = lines
	return floorOf(ctx, c, o.Class, files, o.Weak)
}

// classOf makes the name of a class of that of a file.
func classOf(path string) (string, error) {
	base := filepath.Base(filepath.Clean(path))
	base = strings.TrimSuffix(base, filepath.Ext(base))
	name := bench.Spell(base)
	if bench.CheckID(name) != nil {
		return "", refusal.Newf(refusal.Usage, "no class can be named after %q", base).WithHint("name one with --class")
	}
	return name, nil
}
