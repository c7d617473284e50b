// Package operate is what the operator does to a registry from the command line:
// admit and remove judges, take texts down, rotate keys, revoke.
//
// One process writes to a registry. While a server runs it is that process, and the
// command asks it over a unix socket in the registry's folder ([Serve], [Do]);
// otherwise the command opens the folder itself. A user who may open the folder may use
// the socket, and no other user: the folder has mode 0700, and on Linux the server asks
// the kernel who is at the other end.
package operate

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/serve/registry"
)

// SocketName is the name of the socket in the folder of a registry.
const SocketName = "operator.sock"

const (
	maxRequest = 64 << 10
	// maxSocketPath is what sockaddr_un takes on Linux, and a little less elsewhere.
	maxSocketPath = 100
	exchangeTime  = 60 * time.Second
)

// The actions of an operator.
const (
	Admit     = "admit"
	Remove    = "remove"
	TakeDown  = "takedown"
	RotateKey = "rotate-key"
	RevokeKey = "revoke-key"
	Revoke    = "revoke"
)

// A Request is one action.
type Request struct {
	Action string   `json:"action"`
	Person string   `json:"person,omitempty"`
	Agents []string `json:"agents,omitempty"`
	Agent  string   `json:"agent,omitempty"`
	// Reason is for people; for a text that is taken down it is the reason code.
	Reason     string `json:"reason,omitempty"`
	Blob       string `json:"blob,omitempty"`
	Purpose    string `json:"purpose,omitempty"`
	Credential string `json:"credential,omitempty"`
}

// An Answer says what was done.
type Answer struct {
	Done string `json:"done"`
	// Method is the name of the key that signs from now on.
	Method string `json:"method,omitempty"`
	// Running says that a running server did it.
	Running bool `json:"running"`
}

// reply is what goes over the socket.
type reply struct {
	Answer *Answer  `json:"answer,omitempty"`
	Error  *problem `json:"error,omitempty"`
}

type problem struct {
	Name    refusal.Name `json:"name"`
	Message string       `json:"message"`
	Hint    string       `json:"hint"`
}

// Do has an action done: by the server that runs, or else here.
func Do(ctx context.Context, o registry.Options, ask Request) (*Answer, error) {
	conn, err := dial(ctx, o.Dir)
	if err == nil {
		defer conn.Close()
		return exchange(ctx, conn, ask)
	}
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED) {
		return nil, refusal.Newf(refusal.Failed, "asking the registry that runs: %w", err)
	}
	// No socket, or one that a killed server left: the ledger's lock tells
	// whether another process writes after all.
	r, err := registry.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	answer, err := act(ctx, r, ask)
	return answer, errors.Join(err, r.Close())
}

func dial(ctx context.Context, dir string) (net.Conn, error) {
	path := filepath.Join(dir, SocketName)
	if _, err := os.Lstat(path); err != nil {
		return nil, err
	}
	var d net.Dialer
	return d.DialContext(ctx, "unix", path)
}

// exchange sends a request and reads the answer.
func exchange(ctx context.Context, conn net.Conn, ask Request) (*Answer, error) {
	lost := func(err error) error {
		return refusal.Newf(refusal.Failed, "asking the registry that runs: %w", err).WithHint("see its log; whether it was done shows in its ledger")
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(exchangeTime)
	}
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, lost(err)
	}
	text, err := canon.Marshal(ask)
	if err != nil {
		return nil, err
	}
	if _, err := conn.Write(append(text, '\n')); err != nil {
		return nil, lost(err)
	}
	line, err := bufio.NewReader(io.LimitReader(conn, maxRequest)).ReadBytes('\n')
	if err != nil {
		return nil, lost(err)
	}
	var got reply
	if err := canon.Unmarshal(line[:len(line)-1], &got); err != nil {
		return nil, lost(err)
	}
	if got.Error != nil {
		return nil, refusal.Newf(got.Error.Name, "%s", got.Error.Message).WithHint("%s", got.Error.Hint)
	}
	if got.Answer == nil {
		return nil, lost(errors.New("an empty answer"))
	}
	got.Answer.Running = true
	return got.Answer, nil
}

