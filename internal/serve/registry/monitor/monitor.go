// Package monitor follows a registry from outside. It needs no access but the one
// that every reader has, and keeps its own copy of the entries that it has seen and of
// the texts that they name.
//
// A look ([Monitor.Once]) verifies the checkpoint and every entry since the last
// look, computes draws, votes and decisions again, and compares the catalogue with
// the entries: a row that no entry published, a published entry without a row, a row
// that says something else, a receipt that does not prove.
//
// What it cannot see: what was never in the ledger, such as a proposal that was
// refused or dropped before it was answered; what the operator tried before writing the
// entry of a proposal, from whose root judges are drawn; the texts of
// manifests that were taken down; and whether a registry shows others something
// else, for which monitors compare what they remember, or witnesses cosign.
package monitor

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/serve/registry"
	"tallystick/internal/serve/registry/client"
	"tallystick/internal/serve/registry/web"
)

type votes = evidence.RegistryVotes

// catchUp is how often a look reads entries again because the list has rows of
// entries that came after the checkpoint.
const catchUp = 3

// A Monitor looks at one registry.
type Monitor struct {
	Client *client.Client
	// Keys are trusted to sign the ledger at the first look. Without any, those of
	// its first entry are remembered, and the report says so.
	Keys []ledger.LogKey
	// Witnesses must have cosigned checkpoints; its Logs are not used.
	Witnesses ledger.Policy
	Dir       string // what it remembers; see [Folder]
	// AllReceipts verifies the receipts of all rows, not only of new ones.
	AllReceipts bool
	// All compares every answer and not only those about what has changed, with some of
	// the others.
	All bool
	// Peers are other monitors, to be asked what they saw.
	Peers []*client.Client
	Now   func() time.Time

	toldMu sync.Mutex
	told   []byte // what is told to other monitors

	memory *memory
	log    *log
	state  *replay
	seen   map[string]digest.ID

	offered   []byte           // the checkpoint that was asked for last
	ahead     [][]byte         // entries that were read and are not in the mirror
	mirror    *registry.Mirror // what follows from the entries
	honest    *web.Server      // answers with it
	honestURL string
	compared  int64 // entries at the end of the last look
	digests   map[string]digest.ID
	routesAt  int64                     // the size of the tree that all digests are of; -1 if it grew meanwhile
	missing   map[digest.Content]string // texts that the registry does not give

	rowsOnly bool // for tests of everything else
	wait     func(context.Context, time.Duration) error
}

// Close lets go of what is kept between looks.
func (m *Monitor) Close() error {
	if m.mirror == nil {
		return nil
	}
	err := m.mirror.Close()
	m.mirror, m.honest = nil, nil
	return err
}

// A Report is what came of a look.
type Report struct {
	Address   string    `json:"address"`
	Origin    string    `json:"origin"`
	Size      int64     `json:"size"`
	Root      string    `json:"root"`
	Before    int64     `json:"before"`    // entries at the last look, 0 the first time
	Keys      []string  `json:"keys"`      // that may sign the ledger
	FirstUse  bool      `json:"first_use"` // the key was not named but remembered
	Proposals int       `json:"proposals"`
	Draws     int       `json:"draws"`     // computed again
	Votes     int       `json:"votes"`     // signatures verified
	Decisions int       `json:"decisions"` // counted again
	Rows      int       `json:"rows"`      // compared with their entries
	Receipts  int       `json:"receipts"`  // verified now
	Answers   int       `json:"answers"`   // made again from the entries, and the same
	Peers     int       `json:"peers"`     // other monitors whose sight was compared
	Findings  []Finding `json:"findings"`
	// Routes has a digest over the answers of each route that every look asks for, of a
	// tree of that size: two monitors of one registry have the same.
	Routes map[string]digest.ID `json:"routes,omitempty"`
	// SignedAt is when the operator last signed the checkpoint with the time.
	SignedAt evidence.Time `json:"signed_at"`
}

