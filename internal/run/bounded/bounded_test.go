package bounded

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test binary work as tally does. The works here do what no work of the
// program is able to do, as far as we know.
func TestMain(m *testing.M) {
	for name, w := range broken {
		Register(name, w)
	}
	Reexec()
	os.Exit(m.Run())
}

func written() string { return filepath.Join(os.TempDir(), "tallystick-bounded-written") }

var broken = map[string]Work{
	"eats": func(_ []byte, ready func()) []byte {
		ready()
		var all [][]byte
		for {
			b := make([]byte, 64<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			all = append(all, b)
			runtime.KeepAlive(all)
		}
	},
	"panics":    func(_ []byte, ready func()) []byte { ready(); panic("a bug") },
	"exits":     func(_ []byte, ready func()) []byte { ready(); os.Exit(0); return nil },
	"is silent": func(_ []byte, ready func()) []byte { ready(); return nil },
	"talks":     func(_ []byte, ready func()) []byte { ready(); return make([]byte, maxAnswer+1) },
	"writes": func(_ []byte, ready func()) []byte {
		ready()
		if os.WriteFile(written(), []byte("x"), 0o600) != nil {
			os.Exit(1)
		}
		return []byte("written")
	},
	"never begins": func([]byte, func()) []byte { os.Exit(3); return nil },
	"never ends": func(_ []byte, ready func()) []byte {
		ready()
		for {
			time.Sleep(time.Hour)
		}
	},
	"echoes": func(input []byte, ready func()) []byte { ready(); return input },
}

func TestWhatIsAnswered(t *testing.T) {
	got, err := Do(context.Background(), "echoes", []byte("ready\nready\n"))
	if err != nil || string(got) != "ready\nready\n" {
		t.Errorf("%q, %v", got, err)
	}
}

// Each row takes the process down in another way. This process goes on, and knows that
// the input did it.
func TestWorkTakesOnlyItsProcessDown(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("limits of the kernel are Linux's")
	}
	for _, how := range []string{"eats", "panics", "exits", "is silent", "talks", "writes"} {
		t.Run(how, func(t *testing.T) {
			_, err := Do(context.Background(), how, nil)
			var ended *Ended
			if !errors.As(err, &ended) || !ended.Ready {
				t.Errorf("%v", err)
			}
			if info, err := os.Stat(written()); err == nil && info.Size() > 0 {
				t.Error("a file was written")
			}
		})
	}
}

// What ends before the work begins is ours, and so is a stop from outside.
func TestWhatIsNotTheInputsFault(t *testing.T) {
	var ended *Ended
	for _, name := range []string{"never begins", "no such work"} {
		if _, err := Do(context.Background(), name, nil); !errors.As(err, &ended) || ended.Ready {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("a person stopped it")
	time.AfterFunc(100*time.Millisecond, func() { cancel(why) })
	if _, err := Do(ctx, "never ends", nil); !errors.Is(err, why) {
		t.Errorf("%v", err)
	}
	restartable.Store(false)
	defer restartable.Store(true)
	if _, err := Do(context.Background(), "echoes", []byte("x")); err == nil || !strings.Contains(err.Error(), "cannot start itself again") {
		t.Errorf("%v", err)
	}
}