// act does it with the registry open.
func act(ctx context.Context, r *registry.Registry, ask Request) (*Answer, error) {
	switch ask.Action {
	case Admit:
		return done(r.AdmitJudge(ctx, ask.Person, ask.Agents), "admitted %s as a judge", ask.Person)
	case Remove:
		return done(r.RemoveJudge(ctx, ask.Person, ask.Reason), "%s is no longer a judge", ask.Person)
	case TakeDown:
		blob, err := digest.ParseContent(ask.Blob)
		if err != nil {
			return nil, refusal.Newf(refusal.Usage, "%w", err)
		}
		return done(r.TakeDown(ctx, blob, ask.Reason), "took down %s; the entry that says so stays", blob)
	case RotateKey:
		method, err := r.RotateKey(ctx, ask.Purpose)
		answer, err := done(err, "%s signs from now on; the key before it is retired", method)
		if answer != nil {
			answer.Method = method
		}
		return answer, err
	case RevokeKey:
		return done(r.RevokeAPIKey(ctx, ask.Agent), "revoked the API keys of %s", ask.Agent)
	case Revoke:
		id, err := digest.ParseID(ask.Credential)
		if err != nil {
			return nil, refusal.Newf(refusal.Usage, "%w", err)
		}
		return done(r.Revoke(ctx, nil, id, ask.Reason, registry.Once{}), "revoked the credential %s", id)
	}
	return nil, refusal.Newf(refusal.Usage, "no action %q", ask.Action)
}

func done(err error, format string, args ...any) (*Answer, error) {
	if err != nil {
		return nil, err
	}
	return &Answer{Done: fmt.Sprintf(format, args...)}, nil
}

// Serve answers the operator's commands until ctx ends. A folder whose path is too
// long for a socket has none, which warn is told; commands then say that another
// process writes.
func Serve(ctx context.Context, dir string, r *registry.Registry, warn func(string)) error {
	path := filepath.Join(dir, SocketName)
	if len(path) > maxSocketPath {
		warn(fmt.Sprintf("%s is too long for a socket: stop the server to run the operator's commands", path))
		<-ctx.Done()
		return ctx.Err()
	}
	// The holder of the ledger's lock may take away what a killed server left.
	if err := (store.OS{}).Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return refusal.Newf(refusal.WriteFailed, "taking away %s: %w", path, refusal.WithoutPath(err))
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return refusal.Newf(refusal.Failed, "listening on %s: %w", path, err)
	}
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	defer listener.Close()
	for {
		conn, err := listener.Accept()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return refusal.Newf(refusal.Failed, "listening on %s: %w", path, err)
		}
		// One at a time: there is one operator.
		answer(ctx, conn, r)
	}
}

// answer reads one request and does it.
func answer(ctx context.Context, conn net.Conn, r *registry.Registry) {
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(exchangeTime))
	got, err := request(ctx, conn, r)
	out := reply{Answer: got}
	if err != nil {
		e := refusal.Of(err)
		out = reply{Error: &problem{Name: e.Name, Message: err.Error(), Hint: e.Hint}}
	}
	text, err := canon.Marshal(out)
	if err == nil {
		conn.Write(append(text, '\n'))
	}
}

func request(ctx context.Context, conn net.Conn, r *registry.Registry) (*Answer, error) {
	// Read first: a client that is refused while still writing would see a broken pipe
	// and not why.
	line, err := bufio.NewReader(io.LimitReader(conn, maxRequest)).ReadBytes('\n')
	if err != nil {
		return nil, refusal.Newf(refusal.Malformed, "reading the request: %w", err)
	}
	if err := checkPeer(conn); err != nil {
		return nil, err
	}
	var ask Request
	if err := canon.Unmarshal(line[:len(line)-1], &ask); err != nil {
		return nil, refusal.Newf(refusal.Malformed, "the request: %w", err)
	}
	return act(ctx, r, ask)
}
