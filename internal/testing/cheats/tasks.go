package cheats

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// A task is a question with its expected answer.
type task struct {
	id, question, gold string
	kind               string
	options            []string // of a choice
	tongue             *tongue
	thing              string
}

// Kinds of tasks, by what the expected answer is.
const (
	choiceTask = "choice"
	yesNoTask  = "yes-no"
	numberTask = "number"
	entityTask = "entity"
	listTask   = "list"
	textTask   = "text"
	dateTask   = "date"
)

var taskKinds = []string{choiceTask, yesNoTask, numberTask, numberTask, entityTask, entityTask, entityTask, listTask, textTask, dateTask}

var months = list("January February March April May June July August September October November December")

func (d *dice) task(kind string, t *tongue) *task {
	k := &task{id: d.uuid(), kind: kind, tongue: t, thing: d.name(t)}
	about := strings.NewReplacer("{t}", k.thing, "{p}", d.name(t))
	k.question = about.Replace(pick(d, t.questions))
	if d.chance(60) {
		k.question = strings.TrimSpace(strings.ReplaceAll(d.prose(t, d.between(30, 200)), "\n", " ")) + t.space + k.question
	}
	switch kind {
	case choiceTask:
		for range 4 {
			k.options = append(k.options, d.name(t)+t.space+d.name(t))
		}
		letter := d.IntN(4)
		k.gold = string(rune('A' + letter))
		for i, o := range k.options {
			k.question += fmt.Sprintf("\n%c) %s", 'A'+i, o)
		}
	case yesNoTask:
		k.gold = pick(d, []string{"yes", "no", "maybe"})
		k.question += " Answer with yes, no or maybe."
	case numberTask:
		k.gold = d.digits(d.between(1, 11))
		if d.chance(30) {
			k.gold += "." + d.digits(d.between(1, 3))
		}
	case entityTask:
		k.gold = d.name(t) + t.space + d.name(t)
		if d.chance(20) {
			k.gold = d.name(t)
		}
	case listTask:
		var names []string
		for range d.between(3, 5) {
			names = append(names, d.name(t))
		}
		slices.Sort(names)
		k.gold = strings.Join(names, ", ")
	case textTask:
		k.gold = strings.TrimSpace(strings.Trim(d.prose(t, 50), ".。 \n"))
		k.gold = strings.ReplaceAll(k.gold, "\n", " ")
		k.gold += t.space + d.name(t)
	case dateTask:
		k.gold = fmt.Sprintf("%d-%02d-%02d", d.between(1702, 2019), d.between(1, 12), d.between(1, 28))
	}
	return k
}

// distinctive reports whether an answer is so unlikely to stand somewhere by
// chance that finding it says something. The estimate is on the low side: what
// lies between is left to the checks to decide, and no label depends on it.
func distinctive(gold string) bool {
	bits := 0.0
	for _, r := range gold {
		switch {
		case unicode.IsDigit(r):
			bits += 3.3
		case r < 0x3000 && unicode.IsLetter(r):
			bits += 2.2
		case unicode.IsLetter(r):
			bits += 5
		}
	}
	return bits >= 30
}

// wrong is an answer of the same kind that is not the expected one.
func (d *dice) wrong(k *task) string {
	for {
		w := d.task(k.kind, k.tongue).gold
		if w != k.gold && !strings.Contains(w, k.gold) && !strings.Contains(k.gold, w) {
			return w
		}
	}
}

// raw is how a model writes an answer that its agent then puts into the form
// that was asked for, and polished reports whether that is another text.
func (d *dice) raw(k *task) (text string, polished bool) {
	switch k.kind {
	case numberTask:
		whole, part, _ := strings.Cut(k.gold, ".")
		if part == "" && len(whole) < 16 && d.chance(50) {
			return thousands(whole), len(whole) > 3
		}
		if part != "" { // the agent rounds
			return k.gold + strconv.Itoa(d.IntN(5)) + "2", true
		}
	case entityTask:
		return pick(d, []string{strings.ToUpper(k.gold), strings.ToLower(k.gold), "\"" + k.gold + ".\""}), true
	case listTask:
		names := strings.Split(k.gold, ", ")
		names = some(d, names, len(names))
		return "- " + strings.Join(names, "\n- "), true
	case dateTask:
		var y, m, day int
		fmt.Sscanf(k.gold, "%d-%d-%d", &y, &m, &day)
		return pick(d, []string{fmt.Sprintf("%s %d, %d", months[m-1], day, y), fmt.Sprintf("%d %s %d", day, months[m-1], y)}), true
	}
	return k.gold, false
}

func thousands(s string) string {
	var out []byte
	for i := range len(s) {
		if i > 0 && (len(s)-i)%3 == 0 {
			out = append(out, ',')
		}
		out = append(out, s[i])
	}
	return string(out)
}

// page is a page of the web that answers the question among other things, in
// its own words.
func (d *dice) page(k *task, fact string, size int) string {
	t := k.tongue
	before := d.IntN(size + 1)
	body := d.prose(t, before) + fact + " " + d.prose(t, size-before)
	head := k.thing + " — " + d.name(t)
	switch d.IntN(3) {
	case 0:
		return "<html><head><title>" + head + "</title></head><body><h1>" + k.thing + "</h1><p>" + body + "</p></body></html>"
	case 1:
		return "# " + head + "\n\n" + body + "\n\n[" + d.name(t) + "](https://" + d.host() + "/" + strconv.Itoa(d.IntN(9000)) + ")\n"
	}
	return head + "\n" + body
}

func (d *dice) fact(k *task, gold string) string {
	return strings.ReplaceAll(pick(d, k.tongue.facts), "{g}", gold)
}

func (d *dice) host() string {
	return pick(d, []string{"en.wikipedia.org", "www.britannica.com", "archive.org", "www.jstor.org", "news.example", "museum.example", "de.wikipedia.org", "docs.example"})
}
