package judge

import (
	"crypto/ed25519"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
)

// maxEntryBytes bounds an entry: 25 votes with the longest replies, escaped.
const maxEntryBytes = 32 << 20

// signingLabel is what an Ed25519 signature covers before the document, so that
// it is worth nothing for any other document of any other program.
const signingLabel = "tallystick judge verdict v1\n"

// An Entry is one file of the cache.
type Entry struct {
	Document  canon.RawMessage `json:"document"`
	Key       string           `json:"key"`       // fingerprint of the key that signed
	Public    string           `json:"public"`    // that key, as in a .pub file
	Signature []byte           `json:"signature"` // Ed25519, in base64
}

// A Cache is a folder of signed verdicts. It may be used from any number of
// goroutines and processes: an entry appears whole or not at all, and of two
// that are written at once the later stays.
type Cache struct {
	dir string
	key *seal.Key
}

// OpenCache returns the cache in a folder, which is made when the first entry
// is put, and the key that signs its entries.
func OpenCache(dir string, key *seal.Key) *Cache { return &Cache{dir, key} }

func (c *Cache) file(key digest.ID) string {
	return filepath.Join(c.dir, strings.TrimPrefix(key.String(), "sha256:")+".json")
}

// A state says what became of a look into the cache.
type state string

// The states. Everything but a hit is a miss.
const (
	hit        state = "hit"
	absent     state = "absent"
	legacy     state = "legacy"     // an entry without a signature, as older programs wrote it
	tampered   state = "tampered"   // the signature does not cover what is there
	swapped    state = "swapped"    // signed, and the verdict on another question
	otherKey   state = "other_key"  // signed by another key
	superseded state = "superseded" // signed, and not the last draw that the ledger has
	unknown    state = "unknown"    // signed, and no draw that the ledger has
	unread     state = "unread"     // for people: a hit whose replies are not a verdict
)

// lookup returns the verdict on a question, if there is one that this key
// signed. Why is for a person. An error says that the file could not be read,
// which is not the same as a file that says the wrong thing.
func (c *Cache) lookup(key digest.ID) (d *Document, s state, why string, err error) {
	data, err := store.ReadFile(store.OS{}, c.file(key), maxEntryBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, absent, "", nil
	case refusal.Is(err, refusal.TooLarge):
		return nil, tampered, "it is larger than any entry", nil
	case err != nil:
		return nil, "", "", err
	}
	d, s, why = c.open(data)
	if s != hit {
		return nil, s, why, nil
	}
	was, err := d.Asked.Key()
	if err != nil {
		return nil, "", "", err
	}
	if was != key {
		return nil, swapped, "it is the verdict on " + d.Asked.CaseID + " under the key " + was.String(), nil
	}
	return d, hit, "", nil
}

// open checks an entry: its form, its signature and what it says.
func (c *Cache) open(data []byte) (*Document, state, string) {
	var e Entry
	if err := canon.UnmarshalCanonical(data, &e); err != nil {
		if isLegacy(data) {
			return nil, legacy, "it is not signed"
		}
		return nil, tampered, "it is not in the form that entries have: " + err.Error()
	}
	pub, err := seal.ParsePublicKey([]byte(e.Public))
	if err != nil || pub.Fingerprint() != e.Key || pub.String() != e.Public {
		return nil, tampered, "it does not name the key that it carries"
	}
	bare, ok := pub.Ed25519()
	if !ok || !ed25519.Verify(bare, signed(e.Document), e.Signature) {
		return nil, tampered, "its signature does not cover it"
	}
	if !pub.Equal(c.key.Public()) {
		return nil, otherKey, "it is signed by " + e.Key + ", the key here is " + c.key.Fingerprint()
	}
	// Our own key signed this, so what follows can fail only if another
	// program used it.
	d, err := ParseDocument(e.Document)
	if err != nil {
		return nil, tampered, err.Error()
	}
	if d.Source != FromLive || d.Verdict == nil && len(d.Replies) == 0 {
		return nil, tampered, "it is signed, and holds neither a verdict of a model nor replies of one"
	}
	return d, hit, ""
}

// isLegacy reports whether an entry is one that was never signed: a JSON object
// without any of the members that make a signature.
func isLegacy(data []byte) bool {
	var members map[string]canon.RawMessage
	if canon.Unmarshal(data, &members) != nil {
		return false
	}
	for _, name := range []string{"signature", "public", "document"} {
		if _, ok := members[name]; ok {
			return false
		}
	}
	return true
}

func signed(document []byte) []byte { return append([]byte(signingLabel), document...) }

// put signs a document and keeps it.
func (c *Cache) put(key digest.ID, document []byte) error {
	e := Entry{Document: document, Key: c.key.Fingerprint(), Public: c.key.Public().String(), Signature: ed25519.Sign(c.key.Ed25519(), signed(document))}
	data, err := canon.Marshal(e)
	if err != nil {
		return err
	}
	if err := store.MakeDir(store.OS{}, c.dir, 0o700); err != nil {
		return err
	}
	return store.WriteFile(store.OS{}, c.file(key), data, 0o600)
}

