package account

import (
	"github.com/ddtop/ddtop/gvl"
	"github.com/ddtop/ddtop/gvl/code"
	"github.com/ddtop/ddtop/report"
	"github.com/ddtop/ddtop/sampler"
)

// maxStatBlame limits how many places, and how many threads, a Stat lists as causes of waits.
const maxStatBlame = 10

// codeOf names the code of a frame. For a frame of Ruby itself (builtIn), it also names the nearest caller that is not
// part of Ruby. It searches the stack outer for this caller.
func codeOf(dict *sampler.Dictionary, frame sampler.FrameID, outer sampler.StackID, builtIn func(*sampler.Frame) bool) report.StatCode {
	f := dict.Frame(frame)
	c := report.StatCode{Label: f.Label, Path: f.Path, Line: f.Line, Uncertain: f.Uncertain, Mark: f.Mark()}
	if !builtIn(&f) {
		return c
	}
	for _, o := range code.Frames(dict, outer, code.MaxNear) {
		if !builtIn(&o) {
			c.Caller = o.Label
			break
		}
	}
	return c
}

func (b *Blame) Stat() report.StatBlame {
	all := b.Top(maxBlameEntries, ByStack, 0)
	out := report.StatBlame{
		TotalNS: all.TotalNS, NobodyNS: all.NobodyNS, OtherNS: all.OtherNS, Frames: []report.StatPlace{}, Threads: []report.StatCharge{},
	}
	for _, e := range all.Entries {
		switch e.Kind {
		case gvl.GC:
			out.GCNS += e.NS
		case gvl.Stalled:
			out.StalledNS += e.NS
		default:
			out.RunningNS += e.NS
		}
	}
	for _, e := range b.Top(maxStatBlame, ByFrame, 0).Entries {
		out.Frames = append(out.Frames, b.place(e))
	}
	for _, e := range b.Top(maxStatBlame, ByThread, 0).Entries {
		method := b.Method(e.Thread, 0)
		out.Threads = append(out.Threads, report.StatCharge{Thread: e.Thread, NS: e.NS, Share: e.Share, Method: method})
	}
	return out
}

func (b *Blame) place(e BlameEntry) report.StatPlace {
	p := report.StatPlace{Thread: e.Thread, NS: e.NS, Share: e.Share}
	if b.dict != nil && e.Frame != 0 {
		caller, _ := b.dict.Stack(e.Stack)
		p.StatCode = codeOf(b.dict, e.Frame, caller, func(f *sampler.Frame) bool { return f.C })
	}
	return p
}
