package gate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A point is a test point of a parsed TAP document.
type point struct {
	ok          bool
	number      int
	description string
	directive   string
	yaml        map[string]any
}

// parseTAP reads TAP 14 by the grammar of its specification, and refuses every
// line that is not part of it: no stray text, no subtests, no bail-outs, one
// plan. Values of YAML blocks must be JSON strings or numbers, one a line.
func parseTAP(data []byte) ([]point, error) {
	if !bytes.HasSuffix(data, []byte("\n")) {
		return nil, fmt.Errorf("the last line does not end")
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	if lines[0] != "TAP version 13" {
		return nil, fmt.Errorf("first line %q", lines[0])
	}
	plan := regexp.MustCompile(`^1\.\.(\d+)$`).FindStringSubmatch(lines[1])
	if plan == nil {
		return nil, fmt.Errorf("plan %q", lines[1])
	}
	planned, _ := strconv.Atoi(plan[1])
	var points []point
	pointLine := regexp.MustCompile(`^(not )?ok (\d+) - (.*)$`)
	for i := 2; i < len(lines); i++ {
		if len(points) == 0 && strings.HasPrefix(lines[i], "# note: ") {
			continue
		}
		m := pointLine.FindStringSubmatch(lines[i])
		if m == nil {
			return nil, fmt.Errorf("line %d is not a test point: %q", i+1, lines[i])
		}
		p := point{ok: m[1] == ""}
		p.number, _ = strconv.Atoi(m[2])
		if p.number != len(points)+1 {
			return nil, fmt.Errorf("line %d: number %d", i+1, p.number)
		}
		p.description, p.directive = splitDirective(m[3])
		if strings.HasSuffix(m[3], "{") {
			return nil, fmt.Errorf("line %d opens a subtest", i+1)
		}
		if i+1 < len(lines) && lines[i+1] == "  ---" {
			p.yaml = map[string]any{}
			for i += 2; ; i++ {
				if i >= len(lines) {
					return nil, fmt.Errorf("a YAML block does not end")
				}
				if lines[i] == "  ..." {
					break
				}
				key, value, ok := strings.Cut(strings.TrimPrefix(lines[i], "  "), ": ")
				var v any
				if !ok || !strings.HasPrefix(lines[i], "  ") || !regexp.MustCompile(`^[a-z_]+$`).MatchString(key) {
					return nil, fmt.Errorf("line %d is not a YAML member: %q", i+1, lines[i])
				}
				if key == "severity" {
					v = value
				} else if err := json.Unmarshal([]byte(value), &v); err != nil {
					return nil, fmt.Errorf("line %d: %v", i+1, err)
				}
				p.yaml[key] = v
			}
		}
		points = append(points, p)
	}
	if len(points) != planned {
		return nil, fmt.Errorf("%d test points, planned %d", len(points), planned)
	}
	return points, nil
}

// splitDirective finds the first "#" that is not escaped, and unescapes.
func splitDirective(s string) (description, directive string) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\' && i+1 < len(s) && (s[i+1] == '\\' || s[i+1] == '#'):
			i++
			b.WriteByte(s[i])
		case s[i] == '#':
			return strings.TrimSpace(b.String()), strings.TrimSpace(s[i+1:])
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String(), ""
}

