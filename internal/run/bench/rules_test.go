package bench

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/seal"
	"tallystick/internal/testing/rules"
)

var update = flag.Bool("update", false, "write docs/formats/bench.md, docs/formats/rules/bench.json and docs/formats/vectors/bench")

var formats = filepath.Join("..", "..", "..", "docs", "formats")

// benchDocuments are the documents of a bench, by the names of their rules.
func benchDocuments() map[string]func() validator {
	return map[string]func() validator{
		"registration": func() validator { return new(Registration) },
		"case":         func() validator { return new(Case) },
		"manifest":     func() validator { return new(Manifest) },
		"digests":      func() validator { return new(CaseDigests) },
		"pins":         func() validator { return new(Pins) },
	}
}

func words[T ~string](list ...T) *rules.Shape {
	s := &rules.Shape{Is: rules.Text}
	for _, w := range list {
		s.OneOf = append(s.OneOf, string(w))
	}
	return s
}

// tiersWith lists the tiers with their defaults, for a rule.
func tiersWith[N float64 | int](defaults map[Tier]N) []any {
	var out []any
	for _, t := range Tiers() {
		out = append(out, []any{string(t), float64(defaults[t])})
	}
	return out
}

// source says what the types of a bench's documents do not. A new key is in the
// file of rules by itself; a row here says more. TestBenchKeepsItsRules holds
// all of it to what the program accepts.
func source() *rules.Source {
	const anyCount = "1 to 1099511627776"
	return &rules.Source{
		Types: map[reflect.Type]*rules.Shape{
			reflect.TypeFor[digest.ID]():          {Is: rules.Text, Like: []string{"sha256"}},
			reflect.TypeFor[digest.Content]():     {Is: rules.Text, Like: []string{"blake3"}},
			reflect.TypeFor[Time]():               {Is: rules.Text, Like: []string{"second"}},
			reflect.TypeFor[evidence.Severity]():  words(evidence.Block, evidence.Warn, evidence.Info),
			reflect.TypeFor[Trust]():              words(Signed, Scratch),
			reflect.TypeFor[Tier]():               words(Tiers()...),
			reflect.TypeFor[Metric]():             words(SolveRate, MeanScore, LowerBound95, CostPerSolve, MedianLatencyMS, P95LatencyMS, PolicyViolations, EvidenceCoverage, RollbackCorrectness),
			reflect.TypeFor[Governance]():         words(Restricted, Approved, Autonomous),
			reflect.TypeFor[Disposition]():        words(Positive, Negative, Ambiguous),
			reflect.TypeFor[Difficulty]():         words(Easy, Medium, Hard),
			reflect.TypeFor[Source]():             words(Curated, OutcomeLedger, RegressionConverted),
			reflect.TypeFor[CassetteProvenance](): words(Recorded, Edited, Authored),
		},
		Text:  rules.Shape{Is: rules.Text},
		Count: rules.Shape{Is: rules.Count},
		Items: rules.Shape{Is: rules.Text},
		Phrases: map[string]string{
			"registration.version":                   "one of 1",
			"registration.class":                     "like name",
			"registration.title":                     "like visible; 1 to 300",
			"registration.thresholds.lower_bound_95": "above 0; at most 1",
			"registration.minimum_cases":             "each " + anyCount,
			"registration.gates":                     "distinct tag metric",
			"registration.gates.tag":                 `pattern [*]|[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?`,
			"registration.promotion_window_days":     fmt.Sprintf("1 to %d", MaxPromotionWindow),
			"registration.gates.max_errors":          anyCount,
			"registration.gates.max_unscored":        anyCount,
			"case.metadata":                          "mapping",
			"registration.gates.threshold":           "from 0",
			"registration.failure_modes":             "name like name objective",
			"registration.breakdown":                 "each like name objective; distinct value",
			"registration.limits.wall_clock_seconds": "1 to 86400",
			"registration.limits.memory_bytes":       "1048576 to 1099511627776",
			"registration.limits.turns":              anyCount,
			"registration.limits.tokens":             anyCount,
			"registration.limits.cost_microdollars":  "0 to 1099511627776",
			"registration.isolation.classes":         "not empty; each one of microvm, gvisor, namespace; distinct value",
			"registration.isolation.scope":           "one of case, attempt",
			"registration.policy":                    "mapping",
			"registration.origins":                   "each like origin",
			"registration.runner_keys":               "each like ssh_public_key",
			"registration.agent_tools":               "each not empty; distinct value; at most 1000",
			"registration.data_set.name":             "like name",
			"registration.data_set.split":            "like name",
			"registration.data_set.revision":         "like visible; 1 to 200",
			"registration.data_set.files":            "not empty; distinct path",
			"registration.data_set.files.path":       "like relative_path; not empty",
			"registration.review.question":           "like visible; 1 to 300",
			"registration.review.labels":             "2 to 20; distinct label",
			"registration.review.labels.label":       "like name objective",
			"registration.review.labels.score":       "0 to 1",
			"registration.stop_early.rule":           "one of sprt",
			"registration.stop_early.p0":             "0.01 to 0.99",
			"registration.stop_early.p1":             "0.01 to 0.99",
			"registration.stop_early.alpha":          "0.001 to 0.4",
			"registration.stop_early.beta":           "0.001 to 0.4",
			"registration.normalise":                 "each one of dates, ids, parallel, paths, whitespace; distinct value",
			"case.schema_version":                    "one of 1",
			"case.case_id":                           "like name",
			"case.title":                             "like visible; 1 to 300",
			"case.tags":                              "each like name objective; distinct value; at most 64",
			"case.provenance.source_ref.type":        "one of ghsa, ledger, commit, synthetic",
			"case.provenance.source_ref.value":       "like visible; 1 to 500",
			"case.provenance.added_by.identity":      "like visible; 1 to 255",
			"case.provenance.reviewed_by.identity":   "like visible; 1 to 255",
			"case.provenance.added_by.signature":     "not empty",
			"case.provenance.reviewed_by.signature":  "not empty",
			"case.expected":                          "mapping",
			"case.rubric_limits.wall_clock_seconds":  fmt.Sprintf("1 to %d", MaxRubricSeconds),
			"case.rubric_limits.memory_bytes":        fmt.Sprintf("%d to %d", MinRubricMemoryBytes, int64(MaxRubricMemoryBytes)),
			"manifest.version":                       "one of 1",
			"manifest.class":                         "like name",
			"manifest.cases":                         "name like name",
			"digests.schema_version":                 "one of 1",
			"digests.cases":                          "name like name",
			"pins.version":                           "one of 1",
			"pins.classes":                           "each like name; sorted; distinct look",
			"pins.images":                            "name like name",
			"pins.image_kinds":                       "name like name; each one of built, oci, host",
			"registration.limits.kept_bytes":         "1048576 to 536870912",
			"registration.limits.events":             "100 to 900000",
			"registration.limits.read_bytes":         "1048576 to 1099511627776",
			"pins.ci.file":                           "like relative_path; not empty",
			"pins.origins":                           "distinct origin",
			"pins.origins.origin":                    "like origin",
			"pins.witnesses":                         "each not empty; distinct value",
			"pins.quorum":                            "from 1",
		},
		Relations: map[string][][]any{
			"registration": {
				{"ascending", "thresholds", "lower_bound_95", tiersWith(defaultThresholds)},
				{"ascending", "minimum_cases", "", tiersWith(defaultMinimumCases)},
				{"needed_when", "judge_digest", "judged_scores_count", true},
			},
			"registration.stop_early": {{"at_most", "p0", "p1"}, {"differ", "p0", "p1"}},
			"case":                    {{"together", "cassette_digest", "cassette_provenance"}},
			"case.provenance":         {{"at_most", "added_at", "last_validated_at"}},
		},
	}
}

