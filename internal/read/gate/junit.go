package gate

import (
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"tallystick/internal/record/plain"
)

// The types below spell the intersection of the two schemas that consumers
// check against: Jenkins' junit-10.xsd, and the JUnit.xsd of the Ant tasks,
// which allows no attributes on testsuites and wants properties, system-out and
// system-err in every testsuite.
type (
	junitSuites struct {
		XMLName xml.Name     `xml:"testsuites"`
		Suites  []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name       string          `xml:"name,attr"`
		Package    string          `xml:"package,attr"`
		ID         int             `xml:"id,attr"`
		Timestamp  string          `xml:"timestamp,attr"`
		Hostname   string          `xml:"hostname,attr"`
		Tests      int             `xml:"tests,attr"`
		Failures   int             `xml:"failures,attr"`
		Errors     int             `xml:"errors,attr"`
		Skipped    int             `xml:"skipped,attr"`
		Time       string          `xml:"time,attr"`
		Properties []junitProperty `xml:"properties>property"`
		Cases      []junitCase     `xml:"testcase"`
		SystemOut  string          `xml:"system-out"`
		SystemErr  string          `xml:"system-err"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Name      string        `xml:"name,attr"`
		ClassName string        `xml:"classname,attr"`
		Time      string        `xml:"time,attr"`
		Skipped   *junitSkipped `xml:"skipped"`
		Error     *junitProblem `xml:"error"`
		Failure   *junitProblem `xml:"failure"`
	}
	junitSkipped struct {
		Message string `xml:"message,attr"`
	}
	junitProblem struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr"`
		Body    string `xml:",chardata"`
	}
)

// WriteJUnit writes the report as JUnit XML: one testsuite of cases and one of
// gates. Text that is not ours is made visible first, so no control character
// that XML forbids, no terminal escape and no order to a CI runner is left.
func WriteJUnit(w io.Writer, r Report) error {
	doc := junitSuites{}
	for _, group := range []string{"cases", "gates"} {
		if s := r.suite(group, len(doc.Suites)); s.Tests > 0 {
			doc.Suites = append(doc.Suites, s)
		}
	}
	data, err := xml.MarshalIndent(doc, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding JUnit XML: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, data)
	return err
}

func (r Report) suite(group string, id int) junitSuite {
	s := junitSuite{
		Name: token(r.Class + " " + group), Package: token(r.Class), ID: id,
		// The Ant schema takes no time zone; it is UTC. The machine's name is
		// private, and the schema wants one.
		Timestamp: r.Started.UTC().Format("2006-01-02T15:04:05"), Hostname: "localhost",
	}
	for _, p := range []junitProperty{{"attempt", r.Attempt}, {"target", r.Target}, {"assurance", r.Level}} {
		s.Properties = append(s.Properties, junitProperty{p.Name, plain.Line(p.Value)})
	}
	for _, q := range r.Qualifications {
		s.Properties = append(s.Properties, junitProperty{"note", plain.Line(q.Text)})
	}
	var total time.Duration
	for _, t := range r.tests() {
		if t.group != group {
			continue
		}
		s.Tests++
		total += t.duration
		if t.said != "" {
			// A testcase that passed has no place for it in both schemas.
			s.Properties = append(s.Properties, junitProperty{"case " + token(t.name), plain.Line(t.said)})
		}
		// A test that passed has no text of its own in this format.
		if i := slices.IndexFunc(t.details, func(d detail) bool { return d.label == "corrected" }); i >= 0 {
			s.SystemOut += fmt.Sprintf("corrected: %s: %s\n", plain.Line(t.name), plain.Line(cut(t.details[i].value, maxInDetail)))
		}
		s.Cases = append(s.Cases, s.testcase(t, r.Class+"."+group))
	}
	s.Time = seconds(total)
	return s
}

func (s *junitSuite) testcase(t test, class string) junitCase {
	c := junitCase{Name: token(t.name), ClassName: token(class), Time: seconds(t.duration)}
	problem := &junitProblem{Message: plain.Line(t.message), Type: plain.Line(t.kind), Body: t.body()}
	switch t.status {
	case pass:
	case skip, allowed:
		// The format has one word for what is neither green nor red.
		s.Skipped++
		c.Skipped = &junitSkipped{Message: problem.Message}
	case fail:
		s.Failures++
		c.Failure = problem
	default:
		s.Errors++
		c.Error = problem
	}
	return c
}

// body lists message and details. Each line begins with our own word or bar, so
// that none can be an order to a program that copies it into a log.
func (t test) body() string {
	var b strings.Builder
	fmt.Fprintf(&b, "message: %s\n", plain.Line(t.message))
	for _, d := range t.details {
		fmt.Fprintf(&b, "%s: %s\n", d.label, plain.Lines(cut(d.value, maxInDetail), "  | "))
	}
	return b.String()
}

// token makes s fit for the schemas' xs:token with a minimum length: one line,
// no runs of spaces, never empty.
func token(s string) string {
	s = strings.Join(strings.Fields(plain.Line(s)), " ")
	if s == "" {
		return "(no name)"
	}
	return s
}

// seconds prints a duration with at most three decimals, which both schemas
// accept.
func seconds(d time.Duration) string { return fmt.Sprintf("%.3f", max(d, 0).Seconds()) }
