package store

import (
	"github.com/ddtop/ddtop/gvl"
)

// maxChainNS bounds the time of the history that is read again for one wait. Of a longer wait the end is read.
const maxChainNS = int64(10e9)

// WaitChain says who held the GVL during a wait.
type WaitChain struct {
	Of  WaitKey
	Sum gvl.ChainSum
	// LenNS is the length of the wait that it is about, cut: of its end alone.
	LenNS int64
	Cut   bool
	Err   error
}

// Chain reads the history around a wait once more.
func (s *Store) Chain(e *WaitEvent) WaitChain {
	c := WaitChain{Of: e.Key(), LenNS: e.LenNS}
	if c.Cut = e.LenNS > maxChainNS; c.Cut {
		c.LenNS = maxChainNS
	}
	w := gvl.Wait{Thread: e.Thread, FromNS: e.EndNS - c.LenNS, ToNS: e.EndNS, Exact: e.Exact, HandoverNS: e.HandNS, NoCPUNS: e.NoCPUNS}
	w.Before.Ractor = e.Ractor
	stream := gvl.NewStream(s.target)
	chain := gvl.NewChain(stream, &w, s.Dict)
	c.Err = s.readAgain(w.FromNS, s.toldAt(w.ToNS), stream)
	c.Sum = chain.Sum()
	return c
}
