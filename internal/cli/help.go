package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tallystick/internal/record/refusal"
)

// firstDay are the commands that a person needs on the first day.
var firstDay = []string{"init", "try", "run", "why", "view"}

// rootHelp lists the groups of commands, a line for each command.
func rootHelp(w io.Writer, root *cobra.Command) {
	fmt.Fprintf(w, "%s\n\nUsage: tally COMMAND [flags]\n", root.Long)
	for _, g := range root.Groups() {
		fmt.Fprintf(w, "\n%s\n", g.Title)
		for _, cmd := range root.Commands() {
			if cmd.GroupID != g.ID || cmd.Hidden {
				continue
			}
			mark := " "
			if slices.Contains(firstDay, cmd.Name()) {
				mark = "*"
			}
			fmt.Fprintf(w, " %s%-10s %s\n", mark, cmd.Name(), cmd.Short)
		}
	}
	fmt.Fprintf(w, "\n* is for the first day. \"tally help COMMAND\" has more, \"tally help topics\" the rest.\n\nFlags of every command:\n%s", root.PersistentFlags().FlagUsages())
}

// seldomUsed marks flags that help shows only with --all.
const seldomUsed = "seldom used"

// seldom leaves flags out of the help of a command, unless --all is given with it.
func seldom(cmd *cobra.Command, names ...string) {
	cmd.Flags().Bool("all", false, "with --help: show every flag")
	for _, name := range names {
		if err := cmd.Flags().SetAnnotation(name, seldomUsed, nil); err != nil {
			panic(err) // the flag is declared before
		}
	}
}

// withoutSeldom calls show while the flags that are seldom used are hidden, and says
// how many there are.
func withoutSeldom(cmd *cobra.Command, show func()) {
	all := cmd.Flags().Lookup("all")
	if all == nil || all.Changed {
		show()
		return
	}
	hidden := 0
	set := func(hide bool) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if _, ok := f.Annotations[seldomUsed]; ok {
				f.Hidden = hide
				hidden++
			}
		})
	}
	set(true)
	show()
	fmt.Fprintf(cmd.OutOrStdout(), "\n%d more flags: %s --help --all\n", hidden, cmd.CommandPath())
	set(false)
}

// A topic is a page of help that belongs to no single command.
type topic struct {
	name, short string
	text        func() string
}

var topics = []topic{
	{"addresses", "how to name an attempt or a case", addressesTopic},
	{"start", "from nothing to a first result", startTopic},
	{"offline", "what is asked of a model, and when it is paid", offlineTopic},
	{"levels", "scratch, signed, pinned, witnessed, reproduced", levelsTopic},
	{"proofs", "what a stranger can check, and how", proofsTopic},
	{"workspace", "the files of a workspace", workspaceTopic},
	{"ci", "gates, reports and exit codes in CI", ciTopic},
	{"exit-codes", "what each exit code means", exitCodesTopic},
	{"forks", "what to do when a ledger contradicts its past", forksTopic},
	{"refusals", "every named refusal and its exit code", refusalsTopic},
}

// newHelp replaces the flag library's help command, which answers an unknown
// topic with exit code 0.
func newHelp(root *cobra.Command) *cobra.Command {
	var long strings.Builder
	long.WriteString("Show help for a command, or one of these topics (\"tally help topics\"):\n")
	for _, t := range topics {
		fmt.Fprintf(&long, "\n  %-12s %s", t.name, t.short)
	}
	return &cobra.Command{
		Use:     "help [COMMAND... | TOPIC]",
		Short:   "Help for a command or a topic",
		Example: "tally help run",
		Long:    long.String(),
		Args:    cobra.ArbitraryArgs,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return helpCompletions(root, args), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runHelp(cmd.OutOrStdout(), root, args)
		},
	}
}

func runHelp(w io.Writer, root *cobra.Command, args []string) error {
	if len(args) == 1 && args[0] == "topics" {
		for _, t := range topics {
			fmt.Fprintf(w, "%-12s %s\n", t.name, t.short)
		}
		_, err := fmt.Fprintln(w, "\nOne of them: tally help TOPIC")
		return err
	}
	if len(args) == 1 {
		for _, t := range topics {
			if t.name == args[0] {
				_, err := io.WriteString(w, t.text())
				return err
			}
		}
	}
	cmd := root
	for _, name := range args {
		sub := subcommand(cmd, name)
		if sub == nil {
			return unknownTopic(cmd, name)
		}
		cmd = sub
	}
	cmd.InitDefaultHelpFlag()
	return cmd.Help()
}

func subcommand(cmd *cobra.Command, name string) *cobra.Command {
	for _, sub := range cmd.Commands() {
		if sub.Name() == name || sub.HasAlias(name) {
			return sub
		}
	}
	return nil
}

func unknownTopic(parent *cobra.Command, name string) error {
	known := commandNames(parent)
	if !parent.HasParent() {
		for _, t := range append([]topic{{name: "topics"}}, topics...) {
			known = append(known, t.name)
		}
	}
	return refusal.Newf(refusal.Usage, "no help for %q in %q", name, parent.CommandPath()).
		Suggest(name, known, "list commands and topics with %q", "tally help help")
}

func helpCompletions(root *cobra.Command, args []string) []cobra.Completion {
	cmd := root
	for _, name := range args {
		if cmd = subcommand(cmd, name); cmd == nil {
			return nil
		}
	}
	var found []cobra.Completion
	for _, sub := range cmd.Commands() {
		if !sub.Hidden {
			found = append(found, cobra.CompletionWithDesc(sub.Name(), sub.Short))
		}
	}
	if cmd == root {
		for _, t := range topics {
			found = append(found, cobra.CompletionWithDesc(t.name, t.short))
		}
	}
	return found
}

