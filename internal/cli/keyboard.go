package cli

import "context"

// A keyboard gives the keys of a person as they are pressed, without waiting for the end
// of a line and without showing them. It is the terminal that changes for that, and the
// person has it back as it was however the program ends: close puts it back, and so does
// a signal that stops the program, for as long as it is stopped.
//
// Ctrl-C, Ctrl-Z and Ctrl-\ stay signals.
type keyboard struct {
	keys  chan byte
	close func()
}

// openKeyboard takes the keys of standard input; nil where there is no terminal, where
// the program runs in the background, and on systems where keys are not supported.
func openKeyboard(ctx context.Context, env *Env) *keyboard {
	if env.JSON || !isTerminal(env.Stdin) || !isTerminal(env.Stdout) {
		return nil
	}
	return takeKeys(ctx, env.Stdin)
}
