package lab

import (
	"strings"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/workspace"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/suites"
)

// FindTarget finds the agent under test. Of a shipped class it is one that came
// with it or, if there is none of that name, one of the workspace: people want to
// see how their own agent does.
func FindTarget(c *dossier.Corpus, class, name string) (*agent.Target, error) {
	all, err := findVariants(c, class, name)
	if err != nil {
		return nil, err
	}
	if len(all) > 1 {
		var short []string
		for _, t := range all {
			short = append(short, bench.ShortTarget(t.Name))
		}
		// The name that was asked for may be the default, which need not exist.
		base, _, _ := strings.Cut(all[0].Name, "[")
		return nil, refusal.Newf(refusal.Usage, "target %s has %d variants, and one is needed: %s", base, len(all), strings.Join(short, ", ")).
			WithHint("name one of them, as in --target %s", plain.ShellWord(all[0].Name))
	}
	return all[0], nil
}

// findVariants is FindTarget for all the variants that the name stands for.
func findVariants(c *dossier.Corpus, class, name string) ([]*agent.Target, error) {
	if !bench.IsShipped(class) {
		return agent.LoadAll(c.Root, onlyTarget(c, name))
	}
	t, err := suites.Target(name)
	if t == nil && err == nil {
		all, err := agent.LoadAll(c.Root, name)
		if refusal.Is(err, refusal.UnknownName) {
			err = refusal.Newf(refusal.UnknownName, "%w", err).Suggest(name, append(suites.Targets(), agent.Names(c.Root)...),
				"with %s come %s; one of your own is a file, and docs/agents.md shows one of each kind", class, strings.Join(suites.Targets(), ", "))
		}
		return all, err
	}
	if workspace.Exists(c.Path(agent.TargetsDir, name+".yaml")) {
		c.Note("target %s is the one that comes with %s; give yours another name to run it", name, class)
	}
	return []*agent.Target{t}, err
}

// onlyTarget is the one target of a workspace, where the caller named no other and
// there is no default: nothing else can be meant.
func onlyTarget(c *dossier.Corpus, name string) string {
	names := agent.Names(c.Root)
	if name == agent.DefaultTarget && len(names) == 1 {
		return names[0]
	}
	return name
}
