package claim

import (
	"fmt"
	"maps"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/share/attest"
	"tallystick/internal/share/export"
)

// TallyID is the harnessId of attempts that Tallystick ran.
const TallyID = "tallystick"

// How the digests of an attempt's body are made; [How] has the words.
const (
	HashBench = "bench-manifest"
	HashCases = "case-digests"
)

// OfAttempt drafts the body of an attempt of ours: the totals are counted from its
// records, and the evidence of the credential proves that it is in the ledger.
func OfAttempt(a *export.Facts, o Options) (*Draft, error) {
	b := &builder{options: o, members: map[string]any{"harnessId": TallyID}, extra: map[string]any{}}
	switch {
	case len(a.Models) == 1 && o.ModelID != "" && o.ModelID != a.Models[0]:
		return nil, refusal.Newf(refusal.Usage, "--model-id %.80q: the trajectories say that %.80q was called", o.ModelID, a.Models[0])
	case len(a.Models) == 1:
		b.members["modelId"] = a.Models[0]
	case o.ModelID != "":
		b.members["modelId"] = o.ModelID
	default:
		b.missing("modelId", fmt.Sprintf("--model-id (the trajectories name %d models)", len(a.Models)))
	}
	b.members["submittedAt"], b.members["runId"] = a.Started.UnixMilli(), o.RunID
	if o.RunID == "" {
		b.members["runId"] = uuidOf(a, "run")
	}
	if a.Finished {
		b.members["completedAt"] = a.Ended.UnixMilli()
	}
	b.members["samplingParams"] = map[string]any{"nSamples": a.Cases, "nTrials": a.Repeat}
	if err := b.attemptContent(a); err != nil {
		return nil, err
	}
	if err := b.attemptJudges(a); err != nil {
		return nil, err
	}
	if err := b.setResults(attemptResults(a)); err != nil {
		return nil, err
	}
	if err := b.evidence(a); err != nil {
		return nil, err
	}
	return b.finish()
}

// uuidOf makes a UUID of version 7 that follows from the attempt's registration:
// its moment, and bits of its place in the chain. Attesting twice gives the same.
func uuidOf(a *export.Facts, what string) string {
	sum := digest.IDOf([]byte("tallystick " + what + "\x00" + a.Origin + "\x00" + a.ID + "\x00" + a.Registration))
	var u [16]byte
	copy(u[6:], sum[:])
	for i, ms := 5, a.Started.UnixMilli(); i >= 0; i, ms = i-1, ms>>8 {
		u[i] = byte(ms)
	}
	return formatUUID(u, 7)
}

// attemptContent sets the digests: the bench that two people signed is what was
// scored with, and the cases are what it was scored on.
func (b *builder) attemptContent(a *export.Facts) error {
	seen := map[string]bool{}
	cases := []any{}
	for _, s := range a.Samples {
		if !seen[s.ID] {
			seen[s.ID] = true
			cases = append(cases, map[string]any{"digest": s.Digest, "id": s.ID})
		}
	}
	sum, err := hashOf(cases)
	if err != nil {
		return err
	}
	return b.setContent(map[string]Hashed{
		"evalCodeSha": {Field: "evalCodeSha", SHA256: strings.TrimPrefix(a.Bench, "sha256:"), Method: HashBench},
		"datasetSha":  {Field: "datasetSha", SHA256: sum, Method: HashCases},
	})
}

func (b *builder) attemptJudges(a *export.Facts) error {
	if a.JudgeSettings == "" {
		return nil
	}
	return b.setJudges([]any{map[string]any{"scorer": a.Class, "settings": a.JudgeSettings}})
}

// attemptResults are the totals, under the class as other harnesses have them
// under the task.
func attemptResults(a *export.Facts) map[string]any {
	return map[string]any{a.Class: totalsOf(a.Totals())}
}

func totalsOf(t export.Totals) map[string]any {
	out := map[string]any{
		"total": t.Total, "passed": t.Passed, "failed": t.Failed, "skipped": t.Skipped, "errors": t.Errors,
		"unscored": t.Unscored, "truncated": t.Truncated, "not_run": t.NotRun, "solve_rate": t.SolveRate,
	}
	if t.Mean != nil {
		out["mean_score"] = *t.Mean
	}
	return out
}

// maxListed is how many cases' evidence is listed. Of more, the digest of the list
// is there, and the ledger has each.
const maxListed = 2000

