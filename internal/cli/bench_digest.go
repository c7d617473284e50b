package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"tallystick/internal/archive"
	"tallystick/internal/bench"
	"tallystick/internal/plain"
	"tallystick/internal/refusal"
	"tallystick/internal/store"
)

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
	p, err := env.openCorpus()
	if err != nil {
		return err
	}
	defer p.Root.Close()
	d, err := bench.Load(p.Root, o.class)
	if err != nil {
		return err
	}
	if d.Registration.Trust == bench.Scratch && (o.ci != "" || o.image != "") {
		return refusal.Newf(refusal.Usage, "class %s is a scratch class: nothing is pinned for it", o.class).
			WithHint("give --ci and --image with a signed class; the pins are for all of them")
	}
	if o.ci != "" {
		if o.ci, err = p.Inside(o.ci); err != nil {
			return err
		}
	}
	if err := keepHistory(p); err != nil {
		return err
	}
	answer := benchDigestAnswer{Class: o.class}
	if answer.Changed, err = digestCases(p, d); err != nil {
		return err
	}
	if d, err = bench.Load(p.Root, o.class); err != nil {
		return err
	}
	manifest, digests, err := d.Compute()
	if err != nil {
		return err
	}
	more, err := writeDigests(p, d, manifest, digests, o)
	if err != nil {
		return err
	}
	answer.Changed = append(answer.Changed, more...)
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
	if d, err = bench.Load(p.Root, o.class); err != nil {
		return err
	}
	if answer.Missing, err = d.Status(p.Root, p.Options); err != nil {
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

// writeDigests writes cases/digests.yaml, the manifest and the pins, and names
// those that changed.
func writeDigests(p *archive.Corpus, d *bench.Draft, manifest *bench.Manifest, digests *bench.CaseDigests, o benchDigestOptions) ([]string, error) {
	var changed []string
	note := func(name string, wrote bool, err error) error {
		if err == nil && wrote {
			changed = append(changed, name)
		}
		return err
	}
	// A class whose cases are all lines of the dataset needs no case digests:
	// the manifest pins it.
	if len(digests.Cases) > 0 || d.Digests != nil {
		wrote, err := writeSigned(p.ClassDir(d.Class, filepath.FromSlash(bench.DigestsFile)), digests.Format())
		if err := note(bench.DigestsFile, wrote, err); err != nil {
			return nil, err
		}
	}
	wrote, err := writeSigned(p.ClassDir(d.Class, bench.ManifestFile), manifest.Format())
	if err := note(bench.ManifestFile, wrote, err); err != nil {
		return nil, err
	}
	if d.Registration.Trust == bench.Signed {
		wrote, err := pinClass(p, d.Class, o)
		if err := note(bench.PinsFile, wrote, err); err != nil {
			return nil, err
		}
	}
	return changed, nil
}

// digestCases writes the digests into each case.yaml and names the files that
// changed.
func digestCases(p *archive.Corpus, d *bench.Draft) ([]string, error) {
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
		if err := store.WriteFile(store.OS{}, p.ClassDir(d.Class, name), data, 0o644); err != nil {
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
	names, err := filepath.Glob(archive.GlobQuote(path) + ".*.sig")
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
func pinClass(p *archive.Corpus, class string, o benchDigestOptions) (changed bool, err error) {
	pins, _, err := bench.LoadPins(p.Root)
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
	if err := pins.Pin(p.Root, o.ci, o.image); err != nil {
		return false, err
	}
	return writeSigned(p.Path(filepath.FromSlash(bench.PinsFile)), pins.Format())
}

// writeMessage writes what is signed, for people who sign with ssh-keygen.
func writeMessage(p *archive.Corpus, manifest *bench.Manifest, o benchDigestOptions) error {
	message, err := manifest.Message()
	if o.pins {
		var pins *bench.Pins
		if pins, _, err = bench.LoadPins(p.Root); err == nil && pins == nil {
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
