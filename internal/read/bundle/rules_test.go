package bundle

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tallystick/internal/testing/rules"
)

var update = flag.Bool("update", false, "write docs/formats/rules/bundle.json, parts of bundle.md and docs/formats/vectors/bundles")

var formats = filepath.Join("..", "..", "..", "docs", "formats")

// The fields of the header and of an entry of the trace, in their order, with
// what the pages say of them. TestBundleLayoutsAreThoseOfTheCode holds them to
// the bytes.
var (
	headerFields = []field{
		{"magic", "u32", "the bytes `57 56 57 52`", only(Magic)},
		{"version", "u16", "", only(Version)},
		{"flags", "u16", "those of the sections that are there, and 0x01 with an HMAC; no other bit", upTo(0x7f)},
		{"task_id", 16, "a UUID, in hexadecimal", bytesOf(16)},
		{"policy_hash", 8, "", bytesOf(8)},
		{"created_ns", "u64", "nanoseconds since 1970", rules.Shape{Is: rules.Text, Pattern: "0|[1-9][0-9]{0,19}"}},
		{"outcome", "u8", "0 solved, 1 failed, 2 skipped, 3 errored", upTo(3)},
		{"governance_mode", "u8", "0 restricted, 1 approved, 2 autonomous", upTo(2)},
		{"tool_call_count", "u16", "entries in TRACE", upTo(1<<16 - 1)},
		{"total_cost_microdollars", "u32", "sum over TRACE, and OBSERVED", upTo(1<<32 - 1)},
		{"total_latency_ms", "u32", "sum over TRACE, and OBSERVED", upTo(1<<32 - 1)},
		{"total_tokens", "u32", "sum over TRACE, and OBSERVED", upTo(1<<32 - 1)},
		{"retry_count", "u16", "", upTo(1<<16 - 1)},
		{"section_count", "u16", "all sections, known or not", upTo(1<<16 - 1)},
		{"total_bundle_size", "u32", "header, sections and HMAC", upTo(MaxBytes)},
	}
	entryFields = []field{
		{"action_length", "u16", "length N of the action", upTo(1<<16 - 1)},
		{"policy_check", "u8", "0 allowed, 1 denied, 2 confirmed", upTo(2)},
		{"padding", "u8", "", only(0)},
		{"args_hash", 8, "first 8 bytes of SHA-256", bytesOf(8)},
		{"result_hash", 8, "likewise", bytesOf(8)},
		{"latency_ms", "u32", "", upTo(1<<32 - 1)},
		{"cost_microdollars", "u32", "", upTo(1<<32 - 1)},
		{"tokens", "u32", "", upTo(1<<32 - 1)},
	}
	observedFields = []field{
		{"model_calls", "u32", "how many model calls there were", upTo(1<<32 - 1)},
		{"cost_microdollars", "u32", "what they cost", upTo(1<<32 - 1)},
		{"latency_ms", "u32", "how long they took", upTo(1<<32 - 1)},
		{"tokens", "u32", "their tokens", upTo(1<<32 - 1)},
	}
)

type field struct {
	name  string
	size  any // u8 to u64, or a number of bytes
	note  string
	shape rules.Shape
}

func only(n float64) rules.Shape { return rules.Shape{Is: rules.Count, OneOf: []any{n}} }
func upTo(n float64) rules.Shape {
	return rules.Shape{Is: rules.Count, Min: new(float64), Max: &n}
}
func bytesOf(n int) rules.Shape {
	return rules.Shape{Is: rules.Text, Pattern: fmt.Sprintf("[0-9a-f]{%d}", 2*n)}
}

func (f field) bytes() int {
	if n, ok := f.size.(int); ok {
		return n
	}
	return map[string]int{"u8": 1, "u16": 2, "u32": 4, "u64": 8}[f.size.(string)]
}

