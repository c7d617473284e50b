package browser

import (
	"bufio"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/zeebo/blake3"

	"tallystick/internal/record/seal"
)

var update = flag.Bool("update", false, "write rules_data.js from docs/formats/rules")

const formats = "../../../docs/formats"

// A runner asks our scripts questions, in Node.js.
type runner struct {
	t   *testing.T
	in  *json.Encoder
	out *bufio.Scanner
}

type question map[string]any

// answer is what came back: ok, or why not.
type answer struct {
	OK          json.RawMessage `json:"ok"`
	Error, Kind string
}

func startNode(t *testing.T) *runner {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("Node.js is not installed: the scripts are not run here")
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, Scripts()); err != nil {
		t.Fatal(err)
	}
	driver, err := os.ReadFile("testdata/driver.js")
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"package.json": []byte(`{"type":"module"}`), "driver.js": driver} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(node, "driver.js")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	r := &runner{t: t, in: json.NewEncoder(in), out: bufio.NewScanner(out)}
	r.out.Buffer(nil, 1<<26)
	return r
}

func (r *runner) ask(q question) answer {
	r.t.Helper()
	if err := r.in.Encode(q); err != nil {
		r.t.Fatal(err)
	}
	if !r.out.Scan() {
		r.t.Fatalf("no answer to %v", q["op"])
	}
	var a answer
	if err := json.Unmarshal(r.out.Bytes(), &a); err != nil {
		r.t.Fatal(err)
	}
	return a
}

// want asks and wants exactly this.
func (r *runner) want(want any, q question) {
	r.t.Helper()
	a := r.ask(q)
	data, _ := json.Marshal(want)
	var got any
	if json.Unmarshal(a.OK, &got) == nil {
		a.OK, _ = json.Marshal(got) // both are escaped alike
	}
	if a.Error != "" || string(a.OK) != string(data) {
		r.t.Errorf("%v of %.80v: got %s %s, want %s", q["op"], q["data"], a.OK, a.Error, data)
	}
}

func (r *runner) refuses(why string, q question) {
	r.t.Helper()
	if a := r.ask(q); a.Error == "" {
		r.t.Errorf("%s: accepted: %s", why, a.OK)
	} else if a.Kind != "Refused" && a.Kind != "Malformed" {
		r.t.Errorf("%s: refused by accident: %s: %s", why, a.Kind, a.Error)
	}
}

func hexOf(data []byte) string { return hex.EncodeToString(data) }

func read(t *testing.T, name ...string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(name...))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestHashesAreThoseOfTheProgram(t *testing.T) {
	r := startNode(t)
	// FIPS 180-4 and the BLAKE3 test vectors: no bytes, "abc", and the sequence 0..250
	// around the borders of blocks, chunks and subtrees.
	for _, n := range []int{0, 1, 3, 55, 56, 63, 64, 65, 111, 112, 127, 128, 129, 1023, 1024, 1025, 2048, 2049, 3072, 3073, 4096, 4097, 5121, 8193, 31745, 102400} {
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(i % 251)
		}
		s256, s512, b3 := sha256.Sum256(data), sha512.Sum512(data), blake3.Sum256(data)
		r.want(hexOf(s256[:]), question{"op": "sha256", "data": hexOf(data)})
		r.want(hexOf(s512[:]), question{"op": "sha512", "data": hexOf(data)})
		r.want(hexOf(b3[:]), question{"op": "blake3", "data": hexOf(data)})
	}
	r.want("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", question{"op": "sha256", "data": "616263"})
	r.want("6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85", question{"op": "blake3", "data": "616263"})
}

func TestBase64HasOneSpelling(t *testing.T) {
	r := startNode(t)
	r.want("", question{"op": "base64", "data": ""})
	r.want("00", question{"op": "base64", "data": "AA=="})
	r.want("fffeff", question{"op": "base64", "data": "//7/"})
	for _, bad := range []string{"AB==", "AAB=", "AA", "AA=", "A===", "====", "AA==AA==", "A A=", "AA-_", "AA==\n", "Ää=="} {
		r.refuses(bad, question{"op": "base64", "data": bad})
	}
}

// unhex is for constants.
func unhex(s string) []byte {
	data, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return data
}

