package findingstest

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// silentResolver imitates a name server that never answers. It listens for DNS at the address that a machine without a
// resolv.conf asks.
func silentResolver(t *testing.T, p *program) {
	t.Helper()
	if p.Ruby.Root == "" {
		rubytest.Skip(t, "the host's resolv.conf may name a server that answers")
	}
	if _, err := os.Stat(filepath.Join(p.Ruby.Root, "etc/resolv.conf")); err == nil {
		rubytest.Skip(t, "%s has a resolv.conf", p.Ruby.Root)
	}
	conn, err := net.ListenPacket("udp4", "127.0.0.1:53")
	if err != nil {
		rubytest.Skip(t, "the name server's port: %v", err)
	}
	t.Cleanup(func() { conn.Close() })
}

// scarceMemory is the limit of a program's memory, in bytes. Ruby and the data that the program reads again and again
// need more.
const scarceMemory = 96 << 20

// limitMemory puts a program into a cgroup of its own that limits the program's memory to scarceMemory.
func limitMemory(t *testing.T, p *program) {
	t.Helper()
	limit := strconv.Itoa(scarceMemory)
	limitBy(t, p, "memory", map[string]string{"memory.limit_in_bytes": limit}, map[string]string{"memory.high": limit})
}

// limitCPU puts a program into a cgroup of its own that may use a fifth of a CPU.
func limitCPU(t *testing.T, p *program) {
	t.Helper()
	limitBy(t, p, "cpu", map[string]string{"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "20000"},
		map[string]string{"cpu.max": "20000 100000"})
}

// limitBy puts a program into a new cgroup, directly below the root of the controller's hierarchy. v1 and v2 are the
// limits for version 1 and version 2 of cgroups. Each maps a file of the cgroup to the value to write.
func limitBy(t *testing.T, p *program, controller string, v1, v2 map[string]string) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	var parent string
	var files map[string]string
	for line := range strings.Lines(string(mounts)) {
		left, right, _ := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if len(l) < 5 || len(r) < 3 {
			continue
		}
		switch controllers, err := os.ReadFile(filepath.Join(l[4], "cgroup.subtree_control")); {
		case r[0] == "cgroup" && slices.Contains(strings.Split(r[2], ","), controller):
			parent, files = l[4], v1
		case r[0] == "cgroup2" && err == nil && slices.Contains(strings.Fields(string(controllers)), controller):
			parent, files = l[4], v2
		}
	}
	if parent == "" {
		rubytest.Skip(t, "there is no %s cgroup", controller)
	}
	dir := filepath.Join(parent, fmt.Sprintf("ddtop-test-%d", p.PID))
	if err := os.Mkdir(dir, 0o755); err != nil {
		rubytest.Skip(t, "a %s cgroup: %v", controller, err)
	}
	t.Cleanup(func() {
		p.Stop(t) // a cgroup with a process in it cannot be removed
		if err := os.Remove(dir); err != nil {
			t.Errorf("remove the cgroup: %v", err)
		}
	})
	files = maps.Clone(files)
	files["cgroup.procs"] = strconv.Itoa(p.PID)
	for name, value := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(value), 0o644); err != nil {
			rubytest.Skip(t, "limit the %s: %v", controller, err)
		}
	}
}
