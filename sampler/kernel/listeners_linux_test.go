package kernel

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// TestListeners: of a connection within the machine the process that listens at its other end is named, by the search that goes on
// beside the sampling.
func TestListeners(t *testing.T) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, err := net.Dial("tcp4", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	raw, err := client.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	comm, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	tasks, dict := openTasks(t, os.Getpid())
	err = raw.Control(func(fd uintptr) {
		look := func(want string) {
			id, _ := tasks.peers.lookup(int32(fd))
			if p := dict.Peer(id); p.Process != want || p.Remote != listener.Addr().String() || p.Kind != sampler.PeerTCP {
				t.Errorf("%+v, want %q", p, want)
			}
		}
		look("")
		if _, err := tasks.ResolveSockets(monotonic()); err != nil {
			t.Error(err)
		}
		look(fmt.Sprintf("%s (pid %d)", strings.TrimSpace(string(comm)), os.Getpid()))
	})
	if err != nil {
		t.Fatal(err)
	}
}
