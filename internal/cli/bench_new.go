package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"tallystick/internal/bench"
	"tallystick/internal/plain"
	"tallystick/internal/refusal"
	"tallystick/internal/store"
)

func sortedNames(files map[string][]byte) []string { return slices.Sorted(maps.Keys(files)) }

type benchNewOptions struct {
	class            string
	scratch, dataset bool
	added, reviewed  string
}

func newBenchNew(env *Env) *cobra.Command {
	var o benchNewOptions
	cmd := &cobra.Command{
		Use:   "new CLASS",
		Short: "Make a task class with a small real example",
		Long: `Make bench/CLASS with a registration, a Starlark rubric and one case, ready to run.
With --dataset the cases are lines of dataset.jsonl instead, graded by built-in
graders: quick to write, signed as a whole, and not counted towards a tier.
Its tier is bronze. A second class of the same name, or of one that looks like it,
is refused. templates/CODEOWNERS is written if there is none.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.class = args[0]
			return runBenchNew(cmd.Context(), env, o)
		},
	}
	cmd.Flags().BoolVar(&o.scratch, "scratch", false, "no signatures, runs at once, never counts for promotion")
	cmd.Flags().BoolVar(&o.dataset, "dataset", false, "the light form: cases are lines of dataset.jsonl, no rubric")
	addPeopleFlags(cmd, &o.added, &o.reviewed)
	return cmd
}

func addPeopleFlags(cmd *cobra.Command, added, reviewed *string) {
	cmd.Flags().StringVar(added, "added-by", "", "`NAME` of the curator who adds the case (default: if only one choice exists)")
	cmd.Flags().StringVar(reviewed, "reviewed-by", "", "`NAME` of the curator or security person who reviews it")
}

func runBenchNew(_ context.Context, env *Env, o benchNewOptions) error {
	if err := bench.CheckID(o.class); err != nil {
		return refusal.Newf(refusal.Usage, "class: %w", err)
	}
	p, err := env.openBench()
	if err != nil {
		return err
	}
	defer p.root.Close()
	if taken, err := bench.Taken(p.root, o.class); err != nil {
		return err
	} else if taken != "" {
		return refusal.Newf(refusal.TaskClassAlreadyRegistered, "class %s: class %s is registered already", o.class, taken).
			WithHint("choose a name that differs in more than case, 0 and O, 1 and l and I, rn and m, vv and w, - and _")
	}
	trust := bench.Signed
	added, reviewed, err := bench.People(o.added, o.reviewed, p.opt)
	if err != nil {
		return err
	}
	if o.scratch {
		trust, added, reviewed = bench.Scratch, nil, nil
	}
	files := bench.Example(o.class, trust, added, reviewed, env.Now())
	if o.dataset {
		files = bench.ExampleDataset(o.class, trust)
	}
	if err := writeFiles(p.classDir(o.class), files); err != nil {
		return err
	}
	if err := store.MakeDir(store.OS{}, p.w.Path("templates"), 0o755); err != nil {
		return err
	}
	if err := writeIfMissing(p.w.Path("templates", "CODEOWNERS"), []byte(bench.CodeOwners), 0o644); err != nil {
		return err
	}
	if !o.scratch {
		if _, err := pinClass(p, o.class, benchDigestOptions{}); err != nil {
			return err
		}
	}
	dir := filepath.Join(bench.Dir, o.class)
	return env.Answer(map[string]any{"class": o.class, "trust": trust, "folder": dir}, func(out io.Writer) {
		made := "rubric.star, cases/greeting"
		if o.dataset {
			made = bench.DatasetFile
		}
		fmt.Fprintf(out, "made %s (%s, bronze): registration.yaml, %s\n", plain.Line(dir), trust, made)
		if o.scratch {
			fmt.Fprintf(out, "It is a SCRATCH class: nobody signs it and it never counts for promotion.\nNext: tally run %s\n", plain.Line(o.class))
			return
		}
		fmt.Fprintf(out, "Next: tally bench digest %s, then two people run \"tally bench sign %s --key THEIR-SSH-KEY\"\n", plain.Line(o.class), plain.Line(o.class))
	})
}

type benchAddOptions struct {
	class, id       string
	title           string
	from            string
	added, reviewed string
}

func newBenchAdd(env *Env) *cobra.Command {
	var o benchAddOptions
	cmd := &cobra.Command{
		Use:   "add CLASS ID",
		Short: "Add a case to fill in, and say what it still needs",
		Long: `Add bench/CLASS/cases/ID with a case.yaml to fill in, input/ and expected/. If the
case exists already, nothing is written: the answer says what it still needs and
who may sign it.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.class, o.id = args[0], args[1]
			return runBenchAdd(cmd.Context(), env, o)
		},
	}
	cmd.Flags().StringVar(&o.title, "title", "", "one line that says what the case is about")
	cmd.Flags().StringVar(&o.from, "input", "", "`FILE` to copy into input/")
	addPeopleFlags(cmd, &o.added, &o.reviewed)
	return cmd
}

