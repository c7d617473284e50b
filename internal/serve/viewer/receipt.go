package viewer

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"tallystick/internal/read/history"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/record/workspace"
	"tallystick/internal/serve/viewer/layout"
	"tallystick/internal/share/browser"
)

// answer writes JSON or the error that made is.
func (v *Viewer) answer(w http.ResponseWriter, gather func() (any, error)) {
	doc, err := v.locked(gather)
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(failed(err).Status)
		r := refusal.Of(err)
		doc = map[string]string{"error": err.Error(), "name": string(r.Name), "hint": r.Hint}
	}
	json.NewEncoder(w).Encode(doc)
}

// locked gathers an answer from what was read; it is written without the lock.
func (v *Viewer) locked(gather func() (any, error)) (any, error) {
	leave, err := v.enter()
	defer leave()
	if err != nil {
		return nil, err
	}
	return gather()
}

// A receiptAnswer is an entry as its line says, and what proves it.
type receiptAnswer struct {
	Entry   string    `json:"entry"`
	Receipt string    `json:"receipt"`
	Key     keyAnswer `json:"key"`
}

// A keyAnswer is a verifier key (C2SP signed-note) and the name in it.
type keyAnswer struct {
	Name   string `json:"name"`
	Public string `json:"public"`
}

func (v *Viewer) receipt(w http.ResponseWriter, req *http.Request) {
	v.answer(w, func() (any, error) {
		index, err := v.index(req)
		if err != nil {
			return nil, err
		}
		if err := v.mayLeave(index); err != nil {
			return nil, err
		}
		proofs, key, err := v.r.Prove(index)
		if err != nil {
			return nil, err
		}
		data, err := proofs[index].Receipt().Marshal()
		return receiptAnswer{string(proofs[index].Raw), string(data), keyAnswer{v.r.History.Origin, key}}, err
	})
}

// index is the entry that an address names.
func (v *Viewer) index(req *http.Request) (int64, error) {
	index, err := strconv.ParseInt(req.PathValue("index"), 10, 64)
	if err != nil || index < 0 || index >= v.r.History.Entries {
		return 0, refusal.Newf(refusal.UnknownName, "no entry %q: the ledger has entries 0 to %d", req.PathValue("index"), v.r.History.Entries-1)
	}
	return index, nil
}

// mayLeave refuses the entry of a held-out case whose text could tell what the case
// asks: a record without a score repeats what the agent printed, and an amendment
// or correction gives reasons.
func (v *Viewer) mayLeave(index int64) error {
	e, err := v.entry(index)
	if err != nil {
		return err
	}
	if !e.Has("/reason") {
		return nil
	}
	about := index
	switch e.Kind {
	case evidence.CaseScoredKind:
	case evidence.ScoreAmendedKind:
		n, _ := shown(e.body, "/entry", AsText)
		about, _ = strconv.ParseInt(n, 10, 64)
	default:
		return nil
	}
	a, c := v.recordAt(about)
	if c == nil {
		return nil
	}
	if held, err := v.r.Dossier(a).Case(c).IsHidden(); err != nil || !held {
		return err
	}
	return refusal.Newf(refusal.NotFound, "entry %d is about the held-out case %s and has a text that could tell what it asks", index, c.ID).
		WithHint("\"tally ledger show %d\" shows it, in the workspace", index)
}

// recordAt finds the case whose record an entry is.
func (v *Viewer) recordAt(index int64) (*history.Attempt, *history.Case) {
	for _, a := range v.r.History.Attempts {
		if a.Index > index {
			continue
		}
		for c := range a.Cases() {
			if c.Index == index {
				return a, c
			}
		}
	}
	return nil, nil
}

func (v *Viewer) checkpoint(w http.ResponseWriter, _ *http.Request) {
	v.answer(w, func() (any, error) {
		head, note := v.r.BestCheckpoint(v.r.Verified(), v.r.History.Entries-1)
		return map[string]any{"checkpoint": string(note), "size": head.Size, "origin": head.Origin}, nil
	})
}

// ownerHeader says to the script that checks pages that this server is "tally view" for
// the owner of the machine, and no web server that sends files.
const ownerHeader = "Tallystick-Owner"

func (v *Viewer) keys(w http.ResponseWriter, _ *http.Request) {
	if v.config.Owner {
		w.Header().Set(ownerHeader, "1")
	}
	v.answer(w, func() (any, error) {
		out := []keyAnswer{}
		for _, k := range v.r.VerifierKeys() {
			out = append(out, keyAnswer{v.r.History.Origin, k})
		}
		answer := map[string]any{"origin": v.r.History.Origin, "keys": out}
		if own := v.ownKeys(); len(own) > 0 {
			answer["own"] = own
		}
		return answer, nil
	})
}

// ownKeys are those keys of the ledger that this machine's state folder knows as made
// here. A key that only came with a workspace is as foreign as the workspace.
func (v *Viewer) ownKeys() []string {
	var own []string
	if !v.config.Owner {
		return nil
	}
	for _, k := range v.r.VerifierKeys() {
		if _, pub, err := seal.ParseLogKey(k); err == nil && workspace.MadeHere(v.config.Place.Getenv, pub) {
			own = append(own, k)
		}
	}
	return own
}

// verifyPage sends the page that a person had better take from a release: who doubts
// this server would get it from this server.
func verifyPage(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Security-Policy", browser.VerifyPolicy()+"; frame-ancestors 'none'")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Write(browser.VerifyPage())
}

func asset(w http.ResponseWriter, req *http.Request) {
	a, found := layout.FindAsset(req.PathValue("name"))
	if !found {
		refuse(w, http.StatusNotFound, "no such file")
		return
	}
	w.Header().Set("Content-Type", a.Type)
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", a.Tag)
	if strings.Contains(req.Header.Get("If-None-Match"), a.Tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Write(a.Data)
}
