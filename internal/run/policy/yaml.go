package policy

import (
	"bytes"
	"strings"

	"tallystick/internal/record/refusal"
	"tallystick/internal/record/strictyaml"
)

// yamlRules are stricter than those of other files: a policy is shallow.
var yamlRules = strictyaml.Rules{
	Hint:         policyHint,
	TooLargeHint: policyHint,
	MaxBytes:     maxPolicyBytes,
	MaxDepth:     8, // more than the deepest part of a policy, a list in a rule
	MaxInline:    15,
	MaxMarks:     maxPolicyBytes,
}

// ParseYAML reads a policy in the part of YAML that [strictyaml] reads, without
// tabs, true, false, null and exponents, none of which a policy needs. The keys
// are those of [Parse].
func ParseYAML(name string, data []byte) (Policy, error) {
	switch {
	case bytes.IndexByte(data, '\t') >= 0:
		return Policy{}, refusal.Newf(refusal.Malformed, "%s: found a tab, expected blanks", name).WithHint(policyHint)
	case bytes.Count(data, []byte("["))+bytes.Count(data, []byte("{")) > 4*maxListed:
		return Policy{}, refusal.Newf(refusal.Malformed, "%s: too many brackets", name).WithHint(policyHint)
	}
	doc, err := strictyaml.Parse(name, data, yamlRules)
	if err != nil {
		return Policy{}, err
	}
	if err := checkValues(doc, doc.Top); err != nil {
		return Policy{}, err
	}
	return Parse(name, doc.JSON)
}

// checkValues refuses values that no policy has.
func checkValues(doc *strictyaml.Document, n *strictyaml.Node) error {
	switch n.Kind {
	case strictyaml.Bool, strictyaml.Null:
		return doc.RefuseAt(n.Line, n.Column, "found %s, expected a mapping, a list, text or a number", n.Text)
	case strictyaml.Number:
		if strings.ContainsAny(n.Text, "eE") {
			return doc.RefuseAt(n.Line, n.Column, "found %s, expected decimal digits (quote it if text is meant)", n.Describe())
		}
	}
	for _, m := range n.Members {
		if err := checkValues(doc, m.Value); err != nil {
			return err
		}
	}
	for _, item := range n.Items {
		if err := checkValues(doc, item); err != nil {
			return err
		}
	}
	return nil
}
