package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/internal/bench"
	"tallystick/internal/digest"
	"tallystick/internal/evidence"
	"tallystick/internal/ledger"
	"tallystick/internal/plain"
	"tallystick/internal/refusal"
	"tallystick/internal/seal"
	"tallystick/internal/sequencer"
	"tallystick/internal/store"
	"tallystick/internal/workspace"
)

func newBench(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Cases, rubrics and registrations that two people sign",
		Long: `A task class lives in bench/CLASS: cases, a rubric, a registration. Two people
sign each case, two sign the class as a whole, one of them with the security role:

  tally bench new CLASS            a small real example to start from
  tally bench add CLASS ID         a new case to fill in
  tally bench digest CLASS         pin what is there
  tally bench sign CLASS --key K   each person signs what waits for them
  tally bench verify CLASS         exit 0, or 3 and what is wrong

"bench new --scratch" makes a class that needs no signatures and never counts.`,
	}
	cmd.AddCommand(newBenchNew(env), newBenchAdd(env), newBenchDigest(env), newBenchSign(env), newBenchVerify(env),
		newBenchPending(env), newBenchAccept(env), newBenchList(env), newBenchFence(env))
	return cmd
}

// A benchPlace is a workspace with what verifying its benches needs.
type benchPlace struct {
	w    *workspace.Workspace
	root *os.Root
	opt  bench.Options
	// from says where the signers come from: the ledger, or the files and the
	// trust root when there is no ledger, as in a fresh checkout.
	from    string
	history []signersVersion // in the ledger
}

// openBench finds the workspace and who is trusted in it.
func (e *Env) openBench() (*benchPlace, error) {
	w, err := e.loadWorkspace()
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(w.Dir)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "opening the workspace: %w", err)
	}
	p := &benchPlace{w: w, root: root, opt: bench.Options{Now: e.Now(), Blobs: store.NewBlobs(store.OS{}, filepath.Join(w.EvidenceDir(), "cassettes"))}}
	if err := e.trustBench(p); err != nil {
		root.Close()
		return nil, err
	}
	return p, nil
}

// trustBench takes the people from the verified ledger. Without one, as in a
// checkout on a CI machine, they come from the signers folder, from the trust
// root on; then cases are judged at the present time. A ledger that this
// machine remembers must be there.
func (e *Env) trustBench(p *benchPlace) error {
	place, err := e.place(p.w)
	if err != nil {
		return err
	}
	_, err = os.Stat(place.SegmentsDir())
	if errors.Is(err, fs.ErrNotExist) {
		remembered, err := sequencer.Remembered(place.FS, place.StateDir, p.w.Settings.Origin)
		if err != nil {
			return err
		}
		if remembered == nil {
			p.from = "trust root"
			p.opt.Signers, err = signersFromFiles(p.w, e)
			return err
		}
	}
	accepted := &bench.Acceptances{}
	_, v, err := e.visitLedger(func(r ledger.Record) error {
		switch b := r.Body.(type) {
		case *evidence.Opened:
			p.history = append(p.history, signersVersion{signers: b.Signers})
		case *evidence.SignersChanged:
			p.history = append(p.history, signersVersion{b.Signers, strings.Join(b.Signatures, "")})
		}
		return accepted.Visit(r)
	})
	if err != nil {
		return err
	}
	p.from = "ledger"
	// A clock that was set back does not bring back a signer whose time is over.
	if last := v.LastTime.Go(); p.opt.Now.Before(last) {
		p.opt.Now = last
	}
	p.opt.Signers, p.opt.AcceptedAt, p.opt.SignersThen = v.Signers, accepted.AcceptedAt, accepted.SignersThen
	return nil
}

// openBenchFor is openBench for somebody who keeps the trust root himself;
// none if it is "". The workspace's own comes with the checkout: whoever can
// change that could bring signers of his own and sign everything again.
func (e *Env) openBenchFor(trustRoot string) (*benchPlace, error) {
	p, err := e.openBench()
	if err != nil || trustRoot == "" {
		return p, err
	}
	want, err := digest.ParseID(trustRoot)
	switch {
	case err != nil:
		err = refusal.Newf(refusal.Usage, "--trust-root: %w", err)
	case want != p.w.Settings.TrustRoot:
		err = refusal.Newf(refusal.SignersChainBroken, "the trust root of this workspace is %s, --trust-root says %s", p.w.Settings.TrustRoot, want).
			WithHint("somebody changed tally.yaml and with it who is trusted, or this is another workspace")
	default:
		return p, nil
	}
	p.root.Close()
	return nil, err
}

