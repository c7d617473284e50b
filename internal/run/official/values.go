package official

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
)

// The values of Python that outputs and data sets have: nil, bool, *big.Int, float64,
// string, and these.
type (
	pyList     []any
	pyTuple    []any
	pyDict     struct{ items []pyItem }
	pyItem     struct{ key, value any }
	byteString string
	imaginary  float64
	ellipsis   struct{}
)

// typeOf is the name of a value's type in Python.
func typeOf(v any) string {
	switch v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case *big.Int:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case pyList:
		return "list"
	case pyTuple:
		return "tuple"
	case *pyDict:
		return "dict"
	case byteString:
		return "bytes"
	case imaginary:
		return "complex"
	}
	return "ellipsis"
}

func (d *pyDict) get(key any) (any, bool) {
	for _, item := range d.items {
		if equal(item.key, key) {
			return item.value, true
		}
	}
	return nil, false
}

func (d *pyDict) set(key, value any) {
	for i := range d.items {
		if equal(d.items[i].key, key) {
			d.items[i].value = value
			return
		}
	}
	d.items = append(d.items, pyItem{key, value})
}

// equal is == of Python.
func equal(a, b any) bool {
	switch x := a.(type) {
	case pyList:
		y, ok := b.(pyList)
		return ok && equalAll(x, y)
	case pyTuple:
		y, ok := b.(pyTuple)
		return ok && equalAll(x, y)
	case *pyDict:
		y, ok := b.(*pyDict)
		if !ok || len(x.items) != len(y.items) {
			return false
		}
		for _, item := range x.items {
			if v, ok := y.get(item.key); !ok || !equal(item.value, v) {
				return false
			}
		}
		return true
	case string, byteString, ellipsis, nil:
		return a == b
	case imaginary:
		y, ok := b.(imaginary)
		return ok && x == y
	}
	x, isNumber := numberOf(a)
	y, also := numberOf(b)
	if !isNumber || !also {
		return false
	}
	if x.rat == nil || y.rat == nil {
		return x.rat == nil && y.rat == nil && x.float == y.float
	}
	return x.rat.Cmp(y.rat) == 0
}

func equalAll(a, b []any) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

// contains is "in" of Python for a list.
func contains(list []any, v any) bool {
	for _, item := range list {
		if equal(item, v) {
			return true
		}
	}
	return false
}

// A number is exact, or one of the floats that no fraction is.
type number struct {
	rat   *big.Rat
	float float64
}

func numberOf(v any) (number, bool) {
	switch v := v.(type) {
	case bool:
		n := int64(0)
		if v {
			n = 1
		}
		return number{rat: new(big.Rat).SetInt64(n)}, true
	case *big.Int:
		return number{rat: new(big.Rat).SetInt(v)}, true
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return number{float: v}, true
		}
		return number{rat: new(big.Rat).SetFloat64(v)}, true
	}
	return number{}, false
}

// repr writes a value as Python does.
func repr(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case *big.Int:
		return v.String()
	case float64:
		return reprFloat(v)
	case string:
		return reprString(v)
	case byteString:
		return "b" + reprString(string(v))
	case imaginary:
		return strings.TrimSuffix(reprFloat(float64(v)), ".0") + "j"
	case pyList:
		return "[" + reprAll(v) + "]"
	case pyTuple:
		if len(v) == 1 {
			return "(" + repr(v[0]) + ",)"
		}
		return "(" + reprAll(v) + ")"
	case *pyDict:
		var pairs []string
		for _, item := range v.items {
			pairs = append(pairs, repr(item.key)+": "+repr(item.value))
		}
		return "{" + strings.Join(pairs, ", ") + "}"
	}
	return "Ellipsis"
}

func reprAll(items []any) string {
	var texts []string
	for _, item := range items {
		texts = append(texts, repr(item))
	}
	return strings.Join(texts, ", ")
}

