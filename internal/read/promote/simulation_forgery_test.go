package promote_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tallystick/internal/read/history"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/sequencer"
)

// A scene is a copy of the honest month for one forger to work on. Files are
// shared with the others, so a forger replaces them and never writes into one.
type scene struct {
	*testing.T
	honest *month
	cfg    sequencer.Config
	dir    string
}

// A month is an honest month as forgers find it.
type month struct {
	*world
	entries  [][]byte // as the ledger has them
	segments []string // names, one for each day
	history  *history.History
}

// segmentName is the file that begins with an entry.
func segmentName(first int) string { return fmt.Sprintf("%016d.log", first) }

// splitDays cuts the ledger's segments anew, after the last seal of each day, so
// that there are some to take out and to replace. It stays the same ledger.
func (w *world) splitDays() *month {
	w.Helper()
	m := &month{world: w}
	files, err := os.ReadDir(w.cfg.SegmentsDir()) // in the order of their names
	w.must(err)
	var data, segment []byte
	for _, f := range files {
		name := filepath.Join(w.cfg.SegmentsDir(), f.Name())
		part, err := os.ReadFile(name)
		w.must(err)
		w.must(os.Remove(name))
		data = append(data, part...)
	}
	first, today := 0, ""
	flush := func() {
		if len(segment) > 0 {
			m.segments = append(m.segments, segmentName(first))
			w.must(os.WriteFile(filepath.Join(w.cfg.SegmentsDir(), segmentName(first)), segment, 0o600))
		}
		segment, first = nil, len(m.entries)
	}
	sealed := true
	for _, line := range bytes.SplitAfter(data, []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		text := line[17 : len(line)-1]
		if text[0] == '{' {
			env, err := evidence.SplitEntry(text)
			w.must(err)
			if date := env.Time.Date(); sealed && date != today {
				flush()
				today = date
			}
			m.entries = append(m.entries, text)
		}
		sealed = text[0] == '~'
		segment = append(segment, line...)
	}
	flush()
	return m
}

// scene makes the copy.
func (m *month) scene(t *testing.T) *scene {
	t.Helper()
	s := &scene{T: t, honest: m, cfg: m.cfg, dir: t.TempDir()}
	s.cfg.Dir, s.cfg.StateDir, s.cfg.Anchors = filepath.Join(s.dir, "ledger"), filepath.Join(s.dir, "state"), filepath.Join(s.dir, "anchors")
	s.cfg.Key = keyOf(t, "olga")
	s.link(m.cfg.SegmentsDir(), s.cfg.SegmentsDir())
	s.link(m.cfg.Anchors, s.cfg.Anchors)
	// These are written to when the ledger is opened.
	last := m.segments[len(m.segments)-1]
	s.replace(filepath.Join(s.cfg.SegmentsDir(), last), s.read(filepath.Join(m.cfg.SegmentsDir(), last)))
	s.must(os.CopyFS(s.cfg.StateDir, os.DirFS(m.cfg.StateDir)))
	return s
}

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *scene) link(from, to string) {
	s.Helper()
	s.must(os.MkdirAll(to, 0o700))
	entries, err := os.ReadDir(from)
	s.must(err)
	for _, e := range entries {
		s.must(os.Link(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())))
	}
}

func (s *scene) read(name string) []byte {
	s.Helper()
	data, err := os.ReadFile(name)
	s.must(err)
	return data
}

func (s *scene) replace(name string, data []byte) {
	s.Helper()
	if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
		s.Fatal(err)
	}
	s.must(os.WriteFile(name, data, 0o600))
}

// segment is the file of a day, counted from 1.
func (s *scene) segment(d int) string {
	return filepath.Join(s.cfg.SegmentsDir(), s.honest.segments[d-1])
}

// lines changes the lines of a day.
func (s *scene) lines(d int, change func(lines [][]byte) [][]byte) {
	s.Helper()
	lines := bytes.SplitAfter(s.read(s.segment(d)), []byte("\n"))
	changed := change(slices.Clone(lines[:len(lines)-1]))
	s.replace(s.segment(d), bytes.Join(changed, nil))
}

