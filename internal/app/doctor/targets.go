package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/app/lab"
	"tallystick/internal/read/dossier"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/sandbox"
)

// runs looks at what "tally run" would need of every class and target: that the agent
// starts in its sandbox, that its model calls are answered, and, where they are not, that a
// model can be asked and what that may cost. Agents are started as a run starts them;
// nothing is sent and nothing recorded.
func runs(ctx context.Context, p *dossier.Place, works []sandbox.Class) []Check {
	world := p.World
	world.Note = func(string, ...any) {} // what a run would note is not about the machine
	quiet, err := dossier.Open(p.Dir, world)
	if err != nil {
		return nil // it was opened a moment ago; the next command says why not
	}
	c, err := quiet.OpenCorpus()
	if err != nil {
		return nil // the benches say it
	}
	defer c.Close()
	classes, err := ceremony.EveryClass(c)
	if err != nil || len(classes) == 0 {
		return nil
	}
	e := examined{c: c, works: works, started: map[string]bool{}}
	for _, class := range classes {
		for _, target := range targetsOf(c, class) {
			e.run(ctx, class, target)
		}
	}
	for _, target := range lab.TargetNames(c) {
		if _, tried := e.started[target]; !tried {
			e.unused(ctx, classes, target)
		}
	}
	return e.checks
}

// An examined is what was found of targets until now.
type examined struct {
	c       *dossier.Corpus
	works   []sandbox.Class
	checks  []Check
	started map[string]bool // of the targets that were tried, whether they start
}

// run looks at a target of a class, and at its recordings.
func (e *examined) run(ctx context.Context, class, target string) {
	variants, err := lab.Ready(e.c, class, target)
	if err != nil {
		if _, tried := e.started[target]; !tried {
			e.started[target] = false
			e.checks = append(e.checks, unready(class, target, err))
		}
		return
	}
	if check, ok := isolation(variants[0], e.works); ok {
		e.checks = append(e.checks, check)
		if !check.OK {
			return
		}
	}
	e.start(ctx, target, variants[0])
	for _, r := range variants {
		if e.started[target] {
			if err := r.Drive(ctx); err != nil {
				e.checks = append(e.checks, failed("recordings "+class+"/"+r.Setup.Target.Name, err, "see tally run "+class))
				continue
			}
		}
		e.checks = append(e.checks, recordings(class, r)...)
	}
}

// start tries once whether a target starts. Of variants the first: they differ in values,
// not in how they start.
func (e *examined) start(ctx context.Context, target string, r *lab.Readiness) {
	if _, tried := e.started[target]; !tried {
		check := starts(ctx, target, r)
		e.started[target], e.checks = check.OK, append(e.checks, check)
	}
}

// unused looks at a target that no class has recordings of. Which class it is meant for is
// not known: it is started with the first that it fits, its models are looked at for the
// first that needs any, and nothing is said of recordings.
func (e *examined) unused(ctx context.Context, classes []string, target string) {
	var unfit error
	var last []*lab.Readiness
	for _, class := range classes {
		variants, err := lab.Ready(e.c, class, target)
		if err != nil {
			unfit = err
			continue
		}
		e.start(ctx, target, variants[0])
		if last = variants; !e.started[target] || asksModels(ctx, variants[0]) {
			break
		}
	}
	if last == nil {
		e.checks = append(e.checks, unready(classes[0], target, unfit))
	}
	for _, r := range last {
		name := "models " + r.Setup.Target.Name
		if len(r.Missing) == 0 {
			e.checks = append(e.checks, Check{name, true, "none is needed", ""})
		} else if err := r.Models(); err != nil {
			e.checks = append(e.checks, failed(name, err, "correct providers.yaml"))
		} else {
			e.checks = append(e.checks, Check{name, true, modelsThere(r), ""})
		}
	}
}

// asksModels reports whether a target asks models something that nothing answers.
func asksModels(ctx context.Context, r *lab.Readiness) bool {
	return r.Drive(ctx) != nil || len(r.Missing) > 0
}

