package importer

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/rogpeppe/go-internal/txtar"

	"tallystick/internal/read/results"
	"tallystick/internal/record/refusal"
	"tallystick/internal/share/zipfile"
)

const goodHeader = `{"version":2,"status":"success","eval":{"task":"t","model":"m","created":"2025-01-01T00:00:00Z"},"results":{"total_samples":0,"scores":[]}}`

func readOne(t testing.TB, name string, data []byte) ([]results.Run, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	write(t, path, data)
	return Read(context.Background(), []string{path}, Options{})
}

func wantRefusal(t testing.TB, err error, name refusal.Name, parts ...string) {
	t.Helper()
	if !refusal.Is(err, name) {
		t.Errorf("got %v, want a refusal %s", err, name)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("got %v, want it to say %q", err, part)
		}
	}
}

// TestArchivesAreNotTrusted: bombs, escapes and damage are refused with the
// entry.
func TestArchivesAreNotTrusted(t *testing.T) {
	if testing.Short() {
		t.Skip("much work in one goroutine: under the race detector it shows nothing more")
	}
	archive := func(files ...txtar.File) []byte {
		return zipped(t, append([]txtar.File{{Name: "header.json", Data: []byte(goodHeader)}}, files...), zip.Deflate)
	}
	// One gigabyte and a half of white space in a sample, in some kilobytes.
	bomb := func(method uint16) []byte {
		var out bytes.Buffer
		z := zip.NewWriter(&out)
		w, _ := z.Create("header.json")
		io.WriteString(w, goodHeader)
		z.RegisterCompressor(zipfile.Zstd, func(w io.Writer) (io.WriteCloser, error) {
			return zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest))
		})
		w, err := z.CreateHeader(&zip.FileHeader{Name: "samples/1_epoch_1.json", Method: method})
		if err != nil {
			t.Fatal(err)
		}
		block := bytes.Repeat([]byte(" "), 1<<20)
		for range 1100 {
			w.Write(block)
		}
		z.Close()
		return out.Bytes()
	}
	damaged := archive(txtar.File{Name: "samples/1_epoch_1.json", Data: []byte(`{"id":1,"epoch":1,"input":"` + strings.Repeat("abcdefghij", 100) + `"}`)})
	at := bytes.Index(damaged, []byte("samples/1_epoch_1.json"))
	damaged[at+40] ^= 0xff
	var lz bytes.Buffer
	z := zip.NewWriter(&lz)
	raw(t, z, "header.json", 14, []byte("x"), []byte("x"))
	z.Close()

	for _, tt := range []struct {
		name  string
		data  []byte
		want  refusal.Name
		parts []string
	}{
		{"a bomb of zstd", bomb(zipfile.Zstd), refusal.TooLarge, []string{"samples/1_epoch_1.json", "expands"}},
		{"a path that leads out", archive(txtar.File{Name: "../../etc/passwd", Data: []byte("x")}), refusal.Malformed, []string{"entry 1", "../../etc/passwd"}},
		{"an absolute path", archive(txtar.File{Name: "/etc/passwd", Data: []byte("x")}), refusal.Malformed, []string{"leads out"}},
		{"a path of Windows", archive(txtar.File{Name: `samples\1_epoch_1.json`, Data: []byte("x")}), refusal.Malformed, []string{"leads out"}},
		{"a drive", archive(txtar.File{Name: `c:x`, Data: []byte("x")}), refusal.Malformed, []string{"leads out"}},
		{"a dot in the middle", archive(txtar.File{Name: `samples/../x`, Data: []byte("x")}), refusal.Malformed, []string{"leads out"}},
		{"an archive in an archive", archive(txtar.File{Name: "samples/1_epoch_1.json", Data: archive()}), refusal.Malformed, []string{"samples/1_epoch_1.json", "byte 0"}},
		{"an archive of no harness", zipped(t, []txtar.File{{Name: "word/document.xml", Data: []byte("<x/>")}}, zip.Deflate), refusal.Malformed, []string{"without header.json"}},
		{"a sample that is not JSON", archive(txtar.File{Name: "samples/1_epoch_1.json", Data: []byte(`{"id":1,]`)}), refusal.Malformed, []string{"samples/1_epoch_1.json", "byte 8"}},
		{"a damaged entry", damaged, refusal.Malformed, []string{"samples/1_epoch_1.json"}},
		{"cut off", archive()[:100], refusal.Malformed, []string{"opening the archive"}},
		{"an unknown method", lz.Bytes(), refusal.Malformed, []string{"header.json", "method 14"}},
		{"an empty archive", zipped(t, nil, zip.Deflate), refusal.Malformed, []string{"without header.json"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := readOne(t, "log.eval", tt.data)
			wantRefusal(t, err, tt.want, append(tt.parts, "log.eval")...)
		})
	}
}

