package gateway

import (
	"net/http"
	"slices"

	"tallystick/internal/refusal"
)

// The time that the lists of models give: it is not known, and would differ
// from run to run.
const noTime = "1970-01-01T00:00:00Z"

type openaiModel struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int    `json:"created"`
	OwnedBy string `json:"owned_by"`
}

type anthropicModel struct {
	Type        string `json:"type"`
	ID          string `json:"id"`
	DisplayName string `json:"display_name"`
	CreatedAt   string `json:"created_at"`
}

func (x *exchange) describeModel(name string) any {
	if x.protocol == anthropic {
		return anthropicModel{"model", name, name, noTime}
	}
	return openaiModel{name, "model", 0, "tallystick"}
}

// listModels lists the models of the recording.
func (x *exchange) listModels() {
	if !x.only(http.MethodGet) {
		return
	}
	names := x.g.cfg.Models
	data := make([]any, 0, len(names))
	for _, name := range names {
		data = append(data, x.describeModel(name))
	}
	if x.protocol == openai {
		x.answer(http.StatusOK, "application/json", encode(struct {
			Object string `json:"object"`
			Data   []any  `json:"data"`
		}{"list", data}), "")
		return
	}
	page := struct {
		Data    []any   `json:"data"`
		FirstID *string `json:"first_id"`
		HasMore bool    `json:"has_more"`
		LastID  *string `json:"last_id"`
	}{Data: data}
	if len(names) > 0 {
		page.FirstID, page.LastID = &names[0], &names[len(names)-1]
	}
	x.answer(http.StatusOK, "application/json", encode(page), "")
}

func (x *exchange) showModel(name string) {
	if !x.only(http.MethodGet) {
		return
	}
	if !slices.Contains(x.g.cfg.Models, name) {
		x.fail(problem{http.StatusNotFound, refusal.NotFound, "the recording has no such model"})
		return
	}
	x.answer(http.StatusOK, "application/json", encode(x.describeModel(name)), "")
}
