package code

import (
	"slices"
	"strings"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

const (
	// firstLocal is the smallest distance of a local variable from the environment's pointer, in words
	// (VM_ENV_DATA_SIZE, vm_core.h). ddtop treats a word of the code as such a distance if it is below maxDistance. IDs
	// of variables are larger.
	firstLocal, maxDistance = 3, 1 << 8
	// maxBlocks limits how deep blocks within blocks are followed. maxCodes limits how many pieces of code one call of
	// Receivers reads.
	maxBlocks, maxCodes = 2, 64
	// AnyLevel is the value of Receiver.Level if the code does not show in which environment the variable is. The
	// variable is then in the code's own environment (0) or in the next one outward (1).
	AnyLevel = -1
)

// runsBlock are methods that call their block at once, in the same thread. So their block runs as a part of the code
// around it.
var runsBlock = []string{"loop", "synchronize", "mon_synchronize", "mu_synchronize", "timeout", "handle_interrupt", "catch", "tap"}

// Receiver is a variable or constant on which code calls a method without arguments.
type Receiver struct {
	// Name and ID are set for an instance, class or global variable. For other receivers Name is empty.
	Name string
	ID   uint64
	// Constant is the address of a constant's inline cache. It is zero for other receivers.
	Constant attach.Address
	// Local is the distance of a local variable from the environment's pointer, in words. It is zero for other
	// receivers. Level is 0 if the variable is in the code's own environment, 1 for the next environment outward, and
	// so on.
	Local uint64
	Level int
}

// Receivers reads the code of an iseq, and of the blocks in it that run at once. list has the variables and constants
// on which this code calls one of the methods in names. It includes only calls without arguments: the instruction
// before such a call pushes the receiver. calls has the names of all methods that the code calls. ops is a buffer. Call
// Receivers in a function that Objects.Read calls.
func (d *classifier) Receivers(iseq attach.Address, names []string, ops *Operands) (list []Receiver, calls []string, err error) {
	type code struct {
		iseq  attach.Address
		depth int
	}
	var missing error
	for todo, n := []code{{iseq, 0}}, 0; n < min(len(todo), maxCodes); n++ {
		c := todo[n]
		if err := d.Operands(c.iseq, ops); err != nil {
			if c.depth == 0 || err == view.ErrMissing {
				missing = view.Worst(missing, err)
			}
			continue
		}
		calls = append(calls, ops.Calls...)
		for i, at := range ops.places {
			if !slices.Contains(names, ops.Calls[i]) || at < 3 {
				continue
			}
			r, ok, err := d.receiver(ops.words[at-3], ops.words[at-2])
			missing = view.Worst(missing, err)
			if r.Local == 0 {
				r.Level = 0
			} else if r.Level != AnyLevel {
				r.Level -= c.depth
			} else if c.depth > 0 {
				r.Level = 1 - c.depth
			}
			if ok && (r.Level >= 0 || r.Level == AnyLevel && c.depth == 0) {
				list = append(list, r)
			}
		}
		for _, at := range ops.blocks {
			i := slices.Index(ops.places, at-1)
			if i >= 0 && c.depth < maxBlocks && slices.Contains(runsBlock, ops.Calls[i]) {
				todo = append(todo, code{attach.Address(ops.words[at]), c.depth + 1})
			}
		}
	}
	return list, calls, missing
}

// receiver finds out which variable or constant an instruction pushes. first and last are the instruction's last two
// words. If the instruction has two operands, these are the operands. If it has only one operand, first is the
// instruction itself.
func (d *classifier) receiver(first, last uint64) (r Receiver, ok bool, err error) {
	local := func(w uint64) bool { return w >= firstLocal && w < maxDistance }
	switch {
	case local(first) && last < maxDistance:
		return Receiver{Local: first, Level: int(last)}, true, nil
	case local(last):
		return Receiver{Local: last, Level: AnyLevel}, true, nil
	case last < maxDistance:
		return Receiver{}, false, nil
	}
	ids := []uint64{first, last}
	if !d.target.Release.AtLeast(3, 0) {
		id, err := d.Objects.View.Word(attach.Address(last) + global27)
		if err == view.ErrMissing {
			return Receiver{}, false, err
		}
		if err == nil {
			ids = append(ids, id)
		}
	}
	for i, id := range ids {
		if first < maxDistance && i == 0 {
			continue
		}
		name, err := d.Objects.IDName(id)
		switch {
		case err == view.ErrMissing:
			return Receiver{}, false, err
		case err == nil && (strings.HasPrefix(name, "@") || strings.HasPrefix(name, "$")):
			return Receiver{Name: name, ID: id}, true, nil
		}
	}
	return Receiver{Constant: attach.Address(last)}, last&7 == 0, nil
}

// ConstantOf returns the constant in an inline cache, or zero. Call it in a function that Objects.Read calls.
func (d *classifier) ConstantOf(cache attach.Address) (uint64, error) {
	if d.target.Release.AtLeast(3, 0) {
		word, err := d.Objects.View.Word(cache)
		if err != nil {
			return 0, err
		}
		return d.constant(word)
	}
	return d.Objects.View.Word(cache + constant27)
}
