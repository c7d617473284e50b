package attest

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/schema"
)

func compiledSchema(t testing.TB) *schema.Schema {
	t.Helper()
	s, err := schema.Compile(Schema)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSeedBodyIsValid(t *testing.T) {
	b, err := ParseBody([]byte(exampleBody(t)))
	if err != nil {
		t.Fatal(err)
	}
	if b.HarnessID != "lm-eval-harness" || b.SubmittedAt != 1747000000000 || *b.SamplingParams.Temperature != 0 || *b.SamplingParams.NSamples != 12032 {
		t.Errorf("got %+v", b)
	}
	want, _ := canon.Canonicalize([]byte(exampleBody(t)))
	if got, err := b.Encode(); err != nil || !bytes.Equal(got, want) {
		t.Errorf("encodes as %s, %v", got, err)
	}
}

// A bodyCase changes one member of the example body: a JSON value, or "" to leave
// it out.
type bodyCase struct {
	name, member, value string
	want                string // a problem, or empty if the body stays valid
	onlyHere            bool   // a rule that the schema cannot state
}

var bodyCases = []bodyCase{
	{"no schemaVersion", "schemaVersion", "", "", false},
	{"another schemaVersion", "schemaVersion", `"2.0.0"`, "/schemaVersion must be equal to one of the allowed values: 1.0.0", false},
	{"schemaVersion as a number", "schemaVersion", `1`, "/schemaVersion must be string", false},

	{"no runId", "runId", "", "must have required property 'runId'", false},
	{"UUID v7", "runId", `"01890a5d-ac96-774b-bcce-b302099a8057"`, "", false},
	{"UUID in capitals", "runId", `"01890A5D-AC96-774B-BCCE-B302099A8057"`, "", false},
	{"UUID v1", "runId", `"58172aac-d8ba-11ed-83dd-0b3aef56cc33"`, "/runId must match pattern", false},
	{"UUID of another variant", "runId", `"00000000-0000-4000-c000-000000000000"`, "/runId must match pattern", false},
	{"UUID with a line break", "runId", `"00000000-0000-4000-8000-000000000000\n"`, "/runId must match pattern", false},
	{"runId null", "runId", `null`, "/runId must be string", false},

	{"harnessId of one letter", "harnessId", `"a"`, "/harnessId must match pattern", false},
	{"harnessId of two", "harnessId", `"a1"`, "", false},
	{"harnessId of 64", "harnessId", `"` + strings.Repeat("a", 64) + `"`, "", false},
	{"harnessId of 65", "harnessId", `"` + strings.Repeat("a", 65) + `"`, "/harnessId must match pattern", false},
	{"harnessId with colons", "harnessId", `"lm:eval:1"`, "/harnessId must match pattern", false},
	{"harnessId in capitals", "harnessId", `"HELM"`, "/harnessId must match pattern", false},

	{"sha in capitals", "datasetSha", `"` + strings.Repeat("A", 64) + `"`, `/datasetSha must match pattern "^[0-9a-f]{64}$"`, false},
	{"sha of 63", "evalCodeSha", `"` + strings.Repeat("a", 63) + `"`, "/evalCodeSha must match pattern", false},
	{"sha with a prefix", "harnessVersionSha", `"sha256:` + strings.Repeat("a", 64) + `"`, "/harnessVersionSha must match pattern", false},
	{"no datasetSha", "datasetSha", "", "must have required property 'datasetSha'", false},
	{"modelVersionSha", "modelVersionSha", `"` + strings.Repeat("a", 64) + `"`, "", false},
	{"modelVersionSha empty", "modelVersionSha", `""`, "/modelVersionSha must match pattern", false},
	{"judgesDigest", "judgesDigest", `"` + strings.Repeat("b", 64) + `"`, "", false},
	{"judgesDigest short", "judgesDigest", `"b"`, "/judgesDigest must match pattern", false},

	{"modelId opaque", "modelId", `"gpt"`, "", false},
	{"modelId empty", "modelId", `""`, "/modelId must NOT have fewer than 1 characters", false},
	{"modelId a list", "modelId", `["a"]`, "/modelId must be string", false},

	{"runnerDid did:web", "runnerDid", `"did:web:my-org.example.com"`, "", false},
	{"runnerDid of another method", "runnerDid", `"did:ion:x"`, "/runnerDid must match pattern", false},
	{"runnerDid of nothing", "runnerDid", `"did:key:"`, "/runnerDid must match pattern", false},
	{"runnerDid a URL", "runnerDid", `"https://a.example"`, "/runnerDid must match pattern", false},

	{"submittedAt with a fraction", "submittedAt", `1747000000000.5`, "/submittedAt must be integer", false},
	{"submittedAt as 1e12", "submittedAt", `1e12`, "", false},
	{"submittedAt negative", "submittedAt", `-1`, "/submittedAt must be >= 0", false},
	{"submittedAt text", "submittedAt", `"2026-05-12"`, "/submittedAt must be integer", false},
	{"submittedAt huge", "submittedAt", `1e30`, "/submittedAt must be <= 9007199254740991", false},
	{"completedAt later", "completedAt", `1747000000001`, "", false},
	{"completedAt at once", "completedAt", `1747000000000`, "", false},
	{"completedAt before", "completedAt", `1746999999999`, "/completedAt must be >= submittedAt", true},
	{"completedAt true", "completedAt", `true`, "/completedAt must be integer", false},

	{"results a HELM list", "results", `[{"name":"em","count":1}]`, "/results must be object", false},
	{"results text", "results", `"0.7"`, "/results must be object", false},
	{"no results", "results", "", "must have required property 'results'", false},
	{"results changed", "results", `{"mmlu_pro":{"accuracy":0.739,"stderr":0.0041}}`, "/resultsHash must be the sha256 of canonical-JSON(results)", true},
	{"results in another order", "results", `{"mmlu_pro":{"stderr":0.0041,"accuracy":0.738}}`, "", false},
	{"results spelled otherwise", "results", `{"mmlu_pro":{"accuracy":7.38e-1,"stderr":0.00410}}`, "", false},
	{"resultsHash wrong", "resultsHash", `"` + strings.Repeat("0", 64) + `"`, "which is 5fa18ba422f0c3c4d1f7ff09e22abd7fdc6cdc7a8718a76d930fe30cee663ecc", true},
	{"resultsHash short", "resultsHash", `"5fa1"`, "/resultsHash must match pattern", false},

	{"contaminationCheck", "contaminationCheck", `{"method":"13-gram","overlapRatio":0.01}`, "", false},
	{"contaminationCheck without ratio", "contaminationCheck", `{"method":"13-gram"}`, "", false},
	{"contaminationCheck without method", "contaminationCheck", `{"overlapRatio":0.01}`, "/contaminationCheck must have required property 'method'", false},
	{"overlapRatio above 1", "contaminationCheck", `{"method":"x","overlapRatio":1.01}`, "/contaminationCheck/overlapRatio must be <= 1", false},
	{"contaminationCheck with more", "contaminationCheck", `{"method":"x","by":"me"}`, "/contaminationCheck/by must NOT have additional properties", false},
	{"contaminationCheck text", "contaminationCheck", `"none"`, "/contaminationCheck must be object", false},

	{"scaffoldDelta", "scaffoldDelta", `-3.25`, "", false},
	{"scaffoldDelta zero", "scaffoldDelta", `0`, "", false},
	{"scaffoldDelta text", "scaffoldDelta", `"3pp"`, "/scaffoldDelta must be number", false},
	{"sandboxRunId", "sandboxRunId", `"58172aac-d8ba-11ed-83dd-0b3aef56cc33"`, "", false},
	{"sandboxRunId text", "sandboxRunId", `"run-1"`, "/sandboxRunId must match pattern", false},

	{"samplingParams empty", "samplingParams", `{}`, "", false},
	{"samplingParams list", "samplingParams", `[]`, "/samplingParams must be object", false},
	{"samplingParams with more", "samplingParams", `{"stop":"x"}`, "/samplingParams/stop must NOT have additional properties", false},
	{"all samplingParams at their ends", "samplingParams", `{"numFewShot":128,"temperature":2,"topP":1,"topK":1000,"maxTokens":1000000,"seed":-9007199254740991,"nSamples":1,"nTrials":1,"generationKwargs":{}}`, "", false},
	{"numFewShot 129", "samplingParams", `{"numFewShot":129}`, "/samplingParams/numFewShot must be <= 128", false},
	{"numFewShot -1", "samplingParams", `{"numFewShot":-1}`, "/samplingParams/numFewShot must be >= 0", false},
	{"numFewShot 5.0", "samplingParams", `{"numFewShot":5.0}`, "", false},
	{"numFewShot 5.5", "samplingParams", `{"numFewShot":5.5}`, "/samplingParams/numFewShot must be integer", false},
	{"temperature 2.1", "samplingParams", `{"temperature":2.1}`, "/samplingParams/temperature must be <= 2", false},
	{"topP -0.1", "samplingParams", `{"topP":-0.1}`, "/samplingParams/topP must be >= 0", false},
	{"topK 1001", "samplingParams", `{"topK":1001}`, "/samplingParams/topK must be <= 1000", false},
	{"maxTokens 0", "samplingParams", `{"maxTokens":0}`, "/samplingParams/maxTokens must be >= 1", false},
	{"maxTokens 1000001", "samplingParams", `{"maxTokens":1000001}`, "/samplingParams/maxTokens must be <= 1000000", false},
	{"seed text", "samplingParams", `{"seed":"42"}`, "/samplingParams/seed must be integer", false},
	{"seed beyond integers", "samplingParams", `{"seed":1e21}`, "/samplingParams/seed must be <= 9007199254740991", false},
	{"nSamples 0", "samplingParams", `{"nSamples":0}`, "/samplingParams/nSamples must be >= 1", false},
	{"nTrials 0", "samplingParams", `{"nTrials":0}`, "/samplingParams/nTrials must be >= 1", false},
	{"generationKwargs list", "samplingParams", `{"generationKwargs":[]}`, "/samplingParams/generationKwargs must be object", false},

	{"mteb without its type", "harnessId", `"mteb"`, "must have required property 'mtebTaskType'", false},
	{"mtebTaskType", "mtebTaskType", `"STS"`, "", false},
	{"mtebTaskType of another kind", "mtebTaskType", `"Poetry"`, "/mtebTaskType must be equal to one of the allowed values", false},

	{"extra", "extra", `{"gpu":"8xH100","n":[1,null]}`, "", false},
	{"extra empty", "extra", `{}`, "", false},
	{"extra null", "extra", `null`, "/extra must be object", false},

	{"a member of one's own", "gpu", `"8xH100"`, "/gpu must NOT have additional properties", false},
	{"a member in other case", "RunId", `"x"`, "/RunId must NOT have additional properties", false},
	{"a member with a slash", "a/b~c", `1`, "/a~1b~0c must NOT have additional properties", false},
	{"no name at all", "", `1`, "/ must NOT have additional properties", false},
	{"proof", "proof", `{}`, "/proof must NOT have additional properties", false},
}

func (c bodyCase) body(t testing.TB) []byte {
	t.Helper()
	var members map[string]canon.RawMessage
	if err := canon.Unmarshal([]byte(exampleBody(t)), &members); err != nil {
		t.Fatal(err)
	}
	delete(members, c.member)
	if c.value != "" {
		members[c.member] = canon.RawMessage(c.value)
	}
	// Not canonical: 5.0 stays 5.0.
	var b strings.Builder
	for name, value := range members {
		fmt.Fprintf(&b, ",%q:%s", name, value)
	}
	return []byte("{" + strings.TrimPrefix(b.String(), ",") + "}")
}

func TestBodyRules(t *testing.T) {
	s := compiledSchema(t)
	for _, c := range bodyCases {
		t.Run(c.name, func(t *testing.T) {
			data := c.body(t)
			report, err := CheckBody(data)
			if err != nil {
				t.Fatal(err)
			}
			_, parseErr := ParseBody(data)
			if report.Valid != (c.want == "") || report.Valid != (parseErr == nil) || report.Valid != (len(report.Problems) == 0) {
				t.Errorf("got %+v, %v, want %q", report, parseErr, c.want)
			}
			if c.want != "" && !strings.Contains(fmt.Sprint(report.Problems), c.want) {
				t.Errorf("got %v, want %q", report.Problems, c.want)
			}
			if fits := s.Check(data) == nil; fits != (c.want == "" || c.onlyHere) {
				t.Errorf("the schema says %v", s.Check(data))
			}
		})
	}
	if report, err := CheckBody([]byte(`[]`)); err != nil || len(report.Problems) != 1 || report.Problems[0].String() != "must be object" {
		t.Errorf("a list: %+v, %v", report, err)
	}
}

// Every rule of the schema is a rule here: the cases must touch every member that
// either knows.
func TestBodyCasesTouchEveryMember(t *testing.T) {
	touched := map[string]bool{}
	for _, c := range bodyCases {
		touched[c.member] = true
	}
	var doc struct {
		Properties map[string]any `json:"properties"`
	}
	var all map[string]canon.RawMessage
	if err := canon.Unmarshal(Schema, &all); err != nil {
		t.Fatal(err)
	}
	if err := canon.Unmarshal(all["properties"], &doc.Properties); err != nil {
		t.Fatal(err)
	}
	for name := range doc.Properties {
		if bodyRules[name] == nil || !touched[name] {
			t.Errorf("%s: a rule here: %t, a case: %t", name, bodyRules[name] != nil, touched[name])
		}
	}
	if len(doc.Properties) != len(bodyRules) {
		t.Errorf("the schema has %d members, the rules %d", len(doc.Properties), len(bodyRules))
	}
}

func TestResultsHashMismatchGivesTheValue(t *testing.T) {
	data := bodyCase{member: "results", value: `{"em":738.0}`}.body(t)
	// sha256 of {"em":738}
	want, err := ResultsHash([]byte(`{"em":738}`))
	if err != nil {
		t.Fatal(err)
	}
	report, err := CheckBody(data)
	if err != nil || report.Mismatch == nil || report.Mismatch.Computed != want {
		t.Fatalf("got %+v, %v, want computed %s", report, err, want)
	}
	_, err = ParseBody(data)
	wantRefusal(t, err, refusal.ResultsHashMismatch, want)
	if hint := refusal.Of(err).Hint; !strings.Contains(hint, want) {
		t.Errorf("hint %q", hint)
	}
	fixed := bytes.Replace(data, []byte("5fa18ba422f0c3c4d1f7ff09e22abd7fdc6cdc7a8718a76d930fe30cee663ecc"), []byte(want), 1)
	if _, err := ParseBody(fixed); err != nil {
		t.Errorf("with the computed value: %v", err)
	}
}

// From origins.md, made with JavaScript's JSON.stringify: 738.0 is 738, names sort
// by UTF-16.
func TestResultsHashOfNumbers(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":738.0}`: "b6135ecb7af2e9a745a1f8ce51f56a1c0138efd09970345cfcb31444faabcf79",
		`{"a": 738}`:  "b6135ecb7af2e9a745a1f8ce51f56a1c0138efd09970345cfcb31444faabcf79",
		`{"mmlu_pro":{"stderr":0.0041,"accuracy":0.738}}`: "5fa18ba422f0c3c4d1f7ff09e22abd7fdc6cdc7a8718a76d930fe30cee663ecc",
	} {
		if got, err := ResultsHash([]byte(text)); err != nil || got != want {
			t.Errorf("%s: got %s, %v", text, got, err)
		}
	}
	for _, text := range []string{`{"a":9007199254740993}`, `{"a":1e20}`, `{"a":NaN}`, `{"a":1,"a":2}`} {
		if got, err := ResultsHash([]byte(text)); !refusal.Is(err, refusal.Malformed) {
			t.Errorf("%s: got %s, %v, want a refusal", text, got, err)
		}
	}
}

