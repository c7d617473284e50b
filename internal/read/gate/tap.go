package gate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"tallystick/internal/record/plain"
)

// WriteTAP writes the report as TAP 13, which readers of version 14 take too and
// Perl's prove does not complain of: one test point for each case and gate,
// with a YAML block for those that did not pass. A description cannot carry a
// directive and a value cannot leave its line, whatever an agent wrote.
func WriteTAP(w io.Writer, r Report) error {
	tests := r.tests()
	var b bytes.Buffer
	fmt.Fprintf(&b, "TAP version 13\n1..%d\n", len(tests))
	for _, q := range r.Qualifications {
		fmt.Fprintf(&b, "# note: %s\n", description(q.Text))
	}
	for i, t := range tests {
		word := "not ok"
		if t.status == pass || t.status == skip {
			word = "ok"
		}
		name := t.name
		if t.group == "gates" {
			name = "gate " + name
		}
		fmt.Fprintf(&b, "%s %d - %s", word, i+1, description(name))
		if directive := directives[t.status]; directive != "" {
			b.WriteString(" # " + directive)
			if reason := description(t.message); reason != "" {
				b.WriteString(" " + reason)
			}
		}
		b.WriteByte('\n')
		t.yaml(&b)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// directives are how TAP says that a test point does not count: one that was not run,
// and one that may fail.
var directives = map[status]string{skip: "SKIP", allowed: "TODO"}

// yaml writes the diagnostics of a test point. Values are JSON strings, which
// YAML 1.2 reads as they are; they keep the exact value and stay on one line.
func (t test) yaml(b *bytes.Buffer) {
	if t.status == skip {
		return
	}
	fmt.Fprintf(b, "  ---\n  outcome: %s\n  duration_ms: %d\n", yamlString(t.kind), max(t.duration, 0).Milliseconds())
	switch t.status {
	case pass:
	case allowed:
		fmt.Fprintf(b, "  message: %s\n  severity: todo\n", yamlString(t.message))
	default:
		fmt.Fprintf(b, "  message: %s\n  severity: fail\n", yamlString(t.message))
	}
	if t.said != "" {
		fmt.Fprintf(b, "  qualifications: %s\n", yamlString(t.said))
	}
	for _, d := range t.details {
		value := d.value
		if !d.number {
			value = yamlString(cut(value, maxInDetail))
		}
		fmt.Fprintf(b, "  %s: %s\n", strings.ReplaceAll(d.label, " ", "_"), value)
	}
	b.WriteString("  ...\n")
}

// description escapes a text for a test point's line. TAP knows two escapes,
// for "\" and "#". Beyond the specification, widespread parsers take a brace at
// the end of the line for the beginning of a subtest.
func description(s string) string {
	s = strings.Join(strings.Fields(plain.Line(s)), " ")
	if rest, ok := strings.CutSuffix(s, "{"); ok {
		s = rest + `\x7b`
	}
	return strings.NewReplacer(`\`, `\\`, `#`, `\#`).Replace(s)
}

func yamlString(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	// Encoding a string cannot fail: what is not UTF-8 becomes U+FFFD.
	_ = enc.Encode(s)
	return string(plain.JSON(bytes.TrimSuffix(b.Bytes(), []byte("\n"))))
}
