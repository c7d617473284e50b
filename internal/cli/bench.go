package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/bench"
)

func newBench(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "bench",
		Short:   "Cases, rubrics and registrations that two people sign",
		Example: "tally bench verify --all",
		Long: `A task class lives in bench/CLASS: cases, a rubric, a registration. Two people
sign each case, two sign the class as a whole, one of them with the security role:

  tally bench new CLASS            a small real example to start from
  tally bench add CLASS ID         a new case to fill in
  tally bench digest CLASS         pin what is there
  tally bench sign CLASS --key K   each person signs what waits for them
  tally bench verify CLASS         exit 0, or 3 and what is wrong

"bench new --scratch" makes a class that needs no signatures and never counts.`,
	}
	cmd.AddCommand(newBenchNew(env), newBenchAdd(env), newBenchImport(env), newBenchMine(env), newBenchSuites(env), newBenchDigest(env), newBenchSign(env), newBenchVerify(env),
		newBenchPending(env), newBenchAccept(env), newBenchList(env), newBenchFence(env))
	return cmd
}

// addTrustRootFlag is for the commands that CI calls.
func addTrustRootFlag(cmd *cobra.Command, trustRoot *string) {
	cmd.Flags().Var((*givenText)(trustRoot), "trust-root", "require this trust root, a `DIGEST` kept outside the checkout")
}

// givenText is the value of a flag that may be left out and may not be empty: a CI
// system puts nothing in the place of a variable that is not set, and the check
// that the flag asks for would be left out unnoticed.
type givenText string

func (g *givenText) String() string { return string(*g) }

// Type is what pflag's own flags with a text say.
func (g *givenText) Type() string { return "string" }

// Set takes the text that was given.
func (g *givenText) Set(text string) error {
	if text == "" {
		return errors.New("it is empty; is the variable set that it comes from?")
	}
	*g = givenText(text)
	return nil
}

// A missingList is what a class still lacks, in answers.
type missingList []bench.Missing

// MarshalJSON writes an empty list as one, so that a script can count it.
func (m missingList) MarshalJSON() ([]byte, error) {
	return json.Marshal(append([]bench.Missing{}, m...))
}

func (m missingList) print(out io.Writer) {
	for _, x := range m {
		fmt.Fprintf(out, "  missing  %s: %s\n", plain.Line(x.What), plain.Line(strings.TrimPrefix(x.Why, x.What+": ")))
		if len(x.Who) > 0 {
			fmt.Fprintf(out, "           may sign: %s\n", plain.Line(strings.Join(x.Who, ", ")))
		}
	}
}

func newBenchList(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:     "list [CLASS]",
		Short:   "List the classes, or the cases of one; verifies nothing",
		Example: "tally bench list support",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			class := ""
			if len(args) == 1 {
				class = args[0]
			}
			return runBenchList(cmd.Context(), env, class)
		},
	}
}

type listedClass struct {
	Class   string      `json:"class"`
	Trust   bench.Trust `json:"trust,omitempty"`
	Tier    bench.Tier  `json:"current_tier,omitempty"`
	Cases   int         `json:"cases"`
	Lines   int         `json:"dataset_lines"`
	Pending int         `json:"pending"`
	Rubric  string      `json:"rubric,omitempty"`
	Error   string      `json:"error,omitempty"`
	List    []listedRow `json:"list,omitempty"`
}

type listedRow struct {
	ID          string            `json:"id"`
	Title       string            `json:"title"`
	Disposition bench.Disposition `json:"disposition"`
	HeldOut     bool              `json:"held_out"`
	Pending     bool              `json:"pending"`
}

func runBenchList(_ context.Context, env *Env, only string) error {
	w, err := openPlace(env)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(w.Dir)
	if err != nil {
		return refusal.Newf(refusal.Unreadable, "opening the workspace: %w", err)
	}
	defer root.Close()
	classes := []string{only}
	if only == "" {
		if classes, err = bench.Classes(root); err != nil {
			return err
		}
	}
	answer := []listedClass{}
	for _, class := range classes {
		d, err := bench.Load(root, class)
		if err != nil && only != "" {
			return err
		}
		answer = append(answer, listClass(class, d, err, only != ""))
	}
	return env.Answer(map[string]any{"classes": answer}, func(out io.Writer) {
		if len(answer) == 0 {
			fmt.Fprintln(out, `no classes; "tally bench new CLASS" makes one`)
		}
		for _, c := range answer {
			c.print(out)
		}
	})
}

func listClass(class string, d *bench.Draft, err error, withCases bool) listedClass {
	if err != nil {
		return listedClass{Class: class, Error: err.Error()}
	}
	l := listedClass{Class: class, Trust: d.Registration.Trust, Tier: d.Registration.CurrentTier, Cases: len(d.Cases), Pending: len(d.PendingIDs()), Rubric: d.Rubric.Main}
	if d.Dataset != nil {
		l.Lines = len(d.Dataset.Lines)
	}
	if !withCases {
		return l
	}
	for _, c := range d.Cases {
		l.List = append(l.List, listedRow{c.CaseID, c.Title, c.Disposition, c.IsHeldOut(), false})
	}
	for _, id := range d.PendingIDs() {
		if c, err := d.Pending(id); err == nil {
			l.List = append(l.List, listedRow{id, c.Title, c.Disposition, c.IsHeldOut(), true})
		} else {
			l.List = append(l.List, listedRow{ID: id, Title: err.Error(), Pending: true})
		}
	}
	return l
}

func (l listedClass) print(out io.Writer) {
	if l.Error != "" {
		fmt.Fprintf(out, "%-28s unreadable: %s\n", plain.Line(l.Class), plain.Line(l.Error))
		return
	}
	fmt.Fprintf(out, "%-28s %-8s %-8s %s, %d pending, %s\n", plain.Line(l.Class), l.Trust, l.Tier, caseCount(l.Cases, l.Lines), l.Pending, cmp.Or(l.Rubric, "no rubric"))
	for _, c := range l.List {
		note := ""
		if c.HeldOut {
			note += " held out"
		}
		if c.Pending {
			note += " PENDING: never scored"
		}
		fmt.Fprintf(out, "  %-26s %-9s %s%s\n", plain.Line(c.ID), c.Disposition, plain.Line(c.Title), note)
	}
}