func bundleRules() *rules.File {
	f := &rules.File{
		Rules:     rules.Version,
		What:      "The header of a bundle and the entries of its trace as objects (numbers as numbers, created_ns as a decimal text, bytes in hexadecimal), how they lie in bytes, and the sections in their order. bundle.md has what holds between them.",
		Documents: map[string]*rules.Shape{}, Layouts: map[string][][2]any{},
	}
	for name, fields := range map[string][]field{"header": headerFields, "trace_entry": entryFields, "observed": observedFields} {
		shape := &rules.Shape{Is: rules.Object, Members: map[string]*rules.Shape{}}
		for _, x := range fields {
			f.Layouts[name] = append(f.Layouts[name], [2]any{x.name, x.size})
			shape.Members[x.name] = &x.shape
		}
		f.Documents[name] = shape
	}
	for _, k := range knownTags {
		f.Sections = append(f.Sections, rules.Section{Name: k.name, Tag: int(k.tag), Flag: int(k.flag)})
	}
	return f
}

// TestBundleLayoutsAreThoseOfTheCode takes the bytes that the code writes apart
// by the layouts.
func TestBundleLayoutsAreThoseOfTheCode(t *testing.T) {
	h := Header{Version: 1, Flags: 2, TaskID: UUID{3}, PolicyHash: ShortHash{4}, CreatedNS: 5, Outcome: 1, Mode: 2, ToolCalls: 6, CostMicrodollars: 7,
		LatencyMS: 8, Tokens: 9, Retries: 10, Sections: 11, Size: 12}
	call := ToolCall{Action: "", Check: 2, ArgsHash: ShortHash{3}, ResultHash: ShortHash{4}, LatencyMS: 5, CostMicrodollars: 6, Tokens: 7}
	for name, tt := range map[string]struct {
		fields []field
		data   []byte
		want   []uint64
	}{
		"header":   {headerFields, h.append(nil), []uint64{Magic, 1, 2, 3, 4, 5, 1, 2, 6, 7, 8, 9, 10, 11, 12}},
		"entry":    {entryFields, appendToolCall(nil, call), []uint64{0, 2, 0, 3, 4, 5, 6, 7}},
		"observed": {observedFields, (&Observed{ModelCalls: 1, CostMicrodollars: 2, LatencyMS: 3, Tokens: 4}).append(nil), []uint64{1, 2, 3, 4}},
	} {
		at := 0
		for i, f := range tt.fields {
			var wide [16]byte
			copy(wide[:], tt.data[at:at+f.bytes()])
			if got := binary.LittleEndian.Uint64(wide[:]); got != tt.want[i] {
				t.Errorf("%s: %s at offset %#x is %d, want %d", name, f.name, at, got, tt.want[i])
			}
			at += f.bytes()
		}
		if at != len(tt.data) {
			t.Errorf("%s: the layout has %d bytes, the code writes %d", name, at, len(tt.data))
		}
	}
}

// TestBundlePage writes docs/formats/rules/bundle.json and the tables of
// bundle.md that follow from it, and compares.
func TestBundlePage(t *testing.T) {
	data, err := bundleRules().Format()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(formats, "bundle.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := between(t, string(page), "header", layoutTable(headerFields))
	text = between(t, text, "trace entry", layoutTable(entryFields)+"| 0x20 | N bytes | action, UTF-8 |\n")
	text = between(t, text, "observed", layoutTable(observedFields)+"| 0x10 | N bytes | one for each entry of TRACE, its vantage: 0 executed, 1 reported by the agent, 2 proposed by the model |\n")
	for name, want := range map[string][]byte{"rules/bundle.json": data, "bundle.md": []byte(text)} {
		file := filepath.Join(formats, filepath.FromSlash(name))
		if *update {
			if err := writeFile(file, want); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the code gives (%v); run \"go test ./internal/read/bundle -run Bundle -update\" and read the diff", file, err)
		}
	}
}

func layoutTable(fields []field) string {
	var b strings.Builder
	b.WriteString("| Offset | Type | Field |\n|---|---|---|\n")
	at := 0
	for _, f := range fields {
		size := fmt.Sprint(f.size)
		if n, ok := f.size.(int); ok {
			size = fmt.Sprintf("%d bytes", n)
		}
		note := f.note
		if f.shape.OneOf != nil {
			note = strings.TrimSuffix(fmt.Sprintf("%#x, %s", int(f.shape.OneOf[0].(float64)), note), ", ")
		}
		fmt.Fprintf(&b, "| %#04x | %s | %s |\n", at, size, strings.TrimSuffix("`"+f.name+"`: "+note, ": "))
		at += f.bytes()
	}
	return b.String()
}

