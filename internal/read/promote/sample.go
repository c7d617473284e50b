package promote

import (
	"fmt"
	"slices"
	"strings"

	"tallystick/internal/read/history"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/grade"
)

// A sample is one case of the bench and what became of it.
type sample struct {
	id     string
	digest digest.Content // of its files, or of its line
	said   *bench.Case    // case.yaml; nil for a line of the dataset
	// grading says that the case brings its own way of being graded, as every
	// line of the dataset may.
	grading bool

	score  float64
	passed bool
	why    string // it does not count as passed
	record *history.Case
}

// gradingFile is where a case says how it is graded, if not by the rubric.
const gradingFile = "grading.yaml"

// samples gives one for each case of the bench: its worst result among the
// attempts under review.
func (r *review) samples() []sample {
	all := r.cases()
	for i := range all {
		all[i] = r.worst(all[i])
	}
	return distinct(all)
}

// cases lists what the bench has, lines of its dataset last, without results.
func (r *review) cases() []sample {
	var all []sample
	for _, c := range r.in.Bench.Cases() {
		said := c.Case()
		grading := slices.ContainsFunc(c.Files(), func(f digest.File) bool { return f.Path == gradingFile })
		all = append(all, sample{id: said.CaseID, digest: c.Digest(), said: &said, grading: grading})
	}
	if set := r.in.Bench.Dataset(); set != nil {
		all = slices.Grow(all, len(set.Lines))
		for _, line := range set.Lines {
			all = append(all, sample{id: line.ID, digest: digest.ContentOf(line.JSON), grading: true})
		}
	}
	return all
}

// worst fills in the worst result of a case. Without any it was not run.
func (r *review) worst(s sample) sample {
	worst, found := s, false
	for _, a := range r.attempts {
		for _, result := range r.results(a, s) {
			// What may be older than the window speaks against and not for.
			if result.passed && !a.fresh {
				continue
			}
			if found {
				result = worse(worst, result)
			}
			worst, found = result, true
		}
	}
	if !found {
		worst.why = "not run"
	}
	return worst
}

// worse joins two results of one case: it passed if both did, with the lower
// score of the two.
func worse(a, b sample) sample {
	w := a
	if a.passed && !b.passed || a.passed == b.passed && b.score < a.score {
		w = b
	}
	w.score, w.passed = min(a.score, b.score), a.passed && b.passed
	return w
}

// results gives one for each repetition of a case that an attempt promised.
func (r *review) results(a attempt, s sample) []sample {
	cases := a.cases[s.id]
	if len(cases) == 0 {
		s.why = "not run"
		return []sample{s}
	}
	var all []sample
	for _, c := range cases {
		all = append(all, r.result(a, c, s))
	}
	return all
}

// result judges one record. The first thing that is not as it should be decides.
func (r *review) result(a attempt, c *history.Case, s sample) sample {
	if c.Index < 0 {
		s.why = "not run"
		return s
	}
	s.record = c
	outcome, score := r.promoted(c)
	switch {
	case outcome == evidence.Failed && amendedAgain(c):
		s.why = amendedTwice
	case outcome == evidence.Failed:
		s.why, s.score = "failed", score
	case outcome != evidence.Passed:
		s.why = string(outcome)
	case c.Started > 1:
		// The operator may have watched the first execution and killed it.
		s.why = "started more than once"
	default:
		s.why = r.recordProblem(a, c, s)
	}
	if s.why == "" {
		s.passed, s.score = true, score
	} else if s.why != "failed" {
		s.score = 0
	}
	return s
}

// promoted is what counts of a record: what it says, less what an amendment
// lowered. A correction counts if two people signed it, one of them security, and
// no failure of the record blocks; otherwise the lowest of record and corrections
// does.
func (r *review) promoted(c *history.Case) (evidence.Outcome, float64) {
	outcome, score := c.Uncorrected(), c.UncorrectedScore()
	k := c.Correction
	if k == nil {
		return outcome, score
	}
	if k.ByTwo() && !(k.Raises() && r.blocks(c)) {
		return c.Effective(), c.EffectiveScore()
	}
	if !k.Lowest.Passed {
		outcome = evidence.Failed
	}
	return outcome, min(score, k.Lowest.Score)
}

// blocks reports whether a record has a failure of block severity.
func (r *review) blocks(c *history.Case) bool {
	return slices.ContainsFunc(c.FailureModes(), func(mode string) bool { return grade.SeverityOf(mode, r.reg) == evidence.Block })
}

