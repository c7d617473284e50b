package lab

import (
	"encoding/hex"
	"path/filepath"
	"strings"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/record/workspace"
	"tallystick/internal/share/outgoing"
	"tallystick/internal/share/submission"
)

// SubmitOptions say what is packed, and where.
type SubmitOptions struct {
	Attempt     string
	Out         string // folder, or file that ends in .zip; a name made of the attempt in the current one if empty
	DryRun      bool   // everything but writing
	AllowDirty  bool   // also if the audit found something
	Strict      bool   // warnings of the audit count, too
	ShowHeldOut bool
	// FullHistory shows every entry since the registration, also of other classes.
	FullHistory bool
	// WithoutSources leaves the programs of target and rubric out: the audit then
	// has a gap.
	WithoutSources bool
	// Accept verifies the files of the package as a reader would who has the ledger's
	// key; what it refuses is not written.
	Accept func(files map[string][]byte, key string) error
}

func (o *SubmitOptions) since() outgoing.Since {
	if o.FullHistory {
		return outgoing.SinceAll
	}
	return outgoing.SinceOwn
}

// A Submitted is a package that was made.
type Submitted struct {
	Package     string         `json:"package"` // "" if nothing was written
	Submittable bool           `json:"submittable"`
	Reason      string         `json:"reason"`
	Audit       SubmittedAudit `json:"audit"`
	PassRate    *float64       `json:"pass_rate"`
	N           int            `json:"n"`
	CI95        *[2]float64    `json:"ci95"`
	Unscored    int            `json:"unscored"`
	// Corrected is the result as people corrected it, if they did; pass_rate is as
	// recorded.
	Corrected *submission.CorrectedHeadline `json:"corrected,omitempty"`
	MeanSteps float64                       `json:"mean_steps"`
	EmptyRate float64                       `json:"empty_rate"`
	Attempt   submission.Standing           `json:"attempt"`
	Files     int                           `json:"files"`
	Bytes     int64                         `json:"bytes"`
	Manifest  digest.ID                     `json:"manifest_sha256"`
	LedgerKey string                        `json:"ledger_key"`
}

// SubmittedAudit says how the audit ended.
type SubmittedAudit struct {
	Clean       bool     `json:"clean"`
	Complete    bool     `json:"complete"`
	StrictClean bool     `json:"strict_clean"`
	HarnessGaps []string `json:"harness_gaps"`
	Report      string   `json:"report_sha256"` // of audit-report.json
}

// Submit makes the package of an attempt. With an answer there may be an error: an
// attempt that cannot be submitted, or whose audit is not clean, is shown and
// nothing is written.
func Submit(c *dossier.Corpus, o SubmitOptions) (*Submitted, error) {
	a, err := c.Reading.Attempt(o.Attempt)
	if err != nil {
		return nil, err
	}
	from, receipts, err := outgoing.Submission(a.Public(), o.since())
	if err != nil {
		return nil, c.Refused(err)
	}
	if from.Target, err = targetOf(c, a.Attempt); err != nil {
		return nil, err
	}
	from.WithoutSources = o.WithoutSources
	p, err := submission.Build(from)
	if err != nil {
		return nil, c.Refused(err)
	}
	key, err := c.OperatorKey()
	if err != nil {
		return nil, err
	}
	if err := submission.Seal(from, p, *receipts, key); err != nil {
		return nil, err
	}
	s := &Submitted{Submittable: p.Decision.Submittable, Reason: p.Decision.Reason, PassRate: p.Headline.PassRate, N: p.Headline.N, CI95: p.Headline.CI95,
		Unscored: p.Headline.Unscored, Corrected: p.Headline.Corrected, MeanSteps: p.Headline.MeanSteps, EmptyRate: p.Headline.EmptyRate, Files: len(p.Files), Manifest: digest.IDOf(p.Files[submission.ManifestFile]),
		Audit:   SubmittedAudit{p.Audit.Clean, p.Audit.Complete, p.Audit.StrictClean, p.Audit.Gaps, hexOf(digest.IDOf(p.Audit.Report))},
		Attempt: from.Standing()}
	if _, s.LedgerKey, err = c.Reading.Prove(a.Finished.Index); err != nil {
		return nil, err
	}
	for _, data := range p.Files {
		s.Bytes += int64(len(data))
	}
	if err := refuseSubmission(a.Attempt, p, o); err != nil || o.DryRun {
		return s, err
	}
	if err := o.Accept(p.Files, s.LedgerKey); err != nil {
		return nil, err
	}
	s.Package = o.Out
	if s.Package == "" {
		s.Package = "submission-" + from.FinishedAt.Go().Format("2006-01-02") + "-" + strings.NewReplacer("~", "-", "+", "-").Replace(a.ID)
	}
	return s, writePackage(s.Package, p.Files)
}

