package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/share/submission"
	"tallystick/internal/share/verify"
)

// gaiadata DIR N [test] writes a data set in the shape of GAIA's level 1: N tasks,
// every fifth with a file, with their answers, or without those of the test split.
func cmdGAIAData(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: gaiadata DIR N [test]")
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	split := "validation"
	if len(args) > 2 {
		split = args[2]
	}
	dir := filepath.Join(ts.MkAbs(args[0]), "2023", split)
	ts.Check(os.MkdirAll(dir, 0o755))
	var lines strings.Builder
	for i := range n {
		task := map[string]any{"task_id": fmt.Sprintf("%08x-0000-4000-8000-%012x", i+1, 7*i), "Level": 1, "Question": question(i), "Final answer": answer(i), "file_name": ""}
		if i%2 == 0 {
			task["Level"] = "1" // some copies have it so
		}
		if split == "test" {
			task["Final answer"] = "?"
		}
		if i%5 == 0 {
			name := fmt.Sprintf("table-%d.csv", i)
			task["file_name"], task["file_path"] = name, "2023/"+split+"/"+name
			ts.Check(os.WriteFile(filepath.Join(dir, name), fmt.Appendf(nil, "town,people\nNordby,%d\n", 4200+i), 0o644))
		}
		line, err := json.Marshal(task)
		ts.Check(err)
		lines.Write(append(line, '\n'))
	}
	ts.Check(os.WriteFile(filepath.Join(dir, "metadata.jsonl"), []byte(lines.String()), 0o644))
}

func question(i int) string {
	return fmt.Sprintf("Which wind was logged at the lighthouse of Nordby on day %d of its journal? Answer with the letters of the direction and the number.", i+1)
}

func answer(i int) string { return fmt.Sprintf("northwest-%d", 300+i) }

// gaiareplies CLASSDIR [wrong N] gives every case of a class tools and the words of
// a model that searches, fetches a long page that holds the answer at its end,
// computes, and answers; the first N answer wrongly.
func cmdGAIAReplies(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: gaiareplies CLASSDIR [N]")
	}
	wrong := 0
	if len(args) > 1 {
		var err error
		wrong, err = strconv.Atoi(args[1])
		ts.Check(err)
	}
	cases, err := filepath.Glob(filepath.Join(ts.MkAbs(args[0]), "cases", "*", "scenario.yaml"))
	ts.Check(err)
	for i, name := range cases {
		said := answer(i)
		if i < wrong {
			said = "calm"
		}
		page, err := json.Marshal(strings.Repeat("The keeper wrote of fog and of gulls. ", 200) + "Day " + fmt.Sprint(i+1) + ": " + answer(i))
		ts.Check(err)
		old, err := os.ReadFile(name)
		ts.Check(err)
		ts.Check(os.WriteFile(name, append(old, fmt.Appendf(nil, gaiaReplies, page, i+1, i+1, i, said)...), 0o644))
	}
}

const gaiaReplies = `tools:
  - {name: web_search, class: read, trust: outside, default: {result: {hits: ["https://lights.example/journal"]}}}
  - {name: fetch, class: read, trust: outside, default: {result: %s}}
  - {name: calculate, class: read, default: {result: 17}}
model:
  - {tool_calls: [{name: web_search, args: {query: "journal lighthouse Nordby day %d"}}], tokens_in: 120, tokens_out: 20}
  - {tool_calls: [{name: fetch, args: {url: "https://lights.example/journal/%d"}}, {name: calculate, args: {sum: "%d+0"}}], tokens_in: 180, tokens_out: 30}
  - {text: "The journal has it.\nFINAL ANSWER: %s", tokens_in: 2300, tokens_out: 25}
`

// A forgery changes a package; the refusal must name what was done. Resigned says
// that the operator signed the list of files again with his own key.
type forgery struct {
	name     string
	resigned bool
	change   func(files map[string][]byte)
	want     string
}

