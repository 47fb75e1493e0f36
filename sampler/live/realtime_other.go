//go:build !linux

package live

import "fmt"

type guardedThread struct{}

func checkRealTime() error {
	return fmt.Errorf("%w: processes can be sampled on Linux only", ErrRealTime)
}

func (g *guard) begin() (end func()) { return func() {} }

func (g *guard) raise() {}
