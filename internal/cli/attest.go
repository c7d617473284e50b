package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/spf13/cobra"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/share/attest"
	"tallystick/internal/share/attest/claim"
	"tallystick/internal/share/outgoing"
)

// draftFlags say what a body is drafted from, who signs it, and where it goes. "tally
// attest" and "tally publish" both have them, all of them and by this one function.
type draftFlags struct {
	claim.Options
	registryAccess
	what   string
	key    string
	method string
	paths  claim.Paths
}

// numberFlag reads a number that may be zero and need not be given.
func numberFlag(into **float64) func(string) error {
	return func(text string) error {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
			return fmt.Errorf("expected a number")
		}
		*into = &n
		return nil
	}
}

func (d *draftFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&d.RunnerDID, "runner-did", "", "the `DID` of the runner: did:key:… or did:web:… (default: the did:key of the key)")
	f.StringVar(&d.key, "key", "", "`FILE` with the runner's key, which signs")
	f.StringVar(&d.method, "key-id", "", "`NAME` of the key among those of a did:web (default: the key itself)")
	f.StringVar(&d.Harness, "harness", "", "the `ID` of the harness, where the file only passes on another's results")
	f.StringVar(&d.Task, "task", "", "only the run of this `TASK`")
	f.IntVar(&d.Run, "run", 0, "only run `N` of those that \"tally import\" lists")
	f.StringVar(&d.RunID, "run-id", "", "the run's `UUID` (default: a new one)")
	f.StringVar(&d.ModelID, "model-id", "", "the model's `NAME`, where the files do not say")
	f.StringVar(&d.StartedAt, "started-at", "", "when the run began, in RFC 3339 or `MS` since 1970, where the files do not say")
	f.StringVar(&d.CompletedAt, "completed-at", "", "when it ended, likewise `MS`")
	f.StringVar(&d.MTEBTaskType, "mteb-task-type", "", "MTEB's `TYPE` of task, which its results do not have")
	f.StringVar(&d.SandboxRunID, "sandbox-run-id", "", "`UUID` of the attested sandbox run, for imported results")
	f.StringVar(&d.ContaminationMethod, "contamination-method", "", "how it was looked whether the cases were known before: `METHOD`, such as ngram-13")
	f.Func("contamination-overlap", "the `SHARE` of the cases that were, from 0 to 1", numberFlag(&d.ContaminationOverlap))
	f.Func("scaffold-delta", "percentage `POINTS`, with scaffold less without", numberFlag(&d.ScaffoldDelta))
	contentFlags(f, &d.Content)
	f.StringVar(&d.paths.Artifact, "artifact", "", "`PATH` of the model in the registry, such as /artifacts/models/…")
	f.StringVar(&d.paths.Harness, "harness-path", "", "`PATH` of the eval harness in the registry")
	f.StringVar(&d.paths.Dataset, "dataset-path", "", "`PATH` of the dataset in the registry")
	f.StringVar(&d.url, "registry", "", "`URL` of the registry that issues the credential or takes the proposal")
	d.registryAccess.flags(cmd)
}

// draft drafts the body that the runner signs, if sign is set or a key is named. What is
// wrong with the body is reported before a key that is missing.
func (d *draftFlags) draft(ctx context.Context, env *Env, ask outgoing.DraftAsk, sign bool) (*claim.Draft, string, claim.Party, error) {
	runner := claim.Party{DID: d.RunnerDID, Method: d.method}
	var noKey error
	if sign || d.key != "" {
		if noKey = runner.LoadKey(d.key); noKey == nil {
			d.RunnerDID = runner.DID
		}
	}
	ask.What, ask.Stdin, ask.Options = d.what, env.Stdin, d.Options
	draft, attempt, err := outgoing.Draft(ctx, func() (*dossier.Place, error) { return openPlace(env) }, ask)
	if err == nil {
		err = noKey
	}
	return draft, attempt, runner, err
}

type attestOptions struct {
	draftFlags
	issuerKey   string
	issuer      claim.Party
	statusList  string
	statusIndex int64
	validUntil  string
	schemaURL   string
	manifest    string
	out         string
	dryRun      bool
	record      bool
	attemptOnly bool // what is an attempt, whatever files there are
}

