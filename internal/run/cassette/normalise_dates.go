package cassette

import (
	"strings"
	"unicode/utf8"
)

// What stands for a date and for a time of day.
const (
	dateToken = "⟨date⟩"
	timeToken = "⟨time⟩"
)

// A day is a date however it is spelled; Year is 0 if it was left out.
type day struct{ year, month, day int }

// A clock is a time of day to the second, whatever its zone.
type clock struct{ hour, minute, second int }

// withoutDates replaces dates and times of day that the case does not give.
func (g *given) withoutDates(s string) string {
	var out strings.Builder
	kept := 0
	replace := func(start, end int, token string) {
		out.WriteString(s[kept:start])
		out.WriteString(token)
		kept = end
	}
	d := dateReader{text: s,
		day: func(start, end int, found day) {
			if !g.hasDay(found) {
				replace(start, end, dateToken)
			}
		},
		clock: func(start, end int, found clock) {
			if !g.clocks[found] {
				replace(start, end, timeToken)
			}
		}}
	d.read()
	if kept == 0 {
		return s
	}
	out.WriteString(s[kept:])
	return out.String()
}

// noteDates remembers the dates of a text of the case, also those in forms that
// are not replaced: an agent may spell them in another way.
func (g *given) noteDates(s string) {
	d := dateReader{text: s, loose: true,
		day: func(_, _ int, found day) {
			g.days[found] = true
			g.days[day{-1, found.month, found.day}] = true
		},
		clock: func(_, _ int, found clock) { g.clocks[found] = true }}
	d.read()
}

// hasDay compares without the year if either side left it out.
func (g *given) hasDay(d day) bool {
	return g.days[d] || g.days[day{0, d.month, d.day}] || d.year == 0 && g.days[day{-1, d.month, d.day}]
}

// A dateReader finds dates and times in a text from left to right. What it tries
// at one place is bounded, so the time is that of the text's length. A loose one
// also takes dates in the middle of words, of other forms, and without a year.
type dateReader struct {
	text  string
	loose bool
	day   func(start, end int, d day)
	clock func(start, end int, c clock)
}

func (r *dateReader) read() {
	for i := 0; i < len(r.text); {
		if end := r.at(i); end > i {
			i = end
		} else {
			i++
		}
	}
}

// at reads what begins at i and returns its end, i if nothing does.
func (r *dateReader) at(i int) int {
	c := r.text[i]
	if !isDigit(c) && !isLetter(c) || !r.loose && joinsBefore(r.text[:i]) || r.loose && i > 0 && isDigit(c) && isDigit(r.text[i-1]) {
		return i
	}
	if end := r.date(i); end > i {
		return end
	}
	if t, end, ok := r.clockAt(i, false); ok {
		r.clock(i, end, t)
		return end
	}
	if r.loose {
		return r.numeric(i)
	}
	return i
}

// joinsBefore reports whether what follows a text is in the middle of a word, a
// path or a number. What was replaced was one of these.
func joinsBefore(s string) bool {
	if s == "" {
		return false
	}
	c := s[len(s)-1]
	return isPathByte(c) || c == '/' || c == ':' || c == '\\' || strings.HasSuffix(s, "⟩")
}

// endsHere reports whether a date or time may end at i.
func (r *dateReader) endsHere(i int) bool {
	if i >= len(r.text) || r.loose {
		return i >= len(r.text) || !isDigit(r.text[i])
	}
	switch rest := r.text[i:]; {
	case isNameByte(rest[0]), rest[0] == '/', rest[0] == ':', strings.HasPrefix(rest, "⟨"):
		return false
	case rest[0] == '.':
		return len(rest) == 1 || !isNameByte(rest[1]) && !strings.HasPrefix(rest[1:], "⟨")
	}
	return true
}

// date reads a date, with the day of the week beside it and, behind a T, the time.
func (r *dateReader) date(start int) int {
	i, weekday := start, false
	if n := nameAt(r.text[i:], weekdays); n >= 0 {
		i, weekday = r.skip(i+wordLength(r.text[i:]), ", ", " "), true
		if i < 0 {
			return start
		}
	}
	d, end, ok := r.iso(i)
	if ok && end+1 < len(r.text) && r.text[end] == 'T' {
		if t, after, timed := r.clockAt(end+1, true); timed {
			r.day(start, end, d)
			r.clock(end+1, after, t)
			return after
		}
	}
	if !ok || !r.endsHere(end) {
		if d, end, ok = r.named(i, weekday); !ok {
			return start
		}
		if after := r.ctime(start, end, d); after > end {
			return after
		}
	}
	if !r.endsHere(end) {
		return start
	}
	if !weekday {
		end = r.weekdayAfter(end)
	}
	r.day(start, end, d)
	return end
}