// find returns the place of the n-th line that holds all of the texts.
func (s *scene) find(lines [][]byte, n int, texts ...string) int {
	s.Helper()
	for i, l := range lines {
		has := true
		for _, text := range texts {
			has = has && bytes.Contains(l, []byte(text))
		}
		if has {
			if n--; n == 0 {
				return i
			}
		}
	}
	s.Fatalf("no line with %q", texts)
	return 0
}

const scoredKind = `"kind":"case.scored"`

// cutAfter drops everything after a day: what an old copy of the folder has.
func (s *scene) cutAfter(d int) {
	s.Helper()
	for i := d + 1; i <= len(s.honest.segments); i++ {
		s.must(os.Remove(s.segment(i)))
	}
}

// oldAnchors drops the anchors after a day.
func (s *scene) oldAnchors(d int) {
	s.Helper()
	for i := d; i < 30; i++ {
		s.must(os.Remove(s.anchor(i + 1)))
	}
}

func (s *scene) anchor(d int) string {
	return filepath.Join(s.cfg.Anchors, firstDay.Add(time.Duration(d-1)*day).Format(time.DateOnly)+".json")
}

// editAnchor changes an anchor, and has a signer sign it anew if a name is
// given.
func (s *scene) editAnchor(d int, signer string, edit func(*ledger.Anchor)) {
	s.Helper()
	a, err := ledger.ParseAnchor(s.read(s.anchor(d)))
	s.must(err)
	edit(a)
	if signer != "" {
		message, err := a.Message()
		s.must(err)
		sig, err := seal.SignWith(keyOf(s, signer).Signer(), seal.NamespaceAnchor, message)
		s.must(err)
		a.Signature = string(sig)
	}
	data, err := a.Marshal()
	s.must(err)
	s.replace(s.anchor(d), data)
}

// rewrite is what the holder of a key can do: other entries, chained and sealed
// as if they had always been so.
func (s *scene) rewrite(signer string, edit func(entries [][]byte) [][]byte) {
	s.Helper()
	for i := range s.honest.segments {
		s.must(os.Remove(s.segment(i + 1)))
	}
	s.replace(filepath.Join(s.cfg.SegmentsDir(), segmentName(0)), s.sealed(signer, edit(slices.Clone(s.honest.entries))))
}

func (s *scene) sealed(signer string, entries [][]byte) []byte {
	s.Helper()
	note, err := seal.NoteSigner(keyOf(s, signer), simOrigin)
	s.must(err)
	chain := ledger.NewChain(simOrigin)
	var out []byte
	for i, e := range entries {
		pos := chain.Append(digest.ContentOf(e))
		out = ledger.AppendEntryLine(out, e, pos.Head)
		// A change of signers ends its batch.
		if i%1000 != 999 && i != len(entries)-1 && !bytes.Contains(e, []byte(`"kind":"signers.changed"`)) {
			continue
		}
		sig, err := note.Sign([]byte(ledger.TreeHead{Origin: simOrigin, Size: chain.Size(), Root: chain.Root()}.Text()))
		s.must(err)
		hash := note.KeyHash()
		out = ledger.AppendSealLine(out, chain.Size(), chain.Head(), append([]byte{byte(hash >> 24), byte(hash >> 16), byte(hash >> 8), byte(hash)}, sig...))
	}
	return out
}

// raise makes the first failed record of the ledger a passed one.
func raise(entries [][]byte) [][]byte {
	for i, e := range entries {
		if bytes.Contains(e, []byte(scoredKind)) && bytes.Contains(e, []byte(`"outcome":"failed"`)) {
			e = bytes.Replace(e, []byte(`"outcome":"failed"`), []byte(`"outcome":"passed"`), 1)
			e = bytes.Replace(e, []byte(`"passed":false,"score":0`), []byte(`"passed":true,"score":1`), 1)
			entries[i] = e
			return entries
		}
	}
	return entries
}

