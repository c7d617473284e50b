// Package dossier reads a workspace: who is trusted in it, what its ledger says,
// what its evidence is, and what can be proved of both.
//
// Everything starts from a [Place]. [Place.Read] verifies the ledger once and
// gathers what was asked for into a [Reading], which continues as the ledger grows;
// [Place.ReadCorpus] finds out on the same way who is trusted. What a Place returns has been verified against
// the published anchors, this machine's memory and the trust root, or is an
// error; evidence of an attack leaves an alarm behind before it is returned.
//
// A [Dossier] is one attempt with its cases and their evidence, and only a Reading
// makes one. It reads evidence when it is asked. The audience is in the type: what
// decides takes a [Whole], whose bytes were all read and verified; what leaves the
// workspace takes a [Public], in which the texts of held-out cases do not exist.
//
// What is shown and decides nothing may come from a cache: [Reading.ForDisplay].
// Everything else is derived anew from bytes whose digests were checked.
//
// Where it stops: it runs nothing, and writes only alarms and the proofs that
// belong to them, and cached rows. What people are told of a workspace is in package
// answer, what leaves it in package outgoing; what people do to it in package
// ceremony, running an attempt in package lab.
package dossier

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"tallystick/internal/record/bucket"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/mirror"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/sequencer"
	"tallystick/internal/record/store"
	"tallystick/internal/record/workspace"
)

// LockWait is how long a command waits for another writer before it says so.
const LockWait = 10 * time.Second

// A World is what the code that works on a workspace may ask of its
// surroundings. Tests give their own.
type World struct {
	Getenv func(string) string
	Now    func() time.Time
	// Note tells a person how the work is going; it is never the answer.
	Note func(format string, args ...any)
	// FS is where ledger and evidence are read; nil means the disk.
	FS store.FS
	// Store opens the store of a ledger that is not in the workspace's folder; nil
	// if this program cannot.
	Store bucket.Opener
	// Lease is how long a silent writer of such a store is believed to be alive; 0
	// means as long as package mirror says.
	Lease time.Duration
}

// A Place is a workspace and the world it is looked at from.
type Place struct {
	*workspace.Workspace
	World

	// ReadFor is the boundary that the ledger is read for, which events about it
	// name; "" for that between the harness and the ledger.
	ReadFor string

	linked sync.Once
	link   *mirror.Link // see [Place.Link]
}

// Open reads the settings of the workspace in dir.
func Open(dir string, world World) (*Place, error) {
	w, err := workspace.Load(dir)
	if err != nil {
		return nil, err
	}
	return &Place{Workspace: w, World: world}, nil
}

// RecommendationsDir is the folder of recommendation files.
func (p *Place) RecommendationsDir() string { return p.Private("recommendations") }

// RunsDir is the folder of the kept answers of runs.
func (p *Place) RunsDir() string { return p.Private("runs") }

func (p *Place) fs() store.FS {
	if p.FS == nil {
		return store.OS{}
	}
	return p.FS
}

// Sequencer says where the workspace's ledger is. If that is a store, the folder is
// brought up to date first.
func (p *Place) Sequencer() (sequencer.Place, error) {
	link, err := p.Link()
	if err != nil {
		return sequencer.Place{}, err
	}
	if err := p.Alarm(link.PullOnce()); err != nil {
		return sequencer.Place{}, err
	}
	return p.folder() // a checkout may have begun a ledger of its own since
}

func (p *Place) folder() (sequencer.Place, error) {
	state, err := workspace.StateDir(p.Getenv)
	if err != nil {
		return sequencer.Place{}, err
	}
	return sequencer.Place{FS: p.fs(), Dir: p.LedgerDir(), StateDir: state, Anchors: p.AnchorsDir(), Checkpoints: p.CheckpointsDir()}, nil
}

// OperatorKey reads the operator's key: TALLY_OPERATOR_KEY, or the workspace's.
func (p *Place) OperatorKey() (*seal.Key, error) {
	path := p.Getenv("TALLY_OPERATOR_KEY")
	switch {
	case p.Shared != nil:
		path = p.CheckoutKey() // its ledger knows no other operator
	case path == "":
		path = filepath.Join(p.KeysDir(), "operator")
	}
	key, err := seal.LoadKey(path)
	if err != nil {
		return nil, fmt.Errorf("operator key: %w", err)
	}
	return key, nil
}

// Config is what opening the workspace's ledger for writing needs.
func (p *Place) Config() (sequencer.Config, error) {
	place, err := p.Sequencer()
	if err != nil {
		return sequencer.Config{}, err
	}
	if fresh, err := p.Fresh(); err != nil {
		return sequencer.Config{}, err
	} else if fresh {
		return sequencer.Config{}, p.noLedger()
	}
	key, err := p.OperatorKey()
	if err != nil {
		return sequencer.Config{}, err
	}
	return sequencer.Config{Place: place, Origin: p.Settings.Origin, TrustRoot: p.Settings.TrustRoot, Key: key, Now: p.Now}, nil
}

// OpenLedger opens the workspace's ledger for appending. If its evidence does
// not verify an alarm is left, because the ledger cannot take a record of it.
func (p *Place) OpenLedger(ctx context.Context) (*sequencer.Ledger, error) {
	return p.OpenLedgerWithin(ctx, LockWait)
}

// OpenLedgerWithin is OpenLedger for a caller who waits longer, or not at all.
func (p *Place) OpenLedgerWithin(ctx context.Context, wait time.Duration) (*sequencer.Ledger, error) {
	cfg, err := p.Config()
	if err != nil {
		return nil, err
	}
	return p.OpenWith(ctx, cfg, wait)
}

