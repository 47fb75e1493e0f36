package kernel

import (
	"bytes"
	"path"
	"slices"
	"strings"
)

// freezer finds out whether the cgroups of a process are frozen, by hierarchy v2 (cgroup.freeze: systemctl freeze,
// docker pause) or by the freezer controller of v1. A process can be in both hierarchies.
type freezer struct {
	text string // /proc/PID/cgroup as read last
	// files are the open files that show whether a cgroup is frozen.
	files []freezerFile
	// hidden is true if a hierarchy that can freeze the process is not mounted here. Then ddtop decides by the kernel
	// function in which the main thread sleeps.
	hidden bool
	// partly is true if the last reading found a request to freeze the process that was not completed yet. Then the
	// next reading reads all files, too.
	partly bool
	// wchan is /proc/PID/wchan, or noFD if it cannot be read. stat is /proc/PID/stat. The ProcReader opens both.
	wchan, stat int
}

type freezerFile struct {
	fd int
	// yes has the lines of the file that mean that the cgroup is frozen, or about to be frozen.
	yes [][]byte
	// The field whole is true if the file also shows whether a parent of the cgroup is frozen.
	whole bool
}

// These are the texts in the files of a frozen cgroup. cgroup.events contains its text once all tasks are frozen.
// cgroup.freeze contains it as soon as freezing was requested (Documentation/admin-guide/cgroup-v2.rst). freezer.state
// of v1 also shows requests to parents (cgroup-v1/freezer-subsystem.rst).
var (
	eventsFrozen = [][]byte{[]byte("frozen 1")}
	freezeAsked  = [][]byte{[]byte("1")}
	stateFrozen  = [][]byte{[]byte("FROZEN"), []byte("FREEZING")}
)

// frozenPlaces are the kernel functions in which a frozen thread sleeps. For v2 it is do_freezer_trap. If the compiler
// inlined do_freezer_trap, it is get_signal, in which otherwise only stopped threads sleep. For v1 it is __refrigerator
// (kernel/freezer.c).
var frozenPlaces = [...]string{"do_freezer_trap", "get_signal", "__refrigerator"}

// frozenInPlace are prefixes of the names of kernel functions in which a thread can be frozen while it sleeps. Cgroups
// v1 freeze such threads in place since Linux 6.1 (TASK_FREEZABLE). If a thread is in such a function and in state D,
// it is frozen.
var frozenInPlace = [...]string{"futex_", "hrtimer_nanosleep", "do_nanosleep", "do_sigtimedwait", "unix_stream_"}

func (f *freezer) close() {
	f.forget()
	closeFD(f.wchan)
	f.wchan = noFD
}

func (f *freezer) forget() {
	for _, x := range f.files {
		closeFD(x.fd)
	}
	f.files, f.text, f.hidden, f.partly = f.files[:0], "", false, false
}

// follow opens the files of the process's cgroups if the cgroups have changed. text is the content of /proc/PID/cgroup.
func (f *freezer) follow(mounts []cgroupMount, text string) {
	if text == f.text && f.text != "" {
		return
	}
	f.forget()
	f.text = text
	for controllers, p := range cgroupPaths(text) {
		v2 := controllers == ""
		if p == "/" || !v2 && !hasController(controllers, "freezer") {
			continue // the root can't be frozen
		}
		if !f.open(mounts, p, v2) {
			f.hidden = true
		}
	}
}

// open opens the files of one cgroup. It returns false if the cgroup is not mounted here.
func (f *freezer) open(mounts []cgroupMount, cgPath string, v2 bool) bool {
	for _, m := range mounts {
		if rel, ok := m.below(cgPath); ok && m.v2 == v2 && (v2 || m.freezer) && f.openBelow(m, rel) {
			return true
		}
	}
	return false
}

func (f *freezer) openBelow(m cgroupMount, rel string) bool {
	if !m.v2 {
		return f.add(path.Join(m.point, rel, "freezer.state"), stateFrozen, true)
	}
	if !f.add(path.Join(m.point, rel, "cgroup.events"), eventsFrozen, true) {
		return false
	}
	for dir := range m.levels(rel) {
		f.add(path.Join(dir, "cgroup.freeze"), freezeAsked, false)
	}
	return true
}

func (f *freezer) add(name string, yes [][]byte, whole bool) bool {
	fd, err := openAt(noFD, name)
	if err != nil {
		return false
	}
	f.files = append(f.files, freezerFile{fd, yes, whole})
	return true
}

// frozen reports whether the process is frozen, or about to be. Files that show a request to freeze exist for each
// ancestor of the cgroup, so reading all of them is slow. frozen reads these files only if the parameter all is true.
func (f *freezer) frozen(all bool, buf []byte) bool {
	all = all || f.partly
	f.partly = false
	for _, x := range f.files {
		if !x.whole && !all {
			continue
		}
		n, err := pread(x.fd, buf)
		// an error means that the cgroup was removed; the next reading finds the new cgroup
		if err == nil && x.says(buf[:n]) {
			f.partly = !x.whole
			return true
		}
	}
	if !f.hidden || f.wchan < 0 {
		return false
	}
	return f.byPlace(buf)
}

// byPlace reports whether the main thread sleeps in a kernel function in which only frozen threads sleep.
func (f *freezer) byPlace(buf []byte) bool {
	n, err := pread(f.wchan, buf)
	if err != nil {
		return false
	}
	place := string(buf[:n])
	if slices.Contains(frozenPlaces[:], place) {
		return true
	}
	if !slices.ContainsFunc(frozenInPlace[:], func(p string) bool { return strings.HasPrefix(place, p) }) {
		return false
	}
	n, err = pread(f.stat, buf)
	state, ok := parseState(buf[:max(n, 0)])
	return err == nil && ok && state == 'D'
}

func (x *freezerFile) says(b []byte) bool {
	for line := range bytes.Lines(b) {
		line = bytes.TrimSpace(line)
		if slices.ContainsFunc(x.yes, func(yes []byte) bool { return bytes.Equal(line, yes) }) {
			return true
		}
	}
	return false
}
