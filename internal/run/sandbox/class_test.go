//go:build linux

package sandbox

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"go/format"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tallystick/internal/run/sandbox/isolation"
	"tallystick/internal/run/sandbox/runfolder"
)

var update = flag.Bool("update", false, "write what is generated from the classes")

// listOf is isolation/classes.go.
func listOf(t *testing.T, list []isolation.Class) []byte {
	var b bytes.Buffer
	b.WriteString("// Code written from the rows of package sandbox by \"make docs\". DO NOT EDIT.\n\npackage isolation\n\nvar classes = []Class{\n")
	for _, c := range list {
		b.WriteString("\t" + strings.TrimPrefix(fmt.Sprintf("%#v", c), "isolation.Class") + ",\n")
	}
	b.WriteString("}\n")
	source, err := format.Source(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return source
}

// tableOf is the table of docs/sandbox.md.
func tableOf(list []isolation.Class) string {
	var b strings.Builder
	b.WriteString("| Class | What stands between rubric and host | Shares the host's kernel | Counts for promotion |\n|---|---|---|---|\n")
	for _, c := range list {
		counts := "no"
		if c.Promotes {
			counts = "yes"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", c.Name, c.Between, c.SharesKernel, counts)
	}
	return b.String()
}

// showsOf is what docs/sandbox.md says of what the classes show.
func showsOf(list []isolation.Class) string {
	var b strings.Builder
	for _, c := range list {
		if c.Shows != "" {
			fmt.Fprintf(&b, "What `%s` shows of the host: %s. `tally sandbox probe` says so (`shows` in JSON).\n", c.Name, c.Shows)
		}
	}
	return b.String()
}

// TestClassPages compares what is written from the rows with the rows. With
// -update, as "make docs" runs it, it writes them.
func TestClassPages(t *testing.T) {
	const page = "../../../docs/sandbox.md"
	old, err := os.ReadFile(page)
	if os.IsNotExist(err) {
		t.Skip("the documentation is not here")
	}
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(old), "| Class | What stands between")
	_, rest, _ = strings.Cut(rest, "\n\n")
	_, after, ended := strings.Cut(rest, "\n\n")
	if !found || !ended {
		t.Fatal("docs/sandbox.md has no table of classes")
	}
	for path, want := range map[string]string{
		page:                   before + tableOf(worths()) + "\n" + showsOf(worths()) + "\n" + after,
		"isolation/classes.go": string(listOf(t, worths())),
	} {
		if *update {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s is not what the rows say (%v); run \"make docs\" and read the diff", path, err)
		}
	}
}

// TestAFurtherClassIsOneFileAndOneRow adds one: the weakest, made as namespace is.
func TestAFurtherClassIsOneFileAndOneRow(t *testing.T) {
	madeUp := class{
		Class: isolation.Class{Name: "made-up", Between: "a promise", SharesKernel: "yes", Agents: true},
		run:   (*setup).runNamespace,
		keep:  (*warmBox).keepNamespace,
		room:  namespace.room,
	}
	before := classes
	classes = append(slices.Clone(classes), &madeUp)
	t.Cleanup(func() { classes = before })

	if got := Classes(); got[len(got)-1] != "made-up" {
		t.Errorf("the classes are %q", got)
	}
	if !strings.HasSuffix(tableOf(worths()), "| `made-up` | a promise | yes | no |\n") || !bytes.Contains(listOf(t, worths()), []byte(`Name: "made-up"`)) {
		t.Error("it is not in the documents")
	}
	base, err := runfolder.Open(filepath.Join(scratch, "runs"))
	if err != nil {
		t.Fatal(err)
	}
	if status := probe(context.Background(), Namespace, box, base); !status.Works {
		t.Skip("namespace does not work here: " + status.Reason)
	}
	r := run(t, "made-up", star(echoStar), `{"harness_output":1,"expected":1,"case_metadata":{}}`, Limits{})
	if r.Verdict != OK || r.Class != "made-up" || !r.Watched {
		t.Errorf("a rubric: %+v", r)
	}
	o := agentOptions("made-up", "sh", "-c", "echo hello")
	if r, err := RunAgent(context.Background(), o); err != nil || string(r.Stdout) != "hello\n" {
		t.Errorf("an agent: %+v, %v", r, err)
	}
	if why := rubricProfile.unfit("made-up", ScopeAttempt); why != "has no scope attempt" {
		t.Errorf("scope attempt: %q", why)
	}
}
