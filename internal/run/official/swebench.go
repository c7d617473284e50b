package official

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A sweTask is what an instance of SWE-bench expects of the log of its tests.
type sweTask struct {
	Repo       string   `json:"repo"`
	FailToPass []string `json:"FAIL_TO_PASS"`
	PassToPass []string `json:"PASS_TO_PASS"`
}

// sweResults are the results that a log names, in the order in which they came first.
type sweResults struct {
	names  []string
	status map[string]string
}

func (r *sweResults) set(name, status string) {
	if _, known := r.status[name]; !known {
		r.names = append(r.names, name)
	}
	r.status[name] = status
}

var sweStatuses = []string{"FAILED", "PASSED", "SKIPPED", "ERROR", "XFAIL"}

// sweParsers has a parser for each repository in Python.
var sweParsers = map[string]func(log string, r *sweResults){
	"astropy/astropy":              swePytest2,
	"django/django":                sweDjango,
	"marshmallow-code/marshmallow": swePytest,
	"matplotlib/matplotlib":        sweMatplotlib,
	"mwaskom/seaborn":              sweSeaborn,
	"pallets/flask":                swePytest,
	"psf/requests":                 swePytestOptions,
	"pvlib/pvlib-python":           swePytest,
	"pydata/xarray":                swePytest,
	"pydicom/pydicom":              swePytestOptions,
	"pylint-dev/astroid":           swePytest,
	"pylint-dev/pylint":            swePytestOptions,
	"pytest-dev/pytest":            swePytest,
	"pyvista/pyvista":              swePytest,
	"scikit-learn/scikit-learn":    swePytest2,
	"sphinx-doc/sphinx":            swePytest2,
	"sqlfluff/sqlfluff":            swePytest,
	"sympy/sympy":                  sweSympy,
}

func compileSWEBench(expected []byte) (func(string) Verdict, error) {
	var t sweTask
	d := json.NewDecoder(strings.NewReader(string(expected)))
	d.DisallowUnknownFields()
	if err := d.Decode(&t); err != nil {
		return nil, fmt.Errorf("is not what is expected of a task: %w", err)
	}
	parse := sweParsers[t.Repo]
	switch {
	case parse == nil:
		return nil, fmt.Errorf("repo is %.60q, expected one of %s", t.Repo, strings.Join(slices.Sorted(maps.Keys(sweParsers)), ", "))
	case len(t.FailToPass) == 0:
		return nil, errors.New("FAIL_TO_PASS is empty, so that no change would solve it")
	}
	return func(log string) Verdict { return t.score(log, parse) }, nil
}

// What the evaluation script writes into a log.
const (
	sweStart = ">>>>> Start Test Output"
	sweEnd   = ">>>>> End Test Output"
)

var (
	sweBad      = []string{">>>>> Patch Apply Failed", ">>>>> Reset Failed", ">>>>> Tests Errored", ">>>>> Tests Timed Out"}
	sweExitCode = lazily(`>>>>> Test Exit Code:` + pythonSpace + `*(-?\p{Nd}+)`)
	sweRan      = lazily(`(?m)Executed [1-9]\p{Nd}* of \p{Nd}+|TOTAL: [1-9]\p{Nd}* (?:SUCCESS|FAILED)|[1-9]\p{Nd}* passing|Tests:` + pythonSpace + `+[1-9]\p{Nd}*` +
		`|Test Suites:` + pythonSpace + `+(?:\p{Nd}+ [\p{L}\p{N}_]+, )*[1-9]\p{Nd}* total|^# tests [1-9]\p{Nd}*|[1-9]\p{Nd}* specs?, \p{Nd}+ failures?|': ok$`)
)

