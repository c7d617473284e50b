package bench

import (
	"bytes"
	"strings"
	"testing"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
)

// A small document.
const smallPins = `version: 1
classes: ["a", "b"]
`

func TestRegistrationIsStrict(t *testing.T) {
	honest := string(exampleRegistration("greet", Signed, exampleNames))
	for _, tt := range []struct{ name, old, new, want string }{
		{"an unknown tier", "current_tier: bronze", "current_tier: diamond", `current_tier: found "diamond", expected bronze, silver, gold or platinum`},
		{"an unknown tier in the thresholds", "platinum: {lower", "diamond: {lower", `thresholds.diamond: found "diamond"`},
		{"a threshold over 1", "gold: {lower_bound_95: 0.9,", "gold: {lower_bound_95: 1.9,", "thresholds.gold.lower_bound_95: found 1.9"},
		{"a threshold of nothing", "gold: {lower_bound_95: 0.9,", "gold: {lower_bound_95: 0,", "thresholds.gold.lower_bound_95: found 0"},
		{"a higher tier that asks for less", "gold: {lower_bound_95: 0.9,", "gold: {lower_bound_95: 0.7,", "thresholds: found 0.75 for silver and 0.7 for gold, expected no less"},
		{"calibrated left out", "silver: {lower_bound_95: 0.75, calibrated: false}", "silver: {lower_bound_95: 0.75}", "thresholds.silver.calibrated: is missing"},
		{"fewer cases for a higher tier", "silver: 30", "silver: 3", "minimum_cases: found 10 for bronze and 3 for silver, expected no less"},
		{"no cases", "bronze: 10", "bronze: 0", "minimum_cases.bronze: found 0"},
		{"another trust", "trust: signed", "trust: verified", `trust: found "verified", expected signed or scratch`},
		{"a banned failure mode", "wrong_answer: warn", "low_confidence: warn", `failure_modes.low_confidence: the name "low_confidence" contains "confidence"`},
		{"a banned breakdown key", "breakdown: [exact]", "breakdown: [llmScore]", `contains "llm"`},
		{"a banned word with dots", "breakdown: [exact]", "breakdown: [model.says]", `contains "model_says"`},
		{"a harmless word", "breakdown: [exact]", "breakdown: [enrollment]", ""},
		{"an unknown severity", "wrong_answer: warn", "wrong_answer: fatal", `found "fatal", expected block, warn or info`},
		{"an unknown metric", "metric: solve_rate", "metric: vibes", `gates.0.metric: found "vibes"`},
		{"a gate twice", "gates:\n", "gates:\n  - {tag: \"*\", metric: solve_rate, threshold: 0.1}\n", `gates.1: is listed twice: "* solve_rate"`},
		{"an unknown governance", "governance: restricted", "governance: free", `governance: found "free"`},
		{"an unknown isolation class", "classes: [gvisor, microvm]", "classes: [docker]", `isolation.classes.0: found "docker"`},
		{"no isolation class", "classes: [gvisor, microvm]", "classes: []", "isolation.classes: is empty"},
		{"an unknown scope", "scope: case", "scope: run", `isolation.scope: found "run"`},
		{"no time at all", "wall_clock_seconds: 300", "wall_clock_seconds: 0", "limits.wall_clock_seconds: found 0, expected 1 to 86400"},
		{"a negative cost", "cost_microdollars: 1000000", "cost_microdollars: -1", "limits.cost_microdollars: found -1"},
		{"an origin with blanks", "judged_scores_count: false", "judged_scores_count: false\norigins: [\"a b\"]", "origins.0"},
		{"a runner key that is not a key", "judged_scores_count: false", "judged_scores_count: false\nrunner_keys: [\"ssh-ed25519 AAAA\"]", "runner_keys.0"},
		{"a version of the future", "version: 1", "version: 2", "version: found 2, this program knows 1"},
		{"an unknown key", "version: 1", "version: 1\nauto_promote: true", "auto_promote: is not a known key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if strings.Count(honest, tt.old) != 1 {
				t.Fatalf("%q occurs %d times", tt.old, strings.Count(honest, tt.old))
			}
			var r Registration
			_, err := decode("registration.yaml", []byte(strings.Replace(honest, tt.old, tt.new, 1)), &r)
			name := refusal.Malformed
			if tt.name == "a version of the future" {
				name = refusal.NewerFormat
			}
			switch {
			case tt.want == "" && err != nil:
				t.Fatal(err)
			case tt.want == "":
			case !refusal.Is(err, name) || !strings.Contains(err.Error(), tt.want):
				t.Errorf("%v, want it to say %q", err, tt.want)
			}
		})
	}
}

