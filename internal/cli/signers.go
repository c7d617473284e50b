package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tallystick/internal/archive"
	"tallystick/internal/digest"
	"tallystick/internal/evidence"
	"tallystick/internal/ledger"
	"tallystick/internal/plain"
	"tallystick/internal/refusal"
	"tallystick/internal/seal"
	"tallystick/internal/store"
)

func newSigners(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "signers",
		Short: "Who is trusted: show, change, sign and apply the signers file",
		Long: `The people of a workspace are in signers/allowed_signers, a file that ssh-keygen
reads too. Version n+1 needs the signatures of two people of version n:

  tally signers next            prepare the next version for editing
  tally signers sign --key K    each of two people signs it
  tally signers apply           record it in the ledger; from then on it counts

Records name their operator by a salted hash; "tally signers operators" tells who it is.`,
	}
	cmd.AddCommand(newSignersShow(env), newSignersNext(env), newSignersSign(env), newSignersApply(env), newSignersOperators(env))
	return cmd
}

// signersAnswer is the version in force and whether the file is that version.
type signersAnswer struct {
	Version int           `json:"version"`
	Digest  digest.ID     `json:"digest"`
	People  []personEntry `json:"people"`
	File    string        `json:"file"` // in-force, proposed, differs or missing
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
		Use:   "show",
		Short: "Print the people in force, as the ledger has them",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return runSignersShow(cmd.Context(), env) },
	}
}

// signersFile verifies the ledger and reads the file beside it, which may
// propose another version than the one in force, or be gone: then it is nil.
func (e *Env) signersFile() (*archive.Place, *ledger.Verified, []byte, error) {
	w, v, err := e.verifiedLedger(nil)
	if err != nil {
		return nil, nil, nil, err
	}
	data, err := store.ReadFile(store.OS{}, w.SignersFile(), archive.MaxSignedFile)
	if errors.Is(err, fs.ErrNotExist) {
		return w, v, nil, nil
	}
	return w, v, data, err
}

// stateOfFile says what the file is beside the version in force.
func stateOfFile(inForce *seal.Signers, data []byte) string {
	if data == nil {
		return "missing"
	}
	if digest.IDOf(data) == inForce.Digest() {
		return "in-force"
	}
	if _, err := seal.ParseNext(inForce, data); err == nil {
		return "proposed"
	}
	return "differs"
}

func runSignersShow(_ context.Context, env *Env) error {
	_, v, data, err := env.signersFile()
	if err != nil {
		return err
	}
	a := signersAnswer{Version: v.Signers.Version(), Digest: v.Signers.Digest(), File: stateOfFile(v.Signers, data)}
	for _, e := range v.Signers.Entries() {
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
		case "proposed":
			fmt.Fprintf(out, "signers/allowed_signers proposes version %d; two of the people above sign it with \"tally signers sign\"\n", a.Version+1)
		case "differs":
			fmt.Fprintf(out, "signers/allowed_signers is NOT this version and does not follow from it; the ledger counts, the file does not\n")
		case "missing":
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
		Use:   "next",
		Short: "Prepare the next version of the signers file for editing",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return runSignersNext(cmd.Context(), env) },
	}
}

func runSignersNext(_ context.Context, env *Env) error {
	w, v, data, err := env.signersFile()
	if err != nil {
		return err
	}
	if state := stateOfFile(v.Signers, data); state != "in-force" && state != "missing" {
		return refusal.Newf(refusal.AlreadyExists, "%s is not the version in force; it is not overwritten", w.SignersFile()).
			WithHint(`"tally signers show" tells what it is`)
	}
	// The signatures of the version in force are in the ledger. Left here they
	// would count as wrong ones of the next.
	stale, err := archive.SignatureFiles(w.SignersFile())
	if err != nil {
		return err
	}
	for _, name := range stale {
		if err := store.RemoveTree(name); err != nil {
			return err
		}
	}
	if err := store.WriteFile(store.OS{}, w.SignersFile(), v.Signers.Next(), 0o644); err != nil {
		return err
	}
	version := v.Signers.Version() + 1
	return env.Answer(map[string]any{"file": w.SignersFile(), "version": version}, func(out io.Writer) {
		fmt.Fprintf(out, "%s is ready to become version %d\n", plain.Line(w.SignersFile()), version)
		fmt.Fprintf(out, "Next: edit it, then two of %s run \"tally signers sign --key THEIR-SSH-KEY\"\n", plain.Line(strings.Join(v.Signers.Candidates(seal.NamespaceSigners, env.Now(), ""), ", ")))
	})
}

type signersSignOptions struct{ key string }