// between puts a table between its two comments on the page.
func between(t *testing.T, page, name, table string) string {
	t.Helper()
	begin, end := "<!-- layout of the "+name+": generated -->\n", "<!-- end of the layout -->"
	before, rest, ok := strings.Cut(page, begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("bundle.md has no %q", begin)
	}
	return before + begin + table + end + after
}

func writeFile(path string, data []byte) error {
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, 0o644))
}

// bundleForgeries are changes of the sample that a reader refuses.
func bundleForgeries(t *testing.T) []struct {
	name, reason string
	data         []byte
} {
	good := func() []byte { return pack(t, sample(), Seals{Key: testSigner()}) }
	le := binary.LittleEndian
	put := func(at int, v byte) []byte { d := good(); d[at] = v; return d }
	withoutPlan := sample()
	withoutPlan.Plan = nil
	swapped := func() []byte {
		d := good()
		le.PutUint16(d[find(t, d, TagSpec):], uint16(TagPlan))
		le.PutUint16(d[find(t, d, TagTrace)-6-len(sample().Plan):], uint16(TagSpec))
		return d
	}
	observed := func(at int, v byte) []byte {
		d := pack(t, observedBundle(), Seals{})
		d[find(t, d, TagObserved)+6+at] = v
		return d
	}
	return []struct {
		name, reason string
		data         []byte
	}{
		{"observed-without-cost", "the header's cost is not that of TRACE and OBSERVED", observed(5, 0)},
		{"observed-without-time", "the header's latency is not that of TRACE and OBSERVED", observed(8, 0)},
		{"observed-other-tokens", "the header's tokens are not those of TRACE and OBSERVED", observed(12, 0)},
		{"observed-unknown-vantage", "a vantage is 0 to 2", observed(16, 3)},
		{"observed-without-section", "the header's sums are not those of TRACE", remove(t, pack(t, observedBundle(), Seals{}), TagObserved)},
		{"another-magic", "it does not begin as a bundle does", put(0, 'R')},
		{"cut", "it ends before total_bundle_size", good()[:len(good())-1]},
		{"longer", "bytes follow the end", append(good(), 0)},
		{"version-2", "the version is not 1", put(4, 2)},
		{"an-unknown-flag", "a flag that no section has", put(7, 1)},
		{"a-flag-without-its-section", "flags are not those of the sections", func() []byte { d := pack(t, withoutPlan, Seals{}); d[6] |= FlagHasPlan; return d }()},
		{"an-unknown-outcome", "outcome is 0 to 3", put(0x28, 4)},
		{"an-unknown-mode", "governance_mode is 0 to 2", put(0x29, 3)},
		{"another-count", "tool_call_count is not that of the trace", put(0x2a, 3)},
		{"another-cost", "total_cost_microdollars is not the sum of the trace", put(0x2c, 0)},
		{"another-latency", "total_latency_ms is not the sum of the trace", put(0x30, 0)},
		{"other-tokens", "total_tokens is not the sum of the trace", put(0x34, 0)},
		{"another-section-count", "section_count is not the number of sections", put(0x3a, 9)},
		{"no-postmortem", "the outcome is failed and there is no POSTMORTEM", remove(t, good(), TagPostmortem)},
		{"sections-swapped", "sections are not in their order", swapped()},
		{"a-section-twice", "a section is there twice", insert(good(), headerSize, TagSpec, []byte("x"))},
		{"behind-the-signature", "an unknown section stands after the signature", insertEnd(good(), 0x7777)},
		{"an-unknown-check", "policy_check is 0 to 2", put(find(t, good(), TagTrace)+6+2, 3)},
		{"padding", "the padding is not 0", put(find(t, good(), TagTrace)+6+3, 1)},
		{"an-action-that-is-not-text", "an action is not UTF-8", put(find(t, good(), TagTrace)+6+32, 0xff)},
		{"another-full-hash", "a full hash does not begin with the short one", put(find(t, good(), TagFullHashes)+6, 0xff)},
		{"a-short-signature", "ED25519 has 96 bytes", insertEnd(pack(t, sample(), Seals{}), TagEd25519)},
		{"not-a-receipt", "RECEIPT is not a receipt", insertEnd(pack(t, sample(), Seals{}), TagReceipt)},
	}
}

