// Package bus carries what the two sides of a fleet say over NATS: an embedded server
// or an existing cluster, a work queue on JetStream, and who may publish and read what.
//
// A worker proves who it is with its own key: the Ed25519 key that signs its results is
// its name at the server too, so there is no further secret to hand out. It may publish
// to subjects that end with that name, and read its own inbox. The queue is the
// coordinator's alone: JetStream answers to whatever reply subject a request names, so
// who may take from a queue could have it deleted.
package bus

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"tallystick/internal/app/fleet"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
)

// consumer is the one consumer of a work queue.
const consumer = "workers"

// AckWait is how long a ticket that was taken off the queue, and not claimed, is kept
// from others.
const AckWait = 10 * time.Second

// UserOf is the name of a key at a NATS server.
func UserOf(key seal.PublicKey) (string, error) {
	pub, ok := key.Ed25519()
	if !ok {
		return "", refusal.Newf(refusal.Usage, "the key %s is not ssh-ed25519, which NATS needs", key.Fingerprint())
	}
	name, err := nkeys.Encode(nkeys.PrefixByteUser, pub)
	return string(name), err
}

// Subjects that a worker of that name may publish to and read: docs/scale.md has them
// for a cluster of one's own.
func Subjects(user string) (publish, subscribe []string) {
	return []string{fleet.Subject("*", user)}, []string{fleet.Inbox(user) + ".>"}
}

// ConnectAs connects a worker with its key, or with what access has. The servers must
// know the key.
func ConnectAs(urls string, key *seal.Key, access fleet.Access, more ...nats.Option) (*nats.Conn, string, error) {
	user, err := UserOf(key.Public())
	if err != nil {
		return nil, "", err
	}
	proof, err := prove(access, key)
	if err != nil {
		return nil, "", err
	}
	options := append([]nats.Option{nats.CustomInboxPrefix(fleet.Inbox(user)), nats.Name("tally fleet worker " + user)}, usual...)
	nc, err := nats.Connect(urls, slices.Concat(options, proof, more)...)
	switch {
	case err == nil:
		return nc, user, nil
	case errors.Is(err, nats.ErrNoServers), errors.Is(err, nats.ErrTimeout), isNetwork(err):
		return nil, user, ErrNoServer
	}
	return nil, "", refused(urls, user, err)
}

// isNetwork tells a connection that broke, as to a server that is just being started or
// stopped, from one that was refused.
func isNetwork(err error) bool {
	var broken *net.OpError
	refusedByTLS := errors.Is(err, nats.ErrTLS) || strings.Contains(err.Error(), "tls: ")
	return !refusedByTLS && (errors.As(err, &broken) || errors.Is(err, io.EOF))
}

// ConnectCoordinator connects a coordinator to servers of one's own: with what access
// has, or with the operator's key. Key is nil for a caller that has none.
func ConnectCoordinator(urls string, key *seal.Key, access fleet.Access) (*nats.Conn, error) {
	if strings.Contains(urls, "@") { // a name and a password
		key = nil
	}
	proof, err := prove(access, key)
	if err != nil {
		return nil, err
	}
	options := append([]nats.Option{nats.Name("tally coordinator")}, usual...)
	nc, err := nats.Connect(urls, slices.Concat(options, proof)...)
	switch {
	case err == nil:
		return nc, nil
	case errors.Is(err, nats.ErrNkeysNotSupported):
		return nil, openServer(urls, "it knows no keys")
	case key == nil:
		return nil, refusal.Newf(refusal.Failed, "connecting to %s: %w", Shown(urls), err).
			WithHint("a server that asks who it is wants the operator's key (in the workspace, or --key FILE) or --creds FILE")
	}
	user, uerr := UserOf(key.Public())
	if uerr != nil {
		return nil, uerr
	}
	return nil, refused(urls, user, err)
}

