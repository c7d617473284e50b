package importer

import (
	"archive/zip"
	"bytes"
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/rogpeppe/go-internal/txtar"

	"tallystick/internal/read/results"
)

// fuzzKinds fuzzes a reader with the files of all fixtures that begin with name.
// Whatever is read, is read the same again, is no longer than the bytes can
// tell, and survives being written as JSON.
func fuzzKinds(f *testing.F, name string, kinds ...kind) {
	fixtures, err := filepath.Glob("testdata/formats/" + name + "*.txtar")
	if err != nil || len(fixtures) == 0 {
		f.Fatal("no fixture", err)
	}
	for _, path := range fixtures {
		a, err := txtar.ParseFile(path)
		if err != nil {
			f.Fatal(err)
		}
		dir := f.TempDir()
		unpack(f, dir, a.Files[:len(a.Files)-1], zip.Deflate)
		filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
			if err == nil && info.Mode().IsRegular() {
				data, _ := os.ReadFile(path)
				f.Add(data)
			}
			return err
		})
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, k := range kinds {
			runs, samples, err := readAs(t, k, data)
			if err != nil {
				continue
			}
			again, samplesAgain, err := readAs(t, k, data)
			if err != nil || !reflect.DeepEqual(runs, again) || !reflect.DeepEqual(samples, samplesAgain) {
				t.Fatalf("%s: read twice:\n%+v %+v\n%+v %+v %v", k, runs, samples, again, samplesAgain, err)
			}
			written, err := results.Document{Runs: runs}.Encode()
			if err != nil {
				t.Fatalf("%s: writing %+v: %v", k, runs, err)
			}
			if len(written) > 2000*len(data)+64<<10 {
				t.Fatalf("%s: %d bytes became %d", k, len(data), len(written))
			}
			var back results.Document
			if err := json.Unmarshal(written, &back); err != nil {
				t.Fatalf("%s: reading back: %v", k, err)
			}
			if len(runs) > 0 && !reflect.DeepEqual(back.Runs, runs) {
				t.Fatalf("%s: written and read back:\n%+v\n%+v", k, runs, back.Runs)
			}
			for _, r := range runs {
				if r.Samples != r.Scored+r.Unscored+r.Errors {
					t.Fatalf("%s: the counts do not add up: %+v", k, r)
				}
			}
		}
	})
}

// readAs reads data as a file of the kind, whatever it looks like.
func readAs(t *testing.T, k kind, data []byte) ([]results.Run, []results.Sample, error) {
	f := &file{path: "f", stdin: bytes.NewReader(data)}
	if k == trulensDatabase {
		f = &file{path: filepath.Join(t.TempDir(), "f")}
		write(t, f.path, data)
	} else if looksLikeJSON(data) {
		shape, err := readShape(bytes.NewReader(data), false)
		if err != nil {
			return nil, nil, err
		}
		f.shape = shape
	}
	if f.shape == nil {
		f.shape = &Shape{}
	}
	f.kind = k
	var samples []results.Sample
	s := &session{ctx: context.Background(), opt: Options{Each: func(_ int, sample results.Sample) error {
		samples = append(samples, sample)
		return nil
	}}.withDefaults()}
	err := s.dispatch([]*file{f})
	if k == trulensDatabase { // the folder is another one each time
		for i := range s.runs {
			s.runs[i].Source.Path = strings.TrimPrefix(s.runs[i].Source.Path, filepath.Dir(f.path))
		}
	}
	return s.runs, samples, err
}

func FuzzInspect(f *testing.F)        { fuzzKinds(f, "inspect", inspectJSON) }
func FuzzInspectArchive(f *testing.F) { fuzzKinds(f, "inspect-", inspectArchive) }
func FuzzLMEval(f *testing.F)         { fuzzKinds(f, "lm-eval", lmEvalResults, lmEvalSamples) }
func FuzzHELM(f *testing.F)           { fuzzKinds(f, "helm", helmSpec, helmState, helmStats, helmInstances) }
func FuzzPromptfoo(f *testing.F)      { fuzzKinds(f, "promptfoo", promptfooFile, promptfooRows) }
func FuzzDeepEval(f *testing.F)       { fuzzKinds(f, "deepeval", deepEval) }
func FuzzRAGAS(f *testing.F)          { fuzzKinds(f, "ragas", ragasCSV, ragasJSON) }
func FuzzTruLensSpans(f *testing.F)   { fuzzKinds(f, "trulens", trulensSpans) }
func FuzzTruLensDatabase(f *testing.F) {
	fuzzKinds(f, "trulens", trulensDatabase)
}
func FuzzMLflow(f *testing.F)        { fuzzKinds(f, "mlflow", mlflowTable, mlflowTraces) }
func FuzzWeave(f *testing.F)         { fuzzKinds(f, "weave", weaveCalls) }
func FuzzOpenAIEvals(f *testing.F)   { fuzzKinds(f, "openai", openAIEvals) }
func FuzzTerminalBench(f *testing.F) { fuzzKinds(f, "terminal", benchRun, benchTrial) }
func FuzzHarbor(f *testing.F)        { fuzzKinds(f, "harbor", harborJob, harborTrial, harborATIF) }
func FuzzSWEBench(f *testing.F)      { fuzzKinds(f, "swe", sweReport, sweInstance) }
func FuzzMTEB(f *testing.F)          { fuzzKinds(f, "mteb", mtebTask) }
func FuzzEveryEvalEver(f *testing.F) { fuzzKinds(f, "every", eeeAggregate, eeeSamples) }
func FuzzSpans(f *testing.F)         { fuzzKinds(f, "p", phoenixSpans, otlpSpans) }
func FuzzClaudeCode(f *testing.F)    { fuzzKinds(f, "claude", claudeSession) }

// FuzzRecognise: whatever a file looks like, it is read the same twice or
// refused, and never by a panic.
func FuzzRecognise(f *testing.F) {
	f.Add([]byte(`{"results":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		runs, err := Read(context.Background(), []string{"-"}, Options{Stdin: bytes.NewReader(data)})
		again, err2 := Read(context.Background(), []string{"-"}, Options{Stdin: bytes.NewReader(data)})
		if (err == nil) != (err2 == nil) || !reflect.DeepEqual(runs, again) {
			t.Fatalf("%+v %v\n%+v %v", runs, err, again, err2)
		}
	})
}
