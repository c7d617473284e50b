package registry

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/serve/registry/index"
)

// ReaderOptions say what to read.
type ReaderOptions struct {
	DB  string // postgres://… or the path of an SQLite file
	Now func() time.Time
	Log *slog.Logger
}

// A Reader answers reads from the index. In the process that writes, what decides
// is answered from the ledger's own entries.
type Reader struct {
	index *index.Index
	log   *logView
	now   func() time.Time
	slog  *slog.Logger

	version atomic.Int64 // changes whenever the index does
	follow  bool         // another process writes: look how far it is
	looked  sync.Mutex

	cacheMu sync.Mutex
	cache   map[Query]*listing
	cached  int64 // version that the cache is of
	bytes   int   // in the cache
}

// A listing is a page that is being read, or was. A request for the same page
// meanwhile waits for it: after each write all clients ask at once.
type listing struct {
	done chan struct{}
	page *Page
	err  error
}

func newReader(x *index.Index, now func() time.Time, log *slog.Logger) *Reader {
	return &Reader{index: x, log: newLogView(), now: now, slog: log, cache: make(map[Query]*listing)}
}

// OpenReader reads a registry that another process writes, from its database.
func OpenReader(ctx context.Context, o ReaderOptions) (*Reader, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	x, err := index.OpenReader(ctx, o.DB)
	if err != nil {
		return nil, err
	}
	r := newReader(x, o.Now, o.Log)
	r.follow = true
	if err := r.catchUp(ctx); err != nil {
		x.Close()
		return nil, err
	}
	return r, nil
}

// Close lets go of the database.
func (r *Reader) Close() error { return r.index.Close() }

// changed says that the index has changed.
func (r *Reader) changed() { r.version.Add(1) }

// catchUp reads the entries that another process has written since.
func (r *Reader) catchUp(ctx context.Context) error {
	if !r.follow {
		return nil
	}
	r.looked.Lock()
	defer r.looked.Unlock()
	have, signed := r.log.tree.Size(), r.log.size
	text, err := r.index.Meta(ctx, "applied")
	if err != nil || text == strconv.FormatInt(signed, 10) {
		return err
	}
	applied, err := strconv.ParseInt(text, 10, 64)
	if err != nil || applied < have {
		return refusal.Newf(refusal.IndexDiffers, "the database had %d entries and has %.20q now", have, text).WithHint("it was made again; restart this process")
	}
	origin, err := r.index.Meta(ctx, "origin")
	if err != nil {
		return err
	}
	for have < applied {
		err := r.index.Entries(ctx, have, 1000, func(e index.Entry) error {
			if e.Index >= applied {
				return nil
			}
			have++
			return r.log.add(ledger.PositionOf(origin, e.Index, digest.ID(e.Prev), e.Raw))
		})
		if err != nil {
			return err
		}
	}
	return r.takeCheckpoint(ctx, origin, applied)
}

// takeCheckpoint takes the checkpoint that the writer left, if the entries give
// its root.
func (r *Reader) takeCheckpoint(ctx context.Context, origin string, applied int64) error {
	note, err := r.index.Meta(ctx, "checkpoint")
	if err != nil {
		return err
	}
	text, _, _ := strings.Cut(note, "\n\n")
	head, err := ledger.ParseTreeHead(text + "\n")
	if err != nil {
		return refusal.Newf(refusal.IndexDiffers, "the checkpoint in the database: %w", err)
	}
	if head.Size != applied {
		return nil // the writer is at work; the next look finds both
	}
	root, err := r.log.root(head.Size)
	if err != nil {
		return err
	}
	if root != head.Root || head.Origin != origin {
		return refusal.Newf(refusal.IndexDiffers, "the entries in the database do not give the root of their checkpoint").
			WithHint("the database was changed; make it again with: tally registry rebuild")
	}
	r.log.set(sequencer.Tip{TreeHead: head, Checkpoint: []byte(note)})
	r.version.Store(applied)
	return nil
}

// Ready returns nil if reads can be answered.
func (r *Reader) Ready(ctx context.Context) error {
	if err := r.catchUp(ctx); err != nil {
		return err
	}
	_, _, err := r.index.Applied(ctx)
	return err
}

const (
	defaultLimit = 50
	maxLimit     = 200
	cacheBytes   = 128 << 20
)

