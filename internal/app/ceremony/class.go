package ceremony

import (
	"maps"
	"path/filepath"
	"slices"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/run/bench"
)

// ClassOptions say what class to make.
type ClassOptions struct {
	Class               string
	Scratch             bool   // unsigned, and never counts
	Dataset             bool   // cases are lines of dataset.jsonl
	AddedBy, ReviewedBy string // people; "" if only one choice exists
}

// NewClass makes a task class with a small real example.
func NewClass(c *dossier.Corpus, o ClassOptions) (bench.Trust, error) { return newClass(c, o, nil) }

// newClass makes a task class; change, which may be nil, makes other files of the
// example's.
func newClass(c *dossier.Corpus, o ClassOptions, change func(files map[string][]byte) error) (bench.Trust, error) {
	if err := bench.CheckID(o.Class); err != nil {
		return "", refusal.Newf(refusal.Usage, "class: %w", err)
	}
	if taken, err := bench.Taken(c.Root, o.Class); err != nil {
		return "", err
	} else if taken != "" {
		return "", refusal.Newf(refusal.TaskClassAlreadyRegistered, "class %s: class %s is registered already", o.Class, taken).
			WithHint("choose a name that differs in more than case, 0 and O, 1 and l and I, rn and m, vv and w, - and _")
	}
	trust := bench.Signed
	added, reviewed, err := bench.People(o.AddedBy, o.ReviewedBy, c.Options)
	if err != nil {
		return "", err
	}
	if o.Scratch {
		trust, added, reviewed = bench.Scratch, nil, nil
	}
	files := bench.Example(o.Class, trust, added, reviewed, c.Now())
	if o.Dataset {
		files = bench.ExampleDataset(o.Class, trust)
	}
	if change != nil {
		if err := change(files); err != nil {
			return "", err
		}
	}
	if err := WriteFiles(c.ClassDir(o.Class), files); err != nil {
		return "", err
	}
	if err := writeCodeOwners(c.Place); err != nil {
		return "", err
	}
	if !o.Scratch {
		if _, err := pinClass(c, DigestOptions{Class: o.Class}); err != nil {
			return "", err
		}
	}
	return trust, nil
}

// writeCodeOwners writes the template of a CODEOWNERS file: who must review what
// the signatures rest on.
func writeCodeOwners(p *dossier.Place) error {
	if err := store.MakeDir(store.OS{}, p.Path("templates"), 0o755); err != nil {
		return err
	}
	return WriteIfMissing(p.Path("templates", "CODEOWNERS"), []byte(bench.CodeOwners), 0o644)
}

// CaseOptions say what case to add.
type CaseOptions struct {
	Class, ID           string
	Title               string
	Input               string // file to copy into input/
	AddedBy, ReviewedBy string
}

// An Addition is a case to fill in, or one that was there.
type Addition struct {
	Made    bool
	Trust   bench.Trust
	Missing []bench.Missing // what a signed class still needs of it
}

// AddCase adds a case to fill in. If it exists, nothing is written: the answer
// says what it still needs.
func AddCase(c *dossier.Corpus, o CaseOptions) (*Addition, error) {
	if err := bench.CheckID(o.ID); err != nil {
		return nil, refusal.Newf(refusal.Usage, "case: %w", err)
	}
	d, err := bench.Load(c.Root, o.Class)
	if err != nil {
		return nil, err
	}
	_, err = d.Case(o.ID)
	if err != nil && !refusal.Is(err, refusal.UnknownName) {
		return nil, err
	}
	made := &Addition{Made: err != nil, Trust: d.Registration.Trust}
	if made.Made {
		if other := d.LooksTaken(o.ID); other != "" {
			return nil, refusal.Newf(refusal.AlreadyExists, "class %s: case %s looks like %s, which exists already", o.Class, o.ID, other)
		}
		if err := writeCase(c, o, d.Rubric.Main == ""); err != nil {
			return nil, err
		}
		if d, err = bench.Load(c.Root, o.Class); err != nil {
			return nil, err
		}
	}
	found, err := d.Case(o.ID)
	if err != nil {
		return nil, err
	}
	if made.Trust == bench.Signed {
		made.Missing = found.Status(c.Options)
	}
	return made, nil
}

// writeCase writes the files of a case to fill in; graded says that it needs a
// grading.yaml of its own, because the class has no rubric.
func writeCase(c *dossier.Corpus, o CaseOptions, graded bool) error {
	added, reviewed, err := bench.People(o.AddedBy, o.ReviewedBy, c.Options)
	if err != nil {
		return err
	}
	t := bench.NewCase(o.ID, o.Title, added, reviewed, c.Now())
	if t.Title == "" {
		t.Title = o.ID
	}
	if err := t.Check(); err != nil {
		return err
	}
	files := map[string][]byte{
		bench.CaseFile:      t.YAML(),
		"input/prompt.txt":  []byte("Replace this with what the agent is given.\n"),
		"expected/note.txt": []byte("Replace this with what a right answer is, or remove it.\n"),
	}
	if graded {
		files[bench.GradingFile] = []byte(bench.ExampleGrading)
	}
	if o.Input != "" {
		data, err := store.ReadFile(store.OS{}, o.Input, 64<<20)
		if err != nil {
			return err
		}
		delete(files, "input/prompt.txt")
		files["input/"+filepath.Base(o.Input)] = data
	}
	return WriteFiles(c.ClassDir(o.Class, bench.CasesDir, o.ID), files)
}

// WriteFiles writes files below a folder that must not hold them yet.
func WriteFiles(dir string, files map[string][]byte) error {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := store.MakeDir(store.OS{}, filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := store.CreateFile(store.OS{}, path, files[name], 0o644); err != nil {
			return err
		}
	}
	return nil
}
