package policy

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"tallystick/internal/canon"
	"tallystick/internal/refusal"
)

// ParseYAML reads a policy in the part of YAML that has one meaning: mappings
// with text keys, lists, text, decimal numbers. Anchors, tags, merge keys,
// repeated keys and words that some reader takes for a number or a bool are
// refused. The keys are those of [Parse].
func ParseYAML(name string, data []byte) (Policy, error) {
	if err := checkYAMLBytes(data); err != nil {
		return Policy{}, refusal.Newf(refusal.Malformed, "%s: %w", name, err).WithHint(policyHint)
	}
	text, err := yamlToJSON(data)
	if err != nil {
		return Policy{}, refusal.Newf(refusal.Malformed, "%s:%w", name, err).WithHint(policyHint)
	}
	return Parse(name, text)
}

// maxYAMLDepth is more than the deepest part of a policy, a list in a rule.
const maxYAMLDepth = 8

// deepLine finds "- - - -" and its like, which nest without brackets.
var deepLine = regexp.MustCompile(`(?:[-?:][ \t]+){16}`)

// checkYAMLBytes refuses what must not reach the parser.
func checkYAMLBytes(data []byte) error {
	switch {
	case len(data) > maxPolicyBytes:
		return fmt.Errorf("%d bytes, at most %d are accepted", len(data), maxPolicyBytes)
	case !utf8.Valid(data):
		return errors.New("not valid UTF-8")
	case bytes.ContainsFunc(data, func(r rune) bool {
		return r < 0x20 && r != '\n' || r >= 0x7f && r < 0xa0 || r == 0xfeff || r == 0x2028 || r == 0x2029
	}):
		return errors.New("found a tab, a carriage return or a character that cannot be seen, expected lines of plain text")
	case bytes.Count(data, []byte("["))+bytes.Count(data, []byte("{")) > 4*maxListed:
		return errors.New("too many brackets")
	case deepLine.Match(data):
		return errors.New("too many lists begin in one line")
	}
	return nil
}

// yamlToJSON turns a panic of the parser into an error: what it reads may come
// from anywhere.
func yamlToJSON(data []byte) (text []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			text, err = nil, fmt.Errorf("1:1: the YAML parser failed: %v", r)
		}
	}()
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		var e yaml.Error
		if errors.As(err, &e) && e.GetToken() != nil {
			return nil, at(e.GetToken(), "%s", e.GetMessage())
		}
		return nil, fmt.Errorf("1:1: %w", err)
	}
	if len(file.Docs) != 1 || file.Docs[0].Body == nil {
		return nil, fmt.Errorf("1:1: found %d YAML documents, expected one", len(file.Docs))
	}
	return appendNode(nil, file.Docs[0].Body, 0)
}

func at(t *token.Token, format string, args ...any) error {
	line, column := 1, 1
	if t != nil && t.Position != nil {
		line, column = t.Position.Line, t.Position.Column
	}
	return fmt.Errorf("%d:%d: %s", line, column, fmt.Sprintf(format, args...))
}

var (
	yamlNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?$`)

	// looksTyped finds text without quotes that some YAML reader takes for
	// something else, such as the time 09:00.
	looksTyped = regexp.MustCompile(`(?i)^([-+.]?[0-9].*|y|yes|n|no|on|off|true|false|null|~|)$`)
)

func appendNode(dst []byte, n ast.Node, depth int) ([]byte, error) {
	if n == nil {
		return nil, errors.New("1:1: found nothing where a value is expected")
	}
	t := n.GetToken()
	if depth > maxYAMLDepth {
		return nil, at(t, "nested deeper than %d levels", maxYAMLDepth)
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		return appendMapping(dst, n.Values, depth)
	case *ast.MappingValueNode:
		return appendMapping(dst, []*ast.MappingValueNode{n}, depth)
	case *ast.SequenceNode:
		var err error
		dst = append(dst, '[')
		for i, item := range n.Values {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = appendNode(dst, item, depth+1); err != nil {
				return nil, err
			}
		}
		return append(dst, ']'), nil
	case *ast.StringNode:
		return appendText(dst, n.GetToken(), n.Value)
	case *ast.LiteralNode:
		return appendText(dst, n.GetToken(), n.Value.Value)
	case *ast.IntegerNode, *ast.FloatNode:
		if !yamlNumber.MatchString(t.Value) {
			return nil, at(t, "found the number %s, expected decimal digits (quote it if text is meant)", t.Value)
		}
		return append(dst, t.Value...), nil
	}
	return nil, at(t, "found a %s, expected a mapping, a list, text or a number", n.Type())
}

func appendMapping(dst []byte, values []*ast.MappingValueNode, depth int) ([]byte, error) {
	dst = append(dst, '{')
	for i, v := range values {
		key, ok := v.Key.(*ast.StringNode)
		if !ok {
			return nil, at(v.Key.GetToken(), "found a key that is a %s, expected text", v.Key.Type())
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendText(dst, key.GetToken(), key.Value); err != nil {
			return nil, err
		}
		if dst, err = appendNode(append(dst, ':'), v.Value, depth+1); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

func appendText(dst []byte, t *token.Token, text string) ([]byte, error) {
	if t != nil && t.Type == token.StringType && looksTyped.MatchString(text) {
		return nil, at(t, "found %s without quotes, which readers of YAML understand differently; put it in quotes", strconv.Quote(text))
	}
	quoted, err := canon.Marshal(text)
	if err != nil {
		return nil, at(t, "%v", err)
	}
	return append(dst, quoted...), nil
}
