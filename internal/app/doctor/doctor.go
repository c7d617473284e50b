// Package doctor looks at this machine and at a workspace and says what they
// lack: which sandbox works, whether the memory of signed checkpoints can be
// kept, whether keys, ledger and benches are sound, whether each target starts and
// its model calls are answered, and what to do where they are not.
//
// It only looks: agents are started as a run starts them, on recorded replies. What it finds is decided by the packages that the other
// commands use, so that it cannot say "fine" where they refuse.
package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/record/workspace"
	"tallystick/internal/run/sandbox"
)

// A Check is one thing that was looked at. Fix is what to do, and empty if
// there is nothing to do.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Fix    string `json:"fix"`
}

// Examine looks at the machine, and at the workspace in dir if there is one.
func Examine(ctx context.Context, dir string, world dossier.World) []Check {
	box, works := sandboxes(ctx)
	checks := []Check{box, memory(world), program("git", "anchors are compared with what git holds, and published to it"),
		program("python3", "agents and rubrics in Python need it; built-in ones do not")}
	p, err := dossier.Open(dir, world)
	if refusal.Is(err, refusal.NotFound) {
		return append(checks, Check{"workspace", true, dir + " is not a workspace", `"tally init" makes one here`})
	}
	if err != nil {
		return append(checks, failed("workspace", err, "correct tally.yaml"))
	}
	return append(append(checks, Check{"workspace", true, fmt.Sprintf("%s, ledger %s", dir, p.Settings.Origin), ""}), append(inside(p), runs(ctx, p, works)...)...)
}

// inside looks at what a workspace holds.
func inside(p *dossier.Place) []Check {
	if !workspace.Exists(p.LedgerDir()) {
		return []Check{{"ledger", true, "there is none here: this is a checkout", `"tally run CLASS" begins a local one`}, benches(p)}
	}
	return []Check{operatorKey(p), recorded(p), benches(p), alarms(p)}
}

func failed(name string, err error, otherwise string) Check {
	r := refusal.Of(err)
	fix := r.Hint
	if fix == "" {
		fix = otherwise
	}
	return Check{name, false, r.Error(), fix}
}

// sandboxes needs one class that works: without it no agent and no rubric runs.
func sandboxes(ctx context.Context) (Check, []sandbox.Class) {
	statuses, err := sandbox.Probe(ctx, "", "")
	if err != nil {
		return failed("sandbox", err, `see "tally sandbox probe"`), nil
	}
	var classes []sandbox.Class
	var works, lacking []string
	for _, s := range statuses {
		if s.Works {
			classes = append(classes, s.Class)
			works = append(works, string(s.Class))
		} else {
			lacking = append(lacking, fmt.Sprintf("%s does not: %s", s.Class, s.Reason))
		}
	}
	if len(works) == 0 {
		return Check{"sandbox", false, "no class works: " + strings.Join(lacking, "; "),
			"allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, or kernel.apparmor_restrict_unprivileged_userns=0); docs/sandbox.md has more"}, nil
	}
	return Check{"sandbox", true, strings.Join(append([]string{strings.Join(works, ", ") + " works"}, lacking...), "; "), ""}, classes
}

// memory is where this machine remembers what it signed.
func memory(world dossier.World) Check {
	dir, err := workspace.StateDir(world.Getenv)
	if err == nil {
		err = store.MakeDir(store.OS{}, dir, 0o700)
	}
	if err != nil {
		return failed("memory", err, "make the folder writable, or set XDG_STATE_HOME to one that is")
	}
	return Check{"memory", true, "signed checkpoints are remembered in " + dir, ""}
}

// program is about something that is useful and not needed.
func program(name, use string) Check {
	path, err := exec.LookPath(name)
	if err != nil {
		return Check{name, true, "not installed; " + use, "install " + name + " if you need that"}
	}
	return Check{name, true, path, ""}
}

func operatorKey(p *dossier.Place) Check {
	if _, err := p.OperatorKey(); err != nil {
		return failed("operator key", err, "put the key back; it seals the ledger")
	}
	return Check{"operator key", true, "is there, and closed to others", ""}
}

// recorded verifies the ledger as every command does that reads it.
func recorded(p *dossier.Place) Check {
	r, err := p.Read(dossier.Ask{Want: func(*history.Attempt) bool { return false }})
	if err != nil {
		return failed("ledger", err, `see "tally ledger verify"`)
	}
	h := r.History
	if h.Time.Go().After(p.Now()) {
		return Check{"ledger", false, fmt.Sprintf("verifies, and its last entry is of %s, which is later than this machine's clock", h.Time), "set the clock"}
	}
	return Check{"ledger", true, fmt.Sprintf("verifies: %d entries, %d attempts", h.Entries, len(h.Attempts)), ""}
}

func benches(p *dossier.Place) Check {
	c, err := p.OpenCorpus()
	if err != nil {
		return failed("benches", err, `see "tally bench verify --all"`)
	}
	defer c.Close()
	classes, err := ceremony.EveryClass(c)
	if err == nil {
		_, _, err = ceremony.VerifyClasses(c, classes)
	}
	if err != nil {
		return failed("benches", err, `see "tally bench verify --all"`)
	}
	return Check{"benches", true, fmt.Sprintf("%d verify: %s", len(classes), strings.Join(classes, ", ")), ""}
}

const maxAlarms = 64 << 20

// alarms are what the ledger could not record because it was itself broken.
func alarms(p *dossier.Place) Check {
	data, err := store.ReadFile(store.OS{}, p.AlarmsFile(), maxAlarms)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Check{"alarms", true, "none", ""}
	case err != nil:
		return failed("alarms", err, "make the file readable")
	}
	n := bytes.Count(data, []byte{'\n'})
	return Check{"alarms", n == 0, fmt.Sprintf("%d in %s", n, p.AlarmsFile()), "read them, find out who did it, then move the file away"}
}
