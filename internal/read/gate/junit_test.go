package gate

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"tallystick/internal/record/evidence"
)

// node is an element of a parsed document.
type node struct {
	name     string
	attr     map[string]string
	children []*node
	text     string
}

// parseXML reads a document with the strict parser and refuses what XML 1.0
// does not allow in text, which encoding/xml lets pass in some places.
func parseXML(t *testing.T, data []byte) *node {
	t.Helper()
	if !utf8.Valid(data) {
		t.Fatal("not UTF-8")
	}
	for _, r := range string(data) {
		if r != '\t' && r != '\n' && r != '\r' && (r < 0x20 || r == 0xfffe || r == 0xffff) {
			t.Fatalf("%U is not allowed in XML", r)
		}
	}
	d := xml.NewDecoder(bytes.NewReader(data))
	d.Strict = true
	root := &node{}
	stack := []*node{root}
	for {
		tok, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
		top := stack[len(stack)-1]
		switch tok := tok.(type) {
		case xml.StartElement:
			n := &node{name: tok.Name.Local, attr: map[string]string{}}
			for _, a := range tok.Attr {
				n.attr[a.Name.Local] = a.Value
			}
			top.children = append(top.children, n)
			stack = append(stack, n)
		case xml.EndElement:
			stack = stack[:len(stack)-1]
		case xml.CharData:
			top.text += string(tok)
		case xml.Comment, xml.Directive:
			t.Fatalf("unexpected %T", tok)
		}
	}
	if len(root.children) != 1 {
		t.Fatalf("%d root elements", len(root.children))
	}
	return root.children[0]
}

// An elementRule restates what the two schemas allow of an element, each rule
// being the stricter of the two: junit-10.xsd of Jenkins' xunit plugin and
// JUnit.xsd of windyroad/JUnit-Schema (the Ant tasks).
type elementRule struct {
	required, optional map[string]string // attribute to the pattern of its value
	children           string            // pattern over the names of the children, each followed by a space
	text               bool
}

const (
	anyText  = `(?s).*`
	tokenPat = `\S+( \S+)*`
	intPat   = `[0-9]+`
	// decimal of the one and SUREFIRE_TIME of the other
	timePat  = `[0-9]+(\.[0-9]{1,3})?`
	stampPat = `[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}`
)

var junitRules = map[string]elementRule{
	"testsuites": {children: `(testsuite )*`},
	"testsuite": {
		required: map[string]string{"name": tokenPat, "package": tokenPat, "id": intPat, "timestamp": stampPat, "hostname": tokenPat,
			"tests": intPat, "failures": intPat, "errors": intPat, "time": timePat},
		optional: map[string]string{"skipped": intPat},
		children: `properties (testcase )*system-out system-err `,
	},
	"properties": {children: `(property )*`},
	"property":   {required: map[string]string{"name": tokenPat, "value": anyText}},
	"testcase": {
		required: map[string]string{"name": tokenPat, "classname": tokenPat, "time": timePat},
		children: `(skipped |error |failure )?`,
	},
	"skipped":    {optional: map[string]string{"message": anyText}, text: true},
	"error":      {required: map[string]string{"type": anyText}, optional: map[string]string{"message": anyText}, text: true},
	"failure":    {required: map[string]string{"type": anyText}, optional: map[string]string{"message": anyText}, text: true},
	"system-out": {text: true},
	"system-err": {text: true},
}

func validateJUnit(n *node) error {
	rule, ok := junitRules[n.name]
	if !ok {
		return fmt.Errorf("no element %q in the schema", n.name)
	}
	for name, pattern := range rule.required {
		if v, ok := n.attr[name]; !ok || !matches(pattern, v) {
			return fmt.Errorf("%s: attribute %s is %q, present %v", n.name, name, v, ok)
		}
	}
	for name, v := range n.attr {
		if _, ok := rule.required[name]; ok {
			continue
		}
		if pattern, ok := rule.optional[name]; !ok || !matches(pattern, v) {
			return fmt.Errorf("%s: attribute %s=%q is not allowed", n.name, name, v)
		}
	}
	names := ""
	for _, c := range n.children {
		names += c.name + " "
		if err := validateJUnit(c); err != nil {
			return err
		}
	}
	if !matches(rule.children, names) {
		return fmt.Errorf("%s: children %q", n.name, names)
	}
	if !rule.text && strings.TrimSpace(n.text) != "" {
		return fmt.Errorf("%s: text %q", n.name, n.text)
	}
	return nil
}

func matches(pattern, s string) bool { return regexp.MustCompile(`^(` + pattern + `)$`).MatchString(s) }