// filled breaks a paragraph of help that is made of a table into lines.
func filled(width int, paragraph string) string {
	var b strings.Builder
	line := 0
	for _, word := range strings.Fields(paragraph) {
		switch {
		case line == 0:
		case line+1+len(word) > width:
			b.WriteByte('\n')
			line = 0
		default:
			b.WriteByte(' ')
			line++
		}
		b.WriteString(word)
		line += len(word)
	}
	return b.String()
}

func addressesTopic() string {
	return `An attempt is addressed by
  its id              support.support~v2.6
  a unique beginning  support.support~v2
  its number          6      in its class; --class and --target narrow it
  class and number    support.6
  latest, latest~2    the newest, and two before it
  its name            "prompt v9", which "tally name" gave it

A case is addressed as ATTEMPT:CASE, with any of these before the colon:
  tally why latest:refund-7

Whatever was typed, the ledger is verified first and answers show the id.
`
}

func startTopic() string {
	return `  tally try --case 'ping=ping' -- cat     any program, a few cases, nothing recorded
  tally init --agent "python agent.py"    a workspace around your agent
  tally run CLASS                         every case, recorded
  tally why CASE                          why a case failed
  tally view                              the same in a browser

docs/tutorial.md goes on from there.
`
}

func offlineTopic() string {
	return `A run answers model and tool calls from recordings and goes to no network.
"tally record" makes recordings from live models. "tally run --live" is an attempt
against live models whose recording goes to the evidence. "--cache" uses what earlier
live attempts of the class and target have. --max-cost ends either in time.

Exit code 5 says that an offline run would have had to ask a model something new: there
is no score, and nothing to compare.
`
}

func levelsTopic() string {
	return `What is known of an attempt, each computed by the verifier and never claimed:
  scratch     nothing was signed; it never counts
  signed      two people signed the bench; "by examples" if they came with "tally init"
  pinned      two people signed for this ledger and its first entry
  witnessed   a cosigned checkpoint covered the registration before the first case ran
  reproduced  another runner ran it again from its evidence and got the same

--require-level of run and gate asks for them. "tally promote recommend" says what a tier
needs.
`
}

func proofsTopic() string {
	return `"tally export ATTEMPT --format receipt" proves how an attempt or a case ended;
"--format bundle" holds what was done in a case, "--format submission" a whole attempt for a
leaderboard, "--format html" a page that checks itself, "--format vc" a W3C credential.

"tally verify FILE" recognises each of them. A stranger uses tally-verify, which needs
nothing but the ledger's key, or docs/formats/verify.py, or verify.html in a browser.
`
}

func workspaceTopic() string {
	return `  tally.yaml                 settings
  signers/allowed_signers    who may sign what
  bench/CLASS/               registration, cases, rubric, manifest; signed by two people
  targets/NAME.yaml          the agent under test
  cassettes/, golden/        recordings, and traces to compare with
  audit/anchors/             published heads of the ledger, meant for git
  .tally/                    ledger, evidence, keys: private, not for git

The nearest parent folder with tally.yaml is the workspace; --workspace names another.
`
}

func ciTopic() string {
	return `  tally run CLASS --junit report.xml     exit 4 if the gate of the registration is not met
  tally gate ATTEMPT --require-level signed
  tally run CLASS --baseline latest --markdown comment.md

No run goes to the network by itself. docs/ci.md has the whole files for GitHub and GitLab,
and the fence that keeps a pull request from changing them.
`
}

func exitCodesTopic() string {
	return exitCodes() + `
The name of a refusal decides the code; see "tally help refusals". Codes are
never renumbered, so CI can tell "worse" (4) from "forged" (3).
`
}

func forksTopic() string {
	return `HistoryRolledBack: the ledger is shorter than something that was signed or published
before. An older copy was put back, or entries were cut off its end.
HistoryForked: the ledger has other entries than something that was signed or
published before. History was rewritten, or this is a different ledger.

Nothing was written to the ledger, and tally signs nothing more in it. What was
known is this machine's memory, an anchor or a cosigner; the message says which.

There is no ledger here at all ("found: 0 entries"): .tally is not in git, so a second
clone has none, and two clones that each append would be two histories of one origin.
Copy .tally/ledger and .tally/evidence from where the ledger is kept, and append in
one place only; or give the clone a ledger of its own, "tally init --origin NAME" in
a new folder. If the ledger was here, what follows is for you.

What to do:
  1. Keep the folder as it is. Both tree heads are in .tally/evidence/fork-*.json,
     and every refusal is in .tally/alarms.jsonl.
  2. Find the copy that contains what was published: compare each with the anchors
     in git, "tally ledger anchor verify --copy DIR".
  3. If you put an old copy back yourself, restore the newest one instead. If no copy
     has the missing entries, they are lost: begin a ledger of another origin, and
     say so where the anchors are published.
`
}

func refusalsTopic() string {
	var b strings.Builder
	b.WriteString("Every refusal has a name that never changes. With --json it is the field \"name\"\nof the error.\n")
	exit := -1
	for _, row := range refusal.Table() {
		if row.Exit != exit {
			exit = row.Exit
			fmt.Fprintf(&b, "\nExit code %d:\n", exit)
		}
		fmt.Fprintf(&b, "  %-24s %s\n", row.Name, row.Meaning)
	}
	return b.String()
}
