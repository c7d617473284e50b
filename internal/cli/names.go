package cli

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tallystick/internal/app/mine"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/read/outline"
	"tallystick/internal/read/review"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/grade"
	"tallystick/internal/run/harness"
	"tallystick/internal/run/sandbox"
	"tallystick/internal/run/suites"
	"tallystick/internal/serve/registry"
	"tallystick/internal/share/export"
	"tallystick/internal/share/gaia"
)

// What people name on a command line (classes, targets, attempts, cases, and the words of
// closed sets) is decided here and nowhere else: by the word that stands for an argument in
// a command's usage line, and by the name of a flag. A shell completes from this table, and
// a name that does not exist is refused from it before the command begins, with the name
// that was probably meant. So a wrong name is reported before a missing key, server or
// terminal. Commands get the ids of attempts.

// A naming is a kind of thing that has names.
type naming struct {
	list func(partial) []string // what a shell completes

	// check gives what the command gets in place of the text, or refuses the text. It is
	// nil where the command checks.
	check func(r *resolver, flag, text string) (string, error)

	commas bool // several may be given, with commas
	bare   bool // a case may stand alone, whose id may end as a file does
}

var (
	className   = naming{list: func(t partial) []string { return t.names.Classes() }, check: (*resolver).class}
	unknownYet  = naming{list: func(partial) []string { return nil }}
	targetName  = naming{list: func(t partial) []string { return t.names.Targets(t.class()) }, check: (*resolver).target}
	attemptName = naming{list: func(t partial) []string { return t.names.Addresses() }, check: (*resolver).attempt}
	attemptCase = naming{list: attemptCases, check: (*resolver).attempt}
	caseName    = naming{list: casesOrAttempts, check: (*resolver).caseOf, bare: true}
	casePattern = naming{list: func(t partial) []string { return t.names.Cases(t.class()) }}
	tagName     = naming{list: func(t partial) []string { return t.names.Tags(t.class()) }}
	keyName     = naming{list: func(t partial) []string { return t.names.Keys() }}
)

// among is a closed set of words.
func among[T ~string](set ...T) naming {
	return naming{list: offered(set...).list, check: func(_ *resolver, flag, text string) (string, error) {
		if text == "" || slices.Contains(set, T(text)) {
			return text, nil
		}
		return "", refusal.UnknownValue(flag, T(text), set...)
	}}
}

// offered are words that a command takes besides others, or in a form of its own; it
// checks them.
func offered[T ~string](set ...T) naming {
	return naming{list: func(partial) []string { return words(set...) }}
}

// severalOf are words of which several may be given, with commas; the command checks them.
func severalOf[T ~string](set ...T) naming {
	n := offered(set...)
	n.commas = true
	return n
}

// namedArguments has the words of usage lines, or of one command's: "keys export NAME".
var namedArguments = sync.OnceValue(func() map[string]naming {
	return map[string]naming{
		"CLASS":             className,
		"CASE":              caseName,
		"ATTEMPT":           attemptName,
		"A":                 attemptName,
		"B":                 attemptName,
		"ATTEMPT:CASE":      attemptCase,
		"TRAJECTORY":        attemptCase,
		"TIER":              among(bench.Tiers()...),
		"why ATTEMPT:CASE":  caseName, // or a case by itself
		"bench new CLASS":   unknownYet,
		"bench sign CASE":   casePattern,
		"bench accept CASE": casePattern,
		"keys export NAME":  keyName,
		"keys new NAME":     offered("operator", "judge-cache", "credential"),
		// It always refuses, and records what was asked.
		"promote apply CLASS": {list: className.list},
		"promote apply TIER":  offered(bench.Tiers()...),
	}
})

