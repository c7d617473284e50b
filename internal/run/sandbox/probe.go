package sandbox

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/sandbox/firstprocess"
	"tallystick/internal/run/sandbox/runfolder"
)

// A ClassStatus says whether a class works on this machine, found by running
// something in it.
type ClassStatus struct {
	Class  Class
	Works  bool
	Reason string        // why not, or what was run
	Start  time.Duration // of the probe from its start to its answer
}

// Probe tries every class, strongest first. executable and tempDir are as in
// [Options].
func Probe(ctx context.Context, executable, tempDir string) ([]ClassStatus, error) {
	exe, err := resolveExecutable(executable)
	if err != nil {
		return nil, err
	}
	base, err := runfolder.Open(tempDir)
	if err != nil {
		return nil, err
	}
	base.Sweep()
	var all []ClassStatus
	for _, c := range Classes() {
		all = append(all, probe(ctx, c, exe, base))
	}
	return all, nil
}

// probeDeadline bounds a probe: a class that hangs does not work.
const probeDeadline = 20 * time.Second

// probeRubric computes something that is not in its input and not a constant
// of the probe: seven factorial times the input.
var probeRubric = Rubric{Main: "rubric.star", Files: map[string][]byte{"rubric.star": []byte(`
def score(harness_output, expected, case_metadata):
    n = harness_output
    for i in range(1, 8):
        n = n * i
    return {"product": n}
`)}}

const (
	probeInput  = `{"harness_output":13,"expected":null,"case_metadata":{}}`
	probeAnswer = `{"product":65520}`
)

type probeKey struct {
	class      Class
	executable string
}

var probed sync.Map // probeKey to ClassStatus

// probe runs the probe rubric once per class and program, and remembers. A
// probe cut short by its caller is not remembered.
func probe(ctx context.Context, class Class, executable string, base *runfolder.Base) ClassStatus {
	key := probeKey{class, executable}
	if s, ok := probed.Load(key); ok {
		return s.(ClassStatus)
	}
	s := ClassStatus{Class: class}
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, probeDeadline)
	defer cancel()
	answer, err := runProbe(limited, class, executable, base)
	switch {
	case err != nil && limited.Err() != nil && ctx.Err() == nil:
		s.Reason = fmt.Sprintf("started, but gave no answer within %v", probeDeadline)
	case err != nil:
		s.Reason = err.Error() + whyNoNamespaces("/proc/sys")
	case strings.TrimSpace(string(answer)) != probeAnswer:
		s.Reason = fmt.Sprintf("the probe answered %q, not %s", firstprocess.HeadString(answer[:min(len(answer), 200)]), probeAnswer)
	default:
		s.Works, s.Reason, s.Start = true, "ran a rubric and got its answer", time.Since(began)
	}
	if ctx.Err() == nil {
		probed.Store(key, s)
	}
	return s
}

func runProbe(ctx context.Context, class Class, executable string, base *runfolder.Base) ([]byte, error) {
	o := Options{Rubric: probeRubric, Scope: ScopeCase, Executable: executable}
	b, err := openBackend(class, o, base)
	if err != nil {
		return nil, err
	}
	defer b.close()
	limits, err := Limits{Timeout: probeDeadline, MemoryBytes: 256 << 20}.orDefaults()
	if err != nil {
		return nil, err
	}
	r, err := b.run(ctx, []byte(probeInput), limits)
	if err != nil {
		return nil, err
	}
	if r.Verdict != OK {
		return nil, refusal.Newf(refusal.SandboxFailed, "the probe ended with %s (status %d): %s", r.Verdict, r.ExitCode, strings.TrimSpace(r.StderrHead))
	}
	return r.Stdout, nil
}

// whyNoNamespaces names the setting of a system that forbids user namespaces to
// ordinary programs: without it, a reader has only a refused system call.
func whyNoNamespaces(settings string) string {
	for _, f := range []struct{ name, forbids, allow string }{
		{"kernel/apparmor_restrict_unprivileged_userns", "1", "0"},
		{"kernel/unprivileged_userns_clone", "0", "1"},
		{"user/max_user_namespaces", "0", "10000"},
	} {
		data, err := os.ReadFile(filepath.Join(settings, f.name))
		if err == nil && strings.TrimSpace(string(data)) == f.forbids {
			name := strings.ReplaceAll(f.name, "/", ".")
			return fmt.Sprintf(" (this system forbids user namespaces: %s is %s; an administrator allows them with \"sysctl -w %s=%s\")", name, f.forbids, name, f.allow)
		}
	}
	return ""
}
