package cli

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/record/refusal"
)

// goodUsageError is a usage error as a person reads it: what was wrong and what was expected in the
// first line, what to do and an example in the second.
var goodUsageError = regexp.MustCompile(`(?s)^tally: error: [^\n]+\ntally: hint: [^\n]*(?:did you mean|for example: tally |tally [a-z]+ )[^\n]*\n$`)

func runLine(args ...string) (int, string, string) {
	var out, errs bytes.Buffer
	code := Main(args, strings.NewReader(""), &out, &errs, func(string) string { return "" }, nil)
	return code, out.String(), errs.String()
}

// TestEveryCommandExplainsAUsageError makes the mistakes that the frame finds with every
// command of the tree.
func TestEveryCommandExplainsAUsageError(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, cmd := range allCommands(testProgram().root)[1:] {
		path := strings.Fields(cmd.CommandPath())[1:]
		if cmd.Hidden {
			continue // programs call it, not people
		}
		with := func(more ...string) []string { return append(slices.Clone(path), more...) }
		tries := [][]string{with("--no-such-flag")}
		if !onlyGroups(cmd) && cmd.Args(cmd, slices.Repeat([]string{"x"}, 9)) != nil {
			tries = append(tries, with(slices.Repeat([]string{"x"}, 9)...))
		}
		if !onlyGroups(cmd) && cmd.Args(cmd, nil) != nil {
			tries = append(tries, with())
		}
		cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if f.NoOptDefVal == "" {
				tries = append(tries, with("--"+f.Name))
			}
			if slices.Contains([]string{"bool", "int", "int64", "float64", "duration"}, f.Value.Type()) {
				tries = append(tries, with("--"+f.Name+"=many"))
			}
		})
		for _, args := range tries {
			code, stdout, stderr := runLine(args...)
			if code != 2 || stdout != "" || !goodUsageError.MatchString(stderr) {
				t.Errorf("%q: exit %d, %s%s", args, code, stdout, stderr)
			}
			for _, of := range []string{"arg(s)", "strconv", "flag(s)", "invalid syntax", "invalid argument"} {
				if strings.Contains(stderr, of) {
					t.Errorf("%q: %s speaks as the library does: %s", args, of, stderr)
				}
			}
		}
	}
}

// TestUsageErrorsOfCommandsHaveAnExample: what commands themselves refuse, one row for
// each kind of mistake.
func TestUsageErrorsOfCommandsHaveAnExample(t *testing.T) {
	p := newNamedPlace(t)
	class := ceremony.ExampleClass
	for _, args := range [][]string{
		{"run", class, "--sample", "0"},
		{"run", class, "--seed", "3"},
		{"run", class, "--double", "2"},
		{"run", class, "--require-level", "reproduced"},
		{"run", class, "--reduce", "best"},
		{"run", class, "--watch", "--junit", "x"},
		{"run", "builtin:adversarial", "--limit", "0"},
		{"record", class, "--yes"},
		{"record", class, "--unsafe-record", "--only-missing", "--overwrite"},
		{"record", class, "--unsafe-record", "--jobs", "0"},
		{"why", "x", "--attempt", "latest", "--class", "fix"},
		{"show", "latest", "--events"},
		{"compare", "latest", "latest~1", "--divergences", "-1"},
		{"view", "--attempt", "latest"},
		{"view", "--public", "--bundle", "x"},
		{"view", "--listen", "nonsense"},
		{"scorecard", "latest", "--class", "fix"},
		{"scorecard", "--since", "soon"},
		{"scorecard", "curve", "--csv", "--plot"},
		{"scorecard", "power", "latest", "latest"},
		{"gate", "latest", "--class", "fix"},
		{"review", "latest"},
		{"review", "latest", "--sample", "3"},
		{"review", "latest", "--key", "a", "--gpg", "b"},
		{"review", "correct", "latest:case-01", "--reason", "r"},
		{"review", "correct", "latest:case-01", "--score", "1", "--reason", "r"},
		{"review", "correct", "latest", "--score", "1", "--reason", "r", "--message", "m"},
		{"promote", "recommend", class, "--window", "-1"},
		{"promote", "recommend", class, "--window", "3", "--require", "gold"},
		{"name", "latest"},
		{"rescore", "latest"},
		{"golden"},
		{"bench", "verify"},
		{"bench", "sign", class},
		{"bench", "import"},
		{"bench", "digest", class, "--pins"},
		{"signers", "add", "x"},
		{"signers", "add", "x", "--ssh", "y", "--roles", "king"},
		{"ledger", "show", "x"},
		{"ledger", "verify", "--since", "3d"},
		{"ledger", "move"},
		{"ledger", "cosigner"},
		{"export", "latest"},
		{"export", "latest", "--format", "html"},
		{"export", "latest:case-01", "--format", "eee", "--case", "x", "-o", "y"},
		{"attest", "latest"},
		{"publish", "latest"},
		{"verify"},
		{"audit"},
		{"audit", "latest", "--results", "x"},
		{"audit", "latest", "--audited-at", "soon"},
		{"grade", "latest:case-01"},
		{"judges", "prune"},
		{"registry", "serve"},
		{"registry", "judge", "http://127.0.0.1:1", "--verdict", "accept"},
		{"sandbox", "run"},
		{"sandbox", "image", "import"},
		{"try"},
	} {
		code, stdout, stderr := p.tally(args...)
		if code != 2 || stdout != "" || !goodUsageError.MatchString(stderr) {
			t.Errorf("%q: exit %d, %s%s", args, code, stdout, stderr)
		}
	}
}

