package cosign

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/mod/sumdb/note"

	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

// defaultTimeout is for the whole exchange with one witness.
const defaultTimeout = 10 * time.Second

// ClientOptions are what a [Client] may be told. The zero value is useful.
type ClientOptions struct {
	// Known is the size that the witness cosigned last, as [Client.Known]
	// returned it. It only saves a round trip: a wrong one does no harm.
	Known int64
	// Timeout is for the whole exchange; 0 means ten seconds.
	Timeout time.Duration
}

// A Client asks one witness to cosign checkpoints.
type Client struct {
	url      string // with Path
	verifier note.Verifier
	timeout  time.Duration
	http     *http.Client
	known    atomic.Int64
}

// NewClient returns a client of the witness that takes checkpoints at the
// submission prefix prefix and cosigns with the key vkey (signature type 0x04).
func NewClient(prefix, vkey string, o ClientOptions) (*Client, error) {
	verifier, err := seal.CosignatureVerifier(vkey)
	if err != nil {
		return nil, fmt.Errorf("witness %s: %w", prefix, err)
	}
	u, err := parsePrefix(prefix)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true
	transport.MaxResponseHeaderBytes = 16 << 10
	c := &Client{url: u + Path, verifier: verifier, timeout: o.Timeout, http: &http.Client{
		Transport: transport,
		// A witness is who was named. Following would let it, or an attacker in
		// between, send us to an address inside our own network.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	if c.timeout == 0 {
		c.timeout = defaultTimeout
	}
	c.known.Store(max(0, o.Known))
	return c, nil
}

// parsePrefix checks the address of a witness and returns it without a slash
// at the end.
func parsePrefix(prefix string) (string, error) {
	wrong := func(why string) error {
		return refusal.Newf(refusal.Usage, "witness address %q: %s", prefix, why).
			WithHint("give the submission prefix, such as https://witness.example.com/w1")
	}
	u, err := url.Parse(prefix)
	switch {
	case err != nil:
		return "", wrong("is not a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return "", wrong("is neither http nor https")
	case u.Hostname() == "":
		return "", wrong("names no host")
	case u.User != nil:
		return "", wrong("holds a name or password, which witnesses do not take")
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return "", wrong("holds a query or fragment")
	}
	return strings.TrimRight(u.String(), "/"), nil
}

// Name is the name in the witness's key.
func (c *Client) Name() string { return c.verifier.Name() }

// Known is the size that the witness cosigned last, for the next
// [ClientOptions].
func (c *Client) Known() int64 { return c.known.Load() }

// Cosign has the witness cosign a checkpoint of tree, and returns the verified
// signature line.
//
// A witness that cosigned a longer tree, or another one, is evidence against
// this ledger: HistoryRolledBack and HistoryForked. A witness that cannot be
// reached, refuses otherwise or answers nonsense is WitnessFailed. Errors do
// not name the witness: the caller, who may ask several, does.
func (c *Client) Cosign(ctx context.Context, checkpoint *ledger.Checkpoint, tree *ledger.Tree) ([]byte, error) {
	line, _, err := c.cosign(ctx, checkpoint, tree)
	return line, err
}

// Vouch asks the witness whether a tree has all that the witness has seen of the
// ledger, and returns how many entries that was. It has the witness cosign the
// checkpoint, as [Client.Cosign] does: a shorter tree, or another one, is refused in
// the same way. A witness that has seen nothing vouches for nothing.
func (c *Client) Vouch(ctx context.Context, checkpoint *ledger.Checkpoint, tree *ledger.Tree) (seen int64, err error) {
	c.known.Store(0) // let the witness say what it knows
	_, seen, err = c.cosign(ctx, checkpoint, tree)
	return seen, err
}

// cosign is Cosign, and says from which size the witness took the proof.
func (c *Client) cosign(ctx context.Context, checkpoint *ledger.Checkpoint, tree *ledger.Tree) (line []byte, old int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	defer c.http.CloseIdleConnections()

	signed, err := parseSignedHead(checkpoint.Note)
	if err != nil {
		return nil, 0, refusal.Newf(refusal.CheckpointInvalid, "checkpoint of %s: %w", checkpoint.Origin, err)
	}
	// What goes out must be what the caller says it is, and what proofs are
	// made from: only then does a refusal tell something about history.
	root, err := tree.Root(checkpoint.Size)
	if err != nil {
		return nil, 0, fmt.Errorf("checkpoint of %s at size %d: %w", checkpoint.Origin, checkpoint.Size, err)
	}
	if signed.TreeHead != checkpoint.TreeHead || root != checkpoint.Root {
		return nil, 0, refusal.Newf(refusal.CheckpointInvalid, "checkpoint of %s: size %d, root %s; its note says %d, %s; the tree has root %s",
			checkpoint.Origin, checkpoint.Size, checkpoint.Root, signed.Size, signed.Root, root)
	}

	old = c.Known()
	if old > signed.Size {
		old = 0 // let the witness say that it knows more, not our notes
	}
	reply, err := c.ask(ctx, signed, tree, old)
	if err == nil && reply.status == http.StatusConflict {
		// The witness says where it is; prove from there, once.
		if old, err = c.conflict(reply, signed, old); err == nil {
			reply, err = c.ask(ctx, signed, tree, old)
		}
		if err == nil && reply.status == http.StatusConflict {
			if old, err = c.conflict(reply, signed, old); err == nil {
				err = c.failed("said that it had cosigned %d entries, then %d", reply.asked, old)
			}
		}
	}
	if err != nil {
		return nil, 0, err
	}
	line, err = c.accept(reply, signed)
	if err == nil {
		c.known.Store(signed.Size)
	}
	return line, old, err
}

// A reply is what a witness answered to the size it was asked from.
type reply struct {
	asked     int64
	status    int
	mediaType string
	location  string
	body      []byte
}

// ask sends the checkpoint with a proof from the old size.
func (c *Client) ask(ctx context.Context, signed signedHead, tree *ledger.Tree, old int64) (*reply, error) {
	proof, err := tree.ProveConsistency(old, signed.Size)
	if err != nil {
		return nil, fmt.Errorf("proving that %d entries begin with %d: %w", signed.Size, old, err)
	}
	body := (&request{old: old, proof: proof, checkpoint: signed}).marshal()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return nil, c.failed("%w", err)
	}
	req.Header.Set("Content-Type", "text/plain; charset=utf-8")
	req.Header.Set("User-Agent", "tallystick")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxBodyBytes+1))
	if err != nil {
		return nil, c.unreachable(err)
	}
	if len(answer) > maxBodyBytes {
		return nil, c.failed("answers with more than %d bytes", maxBodyBytes)
	}
	mediaType, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return &reply{old, resp.StatusCode, mediaType, resp.Header.Get("Location"), answer}, nil
}