// AsksForKeys refuses servers that let in a client whose key they do not know, or one
// without a key. Workers prove who they are with their keys, so such a server keeps
// none of them apart, and one that knows no keys refuses every worker.
func AsksForKeys(urls string, access fleet.Access) error {
	access.Creds = "" // those of this program are good, and say nothing about strangers
	asks := false
	var away error
	for one := range strings.SplitSeq(urls, ",") {
		one = withoutUser(strings.TrimSpace(one))
		stranger, err := seal.NewKey(rand.Reader)
		if err != nil {
			return err
		}
		for _, key := range []*seal.Key{stranger, nil} {
			proof, err := prove(access, key)
			if err != nil {
				return err
			}
			nc, err := nats.Connect(one, append(proof, nats.Name("tally, looking whether keys are asked for"), nats.Timeout(5*time.Second), nats.NoReconnect())...)
			switch {
			case err == nil && key != nil:
				nc.Close()
				return openServer(one, "it let a key in that was made just now")
			case err == nil:
				nc.Close()
				return openServer(one, "it let a client in without a key")
			case errors.Is(err, nats.ErrNkeysNotSupported):
				return openServer(one, "it knows no keys")
			case isRefused(err):
				asks = true
			default:
				away = err
			}
		}
	}
	if asks {
		return nil
	}
	return refusal.Newf(refusal.Failed, "connecting to %s: %w", Shown(urls), away).WithHint("see that the NATS servers run, with JetStream and with the keys of the coordinator and the workers: docs/scale.md")
}

// openServer refuses a server that does not ask for keys.
func openServer(urls, why string) error {
	return refusal.Newf(refusal.ServerOpen, "the NATS server %s does not ask for keys: %s", Shown(urls), why).
		WithHint("list the keys of the coordinator and the workers in its configuration, as docs/scale.md has it, or use --fleet embedded")
}

// withoutUser takes name and password out of an address.
func withoutUser(address string) string {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		scheme, rest = "nats", address
	}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		rest = rest[i+1:]
	}
	return scheme + "://" + rest
}

// Shown is a list of addresses that may be shown.
func Shown(urls string) string {
	var shown []string
	for one := range strings.SplitSeq(urls, ",") {
		shown = append(shown, withoutUser(strings.TrimSpace(one)))
	}
	return strings.Join(shown, ",")
}

// prove makes the options that show a server who we are, and whom we take for one.
func prove(a fleet.Access, key *seal.Key) (options []nats.Option, err error) {
	if a.CA != "" {
		options = append(options, nats.RootCAs(a.CA))
	}
	if a.Cert != "" || a.CertKey != "" {
		options = append(options, nats.ClientCert(a.Cert, a.CertKey))
	}
	switch {
	case a.Creds != "":
		creds, err := credentials(a.Creds)
		return append(options, creds), err
	case key != nil:
		user, err := UserOf(key.Public())
		if err != nil {
			return nil, err
		}
		return append(options, nats.Nkey(user, func(nonce []byte) ([]byte, error) { return signNonce(key.Ed25519(), nonce) })), nil
	}
	return options, nil
}

// credentials reads a file that has a JWT and a seed, or a seed alone.
func credentials(file string) (nats.Option, error) {
	data, err := store.ReadFile(store.OS{}, file, 1<<20)
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "the NATS credentials: %w", err)
	}
	if bytes.Contains(data, []byte("NATS USER JWT")) {
		return nats.UserCredentials(file), nil
	}
	seed, err := nats.NkeyOptionFromSeed(file)
	if err != nil {
		return nil, refusal.Newf(refusal.Malformed, "%s is neither NATS credentials (a JWT and a seed) nor the seed of an nkey: %w", file, err)
	}
	return seed, nil
}

// ErrNoServer says that no server listens, yet.
var ErrNoServer = errors.New("no NATS server listens there")

// signNonce signs what a server sent to see whether we hold the key. The key signs other
// things too, so only what cannot be one of those is signed: letters and digits of
// base64. What SSH signatures cover begins with "SSHSIG" and a byte of 0.
func signNonce(key ed25519.PrivateKey, nonce []byte) ([]byte, error) {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_+/="
	if len(nonce) < 8 || len(nonce) > 64 || strings.Trim(string(nonce), letters) != "" {
		return nil, errors.New("the server's nonce is not 8 to 64 characters of base64")
	}
	return ed25519.Sign(key, nonce), nil
}

// usual are the options of every connection: a server that is gone is looked for until
// the program ends. One that nothing is heard of for 9 seconds is gone: not every
// connection that leads nowhere is closed.
var usual = []nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(200 * time.Millisecond), nats.ReconnectJitter(100*time.Millisecond, 200*time.Millisecond),
	nats.ReconnectBufSize(1 << 20), nats.Timeout(5 * time.Second), nats.RetryOnFailedConnect(false), nats.PingInterval(fleet.Silence / 5), nats.MaxPingsOutstanding(2)}

