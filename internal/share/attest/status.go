package attest

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

// W3C Bitstring Status List v1.0.
const (
	typeStatusEntry      = "BitstringStatusListEntry"
	typeStatusList       = "BitstringStatusList"
	typeStatusCredential = "BitstringStatusListCredential"
)

// The purposes that are understood. A bit that is set says so of its credential.
const (
	Revocation = "revocation"
	Suspension = "suspension"
)

// MinStatusBytes is the least length of a list: in a shorter one the index would
// tell which credential a reader asks about.
const MinStatusBytes = 16 << 10

// MaxStatusBytes bounds what a list unpacks to: 32 Mi credentials. A gzip stream
// of our bounded input could otherwise give gigabytes.
const MaxStatusBytes = 4 << 20

// A StatusEntry says where to look whether a credential is revoked.
type StatusEntry struct {
	ID         string `json:"id,omitempty"`
	List       string `json:"statusListCredential"`
	Index      string `json:"statusListIndex"`
	Purpose    string `json:"statusPurpose"`
	StatusSize int    `json:"statusSize,omitempty"`
	Type       string `json:"type"`
}

// NewStatusEntry refers to bit number index of a list.
func NewStatusEntry(list string, index int, purpose string) StatusEntry {
	return StatusEntry{List: list, Index: strconv.Itoa(index), Purpose: purpose, Type: typeStatusEntry}
}

// SetStatus sets a bit of a list, of which number 0 is the leftmost of the first
// byte. The list must have it.
func SetStatus(bits []byte, index int64) { bits[index/8] |= 0x80 >> (index % 8) }

func (e *StatusEntry) index() (int, error) {
	n, err := strconv.Atoi(e.Index)
	switch {
	case e.Type != typeStatusEntry || e.List == "" || e.StatusSize > 1 || e.StatusSize < 0:
		return 0, refusal.Newf(refusal.CredentialInvalid, "credentialStatus: expected a %s of one bit with a statusListCredential", typeStatusEntry)
	case e.Purpose != Revocation && e.Purpose != Suspension:
		return 0, refusal.Newf(refusal.CredentialInvalid, "credentialStatus: found the purpose %.40q, expected %s or %s", e.Purpose, Revocation, Suspension)
	case err != nil || n < 0 || strconv.Itoa(n) != e.Index:
		return 0, refusal.Newf(refusal.CredentialInvalid, "credentialStatus: statusListIndex %.40q is not a whole number of 0 or more", e.Index)
	}
	return n, nil
}

// encodeStatus writes one entry as an object, more as a list.
func encodeStatus(entries []StatusEntry) (canon.RawMessage, error) {
	for _, e := range entries {
		if _, err := e.index(); err != nil {
			return nil, err
		}
	}
	switch len(entries) {
	case 0:
		return nil, nil
	case 1:
		return canon.Marshal(entries[0])
	}
	return canon.Marshal(entries)
}

func decodeStatus(raw canon.RawMessage) ([]StatusEntry, error) {
	var entries []StatusEntry
	var err error
	if raw.Kind() == '[' {
		err = canon.Unmarshal(raw, &entries)
	} else {
		entries = make([]StatusEntry, 1)
		err = canon.Unmarshal(raw, &entries[0])
	}
	if err == nil && len(entries) == 0 {
		err = errors.New("an empty list")
	}
	if err != nil {
		return nil, refusal.Newf(refusal.CredentialInvalid, "credentialStatus: %w", err)
	}
	return entries, nil
}

// checkStatus looks a credential up in the lists that were given, and reports
// whether there was something to look up.
func (t Trust) checkStatus(c credential) (checked bool, err error) {
	if c.Status == nil {
		return false, nil
	}
	entries, err := decodeStatus(c.Status)
	if err != nil {
		return false, err
	}
	for _, e := range entries {
		index, err := e.index()
		if err != nil {
			return false, err
		}
		if t.UnsafeSkipStatus {
			continue
		}
		if err := t.checkEntry(c.Issuer, e, index); err != nil {
			return false, err
		}
	}
	return !t.UnsafeSkipStatus, nil
}

