package dossier

import (
	"os"
	"testing"
)

// A remote that is on this machine was seen by no one else, however its address is
// spelled.
func TestWhatIsOnThisMachineIsNotOutside(t *testing.T) {
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for address, here := range map[string]bool{
		"/srv/git/evals.git": true, "../evals.git": true, "evals.git": true, "./a:b": true, "file:///srv/evals.git": true, "FILE:///srv/evals.git": true,
		"file://git.example.com/srv": true, "ext::sh -c true": true, "C:/evals.git": true, "https:///evals.git": true, "": true,
		"http://localhost/evals.git": true, "http://LOCALHOST:3000/evals.git": true, "https://127.0.0.1/evals.git": true, "https://[::1]/evals.git": true,
		"ssh://git@127.9.9.9:22/evals.git": true, "git@localhost:evals.git": true, "git@LocalHost.:evals.git": true, "git@[::1]:evals.git": true,
		"https://0.0.0.0/evals.git": true, "https://a.localhost/evals.git": true, "ssh://" + own + "/evals.git": true, "git@" + own + ":evals.git": true,
		"https://git.example.com/evals.git": false, "ssh://git@git.example.com:2222/evals.git": false, "git@git.example.com:evals.git": false,
		"git.example.com:evals.git": false, "https://10.0.0.7/evals.git": false, "https://localhost.example.com/evals.git": false,
	} {
		if isHere(address) != here {
			t.Errorf("%q is on this machine: %v, want %v", address, !here, here)
		}
	}
}
