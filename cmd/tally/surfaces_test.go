package main

import (
	"archive/zip"
	"bytes"
	stdcmp "cmp"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What a surface can say of an attempt.
const (
	saysMet        = "met"
	saysNotMet     = "not met"
	saysNotDecided = "not decided"
	saysNotTold    = "not told here" // only a report, of what its file does not hold
)

// A surfaceOutcome is one way in which an attempt can end.
type surfaceOutcome struct {
	name   string
	gates  string   // of the registration, "" for none
	cases  []string // lines of the dataset; the class has them all
	more   string   // of the registration
	flags  []string // of the run
	has    string   // an outcome that one case must have
	want   string
	report string // what the report says, if it is not what is wanted
	exit   int    // of the run, if it is not 0 for what is met or not decided, and 4 for what is not met
}

// Lines of datasets. Each passes unless its name says otherwise.
func plainCases(n int) []string {
	var list []string
	for i := range n {
		tag := "odd"
		if i%2 == 1 {
			tag = "even"
		}
		list = append(list, fmt.Sprintf(`{"id":"good-%d","input":"%d?","tags":[%q],"model":[{"text":"%d"}],"expected":"%d","grade":{"kind":"exact"}}`, i+1, i+1, tag, i+1, i+1))
	}
	return list
}

const (
	wrongCase     = `{"id":"wrong","input":"9?","tags":["wrong"],"model":[{"text":"8"}],"expected":"9","grade":{"kind":"exact"}}`
	erroredCase   = `{"id":"errored","input":"9?","tags":["odd"],"model":[{"status":400}],"expected":"9","grade":{"kind":"exact"}}`
	missingCase   = `{"id":"missing","input":"9?","tags":["odd"],"model":[],"expected":"9","grade":{"kind":"exact"}}`
	unscoredCase  = `{"id":"unscored","input":"9?","tags":["odd"],"model":[{"text":"9","when":{"lacks":"END"}},{"for":"judge","repeat":true,"text":"no"}],"expected":"9","grade":{"kind":"judge","criteria":"c"}}`
	deniedCase    = `{"id":"denied","input":"pay","tags":["odd"],"tools":[{"name":"pay","class":"financial","replies":[{"result":"ok"}]}],"model":[{"tool_calls":[{"name":"pay","args":{"n":1}}]},{"text":"done"}],"expected":"done","grade":{"kind":"exact"}}`
	dearCase      = `{"id":"dear","input":"9?","tags":["odd"],"model":[{"text":"9","cost_microdollars":5000}],"expected":"9","grade":{"kind":"exact"}}`
	truncatedCase = `{"id":"truncated","input":"look","tags":["odd"],"tools":[{"name":"look","class":"read","replies":[{"result":"ok"}]}],"model":[{"tool_calls":[{"name":"look","args":{}}],"cost_microdollars":900000,"repeat":true}],"expected":"9","grade":{"kind":"exact"}}`
)

// slowCase takes more than a millisecond on any machine: it calls a tool 300 times.
func slowCase() string {
	calls := strings.TrimSuffix(strings.Repeat(`{"name":"look","args":{"text":"`+strings.Repeat("x", 1000)+`"}},`, 300), ",")
	return `{"id":"slow","input":"look","tags":["odd"],"tools":[{"name":"look","class":"read","replies":[{"result":"ok"}]}],"model":[{"tool_calls":[` + calls + `]},{"text":"done"}],"expected":"done","grade":{"kind":"exact"}}`
}

func gateOn(metric string, threshold float64) string {
	return fmt.Sprintf(`{tag: "*", metric: %s, threshold: %v}`, metric, threshold)
}

func surfaceOutcomes() []surfaceOutcome {
	return []surfaceOutcome{
		{name: "every case passes", gates: gateOn("solve_rate", 1), cases: plainCases(3), want: saysMet},
		{name: "a case fails, and the gate allows it", gates: gateOn("solve_rate", 0.5), cases: append(plainCases(2), wrongCase), want: saysMet},
		{name: "missed by the score", gates: gateOn("mean_score", 0.9), cases: append(plainCases(2), wrongCase), want: saysNotMet},
		{name: "missed by violations", gates: gateOn("solve_rate", 1) + ", " + gateOn("policy_violations", 0), cases: append(plainCases(2), deniedCase),
			more: "policy: {mode: autonomous, deny: [pay], max_cost_microdollars: 1000000, max_tool_calls: 9}\n", want: saysNotMet},
		{name: "missed by the cost", gates: gateOn("cost_per_solve", 100), cases: append(plainCases(2), dearCase), want: saysNotMet},
		{name: "missed by the latency", gates: gateOn("p95_latency_ms", 0), cases: append(plainCases(2), slowCase()), want: saysNotMet},
		{name: "a case without a score", gates: gateOn("solve_rate", 0.5), cases: append(plainCases(2), unscoredCase), has: "unscored", want: saysNotMet},
		{name: "a case that errored", gates: gateOn("solve_rate", 0.5), cases: append(plainCases(2), erroredCase), has: "errors", want: saysNotMet},
		{name: "a case that asks what is not recorded", gates: gateOn("solve_rate", 0.5), cases: append(plainCases(2), missingCase), has: "unanswered", want: saysNotDecided, exit: 5},
		{name: "a case that asks what is not recorded, and another fails", gates: gateOn("solve_rate", 0.9), cases: append(plainCases(2), missingCase, wrongCase), has: "unanswered", want: saysNotDecided, exit: 5},
		{name: "a case that was truncated", gates: gateOn("solve_rate", 0.5), cases: append(plainCases(2), truncatedCase), has: "truncated", want: saysNotMet},
		{name: "several gates, of which one is missed", gates: gateOn("solve_rate", 0.5) + ", " + gateOn("mean_score", 0.9) + ", " + gateOn("p95_latency_ms", 60000), cases: append(plainCases(2), wrongCase), want: saysNotMet},
		{name: "a gate on a tag that no case has", gates: gateOn("solve_rate", 0.5) + `, {tag: none, metric: solve_rate, threshold: 0}`, cases: plainCases(2), want: saysNotMet},
		{name: "repeated and reduced, and a case fails", gates: gateOn("solve_rate", 0.9), cases: append(plainCases(2), wrongCase), flags: []string{"--repeat", "2", "--reduce", "max"}, want: saysNotMet, report: saysNotTold},
		{name: "filtered with --case", gates: gateOn("solve_rate", 0.9), cases: append(plainCases(3), wrongCase), flags: []string{"--case", "good-*"}, want: saysNotDecided},
		{name: "filtered with --tag", gates: gateOn("mean_score", 0.9), cases: append(plainCases(3), wrongCase), flags: []string{"--tag", "odd"}, want: saysNotDecided},
		{name: "filtered with --limit", gates: gateOn("lower_bound_95", 0.1), cases: append(plainCases(3), wrongCase), flags: []string{"--limit", "2"}, want: saysNotDecided},
		{name: "filtered with --sample", gates: gateOn("policy_violations", 0), cases: plainCases(3), flags: []string{"--sample", "2"}, want: saysNotDecided},
		{name: "filtered, and a selected case fails as the gate allows", gates: gateOn("solve_rate", 0.5), cases: append(plainCases(3), wrongCase), flags: []string{"--case", "good-1", "--case", "wrong"}, want: saysNotDecided},
		{name: "filtered, and a selected case fails", gates: gateOn("solve_rate", 0.9), cases: append(plainCases(3), wrongCase), flags: []string{"--case", "good-1", "--case", "wrong"}, want: saysNotMet},
		{name: "filtered, and what ran breaks a gate", gates: gateOn("policy_violations", 0), cases: append(plainCases(2), deniedCase), flags: []string{"--case", "denied"},
			more: "policy: {mode: autonomous, deny: [pay], max_cost_microdollars: 1000000, max_tool_calls: 9}\n", want: saysNotMet},
		{name: "filtered to all cases of the gates", gates: `{tag: odd, metric: solve_rate, threshold: 1}`, cases: append(plainCases(3), wrongCase), flags: []string{"--tag", "odd"}, want: saysNotDecided},
		{name: "no gates, every case passes", cases: plainCases(2), want: saysMet},
		{name: "no gates, a case fails", cases: append(plainCases(2), wrongCase), want: saysNotMet},
		{name: "no gates, filtered", cases: append(plainCases(2), wrongCase), flags: []string{"--case", "good-*"}, want: saysNotDecided},
	}
}

// A surfaces is a workspace with a class for each outcome, each run twice.
type surfaces struct {
	*testing.T
	dir, ws, tally string
	env            []string
	site, key      string
}

func newSurfaces(t *testing.T) *surfaces {
	dir := t.TempDir()
	s := &surfaces{T: t, dir: dir, ws: filepath.Join(dir, "ws"), tally: filepath.Join(dir, "tally"), site: filepath.Join(dir, "site")}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The test program is tally when it is called by that name.
	if err := os.Symlink(self, s.tally); err != nil {
		t.Fatal(err)
	}
	s.env = append(os.Environ(), "TALLY="+s.tally, "HOME="+dir, "XDG_STATE_HOME="+filepath.Join(dir, "state"), "XDG_CACHE_HOME="+filepath.Join(dir, "cache"), "XDG_CONFIG_HOME="+filepath.Join(dir, "config"),
		"PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH="+absolute(t, "../../python"))
	s.must("init", s.ws)
	s.key = filepath.Join(dir, "seed")
	if err := os.WriteFile(s.key, []byte(strings.Repeat("07", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.write("judge.yaml", "version: 1\nmodel: judge-1\napi: openai.chat\n")
	return s
}

func absolute(t *testing.T, path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

func (s *surfaces) write(name, text string) {
	s.Helper()
	path := filepath.Join(s.ws, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		s.Fatal(err)
	}
}

func (s *surfaces) read(path string) []byte {
	s.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		s.Fatal(err)
	}
	return data
}

// run runs the program in the workspace.
func (s *surfaces) run(name string, args ...string) (stdout, stderr string, code int) {
	s.Helper()
	cmd := exec.Command(name, args...)
	var out, errs bytes.Buffer
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = s.env, s.dir, &out, &errs
	if st, err := os.Stat(s.ws); err == nil && st.IsDir() {
		cmd.Dir = s.ws
	}
	err := cmd.Run()
	if cmd.ProcessState == nil {
		s.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func (s *surfaces) must(args ...string) string {
	s.Helper()
	out, stderr, code := s.run(s.tally, args...)
	if code != 0 {
		s.Fatalf("tally %s: %d\n%s%s", strings.Join(args, " "), code, out, stderr)
	}
	return out
}

// decided is what JSON says of an attempt.
type decided struct {
	Met, Undecided bool
	GateMet        *bool `json:"gate_met"`
}

func (d *decided) says() string {
	switch {
	case d == nil:
		return "nothing"
	case d.Met && d.Undecided:
		return "both met and not decided"
	case d.Met:
		return saysMet
	case d.Undecided:
		return saysNotDecided
	}
	return saysNotMet
}

// worst folds the words of several lines: one that is not met decides.
func worst(words []string) string {
	said := "nothing"
	for _, w := range words {
		switch w = strings.ToLower(w); {
		case w == saysNotMet, w == "not passed", w == "no":
			return saysNotMet
		case w == saysNotDecided:
			said = saysNotDecided
		case said == "nothing" && (w == saysMet || w == "passed" || w == "yes"):
			said = saysMet
		}
	}
	return said
}

// matches are the first groups of a pattern in a text.
func matches(pattern, text string) []string {
	var all []string
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

// junitSays reads a JUnit report: red, or green with or without gates that were skipped.
func (s *surfaces) junitSays(path string) string {
	s.Helper()
	var doc struct {
		Suites []struct {
			Failures int `xml:"failures,attr"`
			Errors   int `xml:"errors,attr"`
			Cases    []struct {
				Class   string `xml:"classname,attr"`
				Skipped *struct {
					Message string `xml:"message,attr"`
				} `xml:"skipped"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(s.read(path), &doc); err != nil {
		s.Fatal(err)
	}
	said := "green"
	for _, suite := range doc.Suites {
		if suite.Failures+suite.Errors > 0 {
			return "red"
		}
		for _, c := range suite.Cases {
			if c.Skipped != nil && strings.HasSuffix(c.Class, ".gates") {
				said = "skipped"
			}
		}
	}
	return said
}

// tapSays reads a TAP report as a harness does: TODO and SKIP do not count.
func (s *surfaces) tapSays(path string) string {
	s.Helper()
	said := "green"
	for line := range strings.Lines(string(s.read(path))) {
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "not ok") && !strings.Contains(line, "# TODO"):
			return "red"
		case strings.HasPrefix(line, "ok") && strings.Contains(line, "- gate ") && strings.Contains(line, "# SKIP"):
			said = "skipped"
		}
	}
	return said
}

// pageSays is what a page says by its first mark, whose colour must be that of its word.
func pageSays(html string) string {
	found := regexp.MustCompile(`<span class="state (passed|failed|unscored)" title="[^"]*">(Met|Not met|Not decided|Not told here)</span>`).FindStringSubmatch(html)
	if found == nil {
		return "nothing"
	}
	if colour := map[string]string{"Met": "passed", "Not met": "failed", "Not decided": "unscored", "Not told here": "unscored"}[found[2]]; found[1] != colour {
		return found[2] + " in the colour of " + found[1]
	}
	return strings.ToLower(found[2])
}

func (s *surfaces) payload(path string) (result string, gate struct{ State string }) {
	s.Helper()
	var envelope struct{ Payload string }
	if err := json.Unmarshal(s.read(path), &envelope); err != nil {
		s.Fatal(err)
	}
	data, err := base64.StdEncoding.DecodeString(envelope.Payload)
	if err != nil {
		s.Fatal(err)
	}
	var statement struct {
		Predicate struct {
			Result string
			Gate   struct{ State string }
		}
	}
	if err := json.Unmarshal(data, &statement); err != nil {
		s.Fatal(err)
	}
	return statement.Predicate.Result, statement.Predicate.Gate
}

// A surfaceRow is what every surface says of one outcome.
type surfaceRow struct {
	outcome surfaceOutcome
	said    map[string]string
}

// The columns of the table, in the order of the page.
var surfaceColumns = []string{"`run`, exit", "`run`", "`run --json`", "JUnit, TAP of `run`", "comment on a pull request", "several targets", "`gate`, exit", "`gate`", "JUnit, TAP of `gate`", "`log`, `show`", "pages", "in-toto", "badge, cards, results", "spans", "report", "pytest"}

// TestSurfacesPage runs every outcome with the real program, reads every surface, wants
// the same of all of them, and compares with the page.
func TestSurfacesPage(t *testing.T) {
	t.Parallel()
	s := newSurfaces(t)
	var rows []*surfaceRow
	for i, o := range surfaceOutcomes() {
		rows = append(rows, s.runOutcome(fmt.Sprintf("class-%02d", i+1), o))
	}
	s.must("view", "--bundle", s.site)
	log, shown := s.logSays()
	for i, row := range rows {
		class := fmt.Sprintf("class-%02d", i+1)
		s.decisionIn(row, class, log, shown)
		s.pagesIn(row, class)
		s.exportsIn(row, class)
	}
	s.pytestIn(rows)
	for _, row := range rows {
		s.agrees(row)
	}
	s.page(rows)
}

// runOutcome runs a class twice: for people, and for programs with the first as the
// baseline.
func (s *surfaces) runOutcome(class string, o surfaceOutcome) *surfaceRow {
	s.Helper()
	row := &surfaceRow{outcome: o, said: map[string]string{}}
	registration := fmt.Sprintf("version: 1\nclass: %s\ntrust: scratch\ncurrent_tier: bronze\n", class)
	if o.gates != "" {
		registration += "gates: [" + o.gates + "]\n"
	}
	s.write("bench/"+class+"/registration.yaml", registration+o.more+`limits: {wall_clock_seconds: 60, memory_bytes: 1073741824, turns: 5, tokens: 100000, cost_microdollars: 1000000}
governance: autonomous
isolation: {classes: [gvisor], scope: case, allow_weaker: false}
judged_scores_count: false
`)
	s.write("bench/"+class+"/dataset.jsonl", strings.Join(o.cases, "\n")+"\n")
	junit, tap, markdown := filepath.Join(s.dir, class+".xml"), filepath.Join(s.dir, class+".tap"), filepath.Join(s.dir, class+".md")
	out, stderr, code := s.run(s.tally, append([]string{"run", class, "--junit", junit, "--tap", tap}, o.flags...)...)
	row.said["`run`, exit"] = fmt.Sprint(code)
	row.said["`run`"] = worst(matches(`(?m)^(?:gate    |selected|question) (met|NOT MET|NOT DECIDED|passed|NOT PASSED|yes|NO): `, out))
	if row.said["`run`"] == "nothing" {
		s.Errorf("%s: run says nothing of a gate:\n%s%s", o.name, out, stderr)
	}
	if o.want != saysMet && strings.Contains(out, "gate     met") && !strings.Contains(out, "gate     NOT") {
		s.Errorf("%s: run says that the gate is met:\n%s", o.name, out)
	}
	row.said["JUnit, TAP of `run`"] = s.same(o.name, s.junitSays(junit), s.tapSays(tap))
	out, _, again := s.run(s.tally, append([]string{"run", class, "--json", "--baseline", class + ".default.1", "--markdown", markdown}, o.flags...)...)
	if again != code {
		s.Errorf("%s: exit %d, then %d", o.name, code, again)
	}
	var answer struct{ Decision, Gate *decided }
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		s.Fatalf("%s: %v\n%s", o.name, err, out)
	}
	var counts map[string]any
	if err := json.Unmarshal([]byte(out), &counts); err != nil || o.has != "" && counts[o.has] != 1.0 {
		s.Errorf("%s: %s is %v, %v", o.name, o.has, counts[o.has], err)
	}
	row.said["`run --json`"] = answer.Decision.says()
	if o.gates != "" {
		row.said["`run --json`"] = s.same(o.name, answer.Decision.says(), answer.Gate.says())
	}
	row.said["several targets"] = s.severalTargets(class, o, code)
	row.said["comment on a pull request"] = worst(matches(`(?m)^### Gate (met|not met|not decided): `, string(s.read(markdown))))

	out, _, code = s.run(s.tally, "gate", class+".default.1", "--junit", junit, "--tap", tap)
	row.said["`gate`, exit"] = fmt.Sprint(code)
	if o.gates == "" {
		row.said["`gate`"], row.said["JUnit, TAP of `gate`"] = "refused: no gates", "–"
		if code == 0 {
			s.Errorf("%s: gate ends with 0", o.name)
		}
		return row
	}
	row.said["JUnit, TAP of `gate`"] = s.same(o.name, s.junitSays(junit), s.tapSays(tap))
	first := worst(matches(`^(met|NOT MET|NOT DECIDED)  `, out))
	out, _, _ = s.run(s.tally, "gate", class+".default.1", "--json")
	var g decided
	if err := json.Unmarshal([]byte(out), &g); err != nil {
		s.Fatalf("%s: %v\n%s", o.name, err, out)
	}
	row.said["`gate`"] = s.same(o.name, first, g.says())
	return row
}

// severalTargets runs a class with two targets that are the same, and reads the text, the
// reports and the exit code, which must be that of a run with one.
func (s *surfaces) severalTargets(class string, o surfaceOutcome, exit int) string {
	s.Helper()
	target := filepath.Join(s.ws, "targets", "second.yaml")
	if _, err := os.Stat(target); err != nil {
		s.write("targets/second.yaml", string(s.read(filepath.Join(s.ws, "targets", "default.yaml"))))
	}
	report := filepath.Join(s.dir, class+"-several.xml")
	out, stderr, code := s.run(s.tally, append([]string{"run", class, "--target", "default", "--target", "second", "--junit", report}, o.flags...)...)
	if code != exit {
		s.Errorf("%s: several targets end with %d, one with %d\n%s%s", o.name, code, exit, out, stderr)
	}
	said := []string{worst(matches(`(?m)^(?:gate    |selected|question) (met|NOT MET|NOT DECIDED|passed|NOT PASSED|yes|NO): `, out))}
	for _, name := range []string{"default", "second"} {
		colour := s.junitSays(strings.TrimSuffix(report, ".xml") + "." + name + ".xml")
		said = append(said, map[string]string{"green": saysMet, "red": saysNotMet, "skipped": saysNotDecided}[colour])
	}
	return s.same(o.name, said...)
}

// same is what two surfaces say, if it is the same.
func (s *surfaces) same(name string, said ...string) string {
	s.Helper()
	if len(slices.Compact(slices.Clone(said))) > 1 {
		s.Errorf("%s: one says %s", name, strings.Join(said, ", another says "))
	}
	return said[0]
}

// logSays is what the log says of every attempt: to programs, and to people.
func (s *surfaces) logSays() (map[string]string, map[string]string) {
	var log struct {
		Attempts []struct {
			ID       string
			Decision *decided
			GateMet  *bool `json:"gate_met"`
		}
	}
	if err := json.Unmarshal([]byte(s.must("log", "--json")), &log); err != nil {
		s.Fatal(err)
	}
	said, shown := map[string]string{}, map[string]string{}
	for _, a := range log.Attempts {
		said[a.ID] = a.Decision.says()
		if old := map[bool]string{true: saysMet, false: saysNotMet}; a.GateMet != nil && old[*a.GateMet] != said[a.ID] || a.GateMet == nil && said[a.ID] != saysNotDecided {
			s.Errorf("log: %s: gate_met is %v, the decision %s", a.ID, a.GateMet, said[a.ID])
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^(\S+) .*?  (met|NOT MET|NOT DECIDED)  `).FindAllStringSubmatch(s.must("log"), -1) {
		shown[m[1]] = strings.ToLower(m[2])
	}
	return said, shown
}

func (s *surfaces) decisionIn(row *surfaceRow, class string, log, shown map[string]string) {
	id, name := class+".default.1", row.outcome.name
	out := s.must("show", id)
	var listing struct{ Decision *decided }
	if err := json.Unmarshal([]byte(s.must("show", id, "--json")), &listing); err != nil {
		s.Fatal(err)
	}
	row.said["`log`, `show`"] = s.same(name, log[id], shown[id], listing.Decision.says(), worst(matches(`; gate (met|NOT MET|NOT DECIDED); `, out)))
}

func (s *surfaces) pagesIn(row *surfaceRow, class string) {
	id := class + ".default.1"
	files, err := filepath.Glob(filepath.Join(s.site, "attempts", "~page-*", "index.html"))
	if err != nil {
		s.Fatal(err)
	}
	var inRow string
	found := false
	for _, file := range append(files, filepath.Join(s.site, "attempts", "index.html")) {
		if _, rest, here := strings.Cut(string(s.read(file)), ">"+id+"<"); here {
			inRow, found = rest, true
		}
	}
	if !found {
		s.Fatalf("%s is not on the page of attempts", id)
	}
	inRow, _, _ = strings.Cut(inRow, "</tr>")
	one := string(s.read(filepath.Join(s.site, "attempt", id, "index.html")))
	_, figure, _ := strings.Cut(one, "<dt>Gate</dt>")
	row.said["pages"] = s.same(row.outcome.name, pageSays(inRow), pageSays(figure))
	// The class states its gates the right way round.
	for _, m := range regexp.MustCompile(`metric: (\w+), threshold: ([\d.]+)`).FindAllStringSubmatch(row.outcome.gates, -1) {
		limit := "at least"
		if slices.Contains([]string{"cost_per_solve", "median_latency_ms", "p95_latency_ms", "policy_violations"}, m[1]) {
			limit = "at most"
		}
		page := string(s.read(filepath.Join(s.site, "corpus", class, "index.html")))
		if !regexp.MustCompile(m[1] + ` of (all cases|tag \w+) ` + limit + " " + regexp.QuoteMeta(m[2]) + "<").MatchString(page) {
			s.Errorf("the page of %s does not say %s %s %s", class, m[1], limit, m[2])
		}
	}
}

func (s *surfaces) exportsIn(row *surfaceRow, class string) {
	id, out := class+".default.1", filepath.Join(s.dir, class)
	row.said["spans"] = s.spansSay(id)
	if row.outcome.exit == 5 { // what has no score does not leave the workspace
		row.said["in-toto"], row.said["badge, cards, results"], row.said["report"] = "refused", "refused", "refused"
		for _, format := range []string{"in-toto", "badge", "hf", "cyclonedx", "inspect", "eee", "croissant", "vc", "html", "submission"} {
			args := []string{"export", id, "--format", format, "-o", out + "-" + format + ".eval"}
			if format == "in-toto" || format == "vc" {
				args = append(args, "--key", s.key)
			}
			if format == "vc" {
				args = append(args, "--harness-file", s.key, "--model-id", "m")
			}
			if text, _, code := s.run(s.tally, args...); code != 5 || text != "" {
				s.Errorf("%s: export --format %s ends with %d: %s", row.outcome.name, format, code, text)
			}
		}
		return
	}
	s.must("export", id, "--format", "in-toto", "--key", s.key, "-o", out+"-in-toto")
	result, _ := s.payload(filepath.Join(out+"-in-toto", "test-result.dsse.json"))
	_, gate := s.payload(filepath.Join(out+"-in-toto", "eval-result.dsse.json"))
	row.said["in-toto"] = result
	if words := map[string]string{"PASSED": saysMet, "FAILED": saysNotMet, "WARNED": saysNotDecided}; words[result] != gate.State {
		s.Errorf("%s: test-result says %s, eval-result %s", row.outcome.name, result, gate.State)
	}
	badge := s.must("export", id, "--format", "badge")
	said := worst(matches(`solved, gate (met|not met|not decided), `, badge))
	if colour := map[string]string{saysMet: "#2f6f44", saysNotMet: "#8f1d1d", saysNotDecided: "#6a6a6a"}[said]; !strings.Contains(badge, `fill="`+colour+`"`) {
		s.Errorf("%s: the badge says %s in another colour: %s", row.outcome.name, said, badge)
	}
	s.must("export", id, "--format", "hf", "-o", out+"-hf")
	card := worst(matches("(?m)^\\| gate \\| `(met|not met|not decided): ", string(s.read(filepath.Join(out+"-hf", "model-card.md")))))
	bom := worst(matches(`"tallystick:gate","value":"(met|not met|not decided): `, compactJSON(s.T, s.must("export", id, "--format", "cyclonedx"))))
	s.must("export", id, "--format", "inspect", "-o", out+".eval")
	row.said["badge, cards, results"] = s.same(row.outcome.name, said, card, bom, s.inspectSays(out+".eval"), s.everyevaleverSays(id, out+"-eee"), s.croissantSays(id))
	row.said["report"] = s.reportSays(id, out+".html")
}

// reportSays is what the report of an attempt says, which the program has made again of its
// evidence, verified with the ledger's key, before it wrote it.
func (s *surfaces) reportSays(id, path string) string {
	s.Helper()
	s.must("export", id, "--format", "html", "-o", path)
	_, figure, _ := strings.Cut(string(s.read(path)), "<dt>Gate</dt>")
	return pageSays(figure)
}

func compactJSON(t *testing.T, text string) string {
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(text)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// spansSay is what the resource of OpenTelemetry says.
func (s *surfaces) spansSay(id string) string {
	s.Helper()
	return worst(matches(`"tallystick.gate","value":\{"stringValue":"(met|not met|not decided): `, compactJSON(s.T, s.must("export", id, "--format", "otel"))))
}

func (s *surfaces) croissantSays(id string) string {
	s.Helper()
	return worst(matches(`"gate":"(met|not met|not decided): `, compactJSON(s.T, s.must("export", id, "--format", "croissant"))))
}

func (s *surfaces) everyevaleverSays(id, dir string) string {
	s.Helper()
	s.must("export", id, "--format", "eee", "-o", dir)
	files, err := filepath.Glob(filepath.Join(dir, "data", "*", "*", "*", "*.json"))
	if err != nil || len(files) != 1 {
		s.Fatalf("%s has %v, %v", dir, files, err)
	}
	return worst(matches(`"gate":"(met|not met|not decided): `, compactJSON(s.T, string(s.read(files[0])))))
}

func (s *surfaces) inspectSays(path string) string {
	z, err := zip.OpenReader(path)
	if err != nil {
		s.Fatal(err)
	}
	defer z.Close()
	f, err := z.Open("header.json")
	if err != nil {
		s.Fatal(err)
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		s.Fatal(err)
	}
	var header struct {
		Eval struct{ Metadata map[string]string }
	}
	if err := json.Unmarshal(data, &header); err != nil {
		s.Fatal(err)
	}
	said, _, _ := strings.Cut(header.Eval.Metadata["gate"], ": ")
	return said
}

// hasPytest reports whether pytest can be run here.
func (s *surfaces) hasPytest() bool {
	_, err := exec.LookPath("python3")
	if err != nil {
		return false
	}
	_, _, code := s.run("python3", "-c", "import pytest")
	return code == 0
}

// pytestIn runs the classes of attempts without a filter, which pytest has no words for,
// with our plugin: each with a session of its own, whose status counts.
func (s *surfaces) pytestIn(rows []*surfaceRow) {
	if !s.hasPytest() {
		s.Log("pytest is not installed: its column is not compared")
		return
	}
	for i, row := range rows {
		row.said["pytest"] = "–"
		if row.outcome.flags != nil {
			continue
		}
		class := fmt.Sprintf("class-%02d", i+1)
		for _, chosen := range [][]string{nil, {"-k", "good-1"}} {
			out, stderr, code := s.run("python3", append([]string{"-m", "pytest", "-v", "-p", "no:cacheprovider", "-p", "tallystick.pytest_plugin", "--rootdir", s.dir, "--tally", class}, chosen...)...)
			want := map[string]int{saysMet: 0, saysNotMet: 1}[row.outcome.want]
			if row.outcome.exit == 5 {
				want = 4 // pytest's own: what tally refuses is a usage error
			}
			if code != want {
				s.Errorf("%s: pytest %v ends with %d, want %d\n%s%s", row.outcome.name, chosen, code, want, out, stderr)
			}
			if chosen == nil {
				row.said["pytest"] = map[int]string{0: "green", 1: "red", 4: "refused"}[code]
				if gate := map[int]string{0: "gate PASSED", 1: "gate FAILED"}[code]; !strings.Contains(out, gate) {
					s.Errorf("%s: pytest does not say %q\n%s", row.outcome.name, gate, out)
				}
			}
		}
	}
}

// agrees wants of every surface what the outcome is.
func (s *surfaces) agrees(row *surfaceRow) {
	o := row.outcome
	want := map[string]string{}
	for _, column := range surfaceColumns {
		want[column] = o.want
	}
	colour := map[string]string{saysMet: "green", saysNotMet: "red", saysNotDecided: "skipped"}
	want["`run`, exit"] = map[string]string{saysMet: "0", saysNotMet: "4", saysNotDecided: "0"}[o.want]
	if o.exit != 0 {
		want["`run`, exit"] = fmt.Sprint(o.exit)
	}
	want["`gate`, exit"] = map[string]string{saysMet: "0", saysNotMet: "4", saysNotDecided: "4"}[o.want]
	want["JUnit, TAP of `run`"] = colour[o.want]
	want["JUnit, TAP of `gate`"] = map[string]string{saysMet: "green", saysNotMet: "red", saysNotDecided: "red"}[o.want]
	want["in-toto"] = map[string]string{saysMet: "PASSED", saysNotMet: "FAILED", saysNotDecided: "WARNED"}[o.want]
	if o.exit == 5 {
		want["`gate`, exit"], want["JUnit, TAP of `gate`"], want["in-toto"], want["badge, cards, results"] = "5", "skipped", "refused", "refused"
	}
	want["pytest"] = row.said["pytest"] // looked at above
	want["report"] = stdcmp.Or(o.report, o.want)
	if o.exit == 5 {
		want["report"] = "refused"
	}
	if o.gates == "" {
		want["`gate`, exit"], want["`gate`"], want["JUnit, TAP of `gate`"] = row.said["`gate`, exit"], "refused: no gates", "–"
	}
	for _, column := range surfaceColumns {
		if row.said[column] != want[column] {
			s.Errorf("%s: %s says %q, want %q", o.name, column, row.said[column], want[column])
		}
	}
}

const (
	surfacesBegin = "<!-- surfaces: generated by make docs -->\n"
	surfacesEnd   = "<!-- end of the surfaces -->\n"
)

// page compares the table with that of the page, or rewrites it.
func (s *surfaces) page(rows []*surfaceRow) {
	const path = "../../docs/gates.md"
	text := string(s.read(path))
	before, rest, begins := strings.Cut(text, surfacesBegin)
	table, after, ends := strings.Cut(rest, surfacesEnd)
	if !begins || !ends {
		s.Fatalf("%s has no place for the table", path)
	}
	made := surfaceTable(rows, table)
	if *update {
		if err := os.WriteFile(path, []byte(before+surfacesBegin+made+surfacesEnd+after), 0o644); err != nil {
			s.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(table, made); diff != "" {
		s.Errorf("docs/gates.md does not match the program; run \"make docs\" and read the diff (-page +program):\n%s", diff)
	}
}

// surfaceTable is the table. Where pytest could not be run, its column is that of the
// page.
func surfaceTable(rows []*surfaceRow, old string) string {
	was := map[string]string{}
	for line := range strings.Lines(old) {
		if cells := strings.Split(strings.Trim(line, "|\n "), " | "); len(cells) == len(surfaceColumns)+1 {
			was[cells[0]] = cells[len(cells)-1]
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n| Outcome | %s |\n|%s\n", strings.Join(surfaceColumns, " | "), strings.Repeat("---|", len(surfaceColumns)+1))
	for _, row := range rows {
		name := row.outcome.name
		fmt.Fprintf(&b, "| %s", name)
		for _, column := range surfaceColumns {
			said := row.said[column]
			if column == "pytest" && said == "" {
				said = was[name]
			}
			fmt.Fprintf(&b, " | %s", said)
		}
		b.WriteString(" |\n")
	}
	b.WriteString("\n")
	return b.String()
}
