//go:build !linux

package kernel

import (
	"net/netip"

	"github.com/ddtop/ddtop/sampler"
)

type sockDiag struct{}

func openSockDiag(*living) (*sockDiag, error) { return nil, ErrUnsupported }

func (d *sockDiag) close() {}

func (d *sockDiag) listener(netip.AddrPort) (uint64, error) { return 0, ErrUnsupported }

func (d *sockDiag) named(map[uint64]struct{}, map[uint64]sampler.Peer) error { return ErrUnsupported }
