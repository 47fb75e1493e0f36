package kernel

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/ddtop/ddtop/sampler"
)

// TestListeners: the target has a connection to another process on this machine. ResolveSockets finds this process,
// even if one socket listens at several addresses. If a search's context ends too early, the next search finds the
// process.
func TestListeners(t *testing.T) {
	listener, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	comm, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	tasks, dict := openTasks(t, os.Getpid())
	var looks []func(want string)
	for _, host := range []string{"127.0.0.1", "127.0.0.2"} {
		at := net.JoinHostPort(host, port)
		client, err := net.Dial("tcp4", at)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		raw, err := client.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		looks = append(looks, func(want string) {
			err := raw.Control(func(fd uintptr) {
				id, _ := tasks.peers.lookup(int32(fd))
				if p := dict.Peer(id); p.Process != want || p.Remote != at || p.Kind != sampler.PeerTCP {
					t.Errorf("%+v, want %q at %s", p, want, at)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
	all := func(want string) {
		for _, look := range looks {
			look(want)
		}
	}
	all("")
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := tasks.ResolveSockets(ended, monotonic()); err != nil {
		t.Error(err)
	}
	all("")
	if _, err := tasks.ResolveSockets(t.Context(), tasks.peers.table.nextNS); err != nil {
		t.Error(err)
	}
	all(fmt.Sprintf("%s (pid %d)", strings.TrimSpace(string(comm)), os.Getpid()))
}