func TestKindHasTwoSpellings(t *testing.T) {
	for kind, good := range map[string]bool{
		"ip.eval.run.attestation.v1": true, "eval.run.attestation.v1": true,
		"IP.eval.run.attestation.v1": false, "ip.eval.run.attestation.v2": false, "": false,
	} {
		if err := CheckKind(kind); (err == nil) != good {
			t.Errorf("%q: %v", kind, err)
		} else if !good {
			wantRefusal(t, err, refusal.UnknownKind, "expected")
		}
	}
}

func TestBodyRefusesWhatIsNotStrictJSON(t *testing.T) {
	for name, text := range map[string]string{
		"duplicate name": strings.Replace(exampleBody(t), `"submittedAt"`, `"harnessId":"helm","submittedAt"`, 1),
		"bytes after":    exampleBody(t) + "{}",
		"not UTF-8":      strings.Replace(exampleBody(t), "huggingface", "\xff", 1),
		"cut":            exampleBody(t)[:100],
	} {
		_, err := ParseBody([]byte(text))
		if !refusal.Is(err, refusal.Malformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := ParseBody(make([]byte, MaxDocument+1))
	wantRefusal(t, err, refusal.TooLarge, "at most")
}

func TestReportIsBounded(t *testing.T) {
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, `,"x%d%s":1`, i, strings.Repeat("y", 300))
	}
	report, err := CheckBody([]byte("{" + b.String()[1:] + "}"))
	if err != nil || len(report.Problems) != maxProblems {
		t.Fatalf("%d problems, %v", len(report.Problems), err)
	}
	if path := report.Problems[maxProblems-1].Path; len(path) > 200 {
		t.Errorf("a path of %d bytes", len(path))
	}
}