func newAttest(env *Env) *cobra.Command {
	o := attestOptions{record: true}
	cmd := &cobra.Command{
		Use:     "attest PATH|ATTEMPT|- --runner-did DID --key FILE",
		Short:   "Issue a W3C credential about a run: another harness's, or an attempt of ours",
		Example: "tally attest latest --key .tally/keys/credential -o credential.json",
		Long: `Issue a W3C Verifiable Credential (eddsa-jcs-2022) whose subject is the attestation body
ip.eval.run.attestation.v1. PATH is whatever "tally import" reads, a file or a run folder,
and - is standard input; such a credential is of the type ImportedNotObserved. ATTEMPT is
an attempt of this workspace: its ledger and evidence are verified first, and the
credential carries the receipt, the attempt's number, the digests of its evidence and the
attestation of its sandbox.

A body names the harness, the code, the data and the model by SHA-256. --harness-file,
--eval-code, --dataset and --model-file take a file, a folder or the digest itself, and the
answer says how each was hashed. If a value is in no file and no flag gives it, nothing is
signed: no value is made up. --dry-run shows the body before there is a key.

The key is an OpenSSH ed25519 key or a file with 32 bytes in hexadecimal, readable by you
alone. It signs the body as the runner, and the credential as its issuer unless
--issuer-key names the key of another issuer. In a workspace the credential is also recorded
in the ledger, so that a receipt can show its age later. With --status-list-url it gets a
place in a status list, which "tally attest status" makes from the ledger.

With --registry a registry issues the credential, with a place in its status list and an
entry in its ledger; the body is signed here if there is a --key.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.what = args[0]
			return runAttest(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	o.draftFlags.add(cmd)
	f.StringVar(&o.issuerKey, "issuer-key", "", "`FILE` with the key of the issuer, if that is not the runner")
	f.StringVar(&o.issuer.DID, "issuer-did", "", "the `DID` of that issuer (default: the did:key of --issuer-key)")
	f.StringVar(&o.issuer.Method, "issuer-key-id", "", "`NAME` of the issuer's key among those of a did:web")
	f.StringVar(&o.schemaURL, "schema-url", "", "where the body's schema is published, as `URL`")
	f.StringVar(&o.statusList, "status-list-url", "", "status list `URL` that will say whether the credential is revoked")
	f.Int64Var(&o.statusIndex, "status-index", -1, "the credential's `N` in that list (default: the next that the ledger has not given away)")
	f.StringVar(&o.validUntil, "valid-until", "", "last moment of validity, in RFC 3339: `TIME`")
	f.StringVar(&o.manifest, "manifest", "", "write the registry manifest to `FILE` too; needs --artifact, --harness-path and --dataset-path")
	f.StringVarP(&o.out, "out", "o", "", "write the credential to `FILE` in place of standard output")
	f.BoolVar(&o.dryRun, "dry-run", false, "print the body, and what is missing; no key is needed")
	f.BoolVar(&o.record, "record", true, "in a workspace, record in the ledger that the credential was issued")
	cmd.AddCommand(newAttestDryRun(env), newAttestVerify(env), newAttestRevoke(env), newAttestStatus(env), newAttestSchema(env))
	return cmd
}

// attestAnswer is what there is to say about a credential that went to a file.
type attestAnswer struct {
	File       string            `json:"file"`
	Credential digest.ID         `json:"credential"`
	Issuer     string            `json:"issuer"`
	RunID      string            `json:"run_id"`
	Imported   bool              `json:"imported"`
	Hashed     []claim.Hashed    `json:"hashed"`
	Rerun      string            `json:"rerun,omitempty"`
	Entry      *dossier.Appended `json:"entry,omitempty"`
}

func runAttest(ctx context.Context, env *Env, o attestOptions) error {
	draft, attempt, runner, err := o.draft(ctx, env, outgoing.DraftAsk{AttemptOnly: o.attemptOnly}, !o.dryRun && o.url == "")
	if err != nil {
		return err
	}
	if err := o.loadIssuer(); err != nil {
		return err
	}
	for _, h := range draft.Hashed {
		env.Note("%s  %s  %s", h.Field, h.SHA256, claim.How(h.Method))
	}
	for _, c := range draft.Failed {
		env.Note("the files contradict themselves, and the credential says so: %s: %s", c.Name, c.Detail)
	}
	if o.dryRun {
		for _, m := range draft.Missing {
			env.Note("missing: %s; give %s", m.Field, m.Give)
		}
		return env.Answer(rawJSON(draft.Body), func(w io.Writer) { w.Write(append(plain.JSON(draft.Body), '\n')) })
	}
	if o.url != "" {
		return o.mint(ctx, env, draft, runner)
	}
	s := claim.Signing{Runner: runner, Issuer: o.issuer, Now: env.Now(), SchemaURL: o.schemaURL, Until: o.validUntil}
	status, err := o.statusPlace(env)
	if err != nil {
		return err
	}
	if status != nil {
		s.Status = []attest.StatusEntry{attest.NewStatusEntry(status.List, int(status.Index), attest.Revocation)}
	}
	text, signed, err := claim.Issue(draft, s)
	if err != nil {
		return err
	}
	if err := acceptCredential(env, s, draft.LedgerKey, text); err != nil {
		return err
	}
	if o.manifest != "" {
		doc, err := claim.Manifest(signed.Body, o.paths)
		if err != nil {
			return err
		}
		if err := dossier.WriteOutput(o.manifest, doc); err != nil {
			return err
		}
	}
	a := &attestAnswer{File: o.out, Credential: signed.Digest, Issuer: signed.Issuer, RunID: signed.Body.RunID, Imported: signed.Imported, Hashed: draft.Hashed}
	if o.record {
		if a.Entry, err = recordIssue(ctx, env, signed, attempt, status); err != nil {
			return err
		}
	}
	a.Rerun = showRerun(env, signed.Body)
	if o.out == "" {
		return env.Answer(rawJSON(text), func(w io.Writer) { w.Write(append(plain.JSON(text), '\n')) })
	}
	if err := dossier.WriteOutput(o.out, append(text, '\n')); err != nil {
		return err
	}
	return env.Answer(a, a.print)
}

// recordIssue records the credential in the ledger of the workspace, if there is
// one.
func recordIssue(ctx context.Context, env *Env, v *attest.Verified, attempt string, status *evidence.StatusPlace) (*dossier.Appended, error) {
	p, err := openPlace(env)
	if refusal.Is(err, refusal.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return outgoing.RecordCredential(ctx, p, v, attempt, status)
}

// showRerun tells how to repeat the run.
func showRerun(env *Env, b *attest.Body) string {
	command, open := claim.Rerun(b)
	if command != "" {
		env.Note("run it again with: %s", command)
	}
	for _, o := range open {
		env.Note("%s", o)
	}
	return command
}

func (a *attestAnswer) print(out io.Writer) {
	what := "observed"
	if a.Imported {
		what = "IMPORTED, not observed"
	}
	fmt.Fprintf(out, "%s: credential %s, %s, issued by %s\n", plain.Line(a.File), a.Credential, what, plain.Line(a.Issuer))
	fmt.Fprintf(out, "Check it with: tally attest verify %s\n", plain.Line(a.File))
}

func newAttestDryRun(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:     "dry-run FILE",
		Short:   "Say whether a body is valid, and everything that is wrong with it",
		Example: "tally attest dry-run body.json",
		Long: `Check a body, or {"kind", "body"} as the registry takes it, against the schema and the
rules that a schema cannot state. A wrong resultsHash is answered with the right one.
- is standard input. Nothing is signed and nothing is kept.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return runAttestDryRun(cmd.Context(), env, args[0]) },
	}
}

func runAttestDryRun(_ context.Context, env *Env, name string) error {
	data, err := readDocument(env, name)
	if err != nil {
		return err
	}
	report, err := claim.DryRun(data, attest.Trust{Keys: &attest.Keys{}, Now: env.Now()})
	if report == nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	answered := env.Answer(report, func(out io.Writer) {
		if report.Valid {
			fmt.Fprintln(out, "valid")
		}
		for _, p := range report.Problems {
			fmt.Fprintln(out, plain.Line(p.String()))
		}
	})
	return errors.Join(answered, err)
}

// readDocument reads a file that a person named, or standard input.
func readDocument(env *Env, name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(io.LimitReader(env.Stdin, attest.MaxDocument+1))
	}
	return dossier.ReadInput(name, attest.MaxDocument)
}

func newAttestSchema(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON Schema of an attestation body",
		Example: "tally attest schema",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			return env.Answer(rawJSON(attest.Schema), func(w io.Writer) { w.Write(attest.Schema) })
		},
	}
}
