package claim

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"tallystick/internal/read/results"
	"tallystick/internal/record/canon"
	"tallystick/internal/share/attest"
)

// sampling sets samplingParams. Tasks of one file that do not agree on a setting
// leave it out, and extra says what each had.
func (b *builder) sampling(runs []results.Run) {
	each := make([]map[string]any, len(runs))
	for i, r := range runs {
		each[i] = samplingOf(setupOf(r))
	}
	agreed := map[string]any{}
	for name, v := range each[0] {
		same := !slices.ContainsFunc(each, func(m map[string]any) bool { return !reflect.DeepEqual(m[name], v) })
		if same && name != "nSamples" || len(runs) == 1 {
			agreed[name] = v
		}
	}
	if len(runs) > 1 {
		if total := totalSamples(each); total > 0 {
			agreed["nSamples"] = float64(total)
		}
		byTask := map[string]any{}
		for i, r := range runs {
			rest := maps.Clone(each[i])
			maps.DeleteFunc(rest, func(name string, v any) bool { return name != "nSamples" && reflect.DeepEqual(agreed[name], v) })
			if len(rest) > 0 {
				byTask[string(r.Task)] = rest
			}
		}
		if len(byTask) > 0 {
			b.extra["samplingByTask"] = byTask
		}
	}
	if len(agreed) > 0 {
		b.members["samplingParams"] = agreed
	}
}

func totalSamples(each []map[string]any) int64 {
	total := int64(0)
	for _, m := range each {
		n, ok := m["nSamples"].(float64)
		if !ok {
			return 0
		}
		total += int64(n)
	}
	return total
}

// samplingOf has the settings that a body has names for, within the ranges it
// has; the others are kept under the harness's names.
func samplingOf(s *results.Setup) map[string]any {
	out, further := map[string]any{}, maps.Clone(s.Generation)
	if further == nil {
		further = map[string]any{}
	}
	set := func(name, harnessName string, v *float64, least, most float64) {
		switch {
		case v == nil:
		case *v < least || *v > most:
			further[harnessName] = *v
		default:
			out[name] = *v
		}
	}
	set("numFewShot", "num_fewshot", asReal(s.FewShot), 0, 128)
	set("temperature", "temperature", s.Temperature, 0, 2)
	set("topP", "top_p", s.TopP, 0, 1)
	set("topK", "top_k", asReal(s.TopK), 0, 1000)
	set("maxTokens", "max_tokens", asReal(s.MaxTokens), 1, 1_000_000)
	set("seed", "seed", asReal(s.Seed), -(1<<53 - 1), 1<<53-1)
	set("nSamples", "n_samples", asReal(s.Samples), 1, 1<<53-1)
	set("nTrials", "n_trials", asReal(s.Trials), 1, 1<<53-1)
	if len(further) > 0 {
		out["generationKwargs"] = further
	}
	return out
}

func asReal(n *int64) *float64 {
	if n == nil {
		return nil
	}
	f := float64(*n)
	return &f
}

// Rerun is the command that repeats the run of a body, as far as its
// samplingParams say, and what they leave open. It is for a person to read: every
// word of it that is from the body is quoted for the shell.
func Rerun(b *attest.Body) (command string, open []string) {
	p := b.SamplingParams
	if p == nil {
		p, open = &attest.SamplingParams{}, []string{"the body has no samplingParams: the run cannot be repeated from it"}
	}
	tasks := tasksOf(b)
	var words []string
	add := func(flag, value string) {
		if value != "" {
			words = append(words, flag, quote(value))
		}
	}
	model := b.ModelID
	switch b.HarnessID {
	case "lm-eval-harness":
		words = []string{"lm_eval"}
		if name, ok := strings.CutPrefix(model, "huggingface://"); ok {
			add("--model", "hf")
			add("--model_args", "pretrained="+name)
		} else {
			add("--model", model)
		}
		add("--tasks", strings.Join(tasks, ","))
		add("--num_fewshot", whole(p.NumFewShot))
		add("--gen_kwargs", kwargs(p, true))
		add("--seed", whole(p.Seed))
	case "helm":
		words = []string{"helm-run", "--suite", "rerun"}
		add("--run-entries", strings.Join(tasks, " "))
		add("--max-eval-instances", whole(p.NSamples))
		add("--num-train-trials", whole(p.NTrials))
	case "inspect-ai":
		words = []string{"inspect", "eval"}
		words = append(words, quote(strings.Join(tasks, " ")))
		add("--model", strings.Replace(model, "huggingface://", "hf/", 1))
		add("--temperature", decimal(p.Temperature))
		add("--top-p", decimal(p.TopP))
		add("--top-k", whole(p.TopK))
		add("--max-tokens", whole(p.MaxTokens))
		add("--seed", whole(p.Seed))
		add("--epochs", whole(p.NTrials))
	case TallyID:
		words = append([]string{"tally", "reproduce"}, quote(strings.Join(tasks, " ")))
	default:
		return "", append(open, fmt.Sprintf("no command is known for %s; its settings: %s", b.HarnessID, kwargs(p, false)))
	}
	if p.Seed == nil && p.Temperature != nil && *p.Temperature > 0 {
		open = append(open, "the temperature is not 0 and no seed is stated: another run will differ")
	}
	return strings.Join(words, " "), open
}

// kwargs lists settings as name=value. Few-shot and seed have flags of their own.
func kwargs(p *attest.SamplingParams, flags bool) string {
	var out []string
	add := func(name, value string) {
		if value != "" {
			out = append(out, name+"="+value)
		}
	}
	if !flags {
		add("num_fewshot", whole(p.NumFewShot))
		add("seed", whole(p.Seed))
	}
	add("temperature", decimal(p.Temperature))
	add("top_p", decimal(p.TopP))
	add("top_k", whole(p.TopK))
	add("max_gen_toks", whole(p.MaxTokens))
	var further map[string]canon.RawMessage
	if len(p.GenerationKwargs) > 0 && canon.Unmarshal(p.GenerationKwargs, &further) == nil {
		for _, name := range slices.Sorted(maps.Keys(further)) {
			add(name, string(further[name]))
		}
	}
	return strings.Join(out, ",")
}

func whole(n *int64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatInt(*n, 10)
}

func decimal(f *float64) string {
	if f == nil {
		return ""
	}
	return strconv.FormatFloat(*f, 'g', -1, 64)
}

// quote makes one word for a POSIX shell of any text.
func quote(s string) string {
	plain := s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=,@", r))
	})
	if plain {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// tasksOf are the tasks that the body's extra names.
func tasksOf(b *attest.Body) []string {
	var tasks []string
	if inExtra(b, "imported", "tasks", &tasks) || inExtra(b, "observed", "tasks", &tasks) {
		return tasks
	}
	var results map[string]canon.RawMessage
	if b.HarnessID == "lm-eval-harness" && canon.Unmarshal(b.Results, &results) == nil {
		return slices.Sorted(maps.Keys(results))
	}
	return nil
}
