package gateway

import (
	"net/http"
	"slices"

	"tallystick/internal/record/refusal"
)

// listModels lists the models of the recording.
func (x *exchange) listModels() {
	if x.only(http.MethodGet) {
		x.answer(http.StatusOK, "application/json", x.provider.ModelList(x.g.cfg.Models), "")
	}
}

func (x *exchange) showModel(name string) {
	if !x.only(http.MethodGet) {
		return
	}
	if !slices.Contains(x.g.cfg.Models, name) {
		x.fail(problem{http.StatusNotFound, refusal.NotFound, "the recording has no such model"})
		return
	}
	x.answer(http.StatusOK, "application/json", x.provider.Model(name), "")
}
