package harness

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/store"
)

// TestTheTargetIsKept: the settings of an attempt can be read when the workspace has other
// ones; those with a secret in them are not kept, and the attempt runs all the same.
func TestTheTargetIsKept(t *testing.T) {
	secret := "sk-" + "proj-Ab3dE5gH9jK1mN3pQ5rS7tU9"
	for name, c := range map[string]struct {
		system string
		kept   bool
	}{
		"a prompt":             {"Answer with one number.", true},
		"a prompt with a key":  {"The key is " + secret + ".", false},
		"a prompt of 300 KiB":  {strings.Repeat("Be brief. ", 30<<10), false},
		"a prompt in Japanese": {"数字で答えてください。", true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, sum(1, "2"))
			p.write("targets/default.yaml", strings.Replace(plainTarget, "model: m", `model: m, system: "`+c.system+`"`, 1))
			if _, err := p.run(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
			plan := p.records(evidence.AttemptRegisteredKind)[0].Body.(*evidence.AttemptRegistered).Plan
			data, err := store.OpenVault(store.OS{}, filepath.Join(p.dir, "evidence")).Get(plan.TargetDigest, 1<<26)
			if kept := err == nil; kept != c.kept || kept && !strings.Contains(string(data), c.system) {
				t.Errorf("kept %v, expected %v: %.200s, %v", kept, c.kept, data, err)
			}
		})
	}
}

// TestTheFilesOfACommandAreKept as the stream that the settings name by its digest.
func TestTheFilesOfACommandAreKept(t *testing.T) {
	p := newPlace(t, sum(1, "2"))
	p.write("targets/mine/main.py", "print('one')\n")
	p.write("targets/default.yaml", "version: 1\nkind: command\ncommand: {command: [python3, /agent/main.py], files: mine}\n")
	c, err := p.config()
	if err != nil {
		t.Fatal(err)
	}
	a := &attempt{cfg: &c.Config}
	pieces, err := a.targetPieces()
	if err != nil || len(pieces) != 2 || !strings.Contains(string(pieces[1]), "print('one')") {
		t.Fatalf("%d pieces, %v", len(pieces), err)
	}
}