// TestEveryExampleIsOfItsCommand: an example that does not parse would teach a mistake.
func TestEveryExampleIsOfItsCommand(t *testing.T) {
	root := testProgram().root
	for _, cmd := range allCommands(root)[1:] {
		if cmd.Hidden {
			continue
		}
		example := exampleOf(cmd)
		line, _, _ := strings.Cut(strings.NewReplacer(" < ", " > ").Replace(example), " > ")
		words := shellWords(line)
		if len(words) < 2 || words[0] != "tally" {
			t.Errorf("%s has the example %q", cmd.CommandPath(), example)
			continue
		}
		found, rest, err := testProgram().root.Find(words[1:])
		if err != nil {
			t.Errorf("%s: %q: %v", cmd.CommandPath(), example, err)
			continue
		}
		if path := found.CommandPath(); path != cmd.CommandPath() && !(onlyGroups(cmd) && strings.HasPrefix(path, cmd.CommandPath()+" ")) && !strings.HasPrefix(cmd.CommandPath(), "tally completion") {
			t.Errorf("the example of %s is of %s: %q", cmd.CommandPath(), path, example)
		}
		if err := found.ParseFlags(rest); err != nil {
			t.Errorf("%s: %q: %v", cmd.CommandPath(), example, err)
			continue
		}
		if err := found.ValidateRequiredFlags(); err != nil {
			t.Errorf("%s: %q: %v", cmd.CommandPath(), example, err)
		}
		args := found.Flags().Args()
		if err := found.Args(found, slices.Clone(args)); err != nil && !refusal.Is(err, refusal.Unreadable) { // the files of examples are not here
			t.Errorf("%s: %q has the arguments %q", cmd.CommandPath(), example, args)
		}
	}
}

// TestUsageLinesNameFlagsThatExist: "signers add (--gpg FILE | ...)" had none of that name.
func TestUsageLinesNameFlagsThatExist(t *testing.T) {
	flag := regexp.MustCompile(`--([a-z][a-z-]*)`)
	for _, cmd := range allCommands(testProgram().root) {
		for _, m := range flag.FindAllStringSubmatch(cmd.Use, -1) {
			if cmd.Flags().Lookup(m[1]) == nil {
				t.Errorf("%q names --%s, which the command does not have", cmd.Use, m[1])
			}
		}
	}
}

// TestArgumentsOfUsageLines reads the lines of the tree as people do.
func TestArgumentsOfUsageLines(t *testing.T) {
	for use, want := range map[string]string{
		"show ATTEMPT[:CASE] | FILE":                    "ATTEMPT:CASE/FILE",
		"audit ATTEMPT | PATH | --results FILE":         "ATTEMPT/PATH",
		"review CLASS|ATTEMPT (--key FILE | --gpg KEY)": "CLASS/ATTEMPT",
		"import FILE | import --suite NAME [FOLDER]":    "FILE/FOLDER",
		"import PATH... | -":                            "PATH/-...",
		"judge URL [PROPOSAL --verdict accept|reject]":  "URL PROPOSAL",
		"compare A B":             "A B",
		"verify CLASS... | --all": "CLASS...",
		"try [-f FILE | --case 'X=Y']... -- COMMAND [ARG]": "",
		"attest PATH|ATTEMPT|- --key FILE":                 "PATH/ATTEMPT/-",
	} {
		var got []string
		for _, a := range argumentsOf(&cobra.Command{Use: use}) {
			word := strings.Join(a.words, "/")
			if a.many {
				word += "..."
			}
			got = append(got, word)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q has the arguments %q, expected %q", use, got, want)
		}
	}
}

// shellWords splits a line as a shell does, with quotes.
func shellWords(line string) []string {
	var out []string
	for _, m := range regexp.MustCompile(`'([^']*)'|"([^"]*)"|(\S+)`).FindAllStringSubmatch(line, -1) {
		out = append(out, m[1]+m[2]+m[3])
	}
	return out
}