func forgeries() []forgery {
	edit := func(name, old, new string) func(map[string][]byte) {
		return func(files map[string][]byte) {
			files[name] = []byte(strings.Replace(string(files[name]), old, new, 1))
		}
	}
	loseLast := func(name string) func(map[string][]byte) {
		return func(files map[string][]byte) {
			files[name] = files[name][:bytes.LastIndex(files[name], []byte("\nreceipt "))+1]
		}
	}
	withoutRest := func(change func(map[string][]byte)) func(map[string][]byte) {
		return func(files map[string][]byte) {
			delete(files, "receipts/rest-0001.proof")
			change(files)
		}
	}
	touch := func(folder string) func(map[string][]byte) {
		return func(files map[string][]byte) {
			for _, name := range slices.Sorted(maps.Keys(files)) {
				if strings.HasPrefix(name, folder) {
					data := bytes.Clone(files[name])
					data[len(data)/2] ^= 1
					files[name] = data
					return
				}
			}
		}
	}
	remove := func(name string) func(map[string][]byte) {
		return func(files map[string][]byte) { delete(files, name) }
	}
	return []forgery{
		{"a better headline", false, edit("README.md", "Pass rate 0.9062", "Pass rate 1.0000"), "README.md has"},
		{"a better manifest", false, edit("manifest.json", `"pass_rate": 0.90625`, `"pass_rate": 1`), "manifest.json.sig"},
		{"the report is gone", false, remove("audit-report.json"), "audit-report.json is missing"},
		{"one more file", false, func(files map[string][]byte) { files["NOTE.md"] = []byte("x") }, "NOTE.md is not in the manifest"},
		{"no manifest", false, remove("manifest.json"), "manifest.json"},
		{"no signature", false, remove("manifest.json.sig"), "manifest.json.sig"},
		{"a failed task counts", true, edit("results.jsonl", `"correct":false`, `"correct":true`), "results.jsonl is not what"},
		{"another answer", true, edit("results.jsonl", `"model_answer":"calm"`, `"model_answer":"northwest-300"`), "results.jsonl is not what"},
		{"a task is left out", true, func(files map[string][]byte) {
			_, files["results.jsonl"], _ = bytes.Cut(files["results.jsonl"], []byte("\n"))
		}, "results.jsonl is not what"},
		{"a tool call becomes another", true, edit("trajectories.jsonl", `"name":"web_search"`, `"name":"calculate"`), "trajectories.jsonl is not what"},
		{"hits are wiped out", true, edit("trajectories.jsonl", `"offsets":[7`, `"offsets":[8`), "trajectories.jsonl is not what"},
		{"votes are denied", true, edit("metadata.json", `"voting_attempts": 1`, `"voting_attempts": 0`), "metadata.json is not what"},
		{"the only attempt", true, edit("metadata.json", `"of": 2`, `"of": 1`), "metadata.json is not what"},
		{"the report is cleaner", true, edit("audit-report.json", `"evidence": [`, `"evidence": [ `), "audit-report.json is not what"},
		{"another split", true, edit("registration.json", `"split":"validation"`, `"split":"test"`), "registration.json is not the registration that the plan names"},
		{"another target", true, edit("target.json", `"model":"`, `"model":"x`), "target.json is not the target"},
		{"a record is held back", true, loseLast("receipts/record-0001.proof"), "is left out"},
		{"a record is held back, and what shows it", true, withoutRest(loseLast("receipts/record-0001.proof")), "records have the outcome"},
		{"the attempt is not counted", true, loseLast("receipts/class-0001.proof"), "the package does not count it"},
		{"the attempt is not counted, and what shows it", true, withoutRest(loseLast("receipts/class-0001.proof")), "the package does not count it"},
		{"what shows that there were no more is gone", true, withoutRest(func(map[string][]byte) {}), "README.md is not what"},
		{"some of it is gone", true, loseLast("receipts/rest-0001.proof"), "is left out"},
		{"the end is missing", true, loseLast("receipts/attempt-0001.proof"), "expected its registration and its end"},
		{"a receipt is bent", true, touch("receipts/record"), "part "},
		{"evidence is changed", true, touch("evidence/"), "evidence"},
		{"a body is changed", true, touch("bodies/"), "missing"},
		{"one more body", true, func(files map[string][]byte) { files["bodies/"+strings.Repeat("0", 64)] = []byte("x") }, "does not come from the attempt"},
		{"one more file among the receipts", true, func(files map[string][]byte) { files["receipts/note.txt"] = []byte("x") }, "does not come from the attempt"},
		{"the README says less", true, edit("README.md", "keep them from crawlers", "spread them"), "README.md is not what"},
		{"the manifest claims more", true, edit("manifest.json", `"pass_rate": 0.90625`, `"pass_rate": 1`), "manifest.json is not what"},
		{"a level that is none", true, edit("manifest.json", `"level": "signed"`, `"level": "witnessed"`), "is not what"},
	}
}

