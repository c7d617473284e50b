package cli

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/seal"
	"tallystick/internal/serve/viewer"
	"tallystick/internal/share/export"
)

// opened is a document as text: a zip unpacked, an envelope with its payload beside it.
func opened(t *testing.T, data []byte) []byte {
	t.Helper()
	if bytes.HasPrefix(data, []byte("PK\x03\x04")) {
		z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		var all []byte
		for _, f := range z.File {
			r, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			all = append(append(all, text...), '\n')
		}
		return all
	}
	var envelope struct{ Payload string }
	if json.Unmarshal(data, &envelope) == nil && envelope.Payload != "" {
		payload, err := base64.StdEncoding.DecodeString(envelope.Payload)
		if err != nil {
			t.Fatal(err)
		}
		return payload
	}
	return data
}

// A surface is a place where a score is shown.
type surface struct {
	name string
	args []string // of the command; "OUT" is a file or folder that it writes
	page string   // or the path of a page
	// headline must be there, and corrected must not: the numbers with the corrections in
	// the place of the recorded ones.
	headline, corrected string
	// elsewhere says where corrections are told, if the surface has no place for them.
	elsewhere string
}

// Three of five were corrected: up by alice and by bob, down by alice. Recorded are 2 of
// 5, with corrections 3 of 5.
func surfaces() []surface {
	export := func(format, headline, corrected string, more ...string) surface {
		return surface{name: "export " + format, args: append([]string{"export", "sums.default.1", "--format", format, "-o", "OUT"}, more...), headline: headline, corrected: corrected}
	}
	const a = "sums.default.1"
	return []surface{
		{name: "scorecard", args: []string{"scorecard", a}, headline: `2 of 5|0\.4000`, corrected: `solved +3 of 5`},
		{name: "scorecard --json", args: []string{"scorecard", a, "--json"}, headline: `^\{"rules":\d+,"total_tasks":5,"solved":2,"failed":3,`, corrected: `^\{"rules":\d+,"total_tasks":5,"solved":3,`},
		{name: "scorecard --failed", args: []string{"scorecard", a, "--failed", "--json"}, headline: `"case_id":"three","repeat":1,"outcome":"failed","score":0,`, corrected: `"case_id":"three","repeat":1,"outcome":"passed"`},
		{name: "scorecard, by class and target", args: []string{"scorecard", "--json"}, headline: `^\{"rules":\d+,"total_tasks":10,"solved":4,"failed":6,`, corrected: `^\{"rules":\d+,"total_tasks":10,"solved":5,`},
		{name: "scorecard curve", args: []string{"scorecard", "curve", "--all"}, headline: `\d+-W\d+ +10 +4 +0\.4000`, corrected: `-W\d+ +10 +5 `},
		{name: "scorecard curve --json", args: []string{"scorecard", "curve", "--all", "--json"}, headline: `"tasks":10,"solved":4,"solve_rate":0\.4,`, corrected: `"tasks":10,"solved":5,"solve_rate"`},
		{name: "scorecard curve --csv", args: []string{"scorecard", "curve", "--all", "--csv"}, headline: `,2,10,4,0\.4,`, corrected: `,2,10,5,0\.5,`},
		{name: "log", args: []string{"log"}, headline: `2 of 5`, corrected: `default\.1 +3 of 5`},
		{name: "log --json", args: []string{"log", "--json"}, headline: `"total":5,"passed":2,"failed":3`, corrected: `"passed":3,"failed"`},
		{name: "show", args: []string{"show", a}, headline: `5: 2 passed, 3 failed`, corrected: `5: 3 passed`},
		{name: "show --json", args: []string{"show", a, "--json"}, headline: `"case":"three","repeat":1,"outcome":"failed","score":0,`, corrected: `"case":"three","repeat":1,"outcome":"passed"`},
		{name: "show of a case", args: []string{"show", a + ":three"}, headline: `score +0\.0000`, corrected: `score +1\.0000`},
		{name: "why", args: []string{"why", "three", "--attempt", a}, headline: `failed`, corrected: `^three passed`},
		{name: "why --json", args: []string{"why", "three", "--attempt", a, "--json"}, headline: `"outcome":"failed"`, corrected: `^\{"case":"three",[^{]*"outcome":"passed"`},
		{name: "compare", args: []string{"compare", a, "sums.default.2"}, headline: `0\.4000`, corrected: `0\.6000`},
		{name: "compare --json", args: []string{"compare", a, "sums.default.2", "--all-cases", "--json"}, headline: `"case_id":"three"[^{]*,"a":\{"outcome":"failed","solved":0,`, corrected: `"case_id":"three"[^{]*,"a":\{"outcome":"passed"`},
		{name: "scorecard power", args: []string{"scorecard", "power", a}, headline: `0\.4000`, corrected: `0\.6000`},
		{name: "junit", args: []string{"gate", a, "--junit", "OUT"}, headline: `tests="5" failures="0" errors="0" skipped="3"`, corrected: `tests="5" failures="0" errors="0" skipped="2"`},
		{name: "tap", args: []string{"gate", a, "--tap", "OUT"}, headline: `not ok \d+ - [^\n]*three`, corrected: `\nok \d+ - [^\n]*three`},
		{name: "gate", args: []string{"gate", a}, headline: `solve_rate of all cases is 0\.6`}, // gates use the corrected score, and name who corrected it
		{name: "gate --json", args: []string{"gate", a, "--json"}, headline: `"met":true,.*"value":0\.6`},
		{name: "promote recommend", args: []string{"promote", "recommend", "sums", "--json"}, headline: `the lower counts`},

		{name: "page of the workspace", page: "/", headline: `>2</[^>]*> of|40\.0 %`, corrected: `60\.0 %`},
		{name: "page of attempts", page: "/attempts", headline: `>2</[^>]*> of`, corrected: `>3</[^>]*> of`},
		{name: "page of the attempt", page: "/attempt/" + a, headline: `40\.0 %`, corrected: `60\.0 %`},
		{name: "page of the case", page: "/attempt/" + a + "/case/three", headline: `class="lead">[^\n]*>Failed<`, corrected: `class="lead">[^\n]*>Passed<`},
		{name: "page of the matrix", page: "/matrix?class=sums", headline: `>40\.0 %`, corrected: `60\.0 %`},
		{name: "page of the comparison", page: "/compare?a=" + a + "&b=sums.default.2", headline: `40\.0 %|0\.4`, corrected: `60\.0 %`},

		export("receipt", "", "").toldIn("a receipt proves one entry; the command tells what stands beside it"),
		export("bundle", `outcome: failed`, ""),
		export("otel", `"tallystick.case","value":\{"stringValue":"three"\}[^\n]*"tallystick.outcome","value":\{"stringValue":"failed"`, `"tallystick.case","value":\{"stringValue":"three"\}[^\n]*"tallystick.outcome","value":\{"stringValue":"passed"`),
		export("vc", `"results":\{"sums":\{"errors":0,"failed":3,"mean_score":0\.4,"not_run":0,"passed":2,`, `"results":\{"sums":\{"errors":0,"failed":2,`, "--key", "KEY", "--harness-file", "WHEEL"),
		export("html", `data-field="/outcomes/passed" data-as="text">2<`, `data-field="/outcomes/passed" data-as="text">3<`),
		export("in-toto", `"warnedTests": *\["three", *"four", *"five"\]`, `"passedTests": *\[[^\]]*"three"`, "--key", "KEY"),
		export("eee", `"score": *0\.4`, `"score": *0\.6`),
		export("hf", `value: 40\n`, `value: 60\n`),
		export("inspect", `"accuracy","params":\{\},"value":0\.4|"value":0\.4`, `"value":0\.6`),
		export("cyclonedx", `"type": *"solve_rate", *"value": *"0\.4"|"value": *"0\.4"`, `"value": *"0\.6"`),
		export("croissant", `"croissant:value": *0\.4`, `"croissant:value": *0\.6`),
		export("badge", `>2 of 5 solved`, `>3 of 5 solved`),
	}
}

