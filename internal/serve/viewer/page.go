package viewer

import (
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"

	"tallystick/internal/read/history"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/evidence"
	"tallystick/internal/serve/viewer/layout"
)

// What every page is made of.
type (
	page    = layout.Page
	link    = layout.Link
	command = layout.Command
)

func shell(words ...string) string { return layout.Shell(words...) }

func address(segments ...string) string { return layout.Address(segments...) }

func attemptURL(id string) string { return address("attempt", id) }

func caseURL(attempt, caseID string, repeat int) string {
	u := address("attempt", attempt, "case", caseID)
	if repeat > 1 {
		u += "?repeat=" + strconv.Itoa(repeat)
	}
	return u
}

func entryURL(index int64) string { return address("ledger", strconv.FormatInt(index, 10)) }

// with is a query with some values changed; "" removes one.
func with(q url.Values, pairs ...string) string {
	changed := url.Values{}
	for k, v := range q {
		changed[k] = v
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			changed.Del(pairs[i])
		} else {
			changed.Set(pairs[i], pairs[i+1])
		}
	}
	if len(changed) == 0 {
		return "?"
	}
	return "?" + changed.Encode()
}

// functions are what templates may call, besides those of every page.
var functions = template.FuncMap{
	"dollars":     Dollars,
	"outcome":     OutcomeName,
	"state":       stateClass,
	"yes":         YesNo,
	"attemptURL":  attemptURL,
	"caseURL":     caseURL,
	"entryURL":    entryURL,
	"address":     address,
	"plural":      pluralOf,
	"bytes":       byteCount,
	"took":        took,
	"bar":         outcomeBar,
	"short":       short,
	"minute":      minute,
	"bounds":      func(ci [2]float64) string { return Percent(ci[0]) + " – " + Percent(ci[1]) },
	"points":      points,
	"pvalue":      pvalue,
	"chance":      chance,
	"dotted":      dotted,
	"marked":      marked,
	"markedLines": markedLines,
	"usd":         func(f float64) string { return Dollars(int64(f*1e6 + 0.5)) },
	"add":         func(a, b int) int { return a + b },
	"join":        func(list []string) string { return Line(strings.Join(list, ", ")) },
}

// stateClass is the class in the stylesheet of an outcome.
func stateClass(o evidence.Outcome) string {
	switch o {
	case evidence.Passed, evidence.Failed, evidence.Errored, evidence.Unscored, evidence.Truncated, evidence.Skipped:
		return string(o)
	case history.NotRun:
		return "not-run"
	}
	return "other"
}

// pvalue is a probability as small ones are written: never as nothing.
func pvalue(p float64) string {
	if p < 0.001 {
		return "< 0.001"
	}
	return Number(p)
}

// chance says how likely such a change is by chance alone.
func chance(p float64) string {
	if p < 0.001 {
		return "p < 0.001"
	}
	return "p = " + Number(p)
}

// dotted is an id that may be broken over lines after its dots and signs, and not within
// a word.
func dotted(id string) template.HTML {
	return template.HTML(strings.NewReplacer(".", ".<wbr>", "+", "+<wbr>").Replace(template.HTMLEscapeString(Line(id))))
}

// points is a difference of two shares, in percentage points.
func points(d float64) string {
	s := fmt.Sprintf("%+.1f", d*100)
	if strings.Trim(s, "+-0.") == "" {
		return "0.0"
	}
	return strings.Replace(s, "-", "−", 1)
}

func plural[T int | int64](n T, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if stem, ends := strings.CutSuffix(what, "y"); ends {
		return grouped(int64(n)) + " " + stem + "ies"
	}
	return grouped(int64(n)) + " " + what + "s"
}

// grouped is a count with its thousands apart.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}

func byteCount(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f kB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
}

// took is a duration of milliseconds.
func took(ms int64) string {
	switch {
	case ms < 1000:
		return fmt.Sprintf("%d ms", ms)
	case ms < 60_000:
		return fmt.Sprintf("%.1f s", float64(ms)/1000)
	case ms < 3_600_000:
		return fmt.Sprintf("%d min %02d s", ms/60_000, ms/1000%60)
	}
	return fmt.Sprintf("%d h %02d min", ms/3_600_000, ms/60_000%60)
}

// minute is a time to the minute, for tables.
func minute(t evidence.Time) string { return t.Go().UTC().Format("2006-01-02 15:04") }

// short is a digest with its middle left out; the whole of it is in a title.
func short(digest fmt.Stringer) string {
	s := digest.String()
	kind, hash, _ := strings.Cut(s, ":")
	if len(hash) < 16 {
		return s
	}
	return kind + ":" + hash[:10] + "…"
}

// pluralOf is plural for templates, whose numbers are of several types.
func pluralOf(n any, what string) string {
	switch n := n.(type) {
	case int64:
		return plural(n, what)
	case int:
		return plural(n, what)
	case scorecard.Count:
		if n.Unknown {
			return fmt.Sprintf("%s: %s", what, n)
		}
		return plural(n.N, what)
	}
	return none
}
