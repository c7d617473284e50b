package report

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/seal"
	"tallystick/internal/share/browser"
)

// drawer makes the pages of the data that it reads, one in a line, as a browser does.
const drawer = `import { createInterface } from "node:readline";
import { parseKey } from "./receipt.js";
import { canonical } from "./canon.js";
import { reportData, verifyReport } from "./report.js";
import { drawReport, rendererOf } from "./report_draw.js";
for await (const line of createInterface({ input: process.stdin })) {
  const { text, script, style, unproved } = JSON.parse(line);
  try {
    const data = reportData(text);
    const proved = unproved ? new Map(data.entries.map((e) => [e.index, { index: e.index, entry: canonical(e.entry) }])) : verifyReport(data, [parseKey(data.key)]);
    console.log(JSON.stringify({ page: drawReport(data, proved, script, style), renderer: rendererOf(script, style) }));
  } catch (err) {
    console.log(JSON.stringify({ error: err.message }));
  }
}
`

type drawn struct{ Page, Renderer, Error string }

// inScript has our scripts make a page, in Node.js.
func inScript(t *testing.T, texts ...[]byte) []drawn {
	t.Helper()
	return drawAll(t, false, texts)
}

// drawAll does it also with entries that nothing proves, which a test has made.
func drawAll(t *testing.T, unproved bool, texts [][]byte) []drawn {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("Node.js is not installed: the scripts are not run here")
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, browser.Scripts()); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"package.json": `{"type":"module"}`, "drawer.js": drawer} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var in bytes.Buffer
	for _, text := range texts {
		if err := json.NewEncoder(&in).Encode(map[string]any{"text": string(text), "script": browser.ReportScript(), "style": browser.Style(), "unproved": unproved}); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(node, "drawer.js")
	cmd.Dir, cmd.Stdin, cmd.Stderr = dir, &in, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []drawn
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var d drawn
		if err := dec.Decode(&d); err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
	}
	if len(all) != len(texts) {
		t.Fatalf("%d answers to %d questions: %s", len(all), len(texts), out)
	}
	return all
}

// The page that a browser makes is the program's, byte for byte: what differs from it on a
// reader's screen was not made from the evidence.
func TestTheScriptDrawsThePageOfTheProgram(t *testing.T) {
	whole := sample(t)
	short := sample(t)
	short.Examples, short.Cases = true, short.Cases[1:]
	unfinished := sample(t)
	unfinished.Entries = unfinished.Entries[:0:0]
	for _, e := range sample(t).Entries {
		if _, body, err := evidence.DecodeEntry([]byte(e.Entry)); err != nil {
			t.Fatal(err)
		} else if body.Kind() != evidence.AttemptFinishedKind {
			unfinished.Entries = append(unfinished.Entries, e)
		}
	}
	left := sample(t)
	left.Cases[0] = Evidence{Entry: left.Cases[0].Entry, Without: HeldOut}
	left.Cases[1] = Evidence{Entry: left.Cases[1].Entry, Without: TooLong}
	pages := []*Data{whole, short, unfinished, left}
	var texts [][]byte
	for _, d := range pages {
		text, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, text)
	}
	for i, got := range inScript(t, texts...) {
		got.compare(t, pages[i])
	}
}

func (got *drawn) compare(t *testing.T, d *Data) {
	t.Helper()
	want := string(render(t, d))
	if got.Error != "" || got.Page != want || got.Renderer != Renderer() {
		at := 0
		for at < len(want) && at < len(got.Page) && want[at] == got.Page[at] {
			at++
		}
		t.Errorf("%s, renderer %s, want %s: at byte %d the script has %q, the program %q", got.Error, got.Renderer, Renderer(), at, around([]byte(got.Page), at), around([]byte(want), at))
	}
}

