package attest

import (
	"bytes"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"tallystick/internal/record/canon"
)

// maxProblems bounds a report, so that a hostile body cannot fill a screen.
const maxProblems = 20

// checkBody reports on the canonical bytes of a body.
func checkBody(text []byte) *Report {
	r := &Report{}
	if text[0] != '{' {
		r.add("", "must be object")
		return r
	}
	var space room
	list := members(&space, text)
	r.shape(list)
	r.meaning(list)
	r.Valid = len(r.Problems) == 0
	return r
}

func (r *Report) add(path, format string, args ...any) {
	if len(path) > 120 {
		path = strings.ToValidUTF8(path[:120], "") + "..."
	}
	if len(r.Problems) < maxProblems {
		r.Problems = append(r.Problems, Problem{path, fmt.Sprintf(format, args...)})
	}
}

// shape applies the rules that the JSON Schema has. A test compares the two.
func (r *Report) shape(list []member) {
	r.members("", list, bodyRules, bodyRequired)
	if string(find(list, "harnessId")) == `"mteb"` && find(list, "mtebTaskType") == nil {
		r.missing("", "mtebTaskType")
	}
}

// meaning applies the rules that a JSON Schema cannot state.
func (r *Report) meaning(list []member) {
	began, ok1 := numberOf(find(list, "submittedAt"))
	ended, ok2 := numberOf(find(list, "completedAt"))
	if ok1 && ok2 && ended < began {
		r.add("/completedAt", "must be >= submittedAt")
	}
	said, ok1 := textOf(find(list, "resultsHash"))
	results := find(list, "results")
	if !ok1 || results == nil || results[0] != '{' {
		return
	}
	if computed := hashHex(results); said != computed {
		r.Mismatch = &Mismatch{computed}
		if isSHA256(said) { // otherwise the pattern has complained
			r.add("/resultsHash", "must be the sha256 of canonical-JSON(results), which is %s", computed)
		}
	}
}

// textOf gives the text of a canonical value that is one.
func textOf(value []byte) (string, bool) {
	if len(value) == 0 || value[0] != '"' {
		return "", false
	}
	if bytes.IndexByte(value, '\\') < 0 {
		return string(value[1 : len(value)-1]), true
	}
	var s string
	err := canon.Unmarshal(value, &s)
	return s, err == nil
}

// numberOf gives the number of a canonical value that is one.
func numberOf(value []byte) (float64, bool) {
	f, err := strconv.ParseFloat(string(value), 64)
	return f, err == nil
}

// A rule complains about a value at a path. Values are canonical bytes: most of a
// body is results, which need not be decoded to know that they are an object.
type rule func(r *Report, path string, value []byte)

const maxInteger = 1<<53 - 1

var bodyRequired = []string{
	"runId", "harnessId", "harnessVersionSha", "evalCodeSha", "modelId",
	"datasetSha", "runnerDid", "submittedAt", "results", "resultsHash",
}

var bodyRules = map[string]rule{
	"schemaVersion":      oneOf(SchemaVersion),
	"runId":              matches(`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[47][0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}$`),
	"harnessId":          matches(`^[a-z][a-z0-9-]{1,63}$`),
	"harnessVersionSha":  hexSHA256,
	"evalCodeSha":        hexSHA256,
	"modelId":            filled,
	"modelVersionSha":    hexSHA256,
	"datasetSha":         hexSHA256,
	"runnerDid":          matches(`^did:(web|key):.+$`),
	"submittedAt":        integer(0, maxInteger),
	"completedAt":        integer(0, maxInteger),
	"results":            open,
	"resultsHash":        hexSHA256,
	"judgesDigest":       hexSHA256,
	"contaminationCheck": closed(contaminationRules, "method"),
	"scaffoldDelta":      number(math.Inf(-1), math.Inf(1)),
	"sandboxRunId":       matches(`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`),
	"samplingParams":     closed(samplingRules),
	"mtebTaskType": oneOf("BitextMining", "Classification", "Clustering", "InstructionReranking", "InstructionRetrieval",
		"MultilabelClassification", "PairClassification", "Reranking", "Retrieval", "STS", "Summarization"),
	"extra": open,
}

