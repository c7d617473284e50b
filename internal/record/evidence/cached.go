package evidence

import (
	"errors"
	"fmt"

	"tallystick/internal/record/digest"
)

// PlannedReplies say where the replies of a live attempt come from before a
// provider is asked. Without them all come from providers.
type PlannedReplies struct {
	From   string `json:"from"`    // cache or cassette
	OnMiss string `json:"on_miss"` // fail or live
}

// The values of [PlannedReplies].
const (
	// FromCache: the recordings of earlier live attempts by the same target, and
	// its cassettes.
	FromCache = "cache"
	// FromCassette: what a replay would use.
	FromCassette = "cassette"

	OnMissFail = "fail" // the case ends: nothing is paid
	OnMissLive = "live" // a provider is asked
)

func (p *PlannedReplies) validate() error {
	switch {
	case p == nil:
		return nil
	case p.From != FromCache && p.From != FromCassette:
		return fmt.Errorf("plan: replies: from is %q, expected cache or cassette", p.From)
	case p.OnMiss != OnMissFail && p.OnMiss != OnMissLive:
		return fmt.Errorf("plan: replies: on_miss is %q, expected fail or live", p.OnMiss)
	}
	return nil
}

// String says it in words.
func (p *PlannedReplies) String() string {
	if p == nil {
		return "from providers"
	}
	return "from the " + p.From + ", on a miss " + p.OnMiss
}

// Cached says how many replies of a live case were not paid for, because one
// recording had them. Every case of an attempt that uses recordings first has it.
type Cached struct {
	Attempt      string          `json:"attempt,omitempty"` // that made the recording; "" for a cassette of the class
	Calls        int             `json:"calls"`             // the agent's calls that were answered, paid for or not
	CostMicroUSD int64           `json:"cost_microdollars"` // of the replies when they were recorded
	Recording    *digest.Content `json:"recording,omitempty"`
	Replies      int             `json:"replies"` // of these that the recording answered
}

func (c *Cached) validate() error {
	if c == nil {
		return nil
	}
	switch {
	case c.Replies > c.Calls:
		return fmt.Errorf("cached: %d of %d replies", c.Replies, c.Calls)
	case c.Replies == 0 && c.Recording != nil:
		return errors.New("cached: a recording is named that answered nothing")
	case c.Attempt != "" && c.Recording == nil:
		return errors.New("cached: an attempt is named without its recording")
	}
	return firstError(notNegative("cached: calls", int64(c.Calls)), notNegative("cached: replies", int64(c.Replies)), notNegative("cached: cost_microdollars", c.CostMicroUSD))
}