// namedFlags has the names of flags, or of one command's: "sandbox run class".
var namedFlags = sync.OnceValue(func() map[string]naming {
	return map[string]naming{
		"class":         className,
		"pending":       className,
		"target":        targetName,
		"against":       targetName,
		"case":          casePattern,
		"tag":           tagName,
		"attempt":       attemptName,
		"retry-errors":  attemptName,
		"baseline":      {list: attemptName.list, check: (*resolver).baseline},
		"require":       among(bench.Tiers()...),
		"format":        among(export.All()...),
		"sandbox":       among(append(sandbox.Classes(), harness.NoSandbox)...),
		"sandbox-scope": among(sandbox.ScopeCase, sandbox.ScopeAttempt),
		"on-miss":       among(evidence.OnMissFail, evidence.OnMissLive),
		"second-view":   among(evidence.ViewedByJudge),
		"outcome":       among(evidence.Passed, evidence.Failed),
		"only":          among(review.Choices()...),
		"level":         among(outline.Levels()...),
		"language":      among(mine.Languages()...),
		"verdict":       among(evidence.RegistryVerdicts...),
		"reason-code":   among(registry.ReasonCodes()...),
		"purpose":       among(registry.CredentialPurpose, registry.ChainPurpose, registry.OperatorPurpose),
		"suite":         among(importedSuites()...),
		"split":         offered(gaia.Splits()...),
		"reduce":        offered("mean", "mode", "max", "all", "at_least:"),
		"kind":          offered(evidence.Kinds()...),
		"grade":         offered(grade.Kinds()...),
		"agent":         offered("python:", "typescript:", "http:", "command:"),
		"require-level": severalOf(history.Levels()...),
		"roles":         severalOf(seal.Curator, seal.Security, seal.Operator, seal.Worker),

		"sandbox run class":  among(sandbox.Classes()...),
		"sandbox run scope":  among(sandbox.ScopeCase, sandbox.ScopeAttempt),
		"bench mine sandbox": among(sandbox.Classes()...),
		"record sandbox":     offered(harness.NoSandbox),
		"try case":           unknownYet,
		"init class":         unknownYet,
		"bench import class": unknownYet,
		"bench mine class":   unknownYet,
	}
})

// argumentNaming finds what a word of a command's usage line stands for.
func argumentNaming(cmd *cobra.Command, word string) (naming, bool) {
	return namingOf(namedArguments(), cmd, word)
}

// flagNaming finds what the value of a command's flag is.
func flagNaming(cmd *cobra.Command, flag string) (naming, bool) {
	return namingOf(namedFlags(), cmd, flag)
}

func namingOf(table map[string]naming, cmd *cobra.Command, word string) (naming, bool) {
	n, ok := table[strings.TrimPrefix(cmd.CommandPath(), "tally ")+" "+word]
	if !ok {
		n, ok = table[word]
	}
	return n, ok
}

// fileWords are the words of usage lines that stand for files and folders.
var fileWords = []string{"FILE", "PATH", "SOURCE", "LAYOUT", "TRAJECTORY", "DIR", "FOLDER", "REPORT", "REPO"}

// An argument is one place of a usage line.
type argument struct {
	words []string // any of these may stand here
	many  bool     // and again
}

// isFileOrName says that a file may stand there, or the name of something else, which does
// not end as a file does. Where only a file may stand the command says what it misses.
func (a argument) isFileOrName(cmd *cobra.Command) bool {
	file, name := false, false
	for _, word := range a.words {
		named, ok := argumentNaming(cmd, word)
		if named.bare {
			return false
		}
		file, name = file || slices.Contains(fileWords, word), name || ok
	}
	return file && name
}

