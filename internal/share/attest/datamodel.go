package attest

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/refusal"
)

// CheckDataModel reports which rules of the W3C Verifiable Credentials Data Model
// 2.0 a credential of any kind breaks: those of section 4 about contexts,
// identifiers, types, names, issuer, subject, dates, status, schemas, and those of
// section 5 about related resources, refresh services, terms of use and evidence.
// [Verify] asks for much more, of attestations alone.
//
// JSON-LD is not processed. Whether a type is mapped to a URL is looked up in the
// terms of the base context and in contexts that stand in the document; another
// context that is only named may map anything.
func CheckDataModel(data []byte) (*Report, error) {
	if len(data) > MaxDocument {
		return nil, refusal.Newf(refusal.TooLarge, "credential: %d bytes, at most %d are read", len(data), MaxDocument)
	}
	var v any
	if err := canon.Unmarshal(data, &v); err != nil {
		return nil, refusal.Newf(refusal.Malformed, "credential: %w", err)
	}
	r := &Report{Problems: []Problem{}}
	doc, ok := v.(map[string]any)
	if !ok {
		r.add("", "must be object")
		return r, nil
	}
	m := dataModel{r, termsOf(doc["@context"])}
	m.contexts(doc["@context"])
	m.identifier("", doc, false)
	m.types("", doc)
	if !slices.Contains(list(doc["type"]), any(typeCredential)) {
		r.add("/type", "must contain %s", typeCredential)
	}
	m.texts("", doc)
	m.issuer(doc["issuer"])
	m.subjects(doc["credentialSubject"])
	m.dates(doc)
	for _, name := range []string{"credentialStatus", "termsOfUse", "evidence", "refreshService", "credentialSchema"} {
		m.typed(name, doc)
	}
	m.related(doc)
	r.Valid = len(r.Problems) == 0
	return r, nil
}

// A dataModel collects what is wrong with one credential.
type dataModel struct {
	*Report
	terms terms
}

// terms are the types that the contexts of a document map to a URL.
type terms struct {
	mapped  map[string]bool // a term to whether its value is a URL
	unknown bool            // a context is only named, so its terms are unknown here
}

// baseTypes are the types of the base context.
var baseTypes = []string{
	typeCredential, "EnvelopedVerifiableCredential", "VerifiablePresentation", "EnvelopedVerifiablePresentation",
	"JsonSchema", "JsonSchemaCredential", typeStatusCredential, typeStatusList, typeStatusEntry,
	"DataIntegrityProof", "Multikey", "JsonWebKey",
}

func termsOf(context any) terms {
	t := terms{mapped: map[string]bool{}}
	for _, name := range baseTypes {
		t.mapped[name] = true
	}
	for _, c := range list(context) {
		switch c := c.(type) {
		case string:
			t.unknown = t.unknown || c != contextCredentials
		case map[string]any:
			if _, vocabulary := c["@vocab"].(string); vocabulary {
				t.unknown = true
			}
			for term, to := range c {
				if id, ok := to.(map[string]any); ok {
					to = id["@id"]
				}
				text, _ := to.(string)
				t.mapped[term] = isURL(text)
			}
		}
	}
	return t
}

// list gives the members of a list, or a single value as the only one.
func list(v any) []any {
	switch v := v.(type) {
	case nil:
		return nil
	case []any:
		return v
	}
	return []any{v}
}

// isURL reports whether a text is an absolute URL: it has a scheme and something
// after it. DIDs and URNs are URLs.
func isURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Scheme != "" && (u.Host != "" || u.Opaque != "" || u.Path != "") && !strings.ContainsAny(text, " \t\r\n<>\"{}|\\^`")
}

func (m dataModel) contexts(v any) {
	all, ok := v.([]any)
	if !ok || len(all) == 0 || all[0] != contextCredentials {
		m.add("/@context", "must be a list that begins with %s", contextCredentials)
		return
	}
	seen := map[string]bool{}
	for i, c := range all {
		switch c := c.(type) {
		case string:
			if !isURL(c) {
				m.add(fmt.Sprintf("/@context/%d", i), "must be a URL or an object")
			}
			if seen[c] {
				m.add(fmt.Sprintf("/@context/%d", i), "must not be there twice")
			}
			seen[c] = true
		case map[string]any:
		default:
			m.add(fmt.Sprintf("/@context/%d", i), "must be a URL or an object")
		}
	}
}

