package extract

import (
	"unicode/utf8"

	"tallystick/internal/record/refusal"
	"tallystick/internal/run/trajectory"
)

// isOfFolder reports whether events of a type tell about the working folder.
func isOfFolder(t trajectory.Type) bool {
	return t == trajectory.FileWrittenType || t == trajectory.FileDeletedType
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
	return e.part(s, what, reading{text: string(data)})
}
