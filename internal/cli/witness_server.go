package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"tallystick/internal/cosign"
	"tallystick/internal/ledger"
	"tallystick/internal/plain"
	"tallystick/internal/refusal"
	"tallystick/internal/seal"
	"tallystick/internal/store"
)

type witnessServerOptions struct {
	addr  string
	key   string
	name  string
	logs  []string
	state string
}

func newWitnessServer(env *Env) *cobra.Command {
	var o witnessServerOptions
	cmd := &cobra.Command{
		Use:   "witness-server --key FILE --name NAME --log VKEY --state DIR",
		Short: "Cosign the checkpoints of other people's ledgers",
		Long: `Run a witness (C2SP tlog-witness): it remembers the last checkpoint it cosigned of
each ledger it watches and cosigns another only with a proof that it extends that one.
Run it where the owner of the ledger has no shell.

It prints its address and its verifier key, which go into tally.yaml of the ledger, and
runs until it is stopped. The key file is made if there is none. Losing the state folder
makes the witness forget; keep it with the key.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runWitnessServer(cmd.Context(), env, o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.addr, "addr", "127.0.0.1:0", "`ADDRESS` to listen on; port 0 takes a free one")
	flags.StringVar(&o.key, "key", "", "`FILE` of the witness's private key, used for nothing else")
	flags.StringVar(&o.name, "name", "", "`NAME` of the witness, such as witness.example.com/w1")
	flags.StringArrayVar(&o.logs, "log", nil, "verifier key `VKEY` of a ledger to watch; repeat it for more")
	flags.StringVar(&o.state, "state", "", "folder `DIR` for what was cosigned")
	for _, name := range []string{"key", "name", "log", "state"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // the flag is declared above
		}
	}
	return cmd
}

// stateWait is how long a second witness waits for the first to let go of the
// state folder, as when one is being restarted.
const stateWait = time.Second

// shutdownWait is how long requests under way may take to end.
const shutdownWait = 10 * time.Second

func runWitnessServer(ctx context.Context, env *Env, o witnessServerOptions) error {
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
	key, err := witnessKey(o)
	if err != nil {
		return err
	}
	// Requests are answered side by side; what is said of them stays whole.
	var mu sync.Mutex
	wait, cancel := context.WithTimeout(ctx, stateWait)
	defer cancel()
	witness, err := cosign.OpenServer(wait, cosign.ServerConfig{
		FS: store.OS{}, Dir: o.state, Key: key, Name: o.name, Logs: logs, Now: env.Now,
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
	err = serveWitness(ctx, env, witness, o.addr)
	if cerr := witness.Close(); err == nil {
		err = cerr
	}
	return err
}

// witnessKey reads the key, or makes it when there is none.
func witnessKey(o witnessServerOptions) (*seal.Key, error) {
	if _, err := os.Lstat(o.key); !errors.Is(err, fs.ErrNotExist) {
		return seal.LoadKey(o.key)
	}
	key, err := seal.NewKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	data, err := key.MarshalPEM(o.name)
	if err != nil {
		return nil, err
	}
	if err := store.MakeDir(store.OS{}, filepath.Dir(o.key), 0o700); err != nil {
		return nil, err
	}
	return key, store.CreateFile(store.OS{}, o.key, data, 0o600)
}

type witnessServerAnswer struct {
	URL  string `json:"url"`
	VKey string `json:"vkey"`
}

// serveWitness answers requests until ctx ends, and lets those under way end.
func serveWitness(ctx context.Context, env *Env, witness *cosign.Server, addr string) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return refusal.Newf(refusal.Failed, "listening on %s: %w", addr, err).
			WithHint("--addr takes HOST:PORT of this machine; port 0 takes a free one")
	}
	server := &http.Server{
		Handler: witness,
		// A request is one small body; whoever takes longer is holding a
		// connection, not sending a checkpoint.
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      20 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
	}
	// Connections wait in the listener's queue until Serve begins, so whoever
	// reads this line can connect.
	a := witnessServerAnswer{URL: "http://" + listener.Addr().String(), VKey: witness.VKey()}
	if err := env.Answer(a, func(w io.Writer) { fmt.Fprintf(w, "%s %s\n", a.URL, plain.Line(a.VKey)) }); err != nil {
		listener.Close()
		return err
	}
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownWait)
		defer cancel()
		stopped <- server.Shutdown(end)
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return refusal.Newf(refusal.Failed, "serving on %s: %w", addr, err)
	}
	if err := <-stopped; err != nil {
		server.Close()
		return refusal.Newf(refusal.Interrupted, "stopping: requests did not end within %s: %w", shutdownWait, err).
			WithHint("what was cosigned is on disk; start the witness again")
	}
	return nil
}

// printConflict tells the operator of a witness that a log contradicts itself.
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
