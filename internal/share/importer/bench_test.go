package importer

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/rogpeppe/go-internal/txtar"

	"tallystick/internal/read/results"
	"tallystick/internal/record/jsonstream"
	"tallystick/internal/share/zipfile"
)

// inspectDocument is a log of n samples of about 4 kB each, most of it events, as
// real logs are.
func inspectDocument(n int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"version":2,"status":"success","eval":{"task":"t","model":"m","config":{"epochs":1}},"results":{"total_samples":` + fmt.Sprint(n) + `,"scores":[{"name":"match","scorer":"match","metrics":{"accuracy":{"name":"accuracy","value":1}}}]},"samples":[`)
	event := `{"event":"model","timestamp":"2025-01-01T00:00:00+00:00","working_start":1.5,"model":"m","input":[{"role":"user","content":"` + strings.Repeat("what is \\\"this\\\"? ", 10) + `"}],"output":{"choices":[{"message":{"content":"` + strings.Repeat("lorem ipsum dolor sit amet ", 8) + `\n"}}],"usage":{"input_tokens":12,"output_tokens":34}}}`
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":%d,"epoch":1,"input":"question %d","target":"yes","scores":{"match":{"value":"C","answer":"yes"}},"events":[%s]}`, i, i, strings.TrimSuffix(strings.Repeat(event+",", 6), ","))
	}
	b.WriteString("]}")
	return b.Bytes()
}

// rowsDocument is the other extreme: promptfoo's lines, of which most is read.
func rowsDocument(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, `{"id":"r%d","promptIdx":0,"testIdx":%d,"testCase":{"vars":{"n":%d}},"promptId":"x","provider":{"id":"acme:tiny"},"prompt":{"raw":"question %d: %s"},"vars":{"n":%d},"response":{"output":"%s"},"success":true,"score":1,"failureReason":0,"gradingResult":{"pass":true,"score":1,"reason":"ok","componentResults":[]},"namedScores":{},"latencyMs":12}`+"\n",
			i, i, i, i, strings.Repeat("please ", 20), i, strings.Repeat("an answer ", 30))
	}
	return b.Bytes()
}

func benchmarkImport(b *testing.B, doc []byte, samples int64) {
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		runs, err := Read(context.Background(), []string{"-"}, Options{Stdin: bytes.NewReader(doc), Each: func(int, results.Sample) error { return nil }})
		if err != nil || runs[0].Samples != samples {
			b.Fatal(err, runs)
		}
	}
}

// benchmarkFloor walks over the tokens of the same bytes and hashes them, which
// every import must do.
func benchmarkFloor(b *testing.B, doc []byte) {
	b.SetBytes(int64(len(doc)))
	for b.Loop() {
		hashed := jsonstream.NewCopy(bytes.NewReader(doc))
		r, err := jsonstream.NewReader(hashed)
		for err == nil {
			var k jsonstream.Kind
			if k, err = r.Peek(); k == jsonstream.None {
				break
			}
			err = r.Skip()
		}
		if err != nil {
			b.Fatal(err)
		}
		if _, _, err := hashed.Sum(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkImportInspectLog(b *testing.B)   { benchmarkImport(b, inspectDocument(20_000), 20_000) }
func BenchmarkFloorInspectLog(b *testing.B)    { benchmarkFloor(b, inspectDocument(20_000)) }
func BenchmarkImportPromptfooRow(b *testing.B) { benchmarkImport(b, rowsDocument(50_000), 50_000) }
func BenchmarkFloorPromptfooRow(b *testing.B)  { benchmarkFloor(b, rowsDocument(50_000)) }

// BenchmarkImportInspectArchive is the same log as an archive of zstd entries;
// the bytes are those that come out of it.
func BenchmarkImportInspectArchive(b *testing.B) {
	const n = 5000
	var log struct {
		Samples []jsontext.Value `json:"samples"`
	}
	doc := inspectDocument(n)
	if err := json.Unmarshal(doc, &log); err != nil {
		b.Fatal(err)
	}
	files := []txtar.File{{Name: "header.json", Data: []byte(`{"version":2,"status":"success","eval":{"task":"t","model":"m","config":{"epochs":1}}}`)}}
	for i, s := range log.Samples {
		files = append(files, txtar.File{Name: fmt.Sprintf("samples/%d_epoch_1.json", i), Data: s})
	}
	packed := zipped(b, files, zipfile.Zstd)
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		runs, err := Read(context.Background(), []string{"-"}, Options{Stdin: bytes.NewReader(packed)})
		if err != nil || runs[0].Samples != n {
			b.Fatal(err, runs)
		}
	}
}
