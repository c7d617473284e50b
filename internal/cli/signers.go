package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tallystick/internal/app/ceremony"
	"tallystick/internal/record/digest"
	"tallystick/internal/record/plain"
	"tallystick/internal/record/refusal"
	"tallystick/internal/record/seal"
)

func newSigners(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "signers",
		Short:   "Who is trusted: show, change, sign and apply the signers file",
		Example: "tally signers show",
		Long: `The people of a workspace are in signers/allowed_signers, a file that ssh-keygen
reads too. Version n+1 needs the signatures of two people of version n who are curators
or hold the security role, one of them the latter:

  tally signers next            prepare the next version for editing
  tally signers sign --key K    each of two people signs it, with SSH or (--gpg K) OpenPGP
  tally signers apply           record it in the ledger; from then on it counts

Records name their operator by a salted hash; "tally signers operators" tells who it is.`,
	}
	cmd.AddCommand(newSignersShow(env), newSignersNext(env), newSignersAdd(env), newSignersSign(env), newSignersApply(env), newSignersOperators(env))
	return cmd
}

// signersAnswer is the version in force and whether the file is that version.
type signersAnswer struct {
	Version int                `json:"version"`
	Digest  digest.ID          `json:"digest"`
	People  []personEntry      `json:"people"`
	File    ceremony.FileState `json:"file"`
}

type personEntry struct {
	Principal   string      `json:"principal"`
	Roles       []seal.Role `json:"roles"`
	Fingerprint string      `json:"fingerprint"`
	Authority   bool        `json:"cert_authority,omitempty"`
	Namespaces  string      `json:"namespaces,omitempty"`
	ValidAfter  *time.Time  `json:"valid_after,omitempty"`
	ValidBefore *time.Time  `json:"valid_before,omitempty"`
}

func describePerson(e seal.Entry) personEntry {
	p := personEntry{Principal: e.Principals, Roles: append([]seal.Role{}, e.Roles...), Fingerprint: e.Key.Fingerprint(), Authority: e.Authority, Namespaces: e.Namespaces}
	if !e.ValidAfter.IsZero() {
		p.ValidAfter = &e.ValidAfter
	}
	if !e.ValidBefore.IsZero() {
		p.ValidBefore = &e.ValidBefore
	}
	return p
}

// limits says what the line admits, if that is not everything.
func (p personEntry) limits() string {
	var limits []string
	if p.Authority {
		limits = append(limits, "certifies these names")
	}
	if p.Namespaces != "" {
		limits = append(limits, "signs "+p.Namespaces)
	}
	if p.ValidAfter != nil {
		limits = append(limits, "from "+p.ValidAfter.Format(time.RFC3339))
	}
	if p.ValidBefore != nil {
		limits = append(limits, "until "+p.ValidBefore.Format(time.RFC3339))
	}
	return strings.Join(limits, ", ")
}

func newSignersShow(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:     "show",
		Short:   "Print the people in force, as the ledger has them",
		Example: "tally signers show",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runSignersShow(cmd.Context(), env) },
	}
}

func runSignersShow(_ context.Context, env *Env) error {
	s, err := readSigners(env)
	if err != nil {
		return err
	}
	a := signersAnswer{Version: s.InForce.Version(), Digest: s.InForce.Digest(), File: s.State()}
	for _, e := range s.InForce.Entries() {
		a.People = append(a.People, describePerson(e))
	}
	return env.Answer(a, func(out io.Writer) {
		fmt.Fprintf(out, "version %d in force, %s\n", a.Version, a.Digest)
		for _, p := range a.People {
			fmt.Fprintf(out, "  %-28s %-26s %s\n", plain.Line(p.Principal), joinRoles(p.Roles), p.Fingerprint)
			if limits := p.limits(); limits != "" {
				fmt.Fprintf(out, "    %s\n", plain.Line(limits))
			}
		}
		switch a.File {
		case ceremony.FileProposed:
			fmt.Fprintf(out, "signers/allowed_signers proposes version %d; two of the people above sign it with \"tally signers sign\"\n", a.Version+1)
		case ceremony.FileDiffers:
			fmt.Fprintf(out, "signers/allowed_signers is NOT this version and does not follow from it; the ledger counts, the file does not\n")
		case ceremony.FileMissing:
			fmt.Fprintf(out, "signers/allowed_signers is missing; \"tally signers next\" writes what would be version %d\n", a.Version+1)
		}
	})
}

func joinRoles(roles []seal.Role) string {
	names := make([]string, len(roles))
	for i, r := range roles {
		names[i] = string(r)
	}
	return strings.Join(names, ",")
}

func newSignersNext(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:     "next",
		Short:   "Prepare the next version of the signers file for editing",
		Example: "tally signers next",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runSignersNext(cmd.Context(), env) },
	}
}

type signersAddOptions struct{ name, gpg, ssh, roles string }