// insertEnd puts a section of one byte behind all others of an unsigned bundle.
func insertEnd(data []byte, tag Tag) []byte { return insert(data, len(data), tag, []byte("x")) }

// TestBundleVectors writes docs/formats/vectors/bundles and compares.
func TestBundleVectors(t *testing.T) {
	solved := sample()
	solved.Outcome, solved.Postmortem, solved.Trace, solved.Full = Solved, nil, nil, nil
	vectors := []rules.Vector{
		{Name: "failed.rvf", As: "bundle", Data: pack(t, sample(), Seals{Key: testSigner()})},
		{Name: "failed-with-hmac.rvf", As: "bundle", Data: pack(t, sample(), Seals{HMACKey: testKey})},
		{Name: "solved-without-calls.rvf", As: "bundle", Data: pack(t, solved, Seals{})},
		{Name: "observed.rvf", As: "bundle", Data: pack(t, observedBundle(), Seals{})},
		{Name: "an-unknown-section.rvf", As: "bundle", Data: insert(pack(t, sample(), Seals{}), headerSize, 0x7777, []byte("x"))},
	}
	for _, f := range bundleForgeries(t) {
		vectors = append(vectors, rules.Vector{Name: f.name + ".rvf", As: "bundle", Reason: f.reason, Data: f.data})
	}
	for _, v := range vectors {
		if _, err := Parse(v.Data); (err == nil) != (v.Reason == "") {
			t.Errorf("%s: the program says %v, the vector says %q", v.Name, err, v.Reason)
		}
	}
	files, err := rules.Files(rules.Index{What: "Bundles, parsed; no seal is asked for."}, vectors)
	if err != nil {
		t.Fatal(err)
	}
	write := writeFile
	if !*update {
		write = nil
	}
	for _, wrong := range rules.Compare(filepath.Join(formats, "vectors", "bundles"), files, write) {
		t.Error(wrong)
	}
}

// TestSecondVerifierParsesBundlesAlike changes bundles in hundreds of ways: the
// stranger's verifier must think of each what Parse does.
func TestSecondVerifierParsesBundlesAlike(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not in PATH; docs/formats/verify.py is not tried")
	}
	script, err := filepath.Abs(filepath.Join(formats, "verify.py"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{script, filepath.Join(formats, "rules", "bundle.json")} { // tells the test cache
		if _, err := os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	var vectors []rules.Vector
	for i := range 600 {
		data := pack(t, sample(), Seals{Key: testSigner()})
		for range 1 + i%2 {
			switch at := random.IntN(len(data)); random.IntN(4) {
			case 0:
				data[at] = byte(random.IntN(256))
			case 1:
				data[random.IntN(headerSize)] ^= 1 << random.IntN(8)
			case 2:
				tags := []Tag{TagSpec, TagPlan, TagTrace, TagDiff, TagTestLog, TagPostmortem}
				if tag := tags[i%len(tags)]; bytes.HasPrefix(data, []byte{0x57, 0x56, 0x57, 0x52}) && i%3 == 0 && len(data) == len(pack(t, sample(), Seals{Key: testSigner()})) {
					data = remove(t, pack(t, sample(), Seals{Key: testSigner()}), tag)
				}
			case 3:
				data = insert(data, headerSize, Tag(random.IntN(12)), []byte("x"))
			}
		}
		v := rules.Vector{Name: fmt.Sprintf("%d.rvf", i), As: "bundle", Data: data}
		if _, err := Parse(data); err != nil {
			v.Reason = "refused"
		}
		vectors = append(vectors, v)
	}
	files, err := rules.Files(rules.Index{}, vectors)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, data := range files {
		if err := writeFile(filepath.Join(dir, "bundles", filepath.FromSlash(name)), data); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command(python, "-I", "-B", script, "vectors", dir).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
