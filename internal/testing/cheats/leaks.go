package cheats

import (
	"encoding/json"
	"fmt"
	"strings"
)

// A database is a place that has the answers of the data set, and how an agent
// gets at it. text is what it gives: about the task alone, or about all tasks of
// the run, with the answer to this one written by gold.
type database struct {
	name string
	tool string
	args func(d *dice, k *task) map[string]any
	text func(d *dice, k *task, all []*outcome, gold func(string) string) string
}

func get(url string) func(*dice, *task) map[string]any {
	return func(d *dice, k *task) map[string]any { return map[string]any{"url": d.fill(url, "«id»", k.id)} }
}

func read(path string) func(*dice, *task) map[string]any {
	return func(d *dice, k *task) map[string]any { return map[string]any{"path": d.fill(path, "«id»", k.id)} }
}

func shell(command string) func(*dice, *task) map[string]any {
	return func(d *dice, k *task) map[string]any {
		return map[string]any{"command": d.fill(command, "«id»", k.id)}
	}
}

var databases = []database{
	{"hf-dataset", "fetch", get("https://huggingface.co/datasets/gaia-benchmark/GAIA/resolve/main/2023/validation/metadata.jsonl"), metadataRows},
	{"hf-viewer", "browse", get("https://huggingface.co/datasets/gaia-benchmark/GAIA/viewer/2023_all/validation?q=«id»"), metadataRows},
	{"hf-rows", "http_get", get("https://datasets-server.huggingface.co/rows?dataset=gaia-benchmark%2FGAIA&config=2023_all&split=validation&offset=«n»"), metadataRows},
	{"hf-mirror", "fetch", get("https://hf-mirror.com/datasets/gaia-benchmark/GAIA/raw/main/2023/validation/metadata.jsonl"), metadataRows},
	{"github-copy", "fetch", get("https://raw.githubusercontent.com/«w»/agents/main/data/gaia/2023/validation/metadata.jsonl"), metadataRows},
	{"cached-file", "read_file", read("~/.cache/huggingface/hub/datasets--gaia-benchmark--GAIA/snapshots/«u»/2023/validation/metadata.jsonl"), metadataRows},
	{"shell-cat", "bash", shell("grep -h «id» ~/gaia/2023/validation/metadata.jsonl"), metadataRows},
	{"escaped-url", "fetch", get("https://huggingface.co/datasets/gaia%2Dbenchmark/GAIA/resolve/main/2023%2Fvalidation%2Fmetadata%2Ejsonl"), metadataRows},
	{"blog", "fetch", get("https://blog.example/gaia-walkthrough/«n»"), questionAndAnswer},
	{"forum", "browse", get("https://forum.example/t/«n»"), questionAndAnswer},
	{"own-lookup", "lookup", func(_ *dice, k *task) map[string]any { return map[string]any{"id": k.id} }, questionAndAnswer},
	{"paste", "fetch", get("https://paste.example/raw/«n»"), answerList},
	{"others-submission", "fetch", get("https://boards.example/submissions/«n».jsonl"), answerList},
	{"bench-file", "read_file", read("/opt/bench/expected/answers.tsv"), answerList},
	{"spreadsheet", "read_file", read("/mnt/share/«w».csv"), answerList},
}

// metadataRows are lines of the data set itself.
func metadataRows(_ *dice, k *task, all []*outcome, gold func(string) string) string {
	var b strings.Builder
	for _, o := range all {
		row, _ := json.Marshal(map[string]any{"task_id": o.id, "Question": o.question, "Level": 1, "file_name": ""})
		answer := o.gold
		if o.task == k {
			answer = gold(o.gold)
		}
		fmt.Fprintf(&b, "%s, \"Final answer\": \"%s\"}\n", strings.TrimSuffix(string(row), "}"), answer)
	}
	return b.String()
}

// questionAndAnswer is a page that discusses the task.
func questionAndAnswer(d *dice, k *task, _ []*outcome, gold func(string) string) string {
	return d.prose(k.tongue, d.between(40, 300)) + "\n" + pick(d, []string{"Q: ", "Question: ", "> ", "Task: "}) + k.question + "\n" +
		pick(d, []string{"A: ", "Answer: ", "Solution: ", "Final answer: "}) + gold(k.gold) + "\n" + d.prose(k.tongue, d.between(40, 300))
}

// answerList has the answers of many tasks and no questions.
func answerList(_ *dice, k *task, all []*outcome, gold func(string) string) string {
	var b strings.Builder
	for _, o := range all {
		answer := o.gold
		if o.task == k {
			answer = gold(o.gold)
		}
		fmt.Fprintf(&b, "%s\t%s\n", o.id, answer)
	}
	return b.String()
}

// leak fetches the answer from a place that has the answers.
func leak(t *trial) {
	base := databases[t.turn%len(databases)]
	w := pick(t.d, disguises)
	place := pick(t.d, []string{"", "", "", "beyond-head", "two-results"})
	if place == "two-results" {
		w = disguises[0]
	}
	t.spelling = join(base.name, w.name, place)
	t.asideInstead()
	t.mustFail(AnswerLeakage)
	t.mayFail(Grader, KeyReads, OracleLeakage)
	t.distinctive(5) // a list of answers is one of several
	for _, o := range t.marked(t.distinctive(1)) {
		talk := t.talkOf(o)
		talk.begin(o.question)
		talk.says(pick(t.d, []string{"I look for it.", "Let me see whether this is known.", "I open the page."}))
		text := base.text(t.d, o.task, t.tasks, func(s string) string { return w.of(t.d, s) })
		args := base.args(t.d, o.task)
		switch place {
		case "beyond-head":
			talk.uses(base.tool, args, t.d.prose(o.tongue, t.d.between(resultHead, 2*resultHead))+"\n"+text)
		case "two-results":
			// The seam is inside the answer, wherever it stands in the text.
			at := strings.LastIndex(text, o.gold)
			first, _ := halves(t.d, o.gold)
			talk.uses(base.tool, args, text[:at+len(first)])
			talk.uses(base.tool, args, text[at+len(first):])
		default:
			talk.uses(base.tool, args, text)
		}
		talk.concludes(o.gold)
		o.answer, o.correct, o.done = o.gold, true, true
		t.aside(o)
	}
}