func (t *sweTask) score(log string, parse func(string, *sweResults)) Verdict {
	// A file that Python opens as text has one kind of line end.
	log = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(log)
	for _, bad := range sweBad {
		if strings.Contains(log, bad) {
			return Verdict{false, "", "the log says " + bad}
		}
	}
	if !strings.Contains(log, sweStart) || !strings.Contains(log, sweEnd) {
		return Verdict{false, "", "the log has no start or no end of the tests' output"}
	}
	read := func(text string) *sweResults {
		r := &sweResults{status: map[string]string{}}
		parse(text, r)
		return r
	}
	within, _, _ := strings.Cut(strings.Split(log, sweStart)[1], sweEnd)
	results := read(within)
	if len(results.names) == 0 {
		results = read(log)
	}
	if len(results.names) == 0 && !sweRan().MatchString(log) {
		return Verdict{false, "", "the log has no result and no sign that tests ran"}
	}
	if m := sweExitCode().FindStringSubmatch(log); m != nil && len(results.names) > 0 {
		failed := slices.ContainsFunc(results.names, func(name string) bool {
			return results.status[name] == "FAILED" || results.status[name] == "ERROR"
		})
		if code, err := strconv.Atoi(m[1]); (err != nil || code != 0) && !failed {
			return Verdict{false, "", "the tests ended with " + m[1] + " and the log names none that failed"}
		}
	}
	for _, name := range t.FailToPass {
		if results.outcome(name, false) == sweFailed {
			return Verdict{false, "", "the test " + quote(name) + " does not pass"}
		}
	}
	for _, name := range t.PassToPass {
		if results.outcome(name, true) == sweFailed {
			return Verdict{false, "", "the test " + quote(name) + " passed before and does not now"}
		}
	}
	return Verdict{true, "", "all tests pass that should"}
}

type sweOutcome int

const (
	sweFailed sweOutcome = iota
	swePassed
	sweNeither // a word that is no status: the official report leaves the test out
)

// outcome says how an expected test ended. A test that is maintained may be skipped.
func (r *sweResults) outcome(name string, maintained bool) sweOutcome {
	key, ok := r.resolve(name)
	if !ok {
		return sweFailed
	}
	switch r.status[key] {
	case "PASSED", "XFAIL":
		return swePassed
	case "SKIPPED":
		if maintained {
			return swePassed
		}
		return sweFailed
	case "FAILED", "ERROR":
		return sweFailed
	}
	return sweNeither
}

// resolve finds a test. Names that the data set cut off within their brackets are found
// by their beginning, if all that begin so agree.
func (r *sweResults) resolve(name string) (string, bool) {
	if _, ok := r.status[name]; ok {
		return name, true
	}
	if strings.Count(name, "[") <= strings.Count(name, "]") {
		return "", false
	}
	first, passing := "", 0
	matches := 0
	for _, key := range r.names {
		if !strings.HasPrefix(key, name) {
			continue
		}
		if matches++; matches == 1 {
			first = key
		}
		if s := r.status[key]; s == "PASSED" || s == "XFAIL" {
			passing++
		}
	}
	return first, matches > 0 && (passing == 0 || passing == matches)
}

func startsWithStatus(line string) bool {
	return slices.ContainsFunc(sweStatuses, func(s string) bool { return strings.HasPrefix(line, s) })
}

// pythonFields is str.split without arguments.
func pythonFields(s string) []string { return strings.FieldsFunc(s, isPythonSpace) }

var skipCount = lazily(`^\[\p{Nd}+\]$`)

func isSkipSummary(status, name string) bool {
	return status == "SKIPPED" && skipCount().MatchString(name)
}

// sweLine reads a line that begins with a status.
func sweLine(line string) (status, name string, ok bool) {
	if !startsWithStatus(line) {
		return "", "", false
	}
	if strings.HasPrefix(line, "FAILED") {
		line = strings.ReplaceAll(line, " - ", " ")
	}
	words := pythonFields(line)
	if len(words) <= 1 || isSkipSummary(words[0], words[1]) {
		return "", "", false
	}
	return words[0], words[1], true
}

func swePytest(log string, r *sweResults) {
	for _, line := range strings.Split(log, "\n") {
		if status, name, ok := sweLine(line); ok {
			r.set(name, status)
		}
	}
}

func sweMatplotlib(log string, r *sweResults) {
	swePytest(strings.NewReplacer("MouseButton.LEFT", "1", "MouseButton.RIGHT", "3").Replace(log), r)
}

var sweOption = lazily(`(.*?)\[(.*)\]`)

// swePytestOptions keeps the last part of a path among the options of a test.
func swePytestOptions(log string, r *sweResults) {
	for _, line := range strings.Split(log, "\n") {
		status, name, ok := sweLine(line)
		if !ok {
			continue
		}
		if m := sweOption().FindStringSubmatch(name); m != nil {
			option := m[2]
			if strings.HasPrefix(option, "/") && !strings.HasPrefix(option, "//") && !strings.Contains(option, "*") {
				option = option[strings.LastIndexByte(option, '/'):]
			}
			name = m[1] + "[" + option + "]"
		}
		r.set(name, status)
	}
}

var sweColour = lazily(`\[\p{Nd}+m`)