var inBrackets = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\([^()]*\)`) })

// argumentsOf reads the arguments of a usage line: "show ATTEMPT[:CASE] | FILE" has one,
// which is ATTEMPT:CASE or FILE. What stands in round brackets is flags. The name of the
// command, again, begins another way to use it.
func argumentsOf(cmd *cobra.Command) []argument {
	var out []argument
	at, or, flag := 0, false, false
	use := strings.NewReplacer("[", "", "]", "").Replace(inBrackets().ReplaceAllString(cmd.Use, ""))
	for _, word := range strings.Fields(use) {
		switch {
		case word == "--":
			return out
		case word == "|":
			or, flag = true, false
		case word == cmd.Name():
			at, or = 0, false
		case strings.HasPrefix(word, "-") && word != "-":
			flag, or = true, false
		case flag:
			flag = false // the value of a flag
		default:
			if or && at > 0 {
				at--
			}
			if at == len(out) {
				out = append(out, argument{})
			}
			a := &out[at]
			for alternative := range strings.SplitSeq(word, "|") {
				bare, again := strings.CutSuffix(alternative, "...")
				a.words, a.many = append(a.words, bare), a.many || again
			}
			at, or = at+1, false
		}
	}
	return out
}

// argumentAt is what stands at a place of a command line.
func argumentAt(cmd *cobra.Command, at int) (argument, bool) {
	want := argumentsOf(cmd)
	if at < len(want) {
		return want[at], true
	}
	if last := len(want) - 1; last >= 0 && want[last].many {
		return want[last], true
	}
	return argument{}, false
}

// attemptCases offers attempts, and once one is there its cases.
func attemptCases(t partial) []string {
	if i := strings.LastIndexByte(t.prefix, ':'); i > 0 {
		if id := t.names.Attempt(t.prefix[:i]); id != "" {
			var out []string
			for _, c := range t.names.Cases(t.names.ClassOf(id)) {
				out = append(out, t.prefix[:i+1]+c)
			}
			return out
		}
	}
	return t.names.Addresses()
}

// casesOrAttempts offers cases by themselves too.
func casesOrAttempts(t partial) []string {
	if strings.Contains(t.prefix, ":") {
		return attemptCases(t)
	}
	return append(t.names.Cases(t.class()), t.names.Addresses()...)
}

// checkNames refuses names that do not exist among the arguments and flags of a command,
// and puts ids in place of what addresses attempts: a number, a name, "latest", the
// beginning of an id.
func (p *program) checkNames(cmd *cobra.Command, args []string) error {
	r := &resolver{env: p.env, classNamed: flagText(cmd, "class"), within: history.Scope{Class: flagText(cmd, "class"), Target: flagText(cmd, "target")}}
	for i := range args {
		want, ok := argumentAt(cmd, i)
		if !ok {
			break
		}
		if slices.Contains(want.words, "CLASS") {
			r.classNamed = args[i]
		}
		got, err := r.checkArgument(cmd, want, args[i])
		if err != nil {
			return err
		}
		args[i] = got
	}
	var err error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		named, ok := flagNaming(cmd, f.Name)
		if ok && named.check != nil && err == nil && f.Value.String() != f.NoOptDefVal {
			err = r.checkFlag(named, f)
		}
	})
	return err
}

// checkFlag checks every value of a flag that was given.
func (r *resolver) checkFlag(named naming, f *pflag.Flag) error {
	list, several := f.Value.(pflag.SliceValue)
	texts := []string{f.Value.String()}
	if several {
		texts = list.GetSlice()
	}
	for i, text := range texts {
		got, err := named.check(r, f.Name, text)
		if err != nil {
			return err
		}
		texts[i] = got
	}
	if several {
		return list.Replace(texts)
	}
	value := f.Value
	if o, ok := value.(*once); ok {
		value = o.Value
	}
	if texts[0] != value.String() {
		return value.Set(texts[0])
	}
	return nil
}

// checkArgument checks an argument that may be one of several things: it is refused if it
// cannot be any of them.
func (r *resolver) checkArgument(cmd *cobra.Command, want argument, text string) (string, error) {
	var refused error
	var known []string
	if name, _, _ := strings.Cut(text, ":"); looksLikeFile(name) && !dossier.AreFiles(text) && want.isFileOrName(cmd) {
		return text, noSuchFile(text)
	}
	for _, word := range want.words {
		named, ok := argumentNaming(cmd, word)
		switch {
		case slices.Contains(fileWords, word) && (dossier.AreFiles(text) || text == "-"):
			return text, nil
		case !ok || named.check == nil:
			if !slices.Contains(fileWords, word) && word != "-" {
				return text, nil
			}
			continue
		}
		got, err := named.check(r, word, text)
		if err == nil {
			return got, nil
		}
		if refused == nil {
			refused = err
		}
		known = append(known, r.known...)
	}
	switch {
	case refused == nil || len(want.words) == 1 || !refusal.Is(refused, refusal.UnknownName):
		return text, refused
	case slices.Contains(want.words, "CLASS"):
		return text, refusal.Newf(refusal.UnknownName, "no class and no attempt %q", text).
			Suggest(text, known, `"tally bench list" shows the classes, "tally log" the attempts`)
	}
	return text, refusal.Newf(refusal.UnknownName, "%w, and there is no such file", refused).WithHint("%s", refusal.Of(refused).Hint)
}

func flagText(cmd *cobra.Command, name string) string {
	if f := cmd.Flags().Lookup(name); f != nil && f.Value.Type() == "string" {
		return f.Value.String()
	}
	return ""
}

// openNames finds the workspace of names. It never hands over to another program: the
// command does that.
func openNames(env *Env) (*dossier.Place, error) {
	dir, err := workspaceDir(env)
	if err != nil {
		return nil, err
	}
	p, err := dossier.Open(dir, worldOf(env))
	if err == nil && p.Settings.Ledger != "" && env.beyond == nil {
		err = refusal.Newf(refusal.NotFound, "the ledger is at %s", p.Settings.Ledger)
	}
	return p, err
}

// A resolver finds names in a workspace. It looks at the names of files first; the ledger
// is verified at most once, and only for what is not found among them.
type resolver struct {
	env        *Env
	classNamed string // by the command line
	within     history.Scope
	known      []string // what the last check would have taken

	place   *dossier.Place
	reading *dossier.Reading
}

// names lists those of the workspace; without one there is nothing to check against, and
// the command says that.
func (r *resolver) names() (names dossier.Names, ok bool) {
	if r.place == nil {
		place, err := openNames(r.env)
		if err != nil {
			return names, false
		}
		r.place = place
	}
	return dossier.NamesOf(r.place), true
}

// history reads the ledger.
func (r *resolver) history() (*history.History, error) {
	if r.reading == nil {
		reading, err := r.place.Read(dossier.Ask{Want: func(*history.Attempt) bool { return false }})
		if err != nil {
			return nil, err
		}
		r.reading = reading
	}
	return r.reading.History, nil
}

// class refuses a class that neither the workspace nor the program nor the ledger has.
func (r *resolver) class(_, text string) (string, error) {
	names, ok := r.names()
	if !ok || text == "" || names.HasClass(text) || bench.CheckID(text) != nil && !bench.IsShipped(text) {
		return text, nil
	}
	if r.known = names.Classes(); bench.IsShipped(text) {
		shipped := suites.Classes()
		return "", refusal.Newf(refusal.UnknownName, "no class %q comes with the program", text).Suggest(text, shipped, "there are %s", strings.Join(shipped, ", "))
	}
	h, err := r.history()
	switch {
	case err == nil:
		for _, a := range h.Attempts {
			if a.Class == text {
				return text, nil
			}
			r.known = append(r.known, a.Class)
		}
	case !refusal.Is(err, refusal.NotFound):
		return text, nil // a ledger that cannot be read is for the command to refuse
	}
	err = refusal.Newf(refusal.UnknownName, "no class %q: there is no folder bench/%s, and no attempt of that class", text, text).
		Suggest(text, r.known, `"tally bench list" shows the classes, "tally bench new %s" makes one`, text)
	return "", err
}

// target refuses a target that neither the workspace nor the ledger has. Patterns
// and variants are for the command.
func (r *resolver) target(flag, text string) (string, error) {
	names, ok := r.names()
	if !ok || bench.CheckID(text) != nil {
		return text, nil
	}
	r.known = names.Targets(r.classNamed)
	if r.classNamed == "" { // an attempt may be of a class that comes with the program
		r.known = append(r.known, suites.Targets()...)
	}
	if slices.Contains(r.known, text) {
		return text, nil
	}
	h, err := r.history()
	switch {
	case err == nil:
		for _, a := range h.Attempts {
			if a.Target == text {
				return text, nil
			}
			r.known = append(r.known, a.Target)
		}
	case !refusal.Is(err, refusal.NotFound):
		return text, nil
	}
	if len(r.known) == 0 {
		return text, nil // the command says how to write one
	}
	slices.Sort(r.known)
	r.known = slices.Compact(r.known)
	return "", refusal.Newf(refusal.UnknownName, "there is no target targets/%s.yaml", text).
		Suggest(text, r.known, "give --%s one of %s; docs/agents.md shows how to write another", flag, strings.Join(r.known, ", "))
}

// caseOf checks the attempt of ATTEMPT:CASE; a case by itself is for the command.
func (r *resolver) caseOf(flag, text string) (string, error) {
	if !strings.Contains(text, ":") {
		return text, nil
	}
	return r.attempt(flag, text)
}

// fileEndings are of files that commands take where they take an attempt: what has one
// is a file, also if it is not there.
var fileEndings = []string{".json", ".jsonl", ".rvf", ".eval", ".zip", ".pb", ".csv", ".yaml"}

// attempt gives the id of what a text addresses, with the case that follows a colon.
func (r *resolver) attempt(word, text string) (string, error) {
	attempt, caseID, hasCase := strings.Cut(text, ":")
	if attempt == "" || dossier.AreFiles(text) || strings.ContainsRune(attempt, '/') || looksLikeFile(attempt) {
		return text, nil
	}
	names, ok := r.names()
	if !ok || evidence.LooksLikeID(attempt) && slices.Contains(names.Attempts(), attempt) {
		return text, nil
	}
	h, err := r.history()
	if err != nil {
		return "", err
	}
	if slices.ContainsFunc(h.Attempts, func(a *history.Attempt) bool { return a.Class == text }) {
		return text, nil // the command says how to choose one of a class
	}
	a, err := h.Find(attempt, r.within)
	if err != nil {
		r.known = h.Addresses(r.within)
		err = nearClass(err, attempt, r.known, names.Classes())
		if word == "ATTEMPT:CASE" && !hasCase {
			err = refusal.Newf(refusal.UnknownName, "%w; a case is named as ATTEMPT:CASE", err).WithHint("%s", refusal.Of(err).Hint)
		}
		return "", err
	}
	if hasCase {
		return a.ID + ":" + caseID, nil
	}
	return a.ID, nil
}

// nearClass is the refusal of an attempt that does not exist, with the class that was
// probably meant in its place.
func nearClass(refused error, text string, attempts, classes []string) error {
	if _, near := refusal.Closest(text, attempts); near || !refusal.Is(refused, refusal.UnknownName) {
		return refused
	}
	class, near := refusal.Closest(text, classes)
	switch {
	case !near:
		return refused
	case class == text:
		return refusal.Newf(refusal.UnknownName, "%w: it is a class without an attempt", refused).WithHint("%q makes one", "tally run "+class)
	}
	return refusal.Newf(refusal.UnknownName, "%w", refused).WithHint("did you mean the class %q? %q lists its attempts", class, "tally log --class "+class)
}

// looksLikeFile reports whether a text can only be meant as a file, by its ending.
func looksLikeFile(text string) bool { return slices.Contains(fileEndings, filepath.Ext(text)) }

// noSuchFile refuses what looks like a file and is not there.
func noSuchFile(text string) error {
	return refusal.Newf(refusal.Unreadable, "%s: there is no such file", text).WithHint("check the path; it is relative to the folder in which the command runs")
}
