package bundle

import (
	"strings"
	"testing"

	"tallystick/internal/record/refusal"
)

func TestTestLogsAreUnderstood(t *testing.T) {
	for _, tt := range []struct{ name, log, want string }{
		{"nothing", "", "no test summary"},
		{"words", "all good\n3 files changed\n1 error\n2 warnings\nlogin: 3 failed attempts\n", "no test summary"},
		{"our own", "noise\ntests: 12 passed, 0 failed\n", "12 passed, 0 failed (tests)"},
		{"our own, without a line break at the end", "tests: 12 passed, 3 failed", "12 passed, 3 failed (tests)"},
		{"cargo", "running 2 tests\ntest a::b ... ok\ntest a::c ... FAILED\n\ntest result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n", "2 passed, 2 failed (cargo)"},
		{"cargo, three binaries", "test result: ok. 5 passed; 0 failed; 0 ignored\ntest result: ok. 0 passed; 0 failed; 0 ignored\ntest result: ok. 2 passed; 0 failed", "7 passed, 0 failed (cargo)"},
		{"cargo says FAILED and counts none", "test result: FAILED. 5 passed; 0 failed; 0 ignored\n", "5 passed, 1 failed (cargo)"},
		{"counts alone, as the original's tests have them", "test auth::validate ... ok\n3 passed", "4 passed, 0 failed (cargo, counts)"},
		{"counts alone, one failed", "test feature_x ... FAILED\n0 passed, 1 failed", "0 passed, 2 failed (cargo, counts)"},
		{"pytest", "====== 1 failed, 3 passed, 2 skipped, 1 error in 0.12s ======\n", "3 passed, 2 failed (pytest)"},
		{"pytest, an hour", "=== 3 passed in 3723.10s (1:02:03) ===\n", "3 passed, 0 failed (pytest)"},
		{"pytest, collection failed", "==== 1 error in 0.05s ====\n", "0 passed, 1 failed (pytest)"},
		{"pytest, quiet", "3 passed, 1 warning in 0.01s\n", "3 passed, 0 failed (pytest)"},
		{"pytest, coloured", "\x1b[32m\x1b[1m3 passed\x1b[0m\x1b[32m in 0.01s\x1b[0m\r\n", "3 passed, 0 failed (pytest)"},
		{"jest", "Tests:       1 failed, 2 passed, 3 total\n", "2 passed, 1 failed (tests)"},
		{"vitest", "      Tests  1 failed | 2 passed (3)\n", "2 passed, 1 failed (tests)"},
		{"unittest", "Ran 5 tests in 0.001s\n\nOK\n", "5 passed, 0 failed (unittest)"},
		{"unittest, one skipped", "Ran 5 tests in 0.001s\n\nOK (skipped=1)\n", "5 passed, 0 failed (unittest)"},
		{"unittest, failed", "Ran 5 tests in 0.001s\n\nFAILED (failures=1, errors=2)\n", "0 passed, 3 failed (unittest)"},
		{"unittest, ran nothing", "Ran 0 tests in 0.000s\n\nOK\n", "0 passed, 0 failed (unittest)"},
		{"an OK of no test", "OK\n", "0 passed, 0 failed (unittest)"},
		{"go", "ok  \texample.com/a\t0.01s\nok  \texample.com/b\t(cached)\n?   \texample.com/c\t[no test files]\nok  \texample.com/d\t0.1s [no tests to run]\n", "2 passed, 0 failed (go)"},
		{"go, with coverage", "ok  \texample.com/a\t0.01s\tcoverage: 80.0% of statements\n", "1 passed, 0 failed (go)"},
		{"go, failed", "--- FAIL: TestX (0.00s)\n    --- FAIL: TestX/sub (0.00s)\nFAIL\nFAIL\texample.com/a\t0.01s\nFAIL\n", "0 passed, 4 failed (go)"},
		{"go, does not build", "FAIL\texample.com/a [build failed]\n", "0 passed, 1 failed (go)"},
		{"go, verbose", "--- PASS: TestX (0.00s)\nPASS\nok  \texample.com/a\t0.01s\n", "2 passed, 0 failed (go)"},
		{"maven", "[INFO] Tests run: 5, Failures: 1, Errors: 1, Skipped: 1\n", "2 passed, 2 failed (maven)"},
		{"maven, a class", "Tests run: 5, Failures: 0, Errors: 0, Skipped: 0, Time elapsed: 0.1 s - in X\n", "5 passed, 0 failed (maven)"},
		{"mocha", "  3 passing (10ms)\n  1 failing\n", "3 passed, 1 failed (mocha)"},
		{"TAP", "1..3\nok 1 - a\nnot ok 2 - b\nok 3 - c # SKIP no network\nnot ok 4 - d # TODO later\n", "1 passed, 1 failed (tap)"},
		{"TAP, totals", "# pass 3\n# fail 1\n", "3 passed, 1 failed (tap)"},
		{"ctest", "80% tests passed, 1 tests failed out of 5\n", "4 passed, 1 failed (ctest)"},
		{"rspec", "5 examples, 1 failure, 2 pending\n", "2 passed, 1 failed (rspec)"},
		{"two runners", "tests: 1 passed, 0 failed\n3 passed in 0.1s\n", "4 passed, 0 failed (tests, pytest)"},
		{"a failure, then a success in larger letters", "tests: 0 passed, 1 failed\ntests: 9 passed, 0 failed\n", "9 passed, 1 failed (tests)"},
		{"more than a counter holds", "tests: 99999999999999999999999 passed, 1 failed\ntests: 5 passed, 0 failed\n", "18446744073709551615 passed, 1 failed (tests)"},
		{"a line that no runner writes", strings.Repeat("x", 10_000) + " 3 passed\n", "no test summary"},
		{"quoted", "expected `tests: 3 passed, 0 failed`\n> tests: 3 passed, 0 failed\n", "no test summary"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := SummariseTests([]byte(tt.log)).String(); got != tt.want {
				t.Errorf("found %s, want %s", got, tt.want)
			}
		})
	}
}

