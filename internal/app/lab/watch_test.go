package lab

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/harness"
)

// watched runs the steps one after the other: each is done when the run before
// it was shown, and the next run is what came of it. It returns the runs in words.
func (p *place) watched(spec harness.Spec, steps ...func()) []string {
	p.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute) // a change that is not noticed fails, in the end
	defer stop()
	var runs []string
	w := &Watch{Spec: spec, Began: func([]string) {}, Case: func(WatchedResult) {}}
	w.Ended = func(run *Watched) error {
		runs = append(runs, run.words())
		if len(runs) > len(steps) {
			stop()
			return nil
		}
		steps[len(runs)-1]()
		return nil
	}
	if err := w.Loop(ctx, p.open()); err != nil {
		p.t.Fatal(err)
	}
	return runs
}

func (run *Watched) words() string {
	if run.Error != "" {
		return fmt.Sprintf("changed %v: %s", run.Changed, run.Error)
	}
	text := fmt.Sprintf("changed %v: %d of %d, %d flips", run.Changed, run.Passed, run.Total, run.Flips)
	for _, c := range run.Cases {
		text += fmt.Sprintf("; %s %s was %q %s %s", c.Case, c.Outcome, c.Was, c.Why, c.Divergence)
	}
	return text
}

func TestWatchRunsAgainOnWhatChanges(t *testing.T) {
	p := newPlace(t)
	p.dataset(norway, sweden)
	const target = "version: 1\nkind: builtin\nbuiltin: {model: fake-1, api: openai.chat, max_output_tokens: 100, retries: 0}\n"
	wrong := strings.Replace(norway, `"text":"Oslo"`, `"text":"Bergen"`, 1)
	if wrong == norway {
		t.Fatal("the case has no reply to change")
	}
	runs := p.watched(harness.Spec{Class: "cities", Targets: []string{"default"}, Version: "test"},
		func() { p.dataset(wrong, sweden) },
		func() { p.write("targets/default.yaml", "nonsense: [\n") },
		func() { p.write("targets/default.yaml", target) },
		func() { p.dataset(norway, sweden) },
	)
	for i, want := range [][]string{
		{"changed []: 1 of 2, 0 flips"},
		{"changed [bench/cities/dataset.jsonl]: 0 of 2, 1 flips; norway failed was \"passed\"", "Bergen"},
		{"changed [targets/default.yaml]: targets/default.yaml:"},
		{"changed [targets/default.yaml]: 0 of 2, 0 flips; norway failed was \"failed\"", "Bergen"},
		{"changed [bench/cities/dataset.jsonl]: 1 of 2, 1 flips; norway passed was \"failed\""},
	} {
		for _, part := range want {
			if i >= len(runs) || !strings.Contains(runs[i], part) {
				t.Errorf("run %d lacks %q:\n%s", i, part, strings.Join(runs, "\n"))
			}
		}
	}
	if got := p.kinds(); got != "" {
		t.Errorf("the ledger has %s", got)
	}
}

// TestWatchRunsWhatChangedFirst: and everything, if more than cases changed.
func TestWatchRunsWhatChangedFirst(t *testing.T) {
	p := newPlace(t)
	p.dataset(norway, sweden)
	wrong := func(line string) string { return strings.Replace(line, `"text":"`, `"text":"not `, 1) }
	p.dataset(wrong(norway), wrong(sweden))
	runs := p.watched(harness.Spec{Class: "cities", Targets: []string{"default"}, Version: "test"},
		func() { p.dataset(wrong(norway), wrong(wrong(sweden))) },
		func() {
			p.write("bench/cities/registration.yaml", strings.Replace(registration, "turns: 5", "turns: 6", 1))
		},
	)
	for i, want := range []string{"norway sweden", "sweden norway", "norway sweden"} {
		first, second, _ := strings.Cut(want, " ")
		if at := strings.Index(runs[i], first); at < 0 || at > strings.Index(runs[i], second) {
			t.Errorf("run %d is not %s: %s", i, want, runs[i])
		}
	}
}

