// Package setup reads how a run was made out of what its files say: sampling,
// seeds, where the model is from, the digests of dataset and code. It is pure but
// for the reader it is given.
//
// The two tables of the receipt format, lm-eval and HELM, are here as code;
// docs/formats/credential.md has them as tables.
package setup

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"tallystick/internal/read/results"
	"tallystick/internal/record/canon"
	"tallystick/internal/record/jsonstream"
	"tallystick/internal/record/refusal"
)

// maxWhole bounds a value that is read whole.
const maxWhole = 16 << 20

// maxInstances bounds how many instances are remembered.
const maxInstances = 1 << 20

// LMEval is what a results file of lm-evaluation-harness says, as it was read.
type LMEval struct {
	Results, Config, Configs, Shots, Counts any
	Dataset, Commit, Versions, Hashes       any
	Model, Ended                            string
}

// Moment is a moment of lm-eval. Its start_time is seconds since 1970 in some files
// and a counter that began with the machine in others.
func Moment(text string) results.Known {
	if f, err := strconv.ParseFloat(text, 64); err != nil || f < 1e9 {
		return ""
	}
	return results.Epoch(text)
}

var isSHA256 = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{64}$`) })

// Of is the setup of one task.
func (h *LMEval) Of(task string) (*results.Setup, error) {
	own, err := results.Plain(jsonstream.Member(h.Results, task))
	if err != nil {
		return nil, err
	}
	s := &results.Setup{Results: map[string]any{task: own}, Tasks: true, EndedAt: Moment(h.Ended), ModelURI: h.modelURI()}
	if err := h.sampling(s, task); err != nil {
		return nil, err
	}
	s.Dataset = jsonstream.TextOf(h.Dataset)
	if s.Dataset == "" {
		s.Dataset = jsonstream.TextOf(jsonstream.Member(h.Dataset, task))
	}
	if !isSHA256().MatchString(s.Dataset) {
		s.Dataset = ""
	} else {
		s.DatasetHow = results.HashStated
	}
	// Not model_args, which may hold a key to a provider.
	s.Extra = map[string]any{}
	for name, v := range map[string]any{
		"gitHash": h.Commit, "taskVersion": jsonstream.Member(h.Versions, task), "taskHash": jsonstream.Member(h.Hashes, task),
		"modelType": jsonstream.Member(h.Config, "model"), "limit": jsonstream.Member(h.Config, "limit"), "seeds": h.seeds(),
	} {
		if v, err = results.Plain(v); err != nil {
			return nil, err
		}
		if v != nil && v != "" {
			s.Extra[name] = v
		}
	}
	return s, nil
}

// modelURI says where a model is from, if the harness loaded it from there.
func (h *LMEval) modelURI() string {
	kind := jsonstream.TextOf(jsonstream.Member(h.Config, "model"))
	if rest, ok := strings.CutPrefix(h.Model, "hf/"); ok {
		return "huggingface://" + rest
	}
	loaded := kind == "vllm" || kind == "sglang" || kind == "huggingface" || kind == "hf" || strings.HasPrefix(kind, "hf-")
	if loaded && h.Model != kind && strings.Count(h.Model, "/") == 1 && !strings.HasPrefix(h.Model, "/") && !strings.HasPrefix(h.Model, ".") {
		return "huggingface://" + h.Model
	}
	return ""
}

// seeds are the four that --seed takes.
func (h *LMEval) seeds() any {
	seeds := map[string]any{}
	for _, name := range []string{"random_seed", "numpy_seed", "torch_seed", "fewshot_seed"} {
		if v := jsonstream.Member(h.Config, name); v != nil {
			seeds[name] = v
		}
	}
	if len(seeds) == 0 {
		return nil
	}
	return seeds
}

// sampling follows the table: what the command line gave goes before what the
// task says.
func (h *LMEval) sampling(s *results.Setup, task string) error {
	for _, settings := range []any{jsonstream.Member(h.Configs, task, "generation_kwargs"), typed(jsonstream.Member(h.Config, "gen_kwargs"))} {
		if err := set(s, settings); err != nil {
			return err
		}
	}
	for _, v := range []any{jsonstream.Member(h.Shots, task), jsonstream.Member(h.Configs, task, "num_fewshot"), jsonstream.Member(h.Config, "num_fewshot")} {
		if s.FewShot = whole(v); s.FewShot != nil {
			break
		}
	}
	for _, v := range []any{jsonstream.Member(h.Config, "seed"), jsonstream.Member(h.Config, "random_seed")} {
		if s.Seed == nil {
			s.Seed = whole(v)
		}
	}
	s.Samples, s.Trials = whole(jsonstream.Member(h.Counts, task, "effective")), whole(jsonstream.Member(h.Configs, task, "repeats"))
	return nil
}

// set takes settings as they were read.
func set(s *results.Setup, settings any) error {
	v, err := results.Plain(settings)
	if err != nil {
		return err
	}
	if members, ok := v.(map[string]any); ok {
		s.Set(members)
	}
	return nil
}

// typed reads --gen_kwargs, which is kept as it was typed or as an object.
func typed(v any) any {
	text, ok := v.(string)
	if !ok {
		return v
	}
	out := map[string]any{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok {
			continue
		}
		value = strings.Trim(value, `"'`)
		switch _, err := strconv.ParseFloat(value, 64); {
		case err == nil:
			out[name] = jsonstream.Number(value)
		case strings.EqualFold(value, "true"), strings.EqualFold(value, "false"):
			out[name] = strings.EqualFold(value, "true")
		default:
			out[name] = value
		}
	}
	return out
}

