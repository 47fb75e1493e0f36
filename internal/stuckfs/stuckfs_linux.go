package stuckfs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// FileSize is the initial size of each file that File makes, in bytes.
const FileSize = 1 << 20

// The numbers of requests from the kernel in the FUSE protocol, version 7.31 (include/uapi/linux/fuse.h).
const (
	opLookup      = 1
	opForget      = 2
	opGetattr     = 3
	opSetattr     = 4
	opUnlink      = 10
	opRename      = 12
	opOpen        = 14
	opRead        = 15
	opWrite       = 16
	opRelease     = 18
	opFsync       = 20
	opFlush       = 25
	opInit        = 26
	opReaddir     = 28
	opInterrupt   = 36
	opCreate      = 35
	opBatchForget = 42
	opRename2     = 45
)

const (
	rootNode   = 1
	headerSize = 40
	maxWrite   = 1 << 17
	directIO   = 1 // FOPEN_DIRECT_IO
)

// FS is a mounted file system: a folder in which files can be made and removed. It answers all requests of the kernel
// until Stick or StickSync is called.
type FS struct {
	// Dir is the folder at which the file system is mounted.
	Dir string

	fd       int
	done     chan struct{}
	ready    chan struct{} // closed after the kernel's first request, which is about the protocol
	mu       sync.Mutex
	next     *sync.Cond
	stuck    bool
	unsynced bool          // true while fsync must not return (StickSync)
	slow     time.Duration // delay of each write
	waiting  int           // number of requests that wait until Release is called
	nodes    map[string]uint64
	sizes    map[uint64]uint64
	last     uint64
	written  uint64
}

// Mount mounts a file system at a new folder, and unmounts it at the end of the test. If it cannot mount one, it skips
// the test.
func Mount(t testing.TB) *FS {
	t.Helper()
	return MountAt(t, t.TempDir())
}

// MountAt is like Mount, but uses an existing folder.
func MountAt(t testing.TB, dir string) *FS {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a file system that hangs (FUSE) is mounted by root only")
	}
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("no file system that hangs can be made here: opening /dev/fuse: %v", err)
	}
	f := &FS{Dir: dir, fd: fd, done: make(chan struct{}), ready: make(chan struct{}), nodes: make(map[string]uint64), sizes: make(map[uint64]uint64), last: rootNode}
	f.next = sync.NewCond(&f.mu)
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fd)
	if err := unix.Mount("stuckfs", f.Dir, "fuse.stuckfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		unix.Close(fd)
		t.Skipf("no file system that hangs can be mounted here: %v", err)
	}
	go f.serve()
	// Wait for the kernel's first request, which is about the protocol and not from a test. Otherwise Stick could delay
	// it, and Waiting would count it as a read or a write.
	select {
	case <-f.ready:
	case <-f.done:
		t.Error("the file system that hangs has ended before it began")
	}
	t.Cleanup(func() {
		f.Release() // the processes that wait belong to the test, so they can end now
		if err := unix.Unmount(f.Dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmounting %s: %v", f.Dir, err)
		}
	})
	return f
}

// Stick makes all reads and writes hang until Release is called.
func (f *FS) Stick() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stuck = true
}

// StickSync makes every fsync hang until Release is called. All requests that come after such an fsync hang, too.
func (f *FS) StickSync() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unsynced = true
}

// Release lets all requests go on.
func (f *FS) Release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stuck, f.unsynced = false, false
	f.next.Broadcast()
}

// Slow delays each write by the given time.
func (f *FS) Slow(each time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.slow = each
}

// Waiting returns how many requests hang, 0 or 1. FS reads only one hanging request from the kernel. Further requests
// stay in the kernel, so that a process with such a request can be killed.
func (f *FS) Waiting() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.waiting
}

// Written returns how many bytes have been written to all files.
func (f *FS) Written() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.written
}

// File makes a file of FileSize zero bytes and returns its path.
func (f *FS) File(name string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.create(name)
	return filepath.Join(f.Dir, name)
}

func (f *FS) create(name string) uint64 {
	f.last++
	f.nodes[name], f.sizes[f.last] = f.last, FileSize
	return f.last
}

// serve answers the kernel's requests until the file system is unmounted.
func (f *FS) serve() {
	defer close(f.done)
	defer unix.Close(f.fd)
	buf := make([]byte, maxWrite+4096)
	for {
		if !f.waitForRequest() {
			return
		}
		n, err := unix.Read(f.fd, buf)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ENOENT), errors.Is(err, unix.EAGAIN):
			continue
		case err != nil || n < headerSize: // ENODEV means that the file system was unmounted
			return
		}
		if binary.LittleEndian.Uint32(buf[4:]) == opWrite {
			time.Sleep(f.eachWrite())
		}
		if binary.LittleEndian.Uint32(buf[4:]) == opFsync {
			f.waitToSync()
		}
		f.answer(buf[:n])
	}
}

func (f *FS) waitToSync() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.unsynced {
		f.waiting = 1
		f.next.Wait()
	}
	f.waiting = 0
}

func (f *FS) eachWrite() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.slow
}

