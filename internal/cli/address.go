package cli

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/record/evidence"
)

// How a person addresses an attempt is decided here and nowhere else: by the word that
// stands for an argument in a command's usage line, and by the name of a flag, as in
// complete.go. Commands get ids.

// attemptWords are the words of usage lines that stand for attempts.
var attemptWords = []string{"ATTEMPT", "ATTEMPT:CASE", "A", "B", "TRAJECTORY"}

// fileEndings are of files that commands take where they take an attempt: what has one
// is a file, also if it is not there.
var fileEndings = []string{".json", ".jsonl", ".rvf", ".eval", ".zip", ".pb", ".csv", ".yaml"}

// attemptFlags are the flags whose value is an attempt.
var attemptFlags = []string{"baseline", "attempt", "retry-errors"}

// resolveAddresses puts ids in place of what addresses attempts among the arguments and
// flags of a command: a number, a name, "latest", the beginning of an id.
func (p *program) resolveAddresses(cmd *cobra.Command, args []string) error {
	r := resolver{env: p.env, within: history.Scope{Class: flagText(cmd, "class"), Target: flagText(cmd, "target")}}
	want := argumentWords(cmd)
	for i := range args {
		if len(want) == 0 {
			break
		}
		words := strings.Split(strings.TrimSuffix(want[min(i, len(want)-1)], "..."), "|")
		if slices.ContainsFunc(words, func(w string) bool { return slices.Contains(attemptWords, w) }) {
			id, err := r.resolve(args[i])
			// Where something else may be meant too, the command says what is wrong.
			if err != nil && len(words) == 1 && len(want) == 1 && words[0] != "TRAJECTORY" {
				return err
			}
			if err == nil {
				args[i] = id
			}
		}
	}
	for _, name := range attemptFlags {
		f := cmd.Flags().Lookup(name)
		if f == nil || !f.Changed || f.Value.Type() != "string" || f.Value.String() == f.NoOptDefVal {
			continue
		}
		id, err := r.resolve(f.Value.String())
		if err != nil {
			return err
		}
		if err := f.Value.Set(id); err != nil {
			return err
		}
	}
	return nil
}

func flagText(cmd *cobra.Command, name string) string {
	if f := cmd.Flags().Lookup(name); f != nil && f.Value.Type() == "string" {
		return f.Value.String()
	}
	return ""
}

// A resolver finds attempts in the ledger of the workspace, which it verifies at most
// once, and only for what is not an id.
type resolver struct {
	env     *Env
	within  history.Scope
	reading *dossier.Reading
}

func (r *resolver) resolve(text string) (string, error) {
	attempt, caseID, hasCase := strings.Cut(text, ":")
	if attempt == "" || evidence.LooksLikeID(attempt) || dossier.AreFiles(text) || strings.ContainsRune(text, '/') || slices.Contains(fileEndings, filepath.Ext(text)) {
		return text, nil
	}
	if r.reading == nil {
		place, err := openPlace(r.env)
		if err != nil {
			return text, nil // the command says that there is no workspace
		}
		if r.reading, err = place.Read(dossier.Ask{Want: func(*history.Attempt) bool { return false }}); err != nil {
			return "", err
		}
	}
	if slices.ContainsFunc(r.reading.History.Attempts, func(a *history.Attempt) bool { return a.Class == text }) {
		return text, nil // the command says how to choose one of a class
	}
	a, err := r.reading.History.Find(attempt, r.within)
	if err != nil {
		return "", err
	}
	if hasCase {
		return a.ID + ":" + caseID, nil
	}
	return a.ID, nil
}