// identifier checks the id of an object, which is one URL if it is there.
func (m dataModel) identifier(path string, object map[string]any, required bool) {
	id, there := object["id"]
	if !there && !required {
		return
	}
	if text, ok := id.(string); !ok || !isURL(text) {
		m.add(path+"/id", "must be a URL")
	}
}

func (m dataModel) types(path string, object map[string]any) {
	all := list(object["type"])
	if len(all) == 0 {
		m.add(path, "must have required property 'type'")
	}
	for _, t := range all {
		text, ok := t.(string)
		url, known := m.terms.mapped[text]
		switch {
		case !ok || text == "":
			m.add(path+"/type", "must be a term or a URL")
		case known && !url:
			m.add(path+"/type", "the context maps %.60q to something that is not a URL", text)
		case !known && !isURL(text) && !m.terms.unknown:
			m.add(path+"/type", "no context says what %.60q is", text)
		}
	}
}

// texts checks the name and the description of an object: a string, or a language
// value object, or several of these.
func (m dataModel) texts(path string, object map[string]any) {
	for _, name := range []string{"name", "description"} {
		for _, v := range list(object[name]) {
			if !isText(v) {
				m.add(path+"/"+name, "must be a string or an object with @value, and @language and @direction if need be")
			}
		}
	}
}

func isText(v any) bool {
	switch v := v.(type) {
	case string:
		return true
	case map[string]any:
		_, ok := v["@value"].(string)
		for name := range v {
			ok = ok && (name == "@value" || name == "@language" || name == "@direction")
		}
		return ok
	}
	return false
}

func (m dataModel) issuer(v any) {
	switch v := v.(type) {
	case string:
		if !isURL(v) {
			m.add("/issuer", "must be a URL, or an object with an id that is a URL")
		}
	case map[string]any:
		m.identifier("/issuer", v, true)
		m.texts("/issuer", v)
	case nil:
		m.add("", "must have required property 'issuer'")
	default:
		m.add("/issuer", "must be a URL, or an object with an id that is a URL")
	}
}

func (m dataModel) subjects(v any) {
	all := list(v)
	if len(all) == 0 {
		m.add("", "must have required property 'credentialSubject'")
	}
	for _, s := range all {
		object, ok := s.(map[string]any)
		if !ok || len(object) == 0 {
			m.add("/credentialSubject", "must be an object with at least one claim")
			continue
		}
		m.identifier("/credentialSubject", object, false)
	}
}

func (m dataModel) dates(doc map[string]any) {
	var at [2]time.Time
	for i, name := range []string{"validFrom", "validUntil"} {
		v, there := doc[name]
		if !there {
			continue
		}
		text, _ := v.(string)
		var err error
		if at[i], err = parseTime(name, text); err != nil {
			m.add("/"+name, "must be a date and time with a time zone, such as 2026-05-12T09:30:00Z")
		}
	}
	if !at[0].IsZero() && !at[1].IsZero() && at[1].Before(at[0]) {
		m.add("/validUntil", "must not be before validFrom")
	}
}

// objects gives the objects of a member, which must have one at least and nothing else.
func (m dataModel) objects(path string, v any) []map[string]any {
	var objects []map[string]any
	all := list(v)
	if len(all) == 0 {
		m.add(path, "must not be empty")
	}
	for _, o := range all {
		if object, ok := o.(map[string]any); ok {
			objects = append(objects, object)
		} else {
			m.add(path, "must be object")
		}
	}
	return objects
}

// typed checks the objects of a member that each must say of which type they are.
func (m dataModel) typed(name string, doc map[string]any) {
	v, there := doc[name]
	if !there {
		return
	}
	path := "/" + name
	for _, object := range m.objects(path, v) {
		m.types(path, object)
		m.identifier(path, object, name == "credentialSchema")
	}
}

// related checks relatedResource: each has an id of its own and a digest.
func (m dataModel) related(doc map[string]any) {
	v, there := doc["relatedResource"]
	if !there {
		return
	}
	const path = "/relatedResource"
	seen := map[any]bool{}
	for _, object := range m.objects(path, v) {
		m.identifier(path, object, true)
		id, _ := object["id"].(string)
		if seen[id] {
			m.add(path, "must not name a resource twice")
		}
		seen[id] = true
		names := slices.Collect(maps.Keys(object))
		if !slices.Contains(names, "digestSRI") && !slices.Contains(names, "digestMultibase") {
			m.add(path, "must have digestSRI or digestMultibase")
		}
	}
}