func newSignersAdd(env *Env) *cobra.Command {
	var o signersAddOptions
	cmd := &cobra.Command{
		Use:     "add NAME (--gpg-key FILE | --ssh FILE)",
		Short:   "Add a person's key to the proposed signers file",
		Example: "tally signers add carol@example.com --ssh carol.pub --roles curator",
		Long: `Add a key to the proposed next version of the signers file, and begin that version if
there is none. --ssh takes a .pub file; with --roles worker it is a machine of a fleet,
which may sign results and nothing else. --gpg takes what gpg writes ("-" reads standard
input):

  gpg --export-options export-minimal --export FINGERPRINT > name.gpg

The line holds the key itself, so nothing is ever fetched: the primary key with one
self-signature, and its signing subkeys. A key that is weak, expired or holds a
revocation is refused. When the person may sign is up to the line (valid-after,
valid-before), not to dates in the key. SSH keys with such limits are added with an editor.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.name = args[0]
			return runSignersAdd(cmd.Context(), env, o)
		},
	}
	cmd.Flags().StringVar(&o.gpg, "gpg-key", "", "`FILE` with the exported OpenPGP key")
	cmd.Flags().StringVar(&o.ssh, "ssh", "", "`FILE` with the public SSH key")
	cmd.Flags().StringVar(&o.roles, "roles", "", "comma-separated `ROLES`: curator, security, operator; or worker alone")
	cmd.MarkFlagsOneRequired("gpg-key", "ssh")
	cmd.MarkFlagsMutuallyExclusive("gpg-key", "ssh")
	return cmd
}

func runSignersAdd(_ context.Context, env *Env, o signersAddOptions) error {
	var roles []seal.Role
	var err error
	if o.roles != "" {
		if roles, err = seal.ParseRoles(o.roles); err != nil {
			return refusal.Newf(refusal.Usage, "--roles: %w", err)
		}
	}
	export, err := readDocument(env, o.gpg+o.ssh)
	if err != nil {
		return err
	}
	s, err := readSigners(env)
	if err != nil {
		return err
	}
	add := s.AddOpenPGP
	if o.ssh != "" {
		add = s.AddSSH
	}
	version, fingerprint, err := add(o.name, roles, export)
	if err != nil {
		return err
	}
	return env.Answer(map[string]any{"file": s.SignersFile(), "version": version, "fingerprint": fingerprint}, func(out io.Writer) {
		fmt.Fprintf(out, "added %s, %s, to what may become version %d\n", plain.Line(o.name), fingerprint, version)
		fmt.Fprintln(out, "Next: compare the fingerprint with the person, then two present signers run \"tally signers sign\"")
	})
}

type signersSignOptions struct{ ceremony.Pen }

func newSignersSign(env *Env) *cobra.Command {
	var o signersSignOptions
	cmd := &cobra.Command{
		Use:     "sign (--key FILE | --gpg KEY)",
		Short:   "Sign the proposed signers file",
		Example: "tally signers sign --key ~/.ssh/id_ed25519",
		Long: `Sign the proposed signers file with an SSH key: a private key file, or the .pub
file of a key or a certificate whose private half lies beside it or is held by the
SSH agent. --gpg has gpg sign with an OpenPGP key. A signature made by hand counts too:

  ssh-keygen -Y sign -n tallystick-signers -f KEY signers/allowed_signers`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runSignersSign(cmd.Context(), env, o) },
	}
	cmd.Flags().StringVar(&o.Key, "key", "", "SSH key `FILE` to sign with")
	cmd.Flags().StringVar(&o.GPG, "gpg", "", gpgFlag)
	cmd.MarkFlagsOneRequired("key", "gpg")
	cmd.MarkFlagsMutuallyExclusive("key", "gpg")
	return cmd
}

func newSignersApply(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:     "apply",
		Short:   "Record the signed next version in the ledger",
		Example: "tally signers apply",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runSignersApply(cmd.Context(), env) },
	}
}

// readSigners reads the version in force and the file beside it.
func readSigners(e *Env) (*ceremony.Signers, error) {
	p, err := openPlace(e)
	if err != nil {
		return nil, err
	}
	return ceremony.ReadSigners(p)
}

func runSignersNext(_ context.Context, env *Env) error {
	s, err := readSigners(env)
	if err != nil {
		return err
	}
	version, err := s.Next()
	if err != nil {
		return err
	}
	return env.Answer(map[string]any{"file": s.SignersFile(), "version": version}, func(out io.Writer) {
		fmt.Fprintf(out, "%s is ready to become version %d\n", plain.Line(s.SignersFile()), version)
		fmt.Fprintf(out, "Next: edit it, then two of %s run \"tally signers sign --key THEIR-SSH-KEY\"\n", plain.Line(strings.Join(s.InForce.Candidates(seal.NamespaceSigners, env.Now(), ""), ", ")))
	})
}

func runSignersSign(_ context.Context, env *Env, o signersSignOptions) error {
	s, err := readSigners(env)
	if err != nil {
		return err
	}
	missing, err := s.Sign(o.Pen)
	if err != nil {
		return err
	}
	return env.Answer(map[string]any{"file": s.SignersFile() + ".sig", "complete": missing == nil}, func(out io.Writer) {
		fmt.Fprintf(out, "signed %s\n", plain.Line(s.SignersFile()))
		if missing != nil {
			fmt.Fprintf(out, "Still missing: %s\n", plain.Line(missing.Error()))
			return
		}
		fmt.Fprintln(out, `Next: tally signers apply`)
	})
}

func runSignersApply(ctx context.Context, env *Env) error {
	s, err := readSigners(env)
	if err != nil {
		return err
	}
	version, pos, err := s.Apply(ctx)
	if err != nil {
		return err
	}
	return env.Answer(map[string]any{"version": version, "index": pos.Index, "head": pos.Head}, func(out io.Writer) {
		fmt.Fprintf(out, "version %d of the signers is in force after entry %d\n", version, pos.Index)
	})
}
