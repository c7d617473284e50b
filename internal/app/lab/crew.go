package lab

import (
	"time"

	"tallystick/internal/read/dossier"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
	"tallystick/internal/run/agent"
	"tallystick/internal/run/bench"
	"tallystick/internal/run/harness"
)

// A Crew is what the coordinator of a fleet has of a setup: who may work, what runs,
// and the key that signs what is given out. It has no case.
type Crew struct {
	Signers      *seal.Signers
	Versions     []dossier.SignersVersion // of the signers, up to the one in force
	TrustRoot    digest.ID
	Key          *seal.Key // the operator's
	Target       *agent.Target
	Registration bench.Registration
	Spec         harness.Spec
	Now          func() time.Time
}

// Workers are the machines that may drive cases now: those of the signers, and of these
// only those that the registration's runner_keys name, if it names any. A case that
// another machine drove would not count.
func (c *Crew) Workers() ([]seal.Entry, error) {
	all := c.Signers.Workers(c.Now())
	if len(c.Registration.RunnerKeys) == 0 || len(all) == 0 {
		return all, nil
	}
	var named []seal.Entry
	for _, line := range c.Registration.RunnerKeys {
		key, err := seal.ParsePublicKey([]byte(line))
		if err != nil {
			return nil, err
		}
		for _, w := range all {
			if w.Key.Fingerprint() == key.Fingerprint() {
				named = append(named, w)
			}
		}
	}
	if len(named) == 0 {
		return nil, refusal.Newf(refusal.RoleMissing, "none of the %d workers of the signers is among the runner_keys of class %s", len(all), c.Registration.Class).
			WithHint("cases that they drive would not count for promotion; have their keys added to runner_keys of bench/%s/registration.yaml and the class signed again", c.Registration.Class)
	}
	return named, nil
}

// Crew gathers it, and refuses what cannot be spread over machines.
func (s *Setup) Crew() (Crew, error) {
	if s.place.Shared != nil {
		return Crew{}, refusal.Newf(refusal.Usage, "this checkout has a ledger of its own, whose people have no workers").WithHint("run over a fleet where the workspace's ledger is")
	}
	cfg, err := s.place.Config()
	if err != nil {
		return Crew{}, err
	}
	c := Crew{Signers: s.place.Options.Signers, Versions: s.place.Versions, TrustRoot: s.place.PeopleRoot(), Key: cfg.Key, Target: s.Target,
		Registration: s.Bench.Registration(), Spec: s.Spec, Now: s.place.Now}
	return c, nil
}
