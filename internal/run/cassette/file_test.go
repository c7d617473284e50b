package cassette

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
)

func compress(t testing.TB, data string, o ...zstd.EOption) []byte {
	t.Helper()
	enc, err := zstd.NewWriter(nil, o...)
	if err != nil {
		t.Fatal(err)
	}
	defer enc.Close()
	return enc.EncodeAll([]byte(data), nil)
}

func TestFileIsTheSameBytesEachTime(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and one goroutine has nothing to race with")
	}
	file := mustMarshal(t, mustCassette(t, smallRecorder(t)))
	for range 3 {
		if again := mustMarshal(t, mustCassette(t, smallRecorder(t))); !bytes.Equal(again, file) {
			t.Fatal("the same recording gave other bytes")
		}
	}
	// A large one has several blocks, where a parallel encoder would differ.
	big := func() []byte {
		r := smallRecorder(t)
		for i := range 40 {
			text := strings.Repeat("line of a file that an agent reads\n", 4000+i)
			if _, err := r.Tool(ToolTraffic{Name: "read", Arguments: []byte(`{}`), Result: canon.AppendString(nil, text)}); err != nil {
				t.Fatal(err)
			}
		}
		return mustMarshal(t, mustCassette(t, r))
	}
	if !bytes.Equal(big(), big()) {
		t.Error("a large recording gave other bytes")
	}
}

func TestFileReadsBackAsWritten(t *testing.T) {
	c := mustCassette(t, smallRecorder(t))
	file := mustMarshal(t, c)
	got, err := Parse(file, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if mustLines(t, got) != mustLines(t, c) {
		t.Errorf("got\n%s\nwant\n%s", mustLines(t, got), mustLines(t, c))
	}
	if !bytes.Equal(mustMarshal(t, got), file) {
		t.Error("writing again gave other bytes")
	}
	var h zstd.Header
	if err := h.Decode(file); err != nil || h.SingleSegment || h.HasCheckSum || !h.HasFCS || h.WindowSize > maxWindowBytes {
		t.Errorf("frame header %+v, %v", h, err)
	}
}

func TestHeaderSumsUp(t *testing.T) {
	h := mustCassette(t, smallRecorder(t)).Header
	// 12 fresh, 8 cached, 3 out: 12*2.5 + 8*1.25 + 3*10 = 70 micro-dollars.
	want := Totals{CostMicrodollars: 140, MCPExchanges: 1, ModelCalls: 2, Tokens: 46, ToolCalls: 1}
	if h.Totals != want {
		t.Errorf("got %+v, want %+v", h.Totals, want)
	}
	if len(h.Models) != 1 || h.Models[0] != "gpt-4o" || h.Provenance != Recorded || h.RecordedAt.String() != "2026-05-12T14:00:00.000Z" {
		t.Errorf("header %+v", h)
	}
}

// A frame by other hands is read, since people expand, look and edit with the
// zstd command; what it holds is checked all the same.
func TestFramesOfOtherEncodersAreRead(t *testing.T) {
	lines := mustLines(t, mustCassette(t, smallRecorder(t)))
	for name, o := range map[string][]zstd.EOption{
		"with a checksum": {zstd.WithEncoderCRC(true)},
		"single segment":  {zstd.WithSingleSegment(true)},
		"best":            {zstd.WithEncoderLevel(zstd.SpeedBestCompression)},
	} {
		if _, err := Parse(compress(t, lines, o...), Limits{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	var streamed bytes.Buffer // has no content size in its header
	w, err := zstd.NewWriter(&streamed)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.SplitAfter(lines, "\n") {
		if _, err := w.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Parse(streamed.Bytes(), Limits{}); err != nil {
		t.Errorf("streamed: %v", err)
	}
}

func TestParseRefusesBombsAndStrayFrames(t *testing.T) {
	lines := mustLines(t, mustCassette(t, smallRecorder(t)))
	good := compress(t, lines)
	skippable := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, 0x184D2A50), 3)
	skippable = append(skippable, "abc"...)
	zeros := strings.Repeat("\x00", 65<<20)
	var undeclared bytes.Buffer
	w, _ := zstd.NewWriter(&undeclared)
	for range 65 {
		w.Write([]byte(zeros[:1<<20]))
	}
	w.Close()

	for _, tt := range []struct {
		name string
		file []byte
		kind refusal.Name
		want string
	}{
		{"nothing", nil, refusal.Malformed, "not a zstd file"},
		{"plain lines", []byte(lines), refusal.Malformed, "not a zstd file"},
		{"cut off", good[:len(good)-2], refusal.Malformed, "cut off"},
		{"a byte too many", append(bytes.Clone(good), 0), refusal.Malformed, "1 bytes follow"},
		{"two frames", append(bytes.Clone(good), good...), refusal.Malformed, "follow the zstd frame"},
		{"a skippable frame behind", append(bytes.Clone(good), skippable...), refusal.Malformed, "follow the zstd frame"},
		{"a skippable frame in front", append(bytes.Clone(skippable), good...), refusal.Malformed, "skippable"},
		{"a dictionary", []byte{0x28, 0xb5, 0x2f, 0xfd, 0x01, 0x00, 0x07, 0x01, 0x00, 0x00}, refusal.Malformed, "needs the dictionary 7"},
		{"a window of 16 MiB", compress(t, zeros[:20<<20], zstd.WithWindowSize(16<<20), zstd.WithSingleSegment(false)), refusal.TooLarge, "window of 16777216"},
		{"a bomb that says so", compress(t, zeros), refusal.TooLarge, "at most 67108864"},
		{"a bomb that does not", undeclared.Bytes(), refusal.TooLarge, "more than 67108864"},
		{"garbage in the block", append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58, 0x25, 0x00, 0x00}, "\xff\xff\xff\xff"...), refusal.Malformed, "decompressing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse(tt.file, Limits{})
			requireRefusal(t, err, tt.kind, tt.want)
		})
	}
}

