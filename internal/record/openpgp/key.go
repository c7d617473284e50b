package openpgp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Key is a person's OpenPGP key: the primary key, and those keys of it that
// sign. Only [ParseKey] and [Minimal] make one, with every binding verified.
type Key struct {
	primary *PublicKey
	signing []*PublicKey
	data    []byte
}

// Fingerprint is that of the primary key, in upper-case hex.
func (k *Key) Fingerprint() string { return k.primary.Fingerprint() }

// Primary is the primary key, which may be one of those that sign.
func (k *Key) Primary() *PublicKey { return k.primary }

// Signing lists the keys that may sign: the primary first if it may, then the
// subkeys in their order.
func (k *Key) Signing() []*PublicKey { return slices.Clone(k.signing) }

// Bytes is the key in its only spelling.
func (k *Key) Bytes() []byte { return bytes.Clone(k.data) }

// ErrNotOurs says that a signature is by no signing key of this key.
var ErrNotOurs = errors.New("the signature is by another key")

// Find returns the signing key with this fingerprint.
func (k *Key) Find(fingerprint string) *PublicKey {
	for _, s := range k.signing {
		if s.Fingerprint() == fingerprint {
			return s
		}
	}
	return nil
}

// Verify verifies a signature over a message by one of the signing keys.
func (k *Key) Verify(s *Signature, message []byte) error {
	by := k.Find(s.Issuer())
	if by == nil {
		return ErrNotOurs
	}
	return s.verify(by, message)
}

// ParseKey reads a key in its only spelling, which is a sequence of packets:
//
//	primary key
//	user ID and the primary's certification of it (0x10 to 0x13), or a direct key
//	signature (0x1F)
//	any number of: subkey, the primary's binding of it (0x18)
//
// with the current header format and shortest lengths. The certification says
// whether the primary signs, each binding that its subkey does, with the
// subkey's signature back (0x19) inside. Nothing else may be there; a revocation
// refuses the key.
func ParseKey(data []byte) (*Key, error) {
	packets, err := splitPackets(data)
	if err != nil {
		return nil, err
	}
	var spelled []byte
	for _, p := range packets {
		if err := refuseRevocation(p); err != nil {
			return nil, err
		}
		spelled = append(spelled, p.encode()...)
	}
	if !bytes.Equal(spelled, data) {
		return nil, fmt.Errorf("the packets are not in the current format with the shortest lengths")
	}
	if len(packets) == 0 || packets[0].tag != tagPublicKey {
		return nil, fmt.Errorf("does not begin with a public key")
	}
	k := &Key{data: bytes.Clone(data)}
	if k.primary, err = parsePublicKey(bytes.Clone(packets[0].body)); err != nil {
		return nil, fmt.Errorf("primary key: %w", err)
	}
	rest, err := k.parseSelf(packets[1:])
	if err != nil {
		return nil, err
	}
	for len(rest) > 0 {
		if len(rest) < 2 || rest[0].tag != tagPublicSubkey || rest[1].tag != tagSignature {
			return nil, fmt.Errorf("packet of type %d after the primary key, expected a subkey and its binding", rest[0].tag)
		}
		if len(k.signing) >= maxSigningCount {
			return nil, fmt.Errorf("more than %d signing keys", maxSigningCount)
		}
		sub, _, err := k.bound(rest[0], rest[1])
		if err != nil {
			return nil, err
		}
		k.signing, rest = append(k.signing, sub), rest[2:]
	}
	if len(k.signing) == 0 {
		return nil, fmt.Errorf("no key of %s may sign", k.Fingerprint())
	}
	return k, nil
}

// parseSelf reads what the primary key says of itself, and returns what follows.
func (k *Key) parseSelf(packets []packet) ([]packet, error) {
	var user *packet
	if len(packets) > 0 && packets[0].tag == tagUserID {
		user, packets = &packets[0], packets[1:]
	}
	if len(packets) == 0 || packets[0].tag != tagSignature {
		return nil, fmt.Errorf("no signature of the primary key over itself")
	}
	self, err := k.certified(user, packets[0])
	if err != nil {
		return nil, err
	}
	if self.signs() {
		k.signing = append(k.signing, k.primary)
	}
	return packets[1:], nil
}