// recordProblem says why a record that says passed does not count as passed.
func (r *review) recordProblem(a attempt, c *history.Case, s sample) string {
	if why := r.workerProblem(c); why != "" {
		return why
	}
	if why := r.isolationProblem(c.Context); why != "" {
		return why
	}
	switch {
	case c.Digest != s.digest:
		return "of another case digest"
	case c.Context.JudgedByModel && !r.reg.JudgedScoresCount:
		return "judged by a model"
	case c.Context.JudgedByModel && (a.Plan.JudgeDigest == nil || *a.Plan.JudgeDigest != *r.reg.JudgeDigest):
		return "judged by another model than the registration pins"
	case c.Context.ByTargetNormalisers:
		return "answered by a recording that only a normaliser of the target found"
	case c.Violations > 0:
		return "it violated its policy"
	case amendedAgain(c):
		return amendedTwice
	case len(c.Evidence) == 0:
		return "names no evidence"
	case a.evidence.Missing(c) != nil:
		return "its evidence is missing or changed"
	}
	if why := r.rubricProblem(c.Context, s.grading); why != "" {
		return why
	}
	if why := cassetteProblem(c, s.said, a.Target); why != "" {
		return why
	}
	if why := r.imageProblem(c.Context); why != "" {
		return why
	}
	if c.Cassette != nil {
		if why := r.recordingProblem(r.recorded(*c.Cassette, a.Index)); why != "" {
			return why
		}
	}
	if unnamed(c.Context.HarnessVersion) {
		return unnamedProgram
	}
	return ""
}

// workerProblem says why the machine of a fleet that drove a case does not count. What
// case.started names is looked at too, so that leaving the worker out of the record
// hides nothing.
func (r *review) workerProblem(c *history.Case) string {
	w := c.Context.Worker
	switch {
	case w != "" && !r.pinned(w), c.StartedBy != nil && !r.pinned(*c.StartedBy):
		return "driven by a worker that the registration does not name"
	case w != "" && unnamed(c.Context.WorkerVersion):
		return unnamedProgram
	}
	return ""
}

// unnamed reports whether the program that calls itself so cannot be found.
func unnamed(version string) bool {
	return version == "" || version == "devel" || strings.HasSuffix(version, "+modified")
}

const unnamedProgram = "made by a program that no version or commit names"

// imageProblem says why the image that a case was scored in is not enough: a
// snapshot of whatever a machine had shows nothing that another person could
// build again.
func (r *review) imageProblem(c *history.Context) string {
	if c.Image.IsZero() {
		return ""
	}
	image, _ := r.in.Bench.Image()
	switch kind := r.in.Bench.ImageKind(); {
	case c.Image != image:
		return "scored in an image that is not pinned"
	case kind == bench.HostImage:
		return "scored in a snapshot of a machine's own Python"
	case kind == bench.CompiledImage, kind == bench.BuiltImage && !r.in.Bench.ImageIsBuilt():
		return "scored in an image whose digest the pinned recipe does not give"
	case kind == "":
		return "scored in an image of which the pins do not say how it was made"
	}
	return ""
}

const amendedTwice = "amended more than once"

// amendedAgain reports whether a second amendment may have taken back what the
// first one lowered.
func amendedAgain(c *history.Case) bool { return c.Amendment != nil && c.Amendment.Count > 1 }

// rubricProblem compares what scored a case with what two people signed.
func (r *review) rubricProblem(c *history.Context, ownGrading bool) string {
	want := r.in.Bench.Manifest().Rubric
	switch {
	case c.Rubric == digest.Content{} && (want == nil || ownGrading):
		// Graded by tally itself or by the case's own test.
		return ""
	case want == nil || c.Rubric != *want:
		return "not scored by the signed rubric"
	}
	// Starlark is interpreted by tally itself and needs no image.
	image, pinned := r.in.Bench.Image()
	python := strings.HasSuffix(r.in.Bench.Rubric().Main, ".py")
	if (python || c.Image != digest.Content{}) && (!pinned || c.Image != image) {
		return "scored in an image that is not pinned"
	}
	return ""
}

// cassetteProblem compares what was replayed with what two people signed. A
// case without a cassette is answered by the agent alone, unless its record
// says that a person wrote the answers.
func cassetteProblem(c *history.Case, said *bench.Case, target string) string {
	provenance := bench.CassetteProvenance(c.Context.Provenance)
	if said != nil {
		want, signed := pinnedCassette(said, target)
		if (want == nil) != (c.Cassette == nil) || want != nil && *want != *c.Cassette {
			return "of another cassette"
		}
		if want != nil && provenance == bench.Recorded {
			provenance = signed
		}
	}
	if (c.Cassette != nil || provenance != "") && provenance != bench.Recorded {
		return "cassette_provenance is " + orNone(string(provenance))
	}
	return ""
}

// pinnedCassette is what two people signed that a target replays, and how they
// said it was made: the target's own, or the one that targets share.
func pinnedCassette(said *bench.Case, target string) (*digest.Content, bench.CassetteProvenance) {
	if pin, ok := said.Cassettes[bench.TargetFolder(target)]; ok {
		return &pin.Digest, pin.Provenance
	}
	return said.CassetteDigest, said.CassetteProvenance
}

// distinct joins cases with the same files: a copy under another name is the
// same sample. It takes over the list, which may be long.
func distinct(all []sample) []sample {
	at := make(map[digest.Content]int, len(all))
	out := all[:0]
	for _, s := range all {
		i, seen := at[s.digest]
		if !seen {
			at[s.digest] = len(out)
			out = append(out, s)
			continue
		}
		id := out[i].id + " = " + s.id
		out[i] = worse(out[i], s)
		out[i].id = id
	}
	return out
}

// names lists a few of the ids and counts the rest.
func names(ids []string) string {
	const most = 5
	if len(ids) <= most {
		return strings.Join(ids, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(ids[:most], ", "), len(ids)-most)
}
