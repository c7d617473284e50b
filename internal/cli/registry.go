package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"tallystick/internal/record/plain"
	"tallystick/internal/serve/registry"
	"tallystick/internal/serve/registry/web"
)

func newRegistry(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "registry",
		Short:   "Run a catalogue of evaluations and its credential service",
		Example: "tally registry serve --dir registry",
		Long: `A registry lists artifacts and evaluations, has people judge what is proposed, and issues
credentials. Everything it accepts is an entry of a ledger of its own; the database is an
index that can be made again from it. docs/registry.md has the API by example.`,
	}
	cmd.AddCommand(newRegistryInit(env), newRegistryServe(env))
	cmd.AddCommand(operatorCommands(env)...)
	cmd.AddCommand(newRegistryMonitor(env), newRegistryRegister(env), newRegistryJudge(env))
	return cmd
}

type registryInitOptions struct {
	dir      string
	settings registry.Settings
	deadline int
}

func newRegistryInit(env *Env) *cobra.Command {
	o := registryInitOptions{settings: registry.Default()}
	cmd := &cobra.Command{
		Use:     "init --dir DIR --origin NAME --operator NAME",
		Short:   "Make the folder of a registry: settings, keys, ledger",
		Example: "tally registry init --dir registry --origin registry.example.com/log --operator alice@example.com",
		Long: `Make a new registry in an empty folder: registry.yaml, the keys of the operator and of the
issuer, and a ledger with its first entries. --origin names the ledger for ever.
--public-url gives the issuer its name, a did:web; without it the issuer is a did:key.
With --judges 0 proposals are published at once, and every row says so.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runRegistryInit(cmd.Context(), env, o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.dir, "dir", "", "folder `DIR` of the registry; it must be empty or not there yet")
	f.StringVar(&o.settings.Origin, "origin", "", "`NAME` of the ledger, such as registry.example.com/log")
	f.StringVar(&o.settings.Operator, "operator", "", "`NAME` of the person who operates it")
	f.StringVar(&o.settings.PublicURL, "public-url", "", "`URL` at which others reach it, such as https://registry.example.com")
	f.IntVar(&o.settings.Judges, "judges", o.settings.Judges, "`N` reviewers are drawn for each proposal")
	f.IntVar(&o.settings.Quorum, "judge-quorum", o.settings.Quorum, "`N` of them must accept")
	f.IntVar(&o.deadline, "deadline-hours", int(o.settings.Deadline/time.Hour), "`N` hours that reviewers have")
	f.StringVar(&o.settings.Calibration, "calibration", "", "`FILE` with the calibration set, relative to the folder")
	markRequired(cmd, "dir", "origin", "operator")
	return cmd
}

func markRequired(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // the flag is declared by the caller
		}
	}
}

type registryInitAnswer struct {
	Dir       string `json:"dir"`
	Origin    string `json:"origin"`
	TrustRoot string `json:"trust_root"`
	LogKey    string `json:"log_key"`
	DID       string `json:"did"`
}

func runRegistryInit(ctx context.Context, env *Env, o registryInitOptions) error {
	o.settings.Deadline = time.Duration(o.deadline) * time.Hour
	if o.settings.Judges == 0 {
		o.settings.Quorum = 0
	}
	made, err := registry.Init(ctx, o.dir, o.settings)
	if err != nil {
		return err
	}
	a := registryInitAnswer{made.Dir, made.Origin, made.TrustRoot.String(), made.LogKey, made.DID}
	return env.Answer(a, func(w io.Writer) {
		fmt.Fprintf(w, "%s: a registry, origin %s\n", plain.Line(a.Dir), plain.Line(a.Origin))
		fmt.Fprintf(w, "issuer      %s\n", plain.Line(a.DID))
		fmt.Fprintf(w, "ledger key  %s\n", plain.Line(a.LogKey))
		fmt.Fprintf(w, "trust root  %s\n", a.TrustRoot)
		fmt.Fprintf(w, "Serve it with: tally registry serve --dir %s\n", plain.Line(a.Dir))
	})
}

func newRegistryServe(env *Env) *cobra.Command {
	var o web.Options
	cmd := &cobra.Command{
		Use:     "serve --dir DIR",
		Short:   "Serve a registry over HTTP until it is stopped",
		Example: "tally registry serve --dir registry --listen 127.0.0.1:7390",
		Long: `Serve the API of a registry: its catalogue and credentials, the VC-API, and its
ledger as C2SP tiles. It prints its address, and then logs a line of JSON for each request
to standard error, without headers, queries or bodies.

One process writes. With --read-only the server answers reads from the database alone, and
there may be many of those. TLS is for a proxy in front; --proxy names the networks of such
proxies, whose X-Forwarded-For is then believed for rate limits and nothing else.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runRegistryServe(cmd.Context(), env, o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.Dir, "dir", "", "folder `DIR` of the registry")
	f.StringVar(&o.Addr, "listen", "127.0.0.1:7390", "`ADDRESS` to listen on; port 0 takes a free one")
	f.StringVar(&o.Metrics, "metrics", "", "`ADDRESS` for Prometheus metrics: a port of this machine, or HOST:PORT (default: none)")
	f.StringVar(&o.PublicURL, "public-url", "", "`URL` that begins every address given out (default: public_url of the settings, else the address)")
	f.StringVar(&o.DB, "db", "", "`URL` of the database: postgres://… or an SQLite file (default: registry.db in the folder)")
	f.BoolVar(&o.ReadOnly, "read-only", false, "answer reads from --db; another process writes")
	f.StringArrayVar(&o.Proxies, "proxy", nil, "`NETWORK` of a proxy whose X-Forwarded-For is believed; repeat it for more")
	cmd.MarkFlagsOneRequired("dir", "read-only")
	return cmd
}

func runRegistryServe(ctx context.Context, env *Env, o web.Options) error {
	o.Now = env.Now
	o.Log = slog.New(slog.NewJSONHandler(env.Stderr, nil))
	return web.Serve(ctx, o, func(r web.Ready) error {
		return env.Answer(r, func(w io.Writer) {
			fmt.Fprintf(w, "%s %s\n", r.URL, plain.Line(r.DID))
			if r.Metrics != "" {
				fmt.Fprintf(w, "metrics %s\n", r.Metrics)
			}
		})
	})
}
