package kernel

import (
	"bytes"
	"iter"
	"path"
	"slices"
	"strings"
)

// maxCgroupDepth limits how many levels of a cgroup's path are read.
const maxCgroupDepth = 16

// cgroup reads the CPU throttling of a cgroup and of its ancestors, of hierarchy v2 or v1.
type cgroup struct {
	levels []cpuStat // innermost first
}

type cpuStat struct {
	fd   int
	path string
}

type throttling struct{ periods, throttled, throttledNS int64 }

func (c *cgroup) close() {
	for _, l := range c.levels {
		closeFD(l.fd)
	}
	c.levels = nil
}

// read returns the CPU throttling of the innermost cgroup that has a CPU limit or had one. It returns zeros if there is
// no such cgroup. The kernel counts no periods for a cgroup without a limit.
func (c *cgroup) read(buf []byte) throttling {
	for _, l := range c.levels {
		n, err := pread(l.fd, buf)
		if err != nil {
			// The process has left this cgroup, and the cgroup was removed. The next reading finds the new cgroup.
			continue
		}
		if t := parseCPUStat(buf[:n]); t.periods > 0 {
			return t
		}
	}
	return throttling{}
}

// open opens the cpu.stat files of a cgroup and of its ancestors, whose limits also apply. text is the content of
// /proc/PID/cgroup. open opens no file if the cgroup is not mounted in ddtop's file system.
func (c *cgroup) open(mounts []cgroupMount, text string) {
	m, cgPath, ok := findCPUCgroup(mounts, text)
	if !ok {
		return // no hierarchy with the CPU controller is mounted here
	}
	rel, ok := m.below(cgPath)
	if !ok {
		return // the cgroup lies outside the cgroups mounted here
	}
	for dir := range m.levels(rel) {
		name := path.Join(dir, "cpu.stat")
		if fd, err := openAt(noFD, name); err == nil {
			c.levels = append(c.levels, cpuStat{fd, name})
		}
	}
}

type cgroupMount struct {
	root, point string
	// v2 is true for cgroup hierarchy v2. cpu and freezer are true for a v1 hierarchy that has this controller.
	v2, cpu, freezer bool
}

// below turns a cgroup path into a path relative to the mount point.
func (m cgroupMount) below(cgPath string) (string, bool) {
	if cgPath == "/.." || strings.HasPrefix(cgPath, "/../") {
		return "", false // outside ddtop's cgroup namespace
	}
	if m.root == "/" {
		return cgPath, true
	}
	rel, ok := strings.CutPrefix(cgPath, m.root)
	if !ok || rel != "" && rel[0] != '/' {
		return "", false
	}
	return "/" + strings.TrimPrefix(rel, "/"), true
}

// levels yields the folder of a cgroup, and then the folders of its ancestors up to the mount point.
func (m cgroupMount) levels(rel string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for range maxCgroupDepth {
			if !yield(path.Join(m.point, rel)) || rel == "/" || rel == "." || rel == "" {
				return
			}
			rel = path.Dir(rel)
		}
	}
}

// cgroupPaths yields two parts of each line "number:controllers:path" of a /proc/PID/cgroup file (cgroups(7)): the
// controllers, which are empty for hierarchy v2, and the path. It leaves out lines with an empty path.
func cgroupPaths(text string) iter.Seq2[string, string] {
	return func(yield func(controllers, path string) bool) {
		for line := range strings.Lines(text) {
			_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
			controllers, p, _ := strings.Cut(rest, ":")
			if p != "" && !yield(controllers, strings.TrimSuffix(p, " (deleted)")) {
				return
			}
		}
	}
}

// hasController reports whether a comma-separated list of controllers contains name.
func hasController(list, name string) bool { return slices.Contains(strings.Split(list, ","), name) }

// cgroupMounts returns the cgroup hierarchies in a mountinfo file (proc_pid_mountinfo(5)). The fields of a line are
// number, parent, device, root, mount point, options, optional fields, "-", type, source, and options of the file
// system.
func cgroupMounts(mountinfo []byte) []cgroupMount {
	var out []cgroupMount
	for line := range strings.Lines(string(mountinfo)) {
		left, right, ok := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 5 || len(r) < 3 {
			continue
		}
		m := cgroupMount{root: unescapeMount(l[3]), point: unescapeMount(l[4])}
		switch r[0] {
		case "cgroup2":
			m.v2 = true
		case "cgroup":
			m.cpu, m.freezer = hasController(r[2], "cpu"), hasController(r[2], "freezer")
		default:
			continue
		}
		out = append(out, m)
	}
	return out
}

// unescapeMount undoes mountinfo's octal escapes of blanks and backslashes.
func unescapeMount(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// findCPUCgroup returns the cgroup path of a process and the mount of its hierarchy. text is /proc/PID/cgroup. If there
// is a v1 hierarchy with the cpu controller, findCPUCgroup prefers it, because then v2 does not limit CPU time.
func findCPUCgroup(mounts []cgroupMount, text string) (cgroupMount, string, bool) {
	var v1, v2 string
	for controllers, p := range cgroupPaths(text) {
		if controllers == "" {
			v2 = p
		} else if hasController(controllers, "cpu") {
			v1 = p
		}
	}
	for _, m := range mounts {
		switch {
		case v1 != "" && m.cpu:
			return m, v1, true
		case v1 == "" && v2 != "" && m.v2:
			return m, v2, true
		}
	}
	return cgroupMount{}, "", false
}

// parseCPUStat reads a cpu.stat file: nr_periods, nr_throttled, and throttled_usec (v2) or throttled_time in ns (v1).
func parseCPUStat(b []byte) throttling {
	var t throttling
	for line := range bytes.Lines(b) {
		name, value, _ := bytes.Cut(line, []byte(" "))
		n, _, ok := takeUint(value)
		if !ok || n > 1<<53 {
			continue
		}
		switch string(name) {
		case "nr_periods":
			t.periods = int64(n)
		case "nr_throttled":
			t.throttled = int64(n)
		case "throttled_time":
			t.throttledNS = int64(n)
		case "throttled_usec":
			t.throttledNS = int64(n) * 1000
		}
	}
	return t
}