// TestAZstdFrameMayNotAskForMuchMemory: a window is memory before a byte came.
func TestAZstdFrameMayNotAskForMuchMemory(t *testing.T) {
	// RFC 8878 section 3.1: magic number, no flags, a window of 64 MiB, and one
	// last block of plain bytes.
	block := uint32(len(goodHeader))<<3 | 1
	packed := append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x80, byte(block), byte(block >> 8), byte(block >> 16)}, goodHeader...)
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	raw(t, z, "header.json", zipfile.Zstd, packed, []byte(goodHeader))
	z.Close()
	_, err := readOne(t, "log.eval", out.Bytes())
	wantRefusal(t, err, refusal.Malformed, "header.json", "window")
}

// TestBrokenFilesAreRefusedWithThePlace.
func TestBrokenFilesAreRefusedWithThePlace(t *testing.T) {
	lines := `{"spec":{"eval_name":"e","completion_fns":["m"],"run_id":"r"}}` + "\n"
	for _, tt := range []struct {
		name, data string
		want       refusal.Name
		parts      []string
	}{
		{"cut off", `{"version":2,"status":"success","eval":{"task":"t","model":"m"},"samples":[{"id":1`, refusal.Malformed, []string{"byte 82", "the file ends here"}},
		{"a bad line", lines + lines[:20] + "\n", refusal.Malformed, []string{"line 2"}},
		{"not UTF-8", `{"version":2,"status":"ok","eval":{"task":"` + "\xe4" + `","model":"m"}}`, refusal.Malformed, []string{"byte 43", "not UTF-8"}},
		{"UTF-16", "\xff\xfe{\x00}\x00", refusal.Malformed, []string{"UTF-16"}},
		{"empty", "", refusal.Malformed, []string{"not a result file"}},
		{"text", "hello\n", refusal.Malformed, []string{"not a result file"}},
		{"JSON of another program", `{"name":"x","dependencies":{}}`, refusal.Malformed, []string{"not a result file", `"dependencies"`}},
		{"a member twice", `{"version":2,"status":"s","eval":{"task":"t","model":"m"},"results":{"total_samples":1,"total_samples":2}}`, refusal.Malformed, []string{"total_samples", "twice"}},
		{"something after the end", `{"version":2,"status":"s","eval":{"task":"t","model":"m"}} {"more":1}`, refusal.Malformed, []string{"after the end"}},
		{"a score that is deep", `{"version":2,"status":"s","eval":{"task":"t","model":"m"},"samples":[{"id":1,"scores":{"a":{"value":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}}}]}`, refusal.Malformed, []string{"deep"}},
		{"a broken quote in a table", "user_input,response,faithfulness\n\"a,b,1\n", refusal.Malformed, []string{"line 2"}},
		{"rows of a table before its columns", `{"data":[[1]],"columns":["a/value"]}`, refusal.Malformed, []string{"before the columns"}},
		{"a damaged database", "SQLite format 3\x00" + strings.Repeat("x", 4000), refusal.Malformed, []string{"database"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := readOne(t, "f", []byte(tt.data))
			wantRefusal(t, err, tt.want, append(tt.parts, string(filepath.Separator)+"f: ")...)
		})
	}
}

// TestEveryFixtureCutOffAnywhereIsRefusedOrSmaller: no cut makes a panic, and
// none is read as more than the whole.
func TestEveryFixtureCutOffAnywhereIsRefusedOrSmaller(t *testing.T) {
	for _, name := range []string{"inspect-json", "inspect-archive", "promptfoo-v3", "promptfoo-jsonl", "deepeval", "mlflow-table", "openai-evals", "phoenix", "weave"} {
		dir := fixture(t, name, nil)
		entries, _ := os.ReadDir(dir)
		data, err := os.ReadFile(filepath.Join(dir, entries[0].Name()))
		if err != nil {
			t.Fatal(err)
		}
		whole, _ := importDir(t, dir)
		step := max(1, len(data)/60)
		for n := 0; n < len(data)-1; n += step {
			runs, err := Read(context.Background(), []string{"-"}, Options{Stdin: bytes.NewReader(data[:n])})
			if err == nil && (len(runs) > len(whole) || runs[0].Samples > whole[0].Samples) {
				t.Errorf("%s cut off at %d gave %d runs", name, n, len(runs))
			}
			if err == nil && !strings.Contains(name, "jsonl") && name != "openai-evals" && name != "weave" {
				t.Errorf("%s cut off at byte %d of %d is accepted", name, n, len(data))
			}
		}
	}
}

// TestLinksThatLeadOutOfAFolderAreRefused, and one that stays inside is read
// once.
func TestLinksThatLeadOutOfAFolderAreRefused(t *testing.T) {
	dir := fixture(t, "ragas-csv", nil)
	if err := os.Symlink("scores.csv", filepath.Join(dir, "again.csv")); err != nil {
		t.Skip(err)
	}
	if runs, _ := importDir(t, dir); len(runs) != 1 {
		t.Errorf("a link inside the folder: %d runs, want 1", len(runs))
	}
	outside := filepath.Join(t.TempDir(), "secret.csv")
	write(t, outside, []byte("user_input,response\na,b\n"))
	for _, target := range []string{outside, "../" + filepath.Base(filepath.Dir(outside)) + "/secret.csv", "/etc"} {
		link := filepath.Join(dir, "out")
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
		_, err := Read(context.Background(), []string{dir}, Options{})
		wantRefusal(t, err, refusal.Malformed, link, "leads out")
		os.Remove(link)
	}
}