// What the sample does not have is drawn the same too: a floor, scores beside the records,
// calls without a price.
func TestTheScriptDrawsWhatStandsBesideTheRecords(t *testing.T) {
	key, err := seal.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	d := sample(t)
	change := func(e *Entry, to func(body map[string]any) any, kind evidence.Kind) {
		t.Helper()
		var entry map[string]any
		if err := json.Unmarshal([]byte(e.Entry), &entry); err != nil {
			t.Fatal(err)
		}
		entry["body"] = to(entry["body"].(map[string]any))
		if kind != "" {
			entry["kind"] = kind
		}
		text, err := canon.Marshal(entry)
		if err != nil {
			t.Fatal(err)
		}
		e.Entry = string(text)
	}
	record := d.Entries[2]
	corrected := &evidence.ScoreCorrected{Origin: "demo.local/tally", Attempt: d.Attempt, CaseID: "refund-by-injection", Repeat: 1, Entry: record.Index, Number: 1,
		Was: evidence.Grade{Score: 0}, Now: evidence.Grade{Score: 1, Passed: true}, Reason: "the <rule> & its case", Signatures: []string{}}
	message, err := corrected.Message()
	if err != nil {
		t.Fatal(err)
	}
	signature, err := seal.SignWith(key.Signer(), seal.NamespaceCorrection, message)
	if err != nil {
		t.Fatal(err)
	}
	corrected.Signatures = append(corrected.Signatures, string(signature), "-----BEGIN PGP SIGNATURE-----\n\nxyz\n-----END PGP SIGNATURE-----\n")
	amended := &evidence.ScoreAmended{Entry: record.Index, Author: "Ola", Reason: "a new grader", Score: evidence.Score{Score: 0.5}}
	first, second := record, record
	first.Index, second.Index = 100, 101
	change(&first, func(map[string]any) any { return corrected }, evidence.ScoreCorrectedKind)
	change(&second, func(map[string]any) any { return amended }, evidence.ScoreAmendedKind)
	change(&d.Entries[0], func(body map[string]any) any {
		body["plan"].(map[string]any)["floor"] = map[string]any{"answer": "constant", "cases": 50, "passed": 12}
		return body
	}, "")
	for i := range d.Entries[1:3] {
		change(&d.Entries[1+i], func(body map[string]any) any { body["unpriced_calls"] = 3; return body }, "")
	}
	d.Entries = append(d.Entries, first, second)
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	page := string(render(t, d))
	for _, part := range []string{"Floor of the class", key.Fingerprint(), "the &lt;rule&gt; &amp; its case", "graded again by", "at least $"} {
		if !strings.Contains(page, part) {
			t.Errorf("the page does not say %q", part)
		}
	}
	drawAll(t, true, [][]byte{text})[0].compare(t, d)

	corrected.Signatures[0] = strings.Replace(corrected.Signatures[0], "A", "B", 1)
	change(&d.Entries[len(d.Entries)-2], func(map[string]any) any { return corrected }, "")
	if _, err := Render(d); err == nil {
		t.Error("a correction whose signature does not verify is drawn")
	}
}

// Data in another spelling could say one thing to the script and another to the program.
func TestTheScriptRefusesDataInAnotherSpelling(t *testing.T) {
	honest, err := json.Marshal(sample(t))
	if err != nil {
		t.Fatal(err)
	}
	texts := [][]byte{
		bytes.Replace(honest, []byte(`{"format"`), []byte(`{ "format"`), 1),
		bytes.Replace(honest, []byte(`"attempt":`), []byte(`"attempt":"x","attempt":`), 1),
		bytes.Replace(honest, []byte(`"attempt":`), []byte(`"more":1,"attempt":`), 1),
		bytes.Replace(honest, []byte(`"entries":`), []byte(`"Entries":[],"entries":`), 1),
		bytes.Replace(honest, []byte(`{"index":`), []byte(`{"note":"x","index":`), 1),
		bytes.Replace(honest, []byte(`"index":"{`), []byte(`"index":"\u007b`), 1),
	}
	for i, got := range inScript(t, texts...) {
		if bytes.Equal(texts[i], honest) {
			t.Fatalf("spelling %d is the honest one", i)
		}
		if got.Error == "" {
			t.Errorf("spelling %d was taken: %.200s", i, texts[i])
		}
	}
}
