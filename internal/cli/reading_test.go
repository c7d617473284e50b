package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tallystick/internal/read/answer"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
)

// A countingFS counts the bytes that are read of a ledger's segments.
type countingFS struct {
	store.OS
	read *atomic.Int64
}

func (c countingFS) OpenFile(name string, flag int, perm fs.FileMode) (store.File, error) {
	f, err := c.OS.OpenFile(name, flag, perm)
	if err != nil || filepath.Base(filepath.Dir(name)) != "segments" {
		return f, err
	}
	return countingFile{f, c.read}, nil
}

type countingFile struct {
	store.File
	read *atomic.Int64
}

func (f countingFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	f.read.Add(int64(n))
	return n, err
}

func (f countingFile) ReadAt(p []byte, at int64) (int, error) {
	n, err := f.File.ReadAt(p, at)
	f.read.Add(int64(n))
	return n, err
}

const sumsRegistration = `version: 1
class: sums
trust: signed
current_tier: bronze
gates:
  - {tag: "*", metric: solve_rate, threshold: 0.5}
limits: {wall_clock_seconds: 60, memory_bytes: 1073741824, turns: 20, tokens: 100000, cost_microdollars: 1000000}
governance: restricted
isolation: {classes: [gvisor], scope: case, allow_weaker: false}
judged_scores_count: false
`

const sumsDataset = `{"id":"one","input":"1 and 1?","tags":["odd"],"model":[{"text":"2","tokens_in":77}],"expected":"2","grade":{"kind":"exact"}}
{"id":"two","input":"2 and 2?","tags":["even"],"model":[{"text":"4"}],"expected":"4","grade":{"kind":"exact"}}
{"id":"three","input":"3 and 3?","tags":["odd"],"model":[{"text":"7"}],"expected":"6","grade":{"kind":"exact"}}
`

// A sumsPlace is a workspace with a signed class of three sums.
type sumsPlace struct {
	*testing.T
	dir  string
	home string
	read atomic.Int64 // bytes of the ledger, by the last command
}