func runBenchAdd(_ context.Context, env *Env, o benchAddOptions) error {
	if err := bench.CheckID(o.id); err != nil {
		return refusal.Newf(refusal.Usage, "case: %w", err)
	}
	p, err := env.openBench()
	if err != nil {
		return err
	}
	defer p.root.Close()
	d, err := bench.Load(p.root, o.class)
	if err != nil {
		return err
	}
	_, err = d.Case(o.id)
	if err != nil && !refusal.Is(err, refusal.NotFound) {
		return err
	}
	made := false
	if err != nil {
		if other := d.LooksTaken(o.id); other != "" {
			return refusal.Newf(refusal.AlreadyExists, "class %s: case %s looks like %s, which exists already", o.class, o.id, other)
		}
		if err := addCase(env, p, o, d.Rubric.Main == ""); err != nil {
			return err
		}
		made = true
		if d, err = bench.Load(p.root, o.class); err != nil {
			return err
		}
	}
	c, err := d.Case(o.id)
	if err != nil {
		return err
	}
	var missing missingList
	if d.Registration.Trust == bench.Signed {
		missing = c.Status(p.opt)
	}
	dir := filepath.Join(bench.Dir, o.class, bench.CasesDir, o.id)
	return env.Answer(map[string]any{"class": o.class, "case": o.id, "folder": dir, "made": made, "missing": missing}, func(out io.Writer) {
		if made {
			fmt.Fprintf(out, "made %s\n", plain.Line(dir))
			fmt.Fprintf(out, "1. fill in case.yaml (title, disposition, source_ref, expected) and put files into input/ and expected/\n2. tally bench digest %s\n", plain.Line(o.class))
			if d.Registration.Trust == bench.Signed {
				fmt.Fprintf(out, "3. two people run \"tally bench sign %s %s --key THEIR-SSH-KEY\"\n", plain.Line(o.class), plain.Line(o.id))
			}
		}
		missing.print(out)
		if !made && len(missing) == 0 {
			fmt.Fprintf(out, "case %s has all it needs\n", plain.Line(o.id))
		}
	})
}

