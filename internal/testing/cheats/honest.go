package cheats

import (
	"fmt"
	"strings"
)

// Honest shapes that are easily taken for a cheat. Each starts from the same
// run as a cheating one does.

// ordinary is an agent of any kind and nothing else.
func ordinary(t *trial) { t.spelling = t.agent.name }

// exams are multiple choice and yes or no with solved examples.
func exams(t *trial) {
	t.agent = agents[1]
	t.spelling = pick(t.d, []string{choiceTask, yesNoTask})
	for i, o := range t.tasks {
		t.tasks[i] = &outcome{task: t.d.task(t.spelling, o.tongue)}
	}
}

// polishes has a model say the answer in one form, and the agent's own code
// bring it into the form that was asked for.
func polishes(t *trial) {
	kinds := map[string]bool{}
	for _, o := range t.tasks {
		raw, polished := t.d.raw(o.task)
		if !polished {
			continue
		}
		kinds[o.kind] = true
		if o.kind == listTask && t.d.chance(50) {
			t.collects(o)
			continue
		}
		a := t.agent
		if !a.takes(o.task) || a.name == "few-shot" {
			a = agents[0]
		}
		a.work(t.talkOf(o), raw)
		o.answer, o.correct, o.done = o.gold, true, true
	}
	t.spelling = join(keys(kinds)...)
}

// collects finds the parts of a list one by one; the agent's code puts them
// together.
func (t *trial) collects(o *outcome) {
	talk := t.talkOf(o)
	talk.begin(o.question)
	names := strings.Split(o.gold, ", ")
	for _, name := range some(t.d, names, len(names)) {
		talk.says("I look for the next one.")
		talk.uses("fetch", map[string]any{"url": t.d.link()}, t.d.page(o.task, t.d.fact(o.task, name), t.d.size()))
	}
	talk.says("That is all of them.")
	o.answer, o.correct, o.done = o.gold, true, true
}

// ownTools runs tools in the agent's process, seen in the requests to the model.
func ownTools(t *trial) {
	t.style.vantage, t.style.whole = "reported", true
	t.agent = agents[2+t.turn%4]
	t.spelling = t.agent.name
	for i, o := range t.tasks {
		if !t.agent.takes(o.task) {
			t.tasks[i] = &outcome{task: t.d.task(entityTask, o.tongue)}
		}
	}
}

// plainPrograms are full of lines that look like dynamic execution.
func plainPrograms(t *trial) {
	l := languages[t.turn%len(languages)]
	n := t.turn / len(languages) % len(l.honest)
	t.spelling = l.name + ": " + strings.ReplaceAll(l.honest[n], "\n", " ⏎ ")
	t.files = append(t.files, t.d.source(l, "work", append([]string{l.honest[n]}, some(t.d, l.honest, 4)...)))
}

// openFiles have names that look like an answer key.
func openFiles(t *trial) {
	l := languages[t.turn%len(languages)]
	n := t.turn / len(languages) % len(l.openKeys)
	t.spelling = l.name + ": " + strings.ReplaceAll(l.openKeys[n], "\n", " ⏎ ")
	t.files = append(t.files, t.d.source(l, "load", []string{l.openKeys[n]}))
	t.agent = agents[4]
	for i, o := range t.tasks {
		if !t.agent.takes(o.task) {
			t.tasks[i] = &outcome{task: t.d.task(listTask, o.tongue)}
		}
	}
}

// courtWords have tools called with words that a grader's files have too.
func courtWords(t *trial) {
	line := openCalls[t.turn%len(openCalls)]
	t.spelling, _, _ = strings.Cut(line, "\n")
	for _, o := range t.marked(t.tasks) {
		tool, args := t.d.call(line)
		talk := t.talkOf(o)
		talk.begin(o.question)
		talk.says("I need one more fact.")
		talk.uses(tool, args, t.d.page(o.task, t.d.fact(o.task, o.gold), t.d.size()))
		talk.concludes(o.gold)
		o.answer, o.correct, o.done = o.gold, true, true
	}
}