// TestWhatIsNotAFileIsRefused: a folder without results, a device, nothing.
func TestWhatIsNotAFileIsRefused(t *testing.T) {
	_, err := Read(context.Background(), []string{t.TempDir()}, Options{})
	wantRefusal(t, err, refusal.Malformed, "no result file")
	_, err = Read(context.Background(), []string{filepath.Join(t.TempDir(), "gone")}, Options{})
	wantRefusal(t, err, refusal.Unreadable, "gone")
	_, err = Read(context.Background(), nil, Options{})
	wantRefusal(t, err, refusal.Usage)
	_, err = Read(context.Background(), []string{os.DevNull}, Options{})
	wantRefusal(t, err, refusal.Unreadable, "not a regular file")
}

// TestARowThatIsNullIsPassed: it once was read again and again.
func TestARowThatIsNullIsPassed(t *testing.T) {
	row := `{"context":{"trace_id":"t","span_id":"s"},"span_kind":"AGENT","attributes":{}}`
	runs, err := readOne(t, "spans.jsonl", []byte(row+"\nnull\n"+row+"\n"))
	if err != nil || runs[0].Samples != 1 {
		t.Errorf("got %+v, %v", runs, err)
	}
	_, err = readOne(t, "spans.jsonl", []byte(row+"\nnope\n"))
	wantRefusal(t, err, refusal.Malformed, "line 2")
}

// TestFoldersAreBounded.
func TestFoldersAreBounded(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		write(t, filepath.Join(dir, name), []byte("x"))
	}
	_, err := Read(context.Background(), []string{dir}, Options{MaxFiles: 2})
	wantRefusal(t, err, refusal.TooLarge, "more than 2")
}

// TestAWriteAheadLogIsNotMissed: a database with changes that are not in it yet
// would be read without them.
func TestAWriteAheadLogIsNotMissed(t *testing.T) {
	dir := fixture(t, "trulens-database", nil)
	write(t, filepath.Join(dir, "default.sqlite-wal"), []byte("changes"))
	_, err := Read(context.Background(), []string{filepath.Join(dir, "default.sqlite")}, Options{})
	wantRefusal(t, err, refusal.Unreadable, "default.sqlite-wal")
}

// TestTheDatabaseIsNotChanged by reading it, nor is anything made beside it.
func TestTheDatabaseIsNotChanged(t *testing.T) {
	dir := fixture(t, "trulens-database", nil)
	path := filepath.Join(dir, "default.sqlite")
	before, _ := os.ReadFile(path)
	if _, err := Read(context.Background(), []string{path}, Options{}); err != nil {
		t.Fatal(err)
	}
	after, _ := os.ReadFile(path)
	entries, _ := os.ReadDir(dir)
	if !bytes.Equal(before, after) || len(entries) != 1 {
		t.Errorf("the database changed, or there are files beside it: %v", entries)
	}
}

// TestAnImportCanBeStopped.
func TestAnImportCanBeStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := Read(ctx, []string{fixture(t, "ragas-csv", nil)}, Options{})
	if !refusal.Is(err, refusal.Interrupted) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestMemoryIsBoundedOnALongLog reads a log of 256 MiB from a pipe and looks at
// what is allocated at once.
func TestMemoryIsBoundedOnALongLog(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a while")
	}
	head := `{"version":2,"status":"success","eval":{"task":"t","model":"m","config":{"epochs":1}},"results":{"scores":[]},"samples":[`
	sample := `{"id":1,"epoch":1,"input":"q","scores":{"match":{"value":"C"}},"events":[{"text":"` + strings.Repeat("lorem ipsum ", 100_000) + `"}]},`
	var readers []io.Reader
	readers = append(readers, strings.NewReader(head))
	for range (256 << 20) / len(sample) {
		readers = append(readers, strings.NewReader(sample))
	}
	readers = append(readers, strings.NewReader(`{"id":0,"epoch":1}]}`))
	peak := &peakReader{src: io.MultiReader(readers...)}
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	runs, err := Read(context.Background(), []string{"-"}, Options{Stdin: peak})
	if err != nil || runs[0].Samples != int64((256<<20)/len(sample)+1) {
		t.Fatal(err, runs)
	}
	if grown := int64(peak.most) - int64(before.HeapAlloc); grown > 32<<20 {
		t.Errorf("the heap grew by %d bytes, want at most 32 MiB", grown)
	}
}

// peakReader looks at the heap now and then.
type peakReader struct {
	src  io.Reader
	n    int
	most uint64
}

func (p *peakReader) Read(b []byte) (int, error) {
	if p.n++; p.n%256 == 0 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		p.most = max(p.most, m.HeapAlloc)
	}
	return p.src.Read(b)
}