// forge DIR KEY OTHER tries every forgery on a package that KEY signed and that
// verifies with $LEDGERKEY, and has it signed by OTHER, whom no reader trusts.
func cmdForge(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: forge DIR KEY OTHER")
	}
	var trust verify.Trust
	ts.Check(trust.AddLog(ts.Getenv("LEDGERKEY")))
	whole := readAll(ts, ts.MkAbs(args[0]))
	if _, err := submission.Verify(whole, trust.Policy()); err != nil {
		ts.Fatalf("forge: the package itself: %v", err)
	}
	for _, f := range forgeries() {
		files := maps.Clone(whole)
		f.change(files)
		if maps.EqualFunc(files, whole, bytes.Equal) {
			ts.Fatalf("forge: %s: nothing was changed", f.name)
		}
		if f.resigned {
			resign(ts, files, args[1])
		}
		_, err := submission.Verify(files, trust.Policy())
		if err == nil || refusal.ExitCode(err) != refusal.ExitUnverified || !strings.Contains(err.Error(), f.want) {
			ts.Fatalf("forge: %s: %v, want %q", f.name, err, f.want)
		}
	}
	files := maps.Clone(whole)
	resign(ts, files, args[2])
	if _, err := submission.Verify(files, trust.Policy()); err == nil || !strings.Contains(err.Error(), "not the key of a trusted ledger") {
		ts.Fatalf("forge: signed by a stranger: %v", err)
	}
}

func readAll(ts *testscript.TestScript, dir string) map[string][]byte {
	files := map[string][]byte{}
	ts.Check(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files[filepath.ToSlash(strings.TrimPrefix(path, dir+string(filepath.Separator)))], err = os.ReadFile(path)
		return err
	}))
	return files
}

// resign lists the files as they are and signs the list.
func resign(ts *testscript.TestScript, files map[string][]byte, keyFile string) {
	key, err := seal.LoadKey(ts.MkAbs(keyFile))
	ts.Check(err)
	var m submission.Manifest
	ts.Check(json.Unmarshal(files[submission.ManifestFile], &m))
	m.Files = nil
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if name != submission.ManifestFile && name != submission.SignatureFile {
			m.Files = append(m.Files, submission.File{Bytes: len(files[name]), Path: name, SHA256: digest.IDOf(files[name])})
		}
	}
	plain, err := canon.Marshal(&m)
	ts.Check(err)
	var out bytes.Buffer
	ts.Check(json.Indent(&out, plain, "", "  "))
	out.WriteByte('\n')
	files[submission.ManifestFile] = out.Bytes()
	files[submission.SignatureFile], err = seal.SignWith(key.Signer(), seal.NamespaceSubmission, out.Bytes())
	ts.Check(err)
}

