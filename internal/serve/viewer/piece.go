package viewer

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
)

// maxPiece bounds a piece of evidence that is sent to a browser.
const maxPiece = 32 << 20

// piecePolicy lets a piece of evidence do nothing, whatever it is.
const piecePolicy = "sandbox; default-src 'none'; frame-ancestors 'none'"

// pieceOf finds a piece that the evidence of a case names. A held-out case has
// none for pages.
func (v *Viewer) pieceOf(c *dossier.Case, name string) ([]byte, error) {
	d, err := digest.ParseContent(name)
	if err != nil {
		return nil, refusal.Newf(refusal.UnknownName, "%q is not the name of a piece of evidence", name)
	}
	if held, err := c.IsHidden(); err != nil || held {
		return nil, refusal.Newf(refusal.NotFound, "case %s is held out: its evidence is not shown", c.ID)
	}
	files, err := c.Files()
	if err != nil {
		return nil, err
	}
	if !slices.Contains(files.All(), d) && !slices.Contains(c.Evidence, d) {
		return nil, refusal.Newf(refusal.NotFound, "the evidence of case %s has no piece %s", c.ID, d)
	}
	data, err := v.r.Piece(d)
	if err == nil && len(data) > maxPiece {
		return nil, refusal.Newf(refusal.TooLarge, "%s has %d bytes; pages send at most %d", d, len(data), maxPiece)
	}
	return data, err
}

// piece sends a piece of evidence as text, whatever it is.
func (v *Viewer) piece(w http.ResponseWriter, req *http.Request) {
	v.send(w, req, func(data []byte) (kind, name string, err error) {
		return "text/plain; charset=utf-8", "evidence.txt", nil
	})
}

// blob sends an image that an agent made. Nothing else is sent as what it claims to
// be, and no SVG: that is a program.
func (v *Viewer) blob(w http.ResponseWriter, req *http.Request) {
	v.send(w, req, func(data []byte) (kind, name string, err error) {
		kind = imageType(data)
		if kind == "" {
			return "", "", refusal.Newf(refusal.NotFound, "this piece of evidence is not a PNG, JPEG, GIF or WebP image")
		}
		return kind, "image." + kind[len("image/"):], nil
	})
}

func (v *Viewer) send(w http.ResponseWriter, req *http.Request, as func([]byte) (kind, name string, err error)) {
	data, kind, name, err := v.gather(req, as)
	if err != nil {
		refuse(w, failed(err).Status, err.Error())
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", piecePolicy)
	h.Set("Content-Type", kind)
	h.Set("Content-Disposition", `inline; filename="`+name+`"`)
	w.Write(data)
}

func (v *Viewer) gather(req *http.Request, as func([]byte) (kind, name string, err error)) (data []byte, kind, name string, err error) {
	leave, err := v.enter()
	defer leave()
	if err != nil {
		return nil, "", "", err
	}
	if req.PathValue("case") == "" { // /blob/{digest}?attempt=…&case=…
		req.SetPathValue("id", req.URL.Query().Get("attempt"))
		req.SetPathValue("case", req.URL.Query().Get("case"))
	}
	c, err := v.lookUpCase(req)
	if err != nil {
		return nil, "", "", err
	}
	if data, err = v.pieceOf(c, req.PathValue("digest")); err != nil {
		return nil, "", "", err
	}
	kind, name, err = as(data)
	return data, kind, name, err
}

// imageType tells an image by its first bytes; "" if it is not an image that is shown.
func imageType(data []byte) string {
	switch {
	case bytes.HasPrefix(data, []byte("\x89PNG\r\n\x1a\n")):
		return "image/png"
	case bytes.HasPrefix(data, []byte("\xff\xd8\xff")):
		return "image/jpeg"
	case bytes.HasPrefix(data, []byte("GIF87a")), bytes.HasPrefix(data, []byte("GIF89a")):
		return "image/gif"
	case len(data) > 12 && string(data[:4]) == "RIFF" && string(data[8:12]) == "WEBP":
		return "image/webp"
	}
	return ""
}

// pretty is JSON with line feeds, for people.
func pretty(raw []byte) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return Text(string(raw))
	}
	return visible(b.String(), 20*maxTextRunes)
}