// FuzzBody: the schema and the rules agree, whatever parses encodes to the same
// canonical bytes, and what is valid has the hash of its results.
func FuzzBody(f *testing.F) {
	f.Add([]byte(exampleBody(f)))
	for _, c := range bodyCases {
		f.Add(c.body(f))
	}
	s, err := schema.Compile(Schema)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		text, err := canon.Canonicalize(data)
		if err != nil || len(text) > 1<<16 {
			return
		}
		var v any
		if err := canon.Unmarshal(text, &v); err != nil {
			t.Fatal(err)
		}
		shape := checkBody(text)
		if text[0] == '{' {
			shape = &Report{}
			shape.shape(members(new(room), text))
		}
		if problems := s.CheckValue(v); (problems == nil) != (len(shape.Problems) == 0) {
			t.Fatalf("the schema says %v, the rules %v", problems, shape.Problems)
		}
		b, err := ParseBody(data)
		if err != nil {
			return
		}
		again, err := b.Encode()
		if err != nil || !bytes.Equal(again, text) {
			t.Fatalf("%s encodes as %s, %v", text, again, err)
		}
		if hash, err := ResultsHash(b.Results); err != nil || hash != b.ResultsHash {
			t.Fatalf("resultsHash %s, computed %s, %v", b.ResultsHash, hash, err)
		}
	})
}