// Adapter takes the settings of a HELM run_spec.json that was read whole, in plain
// values: max_train_instances are the examples in the prompt, num_train_trials are
// resamplings. Its canonical JSON is what the run was scored with.
func Adapter(s *results.Setup, spec any) (model string, err error) {
	text, err := canon.Marshal(spec)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	s.Code, s.CodeHow = hex.EncodeToString(sum[:]), results.HashCanonical
	adapter := jsonstream.Member(spec, "adapter_spec")
	settings := map[string]any{}
	for name, of := range map[string]string{
		"temperature": "temperature", "max_tokens": "max_tokens", "top_k": "top_k_per_token", "top_p": "top_p",
		"numOutputs": "num_outputs", "stop": "stop_sequences", "random": "random",
	} {
		settings[name] = jsonstream.Member(adapter, of)
	}
	s.Set(settings)
	s.FewShot = results.Whole(jsonstream.Member(adapter, "max_train_instances"))
	s.Trials = results.Whole(jsonstream.Member(adapter, "num_train_trials"))
	return jsonstream.TextOf(jsonstream.Member(adapter, "model_deployment")), nil
}

// Whole reads a value whole, in plain values.
func Whole(r *jsonstream.Reader) (any, error) {
	v, err := r.Any(maxWhole)
	if err != nil {
		return nil, err
	}
	return results.Plain(v)
}

// Instances is the SHA-256, in hexadecimal, of the input side of a HELM
// scenario_state.json: the canonical JSON of the list of its instances, each once,
// in the order in which they come first. What the model said is not in it.
func Instances(r *jsonstream.Reader) (sum string, n int64, err error) {
	hash := sha256.New()
	hash.Write([]byte("["))
	seen := map[[32]byte]bool{}
	one := func() error {
		v, err := Whole(r)
		if err != nil {
			return err
		}
		text, err := canon.Marshal(v)
		if err != nil {
			return err
		}
		key := sha256.Sum256(text)
		if seen[key] {
			return nil
		}
		if len(seen) == maxInstances {
			return refusal.Newf(refusal.TooLarge, "more than %d instances", maxInstances)
		}
		if len(seen) > 0 {
			hash.Write([]byte(","))
		}
		seen[key] = true
		hash.Write(text)
		return nil
	}
	err = r.Object(func(name string) error {
		if name != "request_states" {
			return r.Skip()
		}
		return r.Array(func(int) error {
			return r.Object(func(name string) error {
				if name != "instance" {
					return r.Skip()
				}
				return one()
			})
		})
	})
	hash.Write([]byte("]"))
	return hex.EncodeToString(hash.Sum(nil)), int64(len(seen)), err
}

// HELM is the setup of a run folder. Each of read gives a reader of one file, and
// is nil if the folder does not have it. The model is that of the deployment.
func HELM(spec, stats, state func(func(*jsonstream.Reader) error) error) (s *results.Setup, model string, err error) {
	s = &results.Setup{}
	if spec != nil {
		err = spec(func(r *jsonstream.Reader) error {
			v, err := Whole(r)
			if err != nil {
				return err
			}
			model, err = Adapter(s, v)
			return err
		})
	}
	if stats != nil && err == nil {
		err = stats(func(r *jsonstream.Reader) error {
			v, err := Whole(r)
			s.Results = map[string]any{"stats": v}
			return err
		})
	}
	if state != nil && err == nil {
		err = state(func(r *jsonstream.Reader) error {
			sum, n, err := Instances(r)
			if s.Dataset, s.DatasetHow = sum, results.HashInstances; n > 0 {
				s.Samples = &n
			}
			return err
		})
	}
	return s, model, err
}

// Inspect is what the header of an Inspect log says, as it was read.
type Inspect struct {
	Generate, PlanGenerate any // settings of the model: of eval, and of the plan
	Ended, Commit          string
}

// Fill gives the run of a log its setup.
func (l *Inspect) Fill(run *results.Run, epochs, planned int64) error {
	s := &results.Setup{EndedAt: results.Moment(l.Ended), Extra: map[string]any{}}
	run.Setup = s
	for _, settings := range []any{l.PlanGenerate, l.Generate} {
		if err := set(s, settings); err != nil {
			return err
		}
	}
	if epochs > 0 {
		s.Trials = &epochs
	}
	if planned > 0 {
		s.Samples = &planned
	}
	if l.Commit != "" {
		s.Extra["gitHash"] = l.Commit
	}
	if name, ok := strings.CutPrefix(string(run.Model), "hf/"); ok {
		s.ModelURI = "huggingface://" + name
	}
	return nil
}

// whole is a whole number as it was read, nil if it is not one or not stated.
func whole(v any) *int64 {
	if i, ok := jsonstream.IntOf(v); ok {
		return &i
	}
	return nil
}
