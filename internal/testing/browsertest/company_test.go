package browsertest

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// The company is a workspace of the size at which people ask questions: twenty classes,
// fifty attempts, twelve versions of one prompt of which the ninth was a mistake, a class
// of 5,000 cases, a case of more than 500 events, a picture that an agent drew, and logs of
// other harnesses. What became worse last is the class billing: the agent gives amounts of
// invoices in cents.
var company = sync.OnceValues(makeCompany)

const (
	worse        = "billing.clerk.2" // fourteen cases lost, all about invoices
	worseCase    = "/attempt/" + worse + "/case/invoice-03"
	dip          = "support.desk.9"
	beforeTheDip = "support.desk.8"
	manyCases    = 5000
)

func theCompany(t *testing.T) *world {
	t.Helper()
	if testing.Short() || browser() == nil {
		t.Skip("no browser")
	}
	w, err := company()
	check(t, err)
	return w
}

// others are classes in which little happens: their cases, and how many of them fail in
// each attempt.
var others = []struct {
	class  string
	cases  int
	failed []int
}{
	{"triage", 30, []int{9, 2}}, {"travel", 24, []int{4, 5}}, {"returns-eu", 20, []int{3, 3}}, {"warranty", 20, []int{0, 0}}, {"handover", 12, []int{6, 6}},
	{"escalation", 16, []int{2, 1}}, {"greeting", 10, []int{0, 0}}, {"translation", 25, []int{5, 4}}, {"summaries", 20, []int{7, 6, 5}},
	{"search", 30, []int{1, 2}}, {"coding", 18, []int{6, 5}}, {"sql", 22, []int{4, 4}}, {"privacy", 15, []int{0, 0, 0}}, {"tone", 12, []int{1, 1}},
}

func makeCompany() (*world, error) {
	w, err := newWorld("demo") // the class refunds, which two people signed
	if err != nil {
		return nil, err
	}
	files := map[string]string{
		"bench/support/registration.yaml": registration("support") + "gates: [{tag: \"*\", metric: solve_rate, threshold: 0.85}]\nfailure_modes: {wrong-policy: warn}\n",
		"bench/support/dataset.jsonl":     supportCases(),
		"bench/billing/registration.yaml": registration("billing") + "gates: [{tag: \"*\", metric: solve_rate, threshold: 0.8}, {tag: \"*\", metric: cost_per_solve, threshold: 5000}]\nfailure_modes: {wrong-unit: warn}\n",
		"bench/billing/dataset.jsonl":     billingCases(),
		"bench/sums/registration.yaml":    strings.Replace(registration("sums"), "wall_clock_seconds: 60,", "wall_clock_seconds: 3600,", 1) + "gates: [{tag: \"*\", metric: solve_rate, threshold: 0.8}]\n",
		"bench/sums/dataset.jsonl":        manySums(),
		"bench/lift/registration.yaml":    strings.NewReplacer("turns: 20,", "turns: 200,", "tokens: 10000000,", "tokens: 2000000000,").Replace(registration("lift")),
		"bench/lift/dataset.jsonl":        longVisit(),
		"bench/charts/registration.yaml":  registration("charts"),
		"bench/charts/dataset.jsonl":      jsonLine(object{"id": "draws-a-chart", "tags": []string{"files"}, "input": "Draw the visits of March.", "grade": object{"kind": "contains", "expected": []string{"chart.png"}}}),
		"targets/plotter.yaml":            "version: 1\nkind: command\ncommand: {command: [sh, /agent/plot.sh], source: plot.sh}\n",
		"plot.sh":                         plotter(),
	}
	for _, o := range others {
		files["bench/"+o.class+"/registration.yaml"] = registration(o.class) + "gates: [{tag: \"*\", metric: solve_rate, threshold: 0.5}]\n"
	}
	if err := w.write(files); err != nil {
		return nil, err
	}
	run := func(code int, args ...string) {
		if err == nil {
			_, err = w.tally(code, append([]string{"--workspace", w.dir}, args...)...)
		}
	}
	put := func(files map[string]string) {
		if err == nil {
			err = w.write(files)
		}
	}
	for v := 1; v <= 12; v++ {
		put(map[string]string{"targets/desk.yaml": prompted("help-1", promptOf(v))})
		run(map[bool]int{true: 4}[v <= 2 || v == 9], "run", "support", "--target", "desk")
	}
	run(0, "name", dip, "statutory rules", "--note", "We tried the text of the law in place of our policy.")
	for _, o := range others {
		for k, failed := range o.failed {
			put(map[string]string{"bench/" + o.class + "/dataset.jsonl": smallClass(o.class, o.cases), "targets/" + o.class + ".yaml": prompted("help-1", fmt.Sprintf("Version %d.\nFails %d.\n", k+1, failed))})
			run(0, "run", o.class, "--target", o.class)
		}
	}
	run(0, "run", "builtin:adversarial", "--target", "mitigated")
	run(4, "run", "builtin:adversarial", "--target", "vulnerable")
	run(0, "run", "sums")
	run(0, "run", "lift")
	run(0, "run", "charts", "--target", "plotter", "--sandbox", "none")
	for v := range 2 {
		put(map[string]string{"targets/clerk.yaml": prompted("help-1", []string{"You keep the books.\nGive amounts in euros.\n", "You keep the books.\nGive amounts as the tool gives them.\nBe brief.\n"}[v])})
		run([]int{0, 4}[v], "run", "billing", "--target", "clerk")
	}
	if err != nil {
		return nil, err
	}
	if err := w.keepsLogs("inspect-json/log.json", "promptfoo-v4/shared.json", "lm-eval", "helm"); err != nil {
		return nil, err
	}
	return w, w.readKey(signed)
}

