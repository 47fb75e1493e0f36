package kernel

import (
	"encoding/binary"
	"testing"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler"
)

const smapsText = `55d000000000-55d000010000 r-xp 00001000 08:01 123                        /usr/bin/ruby 3.1
Size:                 64 kB
Rss:                  40 kB
Pss:                  10 kB
Shared_Clean:         36 kB
Private_Clean:         4 kB
VmFlags: rd ex mr mw me sd
55d001000000-55d001020000 rw-p 00000000 00:00 0                          [heap]
Rss:                 128 kB
Pss:                 128 kB
Private_Dirty:       128 kB
Swap:                  8 kB
7f0000000000-7f0000001000 rwxp 00000000 00:00 0 
Rss:                   4 kB
`

func TestParseSmaps(t *testing.T) {
	list, err := parseSmaps([]byte(smapsText))
	if err != nil || len(list) != 3 {
		t.Fatal(list, err)
	}
	if a := list[0]; !a.file || a.write || !a.exec || a.rss != 40<<10 || a.sharedOut != 36<<10 || a.private != 4<<10 || a.name != "/usr/bin/ruby" {
		t.Errorf("%+v", a)
	}
	if a := list[1]; !a.anonymous() || a.swap != 8<<10 || kindOf(&a, nil) != sampler.MemoryMalloc {
		t.Errorf("%+v", a)
	}
	if kindOf(&list[2], nil) != sampler.MemoryCode || kindOf(&list[2], []uint64{0x7f0000000800}) != sampler.MemoryStacks {
		t.Errorf("%+v", list[2])
	}
	for _, bad := range []string{"Rss: 1 kB\n", "7f00-7e00 rw-p 0 0 0\n", "x\n", "7f00-8f00 rw-p 0 0 0\nRss: x kB\n"} {
		if list, err := parseSmaps([]byte(bad)); err == nil {
			t.Errorf("%q: %+v", bad, list)
		}
	}
}

func FuzzParseSmaps(f *testing.F) {
	f.Add([]byte(smapsText))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, err := parseSmaps(text)
		if err != nil {
			return
		}
		for i := range list {
			if list[i].start >= list[i].end {
				t.Errorf("%+v", list[i])
			}
			kindOf(&list[i], nil)
		}
	})
}

// oneBlock is a made-up memory in which only one block of bytes, at the address at, can be read.
type oneBlock struct {
	at   uint64
	data []byte
}

func (m oneBlock) Read(attach.Address, []byte) error { return nil }

func (m oneBlock) ReadBatch(list []attach.Range) (int, error) {
	for i := range list {
		off := uint64(list[i].Addr) - m.at
		if off+uint64(len(list[i].Buf)) > uint64(len(m.data)) {
			list[i].Failed = true
			continue
		}
		copy(list[i].Buf, m.data[off:])
	}
	return 1, nil
}

// TestArenaWalk: an arena has blocks of 4,000, 4,000 and 8,384 bytes. The walk over it finds that the second and the
// last are free. If the sizes of the blocks are wrong, the walk reports that the memory is no arena.
func TestArenaWalk(t *testing.T) {
	const at, page = 0x10000, 4096
	blocks := func(sizes ...uint64) []byte {
		data := make([]byte, 4*page)
		off := uint64(0)
		for _, s := range sizes {
			binary.LittleEndian.PutUint64(data[off+8:], s)
			if off += s &^ 15; off+16 > uint64(len(data)) {
				break
			}
		}
		return data
	}
	for _, c := range []struct {
		name  string
		data  []byte
		state byte
		free  uint64
		ok    bool
	}{
		{"right", blocks(4000|1, 4000|1, 8384), pageResident, 4000 - 16 + 8384 - 16, true},
		{"all in use", blocks(4000|1, 4000|1, 8384|1), pageResident, 8384 - 16, true},
		{"beyond the end", blocks(4000|1, 4000|1, 8400|1), pageResident, 0, false},
		{"size zero", blocks(4000|1, 0), pageResident, 0, false},
		{"swapped out", blocks(4000|1, 4000|1, 8384), pageSwapped, 0, false},
		{"a newer area follows", blocks(8000|1, 8352|1, 16, 0), pageResident, 8352 - 16, true},
	} {
		m := &procMemory{mem: oneBlock{at, c.data}, page: page, left: maxArenaBytes, rest: func() {}}
		pages := &residency{start: at, page: page, pages: []byte{c.state, c.state, c.state, c.state}}
		free, ok, err := m.freeIn(arena{start: at, end: at + 4*page, firsts: []uint64{at}}, pages)
		if free != c.free || ok != c.ok || err != nil {
			t.Errorf("%s: %d bytes free, %v, %v; want %d, %v", c.name, free, ok, err, c.free, c.ok)
		}
	}
}