// List returns rows, the newest first.
func (r *Reader) List(ctx context.Context, q Query) (*Page, error) {
	if err := q.normal(); err != nil {
		return nil, err
	}
	if err := r.catchUp(ctx); err != nil {
		return nil, err
	}
	l, mine := r.listing(q)
	if mine {
		// Others wait for it too, so it is read even if this caller goes away.
		l.page, l.err = r.list(context.WithoutCancel(ctx), q)
		r.keep(q, l)
		close(l.done)
	}
	select {
	case <-l.done:
		return l.page, l.err
	case <-ctx.Done():
		return nil, refusal.Newf(refusal.Interrupted, "listing: %w", ctx.Err())
	}
}

func (r *Reader) list(ctx context.Context, q Query) (*Page, error) {
	f := index.Filter{Thing: string(q.Thing), Status: q.Status, Artifact: q.Artifact, Runner: q.Runner, Limit: q.Limit + 1}
	if q.Status == "all" {
		f.Status = ""
	}
	if q.After != "" {
		f.Before, _ = strconv.ParseInt(q.After, 10, 64)
	}
	// The rows lie in the page itself: many pages are kept.
	p := &Page{JSON: []byte("[")}
	var ends []int
	last, more := int64(0), false
	err := r.index.List(ctx, f, func(seq int64, body []byte) {
		if more = len(ends) == q.Limit; more {
			return
		}
		if len(ends) > 0 {
			p.JSON = append(p.JSON, ',')
		}
		p.JSON, last = append(p.JSON, body...), seq
		ends = append(ends, len(p.JSON))
	})
	if err != nil {
		return nil, err
	}
	if more {
		p.Next = strconv.FormatInt(last, 10)
	}
	p.JSON = slices.Clip(append(p.JSON, ']'))
	p.Rows = make([]canon.RawMessage, len(ends))
	from := 1
	for i, end := range ends {
		p.Rows[i] = p.JSON[from:end:end]
		from = end + 1
	}
	p.ETag = etag(p.JSON)
	return p, nil
}

// listing finds a page of the index as it is now, and reports whether the caller
// has to read it.
func (r *Reader) listing(q Query) (l *listing, mine bool) {
	r.cacheMu.Lock()
	defer r.cacheMu.Unlock()
	if version := r.version.Load(); r.cached != version || r.bytes > cacheBytes {
		clear(r.cache)
		r.cached, r.bytes = version, 0
	}
	if l = r.cache[q]; l != nil {
		return l, false
	}
	l = &listing{done: make(chan struct{})}
	r.cache[q] = l
	return l, true
}

// keep counts a page that was read, and forgets one that could not be.
func (r *Reader) keep(q Query, l *listing) {
	r.cacheMu.Lock()
	defer r.cacheMu.Unlock()
	switch {
	case r.cache[q] != l:
	case l.err != nil:
		delete(r.cache, q)
	default:
		r.bytes += len(l.page.JSON) + 2000
	}
}

// normal puts the defaults in and refuses what no client can have asked for.
func (q *Query) normal() error {
	if q.Thing == "" {
		q.Thing = Eval
	}
	if q.Status == "" {
		q.Status = Published
	}
	switch q.Status {
	case Pending, Published, Rejected, Withdrawn, Lapsed, "all":
	default:
		return refusal.Newf(refusal.Usage, "status is %.40q, expected pending, published, rejected, withdrawn, lapsed or all", q.Status)
	}
	if q.Limit == 0 {
		q.Limit = defaultLimit
	}
	if q.Limit < 1 || q.Limit > maxLimit {
		return refusal.Newf(refusal.Usage, "limit is %d, expected 1 to %d", q.Limit, maxLimit)
	}
	if q.After != "" {
		if n, err := strconv.ParseInt(q.After, 10, 64); err != nil || n < 1 || strconv.FormatInt(n, 10) != q.After {
			return refusal.Newf(refusal.Usage, "after is %.40q, expected what the page before gave", q.After)
		}
	}
	if q.Artifact != "" {
		return CheckPath(q.Artifact)
	}
	return nil
}

func etag(data []byte) string {
	d := digest.IDOf(data)
	return `"` + base64.RawURLEncoding.EncodeToString(d[:18]) + `"`
}

// maxChildren bounds the children of a node that are shown.
const maxChildren = 1000

