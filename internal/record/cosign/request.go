package cosign

import (
	"encoding/base64"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
)

// A request is the body of add-checkpoint: a checkpoint, and the proof that it
// extends the tree of the old size. It was parsed and not verified.
type request struct {
	old        int64
	proof      tlog.TreeProof
	checkpoint signedHead
}

// parseRequest reads exactly the grammar of C2SP tlog-witness, section
// "add-checkpoint".
func parseRequest(body []byte) (*request, error) {
	line, rest, err := cutLine(body)
	if err != nil {
		return nil, err
	}
	digits, ok := strings.CutPrefix(line, "old ")
	if !ok {
		return nil, fmt.Errorf(`%s where "old" and a size is expected`, quote(line))
	}
	r := &request{}
	if r.old, err = parseSize(digits); err != nil {
		return nil, err
	}
	for {
		if line, rest, err = cutLine(rest); err != nil {
			return nil, err
		}
		if line == "" {
			break
		}
		if len(r.proof) == maxProofHashes {
			return nil, fmt.Errorf("more than %d lines of proof", maxProofHashes)
		}
		raw, err := decodeBase64(line)
		if err != nil || len(raw) != tlog.HashSize {
			return nil, fmt.Errorf("line %d of the proof: %s is not a hash", len(r.proof)+1, quote(line))
		}
		r.proof = append(r.proof, tlog.Hash(raw))
	}
	if r.checkpoint, err = parseSignedHead(rest); err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	return r, nil
}

// marshal writes what parseRequest reads.
func (r *request) marshal() []byte {
	out := fmt.Appendf(nil, "old %d\n", r.old)
	for _, h := range r.proof {
		out = append(out, base64.StdEncoding.EncodeToString(h[:])...)
		out = append(out, '\n')
	}
	out = append(out, '\n')
	return append(out, r.checkpoint.marshal()...)
}
