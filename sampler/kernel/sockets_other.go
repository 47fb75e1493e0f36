//go:build !linux

package kernel

import "github.com/ddtop/ddtop/sampler"

type socketAsker struct{ refused error }

func openSocketAsker(int) (socketAsker, error) { return socketAsker{}, ErrUnsupported }

func (s *socketAsker) close() {}

func (s *socketAsker) askThrough(int) {}

func (s *socketAsker) listens(int32) bool { return false }

func (s *socketAsker) ask(int32) (sampler.Peer, bool, error) {
	return sampler.Peer{}, false, ErrUnsupported
}
