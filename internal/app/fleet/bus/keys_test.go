package bus

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"tallystick/internal/app/fleet"
	"tallystick/internal/record/refusal"
)

// plain starts a NATS server as its options say.
func plain(t *testing.T, o *server.Options) string {
	t.Helper()
	o.Host, o.Port, o.NoLog, o.NoSigs = "127.0.0.1", server.RANDOM_PORT, true, true
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	if !s.ReadyForConnections(20 * time.Second) {
		t.Fatal("the server does not listen")
	}
	t.Cleanup(s.Shutdown)
	return s.ClientURL()
}

// TestServersThatDoNotAskForKeysAreRefused: in whichever way a server lets strangers in,
// or knows nothing of keys, the coordinator does not use it.
func TestServersThatDoNotAskForKeysAreRefused(t *testing.T) {
	key, user := newKey(t)
	good := start(t, user).URL()
	open := &server.NkeyUser{Nkey: user}
	for name, tt := range map[string]struct {
		url  string
		want string // "" if it may be used
	}{
		"as it should be":                        {good, ""},
		"a server without any authorization":     {plain(t, &server.Options{}), "it knows no keys"},
		"a name and a password":                  {strings.Replace(plain(t, &server.Options{Username: "u", Password: "p"}), "nats://", "nats://u:p@", 1), "it knows no keys"},
		"a token":                                {strings.Replace(plain(t, &server.Options{Authorization: "secret"}), "nats://", "nats://secret@", 1), "it knows no keys"},
		"keys, and an account for those without": {plain(t, &server.Options{Nkeys: []*server.NkeyUser{open}, Users: []*server.User{{Username: "guest", Password: "g"}}, NoAuthUser: "guest"}), "without a key"},
		"one of two does not ask":                {good + "," + plain(t, &server.Options{}), "it knows no keys"},
		"the other of two does not ask":          {plain(t, &server.Options{}) + ", " + good, "it knows no keys"},
		"one of two is away":                     {"nats://127.0.0.1:1," + good, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := AsksForKeys(tt.url, fleet.Access{})
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !refusal.Is(err, refusal.ServerOpen) || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "u:p") {
				t.Errorf("%v, expected %q", err, tt.want)
			}
		})
	}
	if err := AsksForKeys("nats://127.0.0.1:1", fleet.Access{}); !refusal.Is(err, refusal.Failed) {
		t.Errorf("a server that is away: %v", err)
	}
	// Who asks for the status is told too, and one with a key is not let in without it.
	if _, err := ConnectCoordinator(plain(t, &server.Options{}), key, fleet.Access{}); !refusal.Is(err, refusal.ServerOpen) {
		t.Errorf("a key for a server that knows none: %v", err)
	}
	if _, err := ConnectCoordinator(good, nil, fleet.Access{}); !refusal.Is(err, refusal.Failed) || !strings.Contains(refusal.Of(err).Hint, "--key FILE") {
		t.Errorf("no key for a server that wants one: %v", err)
	}
}
