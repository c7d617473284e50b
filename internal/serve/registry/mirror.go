package registry

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/store"
	"tallystick/internal/serve/registry/index"
	"tallystick/internal/share/attest"
)

// A Mirror is what follows from the entries and the texts of a registry, made again
// by a reader who has both and none of its keys. It answers reads as the registry
// should. It is not safe for several goroutines that change it.
type Mirror struct {
	*Reader
	r    *Registry
	head digest.ID
	gone map[digest.Content]bool // texts that could not be had
	seen Touched                 // since it was last asked for
	all  Touched
}

// Touched is what entries have changed: what to look at again.
type Touched struct {
	Proposals, Agents, Paths map[string]bool
	Credentials              map[digest.ID]bool
	Texts                    map[digest.Content]bool
}

func newTouched() Touched {
	return Touched{Proposals: map[string]bool{}, Agents: map[string]bool{}, Paths: map[string]bool{}, Credentials: map[digest.ID]bool{}, Texts: map[digest.Content]bool{}}
}

// OpenMirror makes a mirror of the ledger with that origin in a folder. Texts that are there from before are kept;
// everything else is made from the entries that are added.
func OpenMirror(ctx context.Context, dir, origin string, now func() time.Time) (*Mirror, error) {
	if err := store.MakeDir(store.OS{}, dir, 0o700); err != nil {
		return nil, err
	}
	shelf, err := store.OpenShelf(store.OS{}, filepath.Join(dir, "texts"))
	if err != nil {
		return nil, err
	}
	x, err := index.Open(ctx, filepath.Join(dir, "mirror.db"))
	if err != nil {
		return nil, err
	}
	if err := x.Clear(ctx); err != nil {
		x.Close()
		return nil, err
	}
	log := slog.New(slog.DiscardHandler)
	r := newRegistry(Options{Dir: dir, Now: now, Log: log}, Settings{Origin: origin})
	r.shelf, r.Reader = shelf, newReader(x, now, log)
	return &Mirror{Reader: r.Reader, r: r, gone: map[digest.Content]bool{}, seen: newTouched(), all: newTouched()}, nil
}

// Size is how many entries were added.
func (m *Mirror) Size() int64 { return m.r.state.size }

// PublicURL is what the registry's settings say that its addresses begin with.
func (m *Mirror) PublicURL() string { return m.r.state.config.PublicURL }

// Issuer is the DID that the registry's settings name.
func (m *Mirror) Issuer() string { return m.r.state.config.DID }

// Touched returns what was changed since it was last asked.
func (m *Mirror) Touched() Touched {
	t := m.seen
	m.seen = newTouched()
	return t
}

// Close lets go of the folder.
func (m *Mirror) Close() error {
	err := m.index.Close()
	if closed := m.r.shelf.Close(); err == nil {
		err = closed
	}
	return err
}

// Add adds the next entries. The caller has verified their chain, and the checkpoint
// that they are under. Text gives a text by its digest, or nil if it is not to be had:
// then it is treated as taken down.
func (m *Mirror) Add(ctx context.Context, entries [][]byte, checkpoint []byte, text func(digest.Content) ([]byte, error)) error {
	c, b := newChanges(), []index.Entry{}
	for _, raw := range entries {
		rec, err := m.record(raw)
		if err != nil {
			return err
		}
		if err := m.r.state.fold(rec, c); err != nil {
			return err
		}
		if err := m.log.add(rec.Position); err != nil {
			return err
		}
		m.head = rec.Head
		b = append(b, entryRow(rec))
	}
	if err := m.fetch(c, text); err != nil {
		return err
	}
	m.touch(c)
	m.r.settings.PublicURL = m.r.state.config.PublicURL
	batch, err := m.r.render(c)
	if err != nil {
		return err
	}
	root, err := m.log.root(m.Size())
	if err != nil {
		return err
	}
	tip := sequencer.Tip{TreeHead: ledger.TreeHead{Origin: m.r.settings.Origin, Size: m.Size(), Root: root}, Checkpoint: checkpoint}
	batch.Entries = b
	m.r.stamp(batch, tip)
	if err := m.index.Apply(ctx, batch); err != nil {
		return err
	}
	m.log.set(tip)
	m.changed()
	return nil
}

