package expression

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"tallystick/internal/run/bounded"
)

// TestMain lets the test binary evaluate in a process of its own, as tally does.
func TestMain(m *testing.M) {
	bounded.Reexec()
	os.Exit(m.Run())
}

// runs is a language as the one of graders, with a tenth of what they may spend.
const runsCost = 1_000_000

var runs = NewLanguage(runsCost, Variable{"events", ListOfObjects}, Variable{"run", Object})

// a run with a long answer, many events, and an object with many keys.
func hostileRun() map[string]any {
	var events []any
	keys := map[string]any{}
	for i := range 3000 {
		events = append(events, map[string]any{"type": "x", "seq": float64(i), "payload": map[string]any{"text": strings.Repeat("a", 60), "n": float64(i)}})
		keys[fmt.Sprintf("key%d", i)] = float64(i)
	}
	return map[string]any{"events": events, "run": map[string]any{"answer": strings.Repeat("a", 200_000), "short": strings.Repeat("ab ", 100), "keys": keys,
		"pattern": "(.{0,30}){0,30}x", "classes": `(?i)[\pL\pM\pN]{1,60}\z`}}
}

// grows makes of a value 50 times 50 of it, in two steps.
func grows(name, by string) string {
	all := name + strings.Repeat(by+name, 49)
	return ".map(" + name + ", " + all + ").map(" + name + ", " + all + ")"
}

// refers is a list in which one short list is referred to 62,500 times over.
var refers = `[[1,2,3,4,5,6,7,8]].map(a, [a` + strings.Repeat(",a", 249) + `]).map(a, [a` + strings.Repeat(",a", 249) + `])`

// hostile are expressions that would take minutes, or more memory than there is. Each is
// here for another way of repeating.
var hostile = map[string]string{
	"a counted repetition in a counted repetition": `run.answer.matches('(.{0,30}){0,30}x')`,
	"alternations":                   `run.answer.matches('(a|b|ab|ba|aab|abb|a?b?a?){0,120}x')`,
	"classes of Unicode":             `run.answer.matches('([\\pL\\pM]?[\\pL\\pN]?){0,200}!')`,
	"a pattern in two loops":         `events.all(x, events.all(y, !run.short.matches('(.{0,9}){0,9}x')))`,
	"a pattern of the agent":         `events.all(x, !run.short.matches(run.pattern + string(x.seq)))`,
	"patterns that are dear to read": `events.all(x, events.all(y, !run.short.matches(run.classes + string(y.seq))))`,
	"the size of a text":             `events.all(x, events.all(y, size(run.answer) > 0))`,
	"bytes of a text":                `events.all(x, events.all(y, size(bytes(run.answer)) > 0))`,
	"a text and back":                `events.all(x, events.all(y, string(bytes(run.answer)) != ""))`,
	"a text in a text":               `events.all(x, events.all(y, !run.answer.contains('b')))`,
	"texts compared":                 `events.all(x, events.all(y, run.answer <= run.answer))`,
	"equal texts":                    `events.all(x, events.all(y, run.answer == run.answer))`,
	"the beginning of a text":        `events.all(x, events.all(y, run.answer.startsWith(run.answer)))`,
	"everything is everything":       `events.all(x, events.all(y, events == events))`,
	"everything is not everything":   `events.all(x, events.all(y, !(events != events)))`,
	"one in all":                     `events.all(x, events.all(y, x in events))`,
	"a text in a list":               `events.all(x, !("b" in events.map(z, "a")))`,
	"the first key of many":          `events.all(x, run.keys.exists(k, true))`,
	"a map of a map":                 `size(events.map(x, events.map(y, {'a': y, 'b': x}))) > 0`,
	"a map of a map of lists":        `size(events.map(x, events.map(y, [x, y, [x, y]]))) > 0`,
	"a long list in a map":           `size(events.map(x, events.map(y, [` + strings.Repeat("1,", 1500) + `1]))) > 0`,
	"a long text in a map":           `size(events.map(x, events.map(y, run.answer + '` + strings.Repeat("z", 2000) + `'))) > 0`,
	"texts that grow":                `size(events.map(x, events.map(y, x.type + run.answer))) > 0 || size(events.map(x, events.map(y, run.answer + run.answer))) > 0`,
	"a text of texts of texts":       `[run.answer]` + grows("a", "+") + ` == []`,
	"bytes of bytes of bytes":        `[bytes(run.answer)]` + grows("a", "+") + ` == []`,
	"a list of lists, joined":        `[events]` + grows("a", "+") + `.size() == 0`,
	"references to references":       refers + ` == ` + refers,
	"references that differ":         refers + ` != ` + refers,
	"references in a list":           refers + `[0] in ` + refers,
	"references as values":           strings.ReplaceAll(refers, ",a,a", ",{'k':a}") + ` == ` + strings.ReplaceAll(refers, ",a,a", ",{'k':a}"),
	"a filter in a filter":           `size(events.filter(x, size(events.filter(y, y.payload.text + 'a' == x.payload.text + 'b')) > 0)) == 0`,
}

