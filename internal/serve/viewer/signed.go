package viewer

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"slices"
	"sync"

	"tallystick/internal/record/canon"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/format"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

// maxSignedBytes bounds the pages that are kept until a browser asks for their signature,
// which it does at once.
const maxSignedBytes = 8 << 20

// signedPages are the pages that were sent last, and the key that signs them. A browser
// cannot see the bytes that a page was made of, so it asks for them again, by a name that
// stands in the page, with the signature.
type signedPages struct {
	key    *seal.Key
	origin string

	mu    sync.Mutex
	kept  map[string]sentPage
	order []string
	bytes int
}

type sentPage struct {
	address string
	html    []byte
}

// newSignedPages is nil if the key of an operator of this ledger is not at hand.
func (v *Viewer) newSignedPages() *signedPages {
	key, err := v.operatorKey()
	if err != nil {
		return nil
	}
	return &signedPages{key: key, origin: v.r.History.Origin, kept: map[string]sentPage{}}
}

// operatorKey is the key at hand, if it is one of this ledger.
func (v *Viewer) operatorKey() (*seal.Key, error) {
	key, err := v.config.Place.OperatorKey()
	if err != nil {
		return nil, err
	}
	pub, _ := key.Public().Ed25519()
	if !slices.Contains(v.r.VerifierKeys(), seal.VKey(pub, v.r.History.Origin)) {
		return nil, refusal.Newf(refusal.NotAnOperator, "the operator key here is not a key of this ledger")
	}
	return key, nil
}

// name is a name that a page has before it is made.
func (*signedPages) name() string {
	var b [16]byte
	rand.Read(b[:])
	return "page/" + hex.EncodeToString(b[:])
}

// keep keeps a page until others have taken its place.
func (s *signedPages) keep(name, address string, html []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept[name], s.order, s.bytes = sentPage{address, html}, append(s.order, name), s.bytes+len(html)
	for s.bytes > maxSignedBytes && len(s.order) > 1 {
		s.bytes -= len(s.kept[s.order[0]].html)
		delete(s.kept, s.order[0])
		s.order = s.order[1:]
	}
}

// A pageStatement is what a key signs of a page, in a namespace of its own: the signature
// is good for nothing else.
type pageStatement struct {
	Format  string    `json:"format"`
	Origin  string    `json:"origin"`
	Address string    `json:"address"`
	SHA256  digest.ID `json:"sha256"`
}

// A signedPageAnswer is a page, what was signed of it, and the signature.
type signedPageAnswer struct {
	HTML      string `json:"html"`
	Statement string `json:"statement"`
	Signature string `json:"signature"`
}

func (s *signedPages) answer(name string) (*signedPageAnswer, error) {
	s.mu.Lock()
	p, found := s.kept[name]
	s.mu.Unlock()
	if !found {
		return nil, refusal.Newf(refusal.NotFound, "the page was sent too long ago to be signed").WithHint("load the page again")
	}
	statement, err := canon.Marshal(pageStatement{"tallystick-page/" + format.Version, s.origin, p.address, digest.IDOf(p.html)})
	if err != nil {
		return nil, err
	}
	signature, err := s.key.SignMessage(seal.NamespacePage, statement)
	return &signedPageAnswer{string(p.html), string(statement), string(signature)}, err
}

func (v *Viewer) signedPage(w http.ResponseWriter, req *http.Request) {
	v.answer(w, func() (any, error) {
		if v.signed == nil {
			return nil, refusal.Newf(refusal.NotFound, "no key signs the pages of this server")
		}
		return v.signed.answer("page/" + req.PathValue("id"))
	})
}
