package bench

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"strings"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/strictyaml"
)

// People write case.yaml with comments and in an order of their own, so the
// commands that add a digest or a signature to it change only those lines.
// Whatever an edit gives is decoded again and compared before it is used: the
// text surgery may fail, it cannot change a meaning unnoticed.

// setMember replaces one member of a mapping, or adds it at the mapping's end.
// The text is the member in block form without indentation; "" removes it.
func setMember(name string, data []byte, parent []string, key, text string) ([]byte, error) {
	doc, err := strictyaml.Parse(name, data, yamlRules)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	m, end := doc.Top, len(lines) // end is the line after the mapping, from 0
	for _, p := range parent {
		if err := checkBlock(name, m, lines); err != nil {
			return nil, err
		}
		if end, err = endOf(m, p, end); err != nil {
			return nil, refusal.Newf(refusal.Malformed, "%s: %w", name, err)
		}
		m = m.Member(p).Value
	}
	if err := checkBlock(name, m, lines); err != nil {
		return nil, err
	}

	first, last := end, end
	if old := m.Member(key); old != nil {
		first = old.Line - 1
		if last, err = endOf(m, key, end); err != nil {
			return nil, refusal.Newf(refusal.Malformed, "%s: %w", name, err)
		}
	}
	// Comments and empty lines before the next key belong to what follows.
	for last > first && first != last && isBlank(lines[last-1]) {
		last--
	}
	if m.Member(key) == nil {
		for first > 0 && isBlank(lines[first-1]) {
			first--
		}
		last = first
	}
	var out []string
	out = append(out, lines[:first]...)
	if text != "" {
		indent := strings.Repeat(" ", m.Column-1)
		for line := range strings.SplitSeq(text, "\n") {
			out = append(out, indent+line)
		}
	}
	out = append(out, lines[last:]...)
	return []byte(strings.Join(out, "\n") + "\n"), nil
}

// SetFloor writes what null answers score into the registration among the files of a
// class.
func SetFloor(files map[string][]byte, f evidence.Floor) (err error) {
	files[RegistrationFile], err = setMember(RegistrationFile, files[RegistrationFile], nil, "floor", fmt.Sprintf("floor: {answer: %s, cases: %d, passed: %d}", f.Answer, f.Cases, f.Passed))
	return err
}

func isBlank(line string) bool {
	text := strings.TrimSpace(line)
	return text == "" || text[0] == '#'
}

// endOf returns the line after a member, from 0, given that of its mapping.
func endOf(n *strictyaml.Node, key string, end int) (int, error) {
	for i, m := range n.Members {
		if m.Key != key {
			continue
		}
		if i+1 < len(n.Members) {
			return n.Members[i+1].Line - 1, nil
		}
		return end, nil
	}
	return 0, fmt.Errorf("there is no %s", key)
}

// checkBlock refuses mappings that are not written one key a line.
func checkBlock(name string, n *strictyaml.Node, lines []string) error {
	if n.Kind != strictyaml.Mapping || len(n.Members) == 0 {
		return refusal.Newf(refusal.Malformed, "%s:%d:%d: found %s, expected a mapping with one key a line", name, n.Line, n.Column, n.Describe()).WithHint("%s", yamlRules.Hint)
	}
	for i, m := range n.Members {
		if m.Line > len(lines) || strings.TrimLeft(lines[m.Line-1], " ") != lines[m.Line-1][min(m.Column-1, len(lines[m.Line-1])):] || m.Column != n.Column || i > 0 && m.Line <= n.Members[i-1].Line {
			return refusal.Newf(refusal.Malformed, "%s:%d:%d: the key %s does not begin a line of its own, so it cannot be edited", name, m.Line, m.Column, m.Key).
				WithHint("write the mapping in block form, one key a line, all indented alike")
		}
	}
	return nil
}

// personText is a person in block form.
func personText(field string, p *Person) string {
	if p == nil {
		return ""
	}
	text := fmt.Sprintf("%s:\n  identity: %s", field, strictyaml.Quote(p.Identity))
	if p.Signature == "" {
		return text
	}
	text += "\n  signature: |"
	for line := range strings.SplitSeq(strings.TrimSuffix(p.Signature, "\n"), "\n") {
		// An empty line, as OpenPGP has one, takes no indentation.
		text += strings.TrimRight("\n    "+line, " ")
	}
	return text
}