func hexOf(d digest.ID) string { return hex.EncodeToString(d[:]) }

// refuseSubmission says why a package may not leave.
func refuseSubmission(a *history.Attempt, p *submission.Package, o SubmitOptions) error {
	switch {
	case !p.Decision.Submittable:
		return refusal.Newf(refusal.NotSubmittable, "attempt %s cannot be submitted: %s", a.ID, p.Decision.Reason).
			WithHint(`"tally run %s --submit-intent" registers one that can; the class needs the signatures of two people, who are not the example people of "tally init"`, a.Class)
	case o.AllowDirty:
		return nil
	case !p.Audit.Clean || o.Strict && !p.Audit.StrictClean:
		return refusal.Newf(refusal.AuditNotClean, "attempt %s: the audit is not clean: %s", a.ID, strings.Join(p.Audit.Failures, ", ")).
			WithHint(`"tally audit %s" shows what it found; --allow-dirty makes the package all the same, which then says so`, a.ID)
	}
	return nil
}

// targetOf is the settings of the attempt's target, nil if they have changed
// since: then what decided its behaviour is not in the package.
func targetOf(c *dossier.Corpus, a *history.Attempt) ([]byte, error) {
	if data, ok := c.Reading.Content(a.Plan.TargetDigest); ok {
		return data, nil // of an attempt that was recorded for a submission
	}
	t, err := FindTarget(c, a.Class, a.Target)
	if err != nil || t.Digest != a.Plan.TargetDigest {
		c.Note("target %s is not what the attempt ran with, or gone; the package goes without it, and the audit is not complete", a.Target)
		return nil, nil
	}
	return t.Settings()
}

// writePackage writes the files into a folder that is not there yet, or into one
// file if its name ends in .zip. The manifest comes last: what a crash leaves behind has none and is not a package.
func writePackage(dir string, files map[string][]byte) error {
	if workspace.Exists(dir) {
		return refusal.Newf(refusal.AlreadyExists, "%s is there already", dir).WithHint("remove it, or name another folder with --out; a package is the same bytes each time")
	}
	if strings.HasSuffix(dir, submission.ZipSuffix) {
		data, err := submission.Zip(files)
		if err != nil {
			return err
		}
		return store.WriteFile(store.OS{}, dir, data, 0o644)
	}
	made := map[string]bool{}
	var all []store.Named
	for path, data := range files {
		if sub := filepath.Dir(filepath.Join(dir, filepath.FromSlash(path))); !made[sub] {
			if err := store.MakeDir(store.OS{}, sub, 0o755); err != nil {
				return err
			}
			made[sub] = true
		}
		if path != submission.ManifestFile {
			all = append(all, store.Named{Name: filepath.Join(dir, filepath.FromSlash(path)), Data: data})
		}
	}
	if err := store.WriteFiles(store.OS{}, all, 0o644); err != nil {
		return err
	}
	return store.WriteFile(store.OS{}, filepath.Join(dir, submission.ManifestFile), files[submission.ManifestFile], 0o644)
}