// waitForRequest waits until the kernel has a request that FS may answer now. While requests must hang, it leaves them
// in the kernel. The reason is that a process can be killed only if its request is still in the kernel.
func (f *FS) waitForRequest() bool {
	for {
		fds := []unix.PollFd{{Fd: int32(f.fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return false
		}
		if fds[0].Revents&unix.POLLERR != 0 {
			return false
		}
		if fds[0].Revents == 0 {
			continue
		}
		f.mu.Lock()
		for f.stuck {
			f.waiting = 1
			f.next.Wait()
		}
		f.waiting = 0
		f.mu.Unlock()
		return true
	}
}

func (f *FS) answer(b []byte) {
	le := binary.LittleEndian
	op, unique, node, body := le.Uint32(b[4:]), le.Uint64(b[8:]), le.Uint64(b[16:]), b[headerSize:]
	reply := func(errno unix.Errno, data []byte) {
		out := le.AppendUint32(nil, uint32(16+len(data)))
		out = le.AppendUint32(out, uint32(-int32(errno)))
		out = le.AppendUint64(out, unique)
		_, _ = unix.Write(f.fd, append(out, data...)) // ignore an error: the process that asked may have been killed
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch op {
	case opInit:
		out := le.AppendUint32(nil, 7)
		out = le.AppendUint32(out, 31)
		out = le.AppendUint32(out, 0) // max_readahead: no reading ahead
		out = le.AppendUint32(out, 0)
		out = append(out, 16, 0, 12, 0) // max_background, congestion_threshold
		out = le.AppendUint32(out, maxWrite)
		reply(0, append(out, make([]byte, 64-len(out))...))
		close(f.ready)
	case opLookup:
		if id, ok := f.nodes[cString(body)]; ok {
			reply(0, f.entry(id))
		} else {
			reply(unix.ENOENT, nil)
		}
	case opCreate:
		id := f.create(cString(body[16:]))
		f.sizes[id] = 0
		reply(0, append(f.entry(id), opened(directIO)...))
	case opOpen:
		reply(0, opened(0))
	case opUnlink:
		delete(f.nodes, cString(body))
		reply(0, nil)
	case opRename, opRename2:
		names := body[8:] // names come after the number of the folder's node
		if op == opRename2 {
			names = body[16:]
		}
		from := cString(names)
		f.nodes[cString(names[len(from)+1:])] = f.nodes[from]
		delete(f.nodes, from)
		reply(0, nil)
	case opReaddir:
		reply(0, f.names(le.Uint64(body[8:])))
	case opGetattr, opSetattr:
		reply(0, append(make([]byte, 16), f.attr(node)...))
	case opRead:
		reply(0, make([]byte, le.Uint32(body[16:])))
	case opWrite:
		size := le.Uint32(body[16:])
		f.written += uint64(size)
		f.sizes[node] = max(f.sizes[node], le.Uint64(body[8:])+uint64(size))
		reply(0, le.AppendUint64(nil, uint64(size)))
	case opForget, opBatchForget, opInterrupt: // these requests get no answer
	case opRelease, opFlush, opFsync:
		reply(0, nil)
	default:
		reply(unix.ENOSYS, nil)
	}
}

// names returns the files of the folder in the form that the kernel needs (struct fuse_dirent), beginning at an index
// (from). It returns as many as fit into a reply of 4096 bytes.
func (f *FS) names(from uint64) []byte {
	le := binary.LittleEndian
	var out []byte
	for i, name := range slices.Sorted(maps.Keys(f.nodes)) {
		if uint64(i) < from {
			continue
		}
		if len(out)+24+len(name)+8 > 4096 {
			break
		}
		out = le.AppendUint64(le.AppendUint64(out, f.nodes[name]), uint64(i+1))
		out = append(le.AppendUint32(le.AppendUint32(out, uint32(len(name))), unix.DT_REG), name...)
		out = append(out, make([]byte, -len(out)&7)...)
	}
	return out
}

// opened returns a struct fuse_open_out.
func opened(flags uint32) []byte {
	return binary.LittleEndian.AppendUint64(make([]byte, 8), uint64(flags))
}

// entry returns a struct fuse_entry_out.
func (f *FS) entry(id uint64) []byte {
	return append(append(binary.LittleEndian.AppendUint64(nil, id), make([]byte, 32)...), f.attr(id)...)
}

// attr returns a struct fuse_attr.
func (f *FS) attr(id uint64) []byte {
	le := binary.LittleEndian
	mode, size := uint32(unix.S_IFREG|0o644), f.sizes[id]
	if id == rootNode {
		mode = unix.S_IFDIR | 0o755
	}
	out := le.AppendUint64(le.AppendUint64(le.AppendUint64(nil, id), size), size/512)
	out = append(out, make([]byte, 3*8+3*4)...)
	out = le.AppendUint32(le.AppendUint32(out, mode), 1)
	out = append(out, make([]byte, 3*4)...)
	return append(le.AppendUint32(out, 4096), make([]byte, 4)...)
}

func cString(b []byte) string {
	name, _, _ := bytes.Cut(b, []byte{0})
	return string(name)
}