func TestOutcomeMustMatchTheTestLog(t *testing.T) {
	passing, failing, silent := []byte("tests: 2 passed, 0 failed\n"), []byte("tests: 2 passed, 1 failed\n"), []byte("it went well\n")
	for _, tt := range []struct {
		name    string
		outcome Outcome
		log     []byte
		refused string
	}{
		{"solved, tests pass", Solved, passing, ""},
		{"solved, one failed", Solved, failing, "the test log says 2 passed, 1 failed"},
		{"solved, none ran", Solved, []byte("tests: 0 passed, 0 failed\n"), "the test log says 0 passed, 0 failed"},
		{"solved, no summary", Solved, silent, "no summary line"},
		{"solved, no log", Solved, nil, "there is no test log"},
		{"solved, an empty log", Solved, []byte{}, "no summary line"},
		{"failed, one failed", Failed, failing, ""},
		{"failed, tests pass", Failed, passing, "the outcome is failed and the test log says 2 passed"},
		{"failed before any test ran", Failed, silent, ""},
		{"failed, no log", Failed, nil, ""},
		{"skipped, no log", Skipped, nil, ""},
		{"skipped, tests pass already", Skipped, passing, ""},
		{"errored, in the middle of it", Errored, failing, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := CheckOutcome(&Bundle{Outcome: tt.outcome, TestLog: tt.log})
			switch {
			case tt.refused == "" && err != nil:
				t.Errorf("CheckOutcome: %v", err)
			case tt.refused != "" && (!refusal.Is(err, refusal.OutcomeMismatch) || !strings.Contains(err.Error(), tt.refused)):
				t.Errorf("CheckOutcome: %v, want OutcomeMismatch with %q", err, tt.refused)
			}
		})
	}
}
