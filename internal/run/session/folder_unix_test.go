//go:build unix

package session

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/policy"
	"tallystick/internal/run/tools"
	"tallystick/internal/run/trajectory"
)

func newWork(t *testing.T) *Folder {
	t.Helper()
	f, err := NewFolder(filepath.Join(t.TempDir(), "work"), []digest.File{{Path: "a.txt", Data: []byte("one\n")}, {Path: "d/b.txt", Data: []byte("two\n")}})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// story tells the events about the folder.
func story(t *testing.T, r Result) string {
	t.Helper()
	v, err := trajectory.Verify(r.Trajectory, trajectory.HeadIs(r.Head))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for e := range v.Events() {
		switch p := e.Payload.(type) {
		case *trajectory.FileWritten:
			out = append(out, fmt.Sprintf("%d+%s %s%s", e.Turn, p.Path, p.Mode, p.Link))
		case *trajectory.FileDeleted:
			out = append(out, fmt.Sprintf("%d-%s", e.Turn, p.Path))
		case *trajectory.Rollback:
			out = append(out, fmt.Sprintf("%d<%v %s", e.Turn, p.Identical, strings.Join(p.Standing, "; ")))
		case *trajectory.Failure:
			out = append(out, fmt.Sprintf("%d!%s", e.Turn, p.Name))
		}
	}
	return strings.Join(out, ", ")
}

// TestTheFolderIsToldAtTheEndOfEachTurn: what a program did to it on its own, by
// path, whatever it is.
func TestTheFolderIsToldAtTheEndOfEachTurn(t *testing.T) {
	f := newWork(t)
	s := start(t, policy.Policy{Mode: policy.Autonomous, MaxToolCalls: 9, MaxCostMicroUSD: 9}, nil, func(c *Config) { c.Folder = f })
	s.StartTurn("", "one")
	os.WriteFile(f.Dir+"/z", []byte("z"), 0o755)
	os.Chmod(f.Dir+"/z", 0o755)
	os.WriteFile(f.Dir+"/\xff\n", nil, 0o644)
	os.Remove(f.Dir + "/a.txt")
	s.CompleteTurn("done")
	s.StartTurn("", "two")
	os.Symlink("/etc/passwd", f.Dir+"/l")
	os.Remove(f.Dir + "/z")
	s.CompleteTurn("done")
	os.WriteFile(f.Dir+"/late", nil, 0o644)
	r := s.Complete("done", false)
	want := `1-a.txt, 1+z 0755, 1+\xff\x0a , 2+l /etc/passwd, 2-z, 2+late `
	if got := story(t, r); got != want || r.Folder != nil {
		t.Errorf("told %q, want %q (%v)", got, want, r.Folder)
	}
}

// TestAFolderThatCannotBeComparedIsSaid: never an empty list of changes.
func TestAFolderThatCannotBeComparedIsSaid(t *testing.T) {
	f := newWork(t)
	s := start(t, policy.Policy{Mode: policy.Autonomous, MaxToolCalls: 9, MaxCostMicroUSD: 9}, nil, func(c *Config) { c.Folder = f })
	s.StartTurn("", "one")
	syscall.Mkfifo(f.Dir+"/p", 0o644)
	s.CompleteTurn("done")
	os.Remove(f.Dir + "/p") // too late
	r := s.Complete("done", false)
	if got := story(t, r); got != "1!FolderUnreadable" || !refusal.Is(r.Folder, refusal.FolderUnreadable) {
		t.Errorf("told %q, %v", got, r.Folder)
	}
	if _, err := f.Changes(); err == nil {
		t.Error("the changes are known")
	}
	if _, _, err := f.File("a.txt"); err == nil {
		t.Error("a file is known")
	}
}

// overBudget has a call made that the policy permits and whose price breaks it.
func overBudget(t *testing.T, f *Folder, d tools.Definition, args string, more func(*Config)) Result {
	t.Helper()
	s := start(t, policy.Policy{Mode: policy.Autonomous, MaxToolCalls: 9, MaxCostMicroUSD: 5}, []tools.Definition{d}, func(c *Config) {
		c.Folder = f
		if more != nil {
			more(c)
		}
	})
	if more != nil {
		more(&s.cfg)
	}
	if _, err := s.Tool(context.Background(), ToolCall{Name: d.Name, Args: []byte(args)}); err != nil {
		t.Fatal(err)
	}
	return s.Complete("", false)
}

// elsewhere answers from a place whose effects cannot be taken back here.
type elsewhere struct{ class policy.Class }

func (e elsewhere) Definitions() []tools.Definition {
	return []tools.Definition{{Name: "pay", Class: e.class}}
}

func (elsewhere) Call(context.Context, string, []byte) (tools.Result, error) {
	return tools.Result{JSON: []byte(`{"ok":true}`), Source: "live", Trust: "untrusted", CostMicroUSD: 9, Latency: time.Millisecond}, nil
}

// TestAPaymentThatStandsIsAFailedRollback: its effect is nowhere that could be
// restored.
func TestAPaymentThatStandsIsAFailedRollback(t *testing.T) {
	for class, want := range map[policy.Class]string{
		policy.Financial: "0<false the call of pay (financial)", policy.Network: "0<false the call of pay (network)", policy.Privileged: "0<false the call of pay (privileged)",
		policy.Write: "0<false the call of pay (write)", policy.Read: "0<true ",
	} {
		r := overBudget(t, newWork(t), fixture("pay", class, `{}`), `{}`, func(c *Config) { c.Tools = elsewhere{class} })
		verified := 0
		if class == policy.Read {
			verified = 1
		}
		if got := story(t, r); got != want || r.Counts.Rollbacks != 1 || r.Counts.RollbacksIdentical != verified {
			t.Errorf("%s: told %q, want %q; %+v", class, got, want, r.Counts)
		}
	}
}

// TestFixturesAreTakenBack: what a fixture remembers is here, and is restored.
func TestFixturesAreTakenBack(t *testing.T) {
	d := fixture("pay", policy.Financial, `{"ok":true}`)
	price := int64(9)
	d.Replies[0].CostMicroUSD = &price
	f := newWork(t)
	s := start(t, policy.Policy{Mode: policy.Autonomous, MaxToolCalls: 9, MaxCostMicroUSD: 5}, []tools.Definition{d}, func(c *Config) { c.Folder = f })
	box := s.cfg.Tools.(*tools.State)
	before, _ := box.Snapshot().JSON()
	if _, err := s.Tool(context.Background(), ToolCall{Name: "pay", Args: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	after, _ := box.Snapshot().JSON()
	r := s.Complete("", false)
	if got := story(t, r); got != "0<true " || string(before) != string(after) {
		t.Errorf("told %q; the tools remembered %s, now %s", got, before, after)
	}
}

// TestOddFoldersAreRolledBack: a link, a mode or an odd name does not stand in
// the way of a rollback, and what does makes it a failed one.
func TestOddFoldersAreRolledBack(t *testing.T) {
	write := tools.Definition{Name: "fs_write", Source: tools.Folder, CostMicroUSD: 9}
	for name, tt := range map[string]struct {
		do   func(dir string) error
		want string
	}{
		"a link":     {func(d string) error { return os.Symlink("/etc/passwd", d+"/l") }, "0+evil , 0<true , 0+l /etc/passwd"},
		"a mode":     {func(d string) error { return os.Chmod(d+"/a.txt", 0o755) }, "0+evil , 0<true , 0+a.txt 0755"},
		"a bad name": {func(d string) error { return os.WriteFile(d+"/\xff", nil, 0o644) }, `0+evil , 0<true , 0+\xff `},
		"a pipe": {func(d string) error { return syscall.Mkfifo(d+"/p", 0o644) },
			"0<false the working folder: the working folder cannot be compared: p is a named pipe, 0!FolderUnreadable"},
	} {
		f := newWork(t)
		if err := tt.do(f.Dir); err != nil {
			t.Fatal(err)
		}
		was, _ := os.Stat(f.Dir)
		r := overBudget(t, f, write, `{"path":"evil","text":"x"}`, nil)
		if got := story(t, r); got != tt.want && !strings.HasPrefix(tt.want, "0<false") || strings.HasPrefix(tt.want, "0<false") && !strings.Contains(got, tt.want) {
			t.Errorf("%s: told %q, want %q", name, got, tt.want)
		}
		if is, err := os.Stat(f.Dir); err != nil || !os.SameFile(was, is) {
			t.Errorf("%s: another folder is in its place", name)
		}
		if r.Counts.Rollbacks != 1 {
			t.Errorf("%s: %+v", name, r.Counts)
		}
	}
}
