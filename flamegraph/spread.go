package flamegraph

// Spread calls visit with the weights of the chosen keys in each slot from fromNS to toNS (CLOCK_MONOTONIC in ns), and
// with the slot's edges. The oldest slot comes first. The slots that contain either end are included completely. The
// newest slot ends at the newest time. A key can come several times in a slot. A Rolling without a window keeps no
// slots, so visit is not called. chosen is called once for each key. Neither function may use the Rolling.
func (r *Rolling) Spread(fromNS, toNS int64, chosen func(Key) bool, visit func(fromNS, toNS int64, k Key, w Weights)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.slots) == 0 || r.newest == noSlot {
		return
	}
	const unasked, yes, no = 0, 1, 2
	answers := make([]uint8, len(r.entries))
	see := func(n int64, d delta) {
		k := r.key(&r.entries[d.entry])
		if k.Ran {
			return
		}
		if answers[d.entry] == unasked {
			answers[d.entry] = no
			if chosen(k) {
				answers[d.entry] = yes
			}
		}
		if answers[d.entry] == yes {
			visit(n*r.slotNS, min((n+1)*r.slotNS, r.lastNS), k, d.w)
		}
	}
	r.each(fromNS, toNS, see)
}