// prompted is a target with a system text.
func prompted(model, system string) string {
	return fmt.Sprintf("version: 1\nkind: builtin\nbuiltin:\n  model: %s\n  api: openai.chat\n  max_output_tokens: 200\n  system: %s\n", model, strings.TrimSpace(jsonLine(system)))
}

// promptOf is a version of the prompt of the help desk: each has one more rule, and the
// ninth has the text of the law in place of the policy.
func promptOf(version int) string {
	var b strings.Builder
	b.WriteString("You work at the help desk of a shop that sells lamps.\n")
	if version == 9 {
		b.WriteString("Answer from the statutory rules.\n")
	} else {
		b.WriteString("Answer from the shop policy.\n")
	}
	for rule := 1; rule <= version; rule++ {
		fmt.Fprintf(&b, "Rule %02d: be kind.\n", rule)
	}
	return b.String()
}

// supportCases are sixty questions about returns. A case is answered rightly since a rule
// is in the prompt; every fifth is answered from the law where the prompt asks for it.
func supportCases() string {
	var b strings.Builder
	topics := []string{"returns", "shipping", "warranty"}
	policy := []object{{"name": "find_policy", "description": "Find a rule of the shop.", "class": "read", "replies": []object{{"result": object{"rule": "returns", "days": 30, "since": "2026-01-01"}}}}}
	for i := range 60 {
		says := func(text string) object {
			return object{"text": text, "tokens_in": 180 + i, "tokens_out": 30, "cost_microdollars": 400 + 10*i}
		}
		asks := object{"tool_calls": []object{{"name": "find_policy", "args": object{"topic": topics[i%3]}}}, "tokens_in": 150, "tokens_out": 12, "cost_microdollars": 300}
		good := says(fmt.Sprintf("You have **30 days** to send lamp %d back.\n\n1. Put it into its box.\n2. Print the label.", i))
		replies := []object{asks}
		rule := map[bool]int{i%7 == 3: 3, i%11 == 4: 5, i%13 == 6: 10}[true]
		switch {
		case i%5 == 0 && i != 50:
			law := says("By law you have **14 days**, counted from the day on which you received it.")
			law["when"] = object{"contains": "statutory"}
			replies = append(replies, law, good)
		case rule > 0:
			good["when"] = object{"contains": fmt.Sprintf("Rule %02d:", rule)}
			replies = append(replies, good, says("Please ask the shop where you bought it."))
		default:
			replies = append(replies, good)
		}
		b.WriteString(jsonLine(object{"id": fmt.Sprintf("return-%02d", i), "tags": []string{topics[i%3], []string{"easy", "hard"}[i%2]}, "input": fmt.Sprintf("I bought lamp %d on Monday and do not like it. How long do I have to send it back?", i), "tools": policy, "model": replies,
			"checks": []object{{"name": "thirty-days", "grade": object{"kind": "contains", "expected": "30 days"}, "failure_mode": "wrong-policy"}}}))
	}
	return b.String()
}

