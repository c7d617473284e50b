package cli

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"tallystick/internal/record/cosign"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
)

type cosignerOptions struct {
	addr  string
	key   string
	name  string
	logs  []string
	state string
}

func newCosigner(env *Env) *cobra.Command {
	var o cosignerOptions
	cmd := &cobra.Command{
		Use:     "cosigner --key FILE --name NAME --log VKEY --state DIR",
		Short:   "Cosign the checkpoints of other people's ledgers",
		Example: `tally ledger cosigner --key cosigner.key --name cosigner.example.com/w1 --log example.com/evals+cc5c539b+AaFyiJTzvrIM3ncBw7w69HMrmhcNtj4ndaPWsi9amgUQ --state cosigned`,
		Long: `Run a cosigner (a witness of C2SP tlog-witness): it remembers the last checkpoint it cosigned of
each ledger it watches and cosigns another only with a proof that it extends that one.
Run it where the owner of the ledger has no shell.

It prints its address and its verifier key, which go into tally.yaml of the ledger, and
runs until it is stopped. The key file is made if there is none. Losing the state folder
makes the cosigner forget; keep it with the key.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runCosigner(cmd.Context(), env, o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.addr, "listen", "127.0.0.1:0", "`ADDRESS` to listen on; port 0 takes a free one")
	flags.StringVar(&o.key, "key", "", "`FILE` of the cosigner's private key, used for nothing else")
	flags.StringVar(&o.name, "name", "", "`NAME` of the cosigner, such as cosigner.example.com/w1")
	flags.StringArrayVar(&o.logs, "log", nil, "verifier key `VKEY` of a ledger to watch; repeat it for more")
	flags.StringVar(&o.state, "state", "", "folder `DIR` for what was cosigned")
	for _, name := range []string{"key", "name", "log", "state"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // the flag is declared above
		}
	}
	return cmd
}

// stateWait is how long a second cosigner waits for the first to let go of the
// state folder, as when one is being restarted.
const stateWait = time.Second

func runCosigner(ctx context.Context, env *Env, o cosignerOptions) error {
	var logs []ledger.LogKey
	for _, vkey := range o.logs {
		k, err := cosign.ParseLog(vkey)
		if err != nil {
			if r := refusal.Of(err); r.Name == refusal.Malformed {
				return refusal.Newf(refusal.Usage, "--log: %w", err).WithHint("%s", r.Hint)
			}
			return fmt.Errorf("--log: %w", err)
		}
		logs = append(logs, k)
	}
	key, err := cosign.LoadOrMakeKey(o.key, o.name)
	if err != nil {
		return err
	}
	// Requests are answered side by side; what is said of them stays whole.
	var mu sync.Mutex
	wait, cancel := context.WithTimeout(ctx, stateWait)
	defer cancel()
	witness, err := cosign.OpenServer(wait, cosign.ServerConfig{
		Dir: o.state, Key: key, Name: o.name, Logs: logs, Now: env.Now,
		Conflicts: func(c cosign.Conflict) {
			mu.Lock()
			defer mu.Unlock()
			printConflict(env, c)
		},
		Errors: func(err error) {
			mu.Lock()
			defer mu.Unlock()
			env.printError(err)
		},
	})
	if err != nil {
		return err
	}
	err = witness.Serve(ctx, o.addr, func(url string) error {
		a := cosignerAnswer{URL: url, VKey: witness.VKey()}
		return env.Answer(a, func(w io.Writer) { fmt.Fprintf(w, "%s %s\n", a.URL, plain.Line(a.VKey)) })
	})
	if cerr := witness.Close(); err == nil {
		err = cerr
	}
	return err
}

type cosignerAnswer struct {
	URL  string `json:"url"`
	VKey string `json:"vkey"`
}

// printConflict tells the operator of a cosigner that a log contradicts itself.
func printConflict(e *Env, c cosign.Conflict) {
	switch {
	case e.JSON:
		e.printError(c.Err())
	case c.Proven:
		io.WriteString(e.Stderr, plain.Block(c.String()))
	default:
		fmt.Fprintf(e.Stderr, "tally: warning: %s\n", plain.Line(c.String()))
	}
}
