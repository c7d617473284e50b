package web

import (
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/share/attest"
)

// TestScriptSignsWhatARegistryTakes runs the program that a registry gives out:
// what it signs verifies, and its spelling of numbers is ours.
func TestScriptSignsWhatARegistryTakes(t *testing.T) {
	p := newPlace(t, nil)
	run := servedScript(t, p)
	results, sha := numbers(), strings.Repeat("ab", 32)
	common := []string{"--harness-id", "lm-eval", "--harness-version-sha", sha, "--eval-code-sha", sha, "--dataset-sha", sha, "--model-id", "m"}
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(sha+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	receipt, _ := run(0, results, append(common, "--signing-key", "@"+key)...)
	signed, err := attest.VerifyBody([]byte(receipt), attest.Trust{Now: p.clock()})
	if err != nil {
		t.Fatalf("%v: %.300s", err, receipt)
	}
	for name, change := range map[string][2]string{
		"a number": {`0.1,`, `0.2,`},
		"a name":   {`"modelId": "m"`, `"modelId": "n"`},
		"a time":   {`"created": "2`, `"created": "3`},
	} {
		if !strings.Contains(receipt, change[0]) {
			t.Fatalf("no %s in %.300s", change[0], receipt)
		}
		if _, err := attest.VerifyBody([]byte(strings.Replace(receipt, change[0], change[1], 1)), attest.Trust{Now: p.clock()}); err == nil {
			t.Errorf("%s was changed, and the receipt verifies", name)
		}
	}

	body, _ := run(0, results, append(common, "--runner-did", signed.Body.RunnerDID, "--dry-run")...)
	if got := p.post("/api/credentials/dry-run", "", envelope(body)).is(200).has("valid"); got != "true" {
		t.Errorf("valid: %s: %.300s", got, body)
	}
	for want, args := range map[string][]string{
		"--signing-key is missing":    {},
		"not of --runner-did":         {"--signing-key", sha, "--runner-did", "did:key:z6MktUNjNGjp9bj3mUidpopyaDjYap6Tx1jVenoghTR2yUgs"},
		"needs --verification-method": {"--signing-key", sha, "--runner-did", "did:web:r.example"},
		"must be the 32 bytes":        {"--signing-key", "abc"},
	} {
		if _, said := run(1, results, append(common, args...)...); !strings.Contains(said, want) {
			t.Errorf("no %q in %s", want, said)
		}
	}
	for wrong, want := range map[string]string{
		`[1]`: "must be a JSON object", `{"a":NaN}`: "not a number", `{"a":1,"a":2}`: "twice", `{"a":9007199254740993}`: "2^53", `{`: "cannot be read",
	} {
		if _, said := run(1, wrong, append(common, "--signing-key", sha)...); !strings.Contains(said, want) {
			t.Errorf("%s: no %q in %s", wrong, want, said)
		}
	}
}

// servedScript returns a function that runs the program, as the registry gives
// it, on results and looks at its exit code. It skips the test without Python.
func servedScript(t *testing.T, p *place) func(want int, results string, args ...string) (out, said string) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not in PATH; ip_eval_attest.py is not tried")
	}
	if out, err := exec.Command(python, "-I", "-c", "import sys; assert sys.version_info >= (3, 9), sys.version").CombinedOutput(); err != nil {
		t.Skipf("python3 does not run or is older than 3.9; ip_eval_attest.py is not tried: %v: %s", err, out)
	}
	script := filepath.Join(t.TempDir(), "ip_eval_attest.py")
	if err := os.WriteFile(script, p.get("/scripts/ip_eval_attest.py").is(200).Body.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(want int, results string, args ...string) (string, string) {
		t.Helper()
		var out, said strings.Builder
		cmd := exec.Command(python, append([]string{"-I", "-B", script}, args...)...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(results), &out, &said
		err := cmd.Run()
		code := 0
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			code = exit.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		if code != want {
			t.Fatalf("%v: exit %d, want %d: %s", args, code, want, said.String())
		}
		return out.String(), said.String()
	}
}

// numbers is an object with doubles of every magnitude and texts that sort
// otherwise in UTF-16 than in UTF-8.
func numbers() string {
	r := rand.New(rand.NewPCG(1, 2))
	list := []float64{0.1, 738, 0, math.Copysign(0, -1), 5e-324, math.MaxFloat64, 1e21, 1e-6, 1e-7, 1 << 52}
	for len(list) < 2000 {
		if f := math.Float64frombits(r.Uint64()); f == f && (math.Abs(f) < 1<<53 || math.Abs(f) >= 1e21) && !math.IsInf(f, 0) {
			list = append(list, f, math.Trunc(r.NormFloat64()*1e6)/1e3)
		}
	}
	data, err := json.Marshal(map[string]any{"numbers": list, "\uff5e": "last", "😀": "before it", "é\u2028</script>": nil})
	if err != nil {
		panic(err)
	}
	return strings.Replace(string(data), "738,", "738.0,", 1)
}