func benchRules(t testing.TB) *rules.File {
	s := source()
	f := &rules.File{Rules: rules.Version, What: "The documents of a bench, in canonical JSON: registration, case, manifest, digests (of cases), pins.",
		Documents: map[string]*rules.Shape{}}
	for name, empty := range benchDocuments() {
		f.Documents[name] = s.Object(name, reflect.TypeOf(empty()))
	}
	for _, at := range s.Unused() {
		t.Errorf("source has a row for %s, which no document has", at)
	}
	return f
}

// validDocuments has for each document one with every key and one with few.
func validDocuments(t *testing.T) map[string][][]byte {
	f := newFixture(t)
	runner := keyOf(t, "dave").Public().String()
	read := func(name string) string { return string(f.read(name)) }
	out := map[string][][]byte{}
	add := func(document, yaml string) {
		v := benchDocuments()[document]()
		doc, err := decode(document, []byte(yaml), v)
		if err != nil {
			t.Fatalf("%s: %v\n%s", document, err, yaml)
		}
		out[document] = append(out[document], doc.JSON)
	}
	add("registration", scratchRegistration)
	add("registration", strings.ReplaceAll(fullRegistration, "RUNNER", runner))
	add("case", read("bench/greet/cases/hard/case.yaml"))
	add("case", read("bench/greet/cases/greeting/case.yaml"))
	add("manifest", read("bench/greet/manifest.yaml"))
	add("digests", read("bench/greet/cases/digests.yaml"))
	add("pins", "version: 1\nclasses: [greet]\nci: {file: "+WorkflowFile+", digest: \"blake3:7b8cf61863c4f955acc9045aaba3c7faf4541fc6583fff4fd1512366580c0e97\"}\n")
	witness := func(name string) string {
		public, _ := keyOf(t, name).Public().Ed25519()
		return seal.CosignatureVKey(public, name)
	}
	add("pins", "version: 1\nclasses: [a, b]\nimages: {cpython: \"blake3:"+strings.Repeat("1", 64)+"\"}\nimage_kinds: {cpython: built}\nquorum: 1\nwitnesses: ["+witness("alice")+", "+witness("bob")+
		"]\norigins: [{origin: example.com/evals, first_entry: \"blake3:"+strings.Repeat("2", 64)+"\"}, {origin: example.com/other}]\n")
	return out
}

