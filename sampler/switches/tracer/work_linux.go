package tracer

import (
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/ddtop/ddtop/sampler/bpf"
	"github.com/ddtop/ddtop/sampler/switches"
)

const (
	// maxWorkEntries limits how many entries of an environment (the Hash with the data of a request) are copied. Puma's
	// environments have 30 to 50 entries.
	maxWorkEntries = 128
	// newWorks limits how many environments of requests are copied in each period of spanNS, for each process. Each
	// copy takes 2 µs.
	newWorks = 4
	// workRingBytes is the size of the ring for copied environments, in bytes. 300 of them fit into it.
	workRingBytes = 1 << 20
	// maxStackSize is the largest plausible size of a VM's stack: 1 GB, in words of 8 bytes.
	maxStackSize = 1 << 27
	// tableEntry is the size of an entry of an st_table, in bytes: hash, key and value (st.c, Ruby 2.5 to 4.0).
	tableEntry   = 24
	maxWorkBytes = maxWorkEntries * tableEntry
)

// WorkPlace says where the threads of a process have the environment (the Hash with the data) of the request that they
// serve. The environment is a local variable of a known frame.
type WorkPlace struct {
	// Frame says where the control frame of the method with the variable is: so many bytes below the end of the VM's
	// stack. ISeq is the address of this frame's code. Back says where the variable is: so many bytes below the address
	// in the frame's environment pointer.
	Frame, ISeq, Back uint64
	// Table is an offset in an RHash, in bytes. If Inside is true, the st_table itself is at this offset, and otherwise
	// a pointer to it. Entries and Bound are offsets in an st_table, in bytes. Entries is the offset of the pointer to
	// the entries, and Bound is the offset of their number.
	Table, Entries, Bound int
	Inside                bool
	// Collections is the address of Ruby's counter of garbage collections. Ruby increments it when a collection begins.
	Collections uint64
}

// These are offsets in a value of the map of WorkPlaces.
const (
	placeFrame = 8 * iota
	placeISeq
	placeBack
	placeTable
	placeInside
	placeEntries
	placeBound
	placeCollections
	placeSpanNS
	placeInSpan
	placeSize
)

// These are offsets in an entry of the ring for environments. First come these words, and then the entries of the
// Hash's table.
const (
	workNS = 8 * iota
	workTID
	workLow
	workEnd
	workContext
	workHash
	workTable
	workEntries
	workCollector
	workCollections
	workBytes
	workHead
	workSize = workHead + maxWorkBytes

	workTGID = workTID + 4
)

// Work is a copy of a request's environment (the Hash with its data). A program in the kernel made it while the thread
// that serves the request ran.
type Work struct {
	NS  int64
	TID int32
	// Low and End are the ends of the VM's stack. Context is the address of the execution context, and Hash the
	// address of the environment.
	Low, End, Context, Hash uint64
	// Collector is the word with the collector's flags at the time of the copy. Collections is the number of
	// collections that had begun by then.
	Collector, Collections uint64
	// Table is the address of the environment's table. Entries are the entries of this table, which begin at the
	// address EntriesAt.
	Table, EntriesAt uint64
	Entries          []byte
}

// decodeWork makes a Work from an entry of the ring. The Work refers to b, so it is valid only until b changes.
func decodeWork(b []byte) (w Work, tgid uint32, err error) {
	if len(b) < workSize {
		return Work{}, 0, fmt.Errorf("an environment of %d bytes, not %d", len(b), workSize)
	}
	at := func(place int) uint64 { return binary.LittleEndian.Uint64(b[place:]) }
	n := at(workBytes)
	if n > maxWorkBytes {
		return Work{}, 0, fmt.Errorf("an environment with %d bytes", n)
	}
	return Work{NS: int64(at(workNS)), TID: int32(at(workTID)), Low: at(workLow), End: at(workEnd), Context: at(workContext), Hash: at(workHash),
		Collector: at(workCollector), Collections: at(workCollections),
		Table: at(workTable), EntriesAt: at(workEntries), Entries: b[workHead:][:n]}, uint32(at(workTID) >> 32), nil
}