// Tree returns a path of the catalogue with what is right below it.
func (r *Reader) Tree(ctx context.Context, path string) (*Node, error) {
	if err := r.catchUp(ctx); err != nil {
		return nil, err
	}
	n := &Node{Path: path, Children: []Child{}}
	body, err := r.index.Node(ctx, path)
	if err != nil {
		return nil, err
	}
	if body != nil {
		if err := json.Unmarshal(body, n); err != nil {
			return nil, refusal.Newf(refusal.IndexDiffers, "the node %s in the database is not JSON: %w", path, err)
		}
	} else if !isRoot(path) {
		return nil, refusal.Newf(refusal.UnknownName, "the catalogue has no path %.200q", path).WithHint("begin at /artifacts")
	}
	children, err := r.index.Children(ctx, path, "", maxChildren+1)
	if err != nil {
		return nil, err
	}
	if n.More = len(children) > maxChildren; n.More {
		children = children[:maxChildren]
	}
	for _, c := range children {
		var child Node
		if err := json.Unmarshal(c, &child); err != nil {
			return nil, refusal.Newf(refusal.IndexDiffers, "a node in the database is not JSON: %w", err)
		}
		n.Children = append(n.Children, Child{child.Path, child.Path[strings.LastIndexByte(child.Path, '/')+1:], child.Thing, child.Proposal})
	}
	return n, nil
}

// isRoot tells the folders that are there before anything is published.
func isRoot(path string) bool {
	if path == "/artifacts" {
		return true
	}
	name, ok := strings.CutPrefix(path, "/artifacts/")
	_, known := roots[name]
	return ok && known
}

// Proposal returns everything that is known of a proposal.
func (r *Reader) Proposal(ctx context.Context, id string) (*Proposal, error) {
	return document[Proposal](ctx, r, docProposal, id)
}

// Agent returns a registered agent.
func (r *Reader) Agent(ctx context.Context, id string) (*Agent, error) {
	return document[Agent](ctx, r, docAgent, id)
}

// document reads a document of the index.
func document[T any](ctx context.Context, r *Reader, kind, id string) (*T, error) {
	body, err := r.index.Doc(ctx, kind, id)
	if err != nil {
		return nil, err
	}
	if body == nil {
		return nil, refusal.Newf(refusal.UnknownName, "there is no %s %.100q", kind, id)
	}
	v := new(T)
	if err := canon.Unmarshal(body, v); err != nil {
		return nil, refusal.Newf(refusal.IndexDiffers, "%s %s in the database: %w", kind, id, err)
	}
	return v, nil
}

// Authenticate finds the agent of an API key. Only its hash is looked up, so the
// time that takes says nothing about a key.
func (r *Reader) Authenticate(ctx context.Context, apiKey string) (*Agent, error) {
	if !wellFormedAPIKey(apiKey) {
		return nil, unauthenticated()
	}
	id, err := r.index.Doc(ctx, docAPIKey, apiKeyHash(apiKey).String())
	if err != nil {
		return nil, err
	}
	if id == nil {
		return nil, unauthenticated()
	}
	return r.Agent(ctx, string(id))
}

func unauthenticated() error {
	return refusal.Newf(refusal.Unauthenticated, "the API key is missing, unknown or revoked").
		WithHint("register at POST /api/agent/v1/register, and send the key as: Authorization: Bearer ak_…")
}

// Blob returns a text by its digest.
func (r *Reader) Blob(ctx context.Context, d digest.Content) ([]byte, error) {
	data, err := r.index.Blob(ctx, d.String())
	if err != nil {
		return nil, err
	}
	if data == nil {
		return nil, refusal.Newf(refusal.UnknownName, "there is no blob %s, or it was taken down", d)
	}
	if got := digest.ContentOf(data); got != d {
		return nil, refusal.Newf(refusal.IndexDiffers, "the database has %s under the name %s", got, d).
			WithHint("the database was changed; make it again with: tally registry rebuild")
	}
	return data, nil
}

// Credential returns a credential that the registry issued.
func (r *Reader) Credential(ctx context.Context, id digest.ID) (*Minted, error) {
	doc, err := document[credentialDoc](ctx, r, docCredential, id.String())
	if err != nil {
		return nil, err
	}
	m := &Minted{Digest: id, ID: doc.ID, Entry: doc.Entry, Receipt: ReceiptAddress(doc.Entry), Status: doc.Status, Revoked: doc.Revoked}
	if doc.Blob == nil {
		return m, errGone
	}
	m.Credential, err = r.Blob(ctx, *doc.Blob)
	return m, err
}

