package bench

import (
	"bytes"
	"errors"
	"path/filepath"
	"sync"

	"tallystick/internal/record/refusal"
	"tallystick/internal/record/store"
	"tallystick/internal/record/strictyaml"
)

var defaultsOfShort = sync.OnceValues(func() (*strictyaml.Document, error) {
	return strictyaml.Parse("the defaults", []byte(shortDefaults), yamlRules)
})

// A short registration has no version, and may leave out everything but class
// and trust. It is read as if its defaults stood in it, so what is hashed and
// recorded is explicit. What was written before there were defaults has a
// version, and means what it meant.
func isShort(doc *strictyaml.Document) bool {
	return doc.Top.Kind == strictyaml.Mapping && doc.Top.Member("version") == nil
}

func trustOf(doc *strictyaml.Document) Trust {
	if m := doc.Top.Member("trust"); m != nil {
		return Trust(m.Value.Text)
	}
	return ""
}

// decodeRegistration reads registration.yaml, filling in what a short one leaves
// out.
func decodeRegistration(data []byte, r *Registration) (*strictyaml.Document, error) {
	doc, err := strictyaml.Parse(RegistrationFile, data, yamlRules)
	if err != nil {
		return nil, err
	}
	if isShort(doc) {
		if trustOf(doc) != Scratch {
			return nil, refusal.Newf(refusal.Malformed, "%w", doc.Refuse(strictyaml.At([]string{"version"}, errors.New("is missing, and only a registration with trust: scratch may leave members out")))).
				WithHint(`"tally bench digest CLASS" writes every default out, so that people see what they sign; or add the line "trust: scratch"`)
		}
		if doc, err = filled(doc); err != nil {
			return nil, err
		}
	}
	if err := doc.Decode(r); err != nil {
		return nil, err
	}
	if err := r.validate(); err != nil {
		return nil, doc.Refuse(err)
	}
	for i := range r.ModelEndpoints {
		if err := r.ModelEndpoints[i].check(fieldAt("model_endpoints", i)); err != nil {
			return nil, doc.Refuse(err)
		}
	}
	return doc, nil
}

func filled(doc *strictyaml.Document) (*strictyaml.Document, error) {
	defaults, err := defaultsOfShort()
	if err != nil {
		return nil, err
	}
	return doc.Fill(defaults)
}

// WriteOut writes into the registration of a class that people are to sign what
// it leaves out, and names the file if it changed: people sign only for what is
// there to read. A tier that is there stays.
func WriteOut(classDir string) ([]string, error) {
	name := filepath.Join(classDir, RegistrationFile)
	data, err := store.ReadFile(store.OS{}, name, maxYAMLBytes)
	if err != nil {
		return nil, nil // loading the class says what is wrong with it
	}
	full, err := writtenOut(data)
	if err != nil || full == nil {
		return nil, err
	}
	return []string{RegistrationFile}, store.WriteFile(store.OS{}, name, full, 0o644)
}

// writtenOut is a registration with every default, nil if it is not to be
// signed or it leaves nothing out. Lines that are there stay as they are.
func writtenOut(data []byte) ([]byte, error) {
	doc, err := strictyaml.Parse(RegistrationFile, data, yamlRules)
	if err != nil || !isShort(doc) || trustOf(doc) != Signed {
		return nil, err
	}
	full, err := filled(doc)
	if err != nil {
		return nil, err
	}
	for _, m := range full.Top.Members {
		text := m.Key + ": " + m.Value.Flow()
		if old := doc.Top.Member(m.Key); old != nil && old.Value.Flow() == m.Value.Flow() {
			continue
		}
		if data, err = setMember(RegistrationFile, data, nil, m.Key, text); err != nil {
			return nil, err
		}
	}
	again, err := strictyaml.Parse(RegistrationFile, data, yamlRules)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(again.JSON, full.JSON) {
		return nil, refusal.Newf(refusal.Malformed, "%s: the defaults cannot be written into it", RegistrationFile).
			WithHint("add what docs/formats/case.md lists as required")
	}
	return data, nil
}

// ShortRegistration is registration.yaml of a scratch class: what a person has to
// write.
func ShortRegistration(class string) []byte {
	plain := []byte("class: " + class + "\ntrust: scratch\n")
	var r Registration
	if _, err := decodeRegistration(plain, &r); err != nil || r.Class != class {
		return []byte("class: " + strictyaml.Quote(class) + "\ntrust: scratch\n")
	}
	return plain
}
