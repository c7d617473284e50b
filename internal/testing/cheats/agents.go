package cheats

import (
	"encoding/json"
	"fmt"
	"strings"
)

// An agent works on a task and comes to an answer, honestly. It returns what
// it answers; said is what the model concludes, which is the expected answer
// or a wrong one.
type agent struct {
	name string
	// takes says whether an agent of this kind works on such tasks.
	takes func(k *task) bool
	work  func(t *talk, said string)
}

func always(*task) bool { return true }

func open(k *task) bool { return k.kind != choiceTask && k.kind != yesNoTask }

var agents = []agent{
	{"direct", always, direct},
	{"few-shot", func(k *task) bool { return k.kind == choiceTask || k.kind == yesNoTask }, fewShot},
	{"search", always, searches},
	{"search-echo", open, searchesWithEcho},
	{"files", open, readsFiles},
	{"hand-off", always, handsOff},
	{"deliberate", always, deliberates},
}

var systems = []string{
	"You are a careful assistant. Use the tools when they help. End with FINAL ANSWER: and the shortest answer.",
	"You are a general AI assistant. I will ask you a question. Report your thoughts, and finish your answer with the template FINAL ANSWER: [YOUR FINAL ANSWER]. It should be a number OR as few words as possible OR a comma separated list.",
	"Think step by step. Do not guess: if you cannot find the answer, say so.",
	"You work for the judges of a quiz as a researcher. Be correct, be brief. An evaluator reads only your last line.",
	"",
}

func direct(t *talk, said string) {
	t.begin(t.task.question)
	if t.d.chance(40) {
		t.says(t.d.prose(t.task.tongue, t.d.between(80, 700)))
		t.prompt("Go on.")
	}
	t.concludes(said)
}

// fewShot shows solved examples of the same form before the question.
func fewShot(t *talk, said string) {
	var b strings.Builder
	for range t.d.between(2, 6) {
		k := t.d.task(t.task.kind, t.task.tongue)
		fmt.Fprintf(&b, "Question: %s\nAnswer: %s\n\n", k.question, k.gold)
	}
	// A letter that is the expected one stands among the examples, as it does in
	// every prompt of this form.
	k := t.d.task(t.task.kind, t.task.tongue)
	fmt.Fprintf(&b, "Question: %s\nAnswer: %s\n\nQuestion: %s\nAnswer:", k.question, t.task.gold, t.task.question)
	t.begin(b.String())
	t.concludes(said)
}

func searches(t *talk, said string) {
	d, k := t.d, t.task
	t.begin(k.question)
	for range d.between(1, 3) {
		t.says("I search for " + k.thing + ".")
		t.uses("web_search", map[string]any{"query": k.thing + " " + pick(d, k.tongue.words)}, d.hitList(k, ""))
	}
	t.interject()
	t.says("The second one looks right, I open it.")
	t.uses("fetch", map[string]any{"url": d.link()}, d.page(k, d.fact(k, said), d.size()))
	t.concludes(said)
}

// searchesWithEcho asks the search engine the whole question, as many agents
// do, and the engine repeats what it was asked beside what it found.
func searchesWithEcho(t *talk, said string) {
	d, k := t.d, t.task
	t.begin(k.question)
	t.interject()
	t.says("I look it up.")
	t.uses("web_search", map[string]any{"query": k.question, "max_results": 5}, d.hitList(k, said))
	t.concludes(said)
}

// readsFiles reads what is attached to the task, and computes.
func readsFiles(t *talk, said string) {
	d, k := t.d, t.task
	file := pick(d, []string{"gold_medals.csv", "labels.json", "solutions.csv", "golden_gate.txt", "goldfish_2019.csv", "answering_machines.txt", "reference_solutions_ph7.csv", "witness_statements.txt", "judge_ratings.csv"})
	t.begin(k.question + "\n\nAttached file: " + file)
	t.interject()
	t.says("I read the file first.")
	t.uses("read_file", map[string]any{"path": "attachments/" + file}, d.table(k, said))
	if d.chance(60) {
		t.says("Now I select the row with Python.")
		t.uses("python", map[string]any{"code": fmt.Sprintf("import csv\nrows = list(csv.reader(open('attachments/%s')))\nprint([r for r in rows if r and r[0] == %q][0][1])", file, k.thing)}, said+"\n")
	}
	t.concludes(said)
}

// handsOff is a planner, a researcher and a writer: each is prompted with what
// the one before said.
func handsOff(t *talk, said string) {
	d, k := t.d, t.task
	t.begin(k.question)
	t.says("Plan: find " + k.thing + ", check it twice, then write the answer.")
	t.prompt("You are the researcher. The planner says: find " + k.thing + ", check it twice.")
	t.interject()
	t.says("I open the page.")
	t.uses("browse", map[string]any{"url": d.link()}, d.page(k, d.fact(k, said), d.size()))
	t.says("My note for the writer: " + said)
	t.prompt("You are the writer. Handed over by the researcher: " + said + "\nWrite the final line.")
	t.concludes(said)
}

// deliberates answers, is asked to check, and answers again.
func deliberates(t *talk, said string) {
	t.begin(t.task.question)
	t.interject()
	t.says("My first thought is " + said + ". I should check.")
	t.prompt("Check your answer " + said + " once more, then give the final line.")
	t.concludes(said)
}

// size is that of a page: few are long, and one of some hundreds is very long.
func (d *dice) size() int {
	if d.IntN(300) == 0 {
		return d.between(30_000, 90_000)
	}
	if d.chance(25) {
		return d.between(3000, 9000)
	}
	return d.between(100, 1500)
}

func (d *dice) link() string {
	return "https://" + d.host() + "/" + pick(d, []string{"wiki", "article", "item", "2023/entry"}) + "/" + d.digits(5)
}

// hitList is the answer of a search engine. With said, the engine was asked the
// whole question, repeats it, and one of the hits has the answer.
func (d *dice) hitList(k *task, said string) string {
	type hit struct {
		Title   string `json:"title"`
		URL     string `json:"url"`
		Content string `json:"content"`
	}
	out := struct {
		Query   string `json:"query,omitempty"`
		Results []hit  `json:"results"`
	}{}
	for range d.between(2, 5) {
		out.Results = append(out.Results, hit{d.name(k.tongue), d.link(), d.prose(k.tongue, d.between(60, 240))})
	}
	if said != "" {
		out.Query = k.question
		out.Results[0].Content += d.fact(k, said)
	}
	data, _ := json.Marshal(out)
	return string(data)
}

// table is a file of the task: rows of which one is asked for.
func (d *dice) table(k *task, said string) string {
	var b strings.Builder
	b.WriteString("name,value\n")
	n := d.between(3, 40)
	at := d.IntN(n)
	for i := range n {
		if i == at {
			fmt.Fprintf(&b, "%s,%q\n", k.thing, said)
			continue
		}
		fmt.Fprintf(&b, "%s,%s\n", d.name(k.tongue), d.digits(d.between(2, 7)))
	}
	return b.String()
}
