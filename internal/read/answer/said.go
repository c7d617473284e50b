package answer

import (
	"strings"
	"unicode/utf8"

	"tallystick/internal/read/difference"
	"tallystick/internal/read/dossier"
	"tallystick/internal/record/refusal"
	"tallystick/internal/run/grade"
	"tallystick/internal/run/trajectory"
)

// A Said is what a case asked and wanted, and what it was answered in two attempts.
type Said struct {
	Input, Expected string
	A, B            Answered
	// Answer is how the second answer differs from the first, word by word.
	Answer difference.Difference
	// Withheld says that the case is held out: there are no texts then.
	Withheld bool
	Note     string // why texts are missing
}

// An Answered is what was answered in one attempt.
type Answered struct {
	Text  string
	Given bool // it answered, if only with nothing
	Cut   bool // Text is the beginning
}

// maxAnswer bounds an answer that is compared for people, maxAsked what it answers.
const (
	maxAnswer = 32 << 10
	maxAsked  = 1 << 10
)

// SaidIn reads what a case was answered in two attempts. Trajectories that are longer are
// not read for it.
func SaidIn(a, b *dossier.Case, longest int64) (*Said, error) {
	for _, c := range []*dossier.Case{a, b} {
		if hidden, err := c.IsHidden(); err != nil || hidden {
			return &Said{Withheld: true}, err
		}
	}
	s := &Said{}
	var err error
	if s.A, s.Input, err = s.read(a, longest); err == nil {
		var input string
		s.B, input, err = s.read(b, longest)
		if s.Input == "" {
			s.Input = input
		}
	}
	if err != nil {
		if refusal.ExitCode(err) == refusal.ExitUnverified {
			return nil, err
		}
		s.Note = err.Error()
	}
	if s.A.Given && s.B.Given {
		s.Answer = difference.Words(s.A.Text, s.B.Text)
	}
	for _, c := range []*dossier.Case{b, a} {
		if s.Expected == "" {
			s.Expected = wantedOf(c)
		}
	}
	return s, nil
}

// read gives the answer of a case, from its evidence or as its trajectory has it, and what
// it was asked.
func (s *Said) read(c *dossier.Case, longest int64) (answered Answered, input string, err error) {
	files, err := c.Files()
	if err != nil {
		return answered, "", err
	}
	if files.Answer != nil {
		data, err := c.Dossier().Reading().Piece(*files.Answer)
		if err != nil {
			return answered, "", err
		}
		answered = Answered{Text: string(data), Given: true}
		answered.Text, answered.Cut = cutTo(answered.Text, maxAnswer)
	}
	opened, err := c.OpenTranscript()
	if err != nil {
		return answered, "", err
	}
	long := opened.Bytes > longest
	opened.Close()
	if long {
		return answered, "", nil
	}
	v, err := c.Trajectory()
	if err != nil {
		return answered, "", err
	}
	for e := range v.Events() {
		switch p := e.Payload.(type) {
		case *trajectory.RunStarted:
			if p.Input != nil {
				input, _ = cutTo(p.Input.Head, maxAsked)
			}
		case *trajectory.TurnStarted:
			if input == "" && p.Input != nil {
				input, _ = cutTo(p.Input.Head, maxAsked)
			}
		case *trajectory.RunCompleted:
			if p.Answer != nil && !answered.Given {
				answered = Answered{Text: p.Answer.Head, Given: true, Cut: p.Answer.Truncated}
			}
		}
	}
	return answered, input, nil
}

// wantedOf is what the check wanted that decided; "" if none says so.
func wantedOf(c *dossier.Case) string {
	checks, err := c.Checks()
	if err != nil {
		return ""
	}
	if d := grade.Decisive(checks); d != nil && d.Expected != nil && strings.TrimSpace(d.Expected.Head) != "" {
		text, _ := cutTo(d.Expected.Head, maxAsked)
		return text
	}
	for _, d := range checks {
		if d.Expected != nil && strings.TrimSpace(d.Expected.Head) != "" {
			text, _ := cutTo(d.Expected.Head, maxAsked)
			return text
		}
	}
	return ""
}

// cutTo cuts a text between two characters.
func cutTo(s string, most int) (string, bool) {
	if len(s) <= most {
		return s, false
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most], true
}
