package cli

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tallystick/internal/canon"
	"tallystick/internal/digest"
	"tallystick/internal/evidence"
	"tallystick/internal/ledger"
	"tallystick/internal/plain"
	"tallystick/internal/refusal"
	"tallystick/internal/seal"
	"tallystick/internal/sequencer"
	"tallystick/internal/store"
	"tallystick/internal/workspace"
)

// lockWait is how long a command waits for another writer before it says so.
const lockWait = 10 * time.Second

// loadWorkspace finds the workspace and reads its settings.
func (e *Env) loadWorkspace() (*workspace.Workspace, error) {
	dir, err := e.Workspace()
	if err != nil {
		return nil, err
	}
	return workspace.Load(dir)
}

// place says where the workspace's ledger is.
func (e *Env) place(w *workspace.Workspace) (sequencer.Place, error) {
	state, err := workspace.StateDir(e.Getenv)
	if err != nil {
		return sequencer.Place{}, err
	}
	return sequencer.Place{FS: store.OS{}, Dir: w.LedgerDir(), StateDir: state, Anchors: w.AnchorsDir()}, nil
}

// operatorKey reads the operator's key: TALLY_OPERATOR_KEY, or the workspace's.
func (e *Env) operatorKey(w *workspace.Workspace) (*seal.Key, error) {
	path := e.Getenv("TALLY_OPERATOR_KEY")
	if path == "" {
		path = filepath.Join(w.KeysDir(), "operator")
	}
	key, err := seal.LoadKey(path)
	if err != nil {
		return nil, fmt.Errorf("operator key: %w", err)
	}
	return key, nil
}

// config is what opening the workspace's ledger for writing needs.
func (e *Env) config(w *workspace.Workspace) (sequencer.Config, error) {
	place, err := e.place(w)
	if err != nil {
		return sequencer.Config{}, err
	}
	// A workspace comes out of git without its ledger and its keys, which is not
	// the same as one that has lost them: there is something else to do.
	if _, err := os.Lstat(w.LedgerDir()); fileExists(w.Path(workspace.SettingsFile)) && errors.Is(err, fs.ErrNotExist) {
		return sequencer.Config{}, refusal.Newf(refusal.NotFound, "this workspace has no ledger: there is no %s", w.LedgerDir()).
			WithHint(`the ledger stays on the machine where it was begun; in a fresh checkout, as in CI, begin one for the job with "tally init DIR" and copy bench and targets into it`)
	}
	key, err := e.operatorKey(w)
	if err != nil {
		return sequencer.Config{}, err
	}
	return sequencer.Config{Place: place, Origin: w.Settings.Origin, TrustRoot: w.Settings.TrustRoot, Key: key, Now: e.Now}, nil
}

// openLedger opens the workspace's ledger for appending. If its evidence does
// not verify an alarm is left, because the ledger cannot take a record of it.
func (e *Env) openLedger(ctx context.Context, w *workspace.Workspace) (*sequencer.Ledger, error) {
	return e.openLedgerWithin(ctx, w, lockWait)
}

// openLedgerWithin is openLedger for who waits longer, or not at all.
func (e *Env) openLedgerWithin(ctx context.Context, w *workspace.Workspace, wait time.Duration) (*sequencer.Ledger, error) {
	cfg, err := e.config(w)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	l, err := sequencer.Open(ctx, cfg)
	if err != nil {
		return nil, e.alarm(w, err)
	}
	return l, nil
}

// alarm records a refusal that the ledger itself cannot record, and prints the
// block that is kept for evidence of an attack. It returns err, so that a
// caller can end with it.
func (e *Env) alarm(w *workspace.Workspace, err error) error {
	if refusal.ExitCode(err) != refusal.ExitUnverified {
		return err
	}
	proof := e.saveFork(w, err)
	event := evidence.IntegrityEvent{Name: string(refusal.Of(err).Name), Severity: evidence.Block, Boundary: "TB-4", Detail: err.Error()}
	line, merr := canon.Marshal(struct {
		Event evidence.IntegrityEvent `json:"event"`
		Time  evidence.Time           `json:"time"`
	}{event, evidence.At(e.Now())})
	if merr == nil {
		merr = store.AppendLine(store.OS{}, w.AlarmsFile(), line)
	}
	if merr != nil {
		e.Note("the alarm could not be written to %s: %v", w.AlarmsFile(), merr)
	}
	if !e.JSON {
		io.WriteString(e.Stderr, plain.Block(securityBlock(err, proof)))
	}
	return err
}

// forkProof is what is kept when two histories cannot both be true.
type forkProof struct {
	Source   string `json:"source"`
	Expected string `json:"expected"` // checkpoint text
	Found    string `json:"found"`
	Detail   string `json:"detail"`
}

// saveFork saves both sides of a fork and returns the file's name, or "".
func (e *Env) saveFork(w *workspace.Workspace, err error) string {
	var p *ledger.Problem
	if !errors.As(err, &p) || p.Fork == nil {
		return ""
	}
	data, merr := canon.Marshal(forkProof{p.Fork.Source, p.Fork.Expected.Text(), p.Fork.Found.Text(), p.Detail})
	if merr != nil {
		return ""
	}
	id := digest.IDOf(data)
	name := filepath.Join(w.EvidenceDir(), fmt.Sprintf("fork-%d-%s.json", p.Fork.Expected.Size, hex.EncodeToString(id[:4])))
	if store.MakeDir(store.OS{}, w.EvidenceDir(), 0o700) != nil || store.WriteFile(store.OS{}, name, append(data, '\n'), 0o600) != nil {
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
	fmt.Fprintf(&b, "    expected: %d entries, root %s\n", p.Fork.Expected.Size, p.Fork.Expected.Root)
	fmt.Fprintf(&b, "    found:    %d entries, root %s\n", p.Fork.Found.Size, p.Fork.Found.Root)
	if p.Fork.Vanished() {
		fmt.Fprintf(&b, "There is no ledger here: it was taken away, or this is another clone and the ledger of %s is kept elsewhere.\n", p.Fork.Expected.Origin)
	} else {
		b.WriteString("Someone rewrote history after it was signed or published, or this is a different ledger.\n")
	}
	if proof != "" {
		fmt.Fprintf(&b, "Both heads were saved to %s. See \"tally help forks\".\n", proof)
	}
	return b.String()
}
