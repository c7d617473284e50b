package main

import (
	"os"
	"os/exec"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// gnupg NAME:ALGORITHM... makes a throw-away home of gpg with a signing key for each
// name, without a passphrase. NAME.gpg gets the public key as people export it, and
// $NAME the fingerprint. A sixth of the socket's 108 bytes is the home's own path, so
// it is not below the script's folder.
func cmdGnuPG(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: gnupg NAME:ALGORITHM...")
	}
	home, err := os.MkdirTemp("/tmp", "tg")
	ts.Check(err)
	ts.Setenv("GNUPGHOME", home)
	run := func(program string, args ...string) []byte {
		cmd := exec.Command(program, args...)
		cmd.Env = append(os.Environ(), "GNUPGHOME="+home)
		out, err := cmd.Output()
		if err != nil {
			ts.Fatalf("%s %v: %v", program, args, err)
		}
		return out
	}
	ts.Defer(func() {
		cmd := exec.Command("gpgconf", "--kill", "all")
		cmd.Env = append(os.Environ(), "GNUPGHOME="+home)
		cmd.Run()
		os.RemoveAll(home)
	})
	for _, arg := range args {
		name, algorithm, _ := strings.Cut(arg, ":")
		run("gpg", "--batch", "-q", "--passphrase", "", "--quick-gen-key", name+" <"+name+"@example.org>", algorithm, "sign", "never")
		list := string(run("gpg", "--batch", "--with-colons", "--list-keys", name+"@example.org"))
		_, after, _ := strings.Cut(list, "\nfpr:::::::::")
		fingerprint, _, _ := strings.Cut(after, ":")
		ts.Setenv(name, fingerprint)
		ts.Check(os.WriteFile(ts.MkAbs(name+".gpg"), run("gpg", "--batch", "--export-options", "export-minimal", "--export", fingerprint), 0o644))
	}
}