// evidence drafts what the credential shows besides the body.
func (b *builder) evidence(a *export.Facts) error {
	var list []any
	for _, s := range a.Samples {
		if len(s.Evidence) > 0 {
			list = append(list, map[string]any{"case": s.ID, "digests": s.Evidence, "repeat": s.Repeat})
		}
	}
	sum, err := hashOf(list)
	if err != nil {
		return err
	}
	sandboxRun := uuidOf(a, "sandbox")
	b.members["sandboxRunId"] = sandboxRun
	observed := map[string]any{
		"attempt": a.ID, "class": a.Class, "target": a.Target, "ledger": a.Origin, "level": a.Level, "mode": a.Mode,
		"number": a.Number, "of": a.Of, "registration": a.Registration, "evidence": "sha256:" + sum, "tasks": []any{a.ID},
	}
	if len(a.Qualifications) > 0 {
		observed["qualifications"] = a.Qualifications
	}
	if passed, ok := outcomes(a); ok {
		observed["outcomes"] = passed
	}
	// The results are as recorded, as the receipt has them: what people say is told beside.
	if rows := a.Corrections(); rows != nil {
		observed["corrections"] = rows
	}
	if now := a.AsCorrected(); now != nil {
		observed["results_as_corrected"] = totalsOf(*now)
	}
	if a.Version != "" {
		b.extra["harnessVersion"] = a.Version
	}
	b.extra["observed"] = observed

	digests := map[string]any{"type": []any{"EvidenceDigests"}, "digest": "sha256:" + sum, "records": len(list)}
	if len(list) <= maxListed {
		digests["cases"] = list
	}
	items := []any{digests, b.sandboxItem(a, sandboxRun)}
	if a.Receipt != "" {
		receipt := map[string]any{"type": []any{"LedgerReceipt"}, "entry": a.ReceiptOf, "origin": a.Origin, "receipt": a.Receipt}
		if a.Record != nil {
			receipt["record"] = canon.RawMessage(a.Record)
		}
		items = append(items, receipt)
		b.draft.LedgerKey = a.Key
	}
	for _, item := range items {
		text, err := canon.Marshal(item)
		if err != nil {
			return err
		}
		b.draft.Evidence = append(b.draft.Evidence, text)
	}
	return nil
}

// maxOutcomes is of how many cases the outcomes are told.
const maxOutcomes = 100_000

// outcomes is a digit for each case, in the order of datasetSha: 1 if it passed. With
// them two runs on the same cases can be paired. Of an attempt that repeats its cases
// there are none.
func outcomes(a *export.Facts) (string, bool) {
	if len(a.Samples) == 0 || len(a.Samples) > maxOutcomes {
		return "", false
	}
	out, seen := make([]byte, len(a.Samples)), map[string]bool{}
	for i := range a.Samples {
		s := &a.Samples[i]
		if seen[s.ID] {
			return "", false
		}
		seen[s.ID] = true
		out[i] = '0'
		if s.Passed() {
			out[i] = '1'
		}
	}
	return string(out), true
}

// sandboxItem is the attestation of how the run was isolated, as its records say.
// [Issue] signs it.
func (b *builder) sandboxItem(a *export.Facts, id string) map[string]any {
	about := map[string]any{
		"kind": attest.SandboxKind, "sandboxRunId": id, "runnerDid": b.options.RunnerDID, "attempt": a.ID, "ledger": a.Origin,
		"isolation": a.Isolation, "images": a.Images, "startedAt": a.Started.UnixMilli(),
	}
	if a.Finished {
		about["completedAt"] = a.Ended.UnixMilli()
	}
	return map[string]any{"type": []any{sandboxType}, "id": "urn:uuid:" + id, "attestation": about}
}

const sandboxType = "SandboxRunAttestation"

// signSandbox puts the runner's proof on the sandbox attestation in an evidence
// item, and leaves every other item as it is.
func signSandbox(item canon.RawMessage, s attest.Signer) (canon.RawMessage, error) {
	var members map[string]canon.RawMessage
	if err := canon.Unmarshal(item, &members); err != nil || members["attestation"] == nil {
		return item, err
	}
	signed, err := attest.Secure(members["attestation"], s)
	if err != nil {
		return nil, err
	}
	members = maps.Clone(members)
	members["attestation"] = signed
	return canon.Marshal(members)
}
