package backup

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/serve/registry"
)

// served is a registry that is open for writing, as a server has it.
type served struct {
	*registry.Registry
	testing.TB
	dir, state string
	agent      *registry.Agent
}

func newServed(t testing.TB) *served {
	t.Helper()
	s := &served{TB: t, dir: filepath.Join(t.TempDir(), "reg"), state: t.TempDir()}
	t.Setenv("XDG_STATE_HOME", s.state)
	settings := registry.Default()
	settings.Origin, settings.Operator, settings.Judges, settings.Quorum = "registry.example/log", "olga", 0, 0
	if _, err := registry.Init(context.Background(), s.dir, settings); err != nil {
		t.Fatal(err)
	}
	s.open()
	made, err := s.Register(context.Background(), registry.SignUp{Profile: []byte(`{"name":"ada"}`)})
	if err != nil {
		t.Fatal(err)
	}
	s.agent = &made.Agent
	s.propose(registry.Model, `{"path":"/artifacts/models/a/m"}`)
	s.propose(registry.EvalHarness, `{"path":"/artifacts/eval-harnesses/h/v1"}`)
	s.propose(registry.Dataset, `{"path":"/artifacts/datasets/d"}`)
	for n := range 5 {
		s.evaluate(n)
	}
	return s
}

func (s *served) open() {
	s.Helper()
	var err error
	if s.Registry, err = registry.Open(context.Background(), registry.Options{Dir: s.dir}); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { s.Close() })
}

func (s *served) propose(thing registry.Thing, body string) *registry.Proposal {
	s.Helper()
	p, err := s.Propose(context.Background(), s.agent, thing, []byte(body), "")
	if err != nil {
		s.Fatal(err)
	}
	return p
}

func (s *served) evaluate(n int) *registry.Proposal {
	s.Helper()
	return s.propose(registry.Eval, fmt.Sprintf(`{"artifactPath":"/artifacts/models/a/m","datasetPath":"/artifacts/datasets/d","evalHarnessPath":"/artifacts/eval-harnesses/h/v1","metrics":{"accuracy":0.5,"n":%d},"runDetails":{"runner":"h"}}`, n))
}

func (s *served) backup(keys bool) (string, *Manifest) {
	s.Helper()
	file := filepath.Join(s.TempDir(), "b.tar.gz")
	m, err := Make(context.Background(), Options{Dir: s.dir, Out: file, WithKeys: keys, Now: time.Now})
	if err != nil {
		s.Fatal(err)
	}
	return file, m
}

func restore(t testing.TB, file, keys string) (*Restored, error) {
	t.Helper()
	state, err := os.MkdirTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	return Restore(context.Background(), RestoreOptions{File: file, Dir: filepath.Join(t.TempDir(), "restored"), Keys: keys, StateDir: state, Now: time.Now})
}

