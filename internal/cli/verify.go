package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/share/browser"
	"tallystick/internal/share/verify"
)

type verifyOptions struct {
	paths     []string
	keys      []string
	witnesses []string
	quorum    int
	trustRoot string
	signers   string
	people    string
	entry     string
	hmacKey   string
	signed    []string
	recompute bool
	page      string
	credentialFlags
}

func newVerify(env *Env) *cobra.Command {
	var o verifyOptions
	cmd := &cobra.Command{
		Use:         "verify [PATH...]",
		Annotations: readOnlyCommands,
		Short:       "Verify anything Tallystick wrote: it recognises it",
		Example:     "tally verify report.html",
		Long: `Verify ledger folders, receipts, anchors, checkpoints, bundles, submission
packages, reports ("tally export --format html"), sites ("tally view --bundle") and
credentials. Who is trusted is
given by --key and --trust-root; inside a workspace its own trust root and the operators
of its verified ledger are trusted too. A ledger must also contain what this machine
remembers of it. tally-verify does the same without a workspace and without memory.

Of a workspace what people sign is verified too: the folder of a class below bench/,
bench/digests.yaml, signers/allowed_signers and audit/operators.yaml.

--recompute counts every number of the workspace again: totals of attempts from their
records, records from their trajectories and grading documents, the kept answers in
.tally/runs and the recommendations. A PATH may then also be an answer that was
kept of run, scorecard, compare, gate or promote recommend with --json. It is made again
with the ledger as it was then, and compared whole: a difference is exit 3. An answer
by other rules, or for a bench that is not at hand, is "not recounted", which is exit 1.

--page writes verify.html, which checks receipts, proofs and reports in a browser with a
key that a person types. Every reader gets the same file within a release.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.paths = args
			if o.page != "" {
				return writeVerifyPage(env, o)
			}
			if len(args) == 0 && !o.recompute {
				return refusal.Newf(refusal.Usage, "nothing to verify is named").WithHint("name files or folders, or give --recompute")
			}
			return runVerify(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.keys, "key", nil, "trusted ledger key `NAME+ID+KEY`; may be given again")
	f.StringArrayVar(&o.witnesses, "witness", nil, "trusted key `NAME+ID+KEY` of a cosigner; may be given again")
	f.IntVar(&o.quorum, "quorum", 0, "`N` of the cosigners must have cosigned (default: all that are named)")
	f.StringVar(&o.trustRoot, "trust-root", "", "trusted `DIGEST` of version 1 of the signers file")
	f.StringVar(&o.signers, "signers", "", "version 1 of the signers `FILE`, whose digest becomes the trust root")
	f.StringVar(&o.people, "people", "", "the signers `FILE` of when an anchor was published, for signatures of people on it")
	f.StringVar(&o.hmacKey, "hmac-key-file", "", "`FILE` with the key that a bundle's HMAC was made with")
	f.StringArrayVar(&o.signed, "signer", nil, "Ed25519 public `KEY` of which one must have signed a bundle: a .pub file, ssh-ed25519 text or 64 hex digits; may be given again")
	f.BoolVar(&o.recompute, "recompute", false, "count every number of the workspace again, from its ledger and evidence")
	f.StringVar(&o.page, "page", "", "write verify.html to `FILE`, and verify nothing")
	f.StringVar(&o.entry, "entry", "", "`FILE` with the entry of a receipt that does not carry it")
	o.add(f)
	return cmd
}

// writeVerifyPage writes the page that verifies in a browser.
func writeVerifyPage(env *Env, o verifyOptions) error {
	if len(o.paths) > 0 || o.recompute {
		return refusal.Newf(refusal.Usage, "--page writes a page and verifies nothing: leave the paths and --recompute out")
	}
	page := browser.VerifyPage()
	if err := dossier.WriteOutput(o.page, page); err != nil {
		return err
	}
	answer := struct {
		File   string    `json:"file"`
		Bytes  int       `json:"bytes"`
		SHA256 digest.ID `json:"sha256"`
	}{o.page, len(page), digest.IDOf(page)}
	return env.Answer(answer, func(out io.Writer) {
		fmt.Fprintf(out, "%s: %d bytes, %s; docs/checking.md has the same digest\n", plain.Line(answer.File), answer.Bytes, answer.SHA256)
	})
}

func runVerify(_ context.Context, env *Env, o verifyOptions) error {
	trust, err := o.trust()
	if err != nil {
		return err
	}
	if err := o.credentialFlags.read(&trust); err != nil {
		return err
	}
	place, err := workspaceTrust(env, &trust)
	if err != nil {
		return err
	}
	if o.recompute {
		if place == nil {
			if place, err = openPlace(env); err != nil {
				return err
			}
		}
		return runRecompute(env, place, o.paths, trust)
	}
	if err := trustOperators(env, place, &trust); err != nil {
		return err
	}
	askRevoked(place, &trust)
	if err := trust.Validate(); err != nil {
		return err
	}
	items, worst := verify.Paths(o.paths, trust)
	err = env.Answer(map[string]any{"items": items}, func(out io.Writer) { itemsText(out, items) })
	if err != nil {
		return err
	}
	return worst
}

func itemsText(out io.Writer, items []verify.Item) {
	for _, i := range items {
		word := "verified"
		switch {
		case i.Status != "":
			word = "NOT RECOUNTED"
		case !i.Verified:
			word = "REFUSED "
		}
		fmt.Fprintf(out, "%s  %-10s %s\n          %s\n", word, i.Type, plain.Line(i.Path), plain.Line(i.Detail))
	}
}

func (o verifyOptions) trust() (verify.Trust, error) {
	t := verify.Trust{Quorum: o.quorum}
	var err error
	for _, k := range o.keys {
		if err := t.AddLog(k); err != nil {
			return t, refusal.Newf(refusal.Usage, "--key: %w", err)
		}
	}
	for _, k := range o.witnesses {
		if err := t.AddWitness(k); err != nil {
			return t, refusal.Newf(refusal.Usage, "--witness: %w", err)
		}
	}
	if o.trustRoot != "" {
		if t.Root, err = digest.ParseID(o.trustRoot); err != nil {
			return t, refusal.Newf(refusal.Usage, "--trust-root: %w", err)
		}
	}
	if o.people != "" {
		if err := t.TrustPeople(o.people); err != nil {
			return t, err
		}
	}
	if o.signers != "" {
		if t.Root, err = verify.RootOf(o.signers); err != nil {
			return t, err
		}
	}
	if o.hmacKey != "" {
		if t.HMACKey, err = seal.LoadSecret(o.hmacKey); err != nil {
			return t, err
		}
	}
	for _, s := range o.signed {
		key, err := dossier.BundleSigner(s)
		if err != nil {
			return t, fmt.Errorf("--signer: %w", err)
		}
		t.BundleKeys = append(t.BundleKeys, key)
	}
	if o.entry != "" {
		t.Entry, err = dossier.ReadInput(o.entry, dossier.MaxSignedFile)
	}
	return t, err
}

// workspaceTrust adds what the workspace trusts, if there is one: nil if not.
func workspaceTrust(env *Env, t *verify.Trust) (*dossier.Place, error) {
	dir, err := workspaceDir(env)
	if err != nil {
		return nil, err
	}
	// Asked only for a ledger, so a receipt verifies also where there is no memory.
	t.Remembered = dossier.Remembered(env.Getenv)
	w, err := openIn(env, dir)
	if refusal.Is(err, refusal.NotFound) {
		return nil, nil // no workspace here: only what was given counts
	}
	if err != nil {
		return nil, err
	}
	t.Place = verifyPlace(env, w)
	if t.Root.IsZero() {
		t.Root = w.Settings.TrustRoot
	}
	return w, nil
}

// trustOperators trusts the keys of the workspace's operators, if none were
// given. They count only after its ledger has verified.
func trustOperators(env *Env, w *dossier.Place, t *verify.Trust) error {
	if w == nil || len(t.Logs) > 0 {
		return nil
	}
	own, err := w.OwnLedger()
	if err != nil {
		env.Note("the ledger of this workspace does not verify, so its keys are not trusted: %v", err)
		return nil
	}
	t.Logs, t.OwnLogs = own.EveryKey(), true
	if t.Signers == nil {
		t.Signers = own.SignersOf
	}
	return nil
}
