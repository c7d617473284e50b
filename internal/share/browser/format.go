package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/cost"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
)

// A Format says how a value of a ledger entry becomes the text that a page shows.
// A page names it beside the value, in data-as, so that a script can make the text
// again from the entry that it verified and compare. testdata/formats.json holds
// both sides to the same examples; docs/viewer.md has the table.
type Format string

// The formats.
const (
	AsNumber  Format = "number3"  // three decimals
	AsPercent Format = "percent1" // a fraction as percent with one decimal
	AsDollars Format = "usd"      // microdollars
	AsText    Format = "text"     // a string, or a number as it is spelled
	AsTime    Format = "time"     // to the second, UTC
	AsBool    Format = "bool"     // yes or no
	AsOutcome Format = "outcome"  // of a case
	AsJSON    Format = "json"     // any value, in canonical JSON

	// Of the body of case.scored or attempt.finished, or the payload of an event: what it
	// cost, and what of that is not known.
	AsCost Format = "cost"

	// Of an object of counts by outcome, as attempt.finished has it:
	AsTotal    Format = "total"     // their sum
	AsSolved   Format = "solved1"   // the share that passed, as percent with one decimal
	AsInterval Format = "interval1" // Wilson's interval of that share at 95 percent
)

// MaxText bounds a text on a page, in characters. What is longer is cut and ends in an
// ellipsis; the whole of it is in the entry.
const MaxText = 4000

// None stands where an entry has no value.
const None = "–"

// Show is the text of a JSON value.
func (f Format) Show(value []byte) (string, error) {
	if f == AsJSON {
		text, err := canon.Canonicalize(value)
		return Text(string(text)), err
	}
	dec := json.NewDecoder(bytes.NewReader(value))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return "", fmt.Errorf("format %s: %w", f, err)
	}
	switch v := v.(type) {
	case string:
		switch f {
		case AsText:
			return Text(v), nil
		case AsTime:
			t, err := evidence.ParseTime(v)
			return Time(t), err
		case AsOutcome:
			return OutcomeName(evidence.Outcome(v)), nil
		}
	case bool:
		if f == AsBool {
			return YesNo(v), nil
		}
	case json.Number:
		return f.showNumber(v)
	case map[string]any:
		if f == AsCost {
			return showCost(value)
		}
		return f.showCounts(v)
	}
	return "", fmt.Errorf("format %s does not take %s", f, value)
}

func (f Format) showNumber(n json.Number) (string, error) {
	switch f {
	case AsText:
		return n.String(), nil
	case AsDollars:
		micro, err := n.Int64()
		return plain.Dollars(micro), err
	case AsNumber:
		x, err := n.Float64()
		return Number(x), err
	case AsPercent:
		x, err := n.Float64()
		return Percent(x), err
	}
	return "", fmt.Errorf("format %s does not take the number %s", f, n)
}

// showCost tells the cost of a record, of the end of an attempt or of a call.
func showCost(value []byte) (string, error) {
	var v struct {
		Cost     *int64           `json:"cost_microdollars"`
		Unpriced *int64           `json:"unpriced_calls"`
		Untold   int64            `json:"cost_unknown_tasks"`
		Flag     bool             `json:"unpriced"`
		Outcomes json.RawMessage  `json:"outcomes"`
		Vantage  *string          `json:"vantage"`
		From     string           `json:"cassette_provenance"`
		Paid     *evidence.Paid   `json:"paid"`
		Cached   *evidence.Cached `json:"cached"`
	}
	if err := json.Unmarshal(value, &v); err != nil || v.Cost == nil {
		return "", fmt.Errorf("format %s does not take %s", AsCost, value)
	}
	switch {
	case v.Outcomes != nil:
		return (&evidence.AttemptFinished{CostMicroUSD: *v.Cost, Unpriced: v.Unpriced, CostUntold: v.Untold}).Cost().Short(), nil
	case v.Vantage != nil:
		return (&evidence.CaseScored{CostMicroUSD: *v.Cost, Unpriced: v.Unpriced, Vantage: *v.Vantage, Provenance: v.From, Paid: v.Paid, Cached: v.Cached}).Cost().Short(), nil
	case v.Flag:
		return cost.Of(*v.Cost, 1).Short(), nil
	}
	return cost.Of(*v.Cost, 0).Short(), nil
}

func (f Format) showCounts(counts map[string]any) (string, error) {
	total, passed := int64(0), int64(0)
	for name, v := range counts {
		number, ok := v.(json.Number)
		n, err := number.Int64()
		if !ok || err != nil || n < 0 || n > 1<<40 {
			return "", fmt.Errorf("format %s: %.60q is not counted by a whole number", f, name)
		}
		if total += n; name == string(evidence.Passed) {
			passed = n
		}
	}
	switch {
	case f == AsTotal:
		return strconv.FormatInt(total, 10), nil
	case total == 0:
	case f == AsSolved:
		return Percent(float64(passed) / float64(total)), nil
	case f == AsInterval:
		lo, hi := Wilson(float64(passed)/float64(total), float64(total))
		return Percent(lo) + " – " + Percent(hi), nil
	}
	return "", fmt.Errorf("format %s does not take counts that sum to %d", f, total)
}

