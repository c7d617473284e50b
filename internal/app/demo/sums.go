package demo

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/read/scorecard"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/bench"
)

// sumsClass is a hundred sums that say they are issues of repositories.
const sumsClass = "repository-issues"

// runSums has people sign a hundred sums as repository issues, and runs them.
func runSums(d *demo, copied string) error {
	registration, err := benchFiles.ReadFile("bench/" + bench.RegistrationFile)
	if err != nil {
		return err
	}
	var dataset bytes.Buffer
	for n := 1; n <= 100; n++ {
		fmt.Fprintf(&dataset, `{"id":"issue-%d","input":"%d and %d?","tags":["%s"],"model":[{"text":"%d"}],"expected":"%d","grade":{"kind":"exact"}}`+"\n", n, n, n, scorecard.RepositoryIssue, 2*n, 2*n)
	}
	files := map[string][]byte{bench.RegistrationFile: bytes.Replace(registration, []byte("class: "+demoClass), []byte("class: "+sumsClass), 1), bench.DatasetFile: dataset.Bytes()}
	if err := ceremony.WriteFiles(filepath.Join(copied, bench.Dir, sumsClass), files); err != nil {
		return err
	}
	if err := inCorpus(copied, d.world, func(c *dossier.Corpus) error { return ceremony.SignAsExamples(c, sumsClass) }); err != nil {
		return err
	}
	return d.run(context.Background(), copied, sumsClass, d.world)
}

// acceptSums asks for acceptance of the attempt at the sums: it must have found no
// issue of a repository among tasks that were all solved.
func acceptSums(d *demo, copied string) error {
	p, err := d.in(copied)
	if err != nil {
		return err
	}
	r, err := p.Read(dossier.Ask{})
	if err != nil {
		return err
	}
	a, err := r.Attempt(sumsClass + "." + agent.DefaultTarget + ".1")
	if err != nil {
		return err
	}
	whole, err := a.ReadAll()
	if err != nil {
		return err
	}
	card, err := scorecard.Of(r.History, scorecard.View{Attempts: []*history.Attempt{a.Attempt}, Evidence: map[*history.Attempt]scorecard.Evidence{a.Attempt: whole}})
	if err != nil {
		return err
	}
	if card.Solved != 100 {
		return refusal.Newf(refusal.Failed, "%d of the 100 sums were solved", card.Solved)
	}
	for _, c := range card.Acceptance.Criteria {
		if c.Metric == "repository_issues" && !c.Met && !card.Acceptance.Met {
			return refusal.Newf(refusal.GateNotMet, "acceptance is not met: %s", strings.Join(card.Acceptance.Reasons, "; "))
		}
	}
	return nil
}