// billingCases are forty questions, of which fourteen are about invoices.
func billingCases() string {
	var b strings.Builder
	for i := range 40 {
		says := func(text string) object {
			return object{"text": text, "tokens_in": 210 + i, "tokens_out": 25, "cost_microdollars": 700 + 20*i}
		}
		id, tags, tool := fmt.Sprintf("account-%02d", i), []string{"accounts"}, "find_account"
		right := fmt.Sprintf("€ %d.50", 12+i)
		wrong := says(fmt.Sprintf("The amount is **%d50**.\n\n```json\n{\"invoice\": %d, \"cents\": %d50}\n```", 12+i, i, 12+i))
		wrong["when"] = object{"contains": "as the tool gives them"}
		replies := []object{{"tool_calls": []object{{"name": tool, "args": object{"number": 2000 + i}}}, "tokens_in": 140, "tokens_out": 14, "cost_microdollars": 200}}
		if i < 14 {
			id, tags, tool = fmt.Sprintf("invoice-%02d", i), []string{"invoices"}, "find_invoice"
			replies[0]["tool_calls"] = []object{{"name": tool, "args": object{"number": 2000 + i, "fields": []string{"amount", "currency", "due"}}}}
			replies = append(replies, wrong)
		}
		replies = append(replies, says("The amount is **"+right+"**."))
		tools := []object{{"name": tool, "description": "Find one by its number.", "class": "read", "replies": []object{{"result": object{"amount_cents": (12+i)*100 + 50, "currency": "EUR", "due": "2026-04-01", "number": 2000 + i}}}}}
		b.WriteString(jsonLine(object{"id": id, "tags": append(tags, []string{"eu", "us"}[i%2]), "input": fmt.Sprintf("How much is open on %s %d?", strings.TrimSuffix(tags[0], "s"), 2000+i), "tools": tools, "model": replies,
			"checks": []object{{"name": "amount", "grade": object{"kind": "contains", "expected": right}, "failure_mode": "wrong-unit"}}}))
	}
	return b.String()
}

// smallClass has cases of which the first as many fail as the prompt says.
func smallClass(class string, cases int) string {
	var b strings.Builder
	for i := range cases {
		replies := []object{}
		for failed := i + 1; failed <= 9; failed++ {
			replies = append(replies, object{"text": "I do not know.", "when": object{"contains": fmt.Sprintf("Fails %d.", failed)}, "tokens_in": 60, "tokens_out": 6, "cost_microdollars": 150})
		}
		replies = append(replies, object{"text": fmt.Sprintf("It is %d.", 7*i), "tokens_in": 60, "tokens_out": 9, "cost_microdollars": 250})
		b.WriteString(jsonLine(object{"id": fmt.Sprintf("%s-%02d", class, i), "tags": []string{[]string{"short", "long"}[i%2]}, "input": fmt.Sprintf("Question %d about %s: what is 7 times %d?", i, class, i), "model": replies, "expected": fmt.Sprint(7 * i), "grade": object{"kind": "contains"}}))
	}
	return b.String()
}

// manySums are 5,000 cases; every seventh fails.
func manySums() string {
	var b strings.Builder
	for i := 1; i <= manyCases; i++ {
		wrong := map[bool]int{true: 1}[i%7 == 0]
		b.WriteString(jsonLine(object{"id": fmt.Sprintf("sum-%04d", i), "tags": []string{fmt.Sprintf("digits-%d", len(fmt.Sprint(i)))}, "input": fmt.Sprintf("What is %d plus %d?", i, i), "model": []object{{"text": fmt.Sprint(2*i + wrong), "tokens_in": 20, "tokens_out": 3, "cost_microdollars": 40}}, "expected": fmt.Sprint(2 * i), "grade": object{"kind": "exact"}}))
	}
	return b.String()
}

// longVisit is a case of 120 turns, each of several events.
func longVisit() string {
	var turns []object
	for i := range 120 {
		turns = append(turns, object{"text": fmt.Sprintf("Floor %d: the lift stops. What next?", i+1)})
	}
	return jsonLine(object{"id": "long-visit", "turns": turns, "model": []object{{"repeat": true, "text": "I noted it.\n\n```sh\nlift --check | grep stops # again\n```"}}, "expected": "noted", "grade": object{"kind": "contains"}})
}

// plotter is an agent that leaves a picture in its folder.
func plotter() string {
	chart := image.NewPaletted(image.Rect(0, 0, 320, 120), color.Palette{color.White, color.RGBA{0x0b, 0x5c, 0xad, 0xff}})
	for day := range 31 {
		for x := range 7 {
			for y := range 20 + day*37%90 {
				chart.SetColorIndex(5+10*day+x, 119-y, 1)
			}
		}
	}
	var data bytes.Buffer
	if err := png.Encode(&data, chart); err != nil {
		panic(err)
	}
	return "echo " + base64.StdEncoding.EncodeToString(data.Bytes()) + " | base64 -d > chart.png\nprintf 'The chart is in chart.png.\\n'\n"
}

// keepsLogs writes logs of other harnesses, out of the samples of the importer.
func (w *world) keepsLogs(names ...string) error {
	for _, name := range names {
		format, file, _ := strings.Cut(name, "/")
		a, err := txtar.ParseFile("../../share/importer/testdata/formats/" + format + ".txtar")
		if err != nil {
			return err
		}
		place := filepath.Join(w.home, "logs", format)
		for _, f := range a.Files {
			if f.Name == "want" || f.Name == "refused" {
				continue
			}
			to := filepath.Join(place, filepath.FromSlash(f.Name))
			if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(to, f.Data, 0o644); err != nil {
				return err
			}
		}
		w.imported = append(w.imported, filepath.Join(place, file))
	}
	return nil
}