// reanchor publishes anchors of the rewritten history, one for each day, as the
// operator. The witness did not cosign them.
func (s *scene) reanchor() {
	s.Helper()
	sizes := map[int64]int{}
	for d := 1; d <= 30; d++ {
		a, err := ledger.ParseAnchor(s.read(s.anchor(d)))
		s.must(err)
		sizes[a.Size] = d
	}
	chain := ledger.NewChain(simOrigin)
	note, err := seal.NoteSigner(s.cfg.Key, simOrigin)
	s.must(err)
	_, err = s.cfg.Verify(ledger.Options{Origin: simOrigin, TrustRoot: s.cfg.TrustRoot, Visit: func(r ledger.Record) error {
		chain.Append(r.Content)
		d, ok := sizes[chain.Size()]
		if !ok {
			return nil
		}
		head := ledger.TreeHead{Origin: simOrigin, Size: chain.Size(), Root: chain.Root()}
		sig, err := note.Sign([]byte(head.Text()))
		s.must(err)
		hash := note.KeyHash()
		checkpoint := ledger.AssembleCheckpoint(head, append([]byte{byte(hash >> 24), byte(hash >> 16), byte(hash >> 8), byte(hash)}, sig...))
		s.editAnchor(d, "olga", func(a *ledger.Anchor) {
			*a = *ledger.NewAnchor(head, chain.Head(), checkpoint, a.PublishedAt.Go())
		})
		return nil
	}})
	s.must(err)
}

// nameOf is the refusal of an error, "" for none.
func nameOf(err error) refusal.Name {
	if err == nil {
		return ""
	}
	return refusal.Of(err).Name
}

func (s *scene) verify(expect ...ledger.Expectation) refusal.Name {
	s.Helper()
	_, err := s.cfg.Verify(ledger.Options{Origin: simOrigin, TrustRoot: s.cfg.TrustRoot, Expect: expect})
	return nameOf(err)
}

// byMemory is what this machine's memory of what it signed finds.
func (s *scene) byMemory() refusal.Name {
	s.Helper()
	head, err := sequencer.Remembered(unsynced{}, s.cfg.StateDir, simOrigin)
	if err != nil || head == nil {
		return nameOf(err)
	}
	return s.verify(sequencer.MemoryExpectation(*head))
}

// byAnchors is what the anchors in a folder find.
func (s *scene) byAnchors(dir string) refusal.Name {
	s.Helper()
	files, err := sequencer.LoadAnchors(unsynced{}, dir)
	if err != nil {
		return nameOf(err)
	}
	return s.verify(sequencer.AnchorExpectations(files)...)
}

// byWitness is what the witness says when the ledger is published from a
// machine that knows nothing.
func (s *scene) byWitness() refusal.Name {
	s.Helper()
	cfg := s.cfg
	cfg.StateDir, cfg.Anchors = s.TempDir(), s.TempDir()
	l, err := sequencer.Open(context.Background(), cfg)
	s.must(err)
	defer l.Close()
	_, err = l.PublishAnchor(context.Background(), []sequencer.Cosigner{s.honest.witness})
	return nameOf(err)
}

