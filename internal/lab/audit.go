package lab

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"strings"

	"tallystick/internal/agent"
	"tallystick/internal/archive"
	"tallystick/internal/audit"
	"tallystick/internal/bench"
	"tallystick/internal/history"
)

// AuditInput is an attempt as the audit reads it: results and trajectories made of
// its verified evidence, what the ledger says about it, and the programs that
// decided its score where they are still those that it was registered with.
func AuditInput(c *archive.Corpus, attempt string) (audit.Input, error) {
	a, err := c.Reading.Attempt(attempt)
	if err != nil {
		return audit.Input{}, err
	}
	in, err := c.Reading.Audited(a)
	if err != nil {
		return audit.Input{}, err
	}
	v, err := c.Bench(a.Class)
	current := err == nil && v.RegistrationDigest() == a.Plan.RegistrationDigest
	if data := published(v, current); data != nil && data.Name == "gaia" {
		in.Vouched.Split = data.Split
	}
	in.Metadata = metadataOf(in.Vouched)
	in.Sources, in.HasSources = decidedBy(c, a, v, current)
	return in, nil
}

func published(v *bench.Verified, current bool) *bench.DataSet {
	if !current {
		return nil
	}
	return v.Registration().DataSet
}

// metadataOf states what the ledger shows, in the shape of metadata.json.
func metadataOf(v *audit.Vouched) audit.Source {
	m := map[string]any{"voting_attempts": v.VotingAttempts, "judge_cache_integrity_events": v.JudgeCacheEvents}
	if v.Split != "" {
		m["gaia_split"] = v.Split
	}
	doc, _ := json.Marshal(m) // texts and numbers
	return audit.Source{Name: "metadata of " + v.Attempt, Open: opener(doc)}
}

func opener(data []byte) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
}

// decidedBy lists the programs that decided the score: the rubric and the files
// of the target. It is not complete if one of them is not at hand any more, or
// runs elsewhere.
func decidedBy(c *archive.Corpus, a *history.Attempt, v *bench.Verified, current bool) ([]audit.SourceFile, bool) {
	var list []audit.SourceFile
	add := func(dir, name string, data []byte) {
		sum := sha256.Sum256(data)
		list = append(list, audit.SourceFile{Path: dir + "/" + name, SHA256: hex.EncodeToString(sum[:]), Open: opener(data)})
	}
	if d := a.Plan.RubricDigest; d != nil {
		if !current || v.Rubric().Digest != *d {
			return nil, false
		}
		for name, data := range v.Rubric().Files {
			add("rubric", strings.TrimPrefix(name, "rubric/"), data)
		}
	}
	t, err := FindTarget(c, a.Class, a.Target)
	if err != nil || t.Digest != a.Plan.TargetDigest || t.Kind == agent.KindHTTP {
		return list, false
	}
	for _, f := range t.Files() {
		add("target", f.Path, f.Data)
	}
	return list, true
}