func writeTAP(t *testing.T, r Report) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := WriteTAP(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestTAPShowsEveryTestAsWhatItIs(t *testing.T) {
	for name, r := range map[string]Report{"plain": plainReport(), "hostile": hostileReport()} {
		points, err := parseTAP(writeTAP(t, r))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i, want := range wantStatus(r) {
			p := points[i]
			if ok := want == pass || want == skip; p.ok != ok {
				t.Errorf("%s: point %d %q: ok %v, want %v", name, i+1, p.description, p.ok, ok)
			}
			if skipped := strings.HasPrefix(p.directive, "SKIP"); skipped != (want == skip) || p.directive != "" && !skipped {
				t.Errorf("%s: point %d %q: directive %q", name, i+1, p.description, p.directive)
			}
		}
		if len(points) != len(wantStatus(r)) {
			t.Errorf("%s: %d points", name, len(points))
		}
	}
}

func TestTAPLinesAreSafeInALog(t *testing.T) {
	requireSafe(t, string(writeTAP(t, hostileReport())))
}

// The diagnostics keep the exact value, however hostile.
func TestTAPDiagnosticsKeepTheValue(t *testing.T) {
	value := "a\x1b[2J\n  ...\nok 2 # SKIP \u202e ##[error] \"quoted\" \\"
	points, err := parseTAP(writeTAP(t, Report{Cases: []Row{{ID: "x", Outcome: "failed", Got: value, Want: "b", Divergence: value}}}))
	if err != nil {
		t.Fatal(err)
	}
	if got := points[0].yaml; got["got"] != value || got["first_divergence"] != value || got["want"] != "b" {
		t.Errorf("diagnostics %q", got)
	}
}

func TestNothingRunIsNotGreen(t *testing.T) {
	points, err := parseTAP(writeTAP(t, Report{Class: "greet"}))
	if err != nil || len(points) != 1 || points[0].ok {
		t.Errorf("points %v, %v", points, err)
	}
	suites := parseXML(t, writeJUnit(t, Report{Class: "greet"})).children
	if len(suites) != 1 || suites[0].attr["errors"] != "1" {
		t.Errorf("suites %v", suites)
	}
}

// The parser above must be able to fail.
func TestTAPCheckFindsEachFault(t *testing.T) {
	good := string(writeTAP(t, plainReport()))
	for _, edit := range [][2]string{
		{"TAP version 13", "TAP version 14"},
		{"1..11", "1..12"},
		{"ok 1 - hello\n", "ok 1 - hello\nBail out!\n"},
		{"ok 1 - hello\n", "ok 1 - hello {\n"},
		{"not ok 4", "not ok 5"},
		{"  ...\n", ""},
		{`  got: "hello"`, `  got: "hello`},
	} {
		bad := strings.Replace(good, edit[0], edit[1], 1)
		if bad == good {
			t.Fatalf("%q is not in the report", edit[0])
		}
		if _, err := parseTAP([]byte(bad)); err == nil {
			t.Errorf("accepted with %q", edit[1])
		}
	}
	if got, want := slices.Collect(func(yield func(string) bool) {
		for _, s := range []string{`a \# b`, `a \\# SKIP b`, `a # TODO`} {
			_, d := splitDirective(s)
			if !yield(d) {
				return
			}
		}
	}), []string{"", "SKIP b", "TODO"}; !slices.Equal(got, want) {
		t.Errorf("directives %q, want %q", got, want)
	}
}

// TestTAPIsReadByPerl gives the report to the parser behind "export", "--format", "receipt", which knows
// version 13 and differs from 14 in nothing that is here but the first line.
func TestTAPIsReadByPerl(t *testing.T) {
	perl, err := exec.LookPath("perl")
	if err != nil {
		t.Skip("needs perl")
	}
	if exec.Command(perl, "-MTAP::Parser", "-e", "1").Run() != nil {
		t.Skip("this perl is without TAP::Parser")
	}
	const script = `local $/; my $p = TAP::Parser->new({tap => scalar <STDIN>}); my $odd = 0;
		while (my $r = $p->next) { $odd++ if $r->is_unknown }
		printf "%d run, %d passed, %d odd, %s", $p->tests_run, scalar $p->passed, $odd, join "; ", $p->parse_errors`
	for name, r := range map[string]Report{"plain": plainReport(), "hostile": hostileReport()} {
		data, passed := writeTAP(t, r), 0
		for _, status := range wantStatus(r) {
			if status == pass || status == skip {
				passed++
			}
		}
		cmd := exec.Command(perl, "-MTAP::Parser", "-e", script)
		cmd.Stdin = bytes.NewReader(data)
		out, err := cmd.CombinedOutput()
		if want := fmt.Sprintf("%d run, %d passed, 0 odd, ", len(wantStatus(r)), passed); err != nil || string(out) != want {
			t.Errorf("%s: perl says %q, %v, want %q", name, out, err, want)
		}
	}
}
