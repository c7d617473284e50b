package evidence

import "tallystick/internal/record/digest"

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

// Reused says how many replies of a case came from the library of replies: they were
// drawn before, perhaps for another target or class.
type Reused struct {
	From     []ReusedFrom `json:"from"`               // for whom they were drawn, sorted
	Replies  int          `json:"replies"`            // of the agent's and the judge's calls
	Unlisted int          `json:"unlisted,omitempty"` // of these, that no reply.drawn entry of this ledger names
}

// A ReusedFrom is for whom replies were drawn, as their files say.
type ReusedFrom struct {
	Class   string `json:"class"`
	Replies int    `json:"replies"`
	Target  string `json:"target"`
}
