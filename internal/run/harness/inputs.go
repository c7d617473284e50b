package harness

import (
	"fmt"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/evidence"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/scenario"
)

// Inputs name what decides a case, in two parts: what the agent is driven with, and
// what its work is graded with. A case whose Drive is the same need not be driven again
// in a replay, and one whose Grade is the same besides need not be graded again.
//
// They are about what is in the workspace's documents. What a target reads of this
// machine while it runs, such as the files of its mounts, the caller looks at itself.
type Inputs struct{ Drive, Grade digest.Content }

// InputsOf names what decides a case under a config. Drive is made of everything except
// what only graders and gates read: a member that is added to a class or to a case later
// counts for driving until it is named below.
func InputsOf(cfg *Config, c *scenario.Task) (Inputs, error) {
	m := cfg.Bench.Manifest()
	drive := struct {
		Target       string             `json:"target"`
		Digest       digest.Content     `json:"target_digest"`
		Registration bench.Registration `json:"registration"`
		Case         scenario.Task      `json:"case"`
		Cassette     *digest.Content    `json:"cassette"`
		Files        digest.Content     `json:"files"`
		Tests        digest.Content     `json:"tests"`
		Mounts       any                `json:"test_mounts"`
		Image        string             `json:"test_image"`
		User         *digest.Content    `json:"user,omitempty"`
		World        *digest.Content    `json:"world,omitempty"`
	}{Target: cfg.Target.Name, Digest: cfg.Target.Digest, Registration: drivenBy(cfg.Bench.Registration()), Case: *c, Mounts: cfg.TestMounts, Image: cfg.TestImage}
	if c.Cassette != nil {
		drive.Cassette = &c.Cassette.Digest
	}
	drive.Files, drive.Tests = filesDigest(c.Files), filesDigest(c.Tests)
	if c.Scenario.World != nil {
		world := filesDigest(c.World)
		drive.World = &world
	}
	drive.Case.Files, drive.Case.Tests, drive.Case.World, drive.Case.Cassette = nil, nil, nil, nil
	if u := c.Scenario.User; u == nil {
		withoutGrading(&drive.Case)
	} else if !u.IsScripted() && cfg.User != nil { // what is expected decides what the user may say
		drive.User = &cfg.User.Digest
	}
	driven, err := canon.Marshal(drive)
	if err != nil {
		return Inputs{}, err
	}
	graded, err := canon.Marshal([]any{c.Digest, m.Registration, m.Rubric, m.Judges})
	return Inputs{Drive: digest.ContentOf(driven), Grade: digest.ContentOf(graded)}, err
}

// filesDigest names files by their own digests: the tree of a repository is too long to
// be written out for each case.
func filesDigest(files []digest.File) digest.Content {
	var all []byte
	for _, f := range files {
		all = fmt.Appendf(all, "%q %s\n", f.Path, digest.ContentOf(f.Data))
	}
	return digest.ContentOf(all)
}

// drivenBy is a registration without what an agent's run does not depend on: thresholds
// and gates, the names of failures, and who counts for what. The tier stays: no code path
// writes one.
func drivenBy(r bench.Registration) bench.Registration {
	r.Title, r.Thresholds, r.MinimumCases, r.Gates = "", nil, nil, nil
	r.FailureModes, r.Breakdown, r.Review, r.StopEarly, r.Floor = map[string]evidence.Severity(nil), nil, nil, nil, nil
	r.Origins, r.RunnerKeys, r.PromotionWindowDays, r.ModelEndpoints = nil, nil, 0, nil
	r.JudgeDigest, r.JudgedScoresCount = nil, false
	return r
}

// withoutGrading takes from a case what only graders read, and its digest, which is of
// all of it.
func withoutGrading(c *scenario.Task) {
	c.Digest, c.Tags, c.HeldOut, c.Provenance = digest.Content{}, nil, false, ""
	c.Grader = nil
	c.Expected, c.ExpectedFiles, c.Grading, c.Metadata, c.Rubric = nil, nil, nil, nil, bench.RubricLimits{}
}