// swePytest2 joins the words of a name, and takes statuses at the end of a line too.
func swePytest2(log string, r *sweResults) {
	for _, line := range strings.Split(log, "\n") {
		line = strings.Map(func(c rune) rune {
			if c >= 1 && c < 32 {
				return -1
			}
			return c
		}, sweColour().ReplaceAllString(line, ""))
		switch {
		case startsWithStatus(line):
			if strings.HasPrefix(line, "FAILED") {
				line, _, _ = strings.Cut(line, " - ")
			}
			if words := pythonFields(line); len(words) >= 2 && !isSkipSummary(words[0], words[1]) {
				r.set(strings.Join(words[1:], " "), words[0])
			}
		case slices.ContainsFunc(sweStatuses, func(s string) bool { return strings.HasSuffix(line, s) }):
			if words := pythonFields(line); len(words) >= 2 {
				r.set(strings.Join(words[:len(words)-1], " "), words[len(words)-1])
			}
		}
	}
}

func sweSeaborn(log string, r *sweResults) {
	for _, line := range strings.Split(log, "\n") {
		words := pythonFields(line)
		switch {
		case len(words) < 2:
		case strings.HasPrefix(line, "FAILED"):
			r.set(words[1], "FAILED")
		case strings.Contains(line, " PASSED "):
			if words[1] == "PASSED" {
				r.set(words[0], "PASSED")
			}
		case strings.HasPrefix(line, "PASSED"):
			r.set(words[1], "PASSED")
		}
	}
}

var sweSympyHead = lazily(`(_*) (.*)\.py:(.*) (_*)`)

func sweSympy(log string, r *sweResults) {
	for _, m := range sweSympyHead().FindAllStringSubmatch(log, -1) {
		r.set(m[2]+".py:"+m[3], "FAILED")
	}
	for _, line := range strings.Split(log, "\n") {
		if line = pythonStrip(line); !strings.HasPrefix(line, "test_") {
			continue
		}
		for _, end := range []struct{ text, status string }{{" E", "ERROR"}, {" F", "FAILED"}, {" ok", "PASSED"}} {
			if strings.HasSuffix(line, end.text) {
				r.set(pythonFields(line)[0], end.status)
			}
		}
	}
}

// sweInterrupted are results between whose name and "ok" other output stands.
var sweInterrupted = []func() *regexp.Regexp{
	lazily(`(?m)^(.*?)` + pythonSpace + `\.\.\.` + pythonSpace + `Testing against Django installed in ((?s:.*?)) silenced\)\.\nok$`),
	lazily(`(?m)^(.*?)` + pythonSpace + `\.\.\.` + pythonSpace + `Internal Server Error: /(.*)/\nok$`),
	lazily(`(?m)^(.*?)` + pythonSpace + `\.\.\.` + pythonSpace + `System check identified no issues \(0 silenced\)\nok$`),
}

func sweDjango(log string, r *sweResults) {
	before, known := "", false
	for _, line := range strings.Split(log, "\n") {
		line = pythonStrip(line)
		const version = "--version is equivalent to version"
		if strings.Contains(line, version) {
			r.set(version, "PASSED")
		}
		if name, _, ok := strings.Cut(line, " ... "); ok {
			before, known = name, true
		}
		for _, suffix := range []string{" ... ok", " ... OK", " ...  OK"} {
			if !strings.HasSuffix(line, suffix) {
				continue
			}
			if strings.HasPrefix(line, "Applying sites.0002_alter_domain_unique...test_no_migrations") {
				_, line, _ = strings.Cut(line, "...")
				line = pythonStrip(line)
			}
			name := line
			if i := strings.LastIndex(line, suffix); i >= 0 {
				name = line[:i]
			}
			r.set(name, "PASSED")
			break
		}
		if name, _, ok := strings.Cut(line, " ... skipped"); ok {
			r.set(name, "SKIPPED")
		}
		for _, end := range []struct{ word, status string }{{"FAIL", "FAILED"}, {"ERROR", "ERROR"}} {
			if strings.HasSuffix(line, " ... "+end.word) {
				name, _, _ := strings.Cut(line, " ... "+end.word)
				r.set(name, end.status)
			}
			if strings.HasPrefix(line, end.word+":") {
				if words := pythonFields(line); len(words) > 1 {
					r.set(words[1], end.status)
				}
			}
		}
		if known && strings.HasPrefix(line, "ok") {
			r.set(before, "PASSED")
		}
	}
	for _, pattern := range sweInterrupted {
		for _, m := range pattern().FindAllStringSubmatch(log, -1) {
			r.set(m[1], "PASSED")
		}
	}
}