// record places an entry after those that are there.
func (m *Mirror) record(raw []byte) (ledger.Record, error) {
	envelope, err := evidence.SplitEntry(raw)
	if err != nil {
		return ledger.Record{}, refusal.Newf(refusal.EntryInvalid, "entry %d: %w", m.Size(), err)
	}
	if envelope.Kind == evidence.LedgerOpened {
		var o evidence.Opened
		if err := canon.Unmarshal(envelope.Body, &o); err != nil {
			return ledger.Record{}, refusal.Newf(refusal.EntryInvalid, "entry %d: %w", m.Size(), err)
		}
		m.r.settings.TrustRoot = digest.IDOf([]byte(o.Signers))
	}
	return ledger.Record{Position: ledger.PositionOf(m.r.settings.Origin, m.Size(), m.head, raw), Envelope: envelope, Raw: raw}, nil
}

// fetch gets the texts that the entries name and that are not here. One that was taken
// down is dropped from here too.
func (m *Mirror) fetch(c *changes, text func(digest.Content) ([]byte, error)) error {
	for d, put := range c.blobs {
		if _, down := m.r.state.takenDown[d]; down || !put {
			if m.r.shelf.Has(d) {
				if err := m.r.shelf.Drop(d); err != nil {
					return err
				}
			}
			continue
		}
		if m.r.shelf.Has(d) {
			continue
		}
		data, err := text(d)
		if err != nil {
			return err
		}
		if data == nil {
			m.gone[d], m.r.state.takenDown[d] = true, -1
			continue
		}
		if got := digest.ContentOf(data); got != d {
			return refusal.Newf(refusal.DigestMismatch, "asked for the text %s and got %s", d, got)
		}
		if _, err := m.r.shelf.Put(data); err != nil {
			return err
		}
	}
	return nil
}

func (m *Mirror) touch(c *changes) {
	for _, t := range []Touched{m.seen, m.all} {
		for p := range c.proposals {
			t.Proposals[p.Proposal] = true
			t.Paths[p.Artifact] = true
			if p.decided != nil && p.decided.Outcome == Published {
				t.Paths[p.Path] = true
				for _, folder := range folders(p.Path) {
					t.Paths[folder] = true
				}
			}
		}
		for a := range c.agents {
			t.Agents[a.id] = true
		}
		for i := range c.credentials {
			t.Credentials[i.Credential] = true
		}
		for d := range c.blobs {
			t.Texts[d] = true
		}
	}
}

// Everything is all that there is.
func (m *Mirror) Everything() Touched { return m.all }

// TakenDown reports whether a text is gone.
func (m *Mirror) TakenDown(d digest.Content) bool {
	_, down := m.r.state.takenDown[d]
	return down
}

// StatusLists is how many status lists there must be: as many as have a place that a
// credential was given.
func (m *Mirror) StatusLists() int {
	lists := 0
	for _, i := range m.r.state.credentials {
		if i.Status != nil {
			lists = max(lists, int(statusNumber(i.Status)/statusPerList)+1)
		}
	}
	return lists
}

// StatusBits are those that a status list must have, and StatusID its name.
func (m *Mirror) StatusBits(list int) []byte {
	bits, _ := m.r.state.statusBits(list)
	return bits
}

// StatusID is what a status list is called.
func (m *Mirror) StatusID(list int) string {
	return statusURL(m.r.settings.PublicURL, m.r.settings.Origin, list)
}

// PutStatusList keeps a status list that was verified, to be answered with and to
// verify credentials with.
func (m *Mirror) PutStatusList(ctx context.Context, list int, text []byte) error {
	b := index.NewBatch()
	b.Served[servedStatus(list)] = text
	return m.index.Apply(ctx, b)
}

// IssuerTrust has the keys with which the registry signs now, and no status list.
func (m *Mirror) IssuerTrust() attest.Trust { return m.r.trust() }

// Trust is that of the reader, with what the entries say of retired keys.
func (m *Mirror) Trust(ctx context.Context) (attest.Trust, error) {
	t, err := m.Reader.Trust(ctx)
	t.IssuedBeforeRetirement = m.r.issuedHere
	return t, err
}
