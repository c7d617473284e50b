package grade

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"tallystick/internal/record/canon"
	"tallystick/internal/run/extract"
)

// Numbers are compared as decimals, exactly: 1.1 is within 0.1 of 1, which
// doubles do not say. These bound what a text may make us calculate.
const (
	maxNumberBytes = 400
	maxExponent    = 330
)

// A quantity is a number and its unit, which may be none.
type quantity struct {
	value *big.Rat
	unit  string
}

// decimal is the exact value of a double's shortest spelling.
func decimal(f float64) *big.Rat {
	r, ok := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64))
	if !ok {
		return new(big.Rat)
	}
	return r
}

// parseDecimal reads a text that is a number without a unit, such as JSON has
// it.
func parseDecimal(s string) (*big.Rat, bool) {
	number, rest, ok := cutNumber(s)
	if !ok || rest != "" {
		return nil, false
	}
	return number, true
}

// cutNumber reads the number at the beginning of s:
//
//	[+-] digits [. digits] [e [+-] digits]
//	[+-] 1 to 3 digits {, 3 digits} [. digits]
//	[+-] . digits [e [+-] digits]
//
// A minus may be U+2212. A comma that does not part thousands ends the number,
// so that 1,5 is refused and not read as 15.
func cutNumber(s string) (value *big.Rat, rest string, ok bool) {
	text, i := "", 0
	switch {
	case strings.HasPrefix(s, "\u2212"):
		text, i = "-", len("\u2212")
	case strings.HasPrefix(s, "-"), strings.HasPrefix(s, "+"):
		text, i = s[:1], 1
	}
	whole := digitsAt(s, i)
	i += len(whole)
	grouped := false
	if n := len(whole); n >= 1 && n <= 3 {
		for i < len(s) && s[i] == ',' && len(digitsAt(s, i+1)) == 3 {
			if len(whole) > maxNumberBytes {
				return nil, s, false
			}
			whole += s[i+1 : i+4]
			i += 4
			grouped = true
		}
	}
	text += whole
	fraction := ""
	if i < len(s) && s[i] == '.' {
		fraction = digitsAt(s, i+1)
		if fraction != "" {
			text += "." + fraction
			i += 1 + len(fraction)
		}
	}
	if whole == "" && fraction == "" || len(text) > maxNumberBytes {
		return nil, s, false
	}
	if !grouped && i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		j := i + 1
		if j < len(s) && (s[j] == '+' || s[j] == '-') {
			j++
		}
		if exponent := digitsAt(s, j); exponent != "" {
			n, err := strconv.Atoi(exponent)
			if err != nil || n > maxExponent {
				return nil, s, false
			}
			j += len(exponent)
			text += s[i:j]
			i = j
		}
	}
	value, ok = new(big.Rat).SetString(text)
	return value, s[i:], ok
}

func digitsAt(s string, i int) string {
	j := i
	for j < len(s) && s[j] >= '0' && s[j] <= '9' {
		j++
	}
	if i > len(s) {
		return ""
	}
	return s[i:j]
}

// parseQuantity reads a text that is one number and perhaps a unit, after it or,
// for money, before it.
func parseQuantity(s string) (quantity, bool) {
	s = strings.TrimSpace(s)
	prefix := ""
	for _, symbol := range []string{"$", "€", "£"} {
		if rest, ok := strings.CutPrefix(s, symbol); ok {
			prefix, s = symbol, strings.TrimLeft(rest, " ")
		}
	}
	value, rest, ok := cutNumber(s)
	if !ok {
		return quantity{}, false
	}
	unit := strings.TrimSpace(rest)
	if unit == "." {
		unit = "" // the end of a sentence
	}
	if first, _ := utf8.DecodeRuneInString(unit); unit != "" && !inUnit(first) {
		return quantity{}, false
	}
	if prefix != "" {
		if unit != "" {
			return quantity{}, false
		}
		unit = prefix
	}
	return quantity{value, unit}, true
}

// findQuantity looks for the first or the last number in a text. A number does
// not begin or end within a word or another number: v2, 2nd and 1.2.3 hold none
// that is meant.
func findQuantity(s string, last bool) (found quantity, ok bool) {
	before := ' '
	for i := 0; i < len(s); {
		next, size := utf8.DecodeRuneInString(s[i:])
		// Looking here first keeps a long row of digits from being read again
		// from each of them.
		if !unicode.IsLetter(before) && !unicode.IsDigit(before) && !strings.ContainsRune(".,_", before) {
			if value, rest, isNumber := cutNumber(s[i:]); isNumber && endsNumber(rest) {
				found, ok = quantity{value, unitAt(rest)}, true
				if _, known := units()[string(before)]; known && found.unit == "" {
					found.unit = string(before)
				}
				if !last {
					return found, true
				}
				i, before = len(s)-len(rest), '0'
				continue
			}
		}
		i, before = i+size, next
	}
	return found, ok
}

