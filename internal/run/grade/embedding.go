package grade

import (
	"fmt"
	"math/big"
	"slices"
	"strings"

	"tallystick/internal/record/digest"
	"tallystick/internal/run/extract"
	"tallystick/internal/run/similarity"
)

// Bounds of what is turned into vectors. A longer answer is the agent's doing and
// fails; models take less, some 8,000 tokens, and say so.
const (
	maxEmbedded = 32 << 10
	maxRight    = 100
)

// An embeddingRule is what an answer's vector is compared with.
type embeddingRule struct {
	model string
	right []string
	least *big.Rat
	need  float64
}

// Embedded are the vectors of some texts, in their order: of finite numbers, of one
// length, none of them zero. Request and Reply name what was sent and what came.
type Embedded struct {
	Vectors        [][]float64
	Request, Reply digest.Content
}

// An EmbeddingDetail is what vectors an answer was compared by: the reply has them,
// that of the answer first.
type EmbeddingDetail struct {
	Best    int            `json:"best"` // which of the expected texts is the nearest, from 1
	Model   string         `json:"model"`
	Reply   digest.Content `json:"reply"`
	Request digest.Content `json:"request"`
}

func validateEmbedding(at place, r *Rule) error {
	if len(r.Model) > 200 || strings.TrimSpace(r.Model) != r.Model {
		return at.in("model").bad("is %.80q, expected the name of a model of at most 200 bytes without blanks around it", r.Model)
	}
	return validateSimilar(at, r)
}

func (c *compiler) embedding(at place, n *node, r *Rule) (err error) {
	if n.expected, err = c.expected(at, r, false); err != nil {
		return err
	}
	rule := &embeddingRule{model: r.Model, need: *r.Threshold, least: decimal(*r.Threshold)}
	if rule.right, err = textList(n.expected, true, normaliser{}.text); err != nil {
		return &placed{at.in("expected"), err}
	}
	if len(rule.right) > maxRight {
		return at.in("expected").bad("has %d texts, expected at most %d", len(rule.right), maxRight)
	}
	for _, text := range rule.right {
		if len(text) > maxEmbedded {
			return at.in("expected").bad("a text of %d bytes, expected at most %d", len(text), maxEmbedded)
		}
	}
	n.embedding = rule
	if !slices.Contains(c.grader.embeds, r.Model) {
		c.grader.embeds = append(c.grader.embeds, r.Model)
	}
	return nil
}

// embedding compares the vector of the answer with those of the expected texts. A
// model that failed gives no score, which is not zero.
func (r *run) embedding(n *node, d *Detail, v extract.Value, counts bool) tally {
	if !v.Found {
		return notFound(v)
	}
	r.judged = r.judged || counts // a model's opinion, in numbers
	text, bad := textOf(&v)
	rule := n.embedding
	switch {
	case bad != nil:
		return single(*bad)
	case len(text) > maxEmbedded:
		return single(unusable(CodeTooLarge, "the text has %d bytes, more than the %d that are compared", len(text), maxEmbedded))
	case strings.TrimSpace(text) == "":
		return single(verdict{Mismatch, 0, CodeBelowThreshold, "the text is empty, which no model has a vector for"})
	case r.in.Embed == nil:
		return single(unscored("there is no model here to ask for vectors: \"tally run\" and \"tally rescore\" have the recorded ones"))
	}
	e, why := r.in.Embed(rule.model, append([]string{text}, rule.right...))
	if why != "" {
		return single(unscored("the vectors of %s: %s", quoted(rule.model), why))
	}
	best, score := Nearest(e.Vectors)
	d.Embedding = &EmbeddingDetail{Best: best, Model: rule.model, Reply: e.Reply, Request: e.Request}
	says := fmt.Sprintf("the cosine similarity by %s is %v, needed %v: %s", quoted(rule.model), score, rule.need, quote(&v, text))
	if decimal(score).Cmp(rule.least) >= 0 {
		return tally{verdict: verdict{Passed, score, "", says}}
	}
	return single(verdict{Mismatch, score, CodeBelowThreshold, says})
}

// Nearest compares the first vector, that of an answer, with the others: which is the
// nearest, from 1, and how near it is.
func Nearest(vectors [][]float64) (best int, score float64) {
	score = -1
	for i := 1; i < len(vectors); i++ {
		if s := rounded(similarity.Cosine(vectors[0], vectors[i])); s > score {
			best, score = i, s
		}
	}
	return best, score
}
