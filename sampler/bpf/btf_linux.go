package bpf

import (
	"fmt"

	"github.com/cilium/ebpf/btf"
)

// MemberAt returns the offset of a nested member in a struct of the kernel, in bytes. path has the names of the
// members, from outer to inner. The last member must have size bytes.
func MemberAt(spec *btf.Spec, name string, path []string, size int) (int16, error) {
	var s *btf.Struct
	if err := spec.TypeByName(name, &s); err != nil {
		return 0, fmt.Errorf("struct %s: %w", name, err)
	}
	at := uint32(0)
	for i, want := range path {
		var next btf.Type
		for _, m := range s.Members {
			if m.Name == want && m.BitfieldSize == 0 {
				at, next = at+m.Offset.Bytes(), btf.UnderlyingType(m.Type)
			}
		}
		if next == nil {
			return 0, fmt.Errorf("struct %s has no %s", s.Name, want)
		}
		if i == len(path)-1 {
			if n, err := btf.Sizeof(next); err != nil || n != size {
				return 0, fmt.Errorf("%s of struct %s is not of %d bytes", want, s.Name, size)
			}
			break
		}
		var ok bool
		if s, ok = next.(*btf.Struct); !ok {
			return 0, fmt.Errorf("%s is not a struct", want)
		}
	}
	if at > 1<<15-1 {
		return 0, fmt.Errorf("struct %s is too large", name)
	}
	return int16(at), nil
}