// endsNumber reports whether a number may end before rest.
func endsNumber(rest string) bool {
	next, size := utf8.DecodeRuneInString(rest)
	if next == '.' || next == ',' {
		return digitsAt(rest, size) == ""
	}
	return !unicode.IsLetter(next) && next != '_' || unitAt(rest) != ""
}

// unitAt is the unit that follows a number in running text, if the word there
// is one.
func unitAt(rest string) string {
	word := strings.TrimPrefix(rest, " ")
	end := strings.IndexFunc(word, func(r rune) bool { return !inUnit(r) })
	if end >= 0 {
		word = word[:end]
	}
	if _, ok := units()[word]; ok && !isPreposition(rest, word) {
		return word
	}
	return ""
}

// isPreposition reports whether the word after a number is the "in" of "12 in
// total" and not inches: another word follows it.
func isPreposition(rest, word string) bool {
	after, ok := strings.CutPrefix(rest, " in ")
	first, _ := utf8.DecodeRuneInString(after)
	return word == "in" && ok && unicode.IsLetter(first)
}

func inUnit(r rune) bool { return unicode.IsLetter(r) || strings.ContainsRune("%°$€£", r) }

// A unit measures one dimension: a value in it times factor plus offset is the
// value in the dimension's base unit.
type unit struct {
	dimension      string
	factor, offset *big.Rat
}

// units are the units that are known, by every spelling. Case matters: mB is
// not MB.
var units = sync.OnceValue(func() map[string]unit {
	known := map[string]unit{}
	add := func(dimension, factor, offset string, spellings ...string) {
		f, _ := new(big.Rat).SetString(factor)
		o, _ := new(big.Rat).SetString(offset)
		for _, s := range spellings {
			known[s] = unit{dimension, f, o}
		}
	}
	for _, u := range []struct {
		dimension, factor string
		spellings         string
	}{
		{"length", "1e-9", "nm nanometre nanometres nanometer nanometers"},
		{"length", "1e-6", "um µm μm micrometre micrometres micrometer micrometers"},
		{"length", "1e-3", "mm millimetre millimetres millimeter millimeters"},
		{"length", "1e-2", "cm centimetre centimetres centimeter centimeters"},
		{"length", "1", "m metre metres meter meters"},
		{"length", "1000", "km kilometre kilometres kilometer kilometers"},
		{"length", "0.0254", "in inch inches"},
		{"length", "0.3048", "ft foot feet"},
		{"length", "0.9144", "yd yard yards"},
		{"length", "1609.344", "mi mile miles"},
		{"mass", "1e-6", "mg milligram milligrams"},
		{"mass", "1e-3", "g gram grams"},
		{"mass", "1", "kg kilogram kilograms"},
		{"mass", "1000", "t tonne tonnes"},
		{"mass", "0.028349523125", "oz ounce ounces"},
		{"mass", "0.45359237", "lb lbs pound pounds"},
		{"time", "1e-3", "ms millisecond milliseconds"},
		{"time", "1", "s sec second seconds"},
		{"time", "60", "min minute minutes"},
		{"time", "3600", "h hr hour hours"},
		{"time", "86400", "d day days"},
		{"volume", "1e-3", "ml mL millilitre millilitres milliliter milliliters"},
		{"volume", "1", "l L litre litres liter liters"},
		{"data", "1", "B byte bytes"},
		{"data", "1e3", "kB KB"},
		{"data", "1e6", "MB"},
		{"data", "1e9", "GB"},
		{"data", "1e12", "TB"},
		{"data", "1024", "KiB"},
		{"data", "1048576", "MiB"},
		{"data", "1073741824", "GiB"},
		{"data", "1099511627776", "TiB"},
		{"share", "1/100", "% percent"},
		{"US dollars", "1", "$ USD"},
		{"euros", "1", "€ EUR"},
		{"pounds sterling", "1", "£ GBP"},
	} {
		add(u.dimension, u.factor, "0", strings.Fields(u.spellings)...)
	}
	add("temperature", "1", "0", "K")
	add("temperature", "1", "273.15", "°C", "C")
	add("temperature", "5/9", "45967/180", "°F", "F") // (x + 459.67) * 5/9
	return known
})

