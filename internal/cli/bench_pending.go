package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"path/filepath"

	"github.com/spf13/cobra"

	"tallystick/internal/archive"
	"tallystick/internal/bench"
	"tallystick/internal/digest"
	"tallystick/internal/evidence"
	"tallystick/internal/plain"
	"tallystick/internal/refusal"
	"tallystick/internal/store"
	"tallystick/internal/telemetry"
)

type benchPendingOptions struct {
	class, from, id string
	added, reviewed string
}

func newBenchPending(env *Env) *cobra.Command {
	var o benchPendingOptions
	cmd := &cobra.Command{
		Use:   "pending CLASS --from FILE",
		Short: "Turn a production incident into a draft case that is never scored",
		Long: `Turn a production incident into a draft in bench/CLASS/cases-pending. FILE is a JSON
object with id, outcome and input, and maybe title, disposition (positive, negative
or ambiguous; the last if it is not given) and expected. The whole object is kept
beside the draft, and the ledger records that it was made.

FILE may be a trajectory too: its turns become the input, and what the model and the
tools said is answered again. Its draft is called as its case, or as --id says. For one
of another system, or of the evidence, there is "tally replay --pending".

A draft is never scored. It becomes a case when two people have signed it and
"tally bench accept" is run.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.class = args[0]
			return runBenchPending(cmd.Context(), env, o)
		},
	}
	cmd.Flags().StringVar(&o.from, "from", "", "the incident, a JSON `FILE` or a trajectory")
	cmd.Flags().StringVar(&o.id, "id", "", "`NAME` of a draft made from a trajectory (default: that of its case)")
	cmd.MarkFlagRequired("from")
	addPeopleFlags(cmd, &o.added, &o.reviewed)
	return cmd
}

// maxIncident bounds the file that an incident comes in.
const maxIncident = 16 << 20

func runBenchPending(ctx context.Context, env *Env, o benchPendingOptions) error {
	data, err := store.ReadFile(store.OS{}, o.from, maxIncident)
	if err != nil {
		return err
	}
	var answer *pendingAnswer
	switch {
	case telemetry.IsOurs(data):
		var loaded *loadedTrajectory
		if loaded, err = env.loadTrajectory(o.from, ""); err == nil {
			answer, err = env.pendingOf(ctx, loaded, o)
		}
	case o.id != "":
		err = refusal.Newf(refusal.Usage, "--id names the draft of a trajectory, and %s is none", o.from).WithHint("an incident has its id in it")
	default:
		answer, err = env.addPending(ctx, o, "", data, nil)
	}
	if err != nil {
		return err
	}
	return env.Answer(answer, answer.print)
}

type pendingAnswer struct {
	Class       string            `json:"class"`
	Case        string            `json:"case"`
	Digest      digest.Content    `json:"digest"`
	Disposition bench.Disposition `json:"disposition"`
	Index       int64             `json:"index"`
	Scored      bool              `json:"scored"` // never
	Warning     string            `json:"warning,omitempty"`

	scratch bool // the class is
}

// addPending writes the draft, with further files beside it, and its entry.
func (e *Env) addPending(ctx context.Context, o benchPendingOptions, source string, data []byte, more map[string][]byte) (*pendingAnswer, error) {
	p, err := e.openCorpus()
	if err != nil {
		return nil, err
	}
	defer p.Root.Close()
	d, err := bench.Load(p.Root, o.class)
	if err != nil {
		return nil, err
	}
	added, reviewed, err := bench.People(o.added, o.reviewed, p.Options)
	if err != nil {
		return nil, err
	}
	incident, err := bench.ParseIncident(o.from, data)
	if err != nil {
		return nil, err
	}
	if other := d.LooksTaken(incident.ID); other != "" {
		return nil, refusal.Newf(refusal.AlreadyExists, "class %s: draft %s looks like %s, which exists already", o.class, incident.ID, other).
			WithHint("an incident is converted once; give another id if it is another incident")
	}
	files, err := incident.Draft(added, reviewed, e.Now())
	if err != nil {
		return nil, err
	}
	maps.Copy(files, more)
	// Opened first, so that no draft is left that the ledger does not know of
	// because it could not be written to.
	l, err := p.OpenLedger(ctx)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	dir := p.ClassDir(o.class, bench.PendingDir, incident.ID)
	if err := writeFiles(dir, files); err != nil {
		return nil, err
	}
	if d, err = bench.Load(p.Root, o.class); err != nil {
		return nil, err
	}
	c, err := d.Pending(incident.ID)
	if err != nil {
		return nil, err
	}
	pos, err := l.AppendRecord(evidence.CasePendingKind, &evidence.CasePending{Class: o.class, CaseID: incident.ID, Source: cmp.Or(source, incident.Source()), Digest: c.Digest})
	if err != nil {
		return nil, err
	}
	return &pendingAnswer{o.class, incident.ID, c.Digest, c.Disposition, pos.Index, false, c.IncidentWarning(), d.Registration.Trust == bench.Scratch}, nil
}

func (a *pendingAnswer) print(out io.Writer) {
	class, id := plain.Line(a.Class), plain.Line(a.Case)
	if a.Warning != "" {
		fmt.Fprintf(out, "WARNING   draft %s: %s\n", id, plain.Line(a.Warning))
	}
	fmt.Fprintf(out, "draft %s in %s, entry %d; it is NOT scored\n", id, plain.Line(filepath.Join(bench.Dir, a.Class, bench.PendingDir)), a.Index)
	if a.scratch {
		fmt.Fprintf(out, "Next: fill in case.yaml. Nobody signs a scratch class: to have it scored, move the folder to %s\n", plain.Line(filepath.Join(bench.Dir, a.Class, bench.CasesDir)))
		return
	}
	fmt.Fprintf(out, "Next: fill in case.yaml, \"tally bench digest %s\", two people run \"tally bench sign %s %s --key K\", then \"tally bench accept %s %s\"\n",
		class, class, id, class, id)
}

func newBenchAccept(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:   "accept CLASS CASE",
		Short: "Record a signed case in the ledger; a draft becomes a case",
		Long: `Verify the two signatures of a case and record them in the ledger. From then on they
are judged at that point, so that a key which expires later does not orphan the case.
A draft of cases-pending moves to cases; the manifest then needs "tally bench digest"
and two signatures.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runBenchAccept(cmd.Context(), env, args[0], args[1])
		},
	}
}