// forgeries tries to tamper with the files of an honest month in every way that
// we know. Each row says what finds it. The ledger alone finds what was done
// without an operator's key; for the rest it takes something that the forger
// does not hold: the memory of the machine, anchors that are still there, a copy
// of the anchors in git, a witness.
func forgeries(t *testing.T, m *month) {
	const found = refusal.ChainTamperDetected
	type finds struct {
		alone                     refusal.Name // the ledger's own chain and seals
		memory, anchors, git, wit refusal.Name // and with these, if it alone does not
		opening                   refusal.Name // opening it for writing, if asked
	}
	insert := func(lines [][]byte, at int, l []byte) [][]byte { return slices.Insert(lines, at, l) }
	for _, tt := range []struct {
		name  string
		forge func(s *scene)
		finds finds
	}{
		// Without a key.
		{"nothing at all", func(*scene) {}, finds{}},
		{"an entry edited", func(s *scene) {
			s.lines(12, func(ls [][]byte) [][]byte {
				i := s.find(ls, 3, scoredKind, `"outcome":"failed"`)
				ls[i] = bytes.Replace(ls[i], []byte(`"failed"`), []byte(`"passed"`), 1)
				return ls
			})
		}, finds{alone: found}},
		{"an entry edited, and every hash after it computed again", func(s *scene) {
			var lines [][]byte
			for d := range s.honest.segments {
				ls := bytes.SplitAfter(s.read(s.segment(d+1)), []byte("\n"))
				lines = append(lines, ls[:len(ls)-1]...)
			}
			done := false
			forged := ledger.Rehash(simOrigin, lines, func(e []byte) []byte {
				if !done && bytes.Contains(e, []byte(`"outcome":"failed"`)) {
					done = true
					return raise([][]byte{e})[0]
				}
				return e
			})
			for i := range s.honest.segments {
				s.must(os.Remove(s.segment(i + 1)))
			}
			s.replace(filepath.Join(s.cfg.SegmentsDir(), segmentName(0)), bytes.Join(forged, nil))
		}, finds{alone: found}},
		{"an entry dropped", func(s *scene) {
			s.lines(12, func(ls [][]byte) [][]byte {
				i := s.find(ls, 3, scoredKind, `"outcome":"failed"`)
				return slices.Delete(ls, i, i+1)
			})
		}, finds{alone: found}},
		{"an entry inserted", func(s *scene) {
			s.lines(12, func(ls [][]byte) [][]byte {
				i := s.find(ls, 3, scoredKind)
				return insert(ls, i, bytes.Replace(ls[i], []byte(`.agent.`), []byte(`.other.`), 1))
			})
		}, finds{alone: found}},
		{"an entry moved", func(s *scene) {
			s.lines(12, func(ls [][]byte) [][]byte {
				i := s.find(ls, 5, `"kind":"attempt.finished"`)
				l := ls[i]
				return insert(slices.Delete(ls, i, i+1), s.find(ls, 3, scoredKind), l)
			})
		}, finds{alone: found}},
		{"an entry twice", func(s *scene) {
			s.lines(12, func(ls [][]byte) [][]byte {
				i := s.find(ls, 3, scoredKind)
				return insert(ls, i, ls[i])
			})
		}, finds{alone: found}},
		{"an entry of the last batch edited", func(s *scene) {
			s.lines(30, func(ls [][]byte) [][]byte {
				ls[len(ls)-2] = bytes.Replace(ls[len(ls)-2], []byte(`bronze`), []byte(`silver`), 1)
				return ls
			})
		}, finds{alone: found}},
		{"a batch dropped, with its seal", func(s *scene) {
			s.lines(12, func(ls [][]byte) [][]byte {
				first := s.find(ls, 3, " ~") + 1
				return slices.Delete(ls, first, s.find(ls, 4, " ~")+1)
			})
		}, finds{alone: found}},
		{"a seal taken out: it holds no entry, and the next covers the same", func(s *scene) {
			s.lines(12, func(ls [][]byte) [][]byte {
				i := s.find(ls, 3, " ~")
				return slices.Delete(ls, i, i+1)
			})
		}, finds{}},
		{"a seal by a person who is not an operator", func(s *scene) {
			s.rewrite("mallory", func(es [][]byte) [][]byte { return es })
		}, finds{alone: refusal.SealInvalid}},
		{"a seal by an operator before she was one", func(s *scene) {
			s.rewrite("petra", func(es [][]byte) [][]byte { return es })
		}, finds{alone: refusal.SealInvalid}},
		{"a segment taken out", func(s *scene) { s.must(os.Remove(s.segment(12))) }, finds{alone: found}},
		{"a segment emptied", func(s *scene) { s.replace(s.segment(12), nil) }, finds{alone: found}},
		{"a segment replaced by that of another day", func(s *scene) { s.replace(s.segment(12), s.read(s.segment(13))) }, finds{alone: found}},
		{"a segment replaced by one that the operator sealed in another history", func(s *scene) {
			forged := s.sealed("olga", raise(slices.Clone(s.honest.entries)))
			s.replace(s.segment(1), forged[:len(s.read(s.segment(1)))])
		}, finds{alone: found}},
		{"lines added that no seal covers", func(s *scene) {
			s.lines(30, func(ls [][]byte) [][]byte { return append(ls, ls[s.find(ls, 1, scoredKind)]) })
		}, finds{opening: refusal.TornTail}},

		// With an operator's key, or by cutting where a seal stands.
		{"the tail cut", func(s *scene) { s.cutAfter(20) },
			finds{memory: refusal.HistoryRolledBack, anchors: refusal.HistoryRolledBack, git: refusal.HistoryRolledBack, wit: refusal.HistoryRolledBack}},
		{"the tail cut behind the last anchor: only this machine knows", func(s *scene) {
			s.lines(30, func(ls [][]byte) [][]byte { return ls[:s.find(ls, 2, `"kind":"anchor.published"`)] })
		}, finds{memory: refusal.HistoryRolledBack}},
		{"an old copy of the folder, anchors included", func(s *scene) { s.cutAfter(20); s.oldAnchors(20) },
			finds{memory: refusal.HistoryRolledBack, git: refusal.HistoryRolledBack, wit: refusal.HistoryRolledBack}},
		{"an old image of the whole machine", func(s *scene) {
			s.cutAfter(20)
			s.oldAnchors(20)
			s.must(os.RemoveAll(s.cfg.StateDir))
			l, err := sequencer.Open(context.Background(), s.cfg) // as it was that day: it remembers what it sees
			s.must(err)
			s.must(l.Close())
		}, finds{git: refusal.HistoryRolledBack, wit: refusal.HistoryRolledBack}},
		{"history written anew", func(s *scene) { s.rewrite("olga", raise) },
			finds{memory: refusal.HistoryForked, anchors: refusal.HistoryForked, git: refusal.HistoryForked, wit: refusal.HistoryForked}},
		{"history written anew without a bad attempt", func(s *scene) {
			s.rewrite("olga", func(es [][]byte) [][]byte {
				return slices.DeleteFunc(es, func(e []byte) bool { return bytes.Contains(e, []byte(`"attempt":"triage.agent.3"`)) })
			})
		}, finds{memory: refusal.HistoryRolledBack, anchors: refusal.HistoryForked, git: refusal.HistoryForked, wit: refusal.HistoryRolledBack}},
		{"history and anchors written anew", func(s *scene) { s.rewrite("olga", raise); s.reanchor() },
			finds{memory: refusal.HistoryForked, git: refusal.HistoryForked, wit: refusal.HistoryForked}},
		{"history, anchors and memory written anew: who has a copy finds it", func(s *scene) {
			s.rewrite("olga", raise)
			s.reanchor()
			s.must(os.RemoveAll(s.cfg.StateDir))
		}, finds{git: refusal.HistoryForked, wit: refusal.HistoryForked}},
		{"an entry dated back", func(s *scene) {
			s.rewrite("olga", func(es [][]byte) [][]byte {
				i := s.find(es, 3, scoredKind, `"time":"2026-05-20T`)
				es[i] = bytes.Replace(es[i], []byte(`"time":"2026-05-20T`), []byte(`"time":"2026-04-20T`), 1)
				return es
			})
		}, finds{alone: refusal.TimeWentBack}},
		{"signers changed by one person", func(s *scene) {
			s.rewrite("olga", func(es [][]byte) [][]byte { return s.changeSigners(es, "alice") })
		}, finds{alone: refusal.EntryInvalid}},
		{"signers changed by one person who signs twice", func(s *scene) {
			s.rewrite("olga", func(es [][]byte) [][]byte { return s.changeSigners(es, "alice", "alice") })
		}, finds{alone: refusal.TwoPersonRule}},
		{"signers changed by two who are not signers", func(s *scene) {
			s.rewrite("olga", func(es [][]byte) [][]byte { return s.changeSigners(es, "mallory", "mallet") })
		}, finds{alone: refusal.SignerUnknown}},
		{"another first version of the signers", func(s *scene) {
			s.rewrite("olga", func(es [][]byte) [][]byte {
				es[0] = bytes.Replace(es[0], []byte("oscar"), []byte("oskar"), 1)
				return es
			})
		}, finds{alone: refusal.SignersChainBroken}},

		// Anchors and memory.
		{"an anchor edited", func(s *scene) { s.editAnchor(12, "", func(a *ledger.Anchor) { a.Size-- }) }, finds{anchors: refusal.AnchorMismatch}},
		{"an anchor without its signature", func(s *scene) { s.editAnchor(12, "", func(a *ledger.Anchor) { a.Signature = "" }) },
			finds{anchors: refusal.AnchorSignatureInvalid}},
		{"an anchor signed by a stranger", func(s *scene) { s.editAnchor(12, "mallory", func(*ledger.Anchor) {}) }, finds{anchors: refusal.AnchorSignatureInvalid}},
		{"an anchor of an entry that is not there", func(s *scene) {
			s.editAnchor(12, "olga", func(a *ledger.Anchor) { a.Head = digest.ID{1} })
		}, finds{anchors: refusal.HistoryForked}},
		{"an anchor without its cosignature", func(s *scene) { s.editAnchor(12, "", withoutCosignature) }, finds{anchors: refusal.AnchorSignatureInvalid}},
		{"an anchor under another day", func(s *scene) { s.replace(s.anchor(12), s.read(s.anchor(13))) }, finds{anchors: refusal.AnchorMismatch}},
		{"an anchor cut", func(s *scene) { s.replace(s.anchor(12), s.read(s.anchor(12))[:100]) }, finds{anchors: refusal.AnchorSignatureInvalid}},
		{"the memory scribbled over", func(s *scene) {
			files, err := filepath.Glob(filepath.Join(s.cfg.StateDir, "ledgers", "*.head"))
			if err != nil || len(files) != 1 {
				s.Fatal(files, err)
			}
			s.replace(files[0], bytes.Repeat([]byte("x"), len(s.read(files[0]))))
		}, finds{memory: refusal.MemoryDamaged}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := m.scene(t)
			tt.forge(s)
			got := finds{alone: s.verify()}
			if got.alone == "" {
				got.memory, got.anchors, got.git = s.byMemory(), s.byAnchors(s.cfg.Anchors), s.byAnchors(m.cfg.Anchors)
			}
			if tt.finds.wit != "" {
				got.wit = s.byWitness()
			}
			if tt.finds.opening != "" {
				_, err := sequencer.Open(context.Background(), s.cfg)
				got.opening = nameOf(err)
			}
			if got != tt.finds {
				t.Errorf("found by\n  %+v\nwant\n  %+v", got, tt.finds)
			}
		})
	}
}