// SetWork makes the programs copy the environments of the process's new requests.
func (f *Feed) SetWork(p *WorkPlace) error {
	b := make([]byte, placeSize)
	put := func(place int, v uint64) { binary.LittleEndian.PutUint64(b[place:], v) }
	put(placeFrame, p.Frame)
	put(placeISeq, p.ISeq)
	put(placeBack, p.Back)
	put(placeTable, uint64(p.Table))
	put(placeEntries, uint64(p.Entries))
	put(placeBound, uint64(p.Bound))
	put(placeCollections, p.Collections)
	if p.Inside {
		put(placeInside, 1)
	}
	if err := f.t.places.Update(uint32(f.target.PID), b, ebpf.UpdateAny); err != nil {
		return bpf.Explain(fmt.Sprintf("copying the environments of process %d", f.target.PID), err)
	}
	return nil
}

// DrainWorks calls emit with the environments that were copied since the last call. A Work is valid only during the
// call of emit.
func (f *Feed) DrainWorks(emit func(*Work)) error {
	t := f.t
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range f.pendingWorks {
		emit(&f.pendingWorks[i])
	}
	f.pendingWorks = f.pendingWorks[:0]
	err := t.works.Read(func(b []byte) error {
		w, tgid, err := decodeWork(b)
		if err != nil {
			return err
		}
		switch of := t.feeds[tgid]; {
		case of == f:
			emit(&w)
		case of != nil && len(of.pendingWorks) < maxPendingWorks/max(len(t.feeds), 1):
			w.Entries = append([]byte(nil), w.Entries...)
			of.pendingWorks = append(of.pendingWorks, w)
			of.waits.Store(true)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading the ring of environments: %w", err)
	}
	return nil
}

// maxPendingWorks limits how many copied environments are kept until DrainWorks is called, for all processes together.
const maxPendingWorks = workRingBytes / workSize

// word emits instructions that read a word from the address in R3, and store it at nodeAt. If the read fails, they jump
// to a label, whose name is in the parameter or.
func word(or string) asm.Instructions {
	return append(bpf.ReadTo(nodeAt, 8), asm.JNE.Imm(asm.R0, 0, or))
}

// findWork emits instructions that put the address of the thread's environment (a request's Hash) into the record. The
// environment is in a variable of a known frame. So the instructions first check that this frame is on the thread's
// stack. They need the execution context at contextAt, and overwrite it with the ends of the stack. At the end, R6 has
// the process's WorkPlace.
func (b *builder) findWork() asm.Instructions {
	const or, unread = "no work", "work unread"
	ins := asm.Instructions{
		asm.Mov.Imm(asm.R6, 0),
		asm.LoadMem(asm.R1, asm.RFP, onStack+recordCFP, asm.DWord), asm.JEq.Imm(asm.R1, 0, or),
		asm.LoadMapPtr(asm.R1, b.places),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, onStack+recordTGID),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, or),
		asm.Mov.Reg(asm.R6, asm.R0),
		asm.LoadMem(asm.R1, asm.RFP, contextAt+8, asm.DWord), asm.JGT.Imm(asm.R1, maxStackSize, or),
		asm.LSh.Imm(asm.R1, 3),
		asm.LoadMem(asm.R2, asm.RFP, contextAt, asm.DWord), asm.Add.Reg(asm.R1, asm.R2),
		// from here on, the address of the stack's end replaces this word of the execution context
		asm.StoreMem(asm.RFP, contextAt+8, asm.R1, asm.DWord),
		asm.LoadMem(asm.R2, asm.R6, placeFrame, asm.DWord), asm.Sub.Reg(asm.R1, asm.R2),
		asm.LoadMem(asm.R2, asm.RFP, contextAt+contextCFP, asm.DWord),
		asm.JLE.Reg(asm.R2, asm.R1, "within"),
		asm.Ja.Label(or),
		asm.StoreMem(asm.RFP, seenAt, asm.R1, asm.DWord).WithSymbol("within"),
		asm.Mov.Reg(asm.R3, asm.R1), asm.Add.Imm(asm.R3, frameISeq),
	}
	ins = append(ins, word(unread)...)
	ins = append(ins,
		asm.LoadMem(asm.R1, asm.RFP, nodeAt, asm.DWord), asm.LoadMem(asm.R2, asm.R6, placeISeq, asm.DWord),
		asm.JNE.Reg(asm.R1, asm.R2, or),
		asm.LoadMem(asm.R3, asm.RFP, seenAt, asm.DWord), asm.Add.Imm(asm.R3, frameEP))
	ins = append(ins, word(unread)...)
	ins = append(ins,
		asm.LoadMem(asm.R3, asm.RFP, nodeAt, asm.DWord), asm.LoadMem(asm.R1, asm.R6, placeBack, asm.DWord), asm.Sub.Reg(asm.R3, asm.R1))
	ins = append(ins, word(unread)...)
	ins = append(ins,
		asm.LoadMem(asm.R1, asm.RFP, nodeAt, asm.DWord),
		// jump if the word cannot be the address of an object
		asm.JLT.Imm(asm.R1, 4096, or), asm.Mov.Reg(asm.R2, asm.R1), asm.And.Imm(asm.R2, 7), asm.JNE.Imm(asm.R2, 0, or),
		asm.StoreMem(asm.RFP, onStack+recordWork, asm.R1, asm.DWord), asm.Ja.Label(or),
		asm.Mov.Imm(asm.R1, switches.ServesUnread).WithSymbol(unread), asm.StoreMem(asm.RFP, onStack+recordWork, asm.R1, asm.DWord))
	return append(ins, asm.Mov.Imm(asm.R0, 0).WithSymbol(or))
}

