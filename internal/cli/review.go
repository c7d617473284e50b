package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/read/dossier"
	"tallystick/internal/read/history"
	"tallystick/internal/read/review"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
)

type reviewOptions struct {
	review.Ask
	key, gpg     string
	export, from string
	report       bool
	again        bool
	showHeldOut  bool
}

func newReview(env *Env) *cobra.Command {
	var o reviewOptions
	cmd := &cobra.Command{
		Use:     "review CLASS|ATTEMPT (--key FILE | --gpg KEY | --export FILE | --report)",
		Short:   "Look at cases as a person, and sign what you think of them",
		Example: "tally review latest --only failing --key ~/.ssh/id_ed25519",
		Long: `Show the cases of an attempt one after the other, ask for a label and a note, and record
each answer at once with your signature. CLASS means its newest attempt. The question and
the labels are those of "review" in the registration; without it, "Is the answer right?"
with pass and fail. Enter skips a case; q or Ctrl-C leaves, and what was answered stays.

A label stands beside the score and changes none: "tally review correct" does. --blind hides
automatic scores, judges' texts and what other people said. The signer is in the signers
file as a curator or with the security role. A second label of the same person takes the
place of the first, and both stay in the ledger.

--only chooses cases: failing; unscored; disputed, where votes of a judge or labels of
people differ; unsure, where a judge gave 0.25 to 0.75. --sample N draws that many by
--seed, so that every reader draws the same.

Without a terminal: --export writes the queue as JSON lines; fill in "label" and "note" of
some of them, and --from signs and records them: all of them, or none.

--report says how many were labelled, how far two people agree (Cohen's kappa) and how far
each agrees with the automatic outcome.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Name = args[0]
			if o.Sample > 0 != cmd.Flags().Changed("seed") {
				return refusal.Newf(refusal.Usage, "--sample and --seed go together: the seed says which cases are drawn")
			}
			return runReview(cmd.Context(), env, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.key, "key", "", "SSH key `FILE` of the person who looks at the cases")
	f.StringVar(&o.gpg, "gpg", "", gpgFlag)
	f.StringVar(&o.Only, "only", review.All, "which cases: "+strings.Join(review.Choices(), ", "))
	f.IntVar(&o.Sample, "sample", 0, "draw `N` of them; needs --seed")
	f.StringVar(&o.Seed, "seed", "", "the seed `S`, any text, that decides the draw")
	f.BoolVar(&o.Blind, "blind", false, "hide automatic scores, judges' texts and other people's labels")
	f.BoolVar(&o.again, "again", false, "also show cases that you labelled before")
	f.StringVar(&o.export, "export", "", "write the queue to this `FILE` as JSON lines")
	f.StringVar(&o.from, "from", "", "record the labels in this `FILE`, lines of an exported queue")
	f.BoolVar(&o.report, "report", false, "how far people got, and how far they agree")
	addHeldOutFlag(cmd, &o.showHeldOut)
	cmd.AddCommand(newCorrect(env))
	return cmd
}

func runReview(ctx context.Context, env *Env, o reviewOptions) error {
	if err := o.check(env); err != nil {
		return err
	}
	c, err := openRecorded(env, dossier.Ask{ShowHeldOut: o.showHeldOut})
	if err != nil {
		return err
	}
	defer c.Close()
	if o.report {
		report, err := review.Report(c.Reading, o.Name)
		if err != nil {
			return err
		}
		return env.Answer(report, report.Print)
	}
	queue, err := review.Open(c.Reading, o.Ask)
	if err != nil {
		return err
	}
	if queue.HeldOut > 0 {
		env.Note("%s left out; --show-held-out shows them", plain.Plural(queue.HeldOut, "held-out case"))
	}
	if o.export != "" {
		return exportQueue(env, queue, o.export)
	}
	person, err := ceremony.NewReviewer(c, ceremony.Pen{Key: o.key, GPG: o.gpg})
	if err != nil {
		return err
	}
	if o.from != "" {
		return labelFrom(ctx, env, person, queue, o.from)
	}
	return reviewAtTerminal(ctx, env, person, queue, o.again)
}

// check refuses what does not go together.
func (o *reviewOptions) check(env *Env) error {
	signs := o.key != "" || o.gpg != ""
	switch {
	case o.Sample < 0:
		return refusal.Newf(refusal.Usage, "--sample %d: expected 1 or more", o.Sample)
	case o.key != "" && o.gpg != "":
		return refusal.Newf(refusal.Usage, "--key and --gpg are two people's; one person labels")
	case o.report && (o.export != "" || o.from != "" || signs), o.export != "" && (o.from != "" || signs):
		return refusal.Newf(refusal.Usage, "--report and --export write what there is: they take no key, and no --from")
	case o.report || o.export != "":
		return nil
	case !signs:
		return refusal.Newf(refusal.Usage, "the labels have no signer").WithHint("give --key FILE or --gpg KEY; --export and --report need neither")
	case o.from == "" && !env.Interactive():
		return refusal.Newf(refusal.Usage, "there is no terminal to ask at").
			WithHint("write the queue with --export FILE, fill in the labels, and record them with --from FILE")
	}
	return nil
}

type exportedQueue struct {
	Attempt string `json:"attempt"`
	Cases   int    `json:"cases"`
	HeldOut int    `json:"held_out"` // left out
	Blind   bool   `json:"blind"`
	File    string `json:"file"`
}

func exportQueue(env *Env, q *review.Queue, file string) error {
	var lines bytes.Buffer
	for _, c := range q.Cases {
		item, err := q.Item(c)
		if err != nil {
			return err
		}
		line, err := encode(item)
		if err != nil {
			return err
		}
		lines.Write(line)
	}
	if err := dossier.WriteOutput(file, lines.Bytes()); err != nil {
		return err
	}
	a := exportedQueue{q.Attempt.ID, len(q.Cases), q.HeldOut, q.Blind, file}
	return env.Answer(a, func(out io.Writer) {
		fmt.Fprintf(out, "Wrote %s of %s to %s.\n", plain.Plural(a.Cases, "case"), plain.Line(a.Attempt), plain.Line(file))
		fmt.Fprintf(out, "Fill in \"label\" (%s) and \"note\", then: tally review %s --from %s --key FILE\n", plain.Line(strings.Join(q.Scale.Names(), ", ")), plain.Line(a.Attempt), plain.Line(file))
	})
}

type labelledAnswer struct {
	Attempt string              `json:"attempt"`
	By      string              `json:"by"`
	Labels  []ceremony.Labelled `json:"labels"`
}

func labelFrom(ctx context.Context, env *Env, person *ceremony.Reviewer, q *review.Queue, file string) error {
	data, err := dossier.ReadInput(file, ceremony.MaxReviewFile)
	if err != nil {
		return err
	}
	labels, err := person.LabelFrom(ctx, q, file, data)
	if err != nil {
		return err
	}
	return env.Answer(labelledAnswer{q.Attempt.ID, person.Name, labels}, func(out io.Writer) { labelledText(out, q, person, labels) })
}

func labelledText(out io.Writer, q *review.Queue, person *ceremony.Reviewer, labels []ceremony.Labelled) {
	for _, l := range labels {
		again := ""
		if l.Number > 1 {
			again = fmt.Sprintf(", label %d: it takes the place of the earlier one", l.Number)
		}
		fmt.Fprintf(out, "%s%s  %s, entry %d%s\n", plain.Line(l.Case), history.RepeatMark(l.Repeat), plain.Line(l.Label), l.Index, again)
	}
	fmt.Fprintf(out, "%s signed by %s. How people agree: tally review %s --report\n", plain.Plural(len(labels), "label"), plain.Line(person.Name), plain.Line(q.Attempt.ID))
}

// reviewAtTerminal shows one case after the other. Each label is recorded before the
// next case is shown, so leaving loses nothing.
func reviewAtTerminal(ctx context.Context, env *Env, person *ceremony.Reviewer, q *review.Queue, again bool) error {
	ask := review.NewQuestioner(ctx, env.Stdin, env.Stderr)
	var labels []ceremony.Labelled
	left := false
	for i, c := range q.Cases {
		if !again && person.Has(c) {
			continue
		}
		item, err := q.Item(c)
		if err != nil {
			return err
		}
		fmt.Fprintf(env.Stderr, "\n=== case %d of %d\n", i+1, len(q.Cases))
		reviewItemText(env.Stderr, item)
		label, note, ok := ask.Label(q.Scale.Names())
		if left = !ok; left {
			break
		}
		if label == "" {
			continue
		}
		done, err := person.Label(ctx, q, c, label, note)
		if err != nil {
			return err
		}
		labels = append(labels, *done)
		fmt.Fprintf(env.Stderr, "recorded as entry %d\n", done.Index)
	}
	if len(labels) == 0 && !left {
		env.Note("no case is left to look at; --again shows those that you labelled before")
	}
	return env.Answer(labelledAnswer{q.Attempt.ID, person.Name, append([]ceremony.Labelled{}, labels...)}, func(out io.Writer) { labelledText(out, q, person, labels) })
}

func reviewItemText(out io.Writer, item *review.Item) {
	fmt.Fprintf(out, "case     %s%s of %s\n", plain.Line(item.Case), history.RepeatMark(item.Repeat), plain.Line(item.Attempt))
	for _, asked := range item.Asked {
		fmt.Fprintf(out, "asked    %s\n", plain.Lines(asked, said))
	}
	for _, step := range item.Steps {
		fmt.Fprintf(out, "  %s\n", plain.Line(step))
	}
	for _, path := range item.Changed {
		fmt.Fprintf(out, "changed  %s\n", plain.Line(path))
	}
	fmt.Fprintf(out, "answer   %s\n", plain.Lines(item.Answer, said))
	if m := item.Machine; m != nil {
		fmt.Fprintf(out, "scored   %s %s\n", plain.Line(m.Outcome), scoreText(m.Score))
		for _, b := range m.Corrected {
			fmt.Fprintf(out, "beside   %s\n", plain.Line(b.Text()))
		}
		printChecks(out, m.Checks)
		for _, l := range m.People {
			fmt.Fprintf(out, "person   %s said %s %s\n", plain.Line(l.By), plain.Line(l.Label), plain.Line(l.Note))
		}
	}
	fmt.Fprintf(out, "%s\n", plain.Line(item.Question))
}
