package export

import (
	"strings"
	"time"

	"tallystick/internal/read/gate"
	"tallystick/internal/record/format"
)

// TestResult is the type of a predicate of in-toto, besides [format.EvalResult].
const TestResult = "https://in-toto.io/attestation/test-result/v0.1"

var inTotoFormat = Format{Name: "in-toto", Is: "statements eval-result and test-result in DSSE envelopes (needs --key)",
	Files: "`eval-result.dsse.json`, `test-result.dsse.json`: statements in DSSE envelopes", Signed: true, Folder: true, Flags: []string{"key"}, Write: func(a *Facts, _ Hub) ([]File, error) { return InToto(a) }}

// InToto writes the two statements about an attempt, without signatures: what came
// out in numbers, and which cases passed. The signer puts each into an envelope.
func InToto(a *Facts) ([]File, error) {
	eval, err := file("eval-result.json", a.statement(format.EvalResult, a.evalResult()))
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
		"assuranceLevel": a.Level, "claims": append(claims(&t), a.gateClaims()...), "evaluatedAt": at.UTC().Format(time.RFC3339), "sampleSize": t.Total,
		"suite": map[string]any{"name": a.Class, "version": a.Bench}, "subjectProfile": a.model(),
		"verifier": map[string]any{"id": "tallystick/" + orUnknown(a.Version)}, "gate": map[string]any{"state": a.Decision.State(), "reason": a.Decision.Reason}, "qualifications": append([]string{}, a.Qualifications...),
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

// gateClaims are the gates that are decided, which count what people corrected.
func (a *Facts) gateClaims() (out []any) {
	for _, g := range a.Decision.Results {
		if g.State() != gate.IsNotDecided {
			out = append(out, gateClaim(g))
		}
	}
	return out
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

// gateClaim says of a gate what it asks for and whether that was reached.
func gateClaim(g gate.Result) map[string]any {
	comparator := ">="
	if g.Metric.AtMost() {
		comparator = "<="
	}
	return map[string]any{"metric": g.Name(), "comparator": comparator, "threshold": decimal(g.Threshold), "passed": g.Met, "detail": g.Text()}
}

// resultWords are the words of test-result for what was decided.
var resultWords = map[gate.State]string{gate.IsMet: "PASSED", gate.IsNotMet: "FAILED", gate.IsNotDecided: "WARNED"}

// testResult lists cases and gates. What was decided is the result: a case that did not
// pass in an attempt which its gates take all the same is among those warned of.
func (a *Facts) testResult() map[string]any {
	passedTests, warned, failedTests := []string{}, []string{}, []string{}
	state := a.Decision.State()
	for i := range a.Samples {
		s := &a.Samples[i]
		name := s.ID
		if a.Repeat > 1 {
			name += "#" + decimal(float64(s.Repeat))
		}
		switch {
		case s.Outcome == passed:
			passedTests = append(passedTests, name)
		case (s.Outcome == failed || s.Outcome == errored) && state == gate.IsNotMet:
			failedTests = append(failedTests, name)
		default:
			warned = append(warned, name)
		}
	}
	for _, g := range a.Decision.Results {
		name := "gate " + g.Name()
		switch g.State() {
		case gate.IsMet:
			passedTests = append(passedTests, name)
		case gate.IsNotMet:
			failedTests = append(failedTests, name)
		default:
			warned = append(warned, name+", not decided")
		}
	}
	out := map[string]any{
		"result":        resultWords[state],
		"configuration": []any{map[string]any{"name": "bench " + a.Class, "digest": map[string]string{"sha256": hexOf(a.Bench)}}},
		"passedTests":   passedTests, "warnedTests": warned, "failedTests": failedTests,
	}
	if a.Address != "" {
		out["url"] = a.Address
	}
	a.addCorrections(out)
	return out
}
