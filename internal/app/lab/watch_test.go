package lab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/agent"
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
		{"changed [bench/cities/dataset.jsonl]: 1 of 2, 1 flips; sweden failed", "; norway passed was \"failed\""},
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
	for i, want := range []string{"norway sweden", "norway sweden", "norway sweden"} {
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
	w := watchedFiles{place: p.open(), class: "cities", targets: []string{"default"}}
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

// work is what was done for a run.
func (run *Watched) work() string {
	return fmt.Sprintf("%d driven, %d graded, %d kept: %d of %d", run.Driven, run.Regraded, run.Kept, run.Passed, run.Total)
}

// worked is watched, in terms of what was done.
func (p *place) worked(spec harness.Spec, steps ...func(w *Watch) []WatchAsk) (work []string, runs []*Watched) {
	p.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	asks := make(chan WatchAsk, 10)
	w := &Watch{Spec: spec, Began: func([]string) {}, Case: func(WatchedResult) {}, Asks: asks}
	w.Ended = func(run *Watched) error {
		work, runs = append(work, run.work()+run.Error), append(runs, run)
		if len(runs) > len(steps) {
			stop()
			return nil
		}
		for _, a := range steps[len(runs)-1](w) {
			asks <- a
		}
		return nil
	}
	if err := w.Loop(ctx, p.open()); err != nil {
		p.t.Fatal(err)
	}
	return work, runs
}

// edit is a step that saves something.
func edit(do func()) func(*Watch) []WatchAsk {
	return func(*Watch) []WatchAsk { do(); return nil }
}

// pressed is a step in which a person asks for something.
func pressed(a WatchAsk) func(*Watch) []WatchAsk {
	return func(*Watch) []WatchAsk { return []WatchAsk{a} }
}

var cities = harness.Spec{Class: "cities", Targets: []string{"default"}, Version: "test"}

func TestWatchDoesOnlyWhatAChangeTouches(t *testing.T) {
	p := newPlace(t)
	p.dataset(norway, sweden)
	easier := strings.Replace(sweden, `"expected":"Stockholm"`, `"expected":"Gothenburg"`, 1)
	other := strings.Replace(norway, "What is the capital", "Which city is the capital", 1)
	got, runs := p.worked(cities,
		edit(func() { p.dataset(norway, easier) }),
		edit(func() { p.dataset(other, easier) }),
		edit(func() {
			p.write("bench/cities/registration.yaml", strings.Replace(registration, "threshold: 0.1", "threshold: 0.9", 1))
		}),
		edit(func() {
			p.write("bench/cities/registration.yaml", strings.Replace(registration, "turns: 5", "turns: 6", 1))
		}),
		edit(func() { p.write("judge.yaml", "# nothing\n") }),
		edit(func() { must(t, os.Remove(filepath.Join(p.dir, "judge.yaml"))) }),
		pressed(WatchAsk{Failing: true}),
		pressed(WatchAsk{All: true}),
		edit(func() { p.dataset(norway, sweden) }),
		pressed(WatchAsk{Failing: true}),
	)
	want := []string{
		"2 driven, 0 graded, 0 kept: 1 of 2",
		"0 driven, 1 graded, 1 kept: 2 of 2", // the grader of one case
		"1 driven, 0 graded, 1 kept: 2 of 2", // the input of one case
		"0 driven, 2 graded, 0 kept: 2 of 2", // a gate
		"2 driven, 0 graded, 0 kept: 2 of 2", // a limit of what agents may do
		"0 driven, 0 graded, 0 kept: 0 of 0", // a judge.yaml that is refused
		"0 driven, 0 graded, 2 kept: 2 of 2", // and gone again
		"0 driven, 0 graded, 2 kept: 2 of 2", // nothing fails
		"2 driven, 0 graded, 0 kept: 2 of 2",
		"", // a case and the grader of another
		"1 driven, 0 graded, 1 kept: 1 of 2",
	}
	for i := range want {
		if i >= len(got) || want[i] != "" && !strings.HasPrefix(got[i], want[i]) {
			t.Fatalf("run %d is not %q:\n%s", i, want[i], strings.Join(got, "\n"))
		}
	}
	if r := runs[1]; r.Flips != 1 || len(r.Cases) != 1 || r.Cases[0].Was != "failed" || r.Cases[0].Outcome != "passed" {
		t.Errorf("the flip of a case that was graded again: %s", r.words())
	}
	if kinds := p.kinds(); kinds != "" {
		t.Errorf("the ledger has %s", kinds)
	}
}

func TestWatchShowsAnswersThatChanged(t *testing.T) {
	p := newPlace(t)
	p.dataset(norway, sweden)
	wordy := strings.Replace(norway, `"text":"Oslo"`, `"text":"It is Oslo"`, 1)
	_, runs := p.worked(cities, edit(func() { p.dataset(wordy, sweden) }), edit(func() { p.dataset(wordy, sweden+"\n") }), pressed(WatchAsk{All: true}))
	c := runs[1].Cases[0]
	if c.Case != "norway" || !c.Differs || c.WasAnswer != "Oslo" || c.Answer != "It is Oslo" {
		t.Errorf("the answer that changed: %+v", c)
	}
	for _, c := range runs[len(runs)-1].Cases {
		if c.Differs || c.WasAnswer != "" {
			t.Errorf("a case that is as it was differs: %+v", c)
		}
	}
}

func TestWatchHidesTheTextsOfHeldOutCases(t *testing.T) {
	p := newPlace(t)
	hidden := strings.Replace(norway, `"id":"norway",`, `"id":"norway","held_out":true,`, 1)
	p.dataset(hidden, sweden)
	_, runs := p.worked(cities, edit(func() { p.dataset(strings.Replace(hidden, `"text":"Oslo"`, `"text":"Bergen"`, 1), sweden) }))
	for _, run := range runs {
		for _, row := range run.Rows {
			for _, c := range append(row.Cells, run.Cases...) {
				if c.Case == "norway" && c.Why+c.Answer+c.WasAnswer+c.Divergence != "" {
					t.Errorf("a held-out case tells: %+v", c)
				}
			}
		}
	}
	if r := runs[1]; r.Flips != 1 {
		t.Errorf("the flip is not told: %s", r.words())
	}
}

// TestWatchAcceptsAGoldenChange: only what was asked for is written.
func TestWatchAcceptsAGoldenChange(t *testing.T) {
	p := newPlace(t)
	p.dataset(norway, sweden)
	s, err := p.setup(func(s *harness.Spec) { s.Targets = []string{"default"} })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.UpdateGolden(context.Background(), ""); err != nil {
		t.Fatal(err)
	}
	golden := func(id string) string {
		text, _ := p.open().ReadGolden("cities", "default", id)
		return string(text)
	}
	before := golden("sweden")
	other := func(line string) string { return strings.Replace(line, `"text":"`, `"text":"It is `, 1) }
	_, runs := p.worked(cities,
		edit(func() { p.dataset(other(norway), other(sweden)) }),
		pressed(WatchAsk{Accept: []GoldenChange{{Target: "default", Case: "norway"}}}),
	)
	last := runs[len(runs)-1]
	switch {
	case len(runs[0].Golden) != 0 || len(runs[1].Golden) != 2:
		t.Errorf("golden changes: %v, then %v", runs[0].Golden, runs[1].Golden)
	case len(last.Accepted) != 1 || len(last.Golden) != 1 || last.Golden[0].Case != "sweden" || last.Driven != 0:
		t.Errorf("accepted %v, left %v: %s", last.Accepted, last.Golden, last.work())
	case !strings.Contains(golden("norway"), "It is Oslo") || golden("sweden") != before:
		t.Errorf("norway: %s\nsweden: %s", golden("norway"), golden("sweden"))
	}
}

// TestWatchRunsSeveralTargets: an edit of one drives that one.
func TestWatchRunsSeveralTargets(t *testing.T) {
	p := newPlace(t)
	p.dataset(norway)
	many := func(model string) string {
		return "version: 1\nkind: builtin\nbuiltin: {model: " + model + ", api: openai.chat, max_output_tokens: 100, retries: 0}\n"
	}
	p.write("targets/a.yaml", many("fake-1")+"parameters:\n  prompt_file: [prompts/a.md, prompts/b.md]\n")
	p.write("targets/b.yaml", many("fake-2"))
	p.write("prompts/a.md", "Be short.\n")
	p.write("prompts/b.md", "Be long.\n")
	got, runs := p.worked(harness.Spec{Class: "cities", Targets: []string{"a", "b"}, Version: "test"},
		edit(func() { p.write("prompts/b.md", "Longer.\n") }),
		edit(func() { p.write("targets/b.yaml", many("fake-3")) }),
	)
	want := []string{"3 driven, 0 graded, 0 kept: 3 of 3", "1 driven, 0 graded, 2 kept: 3 of 3", "1 driven, 0 graded, 2 kept: 3 of 3"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	if r := runs[0]; len(r.Targets) != 3 || len(r.Rows) != 1 || len(r.Rows[0].Cells) != 3 || r.Rows[0].Cells[2].Answer != "Oslo" {
		t.Errorf("the rows of several targets: %+v", r.Rows)
	}
}

// TestWatchFindsTheOnlyTarget: a run that names none takes it, so it is looked at.
func TestWatchFindsTheOnlyTarget(t *testing.T) {
	p := newPlace(t)
	p.dataset(norway)
	text, err := os.ReadFile(filepath.Join(p.dir, "targets/default.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(p.dir, "targets/default.yaml"), filepath.Join(p.dir, "targets/mine.yaml")); err != nil {
		t.Fatal(err)
	}
	got, _ := p.worked(harness.Spec{Class: "cities", Version: "test"}, edit(func() { p.write("targets/mine.yaml", strings.Replace(string(text), "fake-1", "fake-2", 1)) }))
	if len(got) != 2 || !strings.HasPrefix(got[1], "1 driven") {
		t.Errorf("%q", got)
	}
}

// saves are the ways in which editors and other programs write a file again.
var saves = map[string]func(t *testing.T, file, text string){
	"in place": func(t *testing.T, file, text string) { must(t, os.WriteFile(file, []byte(text), 0o644)) },
	"truncate, then write": func(t *testing.T, file, text string) {
		must(t, os.Truncate(file, 0))
		time.Sleep(30 * time.Millisecond)
		must(t, os.WriteFile(file, []byte(text), 0o644))
	},
	"a new file, renamed over": func(t *testing.T, file, text string) {
		must(t, os.WriteFile(file+".tmp", []byte(text), 0o644))
		must(t, os.Rename(file+".tmp", file))
	},
	"the old one renamed, a new one written (vim with a backup)": func(t *testing.T, file, text string) {
		must(t, os.WriteFile(filepath.Join(filepath.Dir(file), ".x.swp"), []byte("b0VIM"), 0o644))
		must(t, os.Rename(file, file+"~"))
		must(t, os.WriteFile(file, []byte(text), 0o644))
		must(t, os.Remove(file+"~"))
		must(t, os.Remove(filepath.Join(filepath.Dir(file), ".x.swp")))
	},
	"removed, then written": func(t *testing.T, file, text string) {
		must(t, os.Remove(file))
		must(t, os.WriteFile(file, []byte(text), 0o644))
	},
	"in place, with the old time put back": func(t *testing.T, file, text string) {
		info, err := os.Stat(file)
		must(t, err)
		must(t, os.WriteFile(file, []byte(text), 0o644))
		must(t, os.Chtimes(file, info.ModTime(), info.ModTime()))
	},
	"renamed over, with the old time (cp -p, mv)": func(t *testing.T, file, text string) {
		info, err := os.Stat(file)
		must(t, err)
		must(t, os.WriteFile(file+".tmp", []byte(text), 0o644))
		must(t, os.Chtimes(file+".tmp", info.ModTime(), info.ModTime()))
		must(t, os.Rename(file+".tmp", file))
	},
	"a link that leads elsewhere now": func(t *testing.T, file, text string) {
		must(t, os.WriteFile(file+".other", []byte(text), 0o644))
		must(t, os.Remove(file))
		must(t, os.Symlink(file+".other", file))
	},
	"through a hard link": func(t *testing.T, file, text string) {
		elsewhere := filepath.Join(t.TempDir(), "hard")
		if err := os.Link(file, elsewhere); err != nil {
			t.Skip(err)
		}
		must(t, os.WriteFile(elsewhere, []byte(text), 0o644))
	},
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestWatchSeesEveryWayOfSaving: the texts are of the same length, so that the size tells
// nothing, and the first is written just before, so that times may not tell either.
func TestWatchSeesEveryWayOfSaving(t *testing.T) {
	for name, save := range saves {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			p.dataset(norway)
			p.write("prompts/a.md", "Answer in 1 word.\n")
			p.write("targets/many.yaml", "version: 1\nkind: builtin\nbuiltin: {model: fake-1, api: openai.chat, max_output_tokens: 100, retries: 0}\nparameters:\n  prompt_file: [prompts/a.md]\n")
			file := filepath.Join(p.dir, "prompts/a.md")
			w := watchedFiles{place: p.open(), class: "cities", targets: []string{"many"}}
			target, err := FindTarget(p.corpus(), "cities", "many")
			must(t, err)
			w.look([]*agent.Target{target})
			for i := 2; i < 5; i++ { // again and again, as people do
				save(t, file, fmt.Sprintf("Answer in %d word.\n", i))
				ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
				got, err := w.wait(ctx, []*agent.Target{target})
				stop()
				if err != nil || fmt.Sprint(got) != "[prompts/a.md]" {
					t.Fatalf("save %d: %v, %v", i, got, err)
				}
				if name == "a link that leads elsewhere now" {
					break
				}
			}
		})
	}
}

// TestWatchTakesABurstOfSavesForOne: and says all of what changed.
func TestWatchTakesABurstOfSavesForOne(t *testing.T) {
	p := newPlace(t)
	p.dataset(norway)
	w := watchedFiles{place: p.open(), class: "cities", targets: []string{"default"}}
	w.look(nil)
	go func() {
		for i := range 20 {
			p.write(fmt.Sprintf("bench/cities/judges/%02d.md", i), "x")
			time.Sleep(10 * time.Millisecond)
		}
	}()
	seen := map[string]bool{}
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Second)
	defer stop()
	told := 0
	for len(seen) < 20 {
		got, err := w.wait(ctx, nil)
		must(t, err)
		told++
		for _, name := range got {
			seen[name] = true
		}
	}
	if told > 10 { // one, unless the machine held the writer up
		t.Errorf("20 saves in a fifth of a second are %d changes", told)
	}
}

// TestWatchMissesNoEditDuringARun: an edit at any moment of a run is in a later one.
func TestWatchMissesNoEditDuringARun(t *testing.T) {
	p := newPlace(t)
	p.dataset(norway, sweden)
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	edits := 0
	var last *Watched
	save := func() {
		if edits++; edits <= 12 {
			p.dataset(strings.Replace(norway, `"text":"Oslo"`, fmt.Sprintf(`"text":"%02d"`, edits), 1), sweden)
		}
	}
	w := &Watch{Spec: cities, Began: func([]string) { save() }}
	w.Case = func(WatchedResult) {
		save()
		time.Sleep(time.Duration(edits%5) * 100 * time.Millisecond) // the files are looked at meanwhile
	}
	w.Ended = func(run *Watched) error {
		if last = run; len(run.Rows) > 0 && run.Rows[0].Cells[0].Answer == "12" {
			stop()
		}
		return nil
	}
	must(t, w.Loop(ctx, p.open()))
	if last == nil || len(last.Rows) == 0 || last.Rows[0].Cells[0].Answer != "12" {
		t.Errorf("the last edit was missed: %+v", last)
	}
}

// TestWatchTellsAFlipOfARunThatWasStopped: the next run shows it.
func TestWatchTellsAFlipOfARunThatWasStopped(t *testing.T) {
	p := newPlace(t)
	p.dataset(norway, sweden)
	wrong := strings.Replace(norway, `"text":"Oslo"`, `"text":"Bergen"`, 1)
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	flips, ended := 0, 0
	w := &Watch{Spec: cities, Began: func([]string) {}}
	w.Case = func(c WatchedResult) {
		if c.Case == "norway" && c.Outcome == "failed" { // in the middle of the run
			p.dataset(wrong, sweden, strings.Replace(norway, `"id":"norway"`, `"id":"third"`, 1))
		}
	}
	w.Ended = func(run *Watched) error {
		flips += run.Flips
		if ended++; ended == 1 {
			p.dataset(wrong, sweden)
		}
		if run.Total == 3 {
			stop()
		}
		return nil
	}
	must(t, w.Loop(ctx, p.open()))
	if flips != 1 {
		t.Errorf("%d flips were told, want 1", flips)
	}
}
