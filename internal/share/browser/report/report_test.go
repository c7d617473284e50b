package report

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"tallystick/internal/record/ledger"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/share/browser"
)

// sample is the data of a report of a demo bench: three cases, one that failed.
func sample(t *testing.T) *Data {
	t.Helper()
	text, err := os.ReadFile("testdata/data.json")
	if err != nil {
		t.Fatal(err)
	}
	d := &Data{}
	if err := json.Unmarshal(text, d); err != nil {
		t.Fatal(err)
	}
	d.Renderer = Renderer()
	return d
}

func render(t *testing.T, d *Data) []byte {
	t.Helper()
	page, err := Render(d)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

func policy(t *testing.T, d *Data) ledger.Policy {
	t.Helper()
	origin, key, err := seal.ParseLogKey(d.Key)
	if err != nil {
		t.Fatal(err)
	}
	return ledger.Policy{Logs: []ledger.LogKey{{Origin: origin, Key: key}}}
}

// layouts are the digests of the sample's page, without script, style and policy, by
// layout. A page that is laid out otherwise has another number, so that a verifier never
// takes a page of another release for a forged one.
var layouts = map[int]string{
	1: "7080bc6d109669c2a3c66cc0249fb8d1c0c6ee0483521386cd2068fe921980d2",
	2: "5526b2f8d7cb60c25e0815dcc0c3f487a3bd5972bde142584e23ecb8a9d06b78",
	3: "67963fbe184e996ea51a2c17e24915d4552617bed277ab63b70333f0073555d3",
}

func TestAnotherLayoutHasAnotherNumber(t *testing.T) {
	d := sample(t)
	d.Renderer = "fixed"
	page := string(render(t, d))
	for _, part := range []string{browser.ReportScript(), browser.Style(), "sha256-"} {
		if !strings.Contains(page, part) {
			t.Fatalf("the page lacks %.40q", part)
		}
	}
	_, body, _ := strings.Cut(page, "<body>")
	body = strings.Replace(body, browser.ReportScript(), "", 1)
	if got := fmt.Sprintf("%x", sha256.Sum256([]byte(body))); got != layouts[layout] {
		t.Errorf("the page is laid out as %s, layout %d was %s: raise layout in report.go and add a row here", got, layout, layouts[layout])
	}
}

func TestAReportVerifiesAndNothingElseDoes(t *testing.T) {
	d := sample(t)
	p := policy(t, d)
	v, err := Verify(render(t, d), p)
	if err != nil {
		t.Fatal(err)
	}
	if v.Records != 3 || v.Registered.Attempt != "refunds.default.1" || v.Finished == nil || !v.Signed {
		t.Errorf("verified as %+v", v)
	}
	// Each forger makes data and page fit each other; the receipts give them away.
	for name, forge := range map[string]func(d *Data){
		"another attempt":           func(d *Data) { d.Attempt = "refunds.default.2" },
		"no totals":                 func(d *Data) { d.Entries[1].Index++ },
		"the registration left out": func(d *Data) { d.Entries = d.Entries[1:] },
		"an entry twice":            func(d *Data) { d.Entries = append(d.Entries, d.Entries[2]) },
		"the receipt of another":    func(d *Data) { d.Entries[2].Receipt = d.Entries[3].Receipt },
		"a changed entry":           func(d *Data) { d.Entries[2].Entry = strings.Replace(d.Entries[2].Entry, `"failed"`, `"passed"`, 1) },
		"evidence of another case":  func(d *Data) { d.Cases[0].Trajectory = d.Cases[1].Trajectory },
		"an index of another case":  func(d *Data) { d.Cases[0].Index = d.Cases[1].Index },
		"scoring of another case":   func(d *Data) { d.Cases[0].Grading = d.Cases[1].Grading },
		"evidence of the totals":    func(d *Data) { d.Cases[0].Entry = d.Entries[1].Index },
		"left out for no reason":    func(d *Data) { d.Cases[0] = Evidence{Entry: d.Cases[0].Entry, Without: "secret"} },
		"another key":               func(d *Data) { d.Key = strings.Replace(d.Key, "+", "+0", 1) },
	} {
		forged := sample(t)
		forge(forged)
		page, err := Render(forged)
		if err != nil {
			// Not even a page can be made of it; then the honest page with forged data.
			data, _ := json.Marshal(forged)
			honest, _ := json.Marshal(sample(t))
			page = []byte(strings.Replace(string(render(t, sample(t))), string(honest), string(data), 1))
		}
		if _, err := Verify(page, p); err == nil {
			t.Errorf("%s: verified", name)
		}
	}
}

func TestAPageOfAnotherReleaseIsNotCalledForged(t *testing.T) {
	d := sample(t)
	d.Renderer = "0.another"
	_, err := Verify(render(t, d), policy(t, d))
	if refusal.Of(err).Name != refusal.Unrecognised {
		t.Errorf("got %v", err)
	}
}

func TestTextsOfOthersNeverBecomeMarkup(t *testing.T) {
	w := &writer{}
	const nasty = "</script><script>x</script><!-- \u2028 \u202e \" ' & <b>"
	doc, _ := json.Marshal(map[string]string{"a<\"b": nasty})
	w.cell(3, doc, `/a<"b`, browser.AsText)
	w.text(nasty)
	if out := w.out.String(); strings.Contains(out, "<script") || strings.Contains(out, "<b>") || strings.Contains(out, "<!--") || strings.Contains(out, "\u202e") || strings.Count(out, "<") != 2 {
		t.Errorf("wrote %s", out)
	}
}