// withoutCosignature takes the witness's line off the checkpoint.
func withoutCosignature(a *ledger.Anchor) {
	lines := strings.SplitAfter(a.Checkpoint, "\n")
	lines = slices.DeleteFunc(lines, func(l string) bool { return strings.Contains(l, simWitness) })
	a.Checkpoint = strings.Join(lines, "")
}

// changeSigners has other people sign version 2 of the signers.
func (s *scene) changeSigners(entries [][]byte, by ...string) [][]byte {
	s.Helper()
	i := s.find(entries, 1, `"kind":"signers.changed"`)
	env, err := evidence.SplitEntry(entries[i])
	s.must(err)
	body, err := evidence.DecodeBody(env.Kind, env.Body)
	s.must(err)
	change := *body.(*evidence.SignersChanged)
	change.Signatures = nil
	for _, who := range by {
		sig, err := seal.SignWith(keyOf(s, who).Signer(), seal.NamespaceSigners, []byte(change.Signers))
		s.must(err)
		change.Signatures = append(change.Signatures, string(sig))
	}
	data, err := canon.Marshal(&change)
	s.must(err)
	entries[i] = evidence.AppendEntry(nil, data, env.Kind, false, env.Time)
	return entries
}

// A cosignature that the operator takes off, signing the anchor anew, leaves a
// ledger and anchors that agree. A reader who asks for a witness does not get one.
func forgedQuorum(t *testing.T, m *month) {
	s := m.scene(t)
	s.editAnchor(12, "olga", withoutCosignature)
	if got := s.byAnchors(s.cfg.Anchors); got != "" {
		t.Errorf("the anchors find %s", got)
	}
	v, err := s.cfg.Verify(ledger.Options{Origin: simOrigin, TrustRoot: s.cfg.TrustRoot})
	s.must(err)
	policy := ledger.Policy{Logs: v.EveryKey(), Witnesses: m.witnesses, Quorum: 1}
	for d, want := range map[int]refusal.Name{11: "", 12: refusal.WitnessQuorumMissing} {
		_, err := ledger.VerifyAnchor(s.read(s.anchor(d)), policy)
		if nameOf(err) != want {
			t.Errorf("day %d: %v, want %s", d, err, want)
		}
	}
}