func (t Trust) checkEntry(issuer string, e StatusEntry, index int) error {
	given := 0
	for _, data := range t.StatusLists {
		list, err := t.openStatusList(data)
		if err != nil {
			return err
		}
		if list.ID != e.List {
			continue
		}
		given++
		if err := list.check(issuer, e, index, t); err != nil {
			return inDocument("status list "+plainMethod(e.List), err)
		}
	}
	if given == 0 {
		return refusal.Newf(refusal.NotFound, "the status list %s was not given, so it is unknown whether the credential is revoked", plainMethod(e.List)).
			WithHint("get it from its address and give the file; nothing is fetched")
	}
	return nil
}

// A statusList is the credential of a list.
type statusList struct {
	Context    []string         `json:"@context"`
	Subject    canon.RawMessage `json:"credentialSubject"`
	ID         string           `json:"id"`
	Issuer     string           `json:"issuer"`
	Type       []string         `json:"type"`
	ValidFrom  string           `json:"validFrom,omitempty"`
	ValidUntil string           `json:"validUntil,omitempty"`

	document *document
	digest   digest.ID
}

type statusSubject struct {
	EncodedList string `json:"encodedList"`
	ID          string `json:"id,omitempty"`
	Purpose     string `json:"statusPurpose"`
	TTL         *int64 `json:"ttl,omitempty"`
	Type        string `json:"type"`
}

// openStatusList reads a list, of which nothing is verified yet.
func (t Trust) openStatusList(data []byte) (*statusList, error) {
	const what = "status list"
	text, err := canonicalize(what, data)
	if err != nil {
		return nil, err
	}
	d, err := openDocument(text)
	if err != nil {
		return nil, inDocument(what, err)
	}
	l := &statusList{document: d, digest: digest.IDOf(text)}
	if err := canon.Unmarshal(d.rest, l); err != nil {
		return nil, refusal.Newf(refusal.CredentialInvalid, "%s: %w", what, err)
	}
	return l, nil
}

// check verifies the list and looks up one bit.
func (l *statusList) check(issuer string, e StatusEntry, index int, t Trust) error {
	bits, err := l.verify(issuer, e.Purpose, t)
	if err != nil {
		return err
	}
	if index >= 8*len(bits) {
		return refusal.Newf(refusal.CredentialInvalid, "it has %d bits and the credential is number %d", 8*len(bits), index)
	}
	// Bit 0 is the leftmost of the first byte.
	if bits[index/8]&(0x80>>(index%8)) != 0 {
		return refusal.Newf(refusal.CredentialRevoked, "bit %d is set: the issuer no longer stands by the credential (%s)", index, e.Purpose)
	}
	return nil
}

func (l *statusList) verify(issuer, purpose string, t Trust) ([]byte, error) {
	bad := func(format string, args ...any) error {
		return refusal.Newf(refusal.CredentialInvalid, format, args...)
	}
	// A list is published again and again, so its key is a current one. Under a
	// retired key it is an old list, and says nothing of what was revoked since.
	t.IssuedBeforeRetirement = nil
	proofs, err := l.document.verify(l.digest, t)
	if err != nil {
		return nil, err
	}
	if _, err := issuerProof(issuer, proofs); err != nil {
		return nil, err
	}
	var s statusSubject
	if err := canon.Unmarshal(l.Subject, &s); err != nil {
		return nil, bad("credentialSubject: %w", err)
	}
	switch {
	case l.Issuer != issuer:
		return nil, bad("its issuer is %.120q, that of the credential is %.120q", l.Issuer, issuer)
	case !slices.Equal(l.Context, []string{contextCredentials}):
		return nil, bad("found @context %.300q, expected %q", l.Context, contextCredentials)
	case !slices.Equal(l.Type, []string{typeCredential, typeStatusCredential}) || s.Type != typeStatusList:
		return nil, bad("found type %.200q of %.60q, expected a %s of a %s", l.Type, s.Type, typeStatusCredential, typeStatusList)
	case s.Purpose != purpose:
		return nil, bad("it is for the purpose %.40q, the credential asks about %s", s.Purpose, purpose)
	}
	if err := t.checkValidity(l.ValidFrom, l.ValidUntil); err != nil {
		return nil, err
	}
	return decodeBits(s.EncodedList)
}

