package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
)

// minRefreshNS is the shortest interval between two searches for an unknown tid, in ns. Without it, a wrong tid in the
// target's memory would cost a directory listing at each tick. For example, Ruby 3.1 and 3.2 keep the parent's tid
// after a fork.
const minRefreshNS = 20e6

// Namespace translates the tids in a process's memory into ddtop's tids (NSpid in /proc/PID/task/TID/status). They
// differ if the process is in another PID namespace. Only one goroutine may use it.
type Namespace struct {
	pid      int
	dir      int
	identity bool
	hosts    map[int32]int32 // the target's tid → ddtop's
	inner    map[int32]int32 // ddtop's tid → the target's
	nextNS   int64
	buf      [4096]byte
}

// OpenNamespace finds out whether a process is in another PID namespace than ddtop. Its errors are *Error. The error
// is ErrGone if there is no such process.
func OpenNamespace(pid int) (*Namespace, error) {
	path := fmt.Sprintf("/proc/%d", pid)
	dir, err := openDir(path)
	if err != nil {
		return nil, &Error{"open", path, err}
	}
	n := &Namespace{pid: pid, dir: dir, hosts: make(map[int32]int32), inner: make(map[int32]int32)}
	b, err := readWhole(dir, "status", path+"/status", n.buf[:])
	if err != nil {
		closeFD(dir)
		return nil, err
	}
	own, _, depth, ok := parseNSpid(b)
	if ok && own != int32(pid) {
		closeFD(dir)
		return nil, &Error{"read", path + "/status", fmt.Errorf("%w: /proc belongs to another PID namespace than "+
			"ddtop's (process %d says it is %d); mount /proc of ddtop's own", errFormat, pid, own)}
	}
	// Kernels before 4.1 have no NSpid, so ddtop cannot translate tids there and uses them as they are.
	n.identity = !ok || depth == 1
	return n, nil
}

// Close closes the descriptors.
func (n *Namespace) Close() error {
	closeFD(n.dir)
	n.dir = noFD
	return nil
}

// translatesNothing reports whether ddtop uses the process's tids as they are, without a translation.
func (n *Namespace) translatesNothing() bool { return n.identity }

// Host returns ddtop's tid for the tid that the process stores. ok is false if no thread has that tid. Searches for
// new tids happen at most every 20 ms. If ddtop is in the same PID namespace, Host returns tid unchecked.
func (n *Namespace) Host(tid int32) (host int32, ok bool) {
	if n.identity {
		return tid, tid > 0
	}
	if host, ok = n.hosts[tid]; ok {
		return host, true
	}
	now := monotonic()
	if tid <= 0 || now < n.nextNS {
		return 0, false
	}
	n.nextNS = now + minRefreshNS
	// A failure means that the process or some of its threads ended during the search. So tid stays unknown.
	if n.refresh() != nil {
		return 0, false
	}
	host, ok = n.hosts[tid]
	return host, ok
}

// Has reports whether the process has a thread with this tid. The tid is of the process's own PID namespace. Has asks
// the kernel each time. The result known is false if the kernel did not answer.
func (n *Namespace) Has(tid int32) (has, known bool) {
	if !n.identity {
		if n.refresh() != nil {
			return false, false
		}
		_, has = n.hosts[tid]
		return has, true
	}
	fd, err := openAt(n.dir, "task/"+strconv.Itoa(int(tid))+"/stat")
	if err == nil {
		closeFD(fd)
		return true, true
	}
	return false, errors.Is(err, fs.ErrNotExist)
}

// forget drops one of ddtop's tids from the translation. It is called after reading the files of this tid gave ErrGone.
// The process may use the same number for another thread.
func (n *Namespace) forget(host int32) {
	if in, ok := n.inner[host]; ok {
		delete(n.inner, host)
		delete(n.hosts, in)
	}
}

// refresh updates the translation: it adds the process's new threads and drops ended ones.
func (n *Namespace) refresh() error {
	path := fmt.Sprintf("/proc/%d/task", n.pid)
	tids, err := listNumbers(n.dir, "task", path, nil)
	if err != nil {
		return err
	}
	alive := make(map[int32]struct{}, len(tids))
	for _, t := range tids {
		alive[t] = struct{}{}
	}
	for host := range n.inner {
		if _, ok := alive[host]; !ok {
			n.forget(host)
		}
	}
	for _, host := range tids {
		if _, known := n.inner[host]; known {
			continue
		}
		s := strconv.Itoa(int(host))
		b, err := readWhole(n.dir, "task/"+s+"/status", path+"/"+s+"/status", n.buf[:])
		if errors.Is(err, ErrGone) {
			continue
		}
		if err != nil {
			return err
		}
		if _, in, _, ok := parseNSpid(b); ok {
			n.hosts[in], n.inner[host] = host, in
		}
	}
	return nil
}

// parseNSpid reads the NSpid line of a status file. The line has the task's tid in each PID namespace
// (proc_pid_status(5)). The first tid is for the namespace of the /proc mount, the last for the innermost namespace.
// depth is the number of namespaces.
func parseNSpid(status []byte) (outer, inner int32, depth int, ok bool) {
	b, ok := field(status, "NSpid")
	if !ok {
		return 0, 0, 0, false
	}
	for f := range bytes.FieldsSeq(b) {
		v, ok := parseInt32(string(f))
		if !ok {
			return 0, 0, 0, false
		}
		if depth == 0 {
			outer = v
		}
		inner = v
		depth++
	}
	return outer, inner, depth, depth > 0
}
