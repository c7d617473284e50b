package sandbox

import "tallystick/internal/refusal"

// openBackend prepares a class. It does not tell whether the class works.
func openBackend(class Class, o Options, base *runBase) (backend, error) {
	switch {
	case class == GVisor && o.Scope == ScopeAttempt:
		return newGvisorAttempt(o, base), nil
	case class == GVisor:
		return &gvisorCase{options: o, base: base}, nil
	case class == Namespace:
		return &namespaceCase{options: o, base: base}, nil
	case class == MicroVM:
		machine, err := findVM()
		if err != nil {
			return nil, refusal.Newf(refusal.SandboxUnavailable, "%w", err)
		}
		return &microvmCase{options: o, base: base, machine: machine}, nil
	}
	return nil, refusal.Newf(refusal.SandboxUnavailable, "not available on this system")
}
