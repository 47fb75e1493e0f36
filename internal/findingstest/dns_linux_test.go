package findingstest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/ddtop/ddtop/internal/rubytest"
)

// nameServer answers DNS queries for addresses, each after a delay.
func nameServer(t *testing.T, address string, after time.Duration) {
	t.Helper()
	conn, err := net.ListenPacket("udp4", net.JoinHostPort(address, "53"))
	if err != nil {
		rubytest.Skip(t, "a name server's port: %v", err)
	}
	t.Cleanup(func() { conn.Close() })
	go func() {
		for buf := make([]byte, 512); ; {
			n, from, err := conn.ReadFrom(buf)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			const header, response, recursion = 12, 0x8000, 0x0080
			if err != nil || n < header {
				continue
			}
			reply := append([]byte(nil), buf[:n]...)
			binary.BigEndian.PutUint16(reply[2:], binary.BigEndian.Uint16(reply[2:])|response|recursion)
			binary.BigEndian.PutUint16(reply[6:], 1) // the reply has one answer
			copy(reply[8:header], make([]byte, 4))   // and no other records
			// A record of the DNS answer: a reference to the name in the question, type A, class IN, valid for a
			// minute, and four bytes of address.
			reply = append(reply, 0xc0, header, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1)
			time.AfterFunc(after, func() {
				if _, err := conn.WriteTo(reply, from); err != nil && !errors.Is(err, net.ErrClosed) {
					t.Errorf("answer: %v", err)
				}
			})
		}
	}()
}

// TestSlowNameServer: if a name server takes 1.2 seconds for each answer, ddtop reports slow name resolution.
func TestSlowNameServer(t *testing.T) {
	rubytest.OftenEnough(t)
	t.Parallel()
	each(t, func(t *testing.T, r rubytest.Ruby) {
		t.Parallel()
		p := load(t, r, "dns/asks")
		defer p.Stop(t)
		nameServer(t, p.address, 1200*time.Millisecond)
		p.begin(t)
		s := watch(t, p.PID, nil, raiseTime, is("dns_slow"), nil)
		checkRaised(t, s, "dns_slow", raised{words: []string{"Name resolution slow"}, never: []string{"http_slow", "lock_convoy"}})
	})
}

// TestFastNameServer: a name server that answers at once raises no finding dns_slow. But on a busy machine the name
// server may lack a CPU and answer slowly. So the program measures how long the answers take. The test fails only if
// there is a finding although the answers were faster than its thresholds.
func TestFastNameServer(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.Long(t)
	t.Parallel()
	each(t, func(t *testing.T, r rubytest.Ruby) {
		t.Parallel()
		p := load(t, r, "dns/asks")
		defer p.Stop(t)
		nameServer(t, p.address, 0)
		p.begin(t)
		s := watch(t, p.PID, nil, quietTime, is("dns_slow"), nil)
		p.Send(t, "took")
		var sum, longest float64
		line := p.Line(t)
		if _, err := fmt.Sscan(line, &sum, &longest); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		// 3 s and 1 s are the thresholds of dns_slow.
		if f, ok := s.finding("dns_slow"); ok && sum < 3 && longest < 1 {
			t.Errorf("names took %.3f s, the longest %.3f s: %s: %s", sum, longest, f.Title, f.Text)
		}
		t.Logf("names took %.3f s, the longest %.3f s", sum, longest)
	})
}

// TestLockInResolver: threads wait for a lock in the resolver of the C library, but no thread asks a name server. This
// raises no finding dns_slow.
func TestLockInResolver(t *testing.T) {
	rubytest.OftenEnough(t)
	rubytest.Long(t)
	t.Parallel()
	library, err := programs.ReadFile("testdata/dns/locked.c")
	if err != nil {
		t.Fatal(err)
	}
	each(t, func(t *testing.T, r rubytest.Ruby) {
		t.Parallel()
		p := r.StartPreloaded(t, source(t, "dns/locked"), rubytest.Options{}, library)
		defer p.Stop(t)
		p.Expect(t, "ready")
		s := watch(t, p.PID, nil, quietTime, is("dns_slow"), nil)
		if f, ok := s.finding("dns_slow"); ok {
			t.Errorf("%s: %s", f.Title, f.Text)
		}
	})
}