func newSumsPlace(t *testing.T) *sumsPlace {
	home := t.TempDir()
	p := &sumsPlace{T: t, dir: filepath.Join(home, "ws"), home: home}
	initWithPeople(t, p.dir, func(args ...string) { p.ok(args...) }, "--origin", "example.com/evals")
	class := filepath.Join(p.dir, "bench", "sums")
	for name, text := range map[string]string{"registration.yaml": sumsRegistration, "dataset.jsonl": sumsDataset} {
		if err := os.MkdirAll(class, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(class, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p.ok("bench", "digest", "sums")
	for _, name := range []string{"example-alice", "example-bob"} {
		p.ok("bench", "sign", "sums", "--key", filepath.Join(p.dir, ".tally", "keys", name))
	}
	return p
}

// tally runs one command and counts what it reads of the ledger.
func (p *sumsPlace) tally(args ...string) (code int, stdout, stderr string) {
	p.Helper()
	p.read.Store(0)
	var out, errs bytes.Buffer
	e := p.env(&out, &errs)
	if args[0] != "init" {
		args = append(args, "--workspace", p.dir)
	}
	code = newProgram(e).main(args)
	return code, out.String(), errs.String()
}

func (p *sumsPlace) env(out, errs *bytes.Buffer) *Env {
	env := map[string]string{"HOME": p.home, "XDG_STATE_HOME": filepath.Join(p.home, "state")}
	e := newEnv(strings.NewReader(""), out, errs, func(k string) string { return env[k] })
	e.inTests = func(w *dossier.World) { w.FS = countingFS{read: &p.read} }
	return e
}

func (p *sumsPlace) ok(args ...string) string {
	p.Helper()
	code, out, errs := p.tally(args...)
	if code != 0 {
		p.Fatalf("tally %s: exit %d: %s", strings.Join(args, " "), code, errs)
	}
	return out
}

func (p *sumsPlace) ledgerBytes() int64 {
	p.Helper()
	info, err := os.Stat(filepath.Join(p.dir, ".tally", "ledger", "segments", "0000000000000000.log"))
	if err != nil {
		p.Fatal(err)
	}
	return info.Size()
}

// TestACommandVerifiesTheLedgerOnce counts what each command reads of the
// ledger. Whole says how often it may be read in all: once to verify it; once
// more where verified entries are read again for what the history does not keep;
// and once more by a run, whose anchor is made of what is on the disk.
func TestACommandVerifiesTheLedgerOnce(t *testing.T) {
	p := newSumsPlace(t)
	p.ok("ledger", "verify")
	for range 200 { // so that the ends of batches, read again, are little beside it
		p.ok("run", "sums")
		if p.ledgerBytes() > 40_000 {
			break
		}
	}
	out := t.TempDir()
	for _, tt := range []struct {
		name  string
		whole float64
		args  []string
	}{
		{"scorecard", 1, []string{"scorecard", "sums.default.1"}},
		{"compare", 1, []string{"compare", "sums.default.1", "sums.default.2"}},
		{"curve", 1, []string{"scorecard", "curve"}},
		{"gate", 1, []string{"gate"}},
		{"gate with a report", 2, []string{"gate", "--junit", filepath.Join(out, "j.xml")}},
		{"why", 2, []string{"why", "three"}},
		{"witness pack", 2, []string{"export", "--format", "bundle", "sums.default.2", "-o", filepath.Join(out, "bundles")}},
		{"verify --recompute", 1, []string{"verify", "--recompute"}},
		{"promote recommend", 2, []string{"promote", "recommend", "sums"}},
		{"run", 2, []string{"run", "sums"}},
		{"run with a baseline", 2, []string{"run", "sums", "--baseline", "sums.default.1"}},
	} {
		before := p.ledgerBytes()
		p.ok(tt.args...)
		times := float64(p.read.Load()) / float64(before)
		t.Logf("%s: %.2f times", tt.name, times)
		if times > tt.whole+0.6 || times < 1 {
			t.Errorf("%s reads the ledger %.2f times, want %v", tt.name, times, tt.whole)
		}
	}
}

// A server reads on as the ledger grows, and gets what a new reading gets.
func TestAReadingGoesOnAsTheLedgerGrows(t *testing.T) {
	p := newSumsPlace(t)
	p.ok("run", "sums")
	e := p.env(&bytes.Buffer{}, &bytes.Buffer{})
	e.WorkspaceDir = p.dir
	ask := dossier.Ask{Prove: true}
	open, err := read(e, ask)
	if err != nil {
		t.Fatal(err)
	}
	for n := 2; n <= 4; n++ {
		p.ok("run", "sums")
		p.ok("promote", "recommend", "sums")
		before := p.ledgerBytes()
		p.read.Store(0)
		if err := open.Refresh(); err != nil {
			t.Fatal(err)
		}
		if n == 4 && p.read.Load() > before/2 {
			t.Errorf("read %d bytes again of a ledger of %d", p.read.Load(), before)
		}
		fresh, err := read(e, ask)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := fmt.Sprintf("%+v", cardsOf(t, open)), fmt.Sprintf("%+v", cardsOf(t, fresh)); got != want {
			t.Errorf("after %d runs:\n%s\nwant\n%s", n, got, want)
		}
		if got := open.History.Line(); got != fresh.History.Line() || len(open.History.Attempts) != n {
			t.Errorf("after %d runs: %+v", n, got)
		}
		last := open.History.Entries - 1
		if _, _, err := open.Prove(1, last); err != nil {
			t.Error(err)
		}
		if counted, err := answer.Recount(open); err != nil || counted.Recommendations != n-1 || counted.Runs != n {
			t.Errorf("%v, %+v", err, counted)
		}
	}
}

func cardsOf(t *testing.T, r *dossier.Reading) []byte {
	t.Helper()
	found := make(map[*history.Attempt]scorecard.Evidence)
	for _, a := range r.History.Attempts {
		whole, err := r.ReadAll(a)
		if err != nil {
			t.Fatal(err)
		}
		found[a] = whole
	}
	card, err := scorecard.Of(r.History, scorecard.View{Attempts: r.History.Attempts, Evidence: found})
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(card)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// coverage is what "tally scorecard" says about the evidence.
func (p *sumsPlace) coverage() float64 {
	p.Helper()
	var card struct {
		Coverage float64 `json:"evidence_coverage"`
	}
	if err := json.Unmarshal([]byte(p.ok("scorecard", "sums.default.1", "--json")), &card); err != nil {
		p.Fatal(err)
	}
	return card.Coverage
}

// damage changes a byte of the evidence of a case that passed.
func (p *sumsPlace) damage() (pack string, was os.FileInfo) {
	p.Helper()
	pack = filepath.Join(p.dir, ".tally", "evidence", "packs", "sums.default.1.pack")
	was, err := os.Stat(pack)
	if err != nil {
		p.Fatal(err)
	}
	data, err := os.ReadFile(pack)
	if err != nil {
		p.Fatal(err)
	}
	changed := bytes.Replace(data, []byte(`"tokens_in":77`), []byte(`"tokens_in":11`), 1)
	if bytes.Equal(changed, data) {
		p.Fatal("the evidence has no such text")
	}
	if err := os.WriteFile(pack, changed, 0o600); err != nil {
		p.Fatal(err)
	}
	return pack, was
}

// TestACacheChangesNoDecision shows the cache in use, by hiding from it that the
// evidence was changed. Whatever decides or vouches does not ask it.
func TestACacheChangesNoDecision(t *testing.T) {
	p := newSumsPlace(t)
	registration := filepath.Join(p.dir, "bench", "sums", "registration.yaml")
	text := strings.Replace(sumsRegistration, "gates:\n", "gates:\n  - {tag: \"*\", metric: evidence_coverage, threshold: 1}\n", 1)
	if err := os.WriteFile(registration, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	p.ok("bench", "digest", "sums")
	for _, name := range []string{"example-alice", "example-bob"} {
		p.ok("bench", "sign", "sums", "--key", filepath.Join(p.dir, ".tally", "keys", name))
	}
	p.ok("run", "sums")
	p.ok("gate")
	if got := p.coverage(); got != 1 {
		t.Fatalf("coverage %v", got)
	}
	pack, was := p.damage()
	if err := os.Chtimes(pack, was.ModTime(), was.ModTime()); err != nil {
		t.Fatal(err)
	}
	if got := p.coverage(); got != 1 {
		t.Errorf("the cache is not used: coverage %v", got)
	}
	for _, command := range []struct {
		code int
		args []string
	}{
		{refusal.ExitGate, []string{"gate"}},
		{refusal.ExitUnverified, []string{"verify", "--recompute"}},
		{refusal.ExitUnverified, []string{"ledger", "verify", "--strict"}},
		{refusal.ExitUnverified, []string{"export", "--format", "bundle", "sums.default.1", "-o", filepath.Join(t.TempDir(), "bundles")}},
	} {
		if code, out, errs := p.tally(command.args...); code != command.code {
			t.Errorf("%s: exit %d, want %d: %s%s", command.args[0], code, command.code, out, errs)
		}
	}
	if out := p.ok("promote", "recommend", "sums"); !strings.Contains(out, "its evidence is missing or changed: one") {
		t.Errorf("promote: %s", out)
	}
	cache := filepath.Join(p.dir, ".tally", "cache")
	if err := os.Rename(cache, cache+".old"); err != nil {
		t.Fatal(err)
	}
	if got := p.coverage(); got != 0.5 {
		t.Errorf("without the cache: coverage %v", got)
	}
	if err := errors.Join(os.RemoveAll(cache), os.Rename(cache+".old", cache), os.Chtimes(pack, time.Time{}, time.Now())); err != nil {
		t.Fatal(err)
	}
	if got := p.coverage(); got != 0.5 {
		t.Errorf("changed evidence that was visibly touched: coverage %v", got)
	}
}

// A cache that is damaged, of another version or of another attempt is as good as
// none, and is written again.
func TestADamagedCacheIsMadeAgain(t *testing.T) {
	p := newSumsPlace(t)
	p.ok("run", "sums")
	p.coverage()
	files, err := filepath.Glob(filepath.Join(p.dir, ".tally", "cache", "rows", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	good, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	// A cache that is trusted would hide this.
	pack, was := p.damage()
	for i := 0; i < len(good); i += 7 {
		bad := bytes.Clone(good)
		bad[i] ^= 0x10
		if err := os.WriteFile(files[0], bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(pack, was.ModTime(), was.ModTime()); err != nil {
			t.Fatal(err)
		}
		if got := p.coverage(); got != 0.5 {
			t.Fatalf("with byte %d changed: coverage %v", i, got)
		}
	}
	for _, bad := range [][]byte{nil, good[:len(good)/2], []byte("rows"), bytes.Repeat([]byte{'x'}, 1000)} {
		if err := os.WriteFile(files[0], bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := p.coverage(); got != 0.5 {
			t.Fatalf("with %d bytes: coverage %v", len(bad), got)
		}
	}
}
