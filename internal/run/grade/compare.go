package grade

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/run/extract"
)

// A comparator is a compiled "expect": an operator and what to compare with.
type comparator struct {
	operator string // == != < <= > >=
	text     string
	number   *big.Rat // nil if the text is not a number
}

// parseComparator reads a number, a bool, or text such as ">=1", "!=refused" or
// "completed".
func parseComparator(raw canon.RawMessage) (comparator, error) {
	c := comparator{operator: "=="}
	switch raw.Kind() {
	case '0', 't', 'f':
		c.text = string(raw)
	case '"':
		if err := canon.Unmarshal(raw, &c.text); err != nil {
			return c, err
		}
		found := false
		for _, operator := range []string{">=", "<=", "!=", "==", ">", "<"} {
			if rest, ok := strings.CutPrefix(c.text, operator); ok {
				c.operator, c.text, found = operator, strings.TrimSpace(rest), true
				break
			}
		}
		// "=>1" and "=1" would be texts that nothing is ever equal to.
		if !found && strings.ContainsAny(c.text[:min(1, len(c.text))], "=!") {
			return c, fmt.Errorf("%s begins with no operator that there is, expected >= <= != == > or <; before a text of this kind write ==", quoted(c.text))
		}
	default:
		return c, errors.New("expected a number, true, false, or text such as \">=1\"")
	}
	if c.text == "" {
		return c, errors.New("there is nothing to compare with")
	}
	if n, ok := parseDecimal(c.text); ok {
		c.number = n
	} else if c.operator != "==" && c.operator != "!=" {
		return c, fmt.Errorf("%s %s: expected a number after %s", c.operator, quoted(c.text), c.operator)
	}
	return c, nil
}

func (c *compiler) comparator(at place, n *node, r *Rule) error {
	comparing, err := parseComparator(r.Expect)
	if err != nil {
		return &placed{at.in("expect"), err}
	}
	n.expected, n.grade = r.Expect, comparing.grade
	return nil
}

func (c comparator) String() string { return c.operator + c.text }

func (c comparator) grade(v *extract.Value) verdict {
	holds, bad := c.holds(v)
	switch {
	case bad != nil:
		return *bad
	case holds:
		return passed("%s is %s", quote(v, v.Shown()), c)
	}
	return mismatch("%s is not %s", quote(v, v.Shown()), c)
}

func (c comparator) holds(v *extract.Value) (bool, *verdict) {
	switch v.Kind {
	case extract.NumberValue:
		if n, ok := parseDecimal(string(v.Number)); ok && c.number != nil {
			return ordered(n.Cmp(c.number), c.operator), nil
		}
	case extract.TextValue:
		if c.operator == "==" || c.operator == "!=" {
			return (v.Text == c.text) == (c.operator == "=="), nil
		}
		if n, ok := parseDecimal(strings.TrimSpace(v.Text)); ok {
			return ordered(n.Cmp(c.number), c.operator), nil
		}
	case extract.BoolValue:
		if want, err := strconv.ParseBool(c.text); err == nil && (c.text == "true" || c.text == "false") && (c.operator == "==" || c.operator == "!=") {
			return (v.Bool == want) == (c.operator == "=="), nil
		}
	}
	bad := unusable(CodeNotComparable, "%s, a %s, cannot be compared with %s", quote(v, v.Shown()), v.Kind, c)
	return false, &bad
}

func ordered(cmp int, operator string) bool {
	switch operator {
	case "<":
		return cmp < 0
	case "<=":
		return cmp <= 0
	case ">":
		return cmp > 0
	case ">=":
		return cmp >= 0
	case "!=":
		return cmp != 0
	}
	return cmp == 0
}
