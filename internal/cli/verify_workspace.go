package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/read/dossier"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/run/bench"
)

// verifyPlace returns what verifies the files that people sign in a workspace:
// they are known by their place, and who must have signed them is known from the
// ledger, or in a checkout without one from the trust root. It reports false for
// any other path. The ledger is read once for all of them, if there are any.
func verifyPlace(e *Env, w *dossier.Place) func(path string) (kind, detail string, known bool, err error) {
	open := sync.OnceValues(func() (*dossier.Corpus, error) { return openCorpus(e) }) // its folder stays open until the program ends
	return func(path string) (string, string, bool, error) {
		kind := placeOf(w, path)
		if kind == "" {
			return "", "", false, nil
		}
		p, err := open()
		if err != nil {
			return kind, "", true, err
		}
		detail, err := verifyAt(p, kind, path)
		return kind, detail, true, w.Noted(err)
	}
}

func verifyAt(p *dossier.Corpus, kind, path string) (detail string, err error) {
	switch kind {
	case "signers":
		detail, err = verifySignersFile(p)
	case "operators":
		detail, err = describeOperators(p)
	case "pins":
		_, err = bench.VerifyPins(p.Root, p.Options)
		detail = "signed by two people, one with the security role"
	case "bench":
		detail, err = describeBench(p, filepath.Base(path))
	}
	return detail, err
}

// placeOf says what of a workspace a path is, "" if it is nothing that people
// sign.
func placeOf(w *dossier.Place, path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	is := func(place string) bool {
		there, err := os.Stat(place)
		return err == nil && os.SameFile(info, there)
	}
	switch {
	case is(w.SignersFile()):
		return "signers"
	case is(w.OperatorsFile()):
		return "operators"
	case is(w.Path(filepath.FromSlash(bench.PinsFile))):
		return "pins"
	case info.IsDir() && is(w.Path(bench.Dir, filepath.Base(path))):
		return "bench"
	}
	return ""
}

// verifySignersFile requires the file to be the version in force.
func verifySignersFile(p *dossier.Corpus) (string, error) {
	data, err := dossier.ReadInput(p.SignersFile(), dossier.MaxSignedFile)
	if err != nil {
		return "", err
	}
	if state := ceremony.StateOf(p.Options.Signers, data); state != ceremony.FileInForce {
		return "", refusal.Newf(refusal.SignersChainBroken, "%s is not version %d, which is in force", p.SignersFile(), p.Options.Signers.Version()).
			WithHint(`"tally signers show" tells what it is`)
	}
	return fmt.Sprintf("version %d, in force, from the %s", p.Options.Signers.Version(), p.From), nil
}

func describeOperators(p *dossier.Corpus) (string, error) {
	f, by, err := p.VerifyOperators(p.Options.Signers)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, signed by %s", plain.Plural(len(f.Operators), "operator"), strings.Join(principals(by), ", ")), nil
}

func describeBench(p *dossier.Corpus, class string) (string, error) {
	results, _, err := ceremony.VerifyClasses(p, []string{class})
	if err != nil {
		return "", err
	}
	r := results[0]
	return fmt.Sprintf("%s, %s, %s, digest %s", r.Class, r.Level, caseCount(r.Cases, r.Lines), r.BenchDigest), nil
}

func principals(signatures []seal.Signature) []string {
	names := make([]string, len(signatures))
	for i, s := range signatures {
		names[i] = s.Principal()
	}
	return names
}
