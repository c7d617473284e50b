package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tallystick/internal/app/ceremony"
)

// A namedPlace is a workspace in which there is one of everything that has a name, and how
// each is typed, rightly and wrongly.
type namedPlace struct {
	*scoredPlace
	right map[string]string // word of a usage line, or flag, to a name that exists
}

func newNamedPlace(t *testing.T) *namedPlace {
	p := &namedPlace{scoredPlace: newScoredPlace(t)}
	first := p.attempt("agent", 1, "bench", 1, 0)
	p.attempt("agent", 2, "bench", 1, 1)
	if code, _, stderr := p.tally("name", first, "prompt nine"); code != 0 {
		t.Fatal(stderr)
	}
	// Completion looks at the names of the packs; these attempts have their evidence elsewhere.
	packs := filepath.Join(p.dir, ".tally", "evidence", "packs")
	if err := os.MkdirAll(packs, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{first, "fix.agent.2"} {
		if err := os.WriteFile(filepath.Join(packs, id+".pack"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.right = map[string]string{
		"CLASS": ceremony.ExampleClass, "CASE": "greeting", "ATTEMPT": first, "A": first, "B": "fix.agent.2", "ATTEMPT:CASE": first + ":case-01",
		"TRAJECTORY": first + ":case-01", "TIER": "gold", "class": ceremony.ExampleClass, "pending": ceremony.ExampleClass, "target": "default", "against": "default",
		"attempt": first, "retry-errors": first, "baseline": first,
	}
	return p
}

// misspelt exchanges two neighbours, the commonest typing error.
func misspelt(name string) string {
	b := []byte(name)
	for i := 1; i+1 < len(b); i++ {
		if b[i] != b[i+1] && b[i] != '.' && b[i+1] != '.' && b[i] != ':' && b[i+1] != ':' {
			b[i], b[i+1] = b[i+1], b[i]
			return string(b)
		}
	}
	return name + "x"
}

// arguments fills the places of a usage line with names that exist.
func (p *namedPlace) arguments(cmd *cobra.Command) []string {
	var args []string
	for _, want := range argumentsOf(cmd) {
		text := "x"
		for _, word := range want.words {
			if right := p.right[word]; right != "" {
				text = right
			}
		}
		args = append(args, text)
	}
	// Of what may stand there, as many as must.
	for cmd.Args != nil && len(args) > 0 && cmd.Args(cmd, slices.Clone(args)) != nil && len(args) > 1 {
		args = args[:len(args)-1]
	}
	return args
}

// TestAMisspeltNameIsAnsweredWithTheOneThatWasMeant types every name wrongly that a
// command of the tree takes: as an argument by the words of the usage line, and as a flag.
func TestAMisspeltNameIsAnsweredWithTheOneThatWasMeant(t *testing.T) {
	p := newNamedPlace(t)
	tried := map[string]int{}
	expect := func(what, right string, args []string) {
		t.Helper()
		tried[what]++
		want := 2
		if args[0] == "promote" && args[1] == "apply" {
			want = 1 // it always refuses with 1, and records who asked for what
		}
		code, stdout, stderr := p.tally(args...)
		if code != want || stdout != "" || !strings.Contains(stderr, `did you mean "`+right+`"`) {
			t.Errorf("%q: exit %d, %s%s, expected a suggestion of %q", args, code, stdout, stderr, right)
		}
	}
	for _, cmd := range allCommands(newProgram(p.newEnv(nil, nil)).root) {
		path := strings.Fields(cmd.CommandPath())[1:]
		if len(path) == 0 || onlyGroups(cmd) {
			continue
		}
		for i, want := range argumentsOf(cmd) {
			for _, word := range want.words {
				named, ok := argumentNaming(cmd, word)
				right := p.right[word]
				if !ok || right == "" || word == "CASE" || named.check == nil && cmd.Name() != "apply" || word == "TIER" {
					continue // cases are below
				}
				args := p.arguments(cmd)
				for len(args) <= i {
					args = append(args, right)
				}
				right, _, _ = strings.Cut(right, ":")
				args[i] = misspelt(right)
				expect(word, right, append(slices.Clone(path), args...))
			}
		}
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			named, ok := flagNaming(cmd, f.Name)
			if !ok || named.check == nil {
				return
			}
			right := p.right[f.Name]
			if list := named.list(partial{cmd: cmd}); right == "" && len(list) > 0 {
				right = list[0]
			}
			if slices.Equal(path, []string{"sandbox", "run"}) && f.Name == "class" {
				right = named.list(partial{cmd: cmd})[0]
			}
			args := append(slices.Clone(path), p.arguments(cmd)...)
			expect("--"+f.Name, right, append(args, "--"+f.Name+"="+misspelt(right)))
		})
	}
	for what, least := range map[string]int{"CLASS": 10, "ATTEMPT": 8, "ATTEMPT:CASE": 3, "TRAJECTORY": 2, "A": 1, "B": 1, "--class": 5, "--target": 5, "--attempt": 3, "--baseline": 1, "--retry-errors": 1, "--format": 1, "--sandbox": 2} {
		if tried[what] < least {
			t.Errorf("%s was tried %d times, expected at least %d: %v", what, tried[what], least, tried)
		}
	}
}

// TestEveryFormOfAnAttemptIsSuggested: by id, by name, by number, as latest, in other
// letters, and the cases of it.
func TestEveryFormOfAnAttemptIsSuggested(t *testing.T) {
	p := newNamedPlace(t)
	for _, tt := range []struct{ typed, want string }{
		{"fix.agnet.1", `did you mean "fix.agent.1"?`},
		{"Fix.Agent.2", `did you mean "fix.agent.2"?`},
		{"promt nine", `did you mean "prompt nine"?`},
		{"lastest", `did you mean "latest"?`},
		{"LATEST", `did you mean "latest"?`},
		{"77", `did you mean "2"?`},
		{"0", `did you mean "1"?`},
		{"latest~9", `did you mean "latest~1"?`},
		{"agent.1", `did you mean "fix.agent.1"?`},
		{"fix.agent.1:case-1", `did you mean "case-01"?`},
		{"latest:cas-02", `did you mean "case-02"?`},
		{"promt nine:case-01", `did you mean "prompt nine"?`},
	} {
		if code, _, stderr := p.tally("show", tt.typed); code != 2 || !strings.Contains(stderr, tt.want) {
			t.Errorf("show %q: exit %d, %s, expected %s", tt.typed, code, stderr, tt.want)
		}
	}
	grading := filepath.Join(t.TempDir(), "grading.yaml")
	if err := os.WriteFile(grading, []byte("version: 1\ngrade: {kind: exact, expected: two}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"why", "fix.agent.1:case-1"}, {"why", "cas-01"}, {"show", "1:cas-01"}, {"replay", "latest:cas-01"}, {"grade", "latest:cas-01", "--with", grading},
		{"export", "latest:cas-01", "--format", "receipt"}, {"export", "latest:cas-01", "--format", "bundle", "-o", "x"},
		{"review", "correct", "latest:cas-01", "--score", "1", "--reason", "r", "--message", "m"},
	} {
		if code, _, stderr := p.tally(args...); code != 2 || !strings.Contains(stderr, `did you mean "case-01"?`) {
			t.Errorf("%q: exit %d, %s, expected a case to be suggested", args, code, stderr)
		}
	}
}

// TestWhyTakesAnAttempt: with its case, or by itself where one case did not pass.
func TestWhyTakesAnAttempt(t *testing.T) {
	p := newNamedPlace(t)
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"why", "fix.agent.1:case-02"}, 0, "case-02: failed in attempt fix.agent.1"},
		{[]string{"why", "prompt nine:case-01"}, 0, "case-01: passed in attempt fix.agent.1"},
		{[]string{"why", "latest~1"}, 0, "case-02: failed in attempt fix.agent.1"},
		{[]string{"why", "latest"}, 2, "every case of attempt fix.agent.2 that has a record passed"},
		{[]string{"why", "latest:case-01", "--attempt", "latest"}, 2, "leave one of them out"},
	} {
		if code, stdout, stderr := p.tally(tt.args...); code != tt.code || !strings.Contains(stdout+stderr, tt.want) {
			t.Errorf("%q: exit %d, %s%s", tt.args, code, stdout, stderr)
		}
	}
}

