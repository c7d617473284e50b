package bench

import (
	"bytes"
	"fmt"
	"os"
	"slices"

	"tallystick/internal/refusal"
	"tallystick/internal/seal"
)

// A Missing is something that a class lacks before it verifies, and who can
// supply it.
type Missing struct {
	What string   `json:"what"`          // "case greeting", "manifest.yaml", "bench/digests.yaml"
	Why  string   `json:"why"`           // what is found and what is expected
	Who  []string `json:"who,omitempty"` // who may sign
}

// Status lists everything that a class still lacks, so that people know what
// to do next. It decides nothing: only [Verify] does.
func (d *Draft) Status(root *os.Root, opt Options) ([]Missing, error) {
	if d.Registration.Trust == Scratch {
		return nil, nil
	}
	var missing []Missing
	add := func(what string, err error, who ...string) {
		missing = append(missing, Missing{what, err.Error(), who})
	}
	computed, digests, err := d.Compute()
	if err != nil {
		return nil, err
	}
	v := &Verified{draft: d}
	if err := v.checkDigests(digests, false); err != nil {
		add(DigestsFile, err)
	}
	for _, c := range d.Cases {
		missing = append(missing, c.Status(opt)...)
	}
	if err := v.checkManifest(computed, false); err != nil {
		add(ManifestFile, err)
	} else if message, err := computed.Message(); err != nil {
		return nil, err
	} else if _, err := verifyTwo(d.Signatures, message, opt); err != nil {
		add(ManifestFile, err, whoMaySign(opt, seal.NamespaceBench)...)
	}
	switch err := v.checkPins(root, opt); {
	case refusal.ExitCode(err) == refusal.ExitUnverified:
		add(PinsFile, err, whoMaySign(opt, seal.NamespaceBench)...)
	case err != nil:
		return nil, err
	}
	return missing, nil
}

// Status lists what one case or draft still lacks.
func (c *DraftCase) Status(opt Options) []Missing {
	what := "case " + c.CaseID
	if c.Pending {
		what = "draft " + c.CaseID
	}
	var missing []Missing
	if c.CaseDigest == nil || *c.CaseDigest != c.Digest {
		missing = append(missing, Missing{What: what, Why: fmt.Sprintf("the files are %s, case.yaml field case_digest says %s", c.Digest, optional(c.CaseDigest))})
	}
	if err := c.checkCassette(false); err != nil && !c.Pending {
		missing = append(missing, Missing{What: what, Why: err.Error()})
	}
	if err := c.VerifySignatures(opt); err != nil {
		missing = append(missing, Missing{what, err.Error(), c.whoMaySign(opt)})
	}
	return missing
}

// whoMaySign names the people whose signature the case waits for, or those who
// could be named in it.
func (c *DraftCase) whoMaySign(opt Options) []string {
	added, reviewed := c.Provenance.AddedBy, c.Provenance.ReviewedBy
	if added == nil || reviewed == nil {
		return whoMaySign(opt, seal.NamespaceCase, seal.Curator, seal.Security)
	}
	message, err := c.Message()
	if err != nil {
		return nil
	}
	var names []string
	for _, p := range []*Person{added, reviewed} {
		sig, err := opt.Signers.Verify([]byte(p.Signature), message, seal.NamespaceCase, opt.Now)
		if err != nil || sig.Principal() != p.Identity {
			names = append(names, p.Identity)
		}
	}
	return names
}

// whoMaySign lists the people who hold one of the roles, or anybody if none is
// asked for.
func whoMaySign(opt Options, ns seal.Namespace, roles ...seal.Role) []string {
	if len(roles) == 0 {
		return opt.Signers.Candidates(ns, opt.Now, "")
	}
	var names []string
	for _, role := range roles {
		for _, name := range opt.Signers.Candidates(ns, opt.Now, role) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// Candidates suggests who could add and who could review a case, when there is
// only one way to choose; nil otherwise.
func Candidates(signers *seal.Signers) (added, reviewed *Person) {
	opt := Options{Signers: signers}
	curators := whoMaySign(opt, seal.NamespaceCase, seal.Curator)
	reviewers := whoMaySign(opt, seal.NamespaceCase, seal.Curator, seal.Security)
	if len(reviewers) != 2 || len(curators) == 0 {
		return nil, nil
	}
	first, second := curators[0], reviewers[0]
	if first == second {
		second = reviewers[1]
	}
	return &Person{Identity: first}, &Person{Identity: second}
}

// HasSigned reports whether one of the signatures over the message is by this
// key, as authorized for the act.
func HasSigned(sigs [][]byte, message []byte, ns seal.Namespace, key []byte, opt Options) bool {
	return slices.ContainsFunc(sigs, func(s []byte) bool {
		sig, err := opt.Signers.Verify(s, message, ns, opt.Now)
		return err == nil && bytes.Equal(sig.Key().Marshal(), key)
	})
}

// KeepSignatures returns those of the signatures that cover the message: the
// others were made over earlier bytes.
func KeepSignatures(sigs [][]byte, message []byte, opt Options) [][]byte {
	var kept [][]byte
	for _, s := range sigs {
		_, err := opt.Signers.Verify(s, message, seal.NamespaceBench, opt.Now)
		if err != nil {
			continue
		}
		if !slices.ContainsFunc(kept, func(k []byte) bool { return bytes.Equal(k, s) }) {
			kept = append(kept, s)
		}
	}
	return kept
}
