package extract

import (
	"strings"
	"unicode/utf8"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/trajectory"
)

// isOfFolder reports whether events of a type tell about the working folder.
func isOfFolder(t trajectory.Type) bool {
	return t == trajectory.FileWrittenType || t == trajectory.FileDeletedType
}

// folderSeen refuses to conclude anything from events about the folder that are
// not there, if nobody would have written them.
func (s *Source) folderSeen() error {
	for ev := range s.Trajectory.Events() {
		if p, ok := ev.Payload.(*trajectory.RunStarted); ok && p.Vantage == trajectory.SeenAnswers {
			return refusal.Newf(refusal.NotFound, "the agent works elsewhere: only its answers are seen, and not its files").
				WithHint("drive it as a command, or leave the check out")
		}
		break
	}
	return nil
}

// CheckFolder refuses an expression about events of the working folder where
// nobody would have written them.
func (s *Source) CheckFolder(expression string) error {
	for _, t := range []trajectory.Type{trajectory.FileWrittenType, trajectory.FileDeletedType} {
		if strings.Contains(expression, string(t)) {
			return s.folderSeen()
		}
	}
	return nil
}

func (e *Extractor) file(s *Source) (Value, error) {
	what := "file " + e.spec.Path
	if s.File == nil {
		return Value{}, refusal.Newf(refusal.NotFound, "%s: the working folder is not at hand", what).
			WithHint("files can be graded while the case runs, and again if the evidence has them")
	}
	data, there, err := s.File(e.spec.Path)
	switch {
	case !there && err != nil:
		return Value{}, err
	case !there:
		return nothing("%s does not exist", what), nil
	case err != nil:
		return Value{There: true, Missing: what + ": " + err.Error()}, nil
	case !utf8.Valid(data):
		return Value{There: true, Missing: what + " is not UTF-8 text"}, nil
	}
	return e.part(what, reading{text: string(data)}), nil
}
