package main

import (
	"archive/zip"
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"tallystick/internal/record/seal"
	"tallystick/internal/share/submission"
	"tallystick/internal/share/verify"
	"tallystick/internal/testing/doubled"
)

// agree DIR KEY forges the package in DIR, that the last answer names the ledger of, in
// some hundreds of ways, and wants the two verifiers to agree about each: tally-verify's
// and the one in Python, which must not end in a traceback. Most are signed again with the
// operator's KEY.
func cmdAgree(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: agree DIR KEY")
	}
	var submitted struct {
		Key string `json:"ledger_key"`
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &submitted))
	var trust verify.Trust
	ts.Check(trust.AddLog(submitted.Key))
	second := newSecond(ts, submitted.Key)
	f := &forger{ts: ts, whole: readAll(ts, ts.MkAbs(args[0])), key: args[1]}
	f.everything()

	counts := map[string]int{}
	for i, c := range f.cases {
		path := filepath.Join(ts.Getenv("TMPDIR"), "forged.zip")
		ts.Check(os.WriteFile(path, c.archive, 0o644))
		files, err := submission.Unzip(c.archive)
		if err == nil {
			_, err = submission.Verify(files, trust.Policy())
		}
		code, said := second.verify(ts, path)
		switch {
		case code < 0 || strings.Contains(said, "Traceback"):
			ts.Fatalf("agree: %s: the second verifier broke: %s", c.name, said)
		case i == 0 && (err != nil || code != 0):
			ts.Fatalf("agree: the package itself: %v; %s", err, said)
		case i == 0:
		case err == nil:
			ts.Fatalf("agree: %s: the first verifier took it, the second said %s", c.name, said)
		case c.words:
			counts["by the first alone"]++
		case code == 0:
			ts.Fatalf("agree: %s: the first verifier said %v, and the second took it", c.name, err)
		default:
			counts["by both"]++
		}
	}
	ts.Logf("agree: %v", counts)
	if counts["by both"] < 200 {
		ts.Fatalf("agree: only %d forgeries were refused by both", counts["by both"])
	}
}

// A forged is a package in one file. Words says that only the words of the audit's report
// are forged, which the second verifier does not know.
type forged struct {
	name    string
	archive []byte
	words   bool
}

// A forger makes cases, the first of which is the package itself.
type forger struct {
	ts    *testscript.TestScript
	whole map[string][]byte
	key   string
	cases []forged
}

// how a package is signed after a change.
type signing string

const (
	asItIs  signing = ""
	again   signing = ", signed again"
	rawSign signing = ", the manifest signed as it is"
)

func (f *forger) add(name string, how signing, change func(files map[string][]byte)) {
	files := maps.Clone(f.whole)
	change(files)
	if maps.EqualFunc(files, f.whole, bytes.Equal) && name != "" {
		f.ts.Fatalf("agree: %s: nothing was changed", name)
	}
	switch how {
	case again:
		resign(f.ts, files, f.key)
	case rawSign:
		key, err := seal.LoadKey(f.ts.MkAbs(f.key))
		f.ts.Check(err)
		files[submission.SignatureFile], err = seal.SignWith(key.Signer(), seal.NamespaceSubmission, files[submission.ManifestFile])
		f.ts.Check(err)
	}
	archive, err := submission.Zip(files)
	f.ts.Check(err)
	f.cases = append(f.cases, forged{name: name + string(how), archive: archive})
}

// set is add for the content of one file.
func (f *forger) set(name string, how signing, path string, data []byte) {
	f.add(path+": "+name, how, func(files map[string][]byte) { files[path] = data })
}

