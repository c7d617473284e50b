package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"tallystick/internal/archive"
	"tallystick/internal/lab"
	"tallystick/internal/ledger"
	"tallystick/internal/plain"
	"tallystick/internal/refusal"
	"tallystick/internal/seal"
	"tallystick/internal/sequencer"
	"tallystick/internal/store"
	"tallystick/internal/workspace"
)

func newAnchor(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "anchor",
		Short: "Publish the head of the ledger where it cannot be taken back, and check it",
	}
	cmd.AddCommand(newAnchorPublish(env), newAnchorVerify(env))
	return cmd
}

func newAnchorPublish(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:   "publish",
		Short: "Write today's anchor and tiles, and have the witnesses cosign",
		Long: `Write today's anchor to audit/anchors, meant for git, write the tiles, and ask the
witnesses of tally.yaml to cosign. If a witness cannot be reached the local anchor
stands, the command fails, and the next one catches the witness up.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runAnchorPublish(cmd.Context(), env) },
	}
}

type anchorAnswer struct {
	Path      string   `json:"path"`
	Date      string   `json:"date"`
	Size      int64    `json:"size"`
	Head      string   `json:"head"`
	Root      string   `json:"root"`
	Witnesses []string `json:"witnesses"`
}

func runAnchorPublish(ctx context.Context, env *Env) error {
	w, err := env.open()
	if err != nil {
		return err
	}
	l, err := w.OpenLedger(ctx)
	if err != nil {
		return err
	}
	pub, err := lab.Publish(ctx, w, l)
	if cerr := l.Close(); err == nil {
		err = cerr
	}
	if pub == nil {
		return err
	}
	a := anchorAnswer{pub.Path, pub.Anchor.Date, pub.Anchor.Size, pub.Anchor.Head.String(), pub.Anchor.Root, append([]string{}, pub.Witnesses...)}
	aerr := env.Answer(a, func(out io.Writer) {
		fmt.Fprintf(out, "anchored %d entries in %s\nhead  %s\n", a.Size, plain.Line(a.Path), a.Head)
		for _, name := range a.Witnesses {
			fmt.Fprintf(out, "cosigned by %s\n", plain.Line(name))
		}
		fmt.Fprintln(out, "Next: commit audit/anchors to git")
	})
	return cmp.Or(aerr, err)
}

type anchorVerifyOptions struct{ against string }

func newAnchorVerify(env *Env) *cobra.Command {
	var o anchorVerifyOptions
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check the anchors against the ledger, and their cosignatures",
		Long: `Check every anchor in audit/anchors: its signatures, that the ledger contains what
it covers, and that enough witnesses cosigned it (quorum in tally.yaml).

--against DIR checks a second copy of the anchors too, as fetched from git or kept by
somebody else: that is what notices a workspace that was rolled back as a whole.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runAnchorVerify(cmd.Context(), env, o) },
	}
	cmd.Flags().StringVar(&o.against, "against", "", "folder `DIR` with another copy of the anchors")
	return cmd
}

// anchorReport is one line of the answer.
type anchorReport struct {
	Path       string   `json:"path"`
	Date       string   `json:"date"`
	Size       int64    `json:"size"`
	Head       string   `json:"head"`
	Cosigners  []string `json:"cosigners"`
	Verified   bool     `json:"verified"`
	Unanchored int64    `json:"entries_since"`
}

func runAnchorVerify(_ context.Context, env *Env, o anchorVerifyOptions) error {
	w, err := env.open()
	if err != nil {
		return err
	}
	place, err := w.Sequencer()
	if err != nil {
		return err
	}
	anchors, expect, err := w.Expectations()
	if err != nil {
		return err
	}
	if o.against != "" {
		if _, err := os.Stat(o.against); err != nil {
			return refusal.Newf(refusal.Unreadable, "reading anchors: %w", err)
		}
		more, err := sequencer.LoadAnchors(store.OS{}, o.against)
		if err != nil {
			return err
		}
		anchors, expect = append(anchors, more...), append(expect, sequencer.AnchorExpectations(more)...)
	}
	if len(anchors) == 0 {
		return refusal.Newf(refusal.MissingAnchor, "there is no anchor in %s", place.Anchors).WithHint(`"tally anchor publish" makes one`)
	}
	v, err := place.Verify(ledger.Options{Origin: w.Settings.Origin, TrustRoot: w.Settings.TrustRoot, Expect: expect})
	if err != nil {
		return w.Alarm(err)
	}
	reports, err := checkCosignatures(w, v, anchors)
	if err != nil {
		return err
	}
	return env.Answer(map[string]any{"anchors": reports, "entries": v.Size}, func(out io.Writer) {
		since := v.Size
		for _, r := range reports {
			fmt.Fprintf(out, "verified  %s  %d entries  %s  cosigned by %d\n", plain.Line(r.Date), r.Size, r.Head, len(r.Cosigners))
			since = min(since, r.Unanchored)
		}
		fmt.Fprintf(out, "%d entries since the last anchor\n", since)
	})
}

// checkCosignatures verifies each anchor once more, under the policy of the
// settings: the witnesses and how many of them are needed.
func checkCosignatures(w *archive.Place, v *ledger.Verified, anchors []sequencer.AnchorFile) ([]anchorReport, error) {
	policy := ledger.Policy{Logs: v.EveryKey(), Quorum: w.Settings.Quorum}
	var err error
	if policy.Witnesses, err = witnessVerifiers(w.Settings); err != nil {
		return nil, err
	}
	var reports []anchorReport
	for _, f := range anchors {
		a, err := ledger.VerifyAnchor(f.Data, policy)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Path, err)
		}
		reports = append(reports, anchorReport{Path: f.Path, Date: f.Date, Size: f.Size, Head: f.Head.String(),
			Cosigners: append([]string{}, a.Checkpoint.Cosignatures...), Verified: true, Unanchored: v.Size - f.Size})
	}
	return reports, nil
}

func witnessVerifiers(s workspace.Settings) ([]note.Verifier, error) {
	var out []note.Verifier
	for _, witness := range s.Witnesses {
		v, err := seal.CosignatureVerifier(witness.Key)
		if err != nil {
			return nil, fmt.Errorf("%s: witness %s: %w", workspace.SettingsFile, witness.URL, err)
		}
		out = append(out, v)
	}
	return out, nil
}
