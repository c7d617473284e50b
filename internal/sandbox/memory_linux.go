package sandbox

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A memoryWatch looks at a gVisor sandbox from outside, a few times a second,
// and ends it when it holds more memory than it may. It is the last line: the
// limits inside the sandbox are exact, this one would catch a way around
// them. All memory of a gVisor sandbox is one unnamed file of its kernel, so
// looking is one stat.
type memoryWatch struct {
	limit int64
	over  chan Verdict // gets an OOM once

	quit chan struct{}
	wg   sync.WaitGroup
	once sync.Once

	mu       sync.Mutex
	most     int64
	exceeded bool
	pids     []int
}

const (
	watchEvery = 20 * time.Millisecond
	noteEvery  = 50 // of these
	// watchSlack is for what gVisor keeps in that file beside the rubric's
	// memory: cached file pages, its own tables.
	watchSlack = 64 << 20
)

func newMemoryWatch(limit int64) *memoryWatch {
	return &memoryWatch{limit: limit + watchSlack, over: make(chan Verdict, 1), quit: make(chan struct{})}
}

func (w *memoryWatch) start(r *running) {
	w.wg.Go(func() {
		var memory *os.File
		for n := 0; ; n++ {
			select {
			case <-r.exited:
				return
			case <-w.quit:
				return
			case <-time.After(watchEvery):
			}
			// Listing processes costs far more than one stat: it is done until
			// the memory is found, and now and then to know whom to wait for.
			if memory == nil || n%noteEvery == 0 {
				w.note(r.pid)
			}
			if memory == nil {
				if memory = w.find(); memory == nil {
					continue
				}
				defer memory.Close()
			}
			var st unix.Stat_t
			if unix.Fstat(int(memory.Fd()), &st) != nil {
				continue
			}
			if held := st.Blocks * 512; w.seen(held) {
				end(w.over, OOM)
				return
			}
		}
	})
}

// end asks for a run's end. Of several reasons the first counts.
func end(over chan<- Verdict, v Verdict) {
	select {
	case over <- v:
	default:
	}
}

// seen notes a sample and reports whether it is too much.
func (w *memoryWatch) seen(held int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.most = max(w.most, held)
	w.exceeded = w.exceeded || held > w.limit
	return w.exceeded
}

// note remembers the sandbox's processes while their parents still live and
// can tell.
func (w *memoryWatch) note(pid int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pids = descendants(pid)
}

// find opens the memory of the sandbox's kernel.
func (w *memoryWatch) find() *os.File {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, pid := range w.pids {
		fds, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
		for _, fd := range fds {
			if target, _ := os.Readlink(fd); !strings.HasPrefix(target, "/memfd:runsc-memory") {
				continue
			}
			if f, err := os.OpenFile(fd, unix.O_PATH|unix.O_CLOEXEC, 0); err == nil {
				return f
			}
		}
	}
	return nil
}

func (w *memoryWatch) stop() {
	w.once.Do(func() { close(w.quit) })
	w.wg.Wait()
}

func (w *memoryWatch) peak() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.most
}

// wasExceeded reports whether the sandbox ever held too much.
func (w *memoryWatch) wasExceeded() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.exceeded
}

// lastPIDs stops the watch and lists the sandbox's processes as last seen.
func (w *memoryWatch) lastPIDs() []int {
	w.stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pids
}

// descendants lists the processes below pid that the kernel knows now.
func descendants(pid int) []int {
	var all []int
	tasks, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	for _, t := range tasks {
		b, _ := os.ReadFile(t)
		for _, f := range strings.Fields(string(b)) {
			if child, err := strconv.Atoi(f); err == nil {
				all = append(append(all, child), descendants(child)...)
			}
		}
	}
	return all
}

// gone reports whether a process has ended; a zombie that nobody reaped yet
// has.
func gone(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return true
	}
	_, after, _ := strings.Cut(string(b), ") ")
	return strings.HasPrefix(after, "Z") || strings.HasPrefix(after, "X")
}