const scratchRegistration = `version: 1
class: small
trust: scratch
current_tier: bronze
limits: {wall_clock_seconds: 60, memory_bytes: 1073741824, turns: 10, tokens: 1000, cost_microdollars: 0}
governance: approved
isolation: {classes: [gvisor], scope: case, allow_weaker: false}
judged_scores_count: false
`

// fullRegistration has every key.
const fullRegistration = `version: 1
class: full
title: Everything
trust: signed
current_tier: silver
thresholds: {bronze: {lower_bound_95: 0.5, calibrated: true}, silver: {lower_bound_95: 0.7, calibrated: false}}
minimum_cases: {silver: 40, gold: 100}
gates: [{tag: "*", metric: solve_rate, threshold: 0.5}, {tag: slow, metric: solve_rate, threshold: 0.4, max_errors: 1, max_unscored: 2}]
promotion_window_days: 60
failure_modes: {wrong_answer: warn, leak: block}
breakdown: [greeting, tone]
limits: {wall_clock_seconds: 60, memory_bytes: 1073741824, turns: 10, tokens: 1000, cost_microdollars: 5, kept_bytes: 2000000, events: 1000, read_bytes: 2000000}
governance: approved
isolation: {classes: [gvisor, namespace], scope: attempt, allow_weaker: true}
policy: {mode: approved}
origins: [example.com/evals]
runner_keys: ["RUNNER"]
data_set: {name: gaia, split: validation, revision: "2023", files: [{path: "2023/validation/metadata.jsonl", sha256: "sha256:3333333333333333333333333333333333333333333333333333333333333333"}]}
stop_early: {rule: sprt, p0: 0.6, p1: 0.8, alpha: 0.05, beta: 0.1, seed: 7}
review: {question: "Is it polite?", labels: [{label: polite, score: 1}, {label: rude, score: 0}]}
judge_digest: "blake3:1111111111111111111111111111111111111111111111111111111111111111"
judged_scores_count: true
`

// asCanonical is what the program thinks of a document in canonical JSON: it is
// the one spelling of what the YAML says, and JSON is YAML.
func asCanonical(document string, data []byte) error {
	v := benchDocuments()[document]()
	doc, err := decode(document, data, v)
	if err != nil {
		return err
	}
	if !bytes.Equal(doc.JSON, data) {
		return fmt.Errorf("the canonical JSON is %s", doc.JSON)
	}
	return nil
}