func newSignersSign(env *Env) *cobra.Command {
	var o signersSignOptions
	cmd := &cobra.Command{
		Use:   "sign --key FILE",
		Short: "Sign the proposed signers file",
		Long: `Sign the proposed signers file with an SSH key: a private key file, or the .pub
file of a key or a certificate whose private half lies beside it or is held by the
SSH agent. A signature made by hand counts too:

  ssh-keygen -Y sign -n tallystick-signers -f KEY signers/allowed_signers`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runSignersSign(cmd.Context(), env, o) },
	}
	cmd.Flags().StringVar(&o.key, "key", "", "SSH key `FILE` to sign with")
	cmd.MarkFlagRequired("key")
	return cmd
}

func runSignersSign(_ context.Context, env *Env, o signersSignOptions) error {
	w, v, data, err := env.signersFile()
	if err != nil {
		return err
	}
	signer, err := seal.LoadSigner(o.key)
	if err != nil {
		return err
	}
	if err := refuseInForce(w, v, data); err != nil {
		return err
	}
	err = addSignature(w.SignersFile(), signer, seal.NamespaceSigners, func(signature, message []byte) error {
		if _, err := seal.ParseNext(v.Signers, message); err != nil {
			return err
		}
		_, err := v.Signers.Verify(signature, message, seal.NamespaceSigners, env.Now())
		return err
	})
	if err != nil {
		return fmt.Errorf("nothing was signed: %w", err)
	}
	_, missing := proposedSigners(env, w, v)
	return env.Answer(map[string]any{"file": w.SignersFile() + ".sig", "complete": missing == nil}, func(out io.Writer) {
		fmt.Fprintf(out, "signed %s\n", plain.Line(w.SignersFile()))
		if missing != nil {
			fmt.Fprintf(out, "Still missing: %s\n", plain.Line(missing.Error()))
			return
		}
		fmt.Fprintln(out, `Next: tally signers apply`)
	})
}

// refuseInForce refuses a file that proposes nothing.
func refuseInForce(w *archive.Place, v *ledger.Verified, data []byte) error {
	if stateOfFile(v.Signers, data) != "in-force" {
		return nil
	}
	return refusal.Newf(refusal.Usage, "%s is version %d, which is in force already", w.SignersFile(), v.Signers.Version()).
		WithHint(`"tally signers next" prepares the next version`)
}

// proposedSigners verifies that the file follows from the version in force.
func proposedSigners(env *Env, w *archive.Place, v *ledger.Verified) (*evidence.SignersChanged, error) {
	data, err := store.ReadFile(store.OS{}, w.SignersFile(), archive.MaxSignedFile)
	if err != nil {
		return nil, err
	}
	if err := refuseInForce(w, v, data); err != nil {
		return nil, err
	}
	sigs, err := archive.SignaturesOf(w.SignersFile())
	if err != nil {
		return nil, err
	}
	next, err := seal.Extend(v.Signers, data, sigs, env.Now())
	if err != nil {
		return nil, err
	}
	if err := env.checkSuccession(next); err != nil {
		return nil, err
	}
	change := &evidence.SignersChanged{Version: next.Version(), Signers: string(data)}
	for _, s := range sigs {
		change.Signatures = append(change.Signatures, string(s))
	}
	return change, nil
}

// checkSuccession refuses a version that two people could not change now. What
// it names may be right, and namespaces or dates take it back.
func (e *Env) checkSuccession(s *seal.Signers) error {
	who := s.Candidates(seal.NamespaceSigners, e.Now(), "")
	if len(who) >= 2 || s.HasAuthority() {
		return nil
	}
	return refusal.Newf(refusal.SignersChainBroken, "version %d of the signers could be changed by %d people now, needs 2: %s", s.Version(), len(who), strings.Join(who, ", ")).
		WithHint("let two people sign tallystick-signers at this time; whose only role is operator does not count")
}

func newSignersApply(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:   "apply",
		Short: "Record the signed next version in the ledger",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return runSignersApply(cmd.Context(), env) },
	}
}

func runSignersApply(ctx context.Context, env *Env) error {
	w, v, err := env.verifiedLedger(nil)
	if err != nil {
		return err
	}
	change, err := proposedSigners(env, w, v)
	if err != nil {
		return err
	}
	l, err := w.OpenLedger(ctx)
	if err != nil {
		return err
	}
	pos, err := l.AppendRecord(evidence.SignersChangedKind, change)
	if cerr := l.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return env.Answer(map[string]any{"version": change.Version, "index": pos.Index, "head": pos.Head}, func(out io.Writer) {
		fmt.Fprintf(out, "version %d of the signers is in force after entry %d\n", change.Version, pos.Index)
	})
}