// statictally builds the program as it is released, for agents in a sandbox, and
// sets $STATIC to it.
func cmdStaticTally(ts *testscript.TestScript, _ bool, _ []string) {
	tally, err := staticTally()
	ts.Check(err)
	ts.Setenv("STATIC", tally)
}

// sandboxStarts is the condition of scripts that need a sandbox for agents.
var sandboxStarts = sync.OnceValues(func() (bool, error) {
	if runtime.GOOS != "linux" || testing.Short() {
		return false, nil
	}
	tally, err := staticTally()
	if err != nil {
		return false, err
	}
	out, err := exec.Command(tally, "sandbox", "probe", "--json").Output()
	return err == nil && bytes.Contains(out, []byte(`"class":"gvisor","works":true`)), nil
})

// stranger DIR KEY has the second verifier, which is Python and knows nothing of this
// program, verify a package whose ledger the last answer named, and then ones that the operator, whose
// key is KEY, forged and signed again.
func cmdStranger(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: stranger DIR KEY")
	}
	var submitted struct {
		Key string `json:"ledger_key"`
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &submitted))
	verify := func(path string) (int, string) { return secondVerifier(ts, submitted.Key, path) }
	dir := ts.MkAbs(args[0])
	if code, out := verify(dir); code != 0 || !strings.HasPrefix(out, "verified: ") {
		ts.Fatalf("stranger: exit %d: %s", code, out)
	}
	whole := readAll(ts, dir)
	for name, change := range map[string]func(map[string][]byte){
		"a better rate":     replaceIn("metadata.json", `"passed": 5`, `"passed": 4`),
		"another answer":    replaceIn("results.jsonl", `"model_answer":"`, `"model_answer":"x`),
		"another step":      replaceIn("trajectories.jsonl", `"type":"llm_call"`, `"type":"prompt"`),
		"an attempt less":   replaceIn("manifest.json", `"of": 2`, `"of": 1`),
		"a record is gone":  func(files map[string][]byte) { delete(files, "receipts/record-0001.proof") },
		"the rest is gone":  func(files map[string][]byte) { delete(files, "receipts/rest-0001.proof") },
		"a cleaner report":  replaceIn("audit-report.json", `"status": "fail"`, `"status": "pass"`),
		"a warning is less": replaceIn("audit-report.json", `"severity": "critical"`, `"severity": "warn"`),
		"other questions":   replaceIn("audit-report.json", `"questions": 5`, `"questions": 4`),
		"strictly clean":    replaceIn("audit-report.json", `"strict_clean": false`, `"strict_clean": true`),
		"another program":   replaceIn("audit-report.json", `"sources_sha256": "`, `"sources_sha256": "0`),
		"a failure less":    replaceIn("audit-report.json", "\"split-integrity\"\n    ]", "\"dynamic-eval\"\n    ]"),
		"other words":       replaceIn("audit-report.json", "it is the smoke set", "it is a mistake"),
		"nothing was found": replaceIn("trajectories.jsonl", `"scanned":true`, `"scanned":false`),
		"another turn":      replaceIn("trajectories.jsonl", `"turn":1`, `"turn":2`),
		"an execution less": func(files map[string][]byte) { lastLine(files, "trajectories.jsonl", "") },
		"an execution more": func(files map[string][]byte) {
			lastLine(files, "trajectories.jsonl", `{"task_id":"t","steps":[]}`+"\n")
		},
		"another split":       replaceIn("registration.json", `"split":"smoke"`, `"split":"validation"`),
		"evidence is changed": func(files map[string][]byte) { changeEvidence(files) },
	} {
		files := maps.Clone(whole)
		change(files)
		if maps.EqualFunc(files, whole, bytes.Equal) {
			ts.Fatalf("stranger: %s: nothing was changed", name)
		}
		resign(ts, files, args[1])
		if code, out := verify(zipped(ts, files)); code != 3 {
			ts.Fatalf("stranger: %s: exit %d: %s", name, code, out)
		}
	}
}

