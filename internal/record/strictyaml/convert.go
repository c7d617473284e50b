package strictyaml

import (
	"regexp"
	"slices"
	"sync"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"tallystick/internal/record/canon"
)

// lazily compiles a pattern when it is first used: every start of the program,
// each sandbox's too, pays for what packages do at their start.
func lazily(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

var (
	// jsonNumber is the one spelling of numbers that every reader agrees on.
	jsonNumber = lazily(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

	// looksTyped finds text without quotes that some YAML reader takes for a
	// number, a time, true or false.
	looksTyped = lazily(`(?i)^([-+.]?[0-9].*|y|yes|n|no|on|off|true|false|null|~|)$`)

	// looksTypedWhole is that for [Rules.PlainDigits].
	looksTypedWhole = lazily(`(?i)^([-+.]?[0-9][-+.:_0-9a-fxotz]*|y|yes|n|no|on|off|true|false|null|~|)$`)
)

func position(t *token.Token) (line, column int) {
	if t == nil || t.Position == nil {
		return 1, 1
	}
	return t.Position.Line, t.Position.Column
}

func (f file) refuseToken(t *token.Token, format string, args ...any) error {
	line, column := position(t)
	return f.refuse(line, column, format, args...)
}

// isDoubtful reports whether text that stands without quotes needs them.
func (f file) isDoubtful(t *token.Token, text string) bool {
	if t.Type != token.StringType {
		return false
	}
	if f.rules.PlainDigits {
		return looksTypedWhole().MatchString(text)
	}
	return looksTyped().MatchString(text)
}

// convert turns the library's tree into ours.
func (f file) convert(n ast.Node, depth int) (*Node, error) {
	if n == nil {
		return nil, f.refuse(1, 1, "found nothing where a value is expected")
	}
	t := n.GetToken()
	if depth > f.rules.MaxDepth {
		return nil, f.refuseToken(t, "nested deeper than %d levels", f.rules.MaxDepth)
	}
	out := &Node{}
	out.Line, out.Column = position(t)
	switch n := n.(type) {
	case *ast.MappingNode:
		return out, f.mapping(out, n.Values, depth)
	case *ast.MappingValueNode:
		return out, f.mapping(out, []*ast.MappingValueNode{n}, depth)
	case *ast.SequenceNode:
		out.Kind = List
		for _, item := range n.Values {
			value, err := f.convert(item, depth+1)
			if err != nil {
				return nil, err
			}
			out.Items = append(out.Items, value)
		}
		return out, nil
	case *ast.StringNode:
		out.Kind, out.Text = Text, n.Value
		if f.isDoubtful(t, n.Value) {
			return nil, f.refuseToken(t, "found %.80q without quotes, which readers of YAML understand differently; put it in quotes if text is meant", n.Value)
		}
		return out, nil
	case *ast.LiteralNode:
		out.Kind, out.Text = Text, n.Value.Value
		return out, nil
	case *ast.IntegerNode, *ast.FloatNode:
		return out, f.number(out, t)
	case *ast.BoolNode:
		if t.Value != "true" && t.Value != "false" {
			return nil, f.refuseToken(t, "found %s, expected true or false", t.Value)
		}
		out.Kind, out.Text = Bool, t.Value
		return out, nil
	case *ast.NullNode:
		if t.Value != "null" {
			return nil, f.refuseToken(t, "found no value; write null if that is meant")
		}
		out.Kind, out.Text = Null, "null"
		return out, nil
	case *ast.AnchorNode, *ast.AliasNode:
		return nil, f.refuseToken(t, "found an anchor or alias, expected a plain value")
	case *ast.TagNode:
		return nil, f.refuseToken(t, "found the tag %.80s, expected a plain value", t.Value)
	}
	return nil, f.refuseToken(t, "found a %s, expected a mapping, a list or a plain value", n.Type())
}

func (f file) number(out *Node, t *token.Token) error {
	if !jsonNumber().MatchString(t.Value) {
		return f.refuseToken(t, "found the number %.80s, expected decimal digits as in 10 or 0.5 (quote it if text is meant)", t.Value)
	}
	if _, err := canon.Canonicalize([]byte(t.Value)); err != nil {
		return f.refuseToken(t, "the number %.80s is out of range: %w", t.Value, err)
	}
	out.Kind, out.Text = Number, t.Value
	return nil
}

func (f file) mapping(out *Node, values []*ast.MappingValueNode, depth int) error {
	out.Kind = Mapping
	seen := make(map[string]bool, len(values))
	for i, v := range values {
		if v.Key.IsMergeKey() {
			return f.refuseToken(v.Key.GetToken(), "found a merge key, expected a plain key")
		}
		key, ok := v.Key.(*ast.StringNode)
		if !ok {
			return f.refuseToken(v.Key.GetToken(), "found a key that is a %s, expected text (quote it)", v.Key.Type())
		}
		t := key.GetToken()
		if f.isDoubtful(t, key.Value) && !slices.Contains(f.rules.PlainKeys, key.Value) {
			return f.refuseToken(t, "found the key %.80q without quotes, which readers of YAML understand differently; put it in quotes", key.Value)
		}
		m := Member{Key: key.Value}
		m.Line, m.Column = position(t)
		if i == 0 {
			out.Line, out.Column = m.Line, m.Column
		}
		if seen[m.Key] {
			return f.refuseToken(t, "the key %.80q occurs twice", m.Key)
		}
		seen[m.Key] = true
		var err error
		if m.Value, err = f.convert(v.Value, depth+1); err != nil {
			return err
		}
		out.Members = append(out.Members, m)
	}
	return nil
}