func TestWatchIsRefusedLikeARun(t *testing.T) {
	p := newPlace(t)
	p.dataset(norway)
	for _, tt := range []struct {
		name string
		spec harness.Spec
	}{
		{"an unknown class", harness.Spec{Class: "citis", Targets: []string{"default"}}},
		{"an unknown target", harness.Spec{Class: "cities", Targets: []string{"defualt"}}},
		{"no such case", harness.Spec{Class: "cities", Targets: []string{"default"}, Selection: harness.Selection{Cases: []string{"x*"}}}},
	} {
		w := &Watch{Spec: tt.spec, Began: func([]string) {}, Case: func(WatchedResult) {}, Ended: func(run *Watched) error { return fmt.Errorf("ran: %+v", run) }}
		if err := w.Loop(context.Background(), p.open()); refusal.ExitCode(err) != refusal.ExitUsage {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// TestWatchedFilesAreCompared: a new time alone is not a change, and what an editor
// leaves beside a file is not looked at.
func TestWatchedFilesAreCompared(t *testing.T) {
	p := newPlace(t)
	p.dataset(norway)
	w := watchedFiles{place: p.open(), class: "cities", target: "default"}
	w.look(nil)
	for _, tt := range []struct {
		name string
		do   func()
		want string
	}{
		{"nothing", func() {}, ""},
		{"the same again", func() { p.dataset(norway) }, ""},
		{"left by an editor", func() { p.write("bench/cities/.dataset.jsonl.swp", "x") }, ""},
		{"another class", func() { p.write("bench/rivers/dataset.jsonl", "x") }, ""},
		{"another target", func() { p.write("targets/other.yaml", "x") }, ""},
		{"the dataset", func() { p.dataset(sweden) }, "bench/cities/dataset.jsonl"},
		{"a recording", func() { p.write("cassettes/cities/default/x.cassette.zst", "x") }, "cassettes/cities/default/x.cassette.zst"},
		{"the judge", func() { p.write("judge.yaml", "x") }, "judge.yaml"},
		{"a golden trace", func() { p.write("golden/cities/default/norway.golden", "x") }, "golden/cities/default/norway.golden"},
	} {
		tt.do()
		if got := strings.Join(w.look(nil), " "); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestWatchedFilesAreThoseOfAVariant: the file of all variants, and the prompt of
// the one that runs.
func TestWatchedFilesAreThoseOfAVariant(t *testing.T) {
	p := newPlace(t)
	p.dataset(norway)
	p.write("prompts/a.md", "Be short.\n")
	p.write("prompts/b.md", "Be long.\n")
	p.write("targets/many.yaml", "version: 1\nkind: builtin\nbuiltin: {model: fake-1, api: openai.chat, max_output_tokens: 100, retries: 0}\nparameters:\n  prompt_file: [prompts/a.md, prompts/b.md]\n")
	const variant = "many[prompt_file=prompts/a.md]"
	runs := p.watched(harness.Spec{Class: "cities", Targets: []string{variant}, Version: "test"},
		func() { p.write("prompts/b.md", "Longer.\n"); p.write("prompts/a.md", "Shorter.\n") },
		func() {
			p.write("targets/many.yaml", "version: 1\nkind: builtin\nbuiltin: {model: fake-2, api: openai.chat, max_output_tokens: 100, retries: 0}\nparameters:\n  prompt_file: [prompts/a.md, prompts/b.md]\n")
		},
	)
	for i, want := range []string{"changed []: ", "changed [prompts/a.md]: ", "changed [targets/many.yaml]: "} {
		if i >= len(runs) || !strings.HasPrefix(runs[i], want) || strings.Contains(runs[i], "no run") {
			t.Errorf("run %d does not begin %q: %q", i, want, runs)
		}
	}
}