func TestEd25519IsAsStrictAsTheProgram(t *testing.T) {
	r := startNode(t)
	order, _ := new(big.Int).SetString("7237005577332262213973186563042994240857116359379907606001950938285454250989", 10)
	key := ed25519.NewKeyFromSeed(make([]byte, 32))
	pub := []byte(key.Public().(ed25519.PublicKey))
	good := ed25519.Sign(key, []byte("message"))
	// S + L is the other spelling of S that lenient verifiers accept.
	malleable := slices.Clone(good)
	s := new(big.Int).SetBytes(reversed(good[32:]))
	copy(malleable[32:], reversed(s.Add(s, order).FillBytes(make([]byte, 32))))
	identity := append([]byte{1}, make([]byte, 31)...)

	for _, v := range []struct {
		name                    string
		key, message, signature []byte
		want                    bool
	}{
		{"our own", pub, []byte("message"), good, true},
		{"another message", pub, []byte("massage"), good, false},
		{"S + L", pub, []byte("message"), malleable, false},
		{"cut", pub, []byte("message"), good[:63], false},
		{"longer", pub, []byte("message"), append(slices.Clone(good), 0), false},
		{"the identity as key, R and S of nothing: fits every message", identity, []byte("message"), append(slices.Clone(identity), make([]byte, 32)...), false},
		{"RFC 8032, section 7.1, test 1", unhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"), nil, unhex("e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"), true},
		{"RFC 8032, section 7.1, test 2", unhex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"), unhex("72"), unhex("92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"), true},
		// "Taming the many EdDSAs" (Chalkias, Garillot, Nikolaenko, 2020), cases of ed25519-speccheck.
		{"speccheck 0: small-order key and R", unhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa"), unhex("8c93255d71dcab10e8f379c26200f3c7bd5f09d9bc3068d3ef4edeb4853022b6"), unhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a0000000000000000000000000000000000000000000000000000000000000000"), false},
		{"speccheck 1: small-order key", unhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa"), unhex("9bd9f44f4dcc75bd531b56b2cd280b0bb38fc1cd6d1230e14861d861de092e79"), unhex("f7badec5b8abeaf699583992219b7b223f1df3fbbea919844e3f7c554a43dd43a5bb704786be79fc476f91d3f3f89b03984d8068dcf1bb7dfc6637b45450ac04"), false},
		{"speccheck 2: small-order R", unhex("f7badec5b8abeaf699583992219b7b223f1df3fbbea919844e3f7c554a43dd43"), unhex("aebf3f2601a0c8c5d39cc7d8911642f740b78168218da8471772b35f9d35b9ab"), unhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa8c4bd45aecaca5b24fb97bc10ac27ac8751a7dfe1baff8b953ec9f5833ca260e"), true},
		{"speccheck 3: mixed order, fits without cofactor", unhex("cdb267ce40c5cd45306fa5d2f29731459387dbf9eb933b7bd5aed9a765b88d4d"), unhex("9bd9f44f4dcc75bd531b56b2cd280b0bb38fc1cd6d1230e14861d861de092e79"), unhex("9046a64750444938de19f227bb80485e92b83fdb4b6506c160484c016cc1852f87909e14428a7a1d62e9f22f3d3ad7802db02eb2e688b6c52fcd6648a98bd009"), true},
		{"speccheck 4: fits with cofactor only", unhex("cdb267ce40c5cd45306fa5d2f29731459387dbf9eb933b7bd5aed9a765b88d4d"), unhex("e47d62c63f830dc7a6851a0b1f33ae4bb2f507fb6cffec4011eaccd55b53f56c"), unhex("160a1cb0dc9c0258cd0a7d23e94d8fa878bcb1925f2c64246b2dee1796bed5125ec6bc982a269b723e0668e540911a9a6a58921d6925e434ab10aa7940551a09"), false},
		{"speccheck 6: S beyond L", unhex("442aad9f089ad9e14647b1ef9099a1ff4798d78589e66f28eca69c11f582a623"), unhex("85e241a07d148b41e47d62c63f830dc7a6851a0b1f33ae4bb2f507fb6cffec40"), unhex("e96f66be976d82e60150baecff9906684aebb1ef181f67a7189ac78ea23b6c0e547f7690a0e2ddcd04d87dbc3490dc19b3b3052f7ff0538cb68afb369ba3a514"), false},
		{"speccheck 8: R in a second spelling", unhex("f7badec5b8abeaf699583992219b7b223f1df3fbbea919844e3f7c554a43dd43"), unhex("fdaebc429f4a735932a160da1301080c13280eea8bc280d1b392c6b9e6ba3a5a"), unhex("edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f454d370c8d9fc323a41450f8d513eafeb5b0697390c1e505a0d4ddc71f566607"), false},
	} {
		ours := seal.CheckEd25519(v.key) == nil && ed25519.Verify(v.key, v.message, v.signature)
		if ours != v.want {
			t.Errorf("%s: the program says %v, the table %v", v.name, ours, v.want)
		}
		if a := r.ask(question{"op": "ed25519", "key": hexOf(v.key), "data": hexOf(v.message), "signature": hexOf(v.signature)}); string(a.OK) != fmt.Sprint(v.want) {
			t.Errorf("%s: the script says %s %s, want %v", v.name, a.OK, a.Error, v.want)
		}
	}
	// Keys under which no signature is accepted.
	for _, weak := range []string{
		"0000000000000000000000000000000000000000000000000000000000000000", "0100000000000000000000000000000000000000000000000000000000000000",
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a", "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
		"0100000000000000000000000000000000000000000000000000000000000080",
	} {
		r.want(true, question{"op": "weak", "key": weak})
		if seal.CheckEd25519(unhex(weak)) == nil {
			t.Errorf("the program accepts the weak key %s", weak)
		}
	}
	r.want(false, question{"op": "weak", "key": hexOf(pub)})
}

func reversed(b []byte) []byte {
	out := slices.Clone(b)
	slices.Reverse(out)
	return out
}

func TestCanonicalJSONIsReadAsThePageSays(t *testing.T) {
	r := startNode(t)
	for _, good := range []string{`{"Cost":1e-7,"case":"café/1","passed":true,"score":0.7,"😂":[null,0,100],"Ａ":"tab\t unit\u001f"}`, `1e+21`, `{"__proto__":1,"a":{}}`, `{"constructor":"x"}`, `"` + "\u2028" + `"`} {
		r.want(true, question{"op": "canonical", "data": hexOf([]byte(good))})
	}
	page := string(read(t, formats, "canonical-json.md"))
	_, after, _ := strings.Cut(page, "```json refused\n")
	refused, _, _ := strings.Cut(after, "```")
	list := strings.Split(strings.TrimSpace(refused), "\n")
	if len(list) < 8 {
		t.Fatalf("the page has %d refused examples", len(list))
	}
	list = append(list, `{"a":1,"__proto__":2,"__proto__":2}`, ` 1`, "1\n", `{"b":1,"a":2}`, `9007199254740992`, `-100000000000000000000`, `"\u0061"`, `1.0`, `-0`, "\ufeff1", `"\/"`, strings.Repeat("[", 65)+strings.Repeat("]", 65), `[1`, ``)
	for _, bad := range list {
		r.refuses(bad, question{"op": "canonical", "data": hexOf([]byte(bad))})
	}
	for _, bad := range []string{"22ff22", "22c0af22", "22eda08022"} {
		r.refuses("not UTF-8", question{"op": "canonical", "data": bad})
	}
}

// worked is the receipt of docs/formats/receipt.md and its key.
func worked(t *testing.T) (receipt []byte, key string) {
	page := string(read(t, formats, "receipt.md"))
	_, after, _ := strings.Cut(page, "```text\nexample.com/evals+")
	key, _, _ = strings.Cut(after, "\n")
	_, after, _ = strings.Cut(page, "```text\nc2sp.org/tlog-proof@v1\n")
	body, _, ok := strings.Cut(after, "```")
	if !ok {
		t.Fatal("docs/formats/receipt.md has no worked receipt")
	}
	return []byte("c2sp.org/tlog-proof@v1\n" + body), "example.com/evals+" + key
}

func TestTheWorkedReceiptVerifiesAndNoFlippedBitDoes(t *testing.T) {
	if testing.Short() {
		t.Skip("long, and all of it is done by Node, which the race detector does not see")
	}
	r := startNode(t)
	receipt, key := worked(t)
	r.want("note", question{"op": "receipt", "data": hexOf(receipt), "key": key})
	a := r.ask(question{"op": "flips", "data": hexOf(receipt), "key": key})
	var flips struct {
		Tried    int
		Accepted []int
	}
	if err := json.Unmarshal(a.OK, &flips); err != nil {
		t.Fatal(err, a.Error)
	}
	if flips.Tried != len(receipt)*8 || len(flips.Accepted) > 0 {
		t.Errorf("%d bits turned, accepted all the same: %v", flips.Tried, flips.Accepted)
	}
	a = r.ask(question{"op": "time", "data": hexOf(receipt), "key": key, "times": 100})
	t.Logf("%d flipped bits refused; verifying takes %.4s ms", flips.Tried, a.OK)
}

func TestForgedReceiptsAreRefused(t *testing.T) {
	r := startNode(t)
	receipt, key := worked(t)
	text := string(receipt)
	other := ed25519.NewKeyFromSeed(make([]byte, 32)).Public().(ed25519.PublicKey)
	otherKey := seal.VKey(other, "example.com/evals")
	sameKey := unhex("8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c")
	elsewhere := seal.VKey(sameKey, "example.com/other")
	// A checkpoint of one ledger, signed by the key of another.
	checkpoint := text[strings.Index(text, "\n\n")+2 : strings.Index(text, "— ")-1]
	strange := seal.VKey(other, "example.com/other")
	id := unhex(strings.Split(strange, "+")[1])
	signature := append(id, ed25519.Sign(ed25519.NewKeyFromSeed(make([]byte, 32)), []byte(checkpoint))...)
	byAnother := text[:strings.Index(text, "— ")] + "— example.com/other " + base64.StdEncoding.EncodeToString(signature) + "\n"
	for why, q := range map[string]question{
		"signed in the name of another ledger": {"data": byAnother, "key": strange},
		"another key of the same name":         {"data": text, "key": otherKey},
		"the key under another origin":         {"data": text, "key": elsewhere},
		"a proof without its last hash":        {"data": strings.Replace(text, "8f0SVIPplacpftCiov4crSWbNZXG+a24XoD/lWcdMds=\n", "", 1), "key": key},
		"a proof with a hash more":             {"data": strings.Replace(text, "XEMOuC3F", "XEMOuC3F6F/MyZWluQph2+49r273gZQj2FzPTU/Src4=\nXEMOuC3F", 1), "key": key},
		"another index":                        {"data": strings.Replace(text, "index 3", "index 4", 1), "key": key},
		"an index in another spelling":         {"data": strings.Replace(text, "index 3", "index 03", 1), "key": key},
		"another size":                         {"data": strings.Replace(text, "\n10\n", "\n11\n", 1), "key": key},
		"another origin":                       {"data": strings.ReplaceAll(text, "example.com/evals", "example.com/other"), "key": elsewhere},
		"no last newline":                      {"data": strings.TrimSuffix(text, "\n"), "key": key},
		"something after the end":              {"data": text + "\n", "key": key},
		"carriage returns":                     {"data": strings.ReplaceAll(text, "\n", "\r\n"), "key": key},
		"a signature twice":                    {"data": text + text[strings.Index(text, "— "):], "key": key},
		"another entry beside it":              {"data": text, "key": key, "entry": `{"body":{"n":4},"kind":"note","time":"2026-05-12T14:00:00.000Z","v":"1-draft"}`},
		"a key with another id":                {"data": text, "key": strings.Replace(key, "bfcc5eb5", "bfcc5eb6", 1)},
	} {
		q["op"], q["data"] = "receipt", hexOf([]byte(q["data"].(string)))
		r.refuses(why, q)
	}
}

// The vectors of docs/formats hold every verifier of our formats to the same verdicts.
func TestTheVectorsOfTheFormatsAreJudgedAlike(t *testing.T) {
	r := startNode(t)
	tried := 0
	for folder, op := range map[string]string{"receipts": "receipt", "checkpoints": "checkpoint", "trajectories": "trajectory", "records": "records", "events": "events"} {
		dir := filepath.Join(formats, "vectors", folder)
		var index struct {
			Accepted, Refused map[string]struct{ As, Reason string }
			Trust             struct{ Key string }
		}
		if err := json.Unmarshal(read(t, dir, "index.json"), &index); err != nil {
			t.Fatal(err)
		}
		ask := func(verdict, name, as string) (question, string) {
			data := read(t, dir, verdict, name)
			tried++
			if op == "records" || op == "events" {
				if !strings.HasSuffix(string(data), "\n") {
					t.Fatalf("%s/%s/%s has no last newline", folder, verdict, name)
				}
				data = data[:len(data)-1]
			}
			return question{"op": op, "data": hexOf(data), "key": index.Trust.Key, "as": as}, folder + "/" + verdict + "/" + name
		}
		for name, v := range index.Accepted {
			q, what := ask("accepted", name, v.As)
			if a := r.ask(q); a.Error != "" {
				t.Errorf("%s: refused: %s", what, a.Error)
			}
		}
		for name, v := range index.Refused {
			q, what := ask("refused", name, v.As)
			r.refuses(what+" ("+v.Reason+")", q)
		}
	}
	if tried < 300 {
		t.Errorf("only %d vectors were tried", tried)
	}
	t.Logf("%d vectors", tried)
}

func TestAChangedTrajectoryIsRefused(t *testing.T) {
	r := startNode(t)
	good := string(read(t, formats, "vectors", "trajectories", "accepted", "completed.jsonl"))
	lines := strings.SplitAfter(good, "\n")
	lines = lines[:len(lines)-1]
	last := sha256.Sum256([]byte(strings.TrimSuffix(lines[len(lines)-1], "\n")))
	head := "sha256:" + hexOf(last[:])
	r.want(len(lines), question{"op": "trajectory", "data": hexOf([]byte(good)), "head": head})
	for why, forged := range map[string][]string{
		"the end cut off":      lines[:len(lines)-1],
		"the beginning":        lines[1:],
		"a line left out":      slices.Delete(slices.Clone(lines), 1, 2),
		"another target":       append([]string{strings.Replace(lines[0], `"t-a-1"`, `"t-a-2"`, 1)}, lines[1:]...),
		"a torn line":          append(slices.Clone(lines[:len(lines)-1]), strings.TrimSuffix(lines[len(lines)-1], "\n")),
		"something at the end": append(slices.Clone(lines), lines[len(lines)-1]),
	} {
		q := question{"op": "trajectory", "data": hexOf([]byte(strings.Join(forged, ""))), "head": head}
		r.refuses(why, q)
	}
}

func TestRulesAreThoseOfTheFormats(t *testing.T) {
	rules := map[string]json.RawMessage{}
	for _, name := range []string{"records", "events"} {
		rules[name] = read(t, formats, "rules", name+".json")
	}
	data, err := json.Marshal(rules) // compacts, sorts the two names, and escapes what ends a script
	if err != nil {
		t.Fatal(err)
	}
	want := "// Written by a test from docs/formats/rules. Do not edit.\nexport const RULES = " + string(data) + ";\n"
	if *update {
		if err := os.WriteFile("rules_data.js", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if string(read(t, "rules_data.js")) != want {
		t.Error(`rules_data.js is not what docs/formats/rules has: run "go test ./internal/share/browser -run Rules -update"`)
	}
}

// The same examples hold the program: TestFormatsAreAsTheVectorsSay.
func TestValuesBecomeTextAsInTheProgram(t *testing.T) {
	r := startNode(t)
	var rows []struct {
		As    Format
		Value json.RawMessage
		Text  string
	}
	if err := json.Unmarshal(read(t, "testdata", "formats.json"), &rows); err != nil || len(rows) < 50 {
		t.Fatal(len(rows), err)
	}
	for _, row := range rows {
		r.want(row.Text, question{"op": "shown", "as": row.As, "value": row.Value})
	}
	for _, q := range []question{{"as": "number3", "value": "1"}, {"as": "usd", "value": 1.5}, {"as": "text", "value": true}, {"as": "text", "value": map[string]int{"a": 1}}, {"as": "bool", "value": "yes"}, {"as": "outcome", "value": 1}, {"as": "colour", "value": "red"}, {"as": "__proto__", "value": "x"}, {"as": "toString", "value": 1}} {
		q["op"] = "shown"
		r.refuses(fmt.Sprint(q), q)
	}
}

// The digest of verify.html stands in the documentation, so that a person can compare.
func TestTheDigestOfVerifyPageIsInTheDocumentation(t *testing.T) {
	const page = "../../../docs/checking.md"
	text := string(read(t, page))
	line := regexp.MustCompile(`(?m)^    [0-9a-f]{64}  verify\.html$`)
	want := fmt.Sprintf("    %x  verify.html", sha256.Sum256(VerifyPage()))
	if *update {
		if err := os.WriteFile(page, []byte(line.ReplaceAllString(text, want)), 0o644); err != nil {
			t.Fatal(err)
		}
		text = string(read(t, page))
	}
	if got := line.FindString(text); got != want {
		t.Errorf("%s has %q, verify.html is %q: run \"go test ./internal/share/browser -run Digest -update\"", page, got, want)
	}
}

func TestEveryModuleCanBeBundled(t *testing.T) {
	names, err := fs.Glob(Scripts(), "*.js")
	if err != nil || len(names) < 8 {
		t.Fatal(names, err)
	}
	node, lookErr := exec.LookPath("node")
	for _, name := range names {
		if name == "check.js" { // a module that asks where it was loaded from
			continue
		}
		script, err := Bundle(name)
		if err != nil {
			t.Error(err)
			continue
		}
		// Of two functions of one name the later silently takes the place of the other.
		names := map[string]bool{}
		for _, m := range regexp.MustCompile(`(?m)^(?:async )?function\*? ([A-Za-z0-9_]+)`).FindAllStringSubmatch(script, -1) {
			if names[m[1]] {
				t.Errorf("%s: two modules of the bundle have a function %s", name, m[1])
			}
			names[m[1]] = true
		}
		if lookErr != nil {
			continue
		}
		// Another name that two modules give away is a syntax error of the bundle.
		cmd := exec.Command(node, "--check", "-")
		cmd.Stdin = strings.NewReader(script)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %s", name, out)
		}
	}
}
