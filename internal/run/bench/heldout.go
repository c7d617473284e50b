package bench

import (
	"bytes"
	"encoding/json"
)

// HeldOut are the ids of the cases that are held out.
func (v *Verified) HeldOut() map[string]bool {
	out := map[string]bool{}
	for _, x := range v.Cases() {
		if said := x.Case(); said.IsHeldOut() {
			out[said.CaseID] = true
		}
	}
	if set := v.Dataset(); set != nil {
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
