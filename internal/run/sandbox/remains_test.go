//go:build linux

package sandbox

import (
	"context"
	_ "embed"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// remainsSource is a program that writes wherever it can, or looks for what
// another one wrote: see there.
//
//go:embed testdata/remains.py
var remainsSource string

// What the program says.
type remains struct {
	Left  []string // what it could write
	Found []string
	// State is what there is, by kind of fact and then by path: the same for all
	// cases, but for what was never the same.
	State map[string]map[string]json.RawMessage
}

// A remainsPlace is where cases follow each other: it runs the program as one
// case, told what to do.
type remainsPlace func(t *testing.T, order string) remains

func readRemains(t *testing.T, order string, stdout []byte, verdict Verdict, stderr string) (r remains) {
	t.Helper()
	line, _, _ := strings.Cut(string(stdout), "\n")
	if err := json.Unmarshal([]byte(line), &r); err != nil {
		t.Fatalf("%s: %s, %v, %.300q: %s", order, verdict, err, stdout, stderr)
	}
	return r
}

// nothingRemains has one case write wherever it can, and wants the others to
// see nothing of it: those whose room was made before and those after, the next
// one and one at the same time.
func nothingRemains(t *testing.T, place remainsPlace) {
	t.Helper()
	before := place(t, "look")
	// What is another one already is not compared. Three, because the rooms of the
	// first two are made at the same time, and what is new in them is as old.
	others := []remains{place(t, "look"), place(t, "look")}
	same := func(kind, path string, fact json.RawMessage) bool {
		return !slices.ContainsFunc(others, func(o remains) bool { return string(o.State[kind][path]) != string(fact) })
	}
	compare := func(when string, now remains) {
		t.Helper()
		for _, f := range now.Found {
			t.Errorf("%s a case finds %s", when, f)
		}
		for kind, facts := range now.State {
			for path, fact := range facts {
				was, ok := before.State[kind][path]
				switch {
				case !ok:
					t.Errorf("%s there is %s of %s: %s", when, kind, path, fact)
				case string(was) != string(fact) && same(kind, path, was):
					t.Errorf("%s %s of %s is %s, and was %s", when, kind, path, fact, was)
				}
			}
		}
		for kind, facts := range before.State {
			for path := range facts {
				if _, ok := now.State[kind][path]; !ok {
					t.Errorf("%s there is no %s of %s", when, kind, path)
				}
			}
		}
	}
	compare("at first", before)
	// At once, which is also in a room that was there before.
	var both sync.WaitGroup
	var left, seen remains
	both.Go(func() { left = place(t, "leave") })
	both.Go(func() { seen = place(t, "look") })
	both.Wait()
	t.Logf("a case left %d: %.2000q", len(left.Left), left.Left)
	if len(left.Left) == 0 {
		t.Error("the test would not see a leftover: nothing could be written at all")
	}
	compare("at once", seen)
	// In rooms made before the case ended, and after.
	for _, when := range []string{"next", "after that", "in the end"} {
		compare(when, place(t, "look"))
	}
}

// What one case of a warm agent writes is in no other, wherever it can write.
func TestNothingOfAWarmCaseRemains(t *testing.T) {
	eachClass(t, func(t *testing.T, class Class) {
		if !slices.Contains(warmClasses(), class) {
			t.Skip("keeps no agents")
		}
		a := newSmallWarmAgent(t, class, map[string]string{"agent.py": remainsSource})
		nothingRemains(t, func(t *testing.T, order string) remains {
			r, err := a.start(t, order+"\n", func(o *AgentOptions) { o.Limits = AgentLimits{Timeout: 2 * time.Minute, OutputBytes: 32 << 20} })
			if err != nil {
				t.Fatal(err)
			}
			return readRemains(t, order, r.Stdout, r.Verdict, r.StderrHead)
		})
	})
}

// The same for rubrics that share a sandbox, each for one case.
func TestNothingOfARubricRemains(t *testing.T) {
	eachClass(t, func(t *testing.T, class Class) {
		if class.made().attempt == nil {
			t.Skip("makes a sandbox for every case")
		}
		s := open(t, class, python(remainsSource), func(o *Options) { o.Scope, o.Jobs = ScopeAttempt, 2 })
		nothingRemains(t, func(t *testing.T, order string) remains {
			r, err := s.Run(context.Background(), Job{Stdin: []byte(order + "\n"), Limits: Limits{Timeout: time.Minute}})
			if err != nil {
				t.Fatal(err)
			}
			said := readRemains(t, order, r.Stdout, r.Verdict, r.StderrHead)
			// gVisor has one set of terminals for all rubrics of a sandbox. To make one
			// and to look for one are attempts, and such a run is not scored.
			if !slices.ContainsFunc(r.Attempted, func(a Attempt) bool { return strings.Contains(a.Detail, "/dev/p") }) {
				t.Errorf("%s: no terminal among %v", order, r.Attempted)
			}
			said.Found = slices.DeleteFunc(said.Found, func(f string) bool { return f == "the terminal" })
			for _, facts := range said.State {
				maps.DeleteFunc(facts, func(path string, _ json.RawMessage) bool { return strings.HasPrefix(path, "/dev/pts/") })
			}
			return said
		})
	})
}

// warmClasses are the classes that keep agents.
func warmClasses() (names []Class) {
	for _, c := range classes {
		if c.keep != nil {
			names = append(names, Class(c.Name))
		}
	}
	return names
}

// newSmallWarmAgent is newWarmAgent without the host's /usr, which takes minutes
// to walk: it has a Python and what that needs.
func newSmallWarmAgent(t *testing.T, class Class, files map[string]string) *warmAgent {
	t.Helper()
	image := hostImage(t)
	entries, err := os.ReadDir(image.Root())
	if err != nil {
		t.Fatal(err)
	}
	return newWarmAgentWith(t, class, files, func(o *AgentOptions) {
		o.System, o.Command = false, []string{image.About.Command[0], "/agent/agent.py"}
		o.Env = append(o.Env, image.About.Env...)
		for _, e := range entries {
			if inside := "/" + e.Name(); e.IsDir() && !slices.Contains(append(reservedFolders, "/tmp", "/rubric"), inside) {
				o.ReadOnly = append(o.ReadOnly, Mount{Host: filepath.Join(image.Root(), e.Name()), Inside: inside})
			}
		}
	})
}