func reprFloat(v float64) string {
	switch {
	case math.IsNaN(v):
		return "nan"
	case math.IsInf(v, 0):
		return "1e309"[:5] // as ast.unparse writes what does not fit
	}
	if abs := math.Abs(v); abs != 0 && (abs < 1e-4 || abs >= 1e16) {
		s := strconv.FormatFloat(v, 'e', -1, 64)
		mantissa, exponent, _ := strings.Cut(s, "e")
		n, _ := strconv.Atoi(exponent)
		sign := "+"
		if n < 0 {
			sign, n = "-", -n
		}
		return fmt.Sprintf("%se%s%02d", mantissa, sign, n)
	}
	s := strconv.FormatFloat(v, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

func reprString(s string) string {
	quote := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, "\"") {
		quote = '"'
	}
	var b strings.Builder
	b.WriteByte(quote)
	for _, r := range s {
		switch {
		case r == rune(quote) || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString("\\n")
		case r == '\r':
			b.WriteString("\\r")
		case r == '\t':
			b.WriteString("\\t")
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, "\\x%02x", r)
		case r >= 0x80 && !unicode.IsPrint(r):
			switch {
			case r < 0x100:
				fmt.Fprintf(&b, "\\x%02x", r)
			case r < 0x10000:
				fmt.Fprintf(&b, "\\u%04x", r)
			default:
				fmt.Fprintf(&b, "\\U%08x", r)
			}
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte(quote)
	return b.String()
}

// parseJSON reads a document as Python's json does: 5 is an int and 5.0 a float, and of
// a member that is there twice the last counts.
func parseJSON(text string) (any, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	v, err := jsonValue(d)
	if err != nil {
		return nil, err
	}
	if d.More() || strings.Trim(text[d.InputOffset():], " \t\r\n") != "" {
		return nil, errors.New("has something behind its JSON")
	}
	return v, nil
}

func jsonValue(d *json.Decoder) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '[' {
			items := pyList{}
			for d.More() {
				v, err := jsonValue(d)
				if err != nil {
					return nil, err
				}
				items = append(items, v)
			}
			_, err := d.Token()
			return items, err
		}
		object := &pyDict{}
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			v, err := jsonValue(d)
			if err != nil {
				return nil, err
			}
			object.set(key.(string), v)
		}
		_, err := d.Token()
		return object, err
	case json.Number:
		if !bytes.ContainsAny([]byte(t), ".eE") {
			n, _ := new(big.Int).SetString(string(t), 10)
			return n, nil
		}
		f, err := strconv.ParseFloat(string(t), 64)
		if errors.Is(err, strconv.ErrRange) {
			err = nil
		}
		return f, err
	}
	return t, nil
}

// evaluate computes a binary operation of constants, as the official decoder does with
// eval. What it does not know is an error, which is what a name in one gives there.
func evaluate(e expr) (any, error) {
	switch e := e.(type) {
	case constant:
		return e.value, nil
	case list:
		items, err := evaluateAll(e.items)
		return pyList(items), err
	case tuple:
		items, err := evaluateAll(e.items)
		return pyTuple(items), err
	case unary:
		v, err := evaluate(e.operand)
		if err != nil {
			return nil, err
		}
		switch e.operator {
		case "-":
			return negate(v)
		case "+":
			if n, ok := v.(bool); ok {
				return asInt(n), nil
			}
			if _, ok := numberOf(v); ok {
				return v, nil
			}
		case "~":
			if n, ok := intOf(v); ok {
				return new(big.Int).Not(n), nil
			}
		}
	case binary:
		left, err := evaluate(e.left)
		if err != nil {
			return nil, err
		}
		right, err := evaluate(e.right)
		if err != nil {
			return nil, err
		}
		return operate(left, e.operator, right)
	}
	return nil, errDecode
}

