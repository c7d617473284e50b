package firstprocess

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"tallystick/internal/run/sandbox/calls"
	"tallystick/internal/run/sandbox/proc"
)

// A Room is what one program of a warm sandbox has for itself: namespaces of
// its own inside the sandbox. The preloader has one, and every case.
type Room struct {
	TmpSize int64
	// Policy is set where the host's kernel is not gVisor's: what the preloader
	// is started under, and every fork of it.
	Policy *calls.Policy `json:",omitempty"`

	cases int // CasesDir, from before it was hidden
}

// A Task is what the first process of a room is told when its case comes. Until
// then the room is like any other: whatever is in it knows of no case.
type Task struct {
	Env  []string
	Dir  string
	Port int    // of the gateway; 0 for none
	Work string // the folder below CasesDir that becomes the working folder
	// Names asks for the modules that were imported, in this file.
	Names string `json:",omitempty"`
}

// CasesDir holds the working folders of all cases, until a room hides it.
const CasesDir = "/" + ProgramDir + "/cases"

// roomDoors are the namespaces that a case's process joins. The first one is
// joined by the preloader itself, before it forks; the last one is by which
// calls are told apart, and nothing of ours comes after it. A process that makes
// itself another one, which gVisor allows without showing it anything more, has
// committed an act by that, and its later ones are not added to its case.
var roomDoors = []string{"pid", "net", "ipc", "uts", "mnt"}

// furnish gives the room file systems of its own and takes away what belongs to
// others.
func (r *Room) furnish() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	var err error
	if r.cases, err = unix.Open(CasesDir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("opening %s: %w", CasesDir, err)
	}
	for _, f := range []struct {
		at   string
		make func(at string) error
	}{
		{"/tmp", func(at string) error { return makeTmp(at, r.TmpSize) }},
		{"/dev", func(at string) error { return makeDev(at, r.TmpSize) }},
		{calls.WorkDir, makeEmpty}, // until there is a case
		// Covered, not unmounted: gVisor's file server of the root shows what is
		// mounted below it all the same. No process in the room may uncover it.
		{CasesDir, makeEmpty},
		{"/proc", makeProc},
	} {
		if err := f.make(f.at); err != nil {
			return err
		}
	}
	if err := r.sealDev(); err != nil {
		return fmt.Errorf("sealing /dev: %w", err)
	}
	// gVisor's is up by itself and knows no such call.
	if err := raiseLoopback(); err != nil && !errors.Is(err, unix.ENOTTY) {
		return err
	}
	return nil
}

// sealDev lets no process make files in /dev. gVisor has no such call; there
// they are the room's own all the same.
func (r *Room) sealDev() error {
	if r.Policy == nil {
		return nil
	}
	return unix.MountSetattr(unix.AT_FDCWD, "/dev", 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID})
}

