package ui

import (
	"fmt"

	"github.com/ddtop/ddtop/flamegraph"
	"github.com/ddtop/ddtop/ui/internal/canvas"
	"github.com/ddtop/ddtop/ui/store"
	"github.com/ddtop/ddtop/ui/style"
	"github.com/ddtop/ddtop/ui/widget"
)

// compare goes on from comparing with nothing to the other recording, if there is one, to the time before the last mark, if there is one, to the time shown now, and
// back to nothing. The stretch of time is as long as the one shown, which { and } change.
func compare(m *Model) {
	v := &m.Flame
	if m.LastNS == 0 {
		return
	}
	was := v.BaseKind
	v.Base, v.BaseKind, v.BaseWhen = nil, widget.NoBase, ""
	span := style.AxisTime(m.WindowNS)
	switch n := m.Notes.Last(m.AtNS); {
	case was == widget.NoBase && v.Against != nil:
		v.CompareAgainst()
		m.message.Say("compared from now on with " + v.BaseWhen + "; = goes on to a time of this one")
	case was <= widget.AgainstBase && n != nil:
		base := new(flamegraph.Snapshot)
		m.store.Read(func(r *store.Reading) { r.Rolling.SnapshotRange(n.AtNS-m.WindowNS, n.AtNS, base) })
		if len(base.Entries) > 0 {
			v.Base, v.BaseKind = base, widget.MarkBase
			v.BaseWhen = fmt.Sprintf("%s before %q", span, canvas.Cut(n.Text, 20))
			m.message.Say("compared from now on with the " + v.BaseWhen + "; = takes the time shown now instead")
			break
		}
		fallthrough // nothing is kept of that time
	case was != widget.ShownBase:
		s := &m.Weights
		v.Base = &flamegraph.Snapshot{FromNS: s.FromNS, ToNS: s.ToNS, Entries: append([]flamegraph.Entry(nil), s.Entries...),
			Overflow: s.Overflow, Dropped: s.Dropped}
		v.BaseKind = widget.ShownBase
		v.BaseWhen = span + " until " + m.Process.WallTime(m.AtNS).Format("15:04:05")
		m.message.Say("compared from now on with the " + v.BaseWhen + ": go to another time with [ ], or wait; = stops")
	}
	m.Refresh()
}