// Judgment returns the credential of a run, by the run's id and its own.
func (r *Reader) Judgment(ctx context.Context, kind, rid, jid string) ([]byte, error) {
	if kind != "eval.run.attestation.v1" && kind != "ip.eval.run.attestation.v1" {
		return nil, refusal.Newf(refusal.UnknownName, "there is no kind of credential %.100q", kind).WithHint("it is eval.run.attestation.v1")
	}
	text, err := r.index.Doc(ctx, docRun, rid+"/"+jid)
	if err != nil {
		return nil, err
	}
	if text == nil {
		return nil, refusal.Newf(refusal.UnknownName, "there is no credential %.100q of a run %.100q", jid, rid)
	}
	id, err := digest.ParseID(string(text))
	if err != nil {
		return nil, refusal.Newf(refusal.IndexDiffers, "credential %s in the database: %w", jid, err)
	}
	m, err := r.Credential(ctx, id)
	if err != nil {
		return nil, err
	}
	return m.Credential, nil
}

// Receipt proves that an entry is in the ledger.
func (r *Reader) Receipt(ctx context.Context, at int64) (*Receipt, error) {
	raw, err := r.Entries(ctx, at, 1)
	if err != nil {
		return nil, err
	}
	if len(raw) == 0 {
		return nil, refusal.Newf(refusal.UnknownName, "there is no entry %d", at)
	}
	file, err := r.log.receipt(at, raw[0])
	return &Receipt{Index: at, File: file, Entry: raw[0]}, err
}

// Checkpoint is the last sealed checkpoint: a C2SP signed note, with the time if the
// process that writes has signed it.
func (r *Reader) Checkpoint(ctx context.Context) ([]byte, error) {
	if err := r.catchUp(ctx); err != nil {
		return nil, err
	}
	note, _ := r.log.signed()
	dated, err := r.index.Served(ctx, servedCheckpoint)
	if err != nil || !bytes.HasPrefix(dated, note) {
		return note, err
	}
	return dated, nil
}

// TreeSize is how many entries the last checkpoint covers that this process knows of.
func (r *Reader) TreeSize() int64 {
	if r.log == nil {
		return 0 // it was never opened
	}
	r.log.mu.RLock()
	defer r.log.mu.RUnlock()
	return r.log.size
}

// maxEntries bounds what one call returns.
const maxEntries = 1000

// Entries returns the canonical bytes of entries from an index on, at most n.
func (r *Reader) Entries(ctx context.Context, from int64, n int) ([][]byte, error) {
	if from < 0 || n < 1 || n > maxEntries {
		return nil, refusal.Newf(refusal.Usage, "entries from %d, %d of them: expected from 0 on, and 1 to %d", from, n, maxEntries)
	}
	if err := r.catchUp(ctx); err != nil {
		return nil, err
	}
	_, size := r.log.signed()
	var out [][]byte
	err := r.index.Entries(ctx, from, n, func(e index.Entry) error {
		if e.Index != from+int64(len(out)) {
			return fmt.Errorf("entry %d is missing", from+int64(len(out)))
		}
		if e.Index < size {
			out = append(out, e.Raw)
		}
		return nil
	})
	return out, err
}

// Tile returns a tile of the tree by its path, as C2SP tlog-tiles has it:
// tile/0/000 or tile/entries/000.
func (r *Reader) Tile(ctx context.Context, path string) ([]byte, error) {
	if err := r.catchUp(ctx); err != nil {
		return nil, err
	}
	return r.log.tile(path)
}

// Keys returns the documents in which verifiers find keys.
func (r *Reader) Keys(ctx context.Context) (*KeyDocuments, error) {
	jwks, err := r.index.Doc(ctx, docKeys, "jwks")
	if err != nil {
		return nil, err
	}
	did, err := r.index.Doc(ctx, docKeys, "did")
	return &KeyDocuments{JWKS: jwks, DID: did, ETag: etag(append(jwks, did...))}, err
}

// Config is what the registry says about itself.
func (r *Reader) Config(ctx context.Context) (*Public, error) {
	if err := r.catchUp(ctx); err != nil {
		return nil, err
	}
	p, err := document[Public](ctx, r, docPublic, "public")
	if err != nil {
		return nil, err
	}
	_, p.Entries = r.log.signed()
	return p, nil
}