// convert gives a quantity in another unit.
func (q quantity) convert(to string) (*big.Rat, error) {
	if q.unit == to {
		return q.value, nil
	}
	have, ok := units()[q.unit]
	if !ok {
		return nil, fmt.Errorf("%s is no unit that is known", quoted(q.unit))
	}
	want := units()[to]
	if have.dimension != want.dimension {
		return nil, fmt.Errorf("%s measures %s and %s measures %s", q.unit, have.dimension, to, want.dimension)
	}
	base := new(big.Rat).Mul(q.value, have.factor)
	base.Add(base, have.offset)
	base.Sub(base, want.offset)
	return base.Quo(base, want.factor), nil
}

// isCurrency reports whether a unit only says that a number is money: $42 is 42
// to a check without a unit, which 42 km is not.
func isCurrency(unit string) bool {
	switch units()[unit].dimension {
	case "US dollars", "euros", "pounds sterling":
		return true
	}
	return false
}

// A numberRule is a compiled grader of numbers.
type numberRule struct {
	want                *big.Rat
	tolerance, relative *big.Rat
	unit                string
	unitRequired        bool
	find                string
}

func (n *numberRule) grade(v *extract.Value) verdict {
	q, bad := n.read(v)
	if bad != nil {
		return *bad
	}
	got := q.value
	switch {
	case n.unit == "" && q.unit != "" && !isCurrency(q.unit):
		return unusable(CodeNotComparable, "%s has a unit, and none is expected", quote(v, v.Shown()))
	case n.unit != "" && q.unit == "" && n.unitRequired:
		return unusable(CodeNotComparable, "%s has no unit, and %s or another of its kind is required", quote(v, v.Shown()), n.unit)
	case n.unit != "" && q.unit != "":
		var err error
		if got, err = q.convert(n.unit); err != nil {
			return unusable(CodeNotComparable, "%v", err)
		}
	}
	return n.against(got)
}

// against compares a number in the unit of the rule.
func (n *numberRule) against(got *big.Rat) verdict {
	difference := new(big.Rat).Sub(got, n.want)
	difference.Abs(difference)
	allowed := new(big.Rat).Mul(n.relative, new(big.Rat).Abs(n.want))
	if allowed.Cmp(n.tolerance) < 0 {
		allowed = n.tolerance
	}
	unit := n.unit
	if unit != "" {
		unit = " " + unit
	}
	text := fmt.Sprintf("%s%s against %s%s: %s apart, %s allowed", shortRat(got), unit, shortRat(n.want), unit, shortRat(difference), shortRat(allowed))
	if difference.Cmp(allowed) <= 0 {
		return passed("%s", text)
	}
	return mismatch("%s", text)
}

// read finds the number in a value.
func (n *numberRule) read(v *extract.Value) (quantity, *verdict) {
	switch v.Kind {
	case extract.NumberValue:
		if value, ok := parseDecimal(string(v.Number)); ok {
			return quantity{value: value}, nil
		}
	case extract.TextValue:
		text, bad := textOf(v)
		if bad != nil {
			return quantity{}, bad
		}
		var q quantity
		var ok bool
		switch n.find {
		case "first", "last":
			q, ok = findQuantity(text, n.find == "last")
		default:
			if len(text) <= 2*maxNumberBytes {
				q, ok = parseQuantity(text)
			}
		}
		if ok {
			return q, nil
		}
		bad2 := unusable(CodeNotComparable, "%s is no number", quote(v, text))
		return quantity{}, &bad2
	}
	bad := unusable(CodeNotComparable, "the value is a %s, expected a number", v.Kind)
	return quantity{}, &bad
}

// shortRat writes a number for people.
func shortRat(r *big.Rat) string {
	if r.IsInt() && len(r.Num().Bits()) <= 2 {
		return r.Num().String()
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', 10, 64)
}

func validateNumber(at place, r *Rule) error {
	if r.UnitRequired && r.Unit == "" {
		return at.in("unit_required").bad("there is no unit")
	}
	return nil
}

func numberGrader(expected canon.RawMessage, r *Rule) (grader, error) {
	if expected.Kind() != '0' {
		return nil, fmt.Errorf("expected is %s, where a number is needed", describe(expected))
	}
	want, ok := parseDecimal(string(expected))
	if !ok {
		return nil, fmt.Errorf("expected %s is not a number", quoted(string(expected)))
	}
	rule := &numberRule{want: want, tolerance: new(big.Rat), relative: new(big.Rat), unit: r.Unit, unitRequired: r.UnitRequired, find: r.Find}
	if r.Tolerance != nil {
		rule.tolerance = decimal(*r.Tolerance)
	}
	if r.Relative != nil {
		rule.relative = decimal(*r.Relative)
	}
	if _, known := units()[r.Unit]; r.Unit != "" && !known {
		return nil, place{"unit"}.bad("the unit %.40q is unknown (docs/formats/grading.md lists the units)", r.Unit)
	}
	return rule.grade, nil
}
