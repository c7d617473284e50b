package scorecard

import (
	"fmt"

	"tallystick/internal/record/plain"
)

// ThresholdsChanged is said of a comparison across registrations that ask for
// other tiers, thresholds or gates.
const ThresholdsChanged = "THRESHOLDS CHANGED between A and B: tiers, thresholds or gates of the class; cases, rubric, limits and policy are the same"

// Headline is the comparison in one sentence: scores and flips, because cases may keep
// their side and lose most of their score.
func (c *Comparison) Headline() string {
	scores := "no case has a score in both"
	if s := c.Scores; s != nil {
		scores = fmt.Sprintf("mean score %+.4f (%s to %s), %d of %d lower, %d higher", s.Mean.Change, plain.Score(s.Mean.A, 4), plain.Score(s.Mean.B, 4), s.Lower, s.Cases, s.Higher)
	}
	return fmt.Sprintf("%d cases paired: %d gained, %d lost (McNemar p = %.4g); %s", c.Paired, c.Flips.Gained, c.Flips.Lost, c.McNemarP, scores)
}
