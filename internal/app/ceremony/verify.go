package ceremony

import (
	"fmt"
	"slices"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/harness"
)

// VerifiedClass is the result for one class.
type VerifiedClass struct {
	Class       string          `json:"class"`
	Verified    bool            `json:"verified"`
	Level       string          `json:"level,omitempty"`
	BenchDigest string          `json:"bench_digest,omitempty"`
	Cases       int             `json:"cases"`
	Lines       int             `json:"dataset_lines"`
	Signers     []string        `json:"signers,omitempty"`
	Warnings    []bench.Warning `json:"warnings,omitempty"`
	Name        refusal.Name    `json:"name,omitempty"`
	Error       string          `json:"error,omitempty"`
}

// EveryClass lists the folders and what the pins list, so that a class that
// disappeared is missed.
func EveryClass(c *dossier.Corpus) ([]string, error) {
	classes, err := bench.Classes(c.Root)
	if err != nil {
		return nil, err
	}
	pins, _, err := bench.LoadPins(c.Root)
	if err != nil {
		return nil, err
	}
	if pins != nil {
		// Even with no signed class left the pins must be those that were
		// signed.
		if _, err := bench.VerifyPins(c.Root, c.Options); err != nil {
			return nil, err
		}
		if err := bench.CheckPinnedCI(c.Root, pins); err != nil {
			return nil, err
		}
		classes = append(classes, pins.Classes...)
	}
	slices.Sort(classes)
	classes = slices.Compact(classes)
	if len(classes) == 0 {
		return nil, refusal.Newf(refusal.NotFound, "there is no task class to verify").
			WithHint(`"tally bench new CLASS" makes one`)
	}
	return classes, nil
}

// VerifyClasses verifies each class and returns the digests of those that did,
// and the first refusal, preferring evidence that does not verify.
func VerifyClasses(c *dossier.Corpus, classes []string) (results []VerifiedClass, digests map[string]digest.ID, worst error) {
	digests = map[string]digest.ID{}
	for _, class := range classes {
		r, v, err := VerifyClass(c, class)
		if err == nil {
			digests[class] = v.Digest()
		} else if worst == nil || refusal.ExitCode(worst) != refusal.ExitUnverified && refusal.ExitCode(err) == refusal.ExitUnverified {
			worst = err
		}
		results = append(results, r)
	}
	return results, digests, worst
}

// VerifyClass verifies a class and looks whether its cases can be graded as they say.
func VerifyClass(c *dossier.Corpus, class string) (VerifiedClass, *bench.Verified, error) {
	r := VerifiedClass{Class: class}
	v, err := bench.Verify(c.Root, class, c.Options)
	if err == nil {
		if err = harness.Validate(v); err != nil {
			err = fmt.Errorf("class %s: %w", class, err)
		}
	}
	if refusal.Is(err, refusal.UnknownName) && pinned(c, class) {
		err = refusal.Newf(refusal.BenchIncomplete, "class %s: %s lists it, there is no such folder", class, bench.PinsFile).
			WithHint("restore the folder; a class does not disappear without two people changing the pins")
	}
	if err != nil {
		err = c.Noted(err) // each of them, not only the one that is returned
		r.Name, r.Error = refusal.Of(err).Name, err.Error()
		return r, nil, err
	}
	r.Verified, r.Level, r.BenchDigest = true, v.Standing(), v.Digest().String()
	r.Cases, r.Signers, r.Warnings = len(v.Cases()), v.Signers(), v.Warnings()
	if set := v.Dataset(); set != nil {
		r.Lines = len(set.Lines)
	}
	return r, v, nil
}

// pinned reports whether the pins list the class; whether they are signed was
// or will be looked at elsewhere.
func pinned(c *dossier.Corpus, class string) bool {
	pins, _, err := bench.LoadPins(c.Root)
	return err == nil && pins != nil && slices.Contains(pins.Classes, class)
}
