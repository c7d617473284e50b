package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"tallystick/internal/archive"
	"tallystick/internal/bench"
	"tallystick/internal/canon"
	"tallystick/internal/digest"
	"tallystick/internal/evidence"
	"tallystick/internal/ledger"
	"tallystick/internal/plain"
	"tallystick/internal/promote"
	"tallystick/internal/refusal"
	"tallystick/internal/scorecard"
	"tallystick/internal/seal"
	"tallystick/internal/sequencer"
	"tallystick/internal/store"
)

func newPromote(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "promote",
		Short: "What the evidence says about a class's tier; people decide",
		Long: `A task class is at bronze, silver, gold or platinum. "recommend" reads the evidence and
advises; only people change a tier, by editing the registration and signing it.`,
	}
	cmd.AddCommand(newPromoteRecommend(env), newPromoteApply(env))
	return cmd
}

type recommendOptions struct {
	class     string
	require   string
	trustRoot string
}

func newPromoteRecommend(env *Env) *cobra.Command {
	var o recommendOptions
	cmd := &cobra.Command{
		Use:   "recommend CLASS",
		Short: "Advise on the tier of a class, and record the advice",
		Long: `Verify the bench, the ledger and its anchors, and say which tier the evidence of the last
30 days carries, one tier at a time, with every condition that is not met. The advice is
recorded in the ledger and in .tally/recommendations, with a receipt for each entry that
decided. It changes nothing: people do. The rules are in docs/formats/promotion.md.

--require TIER makes the exit code 4 when less than that tier is recommended.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.class = args[0]
			return runPromoteRecommend(cmd.Context(), env, o)
		},
	}
	cmd.Flags().StringVar(&o.require, "require", "", "exit 4 unless at least this `TIER` is recommended")
	addTrustRootFlag(cmd, &o.trustRoot)
	return cmd
}

// recommendAnswer is the advice, and where it was put.
type recommendAnswer struct {
	*promote.Recommendation
	Index int64  `json:"index"` // of its own entry
	File  string `json:"file"`
}

func runPromoteRecommend(ctx context.Context, env *Env, o recommendOptions) error {
	if o.require != "" && !slices.Contains(bench.Tiers(), bench.Tier(o.require)) {
		return refusal.Newf(refusal.Usage, "--require %s: there is no such tier", o.require).WithHint("the tiers are bronze, silver, gold and platinum")
	}
	if err := refuseShipped(o.class); err != nil {
		return err
	}
	p, err := env.openCorpusFor(o.trustRoot)
	if err != nil {
		return err
	}
	defer p.Root.Close()
	v, err := bench.Verify(p.Root, o.class, p.Options)
	if err != nil {
		return err
	}
	past, err := env.readPast(func(a *scorecard.Attempt) bool { return a.Class == o.class })
	if err != nil {
		return err
	}
	anchors, err := env.publishedAnchors(ctx, past)
	if err != nil {
		return err
	}
	rec, err := promote.Recommend(promote.Input{Bench: v, History: past.history, Anchors: anchors, Now: env.Now(), Evidence: past.evidence})
	if err != nil {
		return err
	}
	answer, err := env.record(ctx, past.w, rec)
	if err != nil {
		return err
	}
	if err := env.Answer(answer, answer.text); err != nil {
		return err
	}
	tiers := bench.Tiers()
	if slices.Index(tiers, bench.Tier(rec.RecommendedTier)) < slices.Index(tiers, bench.Tier(o.require)) {
		return refusal.Newf(refusal.TierNotRecommended, "class %s: %s is recommended, %s is required", rec.Class, rec.RecommendedTier, o.require).
			WithHint("the reasons are in the recommendation, %s", answer.File)
	}
	return nil
}

func (a recommendAnswer) text(out io.Writer) {
	fmt.Fprintf(out, "class        %s\ncurrent      %s\nrecommended  %s\n", plain.Line(a.Class), a.CurrentTier, a.RecommendedTier)
	if a.NextTier != "" {
		fmt.Fprintf(out, "for %-8s lower_bound_95 %.3f of %.3f, %d of %d passed cases (%d in the bench)\n", a.NextTier, a.LowerBound95, a.Threshold, a.PassedCount, a.MinimumCases, a.Cases)
	}
	for _, why := range a.Rationale {
		fmt.Fprintf(out, "  - %s\n", plain.Line(why))
	}
	fmt.Fprintf(out, "entry %d, %s\nThis is advice. A human must approve: see \"tally promote apply --help\".\n", a.Index, plain.Line(a.File))
}

// whole returns nil if a piece of evidence is there, unchanged, and if it is the
// index of a case's evidence, everything that it names.
func (p *pastReading) whole(d digest.Content) error {
	if p.sawWhole(d) {
		return nil
	}
	data, err := p.read(d)
	if err != nil {
		return err
	}
	var files evidence.CaseFiles
	if canon.UnmarshalCanonical(data, &files) == nil && files.Validate() == nil {
		for _, piece := range files.All() {
			if err := p.look(piece); err != nil {
				return err
			}
		}
	}
	p.noteWhole(d)
	return nil
}

// publishedAnchors verifies the anchors once more, for who cosigned them when.
// That the ledger agrees with them was verified with it. An anchor that the
// ledger says was published and that is gone is no reason to go on without:
// whoever removes anchors has something to hide.
func (e *Env) publishedAnchors(ctx context.Context, p *pastReading) ([]promote.Anchor, error) {
	files, err := sequencer.LoadAnchors(store.OS{}, p.w.AnchorsDir())
	if err != nil {
		return nil, p.w.Alarm(err)
	}
	if err := missingAnchor(p, files); err != nil {
		return nil, e.recordBlock(ctx, p.w, err)
	}
	return e.cosignedAnchors(p, files)
}

// cosignedAnchors says of each anchor and kept checkpoint when witnesses
// cosigned it.
func (e *Env) cosignedAnchors(p *pastReading, files []sequencer.AnchorFile) ([]promote.Anchor, error) {
	v, err := p.w.Walk(nil)
	if err != nil {
		return nil, err
	}
	policy := ledger.Policy{Logs: v.EveryKey(), Quorum: p.w.Settings.Quorum}
	if policy.Witnesses, err = witnessVerifiers(p.w.Settings); err != nil {
		return nil, err
	}
	kept, err := loadCheckpoints(p.w)
	if err != nil {
		return nil, p.w.Alarm(err)
	}
	var anchors []promote.Anchor
	for _, f := range files {
		a, err := ledger.VerifyAnchor(f.Data, policy)
		if refusal.Is(err, refusal.WitnessQuorumMissing) {
			continue // the witnesses have not seen it yet
		}
		if err != nil {
			return nil, p.w.Alarm(fmt.Errorf("%s: %w", f.Path, err))
		}
		anchors = append(anchors, promote.Anchor{Size: a.Size, Cosigned: cosignedAt(a.Checkpoint.Note, policy.Witnesses)})
	}
	for _, c := range kept {
		checkpoint, err := ledger.VerifyCheckpoint(c.note, policy)
		if refusal.Is(err, refusal.WitnessQuorumMissing) {
			continue // as of an anchor: some witnesses are not enough
		}
		if err != nil {
			return nil, p.w.Alarm(fmt.Errorf("%s: %w", c.path, err))
		}
		if at := cosignedAt(c.note, policy.Witnesses); !at.IsZero() {
			anchors = append(anchors, promote.Anchor{Size: checkpoint.Size, Cosigned: at})
		}
	}
	return anchors, nil
}

// missingAnchor compares what the ledger says was published with what is there.
// A day's file is replaced only by a larger one.
func missingAnchor(p *pastReading, files []sequencer.AnchorFile) error {
	there := make(map[string]int64)
	for _, f := range files {
		there[f.Date] = max(there[f.Date], f.Size)
	}
	for _, a := range p.history.Anchors {
		if size, ok := there[a.Date]; !ok || size < a.Size {
			return refusal.Newf(refusal.MissingAnchor, "entry %d says that %d entries were anchored on %s; the anchor of that day is missing or covers only %d", a.Index, a.Size, a.Date, size).
				WithHint("restore %s from git; without it nobody can tell whether the ledger was cut", filepath.Join(p.w.AnchorsDir(), a.Date+".json"))
		}
	}
	return nil
}

// cosignedAt is the earliest time at which one of the witnesses cosigned a
// checkpoint; zero if none did.
func cosignedAt(signed []byte, witnesses []note.Verifier) time.Time {
	var first time.Time
	n, err := note.Open(signed, note.VerifierList(witnesses...))
	if err != nil {
		return first
	}
	for _, sig := range n.Sigs {
		if at, err := seal.CosignatureTime(sig); err == nil && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// recordBlock records that promotion stopped at evidence that does not verify,
// in the ledger, which is whole, and as an alarm. It returns err.
func (e *Env) recordBlock(ctx context.Context, w *archive.Place, err error) error {
	event := &evidence.IntegrityEvent{Name: string(refusal.Of(err).Name), Severity: evidence.Block, Boundary: "TB-5", Detail: err.Error()}
	if _, rerr := w.Append(ctx, evidence.IntegrityEventKind, event); rerr != nil {
		e.Note("the event could not be recorded in the ledger: %v", rerr)
	}
	return w.Alarm(err)
}

// maxReceipts bounds how many receipts a recommendation carries. For a larger
// bench "tally ledger prove" makes those that somebody asks for.
const maxReceipts = 2000

// A recommendationFile is what people read before they decide.
type recommendationFile struct {
	Schema string `json:"schema"`
	*promote.Recommendation
	Index    int64            `json:"index"`
	Head     digest.ID        `json:"head"`
	Time     evidence.Time    `json:"time"`
	Receipts map[int64]string `json:"receipts"`
}

const recommendationSchema = "tallystick-recommendation/v1"

// record makes the receipts, appends the advice to the ledger and writes the
// file. A crash before the file is written leaves an entry without one; asking
// again makes both.
func (e *Env) record(ctx context.Context, w *archive.Place, rec *promote.Recommendation) (*recommendAnswer, error) {
	receipts, err := e.receipts(w, rec.Evidence)
	if err != nil {
		return nil, err
	}
	l, err := w.OpenLedger(ctx)
	if err != nil {
		return nil, err
	}
	pos, err := l.AppendRecord(evidence.RecommendationKind, &rec.Recommendation)
	if cerr := l.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, err
	}
	var data bytes.Buffer
	enc := json.NewEncoder(&data)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(recommendationFile{recommendationSchema, rec, pos.Index, pos.Head, evidence.At(e.Now()), receipts}); err != nil {
		return nil, fmt.Errorf("encoding the recommendation: %w", err)
	}
	dir := w.Private("recommendations")
	if err := store.MakeDir(store.OS{}, dir, 0o700); err != nil {
		return nil, err
	}
	name := filepath.Join(dir, fmt.Sprintf("%s-%d.json", rec.Class, pos.Index))
	if err := store.CreateFile(store.OS{}, name, plain.JSON(data.Bytes()), 0o600); err != nil {
		return nil, err
	}
	return &recommendAnswer{rec, pos.Index, name}, nil
}

// receipts proves that the entries are in the ledger, to whoever has its key.
func (e *Env) receipts(w *archive.Place, indexes []int64) (map[int64]string, error) {
	if len(indexes) == 0 || len(indexes) > maxReceipts {
		return map[int64]string{}, nil
	}
	proofs, _, err := w.Prove(indexes)
	if err != nil {
		return nil, err
	}
	out := make(map[int64]string, len(indexes))
	for i, x := range proofs {
		data, err := x.Receipt().Marshal()
		if err != nil {
			return nil, err
		}
		out[i] = string(data)
	}
	return out, nil
}

func newPromoteApply(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:   "apply CLASS TIER",
		Short: "Refuse: no program changes a tier; the attempt is recorded",
		Long: `Refuse, and record that somebody asked. There is no program that changes a tier. People
do: edit current_tier in bench/CLASS/registration.yaml in a reviewed change, then
"tally bench digest CLASS", and two people, one with the security role, run
"tally bench sign CLASS --key K".`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runPromoteApply(cmd.Context(), env, args[0], args[1])
		},
	}
}

// maxAsked bounds the names that somebody asked with.
const maxAsked = 200

func runPromoteApply(ctx context.Context, env *Env, class, tier string) error {
	blocked := &evidence.ApplyBlocked{Class: plain.Line(class), Tier: plain.Line(tier)}
	for _, s := range []*string{&blocked.Class, &blocked.Tier} {
		// Cut between two letters: a record with half a one would be refused.
		if *s = strings.ToValidUTF8((*s)[:min(len(*s), maxAsked)], ""); *s == "" {
			*s = "(nothing)"
		}
	}
	w, err := env.open()
	if err != nil {
		return err
	}
	var mayApprove []string
	if p, err := env.openCorpus(); err == nil {
		mayApprove = p.Options.Signers.Candidates(seal.NamespaceBench, env.Now(), "")
		p.Root.Close()
	}
	refused := promote.Apply(class, bench.Tier(tier), mayApprove)
	if _, err := w.Append(ctx, evidence.ApplyBlockedKind, blocked); err != nil {
		// The refusal stands whether or not it can be recorded where it should.
		w.Raise(evidence.IntegrityEvent{Name: string(evidence.ApplyBlockedKind), Severity: evidence.Block, Boundary: "TB-6",
			Detail: fmt.Sprintf("somebody asked to move class %s to %s; not in the ledger: %v", blocked.Class, blocked.Tier, err)})
		r := refusal.Of(refused)
		return refusal.Newf(r.Name, "%w; it could not be recorded in the ledger: %v", r.Err, err).WithHint("%s", r.Hint)
	}
	return refused
}