// certified verifies what the primary key says of itself: with a user ID or
// alone.
func (k *Key) certified(user *packet, p packet) (*signature, error) {
	s, err := k.selfSignature(p)
	if err != nil {
		return nil, fmt.Errorf("self-signature: %w", err)
	}
	covered := [][]byte{k.primary.hashed()}
	switch {
	case user == nil && s.typ == typeDirect:
	case user != nil && s.typ >= typeCertGeneric && s.typ <= typeCertLast:
		covered = append(covered, binary.BigEndian.AppendUint32([]byte{0xB4}, uint32(len(user.body))), user.body)
	default:
		return nil, fmt.Errorf("self-signature of type 0x%02x in the wrong place", s.typ)
	}
	if err := s.verify(k.primary, covered...); err != nil {
		return nil, fmt.Errorf("self-signature: %w", err)
	}
	return s, nil
}

// bound verifies that the primary key has a subkey for signing, and that the
// subkey agrees.
func (k *Key) bound(sub, p packet) (*PublicKey, *signature, error) {
	key, err := parsePublicKey(bytes.Clone(sub.body))
	if err != nil {
		return nil, nil, fmt.Errorf("subkey: %w", err)
	}
	refuse := func(format string, args ...any) (*PublicKey, *signature, error) {
		return nil, nil, fmt.Errorf("subkey %s: %w", key.Fingerprint(), fmt.Errorf(format, args...))
	}
	if key.version != k.primary.version {
		return refuse("it is of version %d, the primary key of version %d", key.version, k.primary.version)
	}
	s, err := k.selfSignature(p)
	if err != nil {
		return refuse("binding: %w", err)
	}
	covered := [][]byte{k.primary.hashed(), key.hashed()}
	if s.typ != typeBinding {
		return refuse("binding of type 0x%02x, expected 0x18", s.typ)
	}
	if err := s.verify(k.primary, covered...); err != nil {
		return refuse("binding: %w", err)
	}
	if !s.signs() {
		return refuse("it is not bound for signing")
	}
	var embedded [][]byte
	for _, e := range slices.Concat(s.hashed, s.unhashed) {
		if e.typ == subEmbedded {
			embedded = append(embedded, e.data)
		}
	}
	if len(embedded) != 1 {
		return refuse("the binding has %d signatures of the subkey inside, expected 1", len(embedded))
	}
	back, err := parseSignatureBody(embedded[0])
	if err != nil {
		return refuse("signature back: %w", err)
	}
	if back.typ != typeBack {
		return refuse("signature back of type 0x%02x, expected 0x19", back.typ)
	}
	if err := back.verify(key, covered...); err != nil {
		return refuse("signature back: %w", err)
	}
	return key, s, nil
}

// selfSignature reads a signature that the primary key says it made.
func (k *Key) selfSignature(p packet) (*signature, error) {
	s, err := parseSignatureBody(bytes.Clone(p.body))
	if err != nil {
		return nil, err
	}
	if !s.by(k.primary) {
		return nil, fmt.Errorf("made by another key than %s", k.Fingerprint())
	}
	for _, sub := range s.hashed {
		switch {
		case sub.typ == subExpires:
			return nil, fmt.Errorf("it says that it expires")
		case sub.critical && !slices.Contains([]int{subCreated, subKeyExpires, subKeyFlags, subIssuerID, subIssuer, subEmbedded}, sub.typ):
			return nil, fmt.Errorf("critical subpacket of type %d, which is not known here", sub.typ)
		}
	}
	return s, nil
}

// signs reports whether key flags allow the signing of data.
func (s *signature) signs() bool {
	flags, ok := s.find(subKeyFlags)
	return ok && len(flags) > 0 && flags[0]&flagSign != 0
}

// says reports whether the signature says what a key is for.
func (s *signature) says() bool {
	_, ok := s.find(subKeyFlags)
	return ok
}

// refuseRevocation refuses a key that says that it, or a part of it, is not to be
// trusted any more.
func refuseRevocation(p packet) error {
	if p.tag != tagSignature || len(p.body) < 2 {
		return nil
	}
	switch p.body[1] {
	case typeRevokeKey, typeRevokeSub, typeRevokeCert:
		return fmt.Errorf("the key holds a revocation (type 0x%02x)", p.body[1])
	}
	return nil
}