// addCase writes the files of a case to fill in; graded says that it needs a
// grading.yaml of its own, because the class has no rubric.
func addCase(env *Env, p *benchPlace, o benchAddOptions, graded bool) error {
	added, reviewed, err := bench.People(o.added, o.reviewed, p.opt)
	if err != nil {
		return err
	}
	t := bench.NewCase(o.id, o.title, added, reviewed, env.Now())
	if t.Title == "" {
		t.Title = o.id
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
	if o.from != "" {
		data, err := store.ReadFile(store.OS{}, o.from, 64<<20)
		if err != nil {
			return err
		}
		delete(files, "input/prompt.txt")
		files["input/"+filepath.Base(o.from)] = data
	}
	return writeFiles(p.classDir(o.class, bench.CasesDir, o.id), files)
}

type benchDigestOptions struct {
	class   string
	message string
	pins    bool
	ci      string
	image   string
}

func newBenchDigest(env *Env) *cobra.Command {
	var o benchDigestOptions
	cmd := &cobra.Command{
		Use:   "digest CLASS",
		Short: "Compute and write the digests of a class: cases, manifest, pins",
		Long: `Compute the digests of what is in bench/CLASS and write them into each case.yaml,
cases/digests.yaml and manifest.yaml, and add the class to bench/digests.yaml.
Signatures over what changed are removed: they cover something else now. If the
signers have changed since the ledger began, their versions are written to
signers/history for checkouts that have no ledger.

The manifest's digest is the bench digest. To sign by hand, write what is signed
to a file and put the signature beside the manifest:

  tally bench digest CLASS --message msg
  ssh-keygen -Y sign -n tallystick-bench -f KEY msg
  cp msg.sig bench/CLASS/manifest.yaml.YOURNAME.sig`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.class = args[0]
			return runBenchDigest(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.message, "message", "", "write what is signed to this `FILE`")
	f.BoolVar(&o.pins, "pins", false, "with --message: the message of bench/digests.yaml instead of the manifest's")
	f.StringVar(&o.ci, "ci", "", "pin this CI `FILE`, which runs the fence, in bench/digests.yaml")
	f.StringVar(&o.image, "image", "", "pin this `DIGEST` of the image that Python rubrics run in")
	return cmd
}

type benchDigestAnswer struct {
	Class       string      `json:"class"`
	BenchDigest string      `json:"bench_digest"`
	Cases       int         `json:"cases"`
	Changed     []string    `json:"changed"`
	Missing     missingList `json:"missing"`
}

func runBenchDigest(_ context.Context, env *Env, o benchDigestOptions) error {
	if o.pins && o.message == "" {
		return refusal.Newf(refusal.Usage, "tally bench digest: --pins needs --message, the file to write to")
	}
	p, err := env.openBench()
	if err != nil {
		return err
	}
	defer p.root.Close()
	d, err := bench.Load(p.root, o.class)
	if err != nil {
		return err
	}
	if d.Registration.Trust == bench.Scratch && (o.ci != "" || o.image != "") {
		return refusal.Newf(refusal.Usage, "class %s is a scratch class: nothing is pinned for it", o.class).
			WithHint("give --ci and --image with a signed class; the pins are for all of them")
	}
	if o.ci != "" {
		if o.ci, err = p.inWorkspace(o.ci); err != nil {
			return err
		}
	}
	if err := p.keepHistory(); err != nil {
		return err
	}
	answer := benchDigestAnswer{Class: o.class, Changed: []string{}}
	if answer.Changed, err = digestCases(p, d); err != nil {
		return err
	}
	if d, err = bench.Load(p.root, o.class); err != nil {
		return err
	}
	manifest, digests, err := d.Compute()
	if err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		data []byte
	}{{bench.DigestsFile, digests.Format()}, {bench.ManifestFile, manifest.Format()}} {
		if f.name == bench.DigestsFile && len(digests.Cases) == 0 && d.Digests == nil {
			continue // all cases are lines of the dataset, which the manifest pins
		}
		changed, err := writeSigned(p.classDir(o.class, filepath.FromSlash(f.name)), f.data)
		if err != nil {
			return err
		}
		if changed {
			answer.Changed = append(answer.Changed, f.name)
		}
	}
	if d.Registration.Trust == bench.Signed {
		changed, err := pinClass(p, o.class, o)
		if err != nil {
			return err
		}
		if changed {
			answer.Changed = append(answer.Changed, bench.PinsFile)
		}
	}
	if o.message != "" {
		if err := writeMessage(p, manifest, o); err != nil {
			return err
		}
	}
	id, err := manifest.Digest()
	if err != nil {
		return err
	}
	answer.BenchDigest, answer.Cases = id.String(), len(manifest.Cases)
	if d, err = bench.Load(p.root, o.class); err != nil {
		return err
	}
	if answer.Missing, err = d.Status(p.root, p.opt); err != nil {
		return err
	}
	return env.Answer(answer, func(out io.Writer) {
		lines := 0
		if d.Dataset != nil {
			lines = len(d.Dataset.Lines)
		}
		fmt.Fprintf(out, "bench digest  %s\n%s\n", answer.BenchDigest, caseCount(answer.Cases, lines))
		for _, name := range answer.Changed {
			fmt.Fprintf(out, "wrote  %s\n", plain.Line(name))
		}
		answer.Missing.print(out)
	})
}

// digestCases writes the digests into each case.yaml and names the files that
// changed.
func digestCases(p *benchPlace, d *bench.Draft) ([]string, error) {
	changed := []string{}
	cases := slices.Clone(d.Cases)
	for _, id := range d.PendingIDs() {
		c, err := d.Pending(id)
		if err != nil {
			return nil, err
		}
		cases = append(cases, c)
	}
	for _, c := range cases {
		data, err := c.WithDigests()
		if err != nil {
			return nil, fmt.Errorf("class %s: case %s: %w", d.Class, c.CaseID, err)
		}
		if data == nil {
			continue
		}
		name := caseFile(c)
		if err := store.WriteFile(store.OS{}, p.classDir(d.Class, name), data, 0o644); err != nil {
			return nil, err
		}
		changed = append(changed, filepath.ToSlash(name))
	}
	return changed, nil
}

// caseFile is the case.yaml of a case or draft, relative to the class.
func caseFile(c *bench.DraftCase) string {
	dir := bench.CasesDir
	if c.Pending {
		dir = bench.PendingDir
	}
	return filepath.Join(dir, c.CaseID, bench.CaseFile)
}

// maxPinned is above what a manifest or pins may have.
const maxPinned = 2 << 20

// writeSigned replaces a file that people sign, if it changes, and removes the
// signatures beside it: they cover what was there before.
func writeSigned(path string, data []byte) (changed bool, err error) {
	old, err := store.ReadFile(store.OS{}, path, maxPinned)
	switch {
	case err == nil && slices.Equal(old, data):
		return false, nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return false, err
	}
	if err := removeSignatures(path, false); err != nil {
		return false, err
	}
	return true, store.WriteFile(store.OS{}, path, data, 0o644)
}

// removeSignatures removes the signatures beside a file: FILE.sig, unless it is
// to be kept, and FILE.NAME.sig.
func removeSignatures(path string, keepMain bool) error {
	names, err := filepath.Glob(globQuote(path) + ".*.sig")
	if err != nil {
		return refusal.Newf(refusal.Unreadable, "looking for signatures of %s: %w", path, err)
	}
	if !keepMain {
		names = append(names, path+".sig")
	}
	for _, name := range names {
		if err := (store.OS{}).Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return refusal.Newf(refusal.WriteFailed, "removing %s: %w", name, err)
		}
	}
	return nil
}