func (s surface) toldIn(where string) surface {
	s.elsewhere = where
	return s
}

// In everything that shows a score the recorded value is the headline, and what people
// corrected stands beside it, with who, when, from what and to what. Only gates count the
// corrected ones, and they name who corrected them.
func TestRecordedIsTheHeadlineOfEverySurface(t *testing.T) {
	l := newSums(t)
	l.run("run", "sums") // another attempt, to compare with
	at := map[string]string{"three": l.correct("three", "1", "example-alice"), "four": l.correct("four", "1", "example-bob"), "one": l.correct("one", "0", "example-alice")}
	place, err := openPlace(envOf(l))
	l.must(err)
	v, err := viewer.Open(viewer.Config{Place: place, Still: true})
	l.must(err)
	defer v.Close()

	told := map[string]bool{}
	for _, s := range surfaces() {
		told[s.name] = true
		t.Run(s.name, func(t *testing.T) {
			text := s.shown(t, l, v)
			if !regexp.MustCompile(s.headline).MatchString(text) {
				t.Errorf("the headline %s is missing:\n%.1500s", s.headline, text)
			}
			if s.corrected != "" && regexp.MustCompile(s.corrected).MatchString(text) {
				t.Errorf("the headline is the corrected number, %s", s.corrected)
			}
			if s.elsewhere != "" {
				return
			}
			// One surface may be about a single case.
			for _, c := range []struct{ id, by, change string }{
				{"three", "alice", "0.00 failed → 1.00 passed"}, {"four", "bob", "0.00 failed → 1.00 passed"}, {"one", "alice", "1.00 passed → 0.00 failed"},
			} {
				if c.id != "three" && (strings.Contains(s.name, "why") || strings.Contains(s.name, "of a case") || strings.Contains(s.name, "of the case")) {
					continue
				}
				if s.name == "export html" { // of people it has keys, and its numbers are those of pages
					c.by = fingerprintOf(t, l.key("example-"+c.by))
					c.change = strings.ReplaceAll(c.change, ".00", ".000")
					text = html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(text, ""))
				}
				if !states(text, c.by, at[c.id], c.change) {
					t.Errorf("it does not tell that %s was corrected by %s at %s, %s:\n%.1500s", c.id, c.by, at[c.id], c.change, text)
				}
			}
		})
	}
	// A format that comes later has its row too. That of a submission is in the script
	// submit_corrected.
	for _, f := range export.Formats() {
		if !told["export "+f.Name] && f.Name != export.Submission {
			t.Errorf("there is no row for the export format %s", f.Name)
		}
	}
}