// second DIR has the verifier in Python verify a package, whose export is stdout.
func cmdSecond(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: second DIR")
	}
	var submitted struct {
		Key string `json:"ledger_key"`
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &submitted))
	if code, out := secondVerifier(ts, submitted.Key, ts.MkAbs(args[0])); code != 0 || !strings.HasPrefix(out, "verified: ") {
		ts.Fatalf("second: exit %d: %s", code, out)
	}
}

// lastLine puts another line behind, or takes the last one away.
func lastLine(files map[string][]byte, name, more string) {
	data := files[name]
	if more == "" {
		data = data[:1+bytes.LastIndexByte(data[:len(data)-1], '\n')]
	}
	files[name] = append(slices.Clip(data), more...)
}

// secondVerifier has the verifier in Python verify a package.
func secondVerifier(ts *testscript.TestScript, key, path string) (code int, out string) {
	script, err := filepath.Abs(filepath.Join("..", "..", "docs", "formats", "verify_submission.py"))
	ts.Check(err)
	cmd := exec.Command("python3", script, "--key", key, path)
	said, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		ts.Fatalf("the second verifier: %v", err)
	}
	return cmd.ProcessState.ExitCode(), string(said)
}

// zipped writes a package into one file.
func zipped(ts *testscript.TestScript, files map[string][]byte) string {
	data, err := submission.Zip(files)
	ts.Check(err)
	name := ts.MkAbs("forged.zip")
	ts.Check(os.WriteFile(name, data, 0o644))
	return name
}

func replaceIn(name, old, new string) func(map[string][]byte) {
	return func(files map[string][]byte) { files[name] = bytes.Replace(files[name], []byte(old), []byte(new), 1) }
}

func changeEvidence(files map[string][]byte) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasPrefix(name, "evidence/") && bytes.Contains(files[name], []byte(`"turn_started"`)) {
			files[name] = bytes.Replace(files[name], []byte("turn_started"), []byte("turn_starteD"), 1)
			return
		}
	}
}

// unzipped FILE DIR holds the package in one file against the one in a folder.
func cmdUnzipped(ts *testscript.TestScript, _ bool, args []string) {
	data, err := os.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	files, err := submission.Unzip(data)
	ts.Check(err)
	if !maps.EqualFunc(files, readAll(ts, ts.MkAbs(args[1])), bytes.Equal) {
		ts.Fatalf("%s has other files than %s", args[0], args[1])
	}
}

// sameaudit WORKSPACE ATTEMPT... holds the report that "tally audit" gives of an
// attempt against the one that its package has or would have: the same bytes.
func cmdSameAudit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: sameaudit WORKSPACE ATTEMPT...")
	}
	name := ts.MkAbs("same-audit.json")
	for _, attempt := range args[1:] {
		_ = ts.Exec("tally", "--workspace", args[0], "audit", attempt, "-o", name) // whether it is clean is no matter here
		report, err := os.ReadFile(name)
		ts.Check(err)
		ts.Check(os.Remove(name))
		_ = ts.Exec("tally", "--workspace", args[0], "export", "--format", "submission", attempt, "--dry-run", "--show-held-out", "--json")
		var made struct {
			Audit struct {
				Report string `json:"report_sha256"`
			} `json:"audit"`
		}
		if err := json.Unmarshal([]byte(ts.ReadFile("stdout")), &made); err != nil {
			ts.Fatalf("%s: %v: %s", attempt, err, ts.ReadFile("stderr"))
		}
		if sum := digest.IDOf(report); sum.String() != "sha256:"+made.Audit.Report {
			ts.Fatalf("attempt %s: the audit gives %s, its package has sha256:%s", attempt, sum, made.Audit.Report)
		}
	}
}