func (f *forger) everything() {
	f.add("", asItIs, func(map[string][]byte) {})
	for _, path := range f.representatives() {
		f.file(path)
	}
	for _, path := range []string{submission.MetadataFile, submission.AuditFile, submission.RegistrationFile, submission.TargetFile, submission.CompatFile} {
		f.document(path, again, f.whole[path])
	}
	f.document(submission.ManifestFile, rawSign, f.whole[submission.ManifestFile])
	for _, path := range []string{submission.ResultsFile, submission.TrajectoriesFile} {
		f.lines(path)
	}
	f.receipts()
	f.others()
	f.archives()
}

// representatives are the files, but of folders the first two.
func (f *forger) representatives() []string {
	var out []string
	seen := map[string]int{}
	for _, path := range slices.Sorted(maps.Keys(f.whole)) {
		folder := filepath.ToSlash(filepath.Dir(path))
		if seen[folder]++; folder == "." || folder == "receipts" || seen[folder] <= 2 {
			out = append(out, path)
		}
	}
	return out
}

// file removes, empties, cuts and changes a file.
func (f *forger) file(path string) {
	data := f.whole[path]
	middle := bytes.Clone(data)
	middle[len(middle)/2] ^= 1
	for _, how := range []signing{asItIs, again} {
		if how == again && (path == submission.ManifestFile || path == submission.SignatureFile) {
			continue
		}
		f.add(path+" is gone", how, func(files map[string][]byte) { delete(files, path) })
		f.set("emptied", how, path, nil)
		f.set("cut in the middle", how, path, data[:len(data)/2])
		f.set("without its last byte", how, path, data[:len(data)-1])
		f.set("one byte changed", how, path, middle)
		f.set("one byte more", how, path, append(bytes.Clone(data), '\n'))
	}
}

// words are members of the report that only the audit itself could tell.
var words = []string{"threat_model", "rules", "rules.version", "rules.digest", "bodies_demanded"}

// document changes, removes, doubles and adds members.
func (f *forger) document(path string, how signing, data []byte) {
	twice, err := doubled.Every(data)
	f.ts.Check(err)
	for i, d := range twice {
		if i%3 == 0 || !strings.ContainsAny(d.Path, ".[") { // of what is deep a third
			f.set("two of "+d.Path, how, path, d.Data)
		}
	}
	var members map[string]json.RawMessage
	f.ts.Check(json.Unmarshal(data, &members))
	for _, name := range slices.Sorted(maps.Keys(members)) {
		for what, value := range map[string]string{"null": "null", "another": changed(members[name])} {
			if compact(members[name]) == compact([]byte(value)) {
				continue
			}
			text := bytes.Replace(data, members[name], []byte(value), 1)
			if bytes.Count(data, members[name]) > 1 { // a short value: by its name
				text = bytes.Replace(data, append([]byte(`"`+name+`": `), members[name]...), []byte(`"`+name+`": `+value), 1)
			}
			if bytes.Equal(text, data) {
				continue
			}
			f.set(what+" for "+name, how, path, text)
			f.cases[len(f.cases)-1].words = path == submission.AuditFile && slices.Contains(words, name) && what == "another"
		}
	}
	f.set("a member more", how, path, append([]byte(`{"another":1,`), bytes.TrimSpace(data)[1:]...))
	f.set("a blank more", how, path, bytes.Replace(data, []byte(":"), []byte(": "), 1))
	f.set("an escape", how, path, bytes.Replace(data, []byte("a"), []byte(`\u0061`), 1))
	f.set("a list", how, path, []byte("[]\n"))
	f.set("a number", how, path, []byte("7\n"))
	f.set("deep", how, path, []byte(strings.Repeat("[", 3000)+strings.Repeat("]", 3000)))
}

func compact(data []byte) string {
	var b bytes.Buffer
	if json.Compact(&b, data) != nil {
		return string(data)
	}
	return b.String()
}

// changed is another value of the same type.
func changed(v json.RawMessage) string {
	switch v[0] {
	case '"':
		return `"forged"`
	case '{':
		return `{"forged": true}`
	case '[':
		return `["forged"]`
	case 't':
		return "false"
	case 'f':
		return "true"
	case 'n':
		return "1"
	}
	return "987654"
}