func runBenchAccept(ctx context.Context, env *Env, class, id string) error {
	p, err := env.openCorpus()
	if err != nil {
		return err
	}
	defer p.Root.Close()
	d, err := bench.Load(p.Root, class)
	if err != nil {
		return err
	}
	c, err := d.Case(id)
	if err != nil {
		return err
	}
	if d.Registration.Trust == bench.Scratch {
		return refusal.Newf(refusal.Usage, "class %s is a scratch class: nobody signs it, so there is nothing to accept", class).
			WithHint("move the draft's folder from %s to %s by hand", bench.PendingDir, bench.CasesDir)
	}
	if err := cmp.Or(d.CheckGraded(c), c.VerifyForAcceptance(p.Options)); err != nil {
		return fmt.Errorf("class %s: case %s: %w", class, id, err)
	}
	message, err := c.Message()
	if err != nil {
		return err
	}
	signed := digest.IDOf(message)
	if p.Options.AcceptedAt != nil && !c.Pending {
		if at, ok := p.Options.AcceptedAt(class, id, signed); ok {
			return refusal.Newf(refusal.AlreadyExists, "class %s: case %s: %s was accepted at %s", class, id, signed, at.UTC().Format("2006-01-02T15:04:05Z"))
		}
	}
	l, err := p.OpenLedger(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	if c.Pending {
		if err := moveDraft(p, class, id); err != nil {
			return err
		}
	}
	pos, err := l.AppendRecord(evidence.CaseAcceptedKind, &evidence.CaseAccepted{Class: class, CaseID: id, Digest: c.Digest, Signed: signed,
		Signatures: []string{c.Provenance.AddedBy.Signature, c.Provenance.ReviewedBy.Signature}})
	if err != nil {
		return err
	}
	return env.Answer(map[string]any{"class": class, "case": id, "signed": signed, "index": pos.Index, "head": pos.Head, "was_pending": c.Pending}, func(out io.Writer) {
		fmt.Fprintf(out, "case %s of %s is accepted as of entry %d\n", plain.Line(id), plain.Line(class), pos.Index)
		if c.Pending {
			fmt.Fprintf(out, "Next: tally bench digest %s, then two people run \"tally bench sign %s --key K\"\n", plain.Line(class), plain.Line(class))
		}
	})
}

// moveDraft makes a draft a case. A crash after it leaves a case that is in no
// manifest, which verifying refuses and accepting again completes.
func moveDraft(p *archive.Corpus, class, id string) error {
	to := p.ClassDir(class, bench.CasesDir, id)
	if err := store.MakeDir(store.OS{}, filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if fileExists(to) {
		return refusal.Newf(refusal.AlreadyExists, "%s exists already", to)
	}
	from := p.ClassDir(class, bench.PendingDir, id)
	if err := (store.OS{}).Rename(from, to); err != nil {
		return refusal.Newf(refusal.WriteFailed, "moving %s to %s: %w", from, to, err)
	}
	for _, dir := range []string{from, to} {
		if err := (store.OS{}).SyncDir(filepath.Dir(dir)); err != nil {
			return refusal.Newf(refusal.WriteFailed, "moving %s to %s: %w", from, to, err)
		}
	}
	return nil
}