// ledgerkey WORKSPACE ATTEMPT sets $LEDGERKEY to the key of its ledger.
func cmdLedgerKey(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(ts.Exec("tally", "--workspace", args[0], "export", "--format", "receipt", args[1], "--json", "-o", ts.MkAbs("key.proof")))
	var proof struct{ Key string }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &proof))
	ts.Setenv("LEDGERKEY", proof.Key)
}

// receiptsOf takes a file of receipts apart: its first line, and each receipt with the
// line before it.
func receiptsOf(data []byte) (head string, receipts []string) {
	magic, rest, _ := strings.Cut(string(data), "\n")
	for rest != "" {
		line, after, _ := strings.Cut(rest, "\n")
		size, err := strconv.Atoi(strings.TrimPrefix(line, "receipt "))
		if err != nil {
			panic(err)
		}
		receipts = append(receipts, line+"\n"+after[:size])
		rest = after[size:]
	}
	return magic + "\n", receipts
}

// reportOf makes the audit's report one of the files as they are now.
func reportOf(files, whole map[string][]byte) {
	for _, name := range []string{"results.jsonl", "metadata.json"} {
		was, is := sha256.Sum256(whole[name]), sha256.Sum256(files[name])
		files["audit-report.json"] = bytes.Replace(files["audit-report.json"], fmt.Appendf(nil, "%x", was), fmt.Appendf(nil, "%x", is), 1)
	}
}

// hide DIR KEY has the operator, whose key is KEY, hide or change corrections in a
// package that shows some, and wants both verifiers to refuse what comes of it.
func cmdHide(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: hide DIR KEY")
	}
	const corrections, rest = "receipts/correction-0001.proof", "receipts/rest-0001.proof"
	without := func(files map[string][]byte, name string, drop func(i int) bool) (dropped []string) {
		head, all := receiptsOf(files[name])
		kept := head
		for i, r := range all {
			if drop(i) {
				dropped = append(dropped, r)
			} else {
				kept += r
			}
		}
		if files[name] = []byte(kept); kept == head {
			delete(files, name)
		}
		return dropped
	}
	every := func(int) bool { return true }
	var trust verify.Trust
	ts.Check(trust.AddLog(ts.Getenv("LEDGERKEY")))
	whole := readAll(ts, ts.MkAbs(args[0]))
	if _, err := exec.LookPath("python3"); err == nil {
		if code, out := secondVerifier(ts, ts.Getenv("LEDGERKEY"), ts.MkAbs(args[0])); code != 0 {
			ts.Fatalf("hide: the second verifier: exit %d: %s", code, out)
		}
	}
	for _, f := range []forgery{
		{"the last is left out", true, func(files map[string][]byte) { without(files, corrections, func(i int) bool { return i == 5 }) }, "is left out"},
		{"all are left out", true, func(files map[string][]byte) { without(files, corrections, every) }, "is left out"},
		{"they are among the rest", true, func(files map[string][]byte) {
			files[rest] = append(bytes.Clone(files[rest]), strings.Join(without(files, corrections, every), "")...)
		}, "the package does not count it"},
		{"all are left out, and what shows it", true, func(files map[string][]byte) {
			without(files, corrections, every)
			delete(files, rest)
		}, "is not what"},
		{"the first of two is left out, and what shows it", true, func(files map[string][]byte) {
			without(files, corrections, func(i int) bool { return i == 3 })
			delete(files, rest)
		}, "number 1 is left out"},
		{"they are out of order", true, func(files map[string][]byte) {
			head, all := receiptsOf(files[corrections])
			slices.Reverse(all)
			files[corrections] = []byte(head + strings.Join(all, ""))
		}, "in order"},
		{"a record among them", true, func(files map[string][]byte) {
			_, records := receiptsOf(files["receipts/record-0001.proof"])
			files[corrections] = append(bytes.Clone(files[corrections]), records[0]...)
		}, "is not a correction"},
		{"a better corrected rate", true, replaceIn("metadata.json", `"passed": 4`, `"passed": 6`), "metadata.json is not what"},
		{"the headline is of something else", true, replaceIn("metadata.json", `"basis": "recorded"`, `"basis": "corrected"`), "metadata.json is not what"},
		{"another reason", true, replaceIn("results.jsonl", "copied from a page", "a mistake of ours"), "results.jsonl is not what"},
		{"another key", true, replaceIn("results.jsonl", `"by":["SHA256:`, `"by":["SHA256:x`), "results.jsonl is not what"},
		{"it does not count", true, replaceIn("results.jsonl", `"corrected":false`, `"corrected":true`), "results.jsonl is not what"},
	} {
		files := maps.Clone(whole)
		f.change(files)
		if maps.EqualFunc(files, whole, bytes.Equal) {
			ts.Fatalf("hide: %s: nothing was changed", f.name)
		}
		resign(ts, files, args[1])
		_, err := submission.Verify(files, trust.Policy())
		if err == nil || refusal.ExitCode(err) != refusal.ExitUnverified || !strings.Contains(err.Error(), f.want) {
			ts.Fatalf("hide: %s: %v, want %q", f.name, err, f.want)
		}
		if _, err := exec.LookPath("python3"); err != nil {
			continue
		}
		reportOf(files, whole) // else that is what is noticed
		resign(ts, files, args[1])
		if code, out := secondVerifier(ts, ts.Getenv("LEDGERKEY"), zipped(ts, files)); code != 3 || strings.Contains(out, "audit-report") {
			ts.Fatalf("hide: %s: the second verifier: exit %d: %s", f.name, code, out)
		}
	}
}