func TestCaseIsStrict(t *testing.T) {
	honest := string(fullCase)
	for _, tt := range []struct{ name, old, new, want string }{
		{"a rubric that asks for too long", "wall_clock_seconds: 120", "wall_clock_seconds: 301", "rubric_limits.wall_clock_seconds: found 301, expected 1 to 300"},
		{"a rubric that asks for too much memory", "memory_bytes: 2147483648", "memory_bytes: 4294967297", "rubric_limits.memory_bytes: found 4294967297"},
		{"an unknown disposition", "disposition: negative", "disposition: good", `disposition: found "good", expected positive, negative or ambiguous`},
		{"an unknown difficulty", "difficulty: hard", "difficulty: brutal", "difficulty:"},
		{"an unknown source", "source: curated", "source: rumour", "provenance.source:"},
		{"an unknown kind of reference", "type: ghsa", "type: tweet", "provenance.source_ref.type:"},
		{"a local time", `added_at: "2026-05-12T14:00:00Z"`, `added_at: "2026-05-12T14:00:00+02:00"`, "provenance.added_at: found"},
		{"validated before it was added", `last_validated_at: "2026-05-12T14:00:00Z"`, `last_validated_at: "2026-05-11T14:00:00Z"`, "expected at most last_validated_at, which is 2026-05-11"},
		{"a cassette of unknown provenance", "cassette_provenance: recorded", "cassette_provenance: found", "cassette_provenance:"},
		{"a cassette without provenance", "cassette_provenance: recorded\n", "", "cassette_digest: is there and cassette_provenance is not"},
		{"a tag twice", "[farewell, slow]", "[slow, slow]", "tags.1"},
		{"a banned tag", "[farewell, slow]", "[llm]", `contains "llm"`},
		{"expected that is not a mapping", "expected:\n  recipe_id: bump-minor\n  cve_delta: -1\n  nested: {list: [1, 2.5, null, true]}\n", "expected: 3\n", "expected: found 3, expected a mapping"},
		{"a title of two lines", `title: "Say goodbye, the hard way"`, `title: "Say\ngoodbye"`, "expected one line"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if strings.Count(honest, tt.old) != 1 {
				t.Fatalf("%q occurs %d times", tt.old, strings.Count(honest, tt.old))
			}
			var c Case
			_, err := decode("case.yaml", []byte(strings.Replace(honest, tt.old, tt.new, 1)), &c)
			if !refusal.Is(err, refusal.Malformed) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want it to say %q", err, tt.want)
			}
		})
	}
}

func TestIDs(t *testing.T) {
	for _, id := range []string{"a", "GHSA-2024-0001-axios-ssrf", "v1.2_x", "_", strings.Repeat("x", 100)} {
		if err := CheckID(id); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	for _, id := range []string{"", strings.Repeat("x", 101), ".hidden", "-rf", "a b", "a/b", "..", "ä", "a\n", "а", "dot."} {
		if CheckID(id) == nil {
			t.Errorf("%q is accepted", id)
		}
	}
}

// Whatever decodes must encode to the canonical bytes that were signed, and
// decode from those to the same again.
func fuzzDocument[T any, P interface {
	*T
	validator
}](f *testing.F, seeds ...[]byte) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		first := P(new(T))
		doc, err := decode("fuzz.yaml", data, first)
		if err != nil {
			if name := refusal.Of(err).Name; name != refusal.Malformed && name != refusal.TooLarge && name != refusal.NewerFormat {
				t.Fatalf("refused with %s: %v", name, err)
			}
			return
		}
		encoded, err := canon.Marshal(first)
		if err != nil || !bytes.Equal(encoded, doc.JSON) {
			t.Fatalf("decoded %s, encodes to %s, %v", doc.JSON, encoded, err)
		}
		second := P(new(T))
		again, err := decode("fuzz.yaml", encoded, second)
		if err != nil || !bytes.Equal(again.JSON, encoded) {
			t.Fatalf("%s does not decode from its own JSON: %v", encoded, err)
		}
	})
}

func FuzzCase(f *testing.F) {
	fuzzDocument[Case](f, fullCase, NewCase("a", "b", &Person{"x", "-----BEGIN\nabc\n"}, nil, now).YAML())
}

func FuzzRegistration(f *testing.F) {
	fuzzDocument[Registration](f, exampleRegistration("greet", Signed, exampleNames), exampleRegistration("x", Scratch, ""))
}

func FuzzManifest(f *testing.F) {
	fuzzDocument[Manifest](f, []byte("version: 1\nclass: a\nregistration: \"blake3:"+strings.Repeat("0", 64)+"\"\nrubric: \"blake3:"+strings.Repeat("1", 64)+"\"\ncases:\n  \"x\": {signed: \"sha256:"+strings.Repeat("2", 64)+"\"}\n"))
}

func FuzzPins(f *testing.F) {
	fuzzDocument[Pins](f, []byte(smallPins), []byte(smallPins+"ci: {file: a, digest: \"blake3:"+strings.Repeat("0", 64)+"\"}\n"))
}
