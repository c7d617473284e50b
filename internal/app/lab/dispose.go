package lab

import (
	"context"

	"tallystick/internal/read/audit"
	"tallystick/internal/read/audit/disposition"
	"tallystick/internal/read/dossier"
	"tallystick/internal/record/evidence"
	"tallystick/internal/record/seal"
)

// DisposeOptions say what a person says about a finding, and who it is.
type DisposeOptions struct {
	Attempt string
	Finding string // the beginning of its id
	Reason  string
	Key     string // file of an SSH key
}

// A Disposed is a disposition that the ledger has.
type Disposed struct {
	disposition.Signed
	By    string `json:"by"`
	Entry int64  `json:"entry"`
}

// Dispose records what a person says about a finding of the audit of an attempt.
// The person must be one whom the signers file names now. The finding stays.
func Dispose(ctx context.Context, c *dossier.Corpus, o DisposeOptions) (*Disposed, error) {
	in, err := AuditInput(c, o.Attempt, false)
	if err != nil {
		return nil, err
	}
	report, err := audit.Run(ctx, in)
	if err != nil {
		return nil, err
	}
	data, err := report.Encode()
	if err != nil {
		return nil, err
	}
	key, err := seal.LoadKey(o.Key)
	if err != nil {
		return nil, err
	}
	s, err := disposition.New(data, o.Attempt, o.Finding, o.Reason, key)
	if err != nil {
		return nil, err
	}
	message, err := s.Message()
	if err != nil {
		return nil, err
	}
	by, err := c.Options.Signers.VerifyQuorum([][]byte{[]byte(s.Signature)}, message, seal.NamespaceDisposition, c.Now(), seal.Rule{People: 1})
	if err != nil {
		return nil, err
	}
	entry, err := s.Entry()
	if err != nil {
		return nil, err
	}
	pos, err := c.Append(ctx, evidence.AuditDisposedKind, entry)
	return &Disposed{*s, by[0].Principal(), pos.Index}, err
}