// conflict reads a "409 Conflict": the size from which the witness wants a
// proof, or the evidence that this ledger is not the one it has seen.
func (c *Client) conflict(r *reply, signed signedHead, old int64) (int64, error) {
	size, err := parseConflict(r)
	switch {
	case err != nil && old == signed.Size, err == nil && size == old && old == signed.Size:
		// The sizes agree, so the roots do not: the specification knows no
		// third reason, and no body for this one.
		return 0, refusal.Newf(refusal.HistoryForked, "cosigned %s at size %d with another root than that of this ledger at size %d, %s",
			signed.Origin, old, signed.Size, signed.Root).
			WithHint("this ledger was rewritten after the witness saw it, or a second one runs under the same origin and key; keep both and compare them")
	case err != nil:
		return 0, c.failed("answers 409 Conflict without the size it knows: %w", err)
	case size > signed.Size:
		return 0, refusal.Newf(refusal.HistoryRolledBack, "cosigned %s at size %d, this ledger has size %d",
			signed.Origin, size, signed.Size).
			WithHint("an old copy of the ledger was put back; find the one with %d entries", size)
	case size == old:
		return 0, c.failed("answers 409 Conflict and yet knows the size %d that the proof starts from", old)
	}
	return size, nil
}

func parseConflict(r *reply) (int64, error) {
	if r.mediaType != sizeType {
		return 0, fmt.Errorf("the body is %q, expected %q", r.mediaType, sizeType)
	}
	line, rest, err := cutLine(r.body)
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("%d bytes after the size", len(rest))
	}
	if err != nil {
		return 0, err
	}
	return parseSize(line)
}

// accept takes the witness's own cosignature out of its answer.
func (c *Client) accept(r *reply, signed signedHead) ([]byte, error) {
	switch {
	case r.status == http.StatusOK:
		return c.verifyCosignature(r.body, signed)
	case r.status == http.StatusUnprocessableEntity && r.asked > 0:
		// Our proof was made from the tree that the checkpoint states, so it
		// fails only if the witness saw another tree at that size.
		return nil, refusal.Newf(refusal.HistoryForked, "the %d entries of %s that it cosigned are not the beginning of this ledger of size %d",
			r.asked, signed.Origin, signed.Size).
			WithHint("this ledger was rewritten after the witness saw it, or a second one runs under the same origin and key; keep both and compare them")
	case r.status == http.StatusNotFound:
		return nil, c.failed("does not know %s (404 Not Found)", signed.Origin).
			WithHint("check the address, and have the witness's operator add this ledger's key")
	case r.status == http.StatusForbidden:
		return nil, c.failed("does not trust the key that signed %s (403 Forbidden)", signed.Origin).
			WithHint("have the witness's operator add this ledger's key")
	case r.location != "":
		return nil, c.failed("redirects to %s (%d), which is not followed", quote(r.location), r.status).
			WithHint("give the address where the witness itself answers")
	}
	return nil, c.failed("answers %d %s: %s", r.status, statusText(r.status), quote(string(r.body)))
}

// verifyCosignature returns the one line by the witness's key. Lines by keys
// that we do not know are ignored, as the specification asks; lines that are
// none make the whole answer worthless.
func (c *Client) verifyCosignature(body []byte, signed signedHead) ([]byte, error) {
	lines, err := parseSignatures(body)
	if err != nil {
		return nil, c.failed("answers with malformed cosignatures: %w", err)
	}
	for _, s := range lines {
		if !s.by(c.verifier) {
			continue
		}
		if !c.verifier.Verify([]byte(signed.Text()), s.bytes) {
			return nil, refusal.Newf(refusal.SignatureInvalid, "its cosignature is not one of %s at size %d", signed.Origin, signed.Size).
				WithHint("it was changed on the way, or the witness signs something else; it is not used")
		}
		return s.appendLine(nil), nil
	}
	return nil, c.failed("answers without a cosignature by its key (%d by others)", len(lines)).
		WithHint("check that address and key belong to the same witness")
}

func (c *Client) failed(format string, args ...any) *refusal.Error {
	return refusal.Newf(refusal.WitnessFailed, "%s %w", c.url, fmt.Errorf(format, args...)).
		WithHint("the local anchor stands; publish again later, the witness is caught up then")
}

func (c *Client) unreachable(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // the address is in the message already
	}
	return c.failed("could not be reached: %w", err)
}