// TestWrongNamesAreReportedBeforeMissingKeys: and before a missing server, terminal or
// flag.
func TestWrongNamesAreReportedBeforeMissingKeys(t *testing.T) {
	p := newNamedPlace(t)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"publish", "fix.agnet.1"}, "fix.agent.1"},
		{[]string{"publish", "lastest", "--registry", "http://127.0.0.1:1"}, "latest"},
		{[]string{"publish", "latest", "--registry", "nonsense", "--artifact", "a", "--harness-path", "b", "--dataset-path", "c"}, "names no host"},
		{[]string{"publish", "latest", "--registry", "http://127.0.0.1:1", "--artifact", "a", "--harness-path", "b", "--dataset-path", "c"}, `--artifact "a"`},
		{[]string{"attest", "fix.agnet.1"}, "fix.agent.1"},
		{[]string{"attest", "promt nine", "--key", "nosuchkey"}, "prompt nine"},
		{[]string{"export", "fix.agnet.1", "--format", "vc"}, "fix.agent.1"},
		{[]string{"export", "latest", "--format", "vcc"}, `"vc"`},
		{[]string{"record", "exampel", "--unsafe-record"}, ceremony.ExampleClass},
		{[]string{"record", ceremony.ExampleClass, "--target", "defualt"}, `"default"`},
		{[]string{"review", "exampel"}, ceremony.ExampleClass},
		{[]string{"bench", "pending", "exampel"}, ceremony.ExampleClass},
		{[]string{"audit", "dispose", "fix.agnet.1"}, "fix.agent.1"},
		{[]string{"rescore", "fix.agnet.1"}, "fix.agent.1"},
	} {
		if code, _, stderr := p.tally(tt.args...); code != 2 || !strings.Contains(stderr, tt.want) {
			t.Errorf("%q: exit %d, %s, expected %s", tt.args, code, stderr, tt.want)
		}
	}
}