// lines changes lines, and the members of the first of them.
func (f *forger) lines(path string) {
	data := f.whole[path]
	list := bytes.SplitAfter(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))
	last := len(list) - 1
	list[last] = append(bytes.Clone(list[last]), '\n')
	join := func(lines ...[]byte) []byte { return bytes.Join(lines, nil) }
	rest := join(list[1:]...)
	f.set("the first line is gone", again, path, rest)
	f.set("the last line is gone", again, path, join(list[:last]...))
	f.set("the first line twice", again, path, join(list[0], data))
	f.set("the last line twice", again, path, join(data, list[last]))
	f.set("two lines exchanged", again, path, join(list[1], list[0], join(list[2:]...)))
	f.set("a blank line", again, path, join(list[0], []byte("\n"), rest))
	f.set("a line of nothing", again, path, join(list[0], []byte("{}\n"), rest))
	f.set("no last newline", again, path, data[:len(data)-1])
	var members map[string]json.RawMessage
	f.ts.Check(json.Unmarshal(list[0], &members))
	for _, name := range slices.Sorted(maps.Keys(members)) {
		with := func(what, value string) {
			line := bytes.Replace(list[0], append([]byte(`"`+name+`":`), members[name]...), []byte(`"`+name+`":`+value), 1)
			if !bytes.Equal(line, list[0]) {
				f.set(what+" for "+name, again, path, join(line, rest))
			}
		}
		with("another", changed(members[name]))
		with("null", "null")
	}
	twice, err := doubled.Every(list[0])
	f.ts.Check(err)
	for _, d := range twice {
		f.set("two of "+d.Path, again, path, join(d.Data, rest))
	}
	f.set("a member more", again, path, join([]byte(`{"another":1,`), list[0][1:], rest))
	f.set("a blank more", again, path, join([]byte(`{ `), list[0][1:], rest))
	for _, old := range []string{`"type":"llm_call"`, `"vantage":"executed"`, `"turn":1`, `"scanned":true`, `"offsets":[`, `"tokens_in":`, `"bytes":`, `"head":"`} {
		if i := bytes.Index(list[0], []byte(old)); i >= 0 {
			f.set("another "+old, again, path, join(list[0][:i], []byte(strings.NewReplacer("llm_call", "prompt", "executed", "proposed", "true", "false", `:1`, `:2`, "[", "[7,", `s":`, `s":9`, `n":`, `n":9`, `d":"`, `d":"x`).Replace(old)), list[0][i+len(old):], rest))
		}
	}
}

// receipts exchanges, drops, doubles and empties receipts.
func (f *forger) receipts() {
	var proofs []string
	for _, path := range slices.Sorted(maps.Keys(f.whole)) {
		if strings.HasPrefix(path, "receipts/") {
			proofs = append(proofs, path)
		}
	}
	for i, one := range proofs {
		other := proofs[(i+1)%len(proofs)]
		f.add(one+" and "+other+" exchanged", again, func(files map[string][]byte) { files[one], files[other] = files[other], files[one] })
		magic, rest, _ := bytes.Cut(f.whole[one], []byte("\n"))
		f.set("no receipts", again, one, append(bytes.Clone(magic), '\n'))
		f.set("another format", again, one, append([]byte("tallystick-proof/0\n"), rest...))
		f.set("a longer receipt than there is", again, one, bytes.Replace(f.whole[one], []byte("receipt "), []byte("receipt 9"), 1))
		f.set("a number with a zero", again, one, bytes.Replace(f.whole[one], []byte("receipt "), []byte("receipt 0"), 1))
		f.add("no receipts in a new file beside "+one, again, func(files map[string][]byte) {
			files[strings.Replace(one, "-0001", "-0002", 1)] = append(bytes.Clone(magic), '\n')
		})
		if at := bytes.LastIndex(f.whole[one], []byte("\nreceipt ")); at >= 0 && !strings.Contains(one, "rest") {
			f.set("the last receipt is gone", again, one, f.whole[one][:at+1])
			f.set("the last receipt twice", again, one, slices.Concat(f.whole[one], f.whole[one][at+1:]))
		}
	}
}

