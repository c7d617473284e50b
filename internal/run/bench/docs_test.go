package bench

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"tallystick/internal/record/digest"
	"tallystick/internal/record/seal"
)

var exampleBlock = regexp.MustCompile("(?ms)^`([^`\n]+)`:\n\n```text\n(.*?)```$")

// The worked example of docs/formats/case.md is a promise: these bytes verify
// for ever. It is added to, never regenerated.
func TestFormatPageHoldsAClassThatVerifies(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "formats", "case.md"))
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{TB: t, dir: t.TempDir()}
	if f.root, err = os.OpenRoot(f.dir); err != nil {
		t.Fatal(err)
	}
	defer f.root.Close()
	said := map[string]string{}
	for _, m := range exampleBlock.FindAllStringSubmatch(string(page), -1) {
		if strings.Contains(m[1], "/") {
			f.write(m[1], []byte(m[2]))
		} else {
			said[m[1]] = strings.TrimSuffix(m[2], "\n")
		}
	}
	signers := f.read("signers/allowed_signers")
	if f.opt.Signers, err = seal.Root("signers", signers, digest.IDOf(signers)); err != nil {
		t.Fatal(err)
	}
	f.opt.Now = now
	v := f.accepts()

	c, err := v.draft.Cases[0].Message()
	f.must(err)
	m, err := v.manifest.Message()
	f.must(err)
	p, err := (&v.pins.pins).Message()
	f.must(err)
	for name, got := range map[string]string{
		"canonical JSON of the registration": string(v.draft.registration),
		"message of the case hello":          string(c),
		"message of the manifest":            string(m),
		"message of the pins":                string(p),
		"bench digest":                       v.Digest().String(),
	} {
		if said[name] != got {
			t.Errorf("%s is\n%s\nthe page says\n%s", name, got, said[name])
		}
	}
	if len(said) != 5 {
		t.Errorf("the page has %d values, 5 are compared", len(said))
	}
}

// The page names every key of every document.
func TestFormatPageNamesEveryKey(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "formats", "case.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, paths := range [][]string{
		fieldsOf(reflect.TypeFor[Registration](), ""), fieldsOf(reflect.TypeFor[Case](), ""), fieldsOf(reflect.TypeFor[Manifest](), ""),
		fieldsOf(reflect.TypeFor[ManifestCase](), ""), fieldsOf(reflect.TypeFor[CaseDigests](), ""), fieldsOf(reflect.TypeFor[Pins](), ""), fieldsOf(reflect.TypeFor[Gate](), ""), fieldsOf(reflect.TypeFor[Threshold](), ""),
	} {
		for _, p := range paths {
			key := p[strings.LastIndex(p, ".")+1:]
			if !regexp.MustCompile("`[^`\n]*\\b" + key + "\\b[^`\n]*`").Match(page) {
				t.Errorf("the page does not name %s", p)
			}
		}
	}
}