// OpenWith opens the ledger with a config of [Place.Config] that the caller
// added something to.
func (p *Place) OpenWith(ctx context.Context, cfg sequencer.Config, wait time.Duration) (*sequencer.Ledger, error) {
	l, err := p.link.Open(ctx, cfg, wait)
	if err != nil {
		return nil, p.Alarm(err)
	}
	return l, nil
}

// Append appends one record to the ledger.
func (p *Place) Append(ctx context.Context, kind evidence.Kind, record evidence.Body) (ledger.Position, error) {
	return appendTo(p.OpenLedger(ctx))(kind, record)
}

// AppendAfter appends an event and then the record that it announces.
func (p *Place) AppendAfter(ctx context.Context, event evidence.IntegrityEvent, kind evidence.Kind, record evidence.Body) (ledger.Position, error) {
	return appendTo(p.OpenLedger(ctx))(evidence.IntegrityEventKind, &event, entry{kind, record})
}

// An entry is a record and its kind.
type entry struct {
	kind   evidence.Kind
	record evidence.Body
}

// appendTo appends records to a ledger that was just opened, and closes it. It
// returns where the last of them is.
func appendTo(l *sequencer.Ledger, err error) func(kind evidence.Kind, record evidence.Body, more ...entry) (ledger.Position, error) {
	return func(kind evidence.Kind, record evidence.Body, more ...entry) (ledger.Position, error) {
		if err != nil {
			return ledger.Position{}, err
		}
		pos, err := l.AppendRecord(kind, record)
		for _, e := range more {
			if err == nil {
				pos, err = l.AppendRecord(e.kind, e.record)
			}
		}
		if cerr := l.Close(); err == nil {
			err = cerr
		}
		return pos, err
	}
}

// An Alarm is an error that left an alarm behind. Block is the text that a
// person must not miss.
type Alarm struct {
	Err   error
	Block string
}

func (a *Alarm) Error() string { return a.Err.Error() }

// Unwrap gives the refusal that raised the alarm.
func (a *Alarm) Unwrap() error { return a.Err }

// Alarm records a refusal that the ledger itself cannot record, with proof of a
// fork if there is one. It returns err as an [Alarm], so that a caller can end
// with it; other errors it returns as they are.
func (p *Place) Alarm(err error) error {
	if a := (*Alarm)(nil); refusal.ExitCode(err) != refusal.ExitUnverified || errors.As(err, &a) {
		return err
	}
	proof := p.saveFork(err)
	p.Raise(evidence.IntegrityEvent{Name: string(refusal.Of(err).Name), Severity: evidence.Block, Boundary: cmp.Or(p.ReadFor, ledgerBoundary), Detail: err.Error()})
	return &Alarm{err, securityBlock(err, proof)}
}

// Raise writes an alarm.
func (p *Place) Raise(event evidence.IntegrityEvent) {
	line, err := canon.Marshal(struct {
		Event evidence.IntegrityEvent `json:"event"`
		Time  evidence.Time           `json:"time"`
	}{event, evidence.At(p.Now())})
	if err == nil {
		err = store.AppendLine(store.OS{}, p.AlarmsFile(), line)
	}
	if err != nil {
		p.Note("the alarm could not be written to %s: %v", p.AlarmsFile(), err)
	}
}

// forkProof is what is kept when two histories cannot both be true.
type forkProof struct {
	Source   string `json:"source"`
	Expected string `json:"expected"` // checkpoint text
	Found    string `json:"found"`
	Detail   string `json:"detail"`
}

// saveFork saves both sides of a fork and returns the file's name, or "".
func (p *Place) saveFork(err error) string {
	var problem *ledger.Problem
	if !errors.As(err, &problem) || problem.Fork == nil {
		return ""
	}
	fork := problem.Fork
	data, merr := canon.Marshal(forkProof{fork.Source, fork.Expected.Text(), fork.Found.Text(), problem.Detail})
	if merr != nil {
		return ""
	}
	id := digest.IDOf(data)
	name := filepath.Join(p.EvidenceDir(), fmt.Sprintf("fork-%d-%s.json", fork.Expected.Size, hex.EncodeToString(id[:4])))
	if store.MakeDir(store.OS{}, p.EvidenceDir(), 0o700) != nil || store.WriteFile(store.OS{}, name, append(data, '\n'), 0o600) != nil {
		return ""
	}
	return name
}

// securityBlock is the fixed form in which evidence of an attack is shown.
func securityBlock(err error, proof string) string {
	var p *ledger.Problem
	var b strings.Builder
	b.WriteString("SECURITY ERROR\n")
	if !errors.As(err, &p) || p.Fork == nil {
		b.WriteString("The evidence in this workspace does NOT verify. Nothing was written.\n")
		return b.String()
	}
	fmt.Fprintf(&b, "This ledger does NOT extend %s.\n", p.Fork.Source)
	if p.Fork.Expected.Origin == "" { // only the length is known
		fmt.Fprintf(&b, "    expected: %d entries or more\n", p.Fork.Expected.Size)
	} else {
		fmt.Fprintf(&b, "    expected: %d entries, root %s\n", p.Fork.Expected.Size, p.Fork.Expected.Root)
	}
	fmt.Fprintf(&b, "    found:    %d entries, root %s\n", p.Fork.Found.Size, p.Fork.Found.Root)
	if p.Fork.Vanished() {
		fmt.Fprintf(&b, "There is no ledger here: it was taken away, or this is another clone and the ledger of %s is kept elsewhere.\n", p.Fork.Found.Origin)
	} else {
		b.WriteString("Someone rewrote history after it was signed or published, or this is a different ledger.\n")
	}
	if proof != "" {
		fmt.Fprintf(&b, "Both heads were saved to %s. See \"tally help forks\".\n", proof)
	}
	return b.String()
}
