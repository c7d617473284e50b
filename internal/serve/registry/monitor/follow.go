package monitor

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/format"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/store"
	"tallystick/internal/serve/registry/client"
)

// pageOfEntries is how many entries are asked for at once.
const pageOfEntries = 500

// follow reads the newest checkpoint and every entry since the one that was seen
// before, and verifies both. What does not fit is an alarm, and then nothing new is
// remembered.
func (m *Monitor) follow(ctx context.Context) error {
	offered, err := m.checkpoint(ctx)
	if err != nil {
		return err
	}
	if err := m.begin(offered); err != nil {
		return err
	}
	head, err := m.claimed(offered)
	if err != nil {
		return err
	}
	m.offered = offered
	if head.Size <= m.memory.Size {
		return m.notLonger(offered, head)
	}
	fresh, err := m.fetch(ctx, m.memory.Size, head.Size)
	if err != nil {
		return err
	}
	for _, raw := range fresh {
		if err := m.apply(raw); err != nil {
			return err
		}
	}
	if m.log.chain.Root() != head.Root {
		return m.entriesDiffer(ctx, offered, head)
	}
	keys := m.log.operators(head.Size)
	if _, err := ledger.VerifyCheckpoint(offered, m.policy(keys)); err != nil {
		return fmt.Errorf("the registry's checkpoint of %d entries: %w", head.Size, err)
	}
	if err := saveEntries(m.Dir, m.memory.Size, fresh); err != nil {
		return err
	}
	m.memory.Size, m.memory.Root, m.memory.Checkpoint, m.memory.Keys = head.Size, head.Root.String(), string(offered), vkeys(keys)
	return m.memory.save(m.Dir)
}

func (m *Monitor) checkpoint(ctx context.Context) ([]byte, error) {
	a, err := m.Client.Get(ctx, client.CheckpointPath)
	if err != nil {
		return nil, err
	}
	if a.Status != http.StatusOK {
		return nil, a.Err()
	}
	return a.Body, nil
}

// claimed reads the tree head of a signed note, whose signature is not checked.
func (m *Monitor) claimed(note []byte) (ledger.TreeHead, error) {
	head, err := treeHead(note)
	if err == nil && head.Origin != m.memory.Origin {
		return head, refusal.Newf(refusal.CheckpointInvalid, "the registry's checkpoint is of the ledger %q; seen before was %q", head.Origin, m.memory.Origin).
			WithHint("this is another registry; follow it with another --state")
	}
	return head, err
}

func treeHead(note []byte) (ledger.TreeHead, error) {
	text, _, found := strings.Cut(string(note), "\n\n")
	if !found {
		return ledger.TreeHead{}, refusal.Newf(refusal.CheckpointInvalid, "the registry's checkpoint is not a signed note")
	}
	head, err := ledger.ParseTreeHead(text + "\n")
	if err != nil {
		return head, refusal.Newf(refusal.CheckpointInvalid, "the registry's checkpoint: %w", err)
	}
	return head, nil
}

// begin starts the memory of a registry that was never looked at: the checkpoint
// must be signed by a key that was named, or else by an operator that its own first
// entry names, which is then remembered and said.
func (m *Monitor) begin(offered []byte) error {
	if m.memory != nil {
		return nil
	}
	head, err := treeHead(offered)
	if err != nil {
		return err
	}
	m.memory = &memory{Schema: memorySchema, Address: m.Client.Address(), Origin: head.Origin, FirstUse: len(m.Keys) == 0}
	m.log = newLog(head.Origin)
	m.state = newReplay(m.log)
	return store.MakeDir(store.OS{}, m.Dir, 0o700)
}

// policy says whose checkpoints are trusted: at the first look the keys that were
// named and those that they handed the ledger over to, as far as they are operators
// now; afterwards the operators of the verified ledger.
func (m *Monitor) policy(operators []ledger.LogKey) ledger.Policy {
	p := m.Witnesses
	p.Logs = operators
	if m.memory.Size == 0 && len(m.Keys) > 0 {
		p.Logs = nil
		for _, k := range m.log.heirs(m.Keys) {
			if slices.ContainsFunc(operators, func(o ledger.LogKey) bool { return o.Key.Equal(k.Key) }) {
				p.Logs = append(p.Logs, k)
			}
		}
		if len(p.Logs) == 0 {
			p.Logs = m.Keys // so that the refusal names them
		}
	}
	return p
}

func vkeys(keys []ledger.LogKey) []string {
	var out []string
	for _, k := range keys {
		out = append(out, seal.VKey(k.Key, k.Origin))
	}
	return out
}

// notLonger handles a checkpoint that has no more entries than were seen: the same
// one again, a fork, or a rollback.
func (m *Monitor) notLonger(offered []byte, head ledger.TreeHead) error {
	if _, err := ledger.VerifyCheckpoint(offered, ledger.Policy{Logs: m.log.operators(head.Size), Witnesses: m.Witnesses.Witnesses, Quorum: m.Witnesses.Quorum}); err != nil {
		return fmt.Errorf("the registry's checkpoint of %d entries: %w", head.Size, err)
	}
	root, err := m.log.tree.Root(head.Size)
	if err != nil {
		return err
	}
	switch {
	case root != head.Root:
		return m.alarm(refusal.HistoryForked, offered,
			fmt.Sprintf("FORK: the first %d entries had the root %s; the registry now signs %s for them", head.Size, root, head.Root),
			"two histories cannot both be true")
	case head.Size < m.memory.Size:
		return m.alarm(refusal.HistoryRolledBack, offered,
			fmt.Sprintf("ROLLBACK: %d entries were signed, root %s; the registry now shows %d, root %s", m.memory.Size, m.memory.Root, head.Size, head.Root),
			"entries were taken away, or an old checkpoint is served")
	}
	return nil
}