// states reports whether a text tells of a correction: in words, or as the members by,
// at, was and now.
func states(text, by, at, change string) bool {
	text = strings.ReplaceAll(text, `\u2192`, "→")
	if strings.Contains(text, change+" corrected by "+by+" at "+at) {
		return true
	}
	was, now := `"was":{"outcome":"failed","passed":false,"score":0}`, `"now":{"outcome":"passed","passed":true,"score":1}`
	if strings.HasPrefix(change, "1.00") {
		was, now = `"was":{"outcome":"passed","passed":true,"score":1}`, `"now":{"outcome":"failed","passed":false,"score":0}`
	}
	compact := regexp.MustCompile(`\s+`).ReplaceAllString(text, "")
	for _, object := range regexp.MustCompile(`\{[^{}]*"at":"`+regexp.QuoteMeta(at)+`"(?:[^{}]|\{[^{}]*\})*\}`).FindAllString(compact, -1) {
		if strings.Contains(object, was) && strings.Contains(object, now) && strings.Contains(object, `"`+by+`"`) {
			return true
		}
	}
	return false
}

func fingerprintOf(t *testing.T, file string) string {
	t.Helper()
	key, err := seal.LoadKey(file)
	if err != nil {
		t.Fatal(err)
	}
	return key.Public().Fingerprint()
}

func envOf(l *trial) *Env {
	env := newEnv(strings.NewReader(""), io.Discard, io.Discard, l.getenv)
	env.WorkspaceDir = l.dir
	return env
}

// shown is what a reader of the surface sees.
func (s surface) shown(t *testing.T, l *trial, v *viewer.Viewer) string {
	t.Helper()
	if s.page != "" {
		w := httptest.NewRecorder()
		v.ServeHTTP(w, httptest.NewRequest("GET", s.page, nil))
		if w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", s.page, w.Code, w.Body)
		}
		return w.Body.String()
	}
	out := t.TempDir() + "/out.eval" // one format asks for an ending, and the others take any
	var args []string
	for _, a := range s.args {
		args = append(args, strings.NewReplacer("OUT", out, "KEY", l.key("operator"), "WHEEL", l.path("wheel")).Replace(a))
	}
	code, stdout, stderr := l.run(args...)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	if dossier.AreFiles(out) {
		return l.below(out) // and not what the command says of it
	}
	return stdout
}
