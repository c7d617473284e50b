package ceremony

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/record/strictyaml"
	"tallystick/internal/run/bench"
	"tallystick/internal/share/gaia"
	"tallystick/internal/share/submission"
)

// GAIAOptions say what class to make of GAIA.
type GAIAOptions struct {
	gaia.Options
	Hub                 *gaia.Hub // download it; Path is empty then
	Class               string    // gaia-SPLIT, with the level, if empty
	Scratch             bool      // unsigned, and can never be submitted
	Weak                bool      // make it even if an answer that takes no work passes
	AddedBy, ReviewedBy string
}

// A NewGAIA is a class that was made of GAIA.
type NewGAIA struct {
	Class       string           `json:"class"`
	Trust       bench.Trust      `json:"trust"`
	Split       string           `json:"split"`
	Revision    string           `json:"revision"`
	Tasks       int              `json:"tasks"`
	Levels      map[string]int   `json:"levels"`
	Attachments int              `json:"attachments"`
	Files       []bench.DataFile `json:"files"`
	Floor
}

// ImportGAIA makes a class of a split of GAIA: a case for each task, with its file
// in input/ and its level as a tag. Nothing is written unless all of it is.
func ImportGAIA(ctx context.Context, c *dossier.Corpus, o GAIAOptions) (*NewGAIA, error) {
	read := func() (*gaia.Data, error) { return gaia.Read(o.Options) }
	if o.Hub != nil {
		read = func() (*gaia.Data, error) { return gaia.ReadHub(ctx, *o.Hub, o.Options) }
	}
	data, err := read()
	if err != nil {
		return nil, err
	}
	if o.Class == "" {
		o.Class = "gaia-" + data.Split
		if o.Level > 0 {
			o.Class += fmt.Sprintf("-l%d", o.Level)
		}
	}
	trust := bench.Signed
	if o.Scratch {
		trust = bench.Scratch
	}
	files, err := gaiaFiles(c, o, data, trust)
	if err != nil {
		return nil, err
	}
	floor, err := gaiaFloor(ctx, c, o, data)
	if err != nil {
		return nil, err
	}
	if err := floor.write(files); err != nil {
		return nil, err
	}
	if err := WriteClass(c, o.Class, trust, files); err != nil {
		return nil, err
	}
	return &NewGAIA{o.Class, trust, data.Split, data.Revision, len(data.Tasks), data.Levels(), data.Attachments(), data.Files, floor}, nil
}

// gaiaFloor tries null answers on tasks from all over the split, without their files.
func gaiaFloor(ctx context.Context, c *dossier.Corpus, o GAIAOptions, data *gaia.Data) (Floor, error) {
	some := *data
	some.Tasks = spread(data.Tasks)
	for i := range some.Tasks {
		some.Tasks[i].File = nil
	}
	files, err := gaiaFiles(c, o, &some, bench.Scratch)
	if err != nil {
		return Floor{}, err
	}
	return floorOf(ctx, c, o.Class, files, o.Weak)
}

// WriteClass writes a class, has it read as a run would, and takes it away again
// if that fails.
func WriteClass(c *dossier.Corpus, class string, trust bench.Trust, files map[string][]byte) error {
	if err := bench.CheckID(class); err != nil {
		return refusal.Newf(refusal.Usage, "class: %w", err)
	}
	if taken, err := bench.Taken(c.Root, class); err != nil {
		return err
	} else if taken != "" {
		return refusal.Newf(refusal.TaskClassAlreadyRegistered, "class %s: class %s is registered already", class, taken).WithHint("name another with --class")
	}
	err := WriteFiles(c.ClassDir(class), files)
	if err == nil && trust == bench.Signed {
		_, err = Digest(c, DigestOptions{Class: class})
	} else if err == nil {
		_, _, err = VerifyClasses(c, []string{class})
	}
	if err != nil {
		if rerr := store.RemoveTree(c.ClassDir(class)); rerr != nil {
			c.Note("bench/%s could not be removed: %v", class, rerr)
		}
		return refusal.Newf(refusal.Of(err).Name, "class %s: what was made cannot run: %w", class, err).WithHint("nothing was kept")
	}
	return nil
}

func gaiaFiles(c *dossier.Corpus, o GAIAOptions, data *gaia.Data, trust bench.Trust) (map[string][]byte, error) {
	files, err := bench.Published(o.Class, "GAIA, split "+data.Split, trust, bench.DataSet{Name: "gaia", Split: data.Split, Revision: data.Revision, Files: data.Files})
	if err != nil {
		return nil, err
	}
	var added, reviewed *bench.Person
	if trust == bench.Signed {
		if added, reviewed, err = bench.People(o.AddedBy, o.ReviewedBy, c.Options); err != nil {
			return nil, err
		}
	}
	for i := range data.Tasks {
		t := &data.Tasks[i]
		about := bench.NewCase(t.ID, fmt.Sprintf("GAIA %s, level %d", data.Split, t.Level), added, reviewed, c.Now())
		about.Ref = fmt.Sprintf("GAIA %s, revision %.200s", data.Split, data.Revision)
		about.Difficulty = []bench.Difficulty{bench.Easy, bench.Medium, bench.Hard}[t.Level-1]
		about.Tags = []string{fmt.Sprintf("%s%d", submission.LevelTag, t.Level), "split-" + data.Split}
		about.Expected = ""
		grading := gaiaUngraded
		if t.Answer != "" {
			answer, err := json.Marshal(map[string]string{"answer": t.Answer})
			if err != nil {
				return nil, err
			}
			about.Expected, grading = string(answer), gaiaGraded
		}
		if err := about.Check(); err != nil {
			return nil, err
		}
		dir := "cases/" + t.ID + "/"
		files[dir+bench.CaseFile], files[dir+bench.GradingFile], files[dir+bench.ScenarioFile] = about.YAML(), []byte(grading), gaiaScenario(t)
		if t.File != nil {
			files[dir+"input/"+t.File.Name] = t.File.Data
		}
	}
	return files, nil
}

// The answer is what follows the words that GAIA asks agents to end with, or all
// of it.
const gaiaExtract = `extract: {kind: answer, pattern: "(?is)^(?:.*FINAL ANSWER:)?\\s*(.*?)\\s*$"}` + "\n"

const (
	gaiaGraded   = gaiaExtract + "grade: {kind: gaia, expected_pointer: /answer}\n"
	gaiaUngraded = "# The split has no public answers: the case runs and is unscored.\n" + gaiaExtract + "grade: {kind: ungraded}\n"
)

// gaiaScenario is one turn: the question, and the name of its file.
func gaiaScenario(t *gaia.Task) []byte {
	text := t.Question
	if t.File != nil {
		text += submission.AttachedFile + t.File.Name
	}
	var b strings.Builder
	fmt.Fprintf(&b, "version: 1\nturns:\n  - text: %s\n", strictyaml.Quote(text))
	if len(t.Replies) > 0 {
		b.WriteString("model:\n")
		for _, r := range t.Replies {
			fmt.Fprintf(&b, "  - {text: %s, tokens_in: %d, tokens_out: %d}\n", strictyaml.Quote(r), 1+len(text)/4, 1+len(r)/4)
		}
	}
	return []byte(b.String())
}