// keeper FILE starts an agent behind a URL, which knows the journal and answers the
// question of day 1 wrongly, and writes a target for it to FILE.
func cmdKeeper(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: keeper FILE")
	}
	day := regexp.MustCompile(`on day (\d+) of`)
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		var turn struct{ Input string }
		if err := json.NewDecoder(r.Body).Decode(&turn); err != nil {
			http.Error(out, err.Error(), http.StatusBadRequest)
			return
		}
		said := "calm"
		if m := day.FindStringSubmatch(turn.Input); m != nil && m[1] != "1" {
			n, _ := strconv.Atoi(m[1])
			said = answer(n - 1)
		}
		json.NewEncoder(out).Encode(map[string]string{"answer": "FINAL ANSWER: " + said})
	}))
	ts.Defer(server.Close)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), fmt.Appendf(nil, "version: 1\nkind: http\nhttp: {url: %q}\n", server.URL), 0o644))
}

// shorten DIR KEY leaves entries from before the registration out of a package that
// shows the whole tree of the ledger that the last answer named, and has the operator,
// whose key is KEY, sign it again: it may not say of itself what it said.
func cmdShorten(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: shorten DIR KEY")
	}
	var submitted struct {
		Key string `json:"ledger_key"`
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &submitted))
	var trust verify.Trust
	ts.Check(trust.AddLog(submitted.Key))
	whole := readAll(ts, ts.MkAbs(args[0]))
	if code, out := secondVerifier(ts, submitted.Key, ts.MkAbs(args[0])); code != 0 {
		ts.Fatalf("shorten: the second verifier: exit %d: %s", code, out)
	}
	const rest = "receipts/rest-0001.proof"
	head, all := receiptsOf(whole[rest])
	files := maps.Clone(whole)
	files[rest] = []byte(head + strings.Join(all[1:], "")) // the first is the opening of the ledger
	resign(ts, files, args[1])
	if _, err := submission.Verify(files, trust.Policy()); err == nil || !strings.Contains(err.Error(), "README.md is not what") {
		ts.Fatalf("shorten: %v", err)
	}
	if code, out := secondVerifier(ts, submitted.Key, zipped(ts, files)); code != 3 || !strings.Contains(out, "whole") {
		ts.Fatalf("shorten: the second verifier: exit %d: %s", code, out)
	}
}
