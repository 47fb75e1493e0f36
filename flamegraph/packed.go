package flamegraph

import "encoding/binary"

// These are the bits of one byte in a packed delta. The byte comes after the number of the entry. Its bits say which
// weights follow.
const (
	hasWall = 1 << iota
	hasCPU
	hasWait
	hasBlame
	hasSamples
	waitIsWall
	hasAllocSeen // AllocSeen and AllocTicks follow
	hasAllocTotal
)

// appendDelta packs a delta, the weights that one slot adds to an entry. It writes the number of the entry, a byte that
// marks the weights that are not 0, and these weights as varints. A packed delta takes 8 to 15 bytes, while the struct
// takes 72.
func appendDelta(b []byte, d delta) []byte {
	b = binary.AppendUvarint(b, uint64(d.entry))
	at := len(b)
	b = append(b, 0)
	put := func(bit byte, v int64) {
		if v != 0 {
			b[at] |= bit
			b = binary.AppendVarint(b, v)
		}
	}
	put(hasWall, d.w.WallNS)
	put(hasCPU, d.w.CPUNS)
	if d.w.WaitNS != 0 && d.w.WaitNS == d.w.WallNS {
		b[at] |= waitIsWall
	} else {
		put(hasWait, d.w.WaitNS)
	}
	put(hasBlame, d.w.BlameNS)
	put(hasSamples, d.w.Samples)
	if d.w.AllocSeen != 0 || d.w.AllocTicks != 0 {
		b[at] |= hasAllocSeen
		b = binary.AppendVarint(binary.AppendVarint(b, d.w.AllocSeen), d.w.AllocTicks)
	}
	put(hasAllocTotal, d.w.AllocTotal)
	return b
}

// readDelta unpacks the first delta of b, as appendDelta wrote it. The result rest is what follows this delta in b.
func readDelta(b []byte) (d delta, rest []byte) {
	entry, n := binary.Uvarint(b)
	d.entry = int32(entry)
	has := b[n]
	b = b[n+1:]
	get := func(bit byte) int64 {
		if has&bit == 0 {
			return 0
		}
		v, n := binary.Varint(b)
		b = b[n:]
		return v
	}
	d.w.WallNS = get(hasWall)
	d.w.CPUNS = get(hasCPU)
	d.w.WaitNS = get(hasWait)
	if has&waitIsWall != 0 {
		d.w.WaitNS = d.w.WallNS
	}
	d.w.BlameNS = get(hasBlame)
	d.w.Samples = get(hasSamples)
	d.w.AllocSeen = get(hasAllocSeen)
	d.w.AllocTicks = get(hasAllocSeen)
	d.w.AllocTotal = get(hasAllocTotal)
	return d, b
}