// refused says why a server did not let us in.
func refused(urls, user string, err error) error {
	if isRefused(err) {
		return refusal.Newf(refusal.Failed, "%s does not know this key (%s at NATS): %w", Shown(urls), user, err).
			WithHint("the embedded server lets workers in that are in the signers file when it starts; servers of one's own must list the name")
	}
	return refusal.Newf(refusal.Failed, "connecting to %s: %w", Shown(urls), err)
}

// isRefused reports whether a server said that it does not know the client.
func isRefused(err error) bool {
	return errors.Is(err, nats.ErrAuthorization) || strings.Contains(err.Error(), "uthorization")
}

// A Queue is the work of one attempt.
type Queue struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	stream jetstream.Stream
	name   string

	Replicas int // on how many servers it lies
}

// StreamOf names the stream of a fleet.
func StreamOf(id string) string { return "TALLY_" + id }

// OpenQueue makes the queue of a fleet. It lies on three servers if they are a cluster
// that has as many, so that one of them may be lost.
func OpenQueue(ctx context.Context, nc *nats.Conn, id string) (*Queue, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, unreachable("opening JetStream", err)
	}
	q := &Queue{nc: nc, js: js, name: StreamOf(id), Replicas: 1}
	if nc.ConnectedClusterName() != "" {
		q.Replicas = 3
	}
	// Servers that were just started look for each other first.
	for deadline := time.Now().Add(15 * time.Second); ; {
		if err = q.make(ctx); err == nil || ctx.Err() != nil || q.Replicas == 1 && !isForming(err) {
			break
		}
		if time.Now().After(deadline) {
			if q.Replicas == 1 {
				break
			}
			q.Replicas, deadline = 1, time.Now().Add(15*time.Second) // a smaller cluster, or one that lacks a server
			continue
		}
		sleep(ctx, 250*time.Millisecond)
	}
	return q, unreachable("making the work queue", err)
}

// make makes the stream and its consumer.
func (q *Queue) make(ctx context.Context) (err error) {
	within, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	q.stream, err = q.js.CreateOrUpdateStream(within, jetstream.StreamConfig{Name: q.name, Subjects: []string{q.subject()}, Retention: jetstream.WorkQueuePolicy,
		Storage: jetstream.FileStorage, Replicas: q.Replicas, MaxMsgSize: 4096, MaxMsgs: 1 << 20, Description: "tickets of a tally fleet"})
	if err != nil {
		return err
	}
	_, err = q.stream.CreateOrUpdateConsumer(within, jetstream.ConsumerConfig{Durable: consumer, AckPolicy: jetstream.AckExplicitPolicy, AckWait: AckWait, MaxAckPending: 1 << 16, MaxWaiting: 1 << 14, Replicas: q.Replicas})
	return err
}

// isForming reports whether an error is of servers that have not elected a leader yet.
func isForming(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.Code == 503 || errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse) ||
		errors.Is(err, nats.ErrTimeout) || errors.Is(err, context.DeadlineExceeded)
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// subject is not one that a worker may publish to: it has another second word.
func (q *Queue) subject() string { return "tally-work." + q.name }

// Put puts a ticket into the queue. It returns when the servers have it.
func (q *Queue) Put(ctx context.Context, t fleet.Ticket) error {
	data, err := canon.Marshal(&t)
	if err != nil {
		return err
	}
	// A server of several may be changing; the ticket is worthless twice.
	for wait := 50 * time.Millisecond; ; wait *= 2 {
		if _, err = q.js.Publish(ctx, q.subject(), data); err == nil || ctx.Err() != nil || wait > 10*time.Second {
			break
		}
		sleep(ctx, wait)
	}
	if err == nil {
		return nil
	}
	return refusal.Newf(refusal.Failed, "putting work into the queue: %w", err).WithHint("see that the NATS servers run and have JetStream, and resume the attempt")
}

