// Code written from the rows of package sandbox by "make docs". DO NOT EDIT.

package isolation

var classes = []Class{
	{Name: "microvm", Between: "hardware virtualisation, a kernel of its own, QEMU's seccomp sandbox, one serial line", SharesKernel: "no", Promotes: true, Agents: false, Attempts: false, Shows: ""},
	{Name: "gvisor", Between: "gVisor's user-space kernel, linked into `tally`; around it user, mount, net, ipc and uts namespaces, gVisor's own seccomp filter and chroot", SharesKernel: "only through gVisor's few calls", Promotes: true, Agents: true, Attempts: true, Shows: ""},
	{Name: "namespace", Between: "user, mount, pid, net, ipc, uts and cgroup namespaces, a read-only root, no /proc, a system call allow-list, Landlock, no capabilities", SharesKernel: "yes", Promotes: false, Agents: true, Attempts: false, Shows: "the host's kernel and processor; and an agent that exchanges a file's name while it is opened reads where on the host its mounts come from (/proc/self/mountinfo)"},
}