// openDoors opens the room's namespaces for the process that joins.
func openDoors() (fds []int, err error) {
	for _, name := range roomDoors {
		fd, err := unix.Open("/proc/self/ns/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			CloseFds(fds)
			return nil, fmt.Errorf("opening the %s namespace: %w", name, err)
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

// introduce tells the harness by which name the calls of this room are known,
// and waits until it knows.
func introduce() error {
	name, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return fmt.Errorf("finding the name of the room: %w", err)
	}
	tell(SaysRoom, name)
	if kind, _, _, err := Receive(Socket); err != nil || kind != KnowsRoom {
		return fmt.Errorf("introducing the room: %v", err)
	}
	return nil
}

// hold is the first process of a case's room. It carries connections to the
// gateway, reaps, and ends with the harness; the agent's process is not a child
// of its, but joins, and waits for the task as this process does.
//
// Until then it has the capabilities to show the case's folder. No other
// process in the room has any, so none can take them from it.
func hold(p Plan) (status int, err error) {
	taskR, taskW, err := p.Room.invite()
	if err != nil {
		unix.Sendto(roomSocket, []byte(err.Error()), unix.MSG_NOSIGNAL, nil)
		return 0, err
	}
	taskR.Close()
	unix.Close(roomSocket)
	var t Task
	if err := receiveJSON(&t); err != nil {
		return 0, fmt.Errorf("reading the task: %w", err)
	}
	if err := p.Room.showWork(t.Work); err != nil {
		return 0, err
	}
	if t.Port != 0 {
		ln, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", t.Port))
		if err != nil {
			return 0, fmt.Errorf("listening for the gateway: %w", err)
		}
		go forwardAll(ln, "")
	}
	// What to run is for the agent's process alone: it reads it from here.
	text, err := json.Marshal(map[string]any{"env": t.Env, "dir": t.Dir, "names": t.Names, "landlock": p.Room.Policy != nil})
	if err != nil {
		return 0, err
	}
	if err := dropInRoom(); err != nil {
		return 0, err
	}
	// From here on the calls in the room are the agent's.
	if err := introduce(); err != nil {
		return 0, err
	}
	go func() {
		taskW.Write(text)
		taskW.Close()
	}()
	go measure(p.Room.TmpSize)
	for {
		// It has no children of its own, only those of others that lost their
		// parent.
		if _, err := syscall.Wait4(-1, nil, 0, nil); errors.Is(err, syscall.ECHILD) {
			unix.Pause()
		}
	}
}

// invite hands the keeper the room's namespaces, for the agent's process to join,
// and the pipe from which that will read its task.
func (r *Room) invite() (taskR, taskW *os.File, err error) {
	// The agent's process shall not look into this one, whatever this one has.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, nil, fmt.Errorf("closing this process to others: %w", err)
	}
	doors, err := openDoors()
	if err != nil {
		return nil, nil, err
	}
	defer CloseFds(doors)
	if taskR, taskW, err = os.Pipe(); err != nil {
		return nil, nil, err
	}
	if err := unix.Sendmsg(roomSocket, []byte("ready"), unix.UnixRights(append(doors, int(taskR.Fd()))...), nil, unix.MSG_NOSIGNAL); err != nil {
		return nil, nil, fmt.Errorf("handing the room over: %w", err)
	}
	return taskR, taskW, nil
}

// showWork makes a folder of CasesDir the working folder. The others stay hidden.
func (r *Room) showWork(folder string) error {
	err := unix.Fchdir(r.cases)
	if err == nil {
		err = unix.Mount("./"+folder, calls.WorkDir, "", unix.MS_BIND, "")
	}
	if err == nil {
		err = unix.Chdir("/")
	}
	if err != nil {
		return fmt.Errorf("showing the working folder: %w", err)
	}
	return unix.Close(r.cases)
}

// becomePreloader turns this process into the one that imports and forks. Of
// all rights it keeps those to join rooms, which each fork gives up before
// the agent's first line.
func becomePreloader(p Plan) (status int, err error) {
	if err := introduce(); err != nil {
		return 0, err
	}
	if err := unix.CloseRange(roomSocket, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC); err != nil && err != unix.ENOSYS {
		return 0, fmt.Errorf("closing files: %w", err)
	}
	syscall.Umask(0o022)
	file, err := findProgram(p.Command[0], p.Env)
	if err != nil {
		return notStarted(err)
	}
	if err := dropAllBut(unix.CAP_SYS_ADMIN, unix.CAP_SYS_CHROOT); err != nil {
		return 0, err
	}
	if p.Room.Policy != nil {
		if err := installFilter(*p.Room.Policy); err != nil {
			return 0, err
		}
	}
	if err := unix.Dup3(roomSocket, Socket, 0); err != nil {
		return 0, err
	}
	if err := syscall.Exec(file, p.Command, p.Env); err != nil {
		return notStarted(fmt.Errorf("starting %s: %w", file, err))
	}
	return 0, nil
}

func notStarted(err error) (int, error) {
	b, _ := json.Marshal(map[string]string{"failed": "could not be started: " + err.Error()})
	unix.Sendto(roomSocket, b, unix.MSG_NOSIGNAL, nil)
	return NotStartedStatus, nil
}

// dropInRoom takes every capability from every thread of this process. What it
// starts gets none back: it may have no new privileges.
func dropInRoom() error {
	for _, step := range []struct {
		doing   string
		trap, a uintptr
		b, c    uintptr
	}{
		{"dropping capabilities", unix.SYS_CAPSET, uintptr(unsafe.Pointer(&capsetHeader)), uintptr(unsafe.Pointer(&noCaps)), 0},
		{"forbidding new privileges", unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0},
		{"closing this process to others", unix.SYS_PRCTL, unix.PR_SET_DUMPABLE, 0, 0},
	} {
		if _, _, errno := syscall.AllThreadsSyscall(step.trap, step.a, step.b, step.c); errno != 0 {
			return fmt.Errorf("%s: %w", step.doing, errno)
		}
	}
	return nil
}

// measureEvery is how often a room tells what it uses.
const measureEvery = 50 * time.Millisecond

// measure tells the harness how much memory and how many tasks the room has:
// from outside the rooms of one sandbox cannot be told apart.
func measure(limit int64) {
	for {
		time.Sleep(measureEvery)
		bytes, tasks := roomUse(limit)
		tell(SaysUse, fmt.Sprintf("%d %d", bytes, tasks))
	}
}

// roomUse adds up what the processes of this room have in memory, what is in
// its own file systems, and its tasks. A page that several processes share
// counts for each at first; only if that is too much are they asked for their
// shares, where the kernel tells.
func roomUse(limit int64) (bytes int64, tasks int) {
	var files, shares int64
	var pids []int
	for _, dir := range []string{"/tmp", "/dev/shm"} {
		files += proc.UsedOn(dir).Bytes
	}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		b, _ := os.ReadFile("/proc/" + e.Name() + "/stat")
		_, after, _ := strings.Cut(string(b), ") ")
		// From field 3 on: see proc_pid_stat(5) for num_threads and rss.
		if f := strings.Fields(after); len(f) > 21 {
			threads, _ := strconv.Atoi(f[17]) // gVisor says 0
			pages, _ := strconv.ParseInt(f[21], 10, 64)
			pids, tasks, bytes = append(pids, pid), tasks+max(threads, 1), bytes+pages*int64(os.Getpagesize())
		}
	}
	if bytes+files <= limit {
		return bytes + files, tasks
	}
	for _, pid := range pids {
		shares += proc.SharedOutBytes(pid)
	}
	return shares + files, tasks
}

// dropAllBut gives up every capability but those named, on this thread, which
// becomes another program.
func dropAllBut(keep ...uint) error {
	var mask uint32
	for _, c := range keep {
		mask |= 1 << c
	}
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if c < 32 && mask&(1<<c) != 0 {
			continue
		}
		if _, _, errno := unix.RawSyscall(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c, 0); errno != 0 && errno != unix.EINVAL {
			return fmt.Errorf("dropping capability %d: %w", c, errno)
		}
	}
	set := [2]unix.CapUserData{{Effective: mask, Permitted: mask}}
	if _, _, errno := unix.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&capsetHeader)), uintptr(unsafe.Pointer(&set)), 0); errno != 0 {
		return fmt.Errorf("dropping capabilities: %w", errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1, 0); errno != 0 {
		return fmt.Errorf("forbidding new privileges: %w", errno)
	}
	return nil
}