// others are what the operator could add, or say instead.
func (f *forger) others() {
	put := func(path, data string) {
		f.add("one more file, "+path, again, func(files map[string][]byte) { files[path] = []byte(data) })
		f.add("one more file, "+path, asItIs, func(files map[string][]byte) { files[path] = []byte(data) })
	}
	put("NOTE.md", "x")
	put("receipts/note.txt", "x")
	put("receipts/none-0001.proof", "x")
	put("evidence/"+strings.Repeat("0", 64), "x")
	put("evidence/note", "x")
	put("bodies/"+strings.Repeat("0", 64), "x")
	put("bodies/2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881", "x") // the SHA-256 of x
	put("compat/more.json", "{}")
	f.add("a piece under another name", again, func(files map[string][]byte) {
		for _, path := range slices.Sorted(maps.Keys(files)) {
			if strings.HasPrefix(path, "evidence/") {
				files["evidence/"+strings.Repeat("1", 64)] = files[path]
				return
			}
		}
	})
	f.add("two pieces exchanged", again, func(files map[string][]byte) {
		var two []string
		for _, path := range slices.Sorted(maps.Keys(files)) {
			if strings.HasPrefix(path, "evidence/") {
				two = append(two, path)
			}
		}
		files[two[0]], files[two[1]] = files[two[1]], files[two[0]]
	})
}

// archives are zip files of other forms.
func (f *forger) archives() {
	honest := f.cases[0].archive
	put := func(name string, data []byte) {
		f.cases = append(f.cases, forged{name: "an archive " + name, archive: data})
	}
	write := func(name string, change func(w *zip.Writer, i int, h *zip.FileHeader, data []byte) []byte) {
		var out bytes.Buffer
		w := zip.NewWriter(&out)
		for i, path := range slices.Sorted(maps.Keys(f.whole)) {
			h := &zip.FileHeader{Name: path, Method: zip.Store}
			data := change(w, i, h, f.whole[path])
			one, err := w.CreateHeader(h)
			f.ts.Check(err)
			_, err = one.Write(data)
			f.ts.Check(err)
		}
		f.ts.Check(w.Close())
		put(name, out.Bytes())
	}
	same := func(_ *zip.Writer, _ int, _ *zip.FileHeader, data []byte) []byte { return data }
	write("as another program writes it", same)
	write("with a comment", func(w *zip.Writer, _ int, _ *zip.FileHeader, data []byte) []byte { w.SetComment("x"); return data })
	write("that is compressed", func(_ *zip.Writer, _ int, h *zip.FileHeader, data []byte) []byte { h.Method = zip.Deflate; return data })
	write("with a comment of an entry", func(_ *zip.Writer, _ int, h *zip.FileHeader, data []byte) []byte { h.Comment = "x"; return data })
	write("with an extra field", func(_ *zip.Writer, _ int, h *zip.FileHeader, data []byte) []byte {
		h.Extra = []byte{1, 0, 0, 0}
		return data
	})
	write("with a folder", func(w *zip.Writer, i int, h *zip.FileHeader, data []byte) []byte {
		if i == 0 {
			_, err := w.CreateHeader(&zip.FileHeader{Name: "evidence/"})
			f.ts.Check(err)
		}
		return data
	})
	write("with a name twice", func(w *zip.Writer, i int, h *zip.FileHeader, data []byte) []byte {
		if i == 0 {
			one, err := w.CreateHeader(&zip.FileHeader{Name: h.Name, Method: zip.Store})
			f.ts.Check(err)
			_, err = one.Write(data)
			f.ts.Check(err)
		}
		return data
	})
	write("whose names lead out", func(_ *zip.Writer, i int, h *zip.FileHeader, data []byte) []byte {
		if i == 0 {
			h.Name = "../" + h.Name
		}
		return data
	})
	put("with bytes behind it", append(bytes.Clone(honest), 'x'))
	put("with bytes before it", append([]byte("PK\x03\x04x"), honest...))
	put("that is cut off", honest[:len(honest)-9])
	put("that is half", honest[:len(honest)/2])
	put("of nothing", []byte("PK\x05\x06"+strings.Repeat("\x00", 18)))
	put("that is empty", nil)
	at := func(sign string, offset int, change func([]byte)) []byte {
		data := bytes.Clone(honest)
		change(data[bytes.Index(data, []byte(sign))+offset:])
		return data
	}
	put("whose entry has another name before the file", at("PK\x03\x04", 30, func(b []byte) { b[0] ^= 1 }))
	put("whose entry has another length before the file", at("PK\x03\x04", 22, func(b []byte) { b[0]++ }))
	put("whose entry has another sum before the file", at("PK\x03\x04", 14, func(b []byte) { b[0]++ }))
	put("whose entry has another sum", at("PK\x01\x02", 16, func(b []byte) { b[0]++ }))
	put("whose entry has a time", at("PK\x01\x02", 12, func(b []byte) { b[0] = 1 }))
	put("whose entry is encrypted", at("PK\x01\x02", 8, func(b []byte) { b[0] = 1 }))
	put("whose entry is of another method", at("PK\x01\x02", 10, func(b []byte) { b[0] = 99 }))
	put("whose entry is elsewhere", at("PK\x01\x02", 42, func(b []byte) { binary.LittleEndian.PutUint32(b, 1<<30) }))
	put("that has more entries than it has", at("PK\x05\x06", 10, func(b []byte) { b[0]++ }))
}

