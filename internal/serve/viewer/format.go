package viewer

import (
	"unicode/utf8"

	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
	"tallystick/internal/share/browser"
)

// Format says how a value of an entry becomes text: package browser, whose scripts make
// the same text again.
type Format = browser.Format

// The formats.
const (
	AsNumber  = browser.AsNumber
	AsPercent = browser.AsPercent
	AsDollars = browser.AsDollars
	AsText    = browser.AsText
	AsTime    = browser.AsTime
	AsBool    = browser.AsBool
	AsOutcome = browser.AsOutcome
	AsJSON    = browser.AsJSON

	AsCost     = browser.AsCost
	AsTotal    = browser.AsTotal
	AsSolved   = browser.AsSolved
	AsInterval = browser.AsInterval
)

// none stands where an entry has no value.
const none = browser.None

// Number is a number with three decimals.
func Number(x float64) string { return browser.Number(x) }

// Percent is a fraction as percent with one decimal.
func Percent(x float64) string { return browser.Percent(x) }

// Dollars is an amount of microdollars.
func Dollars(micro int64) string { return plain.Dollars(micro) }

// YesNo is a truth.
func YesNo(b bool) string { return browser.YesNo(b) }

// OutcomeName is the word for an outcome.
func OutcomeName(o evidence.Outcome) string { return browser.OutcomeName(o) }

// Text makes an untrusted text visible.
func Text(s string) string { return browser.Text(s) }

// Line is Text with line feeds and tabs spelled out too.
func Line(s string) string { return browser.Line(s) }

// maxTextRunes bounds a text on a page.
const maxTextRunes = browser.MaxText

func visible(s string, most int) string { return browser.TextUpTo(s, most) }

// tooLong reports whether a text is cut on a page.
func tooLong(s string) bool { return utf8.RuneCountInString(s) > maxTextRunes }
