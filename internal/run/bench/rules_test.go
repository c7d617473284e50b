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
	"tallystick/internal/record/seal"
	"tallystick/internal/testing/rules"
)

var update = flag.Bool("update", false, "write docs/formats/bench.md and docs/formats/vectors/bench")

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

// benchRules are the rules in the tree.
func benchRules(t testing.TB) *rules.File {
	t.Helper()
	f, err := rules.Load(filepath.Join(formats, "rules", "bench.json"))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestRulesHaveTheNumbersOfTheProgram: what the program also uses elsewhere.
func TestRulesHaveTheNumbersOfTheProgram(t *testing.T) {
	f := benchRules(t)
	for i, name := range []string{"thresholds", "minimum_cases"} {
		rule := f.Documents["registration"].Rules[i]
		var want []any
		for _, tier := range Tiers() {
			want = append(want, []any{string(tier), []float64{defaultThresholds[tier], float64(defaultMinimumCases[tier])}[i]})
		}
		if rule[1] != name || !reflect.DeepEqual(rule[3], want) {
			t.Errorf("the rules have %v, the program %v", rule, want)
		}
	}
	if most := *f.Documents["registration"].Members["promotion_window_days"].Max; most != MaxPromotionWindow {
		t.Errorf("promotion_window_days: %v", most)
	}
	limits := f.Documents["case"].Members["rubric_limits"].Members
	if seconds, memory := limits["wall_clock_seconds"], limits["memory_bytes"]; *seconds.Max != MaxRubricSeconds || *memory.Min != MinRubricMemoryBytes || *memory.Max != MaxRubricMemoryBytes {
		t.Errorf("rubric_limits: %v %v %v", *seconds.Max, *memory.Min, *memory.Max)
	}
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
		"]\norigins: [{origin: example.com/evals, first_entry: \"blake3:"+strings.Repeat("2", 64)+"\"}, {origin: example.com/other}]\nanchors: {every: \"24h\", remotes: [\"https://git.example.com/evals.git\"]}\n")
	return out
}

// fullDocument has the keys that none of the valid documents has.
func fullDocument(t *testing.T, document string) [][]byte {
	t.Helper()
	digest, id := `"blake3:`+strings.Repeat("4", 64)+`"`, `"sha256:`+strings.Repeat("5", 64)+`"`
	yaml := map[string]string{
		"registration": scratchRegistration + "agent_tools: [Bash, Read]\nnormalise: [dates, ids]\n" +
			"model_endpoints: [{scheme: https, host: api.example.com, port: 443, path: /v1, local: true, roots: " + id + ", proxy: \"proxy:3128\", leaf: " + id + ", chain: " + id + "}]\n",
		"case": "schema_version: 1\ncase_id: a\ntitle: A\ndisposition: positive\ndifficulty: easy\ncassettes: {one.b: {digest: " + digest + ", provenance: edited}}\n" +
			"provenance: {source: curated, source_ref: {type: synthetic, value: x}, added_at: \"2026-05-12T14:00:00Z\", last_validated_at: \"2026-05-12T14:00:00Z\"}\n",
		"manifest": "version: 1\nclass: a\nregistration: " + digest + "\ncases: {}\njudges: " + digest + "\ndocuments: " + digest + "\ndataset_cassettes: {one: " + digest + "}\n",
	}[document]
	if yaml == "" {
		return nil
	}
	doc, err := decode(document, []byte(yaml), benchDocuments()[document]())
	if err != nil {
		t.Fatal(err)
	}
	return [][]byte{doc.JSON}
}

// pinsItsUser is a registration that says who plays the users of its cases.
func pinsItsUser(t *testing.T) []byte {
	t.Helper()
	yaml := scratchRegistration + "user_digest: \"blake3:" + strings.Repeat("6", 64) + "\"\n"
	doc, err := decode("registration", []byte(yaml), benchDocuments()["registration"]())
	if err != nil {
		t.Fatal(err)
	}
	return doc.JSON
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
floor: {answer: first_choice, cases: 50, passed: 13}
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

// TestBenchPage writes the page from the rules, and compares; the rules have
// their one layout.
func TestBenchPage(t *testing.T) {
	f := benchRules(t)
	data, err := f.Format()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString(`# The documents of a bench

Every rule about the documents that [case.md](case.md) describes: what they mean, what is signed, and how they hang together is there. This page is written by a test from [rules/bench.json](rules/bench.json); [rules/README.md](rules/README.md) says how to read it, and the program's checks are written from it too. [vectors/bench](vectors/README.md) has documents that are accepted and documents that are refused.

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
			t.Errorf("%s is not what the rules give (%v); run \"go test ./internal/run/bench -run Bench -update\" and read the diff", path, err)
		}
	}
}

// TestBenchKeepsItsRules changes documents in thousands of ways: the file of
// rules and the program must think the same of each.
func TestBenchKeepsItsRules(t *testing.T) {
	if testing.Short() {
		t.Skip("thousands of documents in one goroutine: nothing for the race detector")
	}
	f := benchRules(t)
	tried, accepted := 0, 0
	valid := validDocuments(t)
	for document := range valid {
		valid[document] = append(valid[document], fullDocument(t, document)...)
		if document == "registration" {
			valid[document] = append(valid[document], pinsItsUser(t))
		}
	}
	if unseen := f.Unseen(valid); len(unseen) > 0 {
		t.Errorf("no document here has %s, so nothing is changed in them", unseen)
	}
	for document, docs := range valid {
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
		for _, doc := range fullDocument(t, document) {
			vectors = append(vectors, rules.Accepted(document, document+"-more", doc))
		}
		if document == "registration" {
			vectors = append(vectors, rules.Accepted(document, document+"-user", pinsItsUser(t)))
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