// TestAFlagThatTakesOneValueRefusesTwo: "record --target A --target B" recorded B alone.
func TestAFlagThatTakesOneValueRefusesTwo(t *testing.T) {
	p := newNamedPlace(t)
	for _, args := range [][]string{
		{"golden", "check", ceremony.ExampleClass, "--target", "default", "--target", "default"},
		{"log", "--class", "fix", "--class", "fix"},
		{"run", ceremony.ExampleClass, "--jobs", "1", "--jobs", "2"},
		{"export", "latest", "--format", "vc", "--format", "html"},
		{"attest", "latest", "--key", "a", "--key", "b"},
	} {
		if code, _, stderr := p.tally(args...); code != 2 || !strings.Contains(stderr, "is given twice") {
			t.Errorf("%q: exit %d, %s", args, code, stderr)
		}
	}
}

// TestEverythingThatHasANameIsCompleted asks the entry point that the scripts of bash, zsh
// and fish ask, for every command of the tree.
func TestEverythingThatHasANameIsCompleted(t *testing.T) {
	p := newNamedPlace(t)
	complete := func(args ...string) []string {
		var out, errs bytes.Buffer
		e := newEnv(strings.NewReader(""), &out, &errs, func(k string) string { return p.env[k] })
		if code := newProgram(e).main(append([]string{"--workspace", p.dir, "__complete"}, args...)); code != 0 {
			t.Errorf("%q: exit %d, %s", args, code, errs.String())
		}
		stdout := out.String()
		var found []string
		for line := range strings.Lines(stdout) {
			name, _, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			found = append(found, name)
		}
		return found
	}
	expect := func(want []string, args ...string) {
		t.Helper()
		got := complete(args...)
		for _, w := range want {
			if !slices.Contains(got, w) {
				t.Errorf("%q completes to %q, without %q", args, got, w)
			}
		}
	}
	addresses := []string{"latest", "latest~1", "fix.agent.1", "fix.agent.2", "prompt nine"}
	inPlace := map[string][]string{"CLASS": {ceremony.ExampleClass, "builtin:adversarial"}, "ATTEMPT": addresses, "A": addresses, "B": addresses, "ATTEMPT:CASE": addresses, "TRAJECTORY": addresses,
		"TIER": {"bronze", "platinum"}, "CASE": {"greeting"}}
	root := newProgram(p.newEnv(nil, nil)).root
	for _, cmd := range allCommands(root) {
		path := strings.Fields(cmd.CommandPath())[1:]
		if cmd.Hidden || cmd.Name() == "help" || len(path) > 0 && path[0] == "completion" {
			continue
		}
		if onlyGroups(cmd) || cmd == root {
			expect(commandNames(cmd), append(slices.Clone(path), "")...)
			continue
		}
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			// Flags that are needed come first, and alone if one begins so.
			if len(f.Annotations[cobra.BashCompOneRequiredFlag]) > 0 || !slices.ContainsFunc(required(cmd), func(r string) bool { return strings.HasPrefix(r, f.Name) }) {
				expect([]string{"--" + f.Name}, append(slices.Clone(path), "--"+f.Name)...)
			}
			if named, ok := flagNaming(cmd, f.Name); ok && f.Name != "all" {
				if want := named.list(partial{cmd: cmd}); len(want) > 0 {
					expect(want, append(append(slices.Clone(path), p.arguments(cmd)...), "--"+f.Name, "")...)
				}
			}
		})
		for i, want := range argumentsOf(cmd) {
			for _, word := range want.words {
				if named, ok := argumentNaming(cmd, word); ok && inPlace[word] != nil && (named.check != nil || word == "CASE") {
					names := inPlace[word]
					if word == "CASE" && cmd.Name() == "accept" {
						names = nil // a draft, of which there is none
					}
					expect(names, append(append(slices.Clone(path), p.arguments(cmd)[:min(i, len(p.arguments(cmd)))]...), "")...)
				}
			}
		}
	}
	// values of flags that the workspace decides
	expect([]string{"default"}, "run", ceremony.ExampleClass, "--target", "")
	expect([]string{"vulnerable"}, "run", "builtin:adversarial", "--target", "")
	expect([]string{"greeting"}, "run", ceremony.ExampleClass, "--case", "")
	expect(addresses, "run", ceremony.ExampleClass, "--baseline", "")
	expect([]string{ceremony.ExampleClass}, "why", "--class", "")
	// a case behind every form of its attempt
	first := filepath.Join(p.dir, ".tally", "evidence", "packs", ceremony.ExampleClass+".default.7.pack")
	if err := os.WriteFile(first, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, attempt := range []string{ceremony.ExampleClass + ".default.7", ceremony.ExampleClass + ".d", "7", "latest"} {
		for _, command := range []string{"show", "export", "replay", "why", "grade"} {
			expect([]string{attempt + ":greeting"}, command, attempt+":g")
		}
	}
	expect([]string{"signed,pinned"}, "run", ceremony.ExampleClass, "--require-level", "signed,p")
}