// A Listed is an entry of the cache, for a person.
type Listed struct {
	Key    string     `json:"key"`   // the question's name, which is the file's
	State  string     `json:"state"` // hit, or why it is a miss
	Why    string     `json:"why,omitempty"`
	Class  string     `json:"class,omitempty"`
	CaseID string     `json:"case,omitempty"`
	Model  string     `json:"model,omitempty"`
	Score  *float64   `json:"score,omitempty"`
	Spread *float64   `json:"spread,omitempty"`
	Votes  int        `json:"votes,omitempty"`
	Draw   int        `json:"draw,omitempty"`
	Time   *time.Time `json:"time,omitempty"` // when it was drawn, or the file written if that is not known
	file   string
}

// List describes every entry. Whether the ledger has the draw is not looked at.
func (c *Cache) List() ([]Listed, error) {
	files, err := store.OS{}.ReadDir(c.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, refusal.Newf(refusal.Unreadable, "listing the judge cache: %w", err)
	}
	var list []Listed
	for _, f := range files {
		name, ok := strings.CutSuffix(f.Name(), ".json")
		if !ok || !f.Type().IsRegular() {
			continue
		}
		l, err := c.describe(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		list = append(list, l)
	}
	return list, nil
}

func (c *Cache) describe(name string) (Listed, error) {
	l := Listed{Key: "sha256:" + name, file: filepath.Join(c.dir, name+".json")}
	info, err := os.Stat(l.file)
	if err != nil {
		return l, err
	}
	written := info.ModTime().UTC()
	l.Time = &written
	data, err := store.ReadFile(store.OS{}, l.file, maxEntryBytes)
	if refusal.Is(err, refusal.TooLarge) {
		l.State, l.Why = string(tampered), "it is larger than any entry"
		return l, nil
	}
	if err != nil {
		return l, err
	}
	d, s, why := c.open(data)
	if d != nil {
		if key, err := d.Asked.Key(); err != nil || key.String() != l.Key {
			s, why = swapped, "it is the verdict on another question"
		}
		drawn := d.DrawnAt.Go()
		l.Class, l.CaseID, l.Model, l.Votes, l.Draw, l.Time = d.Asked.Class, d.Asked.CaseID, d.Asked.Model, len(d.Votes), d.Draw, &drawn
		if d.Verdict != nil {
			l.Score, l.Spread = &d.Verdict.Score, &d.Verdict.Spread
		} else if s == hit {
			s, why = unread, d.Unscored
		}
	}
	l.State, l.Why = string(s), why
	return l, nil
}

// Prune removes entries that were drawn before a time, and tells which. The
// next run asks a model again, and the ledger numbers that draw after those
// before it: pruning hides nothing.
func (c *Cache) Prune(before time.Time) ([]Listed, error) {
	list, err := c.List()
	if err != nil {
		return nil, err
	}
	var removed []Listed
	for _, l := range list {
		if !l.Time.Before(before) {
			continue
		}
		if err := (store.OS{}).Remove(l.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return removed, refusal.Newf(refusal.WriteFailed, "pruning the judge cache: %w", err)
		}
		removed = append(removed, l)
	}
	return removed, nil
}

// Names of the events that the cache gives rise to.
const (
	EventTampered   = "judge.cache_tampered"
	EventSwapped    = "judge.cache_swapped"
	EventSuperseded = "judge.cache_superseded"
	EventOtherKey   = "judge.cache_other_key"
	EventUnknown    = "judge.cache_not_in_ledger"
)

// boundary is what a verdict crosses on its way to a score.
const boundary = "TB-3"

// missEvent is the finding of a miss, nil for a miss that is not a finding. It
// names the attempt that came upon it: an audit counts them by attempt.
func missEvent(attempt string, a *Asked, key digest.ID, s state, why string) (*evidence.IntegrityEvent, error) {
	e := &evidence.IntegrityEvent{Boundary: boundary, Severity: evidence.Block}
	switch s {
	case tampered:
		e.Name = EventTampered
	case swapped:
		e.Name = EventSwapped
	case superseded:
		e.Name = EventSuperseded
	case otherKey:
		e.Name, e.Severity = EventOtherKey, evidence.Warn
	case unknown:
		e.Name, e.Severity = EventUnknown, evidence.Warn
	default:
		return nil, nil
	}
	e.Detail = cut("case "+a.CaseID+": the judge cache's entry "+key.String()+" is not used: "+why, 1000)
	data, err := canon.Marshal(map[string]any{"attempt": attempt, "case": a.CaseID, "class": a.Class, "key": key})
	e.Data = data
	return e, err
}
