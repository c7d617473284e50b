package export

import (
	"strings"
	"time"
)

// The predicates of in-toto statements about an attempt.
const (
	EvalResult = "https://b7n0de.com/attestation/eval-result/v0.1"
	TestResult = "https://in-toto.io/attestation/test-result/v0.1"
)

var inTotoFormat = Format{Name: "in-toto", Is: "statements eval-result and test-result in DSSE envelopes (needs --key)",
	Files: "`eval-result.dsse.json`, `test-result.dsse.json`: statements in DSSE envelopes", Signed: true, Folder: true, Flags: []string{"key"}, Write: func(a *Facts, _ Hub) ([]File, error) { return InToto(a) }}

// InToto writes the two statements about an attempt, without signatures: what came
// out in numbers, and which cases passed. The signer puts each into an envelope.
func InToto(a *Facts) ([]File, error) {
	eval, err := file("eval-result.json", a.statement(EvalResult, a.evalResult()))
	if err != nil {
		return nil, err
	}
	test, err := file("test-result.json", a.statement(TestResult, a.testResult()))
	return []File{eval, test}, err
}

func hexOf(digest string) string { return digest[strings.IndexByte(digest, ':')+1:] }

// statement is about the attempt, named by its place in the ledger's chain.
func (a *Facts) statement(kind string, predicate map[string]any) map[string]any {
	return map[string]any{
		"_type": "https://in-toto.io/Statement/v1", "predicateType": kind, "predicate": predicate,
		"subject": []any{map[string]any{"name": a.Origin + "/" + a.ID, "digest": map[string]string{"sha256": hexOf(a.Registration)}}},
	}
}

func (a *Facts) evalResult() map[string]any {
	t := a.Totals()
	at := a.Ended
	if at.IsZero() {
		at = a.Started
	}
	out := map[string]any{
		"assuranceLevel": a.Level, "claims": claims(&t), "evaluatedAt": at.UTC().Format(time.RFC3339), "sampleSize": t.Total,
		"suite": map[string]any{"name": a.Class, "version": a.Bench}, "subjectProfile": a.model(),
		"verifier": map[string]any{"id": "tallystick/" + orUnknown(a.Version)}, "qualifications": append([]string{}, a.Qualifications...),
		"receipt": map[string]any{"schema": "c2sp.org/tlog-proof@v1", "receipt": a.Receipt, "key": a.Key, "attempt": a.Number, "of": a.Of},
	}
	a.addCorrections(out)
	if now := a.AsCorrected(); now != nil {
		out["claimsAsCorrected"] = claims(now)
	}
	return out
}

// addCorrections tells what stands beside what a predicate says, which is as recorded.
func (a *Facts) addCorrections(predicate map[string]any) {
	if rows := a.Corrections(); rows != nil {
		predicate["corrections"] = rows
	}
}

func claims(t *Totals) []any {
	out := []any{claim("solve_rate", t.SolveRate)}
	if t.Mean != nil {
		out = append(out, claim("mean_score", *t.Mean))
	}
	return out
}

// claim says that a metric reached the value that it has.
func claim(metric string, value float64) map[string]any {
	return map[string]any{"metric": metric, "comparator": ">=", "threshold": decimal(value), "passed": true}
}

func (a *Facts) testResult() map[string]any {
	passedTests, warned, failedTests := []string{}, []string{}, []string{}
	for i := range a.Samples {
		s := &a.Samples[i]
		name := s.ID
		if a.Repeat > 1 {
			name += "#" + decimal(float64(s.Repeat))
		}
		switch s.Outcome {
		case passed:
			passedTests = append(passedTests, name)
		case failed, errored:
			failedTests = append(failedTests, name)
		default:
			warned = append(warned, name)
		}
	}
	result := "PASSED"
	switch {
	case len(failedTests) > 0 || len(passedTests) == 0:
		result = "FAILED"
	case len(warned) > 0:
		result = "WARNED"
	}
	out := map[string]any{
		"result":        result,
		"configuration": []any{map[string]any{"name": "bench " + a.Class, "digest": map[string]string{"sha256": hexOf(a.Bench)}}},
		"passedTests":   passedTests, "warnedTests": warned, "failedTests": failedTests,
	}
	if a.Address != "" {
		out["url"] = a.Address
	}
	a.addCorrections(out)
	return out
}
