// Package cli is the command line: flags, output and exit codes.
//
// Each command is one file. It holds an options struct, a function newX that
// declares the flags, and a function runX(ctx, env, options) that does the work
// and never sees the flag library. [Main] is the only place that turns an error
// into an exit code, by the table in package refusal, and the only place that
// prints one.
//
// Standard output carries the answer and nothing else; with --json exactly one
// JSON document (or JSON lines, where a command says so). Everything else goes
// to standard error.
//
// The package decides nothing about evidence: it asks the packages below it and
// prints what they say.
package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"tallystick/internal/app/lab"
	"tallystick/internal/read/dossier"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
)

// A group is the commands that a person looks for together.
type group struct {
	title    string
	commands []*cobra.Command
}

// groups has the program's commands in the order in which help shows them. To add
// a command, write its file and name it here.
func groups(env *Env) []group {
	return []group{
		{"Start", []*cobra.Command{newInit(env), newTry(env), newDemo(env), newDoctor(env)}},
		{"Run", []*cobra.Command{newRun(env), newRecord(env)}},
		{"Look", []*cobra.Command{newLog(env), newShow(env), newWhy(env), newReplay(env), newCompare(env), newView(env), newScorecard(env)}},
		{"Decide", []*cobra.Command{newGate(env), newReview(env), newPromote(env), newName(env)}},
		{"Again", []*cobra.Command{newRescore(env), newReproduce(env), newGolden(env)}},
		{"Bench", []*cobra.Command{newBench(env)}},
		{"Trust", []*cobra.Command{newKeys(env), newSigners(env), newLedger(env)}},
		{"Share", []*cobra.Command{newExport(env), newAttest(env), newPublish(env), newVerify(env)}},
		{"Other harnesses", []*cobra.Command{newImport(env), newAudit(env), newGrade(env)}},
		{"Operate", []*cobra.Command{newRegistry(env), newFleet(env), newSandbox(env), newJudges(env)}},
		{"", []*cobra.Command{newVersion(env), newMCPStdio(env)}},
	}
}

// Main runs one command line, without the program's name in args, and returns
// the exit code. Beyond is what only tally-fleet can do; nil in every other program.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer, getenv func(string) string, beyond *Beyond) int {
	env := newEnv(stdin, stdout, stderr, getenv)
	env.beyond, env.args = beyond, args
	lab.Sweep()
	defer lab.Release()
	return newProgram(env).main(args)
}

// A program is the command tree and what happened while it ran.
type program struct {
	env  *Env
	root *cobra.Command

	// text is what the flag library itself writes: help and completions.
	text bytes.Buffer

	// started is set once flags and arguments are accepted. Whatever goes wrong
	// before that is the caller's mistake, whatever goes wrong after is not.
	started bool

	// completing is set while a shell asks what may follow: the flag library then
	// parses the same line twice.
	completing bool

	// ran is the command that was run, nil if it panicked.
	ran *cobra.Command

	// misdirected is the mistake in "tally nonsense --help": the flag library's
	// help hook cannot return an error.
	misdirected error
}

func newProgram(env *Env) *program { return programOf(env, groups(env)) }

// programOf is the program with these commands.
func programOf(env *Env, list []group) *program {
	p := &program{env: env}
	p.root = newRoot(env)
	p.root.SetOut(&p.text)
	p.root.SetErr(env.Stderr)
	p.root.SetIn(env.Stdin)
	cobra.EnableCommandSorting = false // the order of the groups is the one to show
	for _, g := range list {
		if g.title != "" {
			p.root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		}
		for _, cmd := range g.commands {
			cmd.GroupID = g.title
			p.root.AddCommand(cmd)
		}
	}
	p.root.SetHelpCommand(newHelp(p.root))
	p.root.InitDefaultHelpCmd()
	// After SetOut: the completion commands remember where to write from here on.
	p.root.InitDefaultCompletionCmd()
	p.root.SetFlagErrorFunc(flagError)
	printHelp := p.root.HelpFunc()
	p.root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if rest := cmd.Flags().Args(); onlyGroups(cmd) && len(rest) > 0 {
			p.misdirected = unknownCommand(cmd, rest[0])
			return
		}
		if cmd == p.root {
			rootHelp(cmd.OutOrStdout(), cmd)
		} else {
			withoutSeldom(cmd, func() { printHelp(cmd, args) })
		}
		fmt.Fprintf(cmd.OutOrStdout(), "\n%s", exitCodes())
	})
	for _, cmd := range p.root.Commands() {
		if cmd.Name() == "completion" {
			for _, shell := range append(cmd.Commands(), cmd) {
				shell.Example = "tally completion bash > ~/.local/share/bash-completion/completions/tally"
			}
		}
	}
	p.adopt(p.root)
	_ = p.root.RegisterFlagCompletionFunc("workspace", only(cobra.ShellCompDirectiveFilterDirs))
	return p
}