func evaluateAll(items []expr) ([]any, error) {
	out := []any{}
	for _, item := range items {
		v, err := evaluate(item)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

var errDecode = errors.New("has an expression that the decoder does not take")

func asInt(b bool) *big.Int {
	if b {
		return big.NewInt(1)
	}
	return big.NewInt(0)
}

func intOf(v any) (*big.Int, bool) {
	switch v := v.(type) {
	case bool:
		return asInt(v), true
	case *big.Int:
		return v, true
	}
	return nil, false
}

func floatOf(v any) (float64, bool) {
	if n, ok := intOf(v); ok {
		f, _ := new(big.Float).SetInt(n).Float64()
		return f, true
	}
	f, ok := v.(float64)
	return f, ok
}

func negate(v any) (any, error) {
	if n, ok := intOf(v); ok {
		return new(big.Int).Neg(n), nil
	}
	switch v := v.(type) {
	case float64:
		return -v, nil
	case imaginary:
		return -v, nil
	}
	return nil, errDecode
}

// maxBits bounds what an operation may make, so that 9**9**9 does not run for ever.
const maxBits = 1 << 16

func operate(a any, operator string, b any) (any, error) {
	x, isInt := intOf(a)
	y, also := intOf(b)
	switch {
	case isInt && also:
		return operateInts(x, operator, y)
	case operator == "+" || operator == "*":
		if v, ok := operateTexts(a, operator, b); ok {
			return v, nil
		}
	}
	f, ok := floatOf(a)
	g, also := floatOf(b)
	if !ok || !also {
		return nil, errDecode
	}
	switch operator {
	case "+":
		return f + g, nil
	case "-":
		return f - g, nil
	case "*":
		return f * g, nil
	case "/", "//", "%":
		if g == 0 {
			return nil, errDecode
		}
		mod := math.Mod(f, g)
		if mod != 0 && (mod < 0) != (g < 0) {
			mod += g
		}
		switch operator {
		case "/":
			return f / g, nil
		case "//":
			return math.Round((f - mod) / g), nil
		}
		return mod, nil
	case "**":
		if f == 0 && g < 0 || f < 0 && g != math.Trunc(g) {
			return nil, errDecode
		}
		return math.Pow(f, g), nil
	}
	return nil, errDecode
}

func operateInts(x *big.Int, operator string, y *big.Int) (any, error) {
	switch operator {
	case "+":
		return new(big.Int).Add(x, y), nil
	case "-":
		return new(big.Int).Sub(x, y), nil
	case "*":
		if x.BitLen()+y.BitLen() > maxBits {
			return nil, errDecode
		}
		return new(big.Int).Mul(x, y), nil
	case "/":
		if y.Sign() == 0 {
			return nil, errDecode
		}
		f, _ := new(big.Rat).SetFrac(x, y).Float64()
		return f, nil
	case "//", "%":
		if y.Sign() == 0 {
			return nil, errDecode
		}
		quotient, rest := new(big.Int).QuoRem(x, y, new(big.Int))
		if rest.Sign() != 0 && rest.Sign() != y.Sign() {
			quotient.Sub(quotient, big.NewInt(1))
			rest.Add(rest, y)
		}
		if operator == "%" {
			return rest, nil
		}
		return quotient, nil
	case "**":
		if y.Sign() < 0 {
			f, _ := floatOf(x)
			g, _ := floatOf(y)
			if f == 0 {
				return nil, errDecode
			}
			return math.Pow(f, g), nil
		}
		if !y.IsInt64() || int64(x.BitLen())*y.Int64() > maxBits {
			return nil, errDecode
		}
		return new(big.Int).Exp(x, y, nil), nil
	case "&":
		return new(big.Int).And(x, y), nil
	case "|":
		return new(big.Int).Or(x, y), nil
	case "^":
		return new(big.Int).Xor(x, y), nil
	case "<<", ">>":
		if y.Sign() < 0 || !y.IsInt64() || y.Int64() > maxBits {
			return nil, errDecode
		}
		if operator == "<<" {
			return new(big.Int).Lsh(x, uint(y.Int64())), nil
		}
		return new(big.Int).Rsh(x, uint(y.Int64())), nil
	}
	return nil, errDecode
}

// operateTexts joins and repeats texts, lists and tuples.
func operateTexts(a any, operator string, b any) (any, bool) {
	if operator == "+" {
		switch x := a.(type) {
		case string:
			y, ok := b.(string)
			return x + y, ok
		case pyList:
			y, ok := b.(pyList)
			return append(append(pyList{}, x...), y...), ok
		case pyTuple:
			y, ok := b.(pyTuple)
			return append(append(pyTuple{}, x...), y...), ok
		}
		return nil, false
	}
	n, ok := intOf(b)
	if !ok {
		if n, ok = intOf(a); !ok {
			return nil, false
		}
		a = b
	}
	times := 0
	if n.Sign() > 0 {
		if !n.IsInt64() || n.Int64() > maxBits {
			return nil, false
		}
		times = int(n.Int64())
	}
	switch x := a.(type) {
	case string:
		if len(x)*times > 1<<20 {
			return nil, false
		}
		return strings.Repeat(x, times), true
	case pyList:
		return repeated(x, times), true
	case pyTuple:
		return pyTuple(repeated(pyList(x), times)), true
	}
	return nil, false
}

func repeated(items pyList, times int) pyList {
	out := pyList{}
	for i := 0; i < times && len(out) < maxBits; i++ {
		out = append(out, items...)
	}
	return out
}
