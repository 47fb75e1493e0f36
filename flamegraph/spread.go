package flamegraph

// Spread calls visit for each slot from fromNS to toNS (CLOCK_MONOTONIC in ns) and each chosen key in it. visit gets
// the beginning and the end of the slot, and the key's weights in the slot. The oldest slot comes first. A slot that is
// only partly in the range is included completely. The newest slot ends at the newest time. A key can occur several
// times in a slot. chosen is called once for each key. chosen and visit must not use the Rolling. A Rolling without a
// window keeps no slots, so visit is not called.
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
