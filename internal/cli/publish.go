package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/workspace"
	"tallystick/internal/serve/registry/client"
	"tallystick/internal/share/attest"
	"tallystick/internal/share/attest/claim"
	"tallystick/internal/share/outgoing"
)

// registryAccess is how a command reaches a registry.
type registryAccess struct {
	url       string
	apiKey    string // file
	allowHTTP bool
}

// keyDir is where the keys for the registry lie if no flag says otherwise.
func (a registryAccess) keyDir(env *Env, c *client.Client) (string, error) {
	dir, err := workspace.StateDir(env.Getenv)
	if err != nil {
		return "", err
	}
	return client.KeyDir(dir, c.Host()), nil
}

// anonymous connects without an API key.
func (a registryAccess) anonymous() (*client.Client, error) {
	return client.New(client.Options{URL: a.url, AllowHTTP: a.allowHTTP})
}

// connect connects with the API key of the file that was named, or that
// "tally registry register" wrote.
func (a registryAccess) connect(env *Env) (*client.Client, error) {
	c, err := a.anonymous()
	if err != nil {
		return nil, err
	}
	file := a.apiKey
	if file == "" {
		dir, err := a.keyDir(env, c)
		if err != nil {
			return nil, err
		}
		file = client.APIKeyFile(dir)
	}
	key, err := client.LoadAPIKey(file)
	if err != nil {
		return nil, err
	}
	return client.New(client.Options{URL: a.url, APIKey: key, AllowHTTP: a.allowHTTP})
}

func (a *registryAccess) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&a.apiKey, "api-key-file", "", "`FILE` with the API key (default: the one that \"tally registry register\" wrote)")
	f.BoolVar(&a.allowHTTP, "allow-http", false, "send the API key over plain http to another machine")
}

type publishOptions struct {
	draftFlags
	dryRun bool
}

func newPublish(env *Env) *cobra.Command {
	var o publishOptions
	cmd := &cobra.Command{
		Use:     "publish FILE|ATTEMPT --registry URL --artifact PATH --harness-path PATH --dataset-path PATH",
		Short:   "Propose a result to a registry: catalogue entry and credential in one post",
		Example: "tally publish credential.json --registry https://registry.example.com --artifact /artifacts/models/m --harness-path /artifacts/eval-harnesses/h --dataset-path /artifacts/datasets/d",
		Long: `Propose a result to a registry. FILE is a credential that "tally attest" issued, an
attestation body, or anything else that "tally attest" takes: results of another harness, or an
attempt of this workspace. A credential is verified, and sent as it is. Of anything else the
body is drafted as "tally attest" does, with the same flags. With --key it becomes a
credential that the runner signs here; without, the registry issues one about the body.

--artifact, --harness-path and --dataset-path are paths of the registry's catalogue, where the model,
the eval harness and the dataset already are. --dry-run asks the registry whether it would
take the body; nothing is kept there and no API key is needed.

The API key is sent to that registry only, in a header, over TLS or to this machine.
Redirects are not followed.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.what = args[0]
			return runPublish(cmd.Context(), env, o)
		},
	}
	o.draftFlags.add(cmd)
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "ask the registry whether it would take it; nothing is kept")
	markRequired(cmd, "registry", "artifact", "harness-path", "dataset-path")
	return cmd
}

func runPublish(ctx context.Context, env *Env, o publishOptions) error {
	// What is wrong is reported before an API key or a server that is missing.
	if _, err := o.anonymous(); err != nil {
		return err
	}
	if err := client.CheckPaths(o.paths); err != nil {
		return err
	}
	p, err := o.publication(ctx, env)
	if err != nil {
		return err
	}
	c, err := o.publisher(env)
	if err != nil {
		return err
	}
	if o.dryRun {
		report, err := c.DryRun(ctx, p)
		if err != nil {
			return err
		}
		return answerDryRun(env, report)
	}
	made, err := c.Publish(ctx, p)
	if err != nil {
		return err
	}
	return env.Answer(made, func(w io.Writer) { printProposed(w, made, c) })
}

func (o publishOptions) publisher(env *Env) (*client.Client, error) {
	if o.dryRun {
		return o.anonymous()
	}
	return o.connect(env)
}

// publication reads or drafts what is to be published.
func (o publishOptions) publication(ctx context.Context, env *Env) (*client.Publication, error) {
	if data, err := dossier.ReadInput(o.what, attest.MaxDocument); err == nil {
		if p, ok := client.NewPublication(data, o.paths); ok {
			return p, acceptProposed(env, o.what, p)
		}
	}
	draft, _, runner, err := o.draft(ctx, env, outgoing.DraftAsk{}, false)
	if err != nil {
		return nil, err
	}
	if runner.Key == nil {
		return &client.Publication{Body: draft.Body, Paths: o.paths}, draft.Refuse()
	}
	s := claim.Signing{Runner: runner, Now: env.Now()}
	credential, _, err := claim.Issue(draft, s)
	if err != nil {
		return nil, err
	}
	return &client.Publication{Credential: credential, Paths: o.paths}, acceptCredential(env, s, draft.LedgerKey, credential)
}

func answerDryRun(env *Env, report *claim.Report) error {
	err := env.Answer(report, func(w io.Writer) {
		if report.Valid {
			fmt.Fprintln(w, "valid: the registry would take it")
		}
		for _, p := range report.Problems {
			fmt.Fprintln(w, plain.Line(p.String()))
		}
		if report.Mismatch != nil {
			fmt.Fprintf(w, "resultsHash must be %s\n", plain.Line(report.Mismatch.Computed))
		}
	})
	if err == nil && !report.Valid {
		err = refusal.Newf(refusal.Malformed, "the registry would not take the body")
	}
	return err
}

func printProposed(w io.Writer, p *client.Proposed, c *client.Client) {
	fmt.Fprintf(w, "proposal %s: %s\n", plain.Line(p.ProposalID), plain.Line(p.Status))
	fmt.Fprintf(w, "address  %s\n", plain.Line(p.IPPath))
	for _, line := range []struct{ name, value string }{{"page    ", p.URL}, {"receipt ", p.Receipt}, {"credential", p.Credential}, {"note    ", p.Note}} {
		if line.value != "" {
			fmt.Fprintf(w, "%s %s\n", line.name, plain.Line(line.value))
		}
	}
	if p.Existed {
		fmt.Fprintln(w, "note     the registry had this content already and made no new proposal")
	}
	if p.Status == "pending" {
		fmt.Fprintf(w, "Next: its reviewers vote; see what becomes of it at %s/proposal/%s\n", plain.Line(c.Address()), plain.Line(p.ProposalID))
	}
}
