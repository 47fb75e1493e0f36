//go:build !linux

package iterator

import (
	"fmt"

	"github.com/ddtop/ddtop/sampler/bpf"
)

// Iterator is never made. It works on Linux only.
type Iterator struct{}

// Open fails. It works on Linux only.
func Open(int) (*Iterator, error) { return nil, Check() }

// Check fails. It works on Linux only.
func Check() error { return fmt.Errorf("%w: it is not Linux", bpf.ErrKernel) }

// Try fails. It works on Linux only.
func Try() error { return Check() }

// Read is never called.
func (*Iterator) Read(map[int32]Thread) error { return Check() }

// Close is never called.
func (*Iterator) Close() error { return nil }