// weekdayAfter skips ", Sunday" or " (Sunday)".
func (r *dateReader) weekdayAfter(end int) int {
	for _, form := range [][2]string{{" (", ")"}, {", ", ""}, {" ", ""}} {
		i := r.skip(end, form[0])
		if i < 0 || nameAt(r.text[i:], weekdays) < 0 {
			continue
		}
		i += wordLength(r.text[i:])
		if i = r.skip(i, form[1]); i >= 0 && r.endsHere(i) && !r.beginsDate(i) {
			return i
		}
	}
	return end
}

// beginsDate reports whether a day of the week that ends at i belongs to the date
// behind it.
func (r *dateReader) beginsDate(i int) bool {
	if i = r.skip(i, ", ", " "); i < 0 {
		return false
	}
	_, _, iso := r.iso(i)
	_, _, named := r.named(i, true)
	return iso || named
}

// ctime reads the rest of "Nov 15 23:34:33 UTC 2026".
func (r *dateReader) ctime(start, end int, d day) int {
	if d.year != 0 {
		return end
	}
	from := r.skip(end, " ")
	if from < 0 {
		return end
	}
	t, i, ok := r.clockAt(from, false)
	if !ok {
		return end
	}
	clockEnd := i
	if i = r.skip(i, " "); i < 0 {
		return end
	}
	if n := wordLength(r.text[i:]); n >= 3 && n <= 5 && strings.ToUpper(r.text[i:i+n]) == r.text[i:i+n] {
		if i = r.skip(i+n, " "); i < 0 {
			return end
		}
	}
	year, after := r.number(i, 4, 4)
	if !plausible(year) || !r.endsHere(after) {
		return end
	}
	d.year = year
	r.day(start, end, d)
	r.clock(from, clockEnd, t)
	// The year behind it belongs to the date.
	r.day(i, after, d)
	return after
}

// iso reads 2026-11-15.
func (r *dateReader) iso(i int) (day, int, bool) {
	year, end := r.number(i, 4, 4)
	if !plausible(year) || r.skip(end, "-") < 0 {
		return day{}, i, false
	}
	month, end := r.number(end+1, 2, 2)
	if end < 0 || r.skip(end, "-") < 0 {
		return day{}, i, false
	}
	d, end := r.number(end+1, 2, 2)
	found := day{year, month, d}
	return found, end, end >= 0 && found.valid()
}

// named reads "15 November 2026", "Nov 15th, 2026", and with a day of the week in
// front, or loosely, also without the year.
func (r *dateReader) named(i int, yearless bool) (day, int, bool) {
	var found day
	end := i
	if n, after := r.number(i, 1, 2); after >= 0 {
		after = r.ordinal(after)
		if after = r.skip(after, " of ", " ", "-"); after < 0 {
			return found, i, false
		}
		found.day, found.month = n, 1+nameAt(r.text[after:], months)
		end = after + wordLength(r.text[after:])
	} else {
		found.month = 1 + nameAt(r.text[i:], months)
		after := i + wordLength(r.text[i:])
		if s := r.skip(after, "."); s >= 0 {
			after = s
		}
		if after = r.skip(after, "  ", " "); after < 0 || found.month == 0 {
			return found, i, false
		}
		if found.day, end = r.number(after, 1, 2); end < 0 {
			return found, i, false
		}
		end = r.ordinal(end)
	}
	if !found.valid() {
		return found, i, false
	}
	if after := r.skip(end, ", ", ",", " ", "-"); after >= 0 {
		if year, last := r.number(after, 4, 4); plausible(year) && !r.isClock(after) {
			found.year = year
			return found, last, true
		}
	}
	return found, end, yearless || r.loose
}

func (r *dateReader) isClock(i int) bool {
	_, _, ok := r.clockAt(i, false)
	return ok
}

// numeric reads 15/11/2026, 11/15/2026 and 15.11.2026, in both orders, and 3pm:
// for the case only.
func (r *dateReader) numeric(i int) int {
	a, end := r.number(i, 1, 2)
	if end < 0 {
		return i
	}
	if h, after, ok := r.twelve(end, a); ok {
		r.clock(i, after, clock{hour: h})
		return after
	}
	for _, sep := range []string{"/", ".", "-"} {
		from := r.skip(end, sep)
		if from < 0 {
			continue
		}
		b, after := r.number(from, 1, 2)
		if after < 0 {
			return i
		}
		year := 0
		if y := r.skip(after, sep); y >= 0 {
			if n, last := r.number(y, 4, 4); plausible(n) {
				year, after = n, last
			}
		}
		for _, d := range []day{{year, a, b}, {year, b, a}} {
			if d.valid() {
				r.day(i, after, d)
			}
		}
		return after
	}
	return i
}

