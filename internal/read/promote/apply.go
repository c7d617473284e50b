package promote

import (
	"path"
	"strings"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
)

// Apply refuses. It exists so that no other is written: people change a tier, by a
// reviewed edit of the registration under two signatures, and no program does.
// The command that calls it records that a person asked.
func Apply(class string, tier bench.Tier, mayApprove []string) error {
	who := "two people of the signers file, one with the security role"
	if len(mayApprove) > 0 {
		who += " (" + strings.Join(mayApprove, ", ") + ")"
	}
	return refusal.Newf(refusal.PromotionMustBeHumanAuthorized, "class %s: moving it to %s must be authorized by people; no program changes a tier", class, tier).
		WithHint(`a human edits the tier in %s in a reviewed change (a pull request that CODEOWNERS approve), runs "tally bench digest %s", and %s sign with "tally bench sign %s --key K"`,
			path.Join(bench.Dir, class, "registration.yaml"), class, who, class)
}