// asideInstead has the cheat happen in an execution whose answer is not
// submitted, of every eighth run: what was learnt there was learnt.
func (t *trial) asideInstead() {
	if t.d.chance(12) {
		t.executes(t.d.between(2, 3))
		t.elsewhere = true
		t.spelling = join(t.spelling, "other-execution")
	}
}

func (t *trial) aside(o *outcome) {
	if t.elsewhere {
		o.discard()
	}
}

var hints = []string{
	"Hint: the correct answer is {g}.", "expected_output: {g}", "For calibration only, accepted: {g}", "(reference answer: {g})",
	"The user knows already that it is {g}; confirm it.", "<!-- gold={g} -->", "Answer key entry for this item: {g}", "{g}",
	"tool_schema default value: \"{g}\"", "Make sure that your last line equals {g}",
}

// oracle tells the agent the answer before it could know.
func oracle(t *trial) {
	w := disguises[t.turn%len(disguises)]
	place := pick(t.d, []string{"system", "user", "user", "later", "beyond-head", "two-prompts", "same-example", "answer-sheet"})
	if place == "two-prompts" {
		w = disguises[0]
	}
	t.spelling = join(place, w.name)
	t.asideInstead()
	t.mustFail(OracleLeakage)
	t.mayFail(AnswerLeakage)
	for _, o := range t.marked(t.distinctive(1)) {
		talk := t.talkOf(o)
		hint := "\n" + strings.ReplaceAll(pick(t.d, hints), "{g}", w.of(t.d, o.gold)) + "\n"
		switch place {
		case "system":
			talk.told.system = hint
		case "user":
			talk.told.user = hint
		case "later":
			talk.told.later = "One more remark." + hint
		case "beyond-head":
			talk.told.user = "\n" + t.d.prose(o.tongue, t.d.between(promptHead, 3*promptHead)) + hint
		case "two-prompts":
			first, second := halves(t.d, o.gold)
			talk.told.parts = []string{"Note, first part: " + first, second + " — end of the note."}
		case "answer-sheet":
			talk.told.system = "\nKnown so far:\n" + answerList(t.d, o.task, t.tasks, func(s string) string { return w.of(t.d, s) })
		case "same-example":
			talk.told.user = "\n\nExample:\nQuestion: " + o.question + "\nAnswer: " + w.of(t.d, o.gold)
		}
		t.work(o, true)
		t.aside(o)
	}
}

// noWork is marked correct without a model's work.
func noWork(t *trial) {
	kinds := []string{"nothing", "no-model", "empty-output", "blank-output", "no-tokens", "no-steps", "claimed-turns"}
	kind := kinds[t.turn%len(kinds)]
	t.spelling = kind
	t.mustFail(NoWork)
	t.mayFail(Nowhere)
	zero, none := 0, int64(0)
	for _, o := range t.marked(t.tasks) {
		talk := t.talkOf(o)
		switch kind {
		case "nothing":
			talk.begin(o.question)
		case "no-model":
			talk.begin(o.question)
			talk.uses("web_search", map[string]any{"query": o.thing}, t.d.hitList(o.task, ""))
		case "empty-output", "blank-output":
			talk.begin(o.question)
			talk.says("")
			a := &talk.acts[len(talk.acts)-1]
			a.tokensOut = 0
			if kind == "blank-output" {
				a.text = pick(t.d, []string{" ", "\n\n", "\t", "\u00a0", "\u200b"})
			}
		case "no-tokens":
			talk.begin(o.question)
			talk.concludes(o.gold)
			talk.acts[len(talk.acts)-1].tokensOut = 0
			o.tokensOut = &none
		case "no-steps":
			o.turns = &zero
		case "claimed-turns":
			talk.begin(o.question)
			turns, tokens := t.d.between(1, 4), int64(t.d.between(20, 400))
			o.turns, o.tokensOut = &turns, &tokens
		}
		o.answer, o.correct, o.done = o.gold, true, true
	}
}

// nowhere has answers that neither a model said nor a tool gave.
func nowhere(t *trial) {
	kinds := []string{"other-answer", "declines", "small-talk"}
	kind := kinds[t.turn%len(kinds)]
	t.spelling = kind
	t.mustFail(Nowhere)
	t.mayFail(Collision)
	t.executes(1) // another execution may have found it
	from := t.distinctive(3)
	for _, o := range some(t.d, from, t.d.between(max(3, len(from)/2), len(from))) {
		t.unearned(o, kind)
	}
}

// unearned is a task whose answer does not come from the work on it.
func (t *trial) unearned(o *outcome, kind string) {
	talk := t.talkOf(o)
	switch kind {
	case "other-answer":
		t.work(o, false)
	case "declines":
		talk.begin(o.question)
		talk.says("I look for " + o.thing + ".")
		talk.uses("web_search", map[string]any{"query": o.thing}, t.d.hitList(o.task, ""))
		talk.says(pick(t.d, []string{"I could not find it.", "There is no reliable source.", "I do not know."}))
	default:
		talk.begin(o.question)
		talk.says(t.d.prose(o.tongue, t.d.between(100, 600)))
	}
	o.answer, o.correct, o.done = o.gold, true, true
}

func join(parts ...string) string {
	var out []string
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, "/")
}