func TestARestoredRegistryIsTheSame(t *testing.T) {
	s := newServed(t)
	file, m := s.backup(true)
	r, err := restore(t, file, "")
	if err != nil {
		t.Fatal(err)
	}
	if r.Size != m.Size || r.Root != m.Root || r.Rows != m.Rows || r.Rows.IsZero() || r.Blobs != m.Blobs || r.Blobs < 8 || r.Old {
		t.Errorf("%+v, backup %+v", r, m)
	}
	// And it continues where it ended.
	again, err := registry.Open(context.Background(), registry.Options{Dir: r.Dir, StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	page, err := again.List(context.Background(), registry.Query{})
	if err != nil || len(page.Rows) != 5 {
		t.Errorf("%d rows, %v", len(page.Rows), err)
	}
}

func TestABackupOverARotationOfTheOperatorsKeyIsRestored(t *testing.T) {
	s := newServed(t)
	before, _ := s.backup(false)
	if _, err := s.RotateKey(context.Background(), registry.OperatorPurpose); err != nil {
		t.Fatal(err)
	}
	atOnce, m := s.backup(false) // the last seal is by the key that was replaced
	s.evaluate(7)
	later, _ := s.backup(true)
	for name, file := range map[string]string{"before": before, "at once": atOnce, "later": later} {
		keys := filepath.Join(s.dir, "keys") // those of now
		if name == "later" {
			keys = ""
		}
		r, err := restore(t, file, keys)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if name == "at once" && r.Rows != m.Rows {
			t.Errorf("%s: rows %s, backup %s", name, r.Rows, m.Rows)
		}
		// And the key that the ledger asks for continues with it.
		again, err := registry.Open(context.Background(), registry.Options{Dir: r.Dir, StateDir: t.TempDir()})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, err := again.Register(context.Background(), registry.SignUp{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestPrivateKeysAreLeftOut(t *testing.T) {
	s := newServed(t)
	file, _ := s.backup(false)
	for _, f := range members(t, file) {
		if strings.Contains(f.name, "key") || bytes.Contains(f.data, []byte("PRIVATE KEY")) {
			t.Errorf("%s is in the backup", f.name)
		}
	}
	r, err := restore(t, file, "")
	if err != nil || r.Keys || !r.Rows.IsZero() {
		t.Errorf("%+v %v", r, err)
	}
	if r, err = restore(t, file, filepath.Join(s.dir, "keys")); err != nil || r.Rows.IsZero() {
		t.Errorf("%+v %v", r, err)
	}
}

func TestABackupWhileItIsWrittenToIsOfOneMoment(t *testing.T) {
	s := newServed(t)
	done := make(chan struct{})
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
					s.evaluate(1000*(w+1) + n)
				}
			}
		})
	}
	for range 3 {
		file, m := s.backup(true)
		r, err := restore(t, file, "")
		if err != nil || r.Rows != m.Rows {
			t.Errorf("%+v %v", r, err)
		}
	}
	close(done)
	writers.Wait()
}

func TestWhatWasTakenDownIsNotInABackup(t *testing.T) {
	s := newServed(t)
	secret := []byte(`{"artifactPath":"/artifacts/models/a/m","datasetPath":"/artifacts/datasets/d","evalHarnessPath":"/artifacts/eval-harnesses/h/v1","metrics":{"secret":"hunter2"},"runDetails":{}}`)
	s.propose(registry.Eval, string(secret))
	if err := s.TakeDown(context.Background(), digest.ContentOf(secret), "privacy"); err != nil {
		t.Fatal(err)
	}
	file, m := s.backup(true)
	for _, f := range members(t, file) {
		if bytes.Contains(f.data, []byte("hunter2")) {
			t.Errorf("%s has it", f.name)
		}
	}
	if r, err := restore(t, file, ""); err != nil || m.TakenDown != 1 || r.Rows != m.Rows {
		t.Errorf("%+v %+v %v", m, r, err)
	}
}

func TestAnOldBackupIsSaidToBeOldAndNotWrittenTo(t *testing.T) {
	s := newServed(t)
	file, _ := s.backup(true)
	s.evaluate(99)
	s.Close()
	state := filepath.Join(s.state, "tallystick")
	r, err := Restore(context.Background(), RestoreOptions{File: file, Dir: filepath.Join(t.TempDir(), "restored"), StateDir: state, Now: time.Now})
	if err != nil || !r.Old || r.Remembered <= r.Size {
		t.Fatalf("%+v %v", r, err)
	}
	_, err = registry.Open(context.Background(), registry.Options{Dir: r.Dir})
	if !refusal.Is(err, refusal.HistoryRolledBack) {
		t.Errorf("an old copy was opened for writing: %v", err)
	}
}

// A member is one file of a backup.
type member struct {
	name string
	data []byte
}

func members(t testing.TB, file string) []member {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var out []member
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, member{h.Name, data})
	}
}

