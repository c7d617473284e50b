package answer

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"tallystick/internal/read/gate"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/plain"
)

// A Cause is what changed cases have in common: the same words of a prompt that changed,
// another model, another recording, or else the first thing that the agent did
// differently.
type Cause struct {
	Change string // lost, gained or changed
	Title  string // of one line; what of it is quoted is safe to print
	Told   string // what changed, on lines that are safe to print; "" if the title says it
	Cases  []string
}

// Causes groups the changed cases of a comparison, what was lost first. Apart is in what
// else the two attempts differ: a prompt that changed is called by the parameter or file
// that has it.
func Causes(c *scorecard.Comparison, apart []Part) []Cause {
	var all []Cause
	places := map[string]int{}
	for _, x := range c.Cases {
		if x.Change == scorecard.Same {
			continue
		}
		title, told := causeOf(&x, nil)
		if called := named(title, apart); called != title {
			title, told = called, "" // its text is told with the part
		}
		key := groupKey(x.Change, title, told)
		i, known := places[key]
		if !known {
			i, all = len(all), append(all, Cause{Change: x.Change, Title: title, Told: told})
			places[key] = i
		}
		all[i].Cases = append(all[i].Cases, x.CaseID)
	}
	slices.SortStableFunc(all, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(place(changesInOrder, a.Change), place(changesInOrder, b.Change)), cmp.Compare(len(b.Cases), len(a.Cases)))
	})
	return all
}

var changesInOrder = []string{scorecard.Lost, scorecard.Changed, scorecard.Gained}

// promptChanged is the title of a cause whose words of the prompt are told.
const promptChanged = "the prompt changed"

// modelChanged begins the title of a cause where another model was asked.
const modelChanged = "model "

// maxNamedParts is how many changed parts of the target a cause is called by.
const maxNamedParts = 3

// named calls a cause by what changed of the target, where its prompt or its model did: a
// run tells that it was asked something else, and not all that made the difference.
func named(title string, apart []Part) string {
	if title != promptChanged && !strings.HasPrefix(title, modelChanged) {
		return title
	}
	var parts []string
	for _, p := range apart {
		if p.Target && (p.Was != "" || p.Now != "" || p.Diff != nil) {
			parts = append(parts, p.Title())
		}
	}
	if len(parts) == 0 {
		return title
	}
	if more := len(parts) - maxNamedParts; more > 0 { // the first names the agent, if that is another
		parts = append(parts[:1:1], fmt.Sprintf("and %d more changes of the target", more+maxNamedParts-1))
	}
	return strings.Join(parts, ", ")
}

// Title is the part in one line.
func (p Part) Title() string {
	switch {
	case p.Was != "" || p.Now != "":
		return fmt.Sprintf("%s %s to %s", plain.Line(p.What), clipped(p.Was, 60), clipped(p.Now, 60))
	case p.Diff != nil:
		return plain.Line(p.What) + " changed"
	}
	return plain.Line(p.What) + ": " + p.Note
}

// promptLine begins what an outline says of a prompt that changed.
const promptLine = "prompt of "

// causeOf is what a changed case is put down to: the same words of a prompt are one
// cause, whatever the cases did after it. A row says which check decided, if there is one.
func causeOf(x *scorecard.ChangeRow, r *gate.Row) (title, told string) {
	var prompts []string
	inPrompt := false
	for line := range strings.Lines(x.Moves) {
		inPrompt = inPrompt || strings.HasPrefix(line, promptLine)
		if inPrompt {
			prompts = append(prompts, line)
		}
	}
	switch {
	case len(prompts) > 0:
		if was, now, ok := otherModel(prompts); ok {
			return fmt.Sprintf(modelChanged+"%s to %s", was, now), ""
		}
		return promptChanged, strings.Join(prompts, "")
	case r != nil && r.Outcome != evidence.Passed:
		return checkTitle(r), ""
	case strings.HasPrefix(x.Moves, "withheld "):
		return "held out: what it did is withheld", ""
	case x.Moves != "":
		return firstStep(x.Moves), ""
	case x.Divergence != "":
		return "the agent did something else", ""
	}
	return cmp.Or(clipped(x.DivergenceNote, maxTold), "the same run, another score"), ""
}

// groupKey is what cases of one cause have in common: of a prompt the words that went and
// came, without those around them, which are each case's own.
func groupKey(change, title, told string) string {
	return strings.Join(append([]string{change, title}, marksInText().FindAllString(told, -1)...), "\x00")
}

var marksInText = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?s)\[-.*?-\]|\{\+.*?\+\}`) })

// otherModel reports whether one model is asked in place of another, and nothing else of
// the prompts is told.
func otherModel(prompts []string) (was, now string, ok bool) {
	for _, line := range prompts {
		name, said, _ := strings.Cut(strings.TrimPrefix(strings.TrimSuffix(line, "\n"), promptLine), ": ")
		switch {
		case said == "is not asked any more" && was == "":
			was = name
		case said == "is asked now, and was not" && now == "":
			now = name
		default:
			return "", "", false
		}
	}
	return was, now, was != "" && now != ""
}

// firstStep tells the first thing that the agent did differently: how it differs, and the
// kind and the name of the step.
func firstStep(moves string) string {
	first, rest, _ := strings.Cut(moves, "\n")
	_, change, _ := strings.Cut(first, ": ")
	change, _, _ = strings.Cut(change, ":")
	step, _, _ := strings.Cut(rest, "\n")
	words := strings.Fields(strings.TrimLeft(step, " +-"))
	if change == "" || len(words) == 0 {
		return "the agent did something else"
	}
	name := words[0]
	if len(words) > 1 && strings.HasPrefix(words[1], `"`) && strings.HasSuffix(words[1], `"`) {
		name += " " + words[1]
	}
	return clipped("first "+strings.ReplaceAll(change, "_", " ")+": "+name, maxTold)
}
