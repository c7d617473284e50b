package verify

import (
	"fmt"

	"tallystick/internal/record/evidence"
	"tallystick/internal/share/browser/report"
)

// reported verifies the page of an attempt and says what it proves.
func reported(data []byte, t Trust) (string, string, error) {
	const kind = "report"
	v, err := report.Verify(data, t.Policy())
	if err == nil {
		err = t.checkOrigin(v.Checkpoint.Origin)
	}
	if err != nil {
		return kind, "", err
	}
	r, c := v.Registered, v.Checkpoint
	said := &Claim{Origin: c.Origin, TreeSize: c.Size, Class: r.Class, Target: r.Target, Attempt: r.Attempt, Number: r.Number, Of: v.Of, Level: "scratch"}
	switch {
	case v.Signed && v.Data.Examples:
		said.Level = levelSigned + " by example signers"
		t.assume("no person vouches for the bench: the report says that its signers come with \"tally init\"")
	case v.Signed:
		said.Level = levelSigned
		t.assume("people signed the bench, and not example people: the report shows that the ledger's key signed the registration, and no more")
	}
	result := "not finished"
	if f := v.Finished; f != nil {
		total := 0
		for _, n := range f.Outcomes {
			total += n
		}
		said.Outcome, said.Score = "finished", f.MeanScore
		result = fmt.Sprintf("%d passed of %d", f.Outcomes[evidence.Passed], total)
	}
	*t.claim = said
	t.assume("the tree of %d entries is still part of the ledger: only its newest copy tells", c.Size)
	return kind, fmt.Sprintf("class %s: %s; attempt %s by target %s, number %d of at least %d of the class; %s; %d records, and the page shows what they say; in a tree of %d of %s%s",
		r.Class, result, r.Attempt, r.Target, r.Number, v.Of, said.Level, v.Records, c.Size, c.Origin, cosigned(c)), nil
}