// clockAt reads 23:34, 23:34:33.123Z and 9:05 PM. Behind the T of a date it may
// have a zone without having seconds.
func (r *dateReader) clockAt(i int, behindT bool) (clock, int, bool) {
	var c clock
	hour, end := r.number(i, 1, 2)
	if end < 0 || r.skip(end, ":") < 0 {
		return c, i, false
	}
	short := end-i == 1
	minute, end := r.number(end+1, 2, 2)
	if end < 0 || hour > 23 || minute > 59 {
		return c, i, false
	}
	c, seconds := clock{hour, minute, 0}, false
	if s := r.skip(end, ":"); s >= 0 {
		n, after := r.number(s, 2, 2)
		if after < 0 || n > 60 {
			return c, i, false
		}
		c.second, end, seconds = n, r.fraction(after), true
	}
	if h, after, ok := r.twelve(end, hour); ok {
		c.hour = h
		return c, after, r.endsHere(after)
	}
	if short && !r.loose {
		return c, i, false
	}
	if seconds || behindT {
		end = r.zone(end)
	}
	return c, end, r.endsHere(end)
}

// fraction skips the part of a second.
func (r *dateReader) fraction(i int) int {
	if i < len(r.text) && (r.text[i] == '.' || r.text[i] == ',') {
		end := i + 1
		for end < len(r.text) && end-i <= 9 && isDigit(r.text[end]) {
			end++
		}
		if end > i+1 {
			return end
		}
	}
	return i
}

// zone skips Z, +01:00, +0100, " UTC" and " GMT".
func (r *dateReader) zone(i int) int {
	if s := r.skip(i, "Z", " UTC", " GMT", " Z"); s >= 0 && r.endsHere(s) {
		return s
	}
	at := r.skip(i, "+", "-", " +", " -")
	if at < 0 {
		return i
	}
	_, end := r.number(at, 2, 2)
	if end < 0 {
		return i
	}
	if s := r.skip(end, ":"); s >= 0 {
		end = s
	}
	if _, end = r.number(end, 2, 2); end < 0 || !r.endsHere(end) {
		return i
	}
	return end
}

// twelve reads AM or PM behind an hour.
func (r *dateReader) twelve(i, hour int) (int, int, bool) {
	after := r.skip(i, " AM", " PM", " am", " pm", "AM", "PM", "am", "pm", " a.m.", " p.m.")
	if after < 0 || hour < 1 || hour > 12 || after < len(r.text) && isNameByte(r.text[after]) {
		return 0, i, false
	}
	if strings.ContainsAny(r.text[i:after], "pP") {
		return hour%12 + 12, after, true
	}
	return hour % 12, after, true
}

// ordinal skips the letters of 15th.
func (r *dateReader) ordinal(i int) int {
	if s := r.skip(i, "st", "nd", "rd", "th"); s >= 0 {
		return s
	}
	return i
}

// skip returns where the first of some texts that stands at i ends, -1 if none
// does.
func (r *dateReader) skip(i int, texts ...string) int {
	for _, t := range texts {
		if strings.HasPrefix(r.text[min(i, len(r.text)):], t) {
			return i + len(t)
		}
	}
	return -1
}

// number reads decimal digits, and as many as there are; its end is -1 if there
// are too few or too many.
func (r *dateReader) number(i, least, most int) (n, end int) {
	end = i
	for end < len(r.text) && end-i <= most && isDigit(r.text[end]) {
		n = 10*n + int(r.text[end]-'0')
		end++
	}
	if end-i < least || end-i > most {
		return 0, -1
	}
	return n, end
}

func plausible(year int) bool { return year >= 1900 && year <= 2199 }

func (d day) valid() bool {
	return d.month >= 1 && d.month <= 12 && d.day >= 1 && d.day <= 31
}

var (
	weekdays = []string{"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"}
	months   = []string{"January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"}
)

// wordLength is the number of letters at the beginning, of which no more are
// counted than the longest name has.
func wordLength(s string) int {
	n := 0
	for n < len(s) && n < 10 && isLetter(s[n]) {
		n++
	}
	return n
}

// nameAt finds the word at the beginning among names, or their beginnings of
// three letters; -1 if it is not among them.
func nameAt(s string, names []string) int {
	word := s[:wordLength(s)]
	if len(word) < 3 || len(word) < len(s) && (isNameByte(s[len(word)]) && s[len(word)] != '-' || s[len(word)] >= utf8.RuneSelf) {
		return -1
	}
	if word == "Sept" || word == "SEPT" {
		word = word[:3]
	}
	for i, name := range names {
		if strings.EqualFold(word, name) || strings.EqualFold(word, name[:3]) {
			return i
		}
	}
	return -1
}