// Mend makes the queue again if the servers do not have it any more: one that lay on a
// single server is lost with that server's disk. What was in it is gone then.
func (q *Queue) Mend(ctx context.Context) (lost bool, err error) {
	_, err = q.js.Consumer(ctx, q.name, consumer)
	if !errors.Is(err, jetstream.ErrStreamNotFound) && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return false, unreachable("looking for the work queue", err)
	}
	return true, unreachable("making the work queue again", q.make(ctx))
}

// Idle reports whether the queue has no ticket that a worker may still claim.
func (q *Queue) Idle(ctx context.Context) (bool, error) {
	c, err := q.stream.Consumer(ctx, consumer)
	if err != nil {
		return false, err
	}
	info := c.CachedInfo()
	return info.NumPending == 0 && info.NumAckPending == 0, nil
}

// Remove takes the queue away with everything in it.
func (q *Queue) Remove(ctx context.Context) error { return q.js.DeleteStream(ctx, q.name) }

// RemoveOthers takes away the queues of fleets whose coordinator was killed. It is for
// a server that no other program uses.
func (q *Queue) RemoveOthers(ctx context.Context) error {
	list := q.js.StreamNames(ctx)
	for name := range list.Name() {
		if strings.HasPrefix(name, StreamOf("")) && name != q.name {
			if err := q.js.DeleteStream(ctx, name); err != nil {
				return unreachable("removing the queue of an earlier coordinator", err)
			}
		}
	}
	return unreachable("listing queues", list.Err())
}

func unreachable(what string, err error) error {
	if err == nil {
		return nil
	}
	return refusal.Newf(refusal.Failed, "%s: %w", what, err)
}

// ErrNoTicket says that the queue has no ticket now.
var ErrNoTicket = errors.New("there is no ticket in the queue")

// A Taken is a ticket that was taken off the queue.
type Taken struct {
	fleet.Ticket
	nc    *nats.Conn
	reply string
}

// Done says that the ticket need not be given to another worker.
func (t Taken) Done() { _ = t.nc.Publish(t.reply, []byte("+ACK")) }

// Later gives the ticket back, for another worker.
func (t Taken) Later() { _ = t.nc.Publish(t.reply, []byte(`-NAK {"delay": 300000000}`)) }

// Take takes a ticket off the queue, waiting for one for at most wait.
func (q *Queue) Take(ctx context.Context, wait time.Duration) (t Taken, err error) {
	ask, err := canon.Marshal(map[string]any{"batch": 1, "expires": wait.Nanoseconds()})
	if err != nil {
		return t, err
	}
	within, cancel := context.WithTimeout(ctx, wait+2*time.Second)
	defer cancel()
	m, err := Ask(within, q.nc, "$JS.API.CONSUMER.MSG.NEXT."+q.name+"."+consumer, q.nc.NewInbox(), ask)
	switch {
	case ctx.Err() != nil:
		return t, context.Cause(ctx)
	case errors.Is(err, nats.ErrNoResponders):
		// The servers elect another leader, or there is no such queue any more. That is
		// said at once, so a caller that asks in a loop would do nothing else.
		sleep(ctx, min(wait, 500*time.Millisecond))
		return t, ErrNoTicket
	case errors.Is(err, nats.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return t, ErrNoTicket
	case err != nil:
		return t, unreachable("taking work off the queue", err)
	}
	if m.Header.Get("Status") != "" || m.Reply == "" {
		return t, ErrNoTicket
	}
	t.nc, t.reply = q.nc, m.Reply
	if err := canon.Unmarshal(m.Data, &t.Ticket); err != nil {
		return t, err
	}
	return t, nil
}

// Ask publishes a question and waits for the first message at one subject, which is for
// this question alone: a ticket keeps the subject that it was put with, so that questions
// which share an inbox could not tell whose it is.
func Ask(ctx context.Context, nc *nats.Conn, subject, answer string, data []byte) (*nats.Msg, error) {
	sub, err := nc.SubscribeSync(answer)
	if err != nil {
		return nil, err
	}
	defer sub.Unsubscribe()
	if err := sub.AutoUnsubscribe(1); err != nil {
		return nil, err
	}
	// The reply subject is for the servers, which say there that no subscriber listens.
	if err := nc.PublishRequest(subject, answer, data); err != nil {
		return nil, err
	}
	return sub.NextMsgWithContext(ctx)
}