// pinClass adds the class, and what the options name, to bench/digests.yaml.
func pinClass(p *benchPlace, class string, o benchDigestOptions) (changed bool, err error) {
	pins, _, err := bench.LoadPins(p.root)
	if err != nil {
		return false, err
	}
	if pins == nil {
		pins = &bench.Pins{Version: 1}
	}
	if !slices.Contains(pins.Classes, class) {
		pins.Classes = append(pins.Classes, class)
		slices.Sort(pins.Classes)
	}
	if err := pins.Pin(p.root, o.ci, o.image); err != nil {
		return false, err
	}
	return writeSigned(p.w.Path(filepath.FromSlash(bench.PinsFile)), pins.Format())
}

// writeMessage writes what is signed, for people who sign with ssh-keygen.
func writeMessage(p *benchPlace, manifest *bench.Manifest, o benchDigestOptions) error {
	message, err := manifest.Message()
	if o.pins {
		var pins *bench.Pins
		if pins, _, err = bench.LoadPins(p.root); err == nil && pins == nil {
			err = refusal.Newf(refusal.NotFound, "there is no %s", bench.PinsFile)
		}
		if err == nil {
			message, err = pins.Message()
		}
	}
	if err != nil {
		return err
	}
	return store.WriteFile(store.OS{}, o.message, message, 0o644)
}
