package bench

import (
	"bytes"
	"encoding/json"
)

// HeldOut are the ids of the cases that are held out.
func (v *Verified) HeldOut() map[string]bool {
	var cases []Case
	for _, x := range v.Cases() {
		cases = append(cases, x.Case())
	}
	return heldOut(cases, v.Dataset())
}

// HeldOut are the ids of the cases that are held out.
func (d *Draft) HeldOut() map[string]bool {
	var cases []Case
	for _, x := range d.Cases {
		cases = append(cases, x.Case)
	}
	return heldOut(cases, d.Dataset)
}

func heldOut(cases []Case, set *Dataset) map[string]bool {
	out := map[string]bool{}
	for _, said := range cases {
		if said.IsHeldOut() {
			out[said.CaseID] = true
		}
	}
	if set != nil {
		for _, line := range set.Lines {
			if bytes.Contains(line.JSON, []byte(`"held_out"`)) && lineIsHeldOut(line.JSON) {
				out[line.ID] = true
			}
		}
	}
	return out
}

func lineIsHeldOut(line []byte) bool {
	var said struct {
		HeldOut bool `json:"held_out"`
	}
	return json.Unmarshal(line, &said) == nil && said.HeldOut
}