// addTrustRootFlag is for the commands that CI calls.
func addTrustRootFlag(cmd *cobra.Command, trustRoot *string) {
	cmd.Flags().StringVar(trustRoot, "trust-root", "", "require this trust root, a `DIGEST` kept outside the checkout")
}

// historyFile is where version n of the signers is kept for checkouts that
// have no ledger.
func historyFile(w *workspace.Workspace, version int) string {
	return w.Path("signers", "history", fmt.Sprint(version), "allowed_signers")
}

// signersFromFiles walks the versions in signers/history from the trust root
// on, each signed by two people of the one before. Without such a folder the
// file in force must be version 1.
//
// Files alone cannot show that the last version was taken away: that is what
// the ledger is for.
func signersFromFiles(w *workspace.Workspace, e *Env) (*seal.Signers, error) {
	if !fileExists(historyFile(w, 1)) {
		data, err := store.ReadFile(store.OS{}, w.SignersFile(), maxSignedFile)
		if err != nil {
			return nil, err
		}
		return seal.Root(w.SignersFile(), data, w.Settings.TrustRoot)
	}
	var signers *seal.Signers
	for version := 1; fileExists(historyFile(w, version)); version++ {
		file := historyFile(w, version)
		data, err := store.ReadFile(store.OS{}, file, maxSignedFile)
		if err != nil {
			return nil, err
		}
		if version == 1 {
			signers, err = seal.Root(file, data, w.Settings.TrustRoot)
		} else {
			var sigs [][]byte
			if sigs, err = signaturesOf(file); err == nil {
				signers, err = seal.Extend(signers, data, sigs, e.Now())
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return signers, nil
}

// keepHistory writes the versions that the ledger has to signers/history, if
// there is more than one, so that a checkout without the ledger can follow
// them too.
func (p *benchPlace) keepHistory() error {
	if len(p.history) < 2 {
		return nil
	}
	for i, v := range p.history {
		file := historyFile(p.w, i+1)
		if err := store.MakeDir(store.OS{}, filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := writeIfMissing(file, []byte(v.signers), 0o644); err != nil {
			return err
		}
		if v.signatures == "" {
			continue
		}
		if err := writeIfMissing(file+".sig", []byte(v.signatures), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// A signersVersion is one version of the signers in the ledger.
type signersVersion struct{ signers, signatures string }

// classDir is the folder of a class.
func (p *benchPlace) classDir(class string, names ...string) string {
	return p.w.Path(append([]string{bench.Dir, class}, names...)...)
}

// inWorkspace spells a file of the workspace as the pins do: relative to it,
// clean, with slashes. A person may give the whole path.
func (p *benchPlace) inWorkspace(file string) (string, error) {
	rel := filepath.Clean(file)
	if filepath.IsAbs(rel) {
		var err error
		if rel, err = filepath.Rel(p.w.Dir, rel); err != nil {
			return "", refusal.Newf(refusal.Usage, "%s: %w", file, err)
		}
	}
	if !filepath.IsLocal(rel) {
		return "", refusal.Newf(refusal.Usage, "%s is not in the workspace, %s", file, p.w.Dir).
			WithHint("name the file relative to the workspace")
	}
	return filepath.ToSlash(rel), nil
}

// writeFiles writes files below a folder that must not hold them yet.
func writeFiles(dir string, files map[string][]byte) error {
	for _, name := range sortedNames(files) {
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

// A missingList is what a class still lacks, in answers.
type missingList []bench.Missing

// MarshalJSON writes an empty list as one, so that a script can count it.
func (m missingList) MarshalJSON() ([]byte, error) {
	return json.Marshal(append([]bench.Missing{}, m...))
}

func (m missingList) print(out io.Writer) {
	for _, x := range m {
		fmt.Fprintf(out, "  missing  %s: %s\n", plain.Line(x.What), plain.Line(strings.TrimPrefix(x.Why, x.What+": ")))
		if len(x.Who) > 0 {
			fmt.Fprintf(out, "           may sign: %s\n", plain.Line(strings.Join(x.Who, ", ")))
		}
	}
}

func newBenchList(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:   "list [CLASS]",
		Short: "List the classes, or the cases of one; verifies nothing",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			class := ""
			if len(args) == 1 {
				class = args[0]
			}
			return runBenchList(cmd.Context(), env, class)
		},
	}
}

type listedClass struct {
	Class   string       `json:"class"`
	Trust   bench.Trust  `json:"trust,omitempty"`
	Tier    bench.Tier   `json:"current_tier,omitempty"`
	Cases   int          `json:"cases"`
	Lines   int          `json:"dataset_lines"`
	Pending int          `json:"pending"`
	Rubric  string       `json:"rubric,omitempty"`
	Error   string       `json:"error,omitempty"`
	List    []listedCase `json:"list,omitempty"`
}

type listedCase struct {
	ID          string            `json:"id"`
	Title       string            `json:"title"`
	Disposition bench.Disposition `json:"disposition"`
	HeldOut     bool              `json:"held_out"`
	Pending     bool              `json:"pending"`
}

func runBenchList(_ context.Context, env *Env, only string) error {
	w, err := env.loadWorkspace()
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(w.Dir)
	if err != nil {
		return refusal.Newf(refusal.Unreadable, "opening the workspace: %w", err)
	}
	defer root.Close()
	classes := []string{only}
	if only == "" {
		if classes, err = bench.Classes(root); err != nil {
			return err
		}
	}
	answer := []listedClass{}
	for _, class := range classes {
		d, err := bench.Load(root, class)
		if err != nil && only != "" {
			return err
		}
		answer = append(answer, listClass(class, d, err, only != ""))
	}
	return env.Answer(map[string]any{"classes": answer}, func(out io.Writer) {
		if len(answer) == 0 {
			fmt.Fprintln(out, `no classes; "tally bench new CLASS" makes one`)
		}
		for _, c := range answer {
			c.print(out)
		}
	})
}

func listClass(class string, d *bench.Draft, err error, withCases bool) listedClass {
	if err != nil {
		return listedClass{Class: class, Error: err.Error()}
	}
	l := listedClass{Class: class, Trust: d.Registration.Trust, Tier: d.Registration.CurrentTier, Cases: len(d.Cases), Pending: len(d.PendingIDs()), Rubric: d.Rubric.Main}
	if d.Dataset != nil {
		l.Lines = len(d.Dataset.Lines)
	}
	if !withCases {
		return l
	}
	for _, c := range d.Cases {
		l.List = append(l.List, listedCase{c.CaseID, c.Title, c.Disposition, c.IsHeldOut(), false})
	}
	for _, id := range d.PendingIDs() {
		if c, err := d.Pending(id); err == nil {
			l.List = append(l.List, listedCase{id, c.Title, c.Disposition, c.IsHeldOut(), true})
		} else {
			l.List = append(l.List, listedCase{ID: id, Title: err.Error(), Pending: true})
		}
	}
	return l
}

func (l listedClass) print(out io.Writer) {
	if l.Error != "" {
		fmt.Fprintf(out, "%-28s unreadable: %s\n", plain.Line(l.Class), plain.Line(l.Error))
		return
	}
	fmt.Fprintf(out, "%-28s %-8s %-8s %s, %d pending, %s\n", plain.Line(l.Class), l.Trust, l.Tier, caseCount(l.Cases, l.Lines), l.Pending, cmp.Or(l.Rubric, "no rubric"))
	for _, c := range l.List {
		note := ""
		if c.HeldOut {
			note += " held out"
		}
		if c.Pending {
			note += " PENDING: never scored"
		}
		fmt.Fprintf(out, "  %-26s %-9s %s%s\n", plain.Line(c.ID), c.Disposition, plain.Line(c.Title), note)
	}
}
