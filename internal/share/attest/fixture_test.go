package attest

import (
	"bytes"
	"crypto/ed25519"
	"strings"
	"testing"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

// now is when the tests verify.
var now = time.Date(2026, 5, 12, 9, 30, 0, 0, time.UTC)

// testKey makes the same key for the same number every time.
func testKey(t testing.TB, n byte) *seal.Key {
	t.Helper()
	k, err := seal.NewKey(bytes.NewReader(bytes.Repeat([]byte{n}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func public(k *seal.Key) ed25519.PublicKey { return k.Ed25519().Public().(ed25519.PublicKey) }

func didOf(k *seal.Key) string { return seal.DIDKey(public(k)) }

// The keys of the tests: issuer 1, runner 2, judge 3, a forger 4.
const (
	issuerKey = iota + 1
	runnerKey
	judgeKey
	forgerKey
)

func signer(t testing.TB, n byte) Signer {
	t.Helper()
	return Signer{Key: testKey(t, n), Created: now.Add(-time.Hour)}
}

// exampleBody is the example of the first attestation format with another runner.
func exampleBody(t testing.TB) string {
	t.Helper()
	return `{
  "schemaVersion": "1.0.0",
  "runId": "00000000-0000-4000-8000-000000000000",
  "harnessId": "lm-eval-harness",
  "harnessVersionSha": "` + strings.Repeat("0", 64) + `",
  "evalCodeSha": "` + strings.Repeat("1", 64) + `",
  "modelId": "huggingface://meta-llama/Llama-3.1-70B-Instruct",
  "datasetSha": "` + strings.Repeat("2", 64) + `",
  "runnerDid": "` + didOf(testKey(t, runnerKey)) + `",
  "submittedAt": 1747000000000,
  "samplingParams": {"temperature": 0, "numFewShot": 5, "seed": 42, "nSamples": 12032, "generationKwargs": {"stop": ["</answer>"]}},
  "results": {"mmlu_pro": {"accuracy": 0.738, "stderr": 0.0041}},
  "resultsHash": "5fa18ba422f0c3c4d1f7ff09e22abd7fdc6cdc7a8718a76d930fe30cee663ecc"
}`
}

// issued is a credential with the runner's proof inside.
func issued(t testing.TB, change func(*Draft)) []byte {
	t.Helper()
	signed, err := SignBody([]byte(exampleBody(t)), signer(t, runnerKey))
	if err != nil {
		t.Fatal(err)
	}
	d := Draft{ID: "urn:uuid:58172aac-d8ba-41ed-83dd-0b3aef56cc33", Issuer: didOf(testKey(t, issuerKey)), Body: signed, ValidFrom: now.Add(-time.Hour)}
	if change != nil {
		change(&d)
	}
	text, err := Issue(d, signer(t, issuerKey))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func trust() Trust { return Trust{Now: now} }

// wantRefusal fails unless err has the name, and the words if any are given.
func wantRefusal(t testing.TB, err error, name refusal.Name, words string) {
	t.Helper()
	if !refusal.Is(err, name) || !strings.Contains(err.Error(), words) {
		t.Errorf("got %v (%s), want %s with %q", err, nameOf(err), name, words)
	}
}

func nameOf(err error) refusal.Name {
	if err == nil {
		return "no error"
	}
	return refusal.Of(err).Name
}

// edit replaces the one occurrence of a text.
func edit(t testing.TB, text []byte, old, new string) []byte {
	t.Helper()
	if n := bytes.Count(text, []byte(old)); n != 1 {
		t.Fatalf("%q is there %d times, want once, in %s", old, n, text)
	}
	return bytes.Replace(text, []byte(old), []byte(new), 1)
}

// rewrite changes the members of a JSON object.
func rewrite(t testing.TB, text []byte, change func(map[string]any)) []byte {
	t.Helper()
	var v map[string]any
	if err := canon.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	change(v)
	out, err := canon.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