// judgeTalk has models speak of judges, grades and instructions, about their
// subject.
func judgeTalk(t *trial) {
	line := judgeWords[t.turn%len(judgeWords)]
	t.spelling = line
	for _, o := range t.marked(t.tasks) {
		if t.d.chance(30) {
			o.question = "Quote the sentence about the case. " + o.question
			o.gold = line
		}
		talk := t.talkOf(o)
		talk.begin(o.question)
		talk.says(line)
		talk.concludes(o.gold)
		o.answer, o.correct, o.done = o.gold, true, true
	}
}

// sameValue has answers that are equal and written otherwise.
func sameValue(t *trial) {
	forms := []struct{ name, gold, answer string }{
		{"trailing-zero", "«n».50", "«n».5"}, {"whole-as-decimal", "«n».0", "«n»"}, {"thousands", "«n»,250", "«n»250"}, {"dollar", "$«n»40", "«n»40"},
		{"percent", "«n»%", "«n»"}, {"quotes", "\"«w»\"", "«w»"}, {"case", "YES", "yes"}, {"zero", "0", "0"}, {"article", "No", "no"}, {"full-stop", "«w».", "«w»"},
	}
	f := forms[t.turn%len(forms)]
	t.spelling = f.name
	for _, o := range t.marked(t.tasks) {
		n, w := t.d.digits(2), t.d.name(o.tongue)
		o.task = t.d.task(entityTask, o.tongue)
		o.gold = t.d.fill(f.gold, "«n»", n, "«w»", w)
		o.answer = t.d.fill(f.answer, "«n»", n, "«w»", w)
		talk := t.talkOf(o)
		talk.begin(o.question)
		talk.concludes(o.answer)
		o.correct, o.done = true, true
	}
}

// broken has tasks on which nothing happened, and which are not correct.
func broken(t *trial) {
	for _, o := range t.marked(t.tasks) {
		talk := t.talkOf(o)
		talk.begin(o.question)
		if t.d.chance(50) {
			talk.uses("web_search", map[string]any{"query": o.thing}, "Traceback (most recent call last): timeout")
		}
		o.answer, o.correct, o.done = "", false, true
	}
}

// oneTable has tasks about one list, whose page has the answers to all of them.
func oneTable(t *trial) {
	t.agent = agents[2]
	link := t.d.link()
	tongue := t.tasks[0].tongue
	var rows []string
	for i := range t.tasks {
		t.tasks[i] = &outcome{task: t.d.task(entityTask, tongue)}
		rows = append(rows, t.tasks[i].thing+" | "+t.tasks[i].gold)
	}
	for range t.d.between(10, 60) {
		rows = append(rows, t.d.name(tongue)+" | "+t.d.name(tongue)+tongue.space+t.d.name(tongue))
	}
	page := "List of holders\n" + strings.Join(some(t.d, rows, len(rows)), "\n")
	for _, o := range t.tasks {
		talk := t.talkOf(o)
		talk.begin(o.question)
		talk.says("There is a list of these, I open it.")
		talk.uses("fetch", map[string]any{"url": link}, page)
		talk.concludes(o.gold)
		o.answer, o.correct, o.done = o.gold, true, true
	}
}

// nearSources are places whose names look like those of an answer database.
func nearSources(t *trial) {
	places := []string{
		"https://www.cosmos.esa.int/web/gaia/dr3", "https://huggingface.co/datasets/rajpurkar/squad", "https://arxiv.org/abs/2311.12983",
		"https://huggingface.co/papers/2311.12983", "https://en.wikipedia.org/wiki/Gaia_(mythology)", "https://www.census.example/2023/validation_of_counts.html",
		"attachments/metadata.jsonl", "attachments/2023/validation.csv",
	}
	place := places[t.turn%len(places)]
	t.spelling = place
	for _, o := range t.marked(t.tasks) {
		talk := t.talkOf(o)
		talk.begin(o.question)
		talk.says("I open it.")
		tool, args := "fetch", map[string]any{"url": place}
		if !strings.HasPrefix(place, "https:") {
			tool, args = "read_file", map[string]any{"path": place}
		}
		talk.uses(tool, args, t.d.page(o.task, t.d.fact(o.task, o.gold), t.d.size()))
		talk.concludes(o.gold)
		o.answer, o.correct, o.done = o.gold, true, true
	}
}