// main runs one command line under signals, prints the error if there is one,
// and chooses the exit code.
func (p *program) main(args []string) int {
	// The first signal asks the command to stop and lets it leave a clean
	// state. Restoring the default right after means that a second one kills.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	var ended atomic.Bool
	context.AfterFunc(ctx, func() {
		stop()
		time.Sleep(signalGrace)
		if ended.CompareAndSwap(false, true) {
			// What a command leaves behind at any moment can be gone on with, so one
			// that computes or reads without listening loses nothing.
			p.env.printError(stoppedBySignal(p.root.Name()))
			os.Exit(refusal.ExitFailed)
		}
	})

	p.completing = slices.Contains(args, cobra.ShellCompRequestCmd) || slices.Contains(args, cobra.ShellCompNoDescRequestCmd)
	err := p.run(ctx, args)
	if !ended.CompareAndSwap(false, true) {
		select {} // the program is being ended
	}
	if err == nil {
		return refusal.ExitCode(nil)
	}
	// Flags may not have been parsed when the command line itself is wrong, yet
	// a script that asked for JSON must get JSON.
	if !p.started {
		p.env.JSON = asksForJSON(args)
	}
	p.env.printError(err)
	if p.started && (p.ran == nil || p.ran.Annotations[looksAt] != readOnlyCommands[looksAt]) {
		recordRefusal(p.env, err)
	}
	return refusal.ExitCode(err)
}

// signalGrace is what a command that was told to stop has for it.
const signalGrace = 1500 * time.Millisecond

func stoppedBySignal(command string) error {
	return refusal.Newf(refusal.Interrupted, "%s: stopped by a signal", command).WithHint("run the same command again")
}

// readOnlyCommands marks the commands that look at files of other people: that one of
// these does not verify is the answer, and says nothing about this workspace. What
// they refuse of the workspace itself they have recorded.
var readOnlyCommands = map[string]string{looksAt: "files"}

const looksAt = "looks at"

// recordRefusal has a refusal recorded that the command did not record itself:
// whichever command meets something that does not verify, it is not forgotten.
func recordRefusal(env *Env, err error) {
	if refusal.ExitCode(err) != refusal.ExitUnverified {
		return
	}
	if place, oerr := openPlace(env); oerr == nil {
		_ = place.Refused(err)
	}
}

// adopt gives cmd and everything below it the manners that all commands share,
// so that no command file has to remember them.
func (p *program) adopt(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		p.adopt(sub)
	}
	if cmd.HasSubCommands() && !cmd.Runnable() {
		cmd.Annotations = groupsOthers
		cmd.Args = noSuchCommand
		cmd.RunE = p.needsCommand
	}
	if cmd.RunE == nil {
		run := cmd.Run
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			run(cmd, args)
			return nil
		}
		cmd.Run = nil
	}
	cmd.Example = "  " + cmd.Example // as help indents everything else
	p.addCompletion(cmd)
	p.takeOnce(cmd)
	if accept := cmd.Args; accept != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := accept(cmd, args); err != nil {
				return wrongArguments(cmd, args, err)
			}
			// Here, and not when the command begins: a name that is wrong is
			// reported before a flag that is missing.
			err := p.checkNames(cmd, args)
			p.started = err != nil
			return err
		}
	}
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p.started = true
		return run(cmd, args)
	}
}

// run executes one command line and names whatever went wrong.
func (p *program) run(ctx context.Context, args []string) (err error) {
	defer func() {
		// An unrecovered panic exits with 2, which here means that the caller
		// asked wrongly. It is our fault, so it must not look like theirs.
		if r := recover(); r != nil {
			p.started = true
			if !p.env.JSON {
				io.WriteString(p.env.Stderr, plain.Block(string(debug.Stack())))
			}
			err = refusal.Newf(refusal.Failed, "internal error: %v", r).
				WithHint("this is a bug in tally; please report it with everything printed above")
		}
	}()

	p.root.SetArgs(append([]string{}, args...)) // never nil: nil means os.Args
	cmd, err := p.root.ExecuteContextC(ctx)
	p.ran = cmd
	defer func() {
		if err != nil {
			err = explained(cmd, err)
		}
	}()
	switch {
	case p.misdirected != nil:
		return p.misdirected
	case err == nil:
		return p.flush()
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return stoppedBySignal(cmd.CommandPath())
	case !p.started:
		return usage(cmd, err)
	default:
		return err
	}
}

// flush prints what the flag library wrote. It is an answer like any other, so
// with --json it is one document.
func (p *program) flush() error {
	if p.text.Len() == 0 {
		return nil
	}
	text := p.text.String()
	answer := struct {
		Text string `json:"text"`
	}{text}
	return p.env.Answer(answer, func(w io.Writer) { io.WriteString(w, text) })
}

// printError is the one place where a refusal reaches a person or a script.
func (e *Env) printError(err error) {
	r := refusal.Of(err)
	if e.JSON {
		doc, _ := encode(struct {
			Error string       `json:"error"`
			Name  refusal.Name `json:"name"`
			Hint  string       `json:"hint"`
			Code  int          `json:"code"`
		}{r.Error(), r.Name, r.Hint, refusal.ExitCode(err)})
		e.Stderr.Write(doc)
		return
	}
	if a := (*dossier.Alarm)(nil); errors.As(err, &a) {
		block := plain.Block(a.Block)
		if first, rest, ok := strings.Cut(block, "\n"); ok {
			block = bad.of(first) + "\n" + rest
		}
		e.Stderr.Write(paint([]byte(block), e.Color(e.Stderr)))
	}
	text := fmt.Sprintf("tally: %s %s\n", bad.of("error:"), plain.Lines(r.Error(), said))
	if r.Hint != "" {
		text += fmt.Sprintf("tally: %s %s\n", heading.of("hint:"), plain.Lines(r.Hint, said))
	}
	e.Stderr.Write(paint([]byte(text), e.Color(e.Stderr)))
}
