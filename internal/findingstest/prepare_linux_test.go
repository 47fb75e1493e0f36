package findingstest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// silentResolver listens where a machine without a resolv.conf asks for names, and never answers.
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

// scarceMemory is less than what the program reads again and again, beside what Ruby needs.
const scarceMemory = 96 << 20

// limitMemory puts a program into a memory cgroup of its own.
func limitMemory(t *testing.T, p *program) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	var parent, file string
	for line := range strings.Lines(string(mounts)) {
		left, right, _ := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if len(l) < 5 || len(r) < 3 {
			continue
		}
		switch controllers, err := os.ReadFile(filepath.Join(l[4], "cgroup.subtree_control")); {
		case r[0] == "cgroup" && strings.Contains(","+r[2]+",", ",memory,"):
			parent, file = l[4], "memory.limit_in_bytes"
		case r[0] == "cgroup2" && err == nil && strings.Contains(string(controllers), "memory"):
			parent, file = l[4], "memory.high"
		}
	}
	if parent == "" {
		rubytest.Skip(t, "there is no memory cgroup")
	}
	dir := filepath.Join(parent, fmt.Sprintf("ddtop-test-%d", p.PID))
	if err := os.Mkdir(dir, 0o755); err != nil {
		rubytest.Skip(t, "a memory cgroup: %v", err)
	}
	t.Cleanup(func() {
		p.Stop(t) // a cgroup with a process in it can't be removed
		if err := os.Remove(dir); err != nil {
			t.Errorf("remove the cgroup: %v", err)
		}
	})
	for name, value := range map[string]int{file: scarceMemory, "cgroup.procs": p.PID} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strconv.Itoa(value)), 0o644); err != nil {
			rubytest.Skip(t, "limit the memory: %v", err)
		}
	}
}
