package parquet

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"tallystick/internal/record/refusal"
)

// The files in testdata were written by pyarrow 26.0.1 from rows.json, which we
// wrote: strings, numbers, dates, decimals, lists, structs and lists of them,
// with nothing here and there.
func TestReadGivesWhatWasWritten(t *testing.T) {
	text, err := os.ReadFile("testdata/rows.json")
	if err != nil {
		t.Fatal(err)
	}
	var want []map[string]any
	decodeJSON(t, text, &want)
	for _, name := range []string{"snappy", "zstd-v2", "gzip-plain", "delta"} {
		data, err := os.ReadFile(filepath.Join("testdata", name+".parquet"))
		if err != nil {
			t.Fatal(err)
		}
		f, err := Read(data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := strings.Join(f.Columns, " "); got != "id question answer score small ok tags messages meta day at price nested big un" {
			t.Errorf("%s: columns %s", name, got)
		}
		if len(f.Rows) != len(want) {
			t.Fatalf("%s: %d rows, want %d", name, len(f.Rows), len(want))
		}
		for i := range want {
			text, err := json.Marshal(f.Rows[i])
			if err != nil {
				t.Fatal(err)
			}
			var got map[string]any
			decodeJSON(t, text, &got)
			if !reflect.DeepEqual(normal(got), normal(want[i])) {
				t.Errorf("%s, row %d:\n%v\n%v", name, i, got, want[i])
			}
		}
	}
}

func decodeJSON(t *testing.T, text []byte, v any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		t.Fatal(err)
	}
}

// normal makes 1.0 and 1 the same.
func normal(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			v[k] = normal(x)
		}
	case []any:
		for i, x := range v {
			v[i] = normal(x)
		}
	case json.Number:
		return strings.TrimSuffix(v.String(), ".0")
	}
	return v
}

func TestReadRefusesByName(t *testing.T) {
	brotli, err := os.ReadFile("testdata/brotli.parquet")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, want string
		data       []byte
	}{
		{"nothing", "does not begin and end with PAR1", nil},
		{"cut off", "it may be cut off", brotli[:len(brotli)-1]},
		{"a footer that is not there", "the footer says", []byte("PAR1\xff\xff\xff\x7fPAR1")},
		{"an unknown compression", "brotli, which is not read", brotli},
	} {
		if _, err := Read(tt.data); !refusal.Is(err, refusal.Malformed) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// A damaged file is refused, or read as something else; it never crashes.
func TestDamagedFiles(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, name := range []string{"snappy", "zstd-v2", "gzip-plain", "delta"} {
		honest, err := os.ReadFile(filepath.Join("testdata", name+".parquet"))
		if err != nil {
			t.Fatal(err)
		}
		refused := 0
		for range 300 {
			data := bytes.Clone(honest)
			for range 1 + r.IntN(3) {
				data[r.IntN(len(data))] = byte(r.IntN(256))
			}
			if _, err := Read(data); err != nil {
				refused++
			}
		}
		if refused == 0 {
			t.Errorf("%s: no damage was noticed", name)
		}
	}
}

// FuzzRead looks for a file that crashes the reader or makes it claim memory
// that the file does not pay for.
func FuzzRead(f *testing.F) {
	for _, name := range []string{"snappy", "zstd-v2", "gzip-plain", "delta"} {
		data, err := os.ReadFile(filepath.Join("testdata", name+".parquet"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if file, err := Read(data); err == nil && len(file.Rows) > 0 && len(file.Columns) == 0 {
			t.Error("rows without columns")
		}
	})
}