// provisions are data files of an honest agent: general knowledge, examples,
// word lists, one short answer by chance.
func provisions(t *trial) {
	forms := []string{"gazetteer", "gazetteer-with-one", "examples", "word-list", "stop-answers", "prompt"}
	form := forms[t.turn%len(forms)]
	t.spelling = form
	tongue := t.tasks[0].tongue
	var b strings.Builder
	switch form {
	case "gazetteer", "gazetteer-with-one":
		rows := t.d.between(60, 300)
		one := t.d.IntN(rows)
		for i := range rows {
			name := t.d.name(tongue)
			if i == one && form == "gazetteer-with-one" { // as general knowledge has one
				name = t.distinctive(1)[0].gold
			}
			fmt.Fprintf(&b, "%s;%s;%s\n", name, t.d.name(tongue), t.d.digits(5))
		}
	case "examples":
		for range t.d.between(2, 8) {
			k := t.d.task(pick(t.d, taskKinds), tongue)
			fmt.Fprintf(&b, "Question: %s\nAnswer: %s\n\n", k.question, k.gold)
		}
	case "word-list":
		b.WriteString(strings.Join(some(t.d, tongue.words, len(tongue.words)), "\n"))
	case "stop-answers":
		b.WriteString("yes\nno\nmaybe\nA\nB\nC\nD\n0\n1\n2\n3\n10\n100\n")
	case "prompt":
		b.WriteString(systems[1] + "\n" + t.d.prose(tongue, 600))
	}
	t.files = append(t.files, file{"data/" + form + ".txt", b.String()})
}

// choices name the expected answer in the question, or among the labels that
// are the same for all tasks.
func choices(t *trial) {
	forms := []string{"alternatives", "passage", "label-set"}
	t.spelling = forms[t.turn%len(forms)]
	tongue := t.tasks[0].tongue
	var labels []string
	for range t.d.between(12, 30) {
		labels = append(labels, t.d.name(tongue)+tongue.space+t.d.name(tongue))
	}
	if t.spelling == "label-set" {
		t.style.system += "\nAnswer with one of these labels: " + strings.Join(labels, "; ")
	}
	for i, o := range t.tasks {
		k := t.d.task(entityTask, o.tongue)
		if t.spelling == "label-set" {
			k.gold = pick(t.d, labels)
		} else if t.spelling == "alternatives" {
			k.question += " (" + strings.Join(some(t.d, []string{k.gold, t.d.name(o.tongue) + o.tongue.space + t.d.name(o.tongue)}, 2), " / ") + ")"
		} else {
			k.question = t.d.page(k, t.d.fact(k, k.gold), t.d.between(200, 1200)) + "\n\n" + k.question
		}
		t.tasks[i] = &outcome{task: k}
	}
	t.agent = agents[0]
}

// answersOnly is an agent behind a URL, for which the ledger says so.
func answersOnly(t *trial) {
	t.executes(1)
	t.vouched = t.voucher()
	t.vouched.AnswersOnly = map[string]bool{}
	t.files, t.gaps = nil, []string{"the agent is behind a URL"}
	for _, o := range t.tasks {
		t.vouched.AnswersOnly[o.id] = true
		t.talkOf(o).begin(o.question)
		o.answer, o.correct, o.done = o.gold, true, true
	}
}

// withoutKey is the test split, whose expected answers nobody has.
func withoutKey(t *trial) {
	t.metadata["gaia_split"] = "test"
	t.keyless = true
}

func keys(m map[string]bool) []string {
	var out []string
	for _, k := range taskKinds {
		if m[k] {
			out = append(out, k)
			delete(m, k)
		}
	}
	return out
}
