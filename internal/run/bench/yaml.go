package bench

import (
	"fmt"
	"strings"

	"tallystick/internal/record/strictyaml"
)

const maxYAMLBytes = 1 << 20

// yamlRules are those of every YAML file of a bench.
var yamlRules = strictyaml.Rules{
	Hint:         "correct the file at that place; the formats are described in docs/formats/case.md",
	TooLargeHint: "a class with more cases than that keeps them in " + DatasetFile,
	MaxBytes:     maxYAMLBytes,
}

// badField says what is wrong with the field at a path of keys with dots.
func badField(path string, format string, args ...any) error {
	return strictyaml.At(strings.Split(path, "."), fmt.Errorf(format, args...))
}

// A validator checks what the types of a document do not say.
type validator interface{ validate() error }

// decode reads a YAML file into v, as [strictyaml.Decode] does, and validates
// it.
func decode(name string, data []byte, v validator) (*strictyaml.Document, error) {
	doc, err := strictyaml.Decode(name, data, yamlRules, v)
	if err != nil {
		return nil, err
	}
	if err := v.validate(); err != nil {
		return nil, doc.Refuse(err)
	}
	return doc, nil
}
