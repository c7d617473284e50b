package cli

import (
	"context"
	"fmt"
	"io"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/plain"
	"tallystick/internal/serve/registry/client"
	"tallystick/internal/share/attest/claim"
)

// mint has a registry issue the credential about a drafted body. A runner with a key
// signs the body here first.
func (o attestOptions) mint(ctx context.Context, env *Env, draft *claim.Draft, runner claim.Party) error {
	if err := draft.Refuse(); err != nil {
		return err
	}
	body, err := runner.SignBody(draft.Body, env.Now())
	if err != nil {
		return err
	}
	if runner.Key != nil {
		if err := acceptCredential(env, claim.Signing{Runner: runner, Now: env.Now()}, "", body); err != nil {
			return err
		}
	}
	c, err := o.connect(env)
	if err != nil {
		return err
	}
	made, err := c.Mint(ctx, body)
	if err != nil {
		return err
	}
	if err := acceptMinted(ctx, env, c, runner, made.Credential); err != nil {
		return err
	}
	if o.out == "" {
		return env.Answer(rawJSON(made.Credential), func(w io.Writer) { w.Write(append(plain.JSON(made.Credential), '\n')) })
	}
	if err := dossier.WriteOutput(o.out, append(made.Credential, '\n')); err != nil {
		return err
	}
	return env.Answer(made, func(w io.Writer) { printMinted(w, o.out, made) })
}

func printMinted(w io.Writer, file string, m *client.Minted) {
	fmt.Fprintf(w, "%s: credential %s, issued by the registry as its entry %d\n", plain.Line(file), m.Digest, m.Entry)
	fmt.Fprintf(w, "receipt  %s\n", plain.Line(m.Receipt))
	fmt.Fprintf(w, "Check it with: tally attest verify %s\n", plain.Line(file))
}