// copyWork emits instructions that copy the environment that findWork has found. If the thread's previous record had
// the same environment, they copy nothing. R9 has the data kept for the thread. R6 is overwritten.
func (b *builder) copyWork() asm.Instructions {
	const or = "no copy of work"
	discard := func(ins ...asm.Instruction) asm.Instructions {
		return append(ins, asm.JNE.Imm(asm.R0, 0, "discard work"))
	}
	ins := asm.Instructions{
		asm.StoreMem(asm.RFP, savedAt, asm.R8, asm.DWord),
		asm.LoadMem(asm.R1, asm.RFP, onStack+recordWork, asm.DWord),
		asm.JNE.Imm(asm.R1, 0, "serves"),
		asm.StoreMem(asm.R9, storedWork, asm.R1, asm.DWord),
		asm.Ja.Label(or),
		asm.LoadMem(asm.R2, asm.R9, storedWork, asm.DWord).WithSymbol("serves"), asm.JEq.Reg(asm.R1, asm.R2, or),
		asm.JEq.Imm(asm.R1, switches.ServesUnread, or),
		asm.JEq.Imm(asm.R6, 0, or), // the verifier needs this check, although R6 is never 0 here
		// If several CPUs execute these instructions at the same time, one of them can overwrite another's increment of
		// a counter. This does not matter: the limit need not be exact.
		asm.LoadMem(asm.R1, asm.R6, placeSpanNS, asm.DWord), asm.LoadMem(asm.R2, asm.RFP, onStack+recordNS, asm.DWord),
		asm.Mov.Reg(asm.R3, asm.R2), asm.Sub.Reg(asm.R3, asm.R1),
		asm.JLT.Imm(asm.R3, spanNS, "same span of works"),
		asm.StoreMem(asm.R6, placeSpanNS, asm.R2, asm.DWord),
		asm.Mov.Imm(asm.R1, 0), asm.StoreMem(asm.R6, placeInSpan, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, asm.R6, placeInSpan, asm.DWord).WithSymbol("same span of works"),
		asm.JGE.Imm(asm.R1, newWorks, or),
		asm.Add.Imm(asm.R1, 1), asm.StoreMem(asm.R6, placeInSpan, asm.R1, asm.DWord),
		asm.LoadMapPtr(asm.R1, b.works), asm.Mov.Imm(asm.R2, workSize), asm.Mov.Imm(asm.R3, 0),
		asm.FnRingbufReserve.Call(),
		asm.JEq.Imm(asm.R0, 0, or),
		asm.Mov.Reg(asm.R8, asm.R0),
	}
	for _, w := range []struct{ to, from int16 }{
		{workNS, onStack + recordNS}, {workLow, contextAt}, {workEnd, contextAt + 8}, {workContext, wordAt}, {workHash, onStack + recordWork},
		{workCollector, onStack + recordCollector},
	} {
		ins = append(ins, asm.LoadMem(asm.R1, asm.RFP, w.from, asm.DWord), asm.StoreMem(asm.R8, w.to, asm.R1, asm.DWord))
	}
	ins = append(ins,
		asm.LoadMem(asm.R1, asm.RFP, onStack+recordTID, asm.Word), asm.StoreMem(asm.R8, workTID, asm.R1, asm.Word),
		asm.LoadMem(asm.R1, asm.RFP, onStack+recordTGID, asm.Word), asm.StoreMem(asm.R8, workTGID, asm.R1, asm.Word),
		// The next instructions read the table of the Hash.
		asm.LoadMem(asm.R3, asm.R8, workHash, asm.DWord), asm.LoadMem(asm.R1, asm.R6, placeTable, asm.DWord), asm.Add.Reg(asm.R3, asm.R1),
		asm.LoadMem(asm.R1, asm.R6, placeInside, asm.DWord), asm.JNE.Imm(asm.R1, 0, "inside"))
	ins = append(ins, word("discard work")...)
	ins = append(ins,
		asm.LoadMem(asm.R3, asm.RFP, nodeAt, asm.DWord),
		asm.StoreMem(asm.RFP, seenAt, asm.R3, asm.DWord).WithSymbol("inside"), asm.StoreMem(asm.R8, workTable, asm.R3, asm.DWord),
		asm.LoadMem(asm.R1, asm.R6, placeBound, asm.DWord), asm.Add.Reg(asm.R3, asm.R1))
	ins = append(ins, word("discard work")...)
	ins = append(ins,
		asm.LoadMem(asm.R1, asm.RFP, nodeAt, asm.DWord), asm.JGT.Imm(asm.R1, maxWorkEntries, "discard work"),
		asm.Mul.Imm(asm.R1, tableEntry), asm.StoreMem(asm.RFP, valuesAt, asm.R1, asm.DWord), asm.StoreMem(asm.R8, workBytes, asm.R1, asm.DWord),
		asm.LoadMem(asm.R3, asm.RFP, seenAt, asm.DWord), asm.LoadMem(asm.R1, asm.R6, placeEntries, asm.DWord), asm.Add.Reg(asm.R3, asm.R1))
	ins = append(ins, word("discard work")...)
	ins = append(ins,
		asm.LoadMem(asm.R3, asm.RFP, nodeAt, asm.DWord), asm.StoreMem(asm.R8, workEntries, asm.R3, asm.DWord),
		// The kernel's verifier accepts the copy only if the bounds are checked right before it.
		asm.LoadMem(asm.R2, asm.RFP, valuesAt, asm.DWord),
		asm.JEq.Imm(asm.R2, 0, "discard work"), asm.JGT.Imm(asm.R2, maxWorkBytes, "discard work"),
		asm.Mov.Reg(asm.R1, asm.R8), asm.Add.Imm(asm.R1, workHead))
	ins = append(ins, discard(asm.FnProbeReadUser.Call())...)
	ins = append(ins, asm.LoadMem(asm.R3, asm.R6, placeCollections, asm.DWord))
	ins = append(ins, word("discard work")...)
	return append(ins,
		asm.LoadMem(asm.R1, asm.RFP, nodeAt, asm.DWord), asm.StoreMem(asm.R8, workCollections, asm.R1, asm.DWord),
		asm.LoadMem(asm.R1, asm.R8, workHash, asm.DWord), asm.StoreMem(asm.R9, storedWork, asm.R1, asm.DWord),
		asm.Mov.Reg(asm.R1, asm.R8), asm.Mov.Imm(asm.R2, bpf.NoWakeup),
		asm.FnRingbufSubmit.Call(),
		asm.Ja.Label(or),
		asm.Mov.Reg(asm.R1, asm.R8).WithSymbol("discard work"), asm.Mov.Imm(asm.R2, bpf.NoWakeup),
		asm.FnRingbufDiscard.Call(),
		asm.LoadMem(asm.R8, asm.RFP, savedAt, asm.DWord).WithSymbol(or))
}
