//go:build !linux

package kernel

import (
	"net/netip"
	"time"

	"github.com/ddtop/ddtop/sampler"
)

// SinceBoot returns 0 on this system.
func SinceBoot() time.Duration { return 0 }

const noFD = -1

func openDir(string) (int, error)     { return noFD, ErrUnsupported }
func openAt(int, string) (int, error) { return noFD, ErrUnsupported }
func pread(int, []byte) (int, error)  { return 0, ErrUnsupported }

func readMore(int, []byte, int64) (int, error)             { return 0, ErrUnsupported }
func closeFD(int)                                          {}
func readlinkAt(int, []byte, []byte) (int, error)          { return 0, ErrUnsupported }
func fileType(int, string) (mode, major uint32, err error) { return 0, 0, ErrUnsupported }
func OpenFileLimit() int                                   { return 0 }
func machine() string                                      { return "" }
func monotonic() int64                                     { return 0 }
func inodeOf(int, string) uint64                           { return 0 }
func hasSwap() bool                                        { return false }
func listNumbers(_ int, _, path string, buf []int32) ([]int32, error) {
	return buf, &Error{"open", path, ErrUnsupported}
}

// ReadSelf returns ErrUnsupported: Linux only.
func ReadSelf() (sampler.Self, error) {
	return sampler.Self{}, &Error{"clock_gettime", "ddtop itself", ErrUnsupported}
}

// SelfCPU returns ErrUnsupported: Linux only.
func SelfCPU() (int64, error) { return 0, &Error{"clock_gettime", "ddtop itself", ErrUnsupported} }

type sockDiag struct{}

func openSockDiag(*living) (*sockDiag, error) { return nil, ErrUnsupported }

func (d *sockDiag) close() {}

func (d *sockDiag) listener(netip.AddrPort) (uint64, error) { return 0, ErrUnsupported }

func (d *sockDiag) named(map[uint64]struct{}, map[uint64]sampler.Peer) error { return ErrUnsupported }

func (d *sockDiag) listeningAmong(map[uint64]struct{}) (map[uint64]*listening, error) {
	return nil, ErrUnsupported
}

func (d *sockDiag) queues(map[uint64]*listening) ([]sampler.Listener, error) {
	return nil, ErrUnsupported
}

type socketAsker struct{ refused error }

func openSocketAsker(int) (socketAsker, error) { return socketAsker{}, ErrUnsupported }

func (s *socketAsker) close() {}

func (s *socketAsker) askThrough(int) {}

func (s *socketAsker) listens(int32) bool { return false }

func (s *socketAsker) ask(int32) (sampler.Peer, bool, error) {
	return sampler.Peer{}, false, ErrUnsupported
}