// Wilson is the interval of package scorecard, written as the script has it. The
// conversions keep a processor from rounding once where the browser rounds twice.
func Wilson(p, n float64) (lo, hi float64) {
	const z = 1.959963984540054
	zz := float64(z * z)
	centre := p + float64(zz/float64(2*n))
	half := float64(z * math.Sqrt(float64(float64(p*float64(1-p))/n)+float64(zz/float64(float64(4*n)*n))))
	scale := 1 + float64(zz/n)
	lo, hi = max(0, (centre-half)/scale), min(1, (centre+half)/scale)
	if p == 0 {
		lo = 0
	}
	if p == 1 {
		hi = 1
	}
	return lo, hi
}

// Number is a number with three decimals; halves are rounded up. A score below 1 is never
// shown as 1: a case that did not pass must not look as if it had.
func Number(x float64) string {
	if s := fixed(x, 3); x >= 1 || s != "1.000" {
		return s
	}
	return "0.999"
}

// Percent is a fraction as percent with one decimal. What is not all is never shown as
// 100 percent.
func Percent(x float64) string {
	if s := fixed(x*100, 1); x >= 1 || s != "100.0" {
		return s + " %"
	}
	return "99.9 %"
}

// fixed spells a number as toFixed of ECMAScript does. Of two that are equally
// near it takes the larger, where strconv takes the even one.
func fixed(x float64, decimals int) string {
	power := math.Pow10(decimals)
	if y := x * power; y-math.Floor(y) == 0.5 && math.FMA(x, power, -y) == 0 {
		x = (math.Floor(y) + 1) / power
	}
	s := strconv.FormatFloat(x, 'f', decimals, 64)
	if strings.Trim(s, "-0.") == "" {
		return strings.TrimPrefix(s, "-")
	}
	return s
}

// Time is a point in time to the second.
func Time(t evidence.Time) string { return t.Go().Format("2006-01-02 15:04:05 UTC") }

// YesNo is a truth.
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// OutcomeName is the word for an outcome.
func OutcomeName(o evidence.Outcome) string {
	switch o {
	case evidence.Passed, evidence.Failed, evidence.Skipped, evidence.Unscored, evidence.Truncated:
		return strings.ToUpper(string(o[:1])) + string(o[1:])
	case evidence.Errored:
		return "Error"
	case "not_run":
		return "Not run"
	}
	return Text(string(o))
}

// Text makes an untrusted text visible: what steers a terminal, reverses
// the reading order or shows nothing is spelled out. Line feeds and tabs stay. It
// is not [plain.Block], which also knows the commands of CI systems and asks a
// table of Unicode that a script in a browser does not have.
func Text(s string) string { return TextUpTo(s, MaxText) }

// Line is Text with line feeds and tabs spelled out too.
func Line(s string) string {
	return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(Text(s))
}

// TextUpTo is Text with another bound.
func TextUpTo(s string, most int) string {
	var b strings.Builder
	n := 0
	var near [2]rune // the two characters before this one
	for i, r := range s {
		if n++; n > most {
			b.WriteString("…")
			break
		}
		switch {
		case r == '\n' || r == '\t':
			b.WriteRune(r)
		case r < 0x20 || 0x7f <= r && r <= 0x9f:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r == utf8.RuneError && s[i] != 0xef:
			fmt.Fprintf(&b, `\x%02x`, s[i]) // a byte that is not UTF-8
		case plain.Invisible(r) && !joins(near, r, s[i:]):
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			b.WriteRune(r)
		}
		near = [2]rune{near[1], r}
	}
	return b.String()
}

// An emoji may be of several characters: a picture that is asked for in colour, and
// pictures that are joined. What joins them shows nothing alone.
const (
	joiner   = 0x200d
	inColour = 0xfe0f
	keycap   = 0x20e3
)

func isPicture(r rune) bool {
	switch r {
	case 0xa9, 0xae, 0x203c, 0x2049, 0x2122, 0x2139, 0x3030, 0x303d:
		return true
	}
	return 0x2190 <= r && r <= 0x21ff || 0x2300 <= r && r <= 0x24ff || 0x25a0 <= r && r <= 0x27bf || 0x2900 <= r && r <= 0x297f ||
		0x2b00 <= r && r <= 0x2bff || 0x3297 <= r && r <= 0x3299 || 0x1f000 <= r && r <= 0x1faff
}

func isKey(r rune) bool { return '0' <= r && r <= '9' || r == '#' || r == '*' }

// joins reports whether what shows nothing alone is a part of an emoji: near are the two
// characters before it, and rest begins with it.
func joins(near [2]rune, r rune, rest string) bool {
	before := near[1]
	after, _ := utf8.DecodeRuneInString(rest[utf8.RuneLen(r):])
	switch r {
	case inColour:
		return isPicture(before) || isKey(before) && after == keycap
	case joiner:
		return (isPicture(before) || before == inColour && isPicture(near[0])) && isPicture(after)
	}
	return false
}