func writeJUnit(t *testing.T, r Report) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := WriteJUnit(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestJUnitFitsTheSchemasWhateverAnAgentWrote(t *testing.T) {
	for name, r := range map[string]Report{"plain": plainReport(), "hostile": hostileReport(), "empty": {}} {
		doc := parseXML(t, writeJUnit(t, r))
		if err := validateJUnit(doc); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The check above must be able to fail.
func TestJUnitSchemaCheckFindsEachFault(t *testing.T) {
	good := string(writeJUnit(t, plainReport()))
	for _, edit := range [][2]string{
		{`<testsuites>`, `<testsuites tests="3">`},
		{`name="hello"`, `nome="hello"`},
		{`time="1.500"`, `time="1.5s"`},
		{`timestamp="2026-05-12T14:00:00"`, `timestamp="2026-05-12T14:00:00Z"`},
		{`package="greet"`, `package=""`},
		{`<system-err></system-err>`, ``},
		{` type="failed"`, ``},
		{`<skipped message="needs a printer"></skipped>`, `<skipped/><error type="x"/>`},
		{`<properties>`, `<properties>loose text`},
	} {
		bad := strings.Replace(good, edit[0], edit[1], 1)
		if bad == good {
			t.Fatalf("%q is not in the report", edit[0])
		}
		if err := validateJUnit(parseXML(t, []byte(bad))); err == nil {
			t.Errorf("accepted with %s", edit[1])
		}
	}
}

func statusOf(c *node) status {
	if len(c.children) == 0 {
		return pass
	}
	return map[string]status{"failure": fail, "error": broken, "skipped": skip}[c.children[0].name]
}

func TestJUnitShowsEveryTestAsWhatItIs(t *testing.T) {
	for _, r := range []Report{plainReport(), hostileReport()} {
		var got []status
		for _, s := range parseXML(t, writeJUnit(t, r)).children {
			count := map[status]int{}
			for _, c := range s.children {
				if c.name == "testcase" {
					got = append(got, statusOf(c))
					count[statusOf(c)]++
				}
			}
			for attr, n := range map[string]int{"tests": count[pass] + count[fail] + count[broken] + count[skip], "failures": count[fail], "errors": count[broken], "skipped": count[skip]} {
				if s.attr[attr] != strconv.Itoa(n) {
					t.Errorf("%s says %s=%s, has %d", s.attr["name"], attr, s.attr[attr], n)
				}
			}
		}
		if want := wantStatus(r); !slices.Equal(got, want) {
			t.Errorf("statuses %v, want %v", got, want)
		}
	}
}

// A program that prints a failure message into a log must not be given orders by it.
func TestJUnitTextIsSafeInALog(t *testing.T) {
	var check func(n *node)
	check = func(n *node) {
		texts := []string{n.text}
		for _, v := range n.attr {
			texts = append(texts, v)
		}
		for _, text := range texts {
			requireSafe(t, text)
		}
		for _, c := range n.children {
			check(c)
		}
	}
	check(parseXML(t, writeJUnit(t, hostileReport())))
}

// requireSafe refuses text that moves a terminal, reverses its reading order or
// is an order to a CI runner when it is printed.
func requireSafe(t *testing.T, text string) {
	t.Helper()
	for _, r := range text {
		if r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			t.Errorf("%q has %U", text, r)
		}
	}
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "::") || strings.Contains(line, "##[") || strings.Contains(strings.ToLower(line), "##vso[") {
			t.Errorf("%q is an order to a runner", line)
		}
	}
}

func TestJUnitFailureTellsValueAndFirstDivergence(t *testing.T) {
	suites := parseXML(t, writeJUnit(t, plainReport())).children
	failure := suites[0].children[2].children[0]
	if got, want := failure.attr["message"], `failed, score 0.25: wrong_answer: got "hello", want "goodbye"`; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
	want := "message: failed, score 0.25: wrong_answer: got \"hello\", want \"goodbye\"\ngot: hello\nwant: goodbye\nfirst divergence: turn 2, step 5: changed arguments\nsee more: tally why greet.builtin.3:bye\n"
	if failure.text != want {
		t.Errorf("text %q, want %q", failure.text, want)
	}
	gate := suites[1].children[1].children[0]
	if got, want := gate.attr["message"], "solve_rate of all cases is 0.5, the gate needs at least 0.6 (8 cases)"; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
}

func TestLongValuesAreCutOnACharacter(t *testing.T) {
	r := Report{Cases: []Row{{ID: "x", Outcome: "failed", Got: strings.Repeat("ü", 1<<20), Want: "y"}}}
	data := writeJUnit(t, r)
	if len(data) > 10_000 || !strings.Contains(string(data), "bytes more)") || bytes.Contains(data, []byte(`\x`)) {
		t.Errorf("%d bytes: %.300s", len(data), data)
	}
}

var update = os.Getenv("UPDATE_GOLDEN") != ""

// golden compares output with a file that may be made again with
// UPDATE_GOLDEN=1 and is reviewed in the diff.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	if update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("testdata/"+name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs:\n%s", name, got)
	}
}

func TestReportsAsTheyAre(t *testing.T) {
	golden(t, "report.xml", writeJUnit(t, plainReport()))
	golden(t, "report.tap", writeTAP(t, plainReport()))
}

// TestReportsSayValuesOnce: a message names what was compared, and not again if
// the reason does; the values stand below it, whole.
func TestReportsSayValuesOnce(t *testing.T) {
	c := Row{ID: "a", Outcome: evidence.Failed, Reason: `it is "cat", expected "dog"`, Got: "cat", Want: "dog"}
	if got, want := c.test().message, `failed: it is "cat", expected "dog"`; got != want {
		t.Errorf("the message is %s, want %s", got, want)
	}
	c.Reason = "another animal"
	if got, want := c.test().message, `failed: another animal: got "cat", want "dog"`; got != want {
		t.Errorf("the message is %s, want %s", got, want)
	}
	if body := c.test().body(); strings.Count(body, "\ngot: cat\n") != 1 || strings.Count(body, "\nwant: dog\n") != 1 {
		t.Errorf("the body is %s", body)
	}
}