// A second is the verifier in Python as one process, in which what is hashed once is not
// hashed again.
type second struct {
	in  *bufio.Writer
	out *bufio.Scanner
}

const secondDriver = `
import contextlib, functools, io, json, sys, traceback
sys.path.insert(0, sys.argv[1])
import verify, verify_submission
verify.blake3 = verify_submission.blake3 = functools.lru_cache(None)(verify.blake3)
verify.ed25519_verify = functools.lru_cache(None)(verify.ed25519_verify)
for name in ("ed25519_sign", "parse_receipt", "parse_entry", "canonical"):
    setattr(verify_submission, name, functools.lru_cache(None)(getattr(verify_submission, name)))
key = sys.argv[2]
for line in sys.stdin:
    sys.argv, said = ["verify_submission.py", "--key", key, line.rstrip("\n")], io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            code = verify_submission.main()
    except BaseException:
        code = -1
        said.write(traceback.format_exc())
    print(json.dumps([code, said.getvalue()]), flush=True)
`

func newSecond(ts *testscript.TestScript, key string) *second {
	dir, err := filepath.Abs(filepath.Join("..", "..", "docs", "formats"))
	ts.Check(err)
	cmd := exec.Command("python3", "-B", "-c", secondDriver, dir, key)
	in, err := cmd.StdinPipe()
	ts.Check(err)
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	cmd.Stderr = os.Stderr
	ts.Check(cmd.Start())
	ts.Defer(func() {
		in.Close()
		cmd.Wait()
	})
	s := &second{bufio.NewWriter(in), bufio.NewScanner(out)}
	s.out.Buffer(nil, 1<<20)
	return s
}

func (s *second) verify(ts *testscript.TestScript, path string) (code int, said string) {
	fmt.Fprintln(s.in, path)
	ts.Check(s.in.Flush())
	if !s.out.Scan() {
		ts.Fatalf("agree: the second verifier is gone: %v", s.out.Err())
	}
	var answer []any
	ts.Check(json.Unmarshal(s.out.Bytes(), &answer))
	return int(answer[0].(float64)), answer[1].(string)
}