// evidenceForgeries tampers with the pack of an attempt that earns silver.
func evidenceForgeries(t *testing.T, m *month) {
	const victim, other = "fix.agent.90", "fix.agent.89"
	piece := func(s *scene, id string) (pack []byte, at int) {
		pack = s.read(s.pack(id))
		return pack, bytes.Index(pack, []byte(`"type":"run_started"`)) // in its first trajectory
	}
	for _, tt := range []struct {
		name  string
		forge func(s *scene)
		find  refusal.Name // by a reader of the evidence
		lost  int          // records of the victim whose evidence is not whole
	}{
		{"nothing", func(*scene) {}, "", 0},
		{"a bit changed", func(s *scene) {
			data, at := piece(s, victim)
			data[at] ^= 1
			s.replace(s.pack(victim), data)
		}, refusal.DigestMismatch, 1},
		{"the trajectory of another attempt under the name of this one", func(s *scene) {
			data, at := piece(s, victim)
			from, there := piece(s, other)
			copy(data[at-100:at+200], from[there-100:there+200])
			s.replace(s.pack(victim), data)
		}, refusal.DigestMismatch, 1},
		{"a pack deleted", func(s *scene) { s.must(os.Remove(s.pack(victim))) }, refusal.NotFound, 6},
		{"a pack cut", func(s *scene) { data, _ := piece(s, victim); s.replace(s.pack(victim), data[:len(data)-1]) }, refusal.NotFound, 1},
		{"a pack replaced by that of another attempt", func(s *scene) { s.replace(s.pack(victim), s.read(s.pack(other))) }, refusal.NotFound, 6},
		{"two packs under each other's names: evidence is found by its digest", func(s *scene) {
			a, b := s.read(s.pack(victim)), s.read(s.pack(other))
			s.replace(s.pack(victim), b)
			s.replace(s.pack(other), a)
		}, "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := m.scene(t)
			s.link(m.packs(), filepath.Join(s.dir, "evidence", "packs"))
			tt.forge(s)
			read := vaultIn(s.dir)
			lost, name := 0, refusal.Name("")
			whole, err := evidenceIn(read)(m.history.Attempt(victim))
			s.must(err)
			for c := range whole.Attempt.Cases() {
				if err := whole.Missing(c); err != nil {
					lost++
					name = nameOf(err)
				}
			}
			if lost != tt.lost || name != tt.find {
				t.Errorf("%d records without their evidence: %s; want %d: %s", lost, name, tt.lost, tt.find)
			}
			rec := m.recommend(m.history, read, "fix")
			want, note := "silver", "as failed, its evidence is missing or changed: "
			if tt.lost > 0 {
				want = "none"
			}
			if told := strings.Contains(strings.Join(rec.Notes, "\n"), note); rec.RecommendedTier != want || told != (tt.lost > 0) {
				t.Errorf("%s is recommended, want %s: %q", rec.RecommendedTier, want, rec.Rationale)
			}
			if n := len(m.recompute(read, m.history.Attempt(victim))); (n > 0) != (tt.lost > 0) {
				t.Errorf("counting again finds %d differences", n)
			}
		})
	}
}

func (s *scene) pack(id string) string {
	return filepath.Join(s.dir, "evidence", "packs", id+".pack")
}

// What is missing and was not changed is a gap that strict verification names.
func strictGaps(t *testing.T, m *month) {
	s := m.scene(t)
	s.link(m.packs(), filepath.Join(s.dir, "evidence", "packs"))
	s.must(os.Remove(s.anchor(12)))
	s.must(os.Remove(s.pack("smoke.agent.700")))
	got := m.gaps(s.cfg, vaultIn(s.dir), false)
	if len(got) != 2 || got[0] != "2026-05-13 has entries and no anchor" || !strings.HasPrefix(got[1], "case case-1: its evidence blake3:") {
		t.Errorf("gaps %q", got)
	}
}