// Whatever is repeated is paid for, and in the same coin everywhere: each of these would
// take minutes or gigabytes, and ends with the same words here and in a process of its own.
func TestWhatRepeatsIsTooDear(t *testing.T) {
	vars := hostileRun()
	for name, source := range hostile {
		t.Run(name, func(t *testing.T) {
			p, err := runs.Compile(source)
			if err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err = p.Value(t.Context(), vars, runs.Budget())
			runtime.ReadMemStats(&after)
			var spent *SpentError
			if !errors.As(err, &spent) || spent.Spent <= spent.Allowed || spent.Allowed != runsCost {
				t.Fatalf("%v, want that it is too dear", err)
			}
			// What went on here, and not in the process of its own.
			if got := after.TotalAlloc - before.TotalAlloc; got > 400<<20 {
				t.Errorf("it took %d bytes of memory here", got)
			}
			if _, here, err := p.valueHere(vars, runsCost); !isSpent(err) || here != spent.Spent {
				t.Errorf("here %d, %v; elsewhere %d", here, err, spent.Spent)
			}
		})
	}
}

// A process of its own says what is said here, of every kind of value.
func TestTheProcessSaysTheSame(t *testing.T) {
	vars := hostileRun()
	vars["run"].(map[string]any)["odd"] = []any{nil, true, "\xff\x00<", map[string]any{"object": map[string]any{"unknown": "x"}}, -1.5}
	vars["run"].(map[string]any)["unseen"] = Unknown("it cannot be seen")
	for _, source := range []string{`1`, `2u`, `3.5`, `0.0 / 0.0`, `"x\u0001"`, `null`, `true`, `[1, {"a": [2u]}]`, `run.odd`, `{"unknown": "x", "int": 7}`, `run.unseen`, `run.nothing`, `b"x"`, `false && run.unseen`} {
		p, err := runs.Compile(`true ? dyn(` + source + `) : dyn(0)`)
		if err != nil {
			t.Fatal(err)
		}
		here, spentHere, errHere := p.valueHere(vars, runsCost)
		there, spentThere, errThere := p.valueElsewhere(t.Context(), vars, runsCost)
		if fmt.Sprintf("%#v %v", here, errHere) != fmt.Sprintf("%#v %v", there, errThere) || spentHere != spentThere || reflect.TypeOf(errHere) != reflect.TypeOf(errThere) && isUnknown(errHere) != isUnknown(errThere) {
			t.Errorf("%s: here %#v, %v, %d; in a process %#v, %v, %d", source, here, errHere, spentHere, there, errThere, spentThere)
		}
	}
}

func isUnknown(err error) bool {
	var u *UnknownError
	return errors.As(err, &u)
}

// One budget is spent by all evaluations of a check.
func TestABudgetIsSpentOnce(t *testing.T) {
	p, err := runs.Compile(`events.all(x, x.seq >= 0.0)`)
	if err != nil {
		t.Fatal(err)
	}
	b, vars := runs.Budget(), hostileRun()
	for i := 0; ; i++ {
		_, err := p.Value(t.Context(), vars, b)
		var spent *SpentError
		if errors.As(err, &spent) && i > 10 {
			return
		}
		if err != nil || i > runsCost {
			t.Fatalf("after %d: %v", i, err)
		}
	}
}

// What people write about ordinary runs stays cheap.
func TestOrdinaryExpressionsAreCheap(t *testing.T) {
	vars := hostileRun()
	for source, most := range map[string]uint64{
		`run.answer.size() > 10`: 10_000, `run.answer.matches('^a+$')`: 100_000, `events.exists(e, e.type == "y" && e.payload.text.matches('[0-9]+ of [0-9]+'))`: 50_000,
		`events.filter(e, e.payload.text.contains("b")).size() == 0`: 50_000, `events.all(e, e.payload.text.matches('a+') && e.payload.n >= 0.0)`: maxHere,
		`run.keys.all(k, run.keys[k] >= 0.0)`: 100_000, `events.map(e, e.payload.n).size() == 3000`: 100_000,
	} {
		p, err := runs.Compile(source)
		if err != nil {
			t.Fatal(err)
		}
		if value, spent, err := p.valueHere(vars, runsCost); err != nil || spent > most {
			t.Errorf("%s: %v, %d units, expected at most %d, %v", source, value, spent, most, err)
		}
	}
}

// A policy's conditions are asked about arguments that the agent chose.
func TestConditionsAreDearToo(t *testing.T) {
	args, _ := json.Marshal(map[string]any{"text": strings.Repeat("a", 200_000), "p": "(.{0,30}){0,30}x", "list": make([]int, 2000)})
	for _, source := range []string{`args.text.matches('(.{0,30}){0,30}x')`, `args.text.matches(args.p)`, `args.list.all(x, args.list.all(y, args.text == args.text))`, `args.list.all(x, args.list.exists(y, args == args && x != y))`} {
		p, err := about.CompileCondition(source)
		if err != nil {
			t.Fatal(err)
		}
		var spent *SpentError
		if _, err := p.Holds(vars(t, string(args))); !errors.As(err, &spent) || !strings.Contains(err.Error(), source[:20]) {
			t.Errorf("%s: %v", source, err)
		}
	}
}
