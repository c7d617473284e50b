package submission

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"tallystick/internal/audit"
	"tallystick/internal/digest"
)

// An Audited is what the audit made of the files.
type Audited struct {
	Report          []byte
	Clean, Complete bool
	StrictClean     bool
	Failures, Gaps  []string
}

// audit runs the audit on the very bytes of the package. Receipts vouch for all of
// them, because all are derived.
func (b *builder) audit() (Audited, error) {
	of := func(name string) audit.Source {
		return audit.Source{Name: name, Open: opener(b.files[name])}
	}
	in := audit.Input{Results: of(ResultsFile), Trajectories: of(TrajectoriesFile), Metadata: of(MetadataFile), AuditedAt: b.FinishedAt.Go(),
		Vouched: &audit.Vouched{Attempt: b.Registered.Attempt, Number: b.Registered.Number, Of: len(b.Class), VotingAttempts: b.about.VotingAttempts,
			Abandoned: b.about.Abandoned, JudgeCacheEvents: b.about.JudgeEvents, Split: b.about.GAIASplit, Results: true, Trajectories: true, Metadata: true}}
	if b.settingsDecide() {
		in.HasSources = true
		in.Sources = []audit.SourceFile{{Path: TargetFile, SHA256: sha256Hex(b.Target), Open: opener(b.Target)}}
	}
	if b.keepsBodies() {
		in.Bodies = b.body
	}
	r, err := audit.Run(context.Background(), in)
	if err != nil {
		return Audited{}, fmt.Errorf("auditing: %w", err)
	}
	report, err := r.Encode()
	if err != nil {
		return Audited{}, err
	}
	a := r.Attestation
	return Audited{Report: report, Clean: a.Clean, Complete: a.Complete, StrictClean: a.StrictClean,
		Failures: slices.Concat(a.CriticalFailures, a.WarnFailures), Gaps: append([]string{}, a.HarnessGaps...)}, nil
}

// settingsDecide reports whether the settings of the target are all that decides
// its behaviour here: the built-in one has no files of its own, and built-in
// graders are this program. A command's files, and a rubric, are not in a package.
func (b *builder) settingsDecide() bool {
	var target struct {
		Kind string `json:"kind"`
	}
	return b.Target != nil && json.Unmarshal(b.Target, &target) == nil && target.Kind == "builtin" && b.Registered.Plan.RubricDigest == nil
}

func (b *builder) body(sha256 string) (io.ReadCloser, error) {
	data, ok := b.files[bodiesDir+sha256]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

func opener(data []byte) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
}

func sha256Hex(data []byte) string {
	d := digest.IDOf(data)
	return hex.EncodeToString(d[:])
}
