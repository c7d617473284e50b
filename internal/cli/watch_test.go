package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"tallystick/internal/app/lab"
	"tallystick/internal/run/harness"
)

// A stopWriter ends a watch after its first answer.
type stopWriter struct {
	strings.Builder
	stop context.CancelFunc
}

func (w *stopWriter) Write(p []byte) (int, error) {
	defer w.stop()
	return w.Builder.Write(p)
}

func TestWatchSaysALineForEachRunAndRecordsNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "w")
	vars := map[string]string{"XDG_STATE_HOME": t.TempDir(), "HOME": t.TempDir()}
	getenv := func(name string) string { return vars[name] }
	if code := Main([]string{"init", dir, "--quiet"}, strings.NewReader(""), &strings.Builder{}, &strings.Builder{}, getenv, nil); code != 0 {
		t.Fatalf("init: exit %d", code)
	}
	for _, tt := range []struct {
		json bool
		want string
	}{
		{false, "builtin:adversarial by vulnerable: 9: 0 passed, 9 failed; "},
		{true, `"recorded":false`},
	} {
		ctx, stop := context.WithCancel(context.Background())
		out := &stopWriter{stop: stop}
		env := newEnv(strings.NewReader(""), out, &strings.Builder{}, getenv)
		env.WorkspaceDir, env.JSON = dir, tt.json
		if err := runWatch(ctx, env, runOptions{spec: harness.Spec{Class: "builtin:adversarial", Targets: []string{"vulnerable"}}}, ""); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); !strings.Contains(got, tt.want) || strings.Count(got, "\n") != 1 || strings.Contains(got, "\x1b") {
			t.Errorf("json %v: %s", tt.json, got)
		}
		var run lab.Watched
		if err := json.Unmarshal([]byte(out.String()), &run); tt.json && (err != nil || run.Failed != 9) {
			t.Errorf("%v, %+v", err, run)
		}
	}
	var log strings.Builder
	if Main([]string{"log", "--workspace", dir}, strings.NewReader(""), &log, &strings.Builder{}, getenv, nil); !strings.Contains(log.String(), "no attempts yet") {
		t.Errorf("a watch recorded something: %s", log.String())
	}
}

func TestWatchSaysTheCommandOfAnAttempt(t *testing.T) {
	cmd := newRun(&Env{})
	if err := cmd.ParseFlags([]string{"--watch", "--target", "mine", "--case", "a*", "--case", "!b", "--repeat", "3"}); err != nil {
		t.Fatal(err)
	}
	if got := typed(cmd, "tally run", []string{"cities"}); got != "tally run cities --case 'a*' --case '!b' --repeat 3 --target mine" {
		t.Errorf("%s", got)
	}
}

// TestWatchTakesTheFlagsThatMeanSomethingWithoutAnAttempt asks every flag of "tally run".
func TestWatchTakesTheFlagsThatMeanSomethingWithoutAnAttempt(t *testing.T) {
	newRun(&Env{}).Flags().VisitAll(func(f *pflag.Flag) {
		cmd, spec := newRun(&Env{}), harness.Spec{}
		value := map[string]string{"bool": "true", "int": "1", "int64": "1", "float64": "0.5"}[f.Value.Type()]
		if err := cmd.Flags().Set(f.Name, cmp.Or(value, "x")); err != nil {
			t.Fatal(err)
		}
		err := watchedSpec(cmd, &spec)
		if takes := slices.Contains(watchFlags, f.Name); takes != (err == nil) {
			t.Errorf("--%s: %v", f.Name, err)
		}
	})
	if err := watchedSpec(newRun(&Env{}), &harness.Spec{Targets: []string{"a", "b"}}); err == nil {
		t.Error("two targets are watched")
	}
}