// WithPeople returns case.yaml with these people in it.
func (c *CaseFolder) WithPeople(added, reviewed *Person) ([]byte, error) {
	want := c.Case
	want.Provenance.AddedBy, want.Provenance.ReviewedBy = added, reviewed
	data := c.YAML
	var err error
	for _, p := range []struct {
		field string
		who   *Person
	}{{"added_by", added}, {"reviewed_by", reviewed}} {
		if data, err = setMember(CaseFile, data, []string{"provenance"}, p.field, personText(p.field, p.who)); err != nil {
			return nil, err
		}
	}
	return data, checkEdit(data, &want)
}

// WithDigests returns case.yaml with the digests of what is there. Signatures
// over other digests are of no use any more and are left out. The result is
// nil if nothing has to change.
func (c *CaseFolder) WithDigests() ([]byte, error) {
	want := c.Case
	data := c.YAML
	var err error
	set := func(key, value string) {
		if err == nil {
			text := ""
			if value != "" {
				text = fmt.Sprintf("%s: %q", key, value)
			}
			data, err = setMember(CaseFile, data, nil, key, text)
		}
	}
	changed := false
	if c.CaseDigest == nil || *c.CaseDigest != c.Digest {
		want.CaseDigest, changed = &c.Digest, true
		set("case_digest", c.Digest.String())
	}
	switch {
	case c.Pending:
		// Cassettes are looked at once the draft is a case.
	case c.Cassette == nil && c.CassetteDigest != nil && c.hasPinned():
		// It lies in the folder of a target.
	case c.Cassette == nil && c.CassetteDigest != nil:
		return nil, refusal.Newf(refusal.CassetteDigestMismatch, "case.yaml field cassette_digest says %s, there is no %s", c.CassetteDigest, CassetteFile(c.class, "", c.CaseID)).
			WithHint("restore the cassette, or take cassette_digest and cassette_provenance out of case.yaml")
	case c.Cassette != nil && (c.CassetteDigest == nil || *c.CassetteDigest != c.Cassette.Digest):
		want.CassetteDigest, changed = &c.Cassette.Digest, true
		set("cassette_digest", c.Cassette.Digest.String())
		// What an earlier cassette was says nothing about this one. Authored is
		// the least that can be claimed.
		if made := cmp.Or(c.Made, c.CassetteProvenance, Authored); made != c.CassetteProvenance {
			want.CassetteProvenance = made
			set("cassette_provenance", string(made))
		}
	case c.Cassette != nil && c.Made == Recorded && c.CassetteProvenance == Authored:
		// It was recorded, and an earlier program did not look.
		want.CassetteProvenance, changed = Recorded, true
		set("cassette_provenance", string(Recorded))
	}
	if pins := c.pinTargets(); !c.Pending && !maps.Equal(pins, c.Cassettes) {
		want.Cassettes, changed = pins, true
		if err == nil {
			data, err = setMember(CaseFile, data, nil, "cassettes", targetsText(pins))
		}
	}
	if err != nil || !changed {
		return nil, err
	}
	for _, field := range []struct {
		name string
		who  **Person
	}{{"added_by", &want.Provenance.AddedBy}, {"reviewed_by", &want.Provenance.ReviewedBy}} {
		*field.who = (*field.who).unsigned()
		if data, err = setMember(CaseFile, data, []string{"provenance"}, field.name, personText(field.name, *field.who)); err != nil {
			return nil, err
		}
	}
	return data, checkEdit(data, &want)
}

// checkEdit compares what an edit gave with what was meant.
func checkEdit(data []byte, want *Case) error {
	var got Case
	if _, err := decode(CaseFile, data, &got); err != nil {
		return err
	}
	a, err := got.encode()
	if err != nil {
		return err
	}
	b, err := want.encode()
	if err != nil {
		return err
	}
	if !bytes.Equal(a, b) {
		return refusal.Newf(refusal.Failed, "%s: the change cannot be made in this file without changing something else", CaseFile).
			WithHint("write provenance, added_by and reviewed_by in block form, one key a line, and try again")
	}
	return nil
}