// entriesDiffer tells what it means that the entries do not give the root: the tree
// itself is another one, or only the entries that are served are.
func (m *Monitor) entriesDiffer(ctx context.Context, offered []byte, head ledger.TreeHead) error {
	if _, err := ledger.VerifyCheckpoint(offered, m.policy(m.log.operators(head.Size))); err != nil {
		return fmt.Errorf("the registry's checkpoint of %d entries: %w", head.Size, err)
	}
	if m.memory.Size > 0 {
		before, err := m.memory.root()
		if err != nil {
			return damaged(m.Dir, err)
		}
		root, err := ledger.RootAt(head, m.memory.Size, func(path string) ([]byte, error) { return m.tile(ctx, path) })
		if err == nil && root != before {
			return m.alarm(refusal.HistoryForked, offered,
				fmt.Sprintf("FORK: the first %d entries had the root %s; in the tree of %d entries that is signed now they have %s", m.memory.Size, before, head.Size, root),
				"history was rewritten after it was published")
		}
	}
	return m.alarm(refusal.ChainTamperDetected, offered,
		fmt.Sprintf("the entries that the registry serves have the root %s; it signed %s for %d of them", m.log.chain.Root(), head.Root, head.Size),
		"it shows other entries than it signed, or history before the ones that were seen was rewritten")
}

func (m *Monitor) tile(ctx context.Context, path string) ([]byte, error) {
	a, err := m.Client.Get(ctx, "/"+path)
	if err != nil {
		return nil, err
	}
	if a.Status != http.StatusOK {
		return nil, a.Err()
	}
	return a.Body, nil
}

// fetch reads the entries in [from, to).
func (m *Monitor) fetch(ctx context.Context, from, to int64) ([][]byte, error) {
	var all [][]byte
	for next := from; next < to; {
		page, err := m.page(ctx, next, min(to-next, pageOfEntries))
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		next += int64(len(page))
	}
	return all, nil
}

func (m *Monitor) page(ctx context.Context, from, n int64) ([][]byte, error) {
	a, err := m.Client.Get(ctx, client.EntriesPath(from, n))
	if err != nil {
		return nil, err
	}
	if a.Status != http.StatusOK {
		return nil, a.Err()
	}
	lines := strings.Split(strings.TrimSuffix(string(a.Body), "\n"), "\n")
	if !bytes.HasSuffix(a.Body, []byte("\n")) || int64(len(lines)) > n {
		return nil, refusal.Newf(refusal.EntryInvalid, "the registry was asked for the entries %d to %d and serves %d; its checkpoint covers them", from, from+n-1, len(lines)).
			WithHint("it hides entries that it signed")
	}
	page := make([][]byte, len(lines))
	for i, l := range lines {
		page[i] = []byte(l)
	}
	return page, nil
}

// apply adds one entry to the log and to what follows from it.
func (m *Monitor) apply(raw []byte) error {
	position, entry, body, err := m.log.add(raw)
	if err != nil {
		return err
	}
	m.state.apply(position.Index, entry, body)
	if !m.rowsOnly {
		m.ahead = append(m.ahead, bytes.Clone(raw))
	}
	return nil
}

// An alarmFile keeps what an alarm is about, so that it can be shown to others.
type alarmFile struct {
	Schema  string        `json:"schema"`
	Address string        `json:"address"`
	Name    refusal.Name  `json:"name"`
	Message string        `json:"message"`
	Seen    evidence.Time `json:"seen"`
	Known   string        `json:"known"`   // the signed checkpoint that was remembered
	Offered string        `json:"offered"` // the signed checkpoint that does not go with it
}

// alarm saves both signed checkpoints and returns the refusal.
func (m *Monitor) alarm(name refusal.Name, offered []byte, message, meaning string) error {
	saved, err := m.saveAlarm(alarmFile{
		Schema: "tallystick-registry-alarm/" + format.Version, Address: m.Client.Address(), Name: name, Message: message, Seen: evidence.At(m.Now()),
		Known: m.memory.Checkpoint, Offered: string(offered),
	})
	if err != nil {
		saved = "no file: " + err.Error()
	}
	return refusal.Newf(name, "%s", message).WithHint("%s; both signed checkpoints are in %s", meaning, saved)
}

// saveAlarm writes the file once; the same alarm again is the same file.
func (m *Monitor) saveAlarm(a alarmFile) (string, error) {
	sum := sha256.Sum256([]byte(a.Known + a.Offered + a.Message))
	path := filepath.Join(m.Dir, "alarms", hex.EncodeToString(sum[:8])+".json")
	data, err := canon.Marshal(a)
	if err != nil {
		return "", err
	}
	if err := store.MakeDir(store.OS{}, filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	if err := store.CreateFile(store.OS{}, path, append(data, '\n'), 0o600); err != nil && !refusal.Is(err, refusal.AlreadyExists) {
		return "", err
	}
	return path, nil
}