func TestParseRefusesEachForgery(t *testing.T) {
	lines := mustLines(t, mustCassette(t, smallRecorder(t)))
	first, rest, _ := strings.Cut(lines, "\n")
	all := strings.SplitAfter(lines, "\n")
	replace := func(old, new string) string {
		if !strings.Contains(lines, old) {
			t.Fatalf("the lines do not hold %q:\n%s", old, lines)
		}
		return strings.Replace(lines, old, new, 1)
	}
	for _, tt := range []struct {
		name, lines string
		limits      Limits
		kind        refusal.Name
		want        string
	}{
		{"no line", "", Limits{}, refusal.Malformed, "newline"},
		{"no newline at the end", strings.TrimSuffix(lines, "\n"), Limits{}, refusal.Malformed, "newline"},
		{"an empty line", lines + "\n", Limits{}, refusal.Malformed, "line 6"},
		{"another version", replace("cassette/1-draft", "cassette/2"), Limits{}, refusal.NewerFormat, "by a newer tally"},
		{"a later version with other fields", `{"format":"tallystick-cassette/2","new":1}` + "\n", Limits{}, refusal.NewerFormat, "by a newer tally"},
		{"not a cassette", `{"format":"something/v1"}` + "\n", Limits{}, refusal.Malformed, "not a cassette"},
		{"a list", "[]\n", Limits{}, refusal.Malformed, "not a cassette"},
		{"an unknown provenance", replace(`"provenance":"recorded"`, `"provenance":"genuine"`), Limits{}, refusal.Malformed, "provenance"},
		{"an unknown field of the header", replace(`"format":`, `"extra":1,"format":`), Limits{}, refusal.Malformed, "extra"},
		{"an unknown field of a line", replace(`{"key":`, `{"extra":1,"key":`), Limits{}, refusal.Malformed, "extra"},
		{"white space", replace(`{"key":`, `{ "key":`), Limits{}, refusal.Malformed, "not canonical"},
		{"a duplicate name", replace(`"latency_ms":1500`, `"latency_ms":1500,"latency_ms":1500`), Limits{}, refusal.Malformed, "line 2"},
		{"a lower cost", replace(`"cost_microdollars":70`, `"cost_microdollars":1`), Limits{}, refusal.Malformed, "totals"},
		{"a lower total", replace(`"cost_microdollars":140`, `"cost_microdollars":14`), Limits{}, refusal.Malformed, "totals"},
		{"fewer tokens", replace(`"tokens":46`, `"tokens":6`), Limits{}, refusal.Malformed, "totals"},
		{"another model in the header", replace(`"models":["gpt-4o"]`, `"models":["gpt-5"]`), Limits{}, refusal.Malformed, "models"},
		{"a negative latency", replace(`"latency_ms":1500`, `"latency_ms":-1`), Limits{}, refusal.Malformed, "latency_ms"},
		{"another question under the same key", replace("2+2?", "2+3?"), Limits{}, refusal.Malformed, "the key is"},
		{"another argument of a tool", replace(`"path":"."`, `"path":"/"`), Limits{}, refusal.Malformed, "the key is"},
		{"another method", replace(`"method":"tools/call"`, `"method":"tools/list"`), Limits{}, refusal.Malformed, "the key is"},
		{"a swapped order of equals", first + "\n" + all[2] + all[1] + all[3] + all[4], Limits{}, refusal.Malformed, "ordinal"},
		{"a dropped interaction", first + "\n" + all[1] + all[2] + all[3], Limits{}, refusal.Malformed, "totals"},
		{"a doubled interaction", lines + all[4], Limits{}, refusal.Malformed, "ordinal"},
		{"an unknown API", replace(`"api":"openai.chat"`, `"api":"openai.chats"`), Limits{}, refusal.Malformed, "api is"},
		{"an invalid status", replace(`"status":200`, `"status":20`), Limits{}, refusal.Malformed, "status is 20"},
		{"a header that must not be kept", replace(`"content-type":`, `"set-cookie":`), Limits{}, refusal.Malformed, "header"},
		{"a header that splits the response", replace(`application/json`, `a\r\nset-cookie: b`), Limits{}, refusal.Malformed, "one short line"},
		{"two answers of a tool", replace(`"name":"list"`, `"error":"no","name":"list"`), Limits{}, refusal.Malformed, "both or neither"},
		{"no answer of a server", replace(`"result":{"content":[]},`, ``), Limits{}, refusal.Malformed, "has 0 of error and result"},
		{"tokens beyond counting", replace(`"output_tokens":3`, `"output_tokens":2000000000`), Limits{}, refusal.Malformed, "usage counts"},
		{"two interactions in one", replace(`"ordinal":0,"tool":{`, `"mcp":{"method":"a","result":1,"server":"s"},"ordinal":0,"tool":{`), Limits{}, refusal.Malformed, "found 2 of http, mcp, model and tool"},
		{"the interactions without a header", rest, Limits{}, refusal.Malformed, "not a cassette"},
		{"a long line", lines, Limits{MaxLineBytes: 300}, refusal.TooLarge, "line 2"},
		{"many interactions", lines, Limits{MaxInteractions: 3}, refusal.TooLarge, "4 interactions"},
		{"many bytes", lines, Limits{MaxExpandedBytes: 100}, refusal.TooLarge, "at most 100"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseLines([]byte(tt.lines), tt.limits)
			requireRefusal(t, err, tt.kind, tt.want)
			if _, err := Parse(compress(t, tt.lines, zstd.WithZeroFrames(true)), tt.limits); err == nil {
				t.Error("accepted when compressed")
			}
		})
	}
}

func TestParseRefusesTooManyLinesByDefault(t *testing.T) {
	_, err := Parse(compress(t, strings.Repeat("{}\n", 100_002)), Limits{})
	requireRefusal(t, err, refusal.TooLarge, "100001 interactions")
	_, err = Parse(compress(t, `{"a":"`+strings.Repeat("x", 9<<20)+"\"}\n"), Limits{})
	requireRefusal(t, err, refusal.TooLarge, "line 1")
}

// No changed bit of a file may lead to another answer without a refusal; that
// is the digest's work, which this restates for the reader of a file.
func TestDigestCoversEveryBit(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and one goroutine has nothing to race with")
	}
	file := mustMarshal(t, mustCassette(t, smallRecorder(t)))
	want := Digest(file)
	for i := range file {
		for bit := range 8 {
			file[i] ^= 1 << bit
			if Digest(file) == want {
				t.Fatalf("byte %d bit %d changes nothing", i, bit)
			}
			_, _ = Parse(file, Limits{}) // must not panic
			file[i] ^= 1 << bit
		}
	}
}