// modelsThere says what is there of models, and no more than is known.
func modelsThere(r *lab.Readiness) string {
	if r.Setup.Target.Command != nil {
		return "an endpoint and its key are there; which models the program asks is not known before it runs"
	}
	return "endpoint, key and price are there"
}

// targetsOf are the target that a class is run by if none is named, and those that it has
// recordings of.
func targetsOf(c *dossier.Corpus, class string) []string {
	names := []string{lab.UsedBy(c)}
	for _, name := range lab.TargetNames(c) {
		if name != names[0] && (len(names) == 1 && !slices.Contains(lab.TargetNames(c), names[0]) || lab.HasRecordings(c, class, name)) {
			names = append(names, name)
		}
	}
	if !slices.Contains(lab.TargetNames(c), names[0]) && len(names) > 1 {
		names = names[1:] // no target is the default: those that there are
	}
	return names
}

// unready is a target that cannot be opened, or a class that it does not fit.
func unready(class, target string, err error) Check {
	name := "target " + target
	if r := refusal.Of(err); r.Name == refusal.Usage && strings.Contains(r.Error(), "touches no network") {
		return Check{name, true, "not started: " + r.Error(), ""}
	}
	return failed(name, err, "correct targets/"+target+".yaml")
}

func starts(ctx context.Context, target string, r *lab.Readiness) Check {
	name := "target " + target
	if err := r.Starts(ctx); err != nil {
		return failed(name, err, fmt.Sprintf("correct %s, or what it starts", r.Setup.Target.File()))
	}
	return Check{name, true, "starts, tried with class " + r.Setup.Bench.Class(), ""}
}

// isolation compares the classes of the registration with those that work here, for a
// class that needs a sandbox.
func isolation(r *lab.Readiness, works []sandbox.Class) (Check, bool) {
	signed := r.Setup.Bench.Registration().Isolation
	if r.Setup.Target.Command == nil && r.Setup.Bench.Rubric().Main == "" || len(signed.Classes) == 0 || signed.AllowWeaker {
		return Check{}, false
	}
	class := r.Setup.Bench.Class()
	name := "sandbox of " + class
	if slices.ContainsFunc(works, func(c sandbox.Class) bool { return slices.Contains(signed.Classes, string(c)) }) {
		return Check{name, true, "one of " + strings.Join(signed.Classes, ", ") + " works here", ""}, true
	}
	return Check{name, false, fmt.Sprintf("class %s accepts %s, and of these none works here", class, strings.Join(signed.Classes, ", ")),
		fmt.Sprintf("tally sandbox probe   # says what each lacks; or add a class that works to isolation: classes: in bench/%s/registration.yaml, and sign", class)}, true
}

// recordings tells which cases no recording answers, and whether they can be recorded.
func recordings(class string, r *lab.Readiness) []Check {
	target := r.Setup.Target.Name
	name := "recordings " + class + "/" + target
	if len(r.Missing) == 0 {
		return []Check{{name, true, fmt.Sprintf("all of %s are answered without a model", plain.Plural(r.Cases, "case")), ""}}
	}
	const most = 5
	shown := strings.Join(r.Missing[:min(most, len(r.Missing))], ", ")
	if more := len(r.Missing) - most; more > 0 {
		shown += fmt.Sprintf(" and %d more", more)
	}
	price := "what they cost is not known, because no case of it is recorded"
	if r.Recorded > 0 {
		all := r.Each
		all.MicroUSD *= int64(len(r.Missing))
		price = fmt.Sprintf("about %s, by the %s that are recorded", all, plain.Plural(r.Recorded, "case"))
	}
	checks := []Check{{name, false, fmt.Sprintf("%d of %s are not recorded: %s; %s", len(r.Missing), plain.Plural(r.Cases, "case"), shown, price), r.RecordCommand()}}
	models := "models " + class + "/" + target
	if err := r.Models(); err != nil {
		return append(checks, failed(models, err, "correct providers.yaml"))
	}
	return append(checks, Check{models, true, modelsThere(r), ""})
}
