package grade

import (
	"tallystick/internal/record/digest"
	"tallystick/internal/run/extract"
)

// A ProgramSpec is the suite's own program that grades: what is started, and what it finds.
// Its files are those of the case's folder grader/ and of the tree.
type ProgramSpec struct {
	Command        []string        `json:"command"`
	Image          *digest.Content `json:"image,omitempty"` // its root; nil for the machine's own programs
	TimeoutSeconds int             `json:"timeout_seconds,omitempty"`
	Tree           *digest.Content `json:"tree,omitempty"`
}

// maxProgramSeconds bounds how long a program may grade.
const maxProgramSeconds = 60 * 60

func validateProgram(at place, r *Rule) error {
	if r.Command[0] == "" || len(r.Command) > 256 {
		return at.in("command").bad("expected a program and its arguments")
	}
	if r.TimeoutSeconds < 0 || r.TimeoutSeconds > maxProgramSeconds {
		return at.in("timeout_seconds").bad("is %d, expected 1 to %d", r.TimeoutSeconds, maxProgramSeconds)
	}
	return nil
}

// program keeps what is run.
func (c *compiler) program(_ place, n *node, r *Rule) error {
	n.program = &ProgramSpec{Command: r.Command, Image: r.Image, TimeoutSeconds: r.TimeoutSeconds, Tree: r.Tree}
	c.grader.programs = append(c.grader.programs, *n.program)
	return nil
}

// Programs are the suite's own programs that grading runs.
func (g *Grader) Programs() []ProgramSpec { return g.programs }

// program gives the value to the suite's program, which answers as a rubric does.
func (r *run) program(n *node, _ *Detail, v extract.Value, counts bool) tally {
	if r.in.Program == nil {
		return single(unscored("there is no program to run"))
	}
	graded, err := r.in.Program(*n.program, v)
	if err != nil {
		return single(unscored("the program could not be run: %v", err))
	}
	return r.answered("the program", graded, counts)
}
