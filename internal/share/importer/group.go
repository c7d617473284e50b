package importer

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// group puts together the files that belong together, in the order in which
// they were found.
func group(files []*file) [][]*file {
	var groups [][]*file
	at := map[string]int{}
	for _, f := range files {
		key := f.groupKey()
		i, known := at[key]
		if !known {
			i = len(groups)
			at[key] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], f)
	}
	return groups
}

// groupKey is the same for files that may belong to one run: the folder of the
// run as the harness lays it out.
func (f *file) groupKey() string {
	dir := f.dir()
	switch f.kind {
	case benchTrial: // <run>/<task>/<trial>/results.json
		dir = path.Dir(path.Dir(dir))
	case harborTrial: // <job>/<trial>/result.json
		dir = path.Dir(dir)
	case harborATIF: // <job>/<trial>/agent/trajectory.json
		if path.Base(dir) == "agent" {
			dir = path.Dir(path.Dir(dir))
		}
	case sweInstance, sweReport: // the two lie far apart; the reader pairs them
		return "swe-bench"
	}
	switch f.kind.family() {
	case "lm-eval", "helm", "mteb", "every-eval-ever", "trulens-spans", "spans", "claude-code", "terminal-bench", "harbor":
		return f.kind.family() + " " + dir
	}
	return "file " + f.path
}

// companions adds the files that a harness writes beside a file that was named,
// as parts of the same result. Each must be what its name says.
func (s *session) companions() error {
	have := map[string]bool{}
	for _, f := range s.files {
		have[f.path] = true
	}
	for _, f := range slices.Clone(s.files) {
		if f.root != nil || f.stdin != nil {
			continue // a folder brought its files along
		}
		belongs := f.companionNames()
		if belongs == nil {
			continue
		}
		entries, err := os.ReadDir(filepath.Dir(f.path))
		if err != nil {
			return unreadable(filepath.Dir(f.path), err)
		}
		for _, e := range entries {
			beside := &file{path: filepath.Join(filepath.Dir(f.path), e.Name())}
			if !e.Type().IsRegular() || have[beside.path] || !belongs(e.Name()) {
				continue
			}
			if err := beside.recognise(s.ctx); err != nil {
				return err
			}
			if beside.kind.family() == f.kind.family() && beside.kind != f.kind {
				have[beside.path] = true
				s.files = append(s.files, beside)
			}
		}
	}
	return nil
}

func (f *file) companionNames() func(base string) bool {
	switch f.kind.family() {
	case "helm":
		names := []string{"run_spec.json", "scenario.json", "scenario_state.json", "stats.json", "per_instance_stats.json"}
		return func(base string) bool { return slices.Contains(names, base) }
	}
	switch f.kind {
	case lmEvalResults:
		date := f.date()
		return func(base string) bool {
			return strings.HasPrefix(base, "samples_") && date != "" && strings.HasSuffix(base, "_"+date+".jsonl")
		}
	case benchRun:
		return func(base string) bool { return base == "run_metadata.json" }
	case eeeAggregate:
		stem := strings.TrimSuffix(f.base(), ".json")
		return func(base string) bool { return base == stem+"_samples.jsonl" || base == stem+".jsonl" }
	}
	return nil
}
