package attest

import (
	"crypto/ed25519"
	"fmt"
	"slices"
	"strings"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

// Keys are the documents that a verifier was given to find keys in. The zero value
// and nil find those of did:key, which need no document.
type Keys struct {
	listed    []listedKey
	documents []string // the DIDs whose documents were given
}

// A listedKey is a verification method as one document gives it.
type listedKey struct {
	method  string
	key     ed25519.PublicKey
	retired bool
	since   time.Time // of the retirement, zero if the document does not say
	expires time.Time // zero: never
	inDID   bool      // and not in a JWKS
	purpose string    // what a JWKS says that it is for; empty: it does not say
}

// find gives the key of a method, and whether and since when it is retired. Every
// document that mentions the method must give the same key, and one that calls it
// retired is trusted.
func (k *Keys) find(method string, now time.Time) (key ed25519.PublicKey, retired bool, since time.Time, err error) {
	controller, fragment, err := splitMethod(method)
	if err != nil {
		return nil, false, since, err
	}
	if multikey, ok := strings.CutPrefix(controller, "did:key:"); ok {
		if fragment != multikey {
			return nil, false, since, refusal.Newf(refusal.CredentialInvalid, "verification method %s: a did:key has one method, which repeats the key after #", plainMethod(method))
		}
		if key, err = seal.ParseDIDKey(controller); err != nil {
			return nil, false, since, fmt.Errorf("verification method %s: %w", plainMethod(method), err)
		}
	}
	if k == nil {
		k = &Keys{}
	}
	for _, l := range k.listed {
		if l.method != method {
			continue
		}
		if key != nil && !key.Equal(l.key) {
			return nil, false, since, refusal.Newf(refusal.CredentialInvalid, "verification method %s: the documents that were given list two different keys", plainMethod(method))
		}
		if l.purpose != "" && l.purpose != CredentialPurpose {
			return nil, false, since, refusal.Newf(refusal.SignerUnknown, "verification method %s: its key is for %.60q, expected a key for %s", plainMethod(method), plain.Line(l.purpose), CredentialPurpose)
		}
		key = l.key
		if at, is := l.retirement(now); is {
			since = earlier(since, at, retired)
			retired = true
		}
	}
	if key == nil {
		return nil, false, since, refusal.Newf(refusal.SignerUnknown, "verification method %s is in none of the key documents that were given", plainMethod(method)).
			WithHint("give the DID document or the JWKS of %s; nothing is fetched", plainMethod(controller))
	}
	if k.dropped(controller, method) {
		return key, true, time.Time{}, nil
	}
	return key, retired, since, nil
}

// retirement reports whether the key is retired, and since when.
func (l listedKey) retirement(now time.Time) (time.Time, bool) {
	expired := !l.expires.IsZero() && !now.Before(l.expires)
	switch {
	case l.retired && expired:
		return earlier(l.since, l.expires, true), true
	case expired:
		return l.expires, true
	}
	return l.since, l.retired
}

// earlier is the earlier of two moments of retirement. If one of two is not known,
// none is: it could be the earlier one.
func earlier(a, b time.Time, both bool) time.Time {
	switch {
	case !both:
		return b
	case a.IsZero() || b.IsZero():
		return time.Time{}
	case a.Before(b):
		return a
	}
	return b
}

// dropped reports that the DID document of the controller was given and no longer
// has the method: did:web keeps no history, so keys simply go.
func (k *Keys) dropped(controller, method string) bool {
	return slices.Contains(k.documents, controller) &&
		!slices.ContainsFunc(k.listed, func(l listedKey) bool { return l.method == method && l.inDID })
}

func plainMethod(method string) string {
	if len(method) > 200 {
		method = method[:200] + "..."
	}
	return plain.Line(method)
}

// maxKeyDocument bounds a DID document or key set; they have a few kilobytes.
const maxKeyDocument = 1 << 20

// openKeyDocument reads an object. Unlike our own documents it may have members
// that we do not know, as the specifications of both kinds allow.
func openKeyDocument(what string, data []byte) (map[string]any, error) {
	if len(data) > maxKeyDocument {
		return nil, refusal.Newf(refusal.TooLarge, "%s: %d bytes, at most %d are read", what, len(data), maxKeyDocument)
	}
	var v any
	if err := canon.Unmarshal(data, &v); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	members, ok := v.(map[string]any)
	if !ok {
		return nil, refusal.Newf(refusal.CredentialInvalid, "%s: must be object", what)
	}
	return members, nil
}

// AddDID takes the Ed25519 keys of a did:web from its document: those methods of
// type Multikey or JsonWebKey that it lists for assertions. A method that says it
// is revoked is retired, and so is one from the moment it expires.
func (k *Keys) AddDID(data []byte) error {
	const what = "DID document"
	doc, err := openKeyDocument(what, data)
	if err != nil {
		return err
	}
	did, _ := doc["id"].(string)
	if !strings.HasPrefix(did, "did:web:") || strings.ContainsAny(did, "#/?") {
		return refusal.Newf(refusal.CredentialInvalid, "%s: found id %.100q, expected a did:web", what, did)
	}
	if slices.Contains(k.documents, did) {
		return refusal.Newf(refusal.Usage, "%s: two documents of %s were given", what, plainMethod(did)).
			WithHint("give the newest; keys that it no longer has belong in a JWKS")
	}
	methods, _ := doc["verificationMethod"].([]any)
	asserts, _ := doc["assertionMethod"].([]any)
	for _, a := range asserts {
		switch a := a.(type) {
		case string:
			err = k.addMethod(did, findMethod(did, methods, a))
		case map[string]any:
			err = k.addMethod(did, []map[string]any{a})
		default:
			err = refusal.Newf(refusal.CredentialInvalid, "assertionMethod: found neither a name nor a method")
		}
		if err != nil {
			return fmt.Errorf("%s of %s: %w", what, plainMethod(did), err)
		}
	}
	// A key that was revoked is not one to assert with any more, so its method is listed
	// without standing in assertionMethod. It is taken as a retired one.
	for _, one := range methods {
		m, _ := one.(map[string]any)
		id, _ := m["id"].(string)
		named := slices.ContainsFunc(asserts, func(a any) bool { text, _ := a.(string); return absolute(did, text) == absolute(did, id) })
		if m["revoked"] == nil || id == "" || named {
			continue
		}
		if err := k.addMethod(did, findMethod(did, methods, id)); err != nil {
			return fmt.Errorf("%s of %s: %w", what, plainMethod(did), err)
		}
	}
	k.documents = append(k.documents, did)
	return nil
}

// absolute spells a relative DID URL ("#key-1") in full.
func absolute(did, id string) string {
	if strings.HasPrefix(id, "#") {
		return did + id
	}
	return id
}

// findMethod lists the methods of a name. There should be one.
func findMethod(did string, methods []any, name string) []map[string]any {
	var found []map[string]any
	for _, m := range methods {
		if m, ok := m.(map[string]any); ok {
			if id, _ := m["id"].(string); absolute(did, id) == absolute(did, name) {
				found = append(found, m)
			}
		}
	}
	return found
}

func (k *Keys) addMethod(did string, found []map[string]any) error {
	if len(found) != 1 {
		return refusal.Newf(refusal.CredentialInvalid, "%d methods have a name that it lists, expected 1", len(found))
	}
	m := found[0]
	id, _ := m["id"].(string)
	l := listedKey{method: absolute(did, id), inDID: true}
	controller, _, err := splitMethod(l.method)
	if err != nil {
		return err
	}
	if controller != did || m["controller"] != did {
		return refusal.Newf(refusal.CredentialInvalid, "method %s has another controller", plainMethod(l.method))
	}
	switch m["type"] {
	case "Multikey":
		text, _ := m["publicKeyMultibase"].(string)
		if l.key, err = seal.ParseMultikey(text); err != nil {
			return fmt.Errorf("method %s: %w", plainMethod(l.method), err)
		}
	case "JsonWebKey":
		jwk, _ := m["publicKeyJwk"].(map[string]any)
		if l.key, err = readJWK(jwk); err != nil {
			return fmt.Errorf("method %s: %w", plainMethod(l.method), err)
		}
	default:
		return nil // some other kind of key, of no use here
	}
	revoked, there := m["revoked"]
	if l.retired = there; there {
		if text, ok := revoked.(string); ok {
			l.since, _ = parseTime("revoked", text) // retired all the same, at a time that is not known
		}
	}
	if text, there := m["expires"].(string); there {
		if l.expires, err = parseTime("expires", text); err != nil {
			return fmt.Errorf("method %s: %w", plainMethod(l.method), err)
		}
	}
	k.listed = append(k.listed, l)
	return nil
}

// CredentialPurpose is the purpose of the keys of a JWKS that sign credentials. A
// registry lists others beside them, such as the one that chains manifests: a thief who
// has that one must not be able to issue.
const CredentialPurpose = "credential"

// AddJWKS takes the Ed25519 keys of a controller, such as a did:web, from its JSON
// Web Key Set (RFC 7517). The kid is the name of the verification method, in full
// or after the #. A key has the status "current", which it also has without one,
// or "retired". One that says a use other than "sig", or a purpose other than
// [CredentialPurpose], verifies nothing.
func (k *Keys) AddJWKS(controller string, data []byte) error {
	const what = "JWKS"
	set, err := openKeyDocument(what, data)
	if err != nil {
		return err
	}
	keys, ok := set["keys"].([]any)
	if !ok {
		return refusal.Newf(refusal.CredentialInvalid, "%s: found no list of keys", what)
	}
	seen := map[string]bool{}
	for i, one := range keys {
		jwk, ok := one.(map[string]any)
		if !ok {
			return refusal.Newf(refusal.CredentialInvalid, "%s: key %d: must be object", what, i+1)
		}
		if jwk["kty"] != "OKP" || jwk["crv"] != "Ed25519" {
			continue
		}
		l, err := listJWK(controller, jwk)
		if err != nil {
			return fmt.Errorf("%s: key %d: %w", what, i+1, err)
		}
		if seen[l.method] {
			return refusal.Newf(refusal.CredentialInvalid, "%s: key %d: another key has the kid of this one", what, i+1)
		}
		seen[l.method] = true
		k.listed = append(k.listed, l)
	}
	return nil
}

func listJWK(controller string, jwk map[string]any) (listedKey, error) {
	kid, _ := jwk["kid"].(string)
	l := listedKey{method: kid}
	if !strings.Contains(kid, "#") {
		l.method = controller + "#" + kid
	}
	owner, _, err := splitMethod(l.method)
	if err != nil {
		return l, err
	}
	if owner != controller {
		return l, refusal.Newf(refusal.CredentialInvalid, "the kid %.120q names a key of another controller than %.120q", kid, controller)
	}
	switch jwk["status"] {
	case nil, "current":
	case "retired":
		l.retired = true
	default:
		return l, refusal.Newf(refusal.CredentialInvalid, "found the status %.40q, expected current or retired", fmt.Sprint(jwk["status"]))
	}
	if l.purpose, err = purposeOf(jwk); err != nil {
		return l, err
	}
	l.key, err = readJWK(jwk)
	return l, err
}

// purposeOf is what a key is for, as far as the set says: its purpose, or a use
// (RFC 7517 section 4.2) that is not signing.
func purposeOf(jwk map[string]any) (string, error) {
	said := map[string]string{}
	for _, name := range []string{"purpose", "use"} {
		value, there := jwk[name]
		text, ok := value.(string)
		if there && (!ok || text == "") {
			return "", refusal.Newf(refusal.CredentialInvalid, "its %s must be a text", name)
		}
		said[name] = text
	}
	if use := said["use"]; use != "" && use != "sig" {
		return use, nil
	}
	return said["purpose"], nil
}

func readJWK(jwk map[string]any) (ed25519.PublicKey, error) {
	if _, secret := jwk["d"]; secret {
		return nil, refusal.Newf(refusal.CredentialInvalid, "it holds a private key").
			WithHint("every reader of it can sign as its owner; the key must be retired")
	}
	var k seal.JWK
	k.KeyType, _ = jwk["kty"].(string)
	k.Curve, _ = jwk["crv"].(string)
	k.X, _ = jwk["x"].(string)
	return k.Ed25519()
}
