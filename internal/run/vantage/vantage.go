package vantage

import (
	"slices"
	"strings"
)

// A Vantage is where the harness stands while an agent works, as run_started and
// the record of a case name it.
type Vantage string

// The vantages. A fleet has none of its own: a worker stands where its target's
// kind says, and the coordinator refuses a result that says otherwise.
const (
	Inside   Vantage = "inside"   // the agent is ours: all that it does goes through us
	Gateway  Vantage = "gateway"  // a command: what passes the gateway and its sandbox
	Answers  Vantage = "answers"  // an agent behind a URL: what it answers
	Imported Vantage = "imported" // another system's log, and what it happens to tell
	World    Vantage = "world"    // a command that may reach services of its case's world, whose traffic is not read
	Reported Vantage = "reported" // a function in the process that asked for the run: what that process says of it
)

// All lists the vantages, in the order of the table's columns.
func All() []Vantage { return []Vantage{Inside, Gateway, Answers, Imported, World, Reported} }

// Of is the vantage that a trajectory or a record names. One that names none, or
// one that this program does not know, shows no more than an imported log.
func Of(name string) Vantage {
	if v := Vantage(name); slices.Contains(All(), v) {
		return v
	}
	return Imported
}

// A Sight says how much of a matter can be seen.
type Sight int

// The sights. The zero value is the one that proves nothing.
const (
	Not    Sight = iota // it never shows: nothing can be concluded
	Partly              // what shows happened, and there may be more
	Seen                // it all shows: what does not show did not happen
)

func (s Sight) String() string { return [...]string{"not", "partly", "seen"}[s] }

// A View is how much can be seen of something, and if that is not all of it, why.
type View struct {
	Sight
	Why string // a clause without a full stop; "" if everything is seen
}

// Sees says how much of a matter can be seen.
func (v Vantage) Sees(m Matter) View {
	row, ok := table()[m]
	if !ok {
		return View{Not, "no table says whether " + string(m) + " can be seen"}
	}
	return row[slices.Index(All(), Of(string(v)))]
}

// SeesName says how much of what a name stands for can be seen: as much as of the
// matter that can be seen least.
func (v Vantage) SeesName(k Kind, name string) View {
	matters, ok := Matters(k, name)
	if !ok {
		return View{Not, "no table says whether the " + string(k) + " " + name + " can be seen"}
	}
	least := View{Sight: Seen}
	for _, m := range matters {
		if s := v.Sees(m); s.Sight < least.Sight {
			least = s
		}
	}
	return least
}

// Matters lists what decides the value of a name. That there are none means that
// the harness knows it by itself, whatever it sees of the agent.
func Matters(k Kind, name string) ([]Matter, bool) {
	if k == Expect {
		if tool, ok := strings.CutPrefix(name, "tool_calls."); ok && tool != "" {
			name = "tool_calls"
		}
	}
	matters, ok := names()[k][name]
	return matters, ok
}

// Names lists the names of a kind, sorted.
func Names(k Kind) []string {
	var list []string
	for name := range names()[k] {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// AllMatters lists the matters of the table.
func AllMatters() []Matter {
	var list []Matter
	for m := range table() {
		list = append(list, m)
	}
	return list
}
