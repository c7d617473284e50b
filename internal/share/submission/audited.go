package submission

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"tallystick/internal/read/audit"
	"tallystick/internal/record/digest"
	"tallystick/internal/run/vantage"
)

// An Audited is what the audit made of the files.
type Audited struct {
	Report          []byte
	Clean, Complete bool
	StrictClean     bool
	Failures, Gaps  []string
}

// AuditInput is an attempt as the audit reads it: the very bytes that results,
// trajectories and metadata of its package have. So the report that a person gets
// of an attempt is the one in its package. An attempt of which no package can be
// made, because it has not finished or its registration is gone, is audited too.
//
// With whole, texts of which the trajectories have only the beginning are read
// from the evidence; a package has them only if the attempt was registered so.
func AuditInput(a *Source, whole bool) (audit.Input, error) {
	b := newBuilder(a)
	if whole {
		b.whole = map[string]digest.Content{}
	}
	if err := b.lines(); err != nil {
		return audit.Input{}, err
	}
	return b.auditInput()
}

// auditInput is what the audit reads. Receipts vouch for all of it, because all is
// derived.
func (b *builder) auditInput() (audit.Input, error) {
	of := func(name string) audit.Source {
		return audit.Source{Name: name, Open: opener(b.files[name])}
	}
	in := audit.Input{Results: of(ResultsFile), Trajectories: of(TrajectoriesFile), Metadata: of(MetadataFile), AuditedAt: b.FinishedAt.Go(),
		Vouched: &audit.Vouched{Attempt: b.Registered.Attempt, Number: b.Registered.Number, Of: len(b.Class), VotingAttempts: b.about.VotingAttempts,
			Abandoned: b.about.Abandoned, Redraws: b.about.Redraws, JudgeCacheEvents: b.about.JudgeEvents, Split: b.about.GAIASplit, SplitUnknown: b.Registration == nil,
			AnswersOnly: map[string]bool{}, Unshown: map[string]string{}, Recorded: map[string]int{}, Results: true, Trajectories: true, Metadata: true}}
	for _, t := range b.tasks {
		in.Vouched.Recorded[t.ID] = t.executions()
	}
	for _, t := range b.answers {
		if t == nil {
			continue
		}
		from := vantage.Of(t.line.Vantage)
		if from.Sees(vantage.ToolCalls).Sight == vantage.Not {
			in.Vouched.AnswersOnly[t.Result.TaskID] = true
		}
		for _, m := range []vantage.Matter{vantage.ModelCalls, vantage.Results} {
			if v := from.Sees(m); v.Sight != vantage.Seen {
				in.Vouched.Unshown[t.Result.TaskID] = v.Why
			}
		}
	}
	in.HasSources, in.Sources, in.SourceGaps = b.sources.given, b.sources.files, b.sources.gaps
	in.AgentGaps, in.AgentNotes = b.sources.data, b.sources.notes
	data, err := b.data()
	if err != nil {
		return in, err
	}
	if data != nil {
		in.Published = map[string]string{}
		for _, f := range data.Files {
			in.Published[hex.EncodeToString(f.SHA256[:])] = f.Path
		}
	}
	if b.keepsBodies() || b.whole != nil {
		in.Bodies = b.body
	}
	in.Dispositions, err = b.disposed()
	return in, err
}

// audit runs the audit on the very bytes of the package.
func (b *builder) audit() (Audited, error) {
	in, err := b.auditInput()
	if err != nil {
		return Audited{}, err
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

// sum takes the SHA-256 of texts whose digest was not noted while they passed, if whole
// texts are read, and remembers where they are. The recorder did not look for the answer in
// them: the audit does.
func (b *builder) sum() func(digest.Content) (digest.ID, bool) {
	if b.whole == nil {
		return nil
	}
	return func(d digest.Content) (digest.ID, bool) {
		data, err := b.evidence(d)
		if err != nil {
			return digest.ID{}, false
		}
		id := digest.IDOf(data)
		b.whole[hex.EncodeToString(id[:])] = d
		return id, true
	}
}

func (b *builder) body(sha256 string) (io.ReadCloser, error) {
	data, ok := b.files[bodiesDir+sha256]
	if d, kept := b.whole[sha256]; kept {
		var err error
		data, err = b.evidence(d)
		ok = err == nil // what is gone stays demanded
	}
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