// TestBenchPage writes docs/formats/rules/bench.json from the types, the page
// from the rules, and compares.
func TestBenchPage(t *testing.T) {
	f := benchRules(t)
	data, err := f.Format()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString(`# The documents of a bench

Every rule about the documents that [case.md](case.md) describes: what they mean, what is signed, and how they hang together is there. This page is written by a test from [rules/bench.json](rules/bench.json); [rules/README.md](rules/README.md) says how to read it, and a test holds the program to it. [vectors/bench](vectors/README.md) has documents that are accepted and documents that are refused.

A document is looked at in canonical JSON, which is what is hashed and signed; case.md says which YAML has one. *count* is a whole number that a double holds exactly; *bytes* are those of UTF-8. A *name* has 1 to 100 of the characters A-Z a-z 0-9 . _ -, does not begin with a dot or a dash and does not end in a dot.
`)
	for _, name := range []string{"registration", "case", "manifest", "digests", "pins"} {
		fmt.Fprintf(&b, "\n## %s\n\n%s", name, f.Table(f.Documents[name]))
	}
	for name, want := range map[string][]byte{"rules/bench.json": data, "bench.md": []byte(b.String())} {
		path := filepath.Join(formats, filepath.FromSlash(name))
		if *update {
			if err := writeFile(path, want); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the types give (%v); run \"go test ./internal/run/bench -run Bench -update\" and read the diff", path, err)
		}
	}
}

// TestBenchKeepsItsRules changes documents in thousands of ways: the file of
// rules and the program must think the same of each.
func TestBenchKeepsItsRules(t *testing.T) {
	if testing.Short() {
		t.Skip("thousands of documents in one goroutine: nothing for the race detector")
	}
	f, err := rules.Load(filepath.Join(formats, "rules", "bench.json"))
	if err != nil {
		t.Fatal(err)
	}
	tried, accepted := 0, 0
	for document, docs := range validDocuments(t) {
		for _, doc := range docs {
			if err := f.Check(document, doc); err != nil {
				t.Fatalf("%s: the rules refuse a valid document: %v\n%s", document, err, doc)
			}
			for _, m := range rules.Mutations(doc, 60) {
				data, err := canon.Canonicalize(m.Data)
				// In YAML 1e+21 and 1e-7 are texts to some readers, which is refused
				// by another rule; and what is long takes its time.
				if err != nil || bytes.Contains(data, []byte("1e+21")) || bytes.Contains(data, []byte("1e-7")) || len(data) > 8<<10 {
					continue
				}
				ours, theirs := asCanonical(document, data), f.Check(document, data)
				tried++
				if ours == nil {
					accepted++
				}
				if (ours == nil) != (theirs == nil) {
					t.Errorf("%s: %s: the program says %v, the rules say %v\n%.300s", document, m.What, ours, theirs, data)
				}
			}
		}
	}
	t.Logf("%d documents tried, %d accepted", tried, accepted)
	if tried < 5_000 || accepted < 500 {
		t.Errorf("%d documents tried, %d accepted: too few to show anything", tried, accepted)
	}
}

func writeFile(path string, data []byte) error {
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644))
}

// TestBenchVectors writes docs/formats/vectors/bench and compares.
func TestBenchVectors(t *testing.T) {
	f := benchRules(t)
	var vectors []rules.Vector
	for document, docs := range validDocuments(t) {
		for i, doc := range docs {
			name := document
			if i > 0 {
				name = fmt.Sprintf("%s-%d", document, i+1)
			}
			vectors = append(vectors, rules.Accepted(document, name, doc))
			if i == len(docs)-1 {
				vectors = append(vectors, f.Refused(document, name, doc, 14)...)
			}
		}
	}
	for _, v := range vectors {
		if err := asCanonical(v.As, bytes.TrimSuffix(v.Data, []byte("\n"))); (err == nil) != (v.Reason == "") {
			t.Errorf("%s: the program says %v, the vector says %q", v.Name, err, v.Reason)
		}
	}
	files, err := rules.Files(rules.Index{What: "Registrations, cases, manifests, digests of cases and pins, in canonical JSON."}, vectors)
	if err != nil {
		t.Fatal(err)
	}
	write := writeFile
	if !*update {
		write = nil
	}
	for _, wrong := range rules.Compare(filepath.Join(formats, "vectors", "bench"), files, write) {
		t.Error(wrong)
	}
}
