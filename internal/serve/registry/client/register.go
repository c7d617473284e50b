package client

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

// A Registered says who this machine is at a registry, and where its keys are.
type Registered struct {
	Registry  string `json:"registry"`
	Agent     string `json:"agent"`
	PublicKey string `json:"public_key"`
	APIKey    string `json:"api_key_file"`
	AgentKey  string `json:"agent_key_file"`
}

// Register registers an agent. Its key pair is made here and only the public half
// is sent; the API key that comes back goes into a file that only this user can
// read. A file that is there is never overwritten.
func (c *Client) Register(ctx context.Context, apiKeyFile, agentKeyFile, name string) (*Registered, error) {
	if _, err := os.Lstat(apiKeyFile); !errors.Is(err, fs.ErrNotExist) {
		return nil, refusal.Newf(refusal.AlreadyExists, "there is an API key in %s already", apiKeyFile).
			WithHint("use it, or give another file with --api-key-file")
	}
	key, err := loadOrMakeAgentKey(agentKeyFile)
	if err != nil {
		return nil, err
	}
	public, _ := key.Public().Ed25519() // the key of an agent is Ed25519
	ask := struct {
		Profile   map[string]string `json:"profile,omitempty"`
		PublicKey string            `json:"publicKey"`
	}{PublicKey: seal.DIDKey(public)}
	if name != "" {
		ask.Profile = map[string]string{"name": name}
	}
	body, err := canon.Marshal(ask)
	if err != nil {
		return nil, err
	}
	a, err := c.Post(ctx, registerPath, body, "")
	if err != nil {
		return nil, err
	}
	var made struct {
		Agent     string `json:"agent"`
		APIKey    string `json:"apiKey"`
		PublicKey string `json:"publicKey"`
	}
	if err := a.Decode(&made, http.StatusCreated, http.StatusOK); err != nil {
		return nil, err
	}
	if err := checkAPIKey(made.APIKey); err != nil {
		return nil, refusal.Newf(refusal.Malformed, "the registry's answer: %w", err)
	}
	if made.PublicKey != ask.PublicKey {
		return nil, refusal.Newf(refusal.Malformed, "the registry registered the key %q; sent was %q", made.PublicKey, ask.PublicKey)
	}
	if err := saveAPIKey(apiKeyFile, made.APIKey); err != nil {
		return nil, err
	}
	return &Registered{Registry: c.Address(), Agent: made.Agent, PublicKey: made.PublicKey, APIKey: apiKeyFile, AgentKey: agentKeyFile}, nil
}