// decodeBits unpacks a list: multibase base64url without padding ("u"), gzip.
func decodeBits(text string) ([]byte, error) {
	bad := func(why string) error { return refusal.Newf(refusal.CredentialInvalid, "encodedList: %s", why) }
	encoded, ok := strings.CutPrefix(text, "u")
	packed, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if !ok || err != nil {
		return nil, bad("expected u and base64url without padding")
	}
	source := bytes.NewReader(packed)
	zip, err := gzip.NewReader(source)
	if err != nil {
		return nil, bad("not gzip")
	}
	zip.Multistream(false)
	bits, err := io.ReadAll(io.LimitReader(zip, MaxStatusBytes+1))
	switch {
	case err != nil:
		return nil, bad("the gzip stream is damaged")
	case len(bits) > MaxStatusBytes:
		return nil, refusal.Newf(refusal.TooLarge, "encodedList: unpacks to more than %d bytes", MaxStatusBytes)
	case source.Len() > 0:
		return nil, bad("bytes after the gzip stream")
	case len(bits) < MinStatusBytes:
		return nil, bad("shorter than " + strconv.Itoa(MinStatusBytes) + " bytes")
	}
	return bits, nil
}

// VerifyStatusList verifies a list of an issuer as it is verified for a credential.
func VerifyStatusList(data []byte, issuer, purpose string, t Trust) error {
	_, err := OpenStatusList(data, issuer, purpose, t)
	return err
}

// OpenStatusList is [VerifyStatusList], and gives the bits of the list.
func OpenStatusList(data []byte, issuer, purpose string, t Trust) ([]byte, error) {
	l, err := t.openStatusList(data)
	if err != nil {
		return nil, err
	}
	return l.verify(issuer, purpose, t)
}

// A StatusDraft is a status list to be issued.
type StatusDraft struct {
	ID                    string // the URL under which credentials refer to it
	Issuer                string
	Purpose               string
	Bits                  []byte // at least [MinStatusBytes]; bit 0 is the leftmost of the first byte
	ValidFrom, ValidUntil time.Time
}

// IssueStatusList makes and signs the credential of a status list.
func IssueStatusList(d StatusDraft, s Signer) ([]byte, error) {
	method, err := s.method()
	if err != nil {
		return nil, err
	}
	controller, _, err := splitMethod(method)
	if err != nil || controller != d.Issuer || len(d.Bits) < MinStatusBytes || len(d.Bits) > MaxStatusBytes {
		return nil, refusal.Newf(refusal.Usage, "status list of %d bytes by %.120q with the key %s: expected %d to %d bytes and a key of the issuer's",
			len(d.Bits), d.Issuer, method, MinStatusBytes, MaxStatusBytes)
	}
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	if _, err := zip.Write(d.Bits); err != nil {
		return nil, err
	}
	if err := zip.Close(); err != nil {
		return nil, err
	}
	subject, err := canon.Marshal(statusSubject{
		EncodedList: "u" + base64.RawURLEncoding.EncodeToString(packed.Bytes()),
		ID:          d.ID + "#list", Purpose: d.Purpose, Type: typeStatusList,
	})
	if err != nil {
		return nil, err
	}
	text, err := canon.Marshal(statusList{
		Context: []string{contextCredentials}, Type: []string{typeCredential, typeStatusCredential},
		ID: d.ID, Issuer: d.Issuer, Subject: subject,
		ValidFrom: formatTime(d.ValidFrom), ValidUntil: formatTime(d.ValidUntil),
	})
	if err != nil {
		return nil, err
	}
	return secure(text, s, method)
}