// write makes a backup of members, with a list that fits them if relist is set: what
// a forger without the operator's key can do.
func write(t testing.TB, list []member, relist bool, change func(*Manifest)) string {
	t.Helper()
	last := &list[len(list)-1]
	var m Manifest
	if err := canon.Unmarshal(bytes.TrimSpace(last.data), &m); err != nil {
		t.Fatal(err)
	}
	if relist {
		m.Files = nil
		for _, f := range list[:len(list)-1] {
			m.Files = append(m.Files, File{f.name, int64(len(f.data)), digest.ContentOf(f.data)})
		}
	}
	if change != nil {
		change(&m)
	}
	text, err := canon.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	last.data = text
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, f := range list {
		if err := add(w, f.name, f.data, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	z.Close()
	file := filepath.Join(t.TempDir(), "forged.tar.gz")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestEveryForgedBackupIsRefused(t *testing.T) {
	s := newServed(t)
	file, _ := s.backup(true)
	s.Close()
	find := func(list []member, part string) int {
		return slices.IndexFunc(list, func(f member) bool { return strings.Contains(f.name, part) })
	}
	for _, tt := range []struct {
		name   string
		forge  func(list []member) []member
		relist bool
		change func(*Manifest)
		want   refusal.Name
	}{
		{"as it is", func(l []member) []member { return l }, false, nil, ""},
		{"a file is changed", func(l []member) []member { l[find(l, "registry.yaml")].data = []byte("version: 1\n"); return l }, false, nil, refusal.DigestMismatch},
		{"a file is gone", func(l []member) []member { return slices.Delete(l, 0, 1) }, false, nil, refusal.DigestMismatch},
		{"a file is put in", func(l []member) []member { return slices.Insert(l, 0, member{"signers/more", []byte("x")}) }, false, nil, refusal.DigestMismatch},
		{"a file is there twice", func(l []member) []member { return slices.Insert(l, 1, l[0]) }, true, nil, refusal.DigestMismatch},
		{"a file lies outside", func(l []member) []member { return slices.Insert(l, 0, member{"../evil", []byte("x")}) }, true, nil, refusal.DigestMismatch},
		{"a file has a whole path", func(l []member) []member { return slices.Insert(l, 0, member{"/tmp/evil", []byte("x")}) }, true, nil, refusal.DigestMismatch},
		{"a database is put in", func(l []member) []member { return slices.Insert(l, 0, member{"registry.db", []byte("x")}) }, true, nil, refusal.DigestMismatch},
		{"an entry is changed and the list with it", func(l []member) []member {
			at := find(l, "ledger/segments/")
			l[at].data = bytes.Replace(l[at].data, []byte(`"thing":"model"`), []byte(`"thing":"datas"`), 1)
			return l
		}, true, nil, refusal.ChainTamperDetected},
		{"the end of the ledger is cut off and the list with it", func(l []member) []member {
			at := find(l, "ledger/segments/")
			lines := bytes.SplitAfter(l[at].data, []byte("\n"))
			l[at].data = bytes.Join(lines[:len(lines)-6], nil)
			return l
		}, true, nil, refusal.HistoryRolledBack},
		{"the end is cut off and the list says so", func(l []member) []member {
			at := find(l, "ledger/segments/")
			lines := bytes.SplitAfter(l[at].data, []byte("\n"))
			l[at].data = bytes.Join(lines[:len(lines)-6], nil)
			return l
		}, true, func(m *Manifest) { m.Size -= 2 }, refusal.HistoryRolledBack},
		{"a text is gone and the list with it", func(l []member) []member {
			return slices.DeleteFunc(l, func(f member) bool { return strings.HasPrefix(f.name, "blobs/") })
		}, true, nil, refusal.NotFound},
		{"the number of texts is wrong", func(l []member) []member { return l }, true, func(m *Manifest) { m.Blobs++ }, refusal.DigestMismatch},
		{"the rows are said to be others", func(l []member) []member { return l }, true, func(m *Manifest) { m.Rows = digest.IDOf(nil) }, refusal.RegistryMismatch},
		{"the checkpoint is another", func(l []member) []member { return l }, true, func(m *Manifest) { m.Checkpoint += "x" }, refusal.DigestMismatch},
		{"another schema", func(l []member) []member { return l }, true, func(m *Manifest) { m.Schema = "other" }, refusal.DigestMismatch},
	} {
		t.Run(tt.name, func(t *testing.T) {
			forged := write(t, tt.forge(members(t, file)), tt.relist, tt.change)
			_, err := restore(t, forged, "")
			if tt.want == "" && err != nil || tt.want != "" && !refusal.Is(err, tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 10, len(whole) / 2, len(whole) - 20} {
		cut := filepath.Join(t.TempDir(), "cut")
		if err := os.WriteFile(cut, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := restore(t, cut, ""); !refusal.Is(err, refusal.DigestMismatch) {
			t.Errorf("cut at %d of %d: %v", n, len(whole), err)
		}
	}
}
