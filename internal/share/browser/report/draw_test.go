package report

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"tallystick/internal/record/evidence"
	"tallystick/internal/share/browser"
)

// drawer makes the pages of the data that it reads, one in a line, as a browser does.
const drawer = `import { createInterface } from "node:readline";
import { parseKey } from "./receipt.js";
import { reportData, verifyReport } from "./report.js";
import { drawReport, rendererOf } from "./report_draw.js";
for await (const line of createInterface({ input: process.stdin })) {
  const { text, script, style } = JSON.parse(line);
  try {
    const data = reportData(text);
    console.log(JSON.stringify({ page: drawReport(data, verifyReport(data, [parseKey(data.key)]), script, style), renderer: rendererOf(script, style) }));
  } catch (err) {
    console.log(JSON.stringify({ error: err.message }));
  }
}
`

type drawn struct{ Page, Renderer, Error string }

// inScript has our scripts make a page, in Node.js.
func inScript(t *testing.T, texts ...[]byte) []drawn {
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
		if err := json.NewEncoder(&in).Encode(map[string]string{"text": string(text), "script": browser.ReportScript(), "style": browser.Style()}); err != nil {
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
		want := string(render(t, pages[i]))
		if got.Error != "" || got.Page != want || got.Renderer != Renderer() {
			at := 0
			for at < len(want) && at < len(got.Page) && want[at] == got.Page[at] {
				at++
			}
			t.Errorf("page %d (%s, renderer %s, want %s): at byte %d the script has %q, the program %q", i, got.Error, got.Renderer, Renderer(), at, around([]byte(got.Page), at), around([]byte(want), at))
		}
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
