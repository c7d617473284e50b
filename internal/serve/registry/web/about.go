package web

import (
	_ "embed"
	"net/http"
	"strings"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
	"tallystick/internal/serve/registry"
)

func jwks(c *call) (*reply, error) {
	k, err := c.s.reads.Keys(c.ctx())
	if err != nil {
		return nil, err
	}
	return given(typeJWKS, k.JWKS), nil
}

func didDocument(c *call) (*reply, error) {
	k, err := c.s.reads.Keys(c.ctx())
	if err != nil {
		return nil, err
	}
	if k.DID == nil {
		return nil, refusal.Newf(refusal.NotFound, "the issuer is a did:key, which needs no document").
			WithHint("a registry with a public URL has a did:web")
	}
	return given(typeDID, k.DID), nil
}

// about says what the registry is, and where everything stands.
func about(c *call) (*reply, error) {
	config, err := c.s.reads.Config(c.ctx())
	if err != nil {
		return nil, err
	}
	endpoints := map[string]string{}
	for _, r := range c.s.routes {
		endpoints[r.name] = r.method + " " + c.url(openAPIPath(r.path))
	}
	return asJSON(http.StatusOK, struct {
		*registry.Public
		Name      string            `json:"name"`
		ReadOnly  bool              `json:"readOnly"`
		OpenAPI   string            `json:"openapi"`
		Recipe    string            `json:"verificationRecipe"`
		MaxAge    int               `json:"checkpointMaxAgeMinutes"`
		Endpoints map[string]string `json:"endpoints"`
	}{config, "Tallystick registry", c.s.cfg.Writer == nil, c.url("/openapi.json"), c.url("/docs/verification-recipe.md"), int(registry.CheckpointMaxAge.Minutes()), endpoints})
}

// signingKeys says which key signs what, and where the line is.
func signingKeys(c *call) (*reply, error) {
	k, err := c.s.reads.Keys(c.ctx())
	if err != nil {
		return nil, err
	}
	config, err := c.s.reads.Config(c.ctx())
	if err != nil {
		return nil, err
	}
	var set struct {
		Keys []canon.RawMessage `json:"keys"`
	}
	if err := canon.Unmarshal(k.JWKS, &set); err != nil {
		return nil, err
	}
	type layer struct {
		Layer        int    `json:"layer"`
		Name         string `json:"name"`
		Proof        string `json:"proof"`
		Keys         string `json:"keys"`
		Proves       string `json:"proves"`
		DoesNotProve string `json:"doesNotProve"`
	}
	said := map[string]any{
		"issuer": config.DID, "logKey": config.LogKey, "keys": set.Keys,
		"layers": []layer{
			{1, "credential", "DataIntegrityProof, eddsa-jcs-2022", c.url("/.well-known/jwks.json"),
				"this registry issued the credential", "that the results are true, or that the registry ran anything"},
			{2, "judgement", "IntelligencePro.JudgmentProof, Ed25519", c.url("/api/agents/{tag}"),
				"an admitted judge gave this verdict on this content", "that the judge was right"},
			{3, "manifest chain", "chainSignature (HMAC-SHA-256) and chainSignatureEd25519", c.url("/.well-known/jwks.json"),
				"the published manifest and its place among those of its artifact", "anything to others by the HMAC alone: only the platform has its key"},
		},
	}
	if len(config.FormerLogKeys) > 0 {
		said["formerLogKeys"] = config.FormerLogKeys
	}
	return asJSON(http.StatusOK, said)
}

//go:embed recipe.md
var recipeText string

func recipe(c *call) (*reply, error) {
	config, err := c.s.reads.Config(c.ctx())
	if err != nil {
		return nil, err
	}
	text := strings.NewReplacer("{{url}}", c.s.cfg.PublicURL, "{{did}}", config.DID, "{{logKey}}", config.LogKey).Replace(recipeText)
	return given(typeMarkdown, []byte(text)), nil
}

//go:embed ip_eval_attest.py
var attestScript []byte

// script gives the program with which a runner signs a body of its own.
func script(*call) (*reply, error) { return given(typePython, attestScript), nil }

func spec(c *call) (*reply, error) { return given(typeJSON, c.s.spec), nil }

func health(*call) (*reply, error) { return given(typeText, []byte("ok\n")), nil }

func ready(c *call) (*reply, error) {
	if err := c.s.reads.Ready(c.ctx()); err != nil {
		c.s.cfg.Log.Error("not ready", "id", c.id, "error", problemOf(err).Error)
		return c.refuse(http.StatusServiceUnavailable, &problem{Name: nameBusy, Error: "not ready", RetryAfter: 1}), nil
	}
	return given(typeText, []byte("ok\n")), nil
}
