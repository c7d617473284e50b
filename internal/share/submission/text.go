package submission

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"tallystick/internal/record/plain"
)

func indent(data []byte) ([]byte, error) {
	var b bytes.Buffer
	if err := json.Indent(&b, data, "", "  "); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// readme tells a person what is in the package and what it may contain.
func (b *builder) readme(p *Package) []byte {
	var t bytes.Buffer
	m := &b.about
	fmt.Fprintf(&t, "# Submission of attempt %s\n\n", m.Attempt.ID)
	if p.Headline.Corrected != nil {
		fmt.Fprintf(&t, "**Scores were corrected after the attempt.** The next line, results.jsonl (`correct`) and the audit count what was recorded. As corrected: %s. results.jsonl has each correction with its reason, the key that signed it and the entry of the ledger; whose key it is, the ledger's signers say.\n\nAs recorded: ", p.Headline.Corrected.Text(p.Headline.N))
	}
	if p.Headline.PassRate != nil {
		fmt.Fprintf(&t, "Pass rate %s: %d of n = %d, 95 %% interval (Wilson) %.4f to %.4f, seed none (every task was run).\n", plain.Score(*p.Headline.PassRate, 4), p.Headline.Passed, p.Headline.N, p.Headline.CI95[0], p.Headline.CI95[1])
	} else {
		fmt.Fprintf(&t, "n = %d, unscored: the split has no public answers.\n", p.Headline.N)
	}
	fmt.Fprintf(&t, "Mean steps (model calls) %.2f, empty answers %.4f. Split %s, revision %s, view %s, voting attempts %d.\n", p.Headline.MeanSteps, p.Headline.EmptyRate, orNone(m.GAIASplit), orNone(m.Revision), m.View, m.VotingAttempts)
	number := b.Standing()
	fmt.Fprintf(&t, "Attempt %s, by target %s, in the ledger %s.", number.Text(), m.Target, number.Origin)
	if !number.Exact {
		t.WriteString(" That there were no more is not shown.")
	}
	t.WriteString("\n\n")
	if n := len(b.Dispositions); n > 0 {
		fmt.Fprintf(&t, "People signed %d dispositions of findings: audit-report.json lists them. A finding stays what it is.\n\n", n)
	}
	switch {
	case !p.Audit.Clean:
		fmt.Fprint(&t, "**THE AUDIT IS NOT CLEAN.** audit-report.json says what it found. The package was made all the same, because its maker asked for that with --allow-dirty.\n\n")
	case !p.Audit.StrictClean:
		fmt.Fprintf(&t, "The audit is clean, **with warnings**: no critical check failed, and these did: %s. ", strings.Join(p.Audit.Failures, ", "))
		if p.Audit.Complete {
			fmt.Fprint(&t, "No check wanted an input.\n\n")
		} else {
			fmt.Fprint(&t, "It is not complete: audit-report.json lists what it could not check.\n\n")
		}
	case !p.Audit.Complete:
		fmt.Fprint(&t, "The audit is clean and not complete: audit-report.json lists what it could not check.\n\n")
	default:
		fmt.Fprint(&t, "The audit is clean and complete: no check failed, and none wanted an input. It shows that nothing was found, not that nothing is there.\n\n")
	}
	t.WriteString(readmeText)
	return t.Bytes()
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

const readmeText = "## What these files may contain\n\n" +
	"trajectories.jsonl and evidence/ hold the beginnings of prompts (2 KiB), of tool results and model replies (4 KiB) and of arguments (8 KiB). " +
	"They may contain text that the agent fetched, with names and other people's words. Secrets were taken out before anything was written, by shape and by name; a step says `redacted` where that happened, and its digest is then salted. " +
	"bodies/ is there only if the attempt was registered to keep whole texts. " +
	"results.jsonl holds the expected answers of a split that has them: keep them from crawlers.\n\n" +
	"## What is what\n\n" +
	"- results.jsonl, trajectories.jsonl: a line for each planned task; metadata.json; audit-report.json\n" +
	"- receipts/: proofs that registration, records and end are in the ledger, the registrations of all attempts of the class that are counted, draws of a judge, dispositions, and (rest) every other entry since, which shows that nothing was left out\n" +
	"- evidence/, registration.json, target.json: what the lines are derived from, named by BLAKE3\n" +
	"- manifest.json, manifest.json.sig: every file with its SHA-256, signed by the operator\n" +
	"- compat/manifest.md.json: a manifest in the original's form. Its key follows from public data, so anybody can make one: it proves nothing\n\n" +
	"## Check it\n\n" +
	"    tally-verify --key LEDGER-KEY FOLDER\n\n" +
	"verifies the receipts, derives every file again and compares. It needs nothing else.\n"
