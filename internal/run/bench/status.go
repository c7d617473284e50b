package bench

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
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
		add(ManifestFile, err, whoIsLeft(d.Signatures, message, err, opt)...)
	}
	pins, sigs, err := LoadPins(root)
	if err != nil {
		return nil, err
	}
	if pins != nil {
		// First what they say: to sign them before it is right is in vain.
		if err := v.checkPinned(*pins); err != nil {
			add(PinsFile, err)
			return missing, nil
		}
	}
	if _, err := VerifyPins(root, opt); err != nil && pins == nil {
		add(PinsFile, err)
	} else if err != nil {
		message, merr := pins.Message()
		if merr != nil {
			return nil, merr
		}
		add(PinsFile, err, whoIsLeft(sigs, message, err, opt)...)
	}
	return missing, nil
}

// whoIsLeft lists the people who could sign a manifest or pins and have not,
// given why the signatures that are there do not do.
func whoIsLeft(sigs [][]byte, message []byte, why error, opt Options) []string {
	role := seal.Role("")
	if refusal.Is(why, refusal.RoleMissing) {
		role = seal.Security
	}
	return slices.DeleteFunc(opt.Signers.Candidates(seal.NamespaceBench, opt.Now, role), func(name string) bool {
		return slices.ContainsFunc(sigs, func(s []byte) bool {
			sig, err := opt.Signers.Verify(s, message, seal.NamespaceBench, opt.Now)
			return err == nil && sig.Principal() == name
		})
	})
}

// Status lists what one case or draft still lacks.
func (c *CaseFolder) Status(opt Options) []Missing {
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
func (c *CaseFolder) whoMaySign(opt Options) []string {
	added, reviewed := c.Provenance.AddedBy, c.Provenance.ReviewedBy
	if added == nil || reviewed == nil {
		return holders(opt, seal.Curator, seal.Security)
	}
	message, err := c.Message()
	if err != nil {
		return nil
	}
	var names []string
	for _, p := range []*Person{added, reviewed} {
		sig, err := opt.Signers.Verify([]byte(p.Signature), message, seal.NamespaceCase, opt.Now)
		if (err != nil || sig.Principal() != p.Identity) && !slices.Contains(names, p.Identity) {
			names = append(names, p.Identity)
		}
	}
	return names
}

// holders lists the people who may sign cases in one of the roles.
func holders(opt Options, roles ...seal.Role) []string {
	var names []string
	for _, role := range roles {
		for _, name := range opt.Signers.Candidates(seal.NamespaceCase, opt.Now, role) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// People returns those who are to add and to review a case: the people named,
// or, if none are, the only two there are. It refuses a name under which no
// person could ever sign.
func People(added, reviewed string, opt Options) (*Person, *Person, error) {
	curators, reviewers := holders(opt, seal.Curator), holders(opt, seal.Curator, seal.Security)
	if added == "" && reviewed == "" && len(reviewers) == 2 && len(curators) > 0 {
		added, reviewed = curators[0], reviewers[0]
		if added == reviewed {
			reviewed = reviewers[1]
		}
	}
	a, err := person("added-by", added, curators, opt)
	if err != nil {
		return nil, nil, err
	}
	r, err := person("reviewed-by", reviewed, reviewers, opt)
	if err != nil {
		return nil, nil, err
	}
	if a != nil && r != nil && strings.EqualFold(added, reviewed) {
		return nil, nil, refusal.Newf(refusal.Usage, "%s cannot both add and review a case, which takes two people", added)
	}
	return a, r, nil
}

func person(flag, name string, able []string, opt Options) (*Person, error) {
	if name == "" {
		return nil, nil
	}
	// Whom an authority certifies is not in the file.
	certified := slices.ContainsFunc(opt.Signers.Entries(), func(e seal.Entry) bool { return e.Authority })
	if !slices.Contains(able, name) && !certified {
		return nil, refusal.Newf(refusal.Usage, "--%s %s: no person of that name may sign there now", flag, name).
			WithHint("who may: %s", cmp.Or(strings.Join(able, ", "), "no person"))
	}
	return &Person{Identity: name}, nil
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