var contaminationRules = map[string]rule{
	"method":       filled,
	"overlapRatio": number(0, 1),
}

var samplingRules = map[string]rule{
	"numFewShot":       integer(0, 128),
	"temperature":      number(0, 2),
	"topP":             number(0, 1),
	"topK":             integer(0, 1000),
	"maxTokens":        integer(1, 1_000_000),
	"seed":             integer(-maxInteger, maxInteger),
	"nSamples":         integer(1, maxInteger),
	"nTrials":          integer(1, maxInteger),
	"generationKwargs": open,
}

// members wants these members and no others.
func (r *Report) members(path string, list []member, rules map[string]rule, required []string) {
	for _, name := range required {
		if find(list, name) == nil {
			r.missing(path, name)
		}
	}
	for _, m := range list {
		// No name that is known has an escape.
		check, known := rules[string(m.name)]
		here := path + "/" + string(m.name)
		if known {
			check(r, here, m.value)
		} else if name, ok := textOf([]byte(`"` + string(m.name) + `"`)); ok {
			r.add(path+"/"+pointerEscapes.Replace(name), "must NOT have additional properties")
		}
	}
}

func (r *Report) missing(path, name string) { r.add(path, "must have required property '%s'", name) }

// pointerEscapes spells a name in a JSON pointer (RFC 6901, section 3).
var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

func closed(rules map[string]rule, required ...string) rule {
	return func(r *Report, path string, value []byte) {
		if value[0] != '{' {
			r.add(path, "must be object")
			return
		}
		var space room
		r.members(path, members(&space, value), rules, required)
	}
}

func open(r *Report, path string, value []byte) {
	if value[0] != '{' {
		r.add(path, "must be object")
	}
}

// text gives the text, or complains.
func (r *Report) text(path string, value []byte) (string, bool) {
	s, ok := textOf(value)
	if !ok {
		r.add(path, "must be string")
	}
	return s, ok
}

func filled(r *Report, path string, value []byte) {
	if s, ok := r.text(path, value); ok && utf8.RuneCountInString(s) < 1 {
		r.add(path, "must NOT have fewer than 1 characters")
	}
}

func matches(pattern string) rule {
	// Not before it is asked for: every start of the program, and so every
	// sandbox, would pay.
	re := sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
	return func(r *Report, path string, value []byte) {
		if s, ok := r.text(path, value); ok && !re().MatchString(s) {
			r.add(path, "must match pattern %q", pattern)
		}
	}
}

func hexSHA256(r *Report, path string, value []byte) {
	if s, ok := r.text(path, value); ok && !isSHA256(s) {
		r.add(path, `must match pattern "^[0-9a-f]{64}$"`)
	}
}

func isSHA256(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}

func oneOf(values ...string) rule {
	return func(r *Report, path string, value []byte) {
		if s, ok := r.text(path, value); ok && !slices.Contains(values, s) {
			r.add(path, "must be equal to one of the allowed values: %s", strings.Join(values, ", "))
		}
	}
}

func number(least, most float64) rule {
	return func(r *Report, path string, value []byte) {
		f, ok := numberOf(value)
		if !ok {
			r.add(path, "must be number")
			return
		}
		r.within(path, f, least, most)
	}
}

func integer(least, most float64) rule {
	return func(r *Report, path string, value []byte) {
		f, ok := numberOf(value)
		if !ok || f != math.Trunc(f) {
			r.add(path, "must be integer")
			return
		}
		r.within(path, f, least, most)
	}
}

func (r *Report) within(path string, f, least, most float64) {
	switch {
	case f < least:
		r.add(path, "must be >= %.16g", least)
	case f > most:
		r.add(path, "must be <= %.16g", most)
	}
}
