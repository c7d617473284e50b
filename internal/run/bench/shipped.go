package bench

import (
	"fmt"
	"os"
	"strings"
	"time"

	"tallystick/internal/record/refusal"
)

// ShippedPrefix begins the names of classes that come with the program. No
// folder of a workspace can have such a name, so no class of a workspace can
// pose as one of them.
const ShippedPrefix = "builtin:"

// IsShipped reports whether a class comes with the program, by its name.
func IsShipped(class string) bool { return strings.HasPrefix(class, ShippedPrefix) }

// VerifyShipped reads the class in the folder bench/NAME of root and verifies
// it as one that comes with the program: everywhere it is called builtin:NAME.
//
// No signer of the workspace signed it, so it must be a scratch class, and what
// runs on it never counts for promotion. Digests that its cases pin must be
// right all the same. That a case was looked at long ago gives no warning,
// because an operator cannot change the case.
func VerifyShipped(root *os.Root, name string, now time.Time) (*Verified, error) {
	d, err := load(root, name, nil)
	if err != nil {
		return nil, err
	}
	d.rename(ShippedPrefix + name)
	if d.Registration.Trust != Scratch {
		return nil, refusal.Newf(refusal.PinMismatch, "class %s: its registration says trust %s, expected %s: no signer of this workspace signed it", d.Class, d.Registration.Trust, Scratch)
	}
	v := &Verified{draft: d, shipped: true}
	if err := v.verify(root, Options{Now: now}); err != nil {
		return nil, fmt.Errorf("class %s: %w", d.Class, err)
	}
	return v, nil
}

// rename gives the class the name that records will have. The messages of its
// cases and its digest follow it.
func (d *Draft) rename(class string) {
	d.Class = class
	for _, c := range d.Cases {
		c.class = class
	}
}
