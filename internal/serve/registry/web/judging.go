package web

import (
	"net/http"

	"tallystick/internal/record/refusal"
	"tallystick/internal/serve/registry"
)

func questions(c *call) (*reply, error) {
	qs, err := c.s.cfg.Writer.Questions(c.ctx(), c.agent)
	if err != nil {
		return nil, err
	}
	return asJSON(http.StatusOK, struct {
		Questions []registry.Question `json:"questions"`
		Answers   []string            `json:"answers"`
	}{qs, []string{"accept", "reject"}})
}

func calibrate(c *call) (*reply, error) {
	var form struct {
		Answers map[string]string `json:"answers"`
	}
	if err := c.decode(&form); err != nil {
		return nil, err
	}
	once, err := c.once()
	if err != nil {
		return nil, err
	}
	done, err := c.s.cfg.Writer.Calibrate(c.ctx(), c.agent, form.Answers, once)
	if err != nil {
		return nil, err
	}
	return asJSON(http.StatusOK, done)
}

// A task is a proposal that a judge is to judge, with what else the judge signs.
type task struct {
	*registry.Proposal
	Registry string `json:"registry"` // origin of the ledger, part of what is signed
}

func assigned(c *call) (*reply, error) {
	open, err := c.s.cfg.Writer.Assigned(c.ctx(), c.agent)
	if err != nil {
		return nil, err
	}
	config, err := c.s.reads.Config(c.ctx())
	if err != nil {
		return nil, err
	}
	tasks := []task{}
	for _, p := range open {
		c.absoluteAddresses(p)
		tasks = append(tasks, task{p, config.Origin})
	}
	return asJSON(http.StatusOK, map[string]any{"assigned": tasks})
}

func judge(c *call) (*reply, error) {
	var form struct {
		Proposal  string `json:"proposalId"`
		Verdict   string `json:"verdict"`
		Reason    string `json:"reason"`
		Signature string `json:"signature"`
	}
	if err := c.decode(&form); err != nil {
		return nil, err
	}
	if form.Proposal == "" || form.Verdict == "" || form.Signature == "" {
		return nil, refusal.Newf(refusal.Malformed, "the body: expected proposalId, verdict and signature")
	}
	once, err := c.once()
	if err != nil {
		return nil, err
	}
	p, err := c.s.cfg.Writer.Judge(c.ctx(), c.agent, registry.Judgement{
		Proposal: form.Proposal, Verdict: form.Verdict, Reason: form.Reason, Signature: form.Signature, Once: once,
	})
	if err != nil {
		return nil, err
	}
	p.New = false
	return c.proposed(p)
}