// Once looks once. A report with findings comes with an error.
func (m *Monitor) Once(ctx context.Context) (*Report, error) {
	report, err := m.look(ctx)
	if err != nil {
		// What was read in vain is forgotten; the next look begins with what is
		// remembered on disk.
		m.memory = nil
		return nil, errors.Join(err, m.Close())
	}
	if len(report.Findings) > 0 {
		f := report.Findings[0]
		return report, refusal.Newf(refusal.RegistryMismatch, "%d findings; the first, %s: entry %d, proposal %s: %s", len(report.Findings), f.Name, f.Entry, f.Proposal, f.Detail).
			WithHint("the registry's own signed entries say otherwise; the copy of them is in %s", m.Dir)
	}
	m.memory.Receipts, m.memory.Compared = m.memory.Size, m.compared
	if err := saveSeen(m.Dir, m.seen); err != nil {
		return nil, err
	}
	if err := m.tell(report); err != nil {
		return nil, err
	}
	return report, m.memory.save(m.Dir)
}

func (m *Monitor) look(ctx context.Context) (*Report, error) {
	if err := m.load(); err != nil {
		return nil, err
	}
	before := int64(0)
	if m.memory != nil {
		before = m.memory.Size
	}
	if err := m.follow(ctx); err != nil {
		return nil, err
	}
	mustHave := m.memory.Size
	list, err := m.rows(ctx)
	if err != nil {
		return nil, err
	}
	// What was published while the list was read has entries after the checkpoint.
	for n := 0; n < catchUp && slices.ContainsFunc(list, func(r row) bool { return m.state.byID[r.ProposalID] == nil || r.Entry >= m.memory.Size }); n++ {
		if err := m.follow(ctx); err != nil {
			return nil, err
		}
	}
	report := &Report{Address: m.Client.Address(), Before: before}
	if err := m.checkRows(ctx, list, mustHave, report); err != nil {
		return nil, err
	}
	if err := m.checkWitnessed(ctx, report); err != nil {
		return nil, err
	}
	if !m.rowsOnly {
		if err := m.compareAnswers(ctx, report); err != nil {
			return nil, err
		}
		if err := m.checkAge(ctx, report); err != nil {
			return nil, err
		}
		if err := m.comparePeers(ctx, report); err != nil {
			return nil, err
		}
		for d, why := range m.missing {
			m.report(report, TextMissing, -1, "", "entries name the text %s, no entry says that it was taken down, and the registry does not give it: %s", d, why)
		}
	}
	m.fill(report)
	return report, nil
}

func (m *Monitor) fill(r *Report) {
	r.Origin, r.Size, r.Root, r.Keys, r.FirstUse = m.memory.Origin, m.memory.Size, m.memory.Root, m.memory.Keys, m.memory.FirstUse
	r.Proposals, r.Draws, r.Votes, r.Decisions = len(m.state.order), m.state.drawn, m.state.votes, m.state.decided
	r.Findings = append(append([]Finding{}, m.state.findings...), r.Findings...)
}

// load reads what is remembered, once, and computes again what follows from it.
func (m *Monitor) load() error {
	if m.memory != nil {
		return nil
	}
	m.ahead, m.missing = nil, map[digest.Content]string{}
	remembered, err := loadMemory(m.Dir)
	if err != nil {
		return err
	}
	if m.seen, err = loadSeen(m.Dir); err != nil || remembered == nil {
		return err
	}
	if remembered.Address != m.Client.Address() {
		return refusal.Newf(refusal.Usage, "%s remembers %s, not %s", m.Dir, remembered.Address, m.Client.Address()).WithHint("use another --state for another registry")
	}
	m.log = newLog(remembered.Origin)
	m.state = newReplay(m.log)
	if err := loadEntries(m.Dir, remembered.Size, m.apply); err != nil {
		return err
	}
	if got := m.log.chain.Root().String(); got != remembered.Root {
		return refusal.Newf(refusal.MemoryDamaged, "%s: the entries that were kept have the root %s; remembered is %s", m.Dir, got, remembered.Root).
			WithHint("they were changed on this machine; begin again with another --state")
	}
	if err := m.trusted(remembered); err != nil {
		return err
	}
	m.memory = remembered
	return nil
}

// trusted refuses a key that was named now and neither may sign what is remembered
// nor handed it over to one that may.
func (m *Monitor) trusted(remembered *memory) error {
	for _, k := range m.Keys {
		heirs := vkeys(m.log.heirs([]ledger.LogKey{k}))
		if !slices.ContainsFunc(heirs, func(vkey string) bool { return slices.Contains(remembered.Keys, vkey) }) {
			return refusal.Newf(refusal.CheckpointInvalid, "the key %s is not one that may sign the registry that was seen before; those are %q", vkeys([]ledger.LogKey{k})[0], remembered.Keys).
				WithHint("this may be another registry at the same address; look at it with another --state")
		}
	}
	return nil
}