func required(cmd *cobra.Command) []string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if len(f.Annotations[cobra.BashCompOneRequiredFlag]) > 0 {
			names = append(names, f.Name)
		}
	})
	return names
}

// TestAttestAndPublishShareTheirFlags: by construction, and what one has more is named.
func TestAttestAndPublishShareTheirFlags(t *testing.T) {
	shared := &cobra.Command{Use: "both"}
	new(draftFlags).add(shared)
	root := testProgram().root
	attest, publish := subcommand(root, "attest"), subcommand(root, "publish")
	shared.Flags().VisitAll(func(f *pflag.Flag) {
		for _, cmd := range []*cobra.Command{attest, publish} {
			got := cmd.Flags().Lookup(f.Name)
			if got == nil || got.Usage != f.Usage || got.Value.Type() != f.Value.Type() || got.DefValue != f.DefValue {
				t.Errorf("%s has another --%s: %+v", cmd.CommandPath(), f.Name, got)
			}
		}
	})
	own := map[string][]string{
		"tally attest":  {"issuer-key", "issuer-did", "issuer-key-id", "schema-url", "status-list-url", "status-index", "valid-until", "manifest", "out", "dry-run", "record"},
		"tally publish": {"dry-run"},
	}
	for _, cmd := range []*cobra.Command{attest, publish} {
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if shared.Flags().Lookup(f.Name) == nil && !slices.Contains(own[cmd.CommandPath()], f.Name) {
				t.Errorf("%s has --%s, which neither both have nor is named as its own", cmd.CommandPath(), f.Name)
			}
		})
	}
}
