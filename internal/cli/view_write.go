package cli

import (
	"context"
	"fmt"
	"strings"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/review"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/serve/viewer/desk"
)

// writeOptions say who works in the browser.
type writeOptions struct {
	key, gpg  string
	agentAsks bool
}

// check refuses what does not go together.
func (o *writeOptions) check(env *Env) error {
	switch {
	case (o.key == "") == (o.gpg == ""):
		return refusal.Newf(refusal.Usage, "--write needs --key FILE or --gpg KEY: one person works in the browser").
			WithHint("without --write the pages only read, and give the commands")
	case o.agentAsks && o.key != "" && !strings.HasSuffix(o.key, ".pub"):
		return refusal.Newf(refusal.Usage, "--agent-asks with %s: expected the .pub file of a key that is in ssh-agent", o.key).
			WithHint("ssh-add -c KEY, and then --key KEY.pub --agent-asks")
	case !env.Interactive():
		return refusal.Newf(refusal.Usage, "--write shows each signature at a terminal and asks there, and there is none").
			WithHint("start it at a terminal, without --json")
	}
	return nil
}

// openDesk opens the desk of the person whose key it is. Every act is shown here, as the
// desk read it from the disk.
func openDesk(ctx context.Context, env *Env, o writeOptions) (*desk.Desk, error) {
	ask := review.NewQuestioner(ctx, env.Stdin, env.Stderr)
	d, err := desk.Open(desk.Config{
		Open: func() (*dossier.Corpus, error) { return openRecorded(env, dossier.Ask{}) },
		Pen:  ceremony.Pen{Key: o.key, GPG: o.gpg},
		Confirm: func(ctx context.Context, act *desk.Act) (bool, error) {
			act.Print(env.Stderr)
			if o.agentAsks {
				return true, nil
			}
			yes, err := ask.Sure(ctx, "sign it? [y/N] ")
			switch {
			case err != nil:
				fmt.Fprintln(env.Stderr, "\nnot signed")
			case !yes:
				fmt.Fprintln(env.Stderr, "not signed")
			}
			return yes, err
		},
		Told: func(job *desk.Job) {
			switch job.State {
			case desk.Done:
				fmt.Fprintln(env.Stderr, plain.Line(job.Said))
			case desk.Failed:
				fmt.Fprintf(env.Stderr, "not signed: %s\n", plain.Line(job.Err.Error()))
			}
		},
	})
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(env.Stderr, "%s works in the browser; each signature is asked for here\n", plain.Line(d.Person()))
	return d, nil
}