// Minimal reads what "gpg --export" writes, armoured or not, and keeps the
// smallest key that says who signs: the primary key with its newest
// self-signature, and the signing subkeys. What has expired at the given time is
// left out, or refused if it is the whole key.
func Minimal(export []byte, now time.Time) (*Key, error) {
	if bytes.HasPrefix(export, []byte("-----BEGIN")) {
		var err error
		if export, err = unarmor(string(export), keyBlock); err != nil {
			return nil, err
		}
	}
	packets, err := splitPackets(export)
	if err != nil {
		return nil, err
	}
	for _, p := range packets {
		if err := refuseRevocation(p); err != nil {
			return nil, err
		}
	}
	if len(packets) == 0 || packets[0].tag != tagPublicKey {
		return nil, fmt.Errorf("not a public key as \"gpg --export\" writes it")
	}
	if slices.ContainsFunc(packets[1:], func(p packet) bool { return p.tag == tagPublicKey }) {
		return nil, fmt.Errorf("more than one key; export one")
	}
	k := &Key{}
	if k.primary, err = parsePublicKey(packets[0].body); err != nil {
		return nil, fmt.Errorf("primary key: %w", err)
	}
	out := packets[0].encode()
	self, err := k.newestSelf(packets[1:], now)
	if err != nil {
		return nil, err
	}
	out = append(out, self...)
	for i, p := range packets {
		if p.tag == tagPublicSubkey {
			out = append(out, k.newestBinding(p, packets[i+1:], now)...)
		}
	}
	return ParseKey(out)
}

// newestSelf finds the newest self-signature that says what the key is for, with its
// user ID. In keys of version 6 those over user IDs do not say it.
func (k *Key) newestSelf(packets []packet, now time.Time) ([]byte, error) {
	var user *packet
	var best *signature
	var found []byte
	var problems []string
	for i, p := range packets {
		switch p.tag {
		case tagUserID:
			user = &packets[i]
			continue
		case tagUserAttribute, tagPublicSubkey:
			user = &packet{tag: p.tag} // what follows is not about a name
			continue
		case tagSignature:
		default:
			continue
		}
		if user != nil && user.tag != tagUserID {
			continue
		}
		s, err := k.certified(user, p)
		if err != nil {
			problems = append(problems, err.Error())
			continue
		}
		if best == nil || s.says() && !best.says() || s.says() == best.says() && s.created() >= best.created() {
			best, found = s, p.encode()
			if user != nil {
				found = append(user.encode(), found...)
			}
		}
	}
	if best == nil {
		return nil, fmt.Errorf("no self-signature that counts: %s", strings.Join(problems, "; "))
	}
	if end, ok := best.keyEnds(k.primary); ok && !now.Before(end) {
		return nil, fmt.Errorf("the key expired on %s", end.UTC().Format(time.DateOnly))
	}
	return found, nil
}

// newestBinding finds the newest binding of a subkey that signs and has not
// expired, and returns both; nothing if there is none.
func (k *Key) newestBinding(sub packet, after []packet, now time.Time) []byte {
	var best *signature
	var found []byte
	for _, p := range after {
		if p.tag != tagSignature && p.tag != tagTrust {
			break
		}
		key, s, err := k.bound(sub, p)
		if err != nil {
			continue // it encrypts, or is not bound
		}
		if best == nil || s.created() >= best.created() {
			best, found = s, slices.Concat(sub.encode(), p.encode())
			if end, ok := s.keyEnds(key); ok && !now.Before(end) {
				found = nil
			}
		}
	}
	return found
}

// created is when the signature says it was made, in seconds.
func (s *signature) created() uint32 {
	data, ok := s.find(subCreated)
	if !ok || len(data) != 4 {
		return 0
	}
	return binary.BigEndian.Uint32(data)
}

// keyEnds is when a key expires by its own word.
func (s *signature) keyEnds(k *PublicKey) (time.Time, bool) {
	data, ok := s.find(subKeyExpires)
	if !ok || len(data) != 4 || binary.BigEndian.Uint32(data) == 0 {
		return time.Time{}, false
	}
	made := binary.BigEndian.Uint32(k.body[1:])
	return time.Unix(int64(made)+int64(binary.BigEndian.Uint32(data)), 0), true
}
