package kernel

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/ddtop/ddtop/internal/sorting"
	"github.com/ddtop/ddtop/sampler"
)

// These are offsets of the length and the limit of an accept queue in the kernel's answers. For TCP, the fields are
// idiag_rqueue and idiag_wqueue (linux/inet_diag.h). For unix sockets, both are in UNIX_DIAG_RQLEN (linux/unix_diag.h).
const (
	inetQueuedAt, inetLimitAt                = 56, 60
	unixShowQueue, unixAttributeQueue        = 0x10, 4
	unixQueueSize                            = 8
	statesListening                   uint32 = 1 << stateListens
)

// inetFamilies are the families of TCP sockets.
var inetFamilies = [...]byte{unix.AF_INET, unix.AF_INET6}

// listeningAmong returns those sockets that listen, out of the sockets with the given inodes.
func (d *sockDiag) listeningAmong(inodes map[uint64]struct{}) (map[uint64]*listening, error) {
	found := make(map[uint64]*listening)
	if len(inodes) == 0 {
		return found, nil
	}
	for _, family := range inetFamilies {
		if err := d.tcpQueues(family, func(inode uint64, l sampler.Listener) {
			if _, ok := inodes[inode]; ok {
				found[inode] = &listening{Listener: l}
			}
		}); err != nil {
			return nil, err
		}
	}
	request := unixRequest(statesListening, unixShowName)
	err := d.ask(request, true, func(answer []byte) {
		if len(answer) < unixAnswerSize {
			return
		}
		inode := uint64(binary.NativeEndian.Uint32(answer[unixInodeAnswerAt:]))
		if _, ok := inodes[inode]; !ok {
			return
		}
		if peer, ok := unixAnswer(answer, inode); ok && peer.Kind == sampler.PeerListener {
			found[inode] = &listening{Listener: sampler.Listener{Inode: inode, Address: peer.Local}, unix: true}
		}
	})
	// A kernel without unix_diag answers ENOENT. This is no error: ddtop then finds no unix sockets.
	if err != nil && !errors.Is(err, errNoSuchSocket) {
		return nil, err
	}
	return found, nil
}

// queues returns the accept queues of the wanted sockets, sorted by address. It leaves out sockets that are closed.
func (d *sockDiag) queues(wanted map[uint64]*listening) ([]sampler.Listener, error) {
	var list []sampler.Listener
	tcp := false
	for inode, l := range wanted {
		if !l.unix {
			tcp = true
			continue
		}
		request := unixRequest(statesListening, unixShowQueue)
		binary.NativeEndian.PutUint32(request[unixInodeAt:], uint32(inode))
		err := d.ask(request, false, func(answer []byte) {
			if queued, limit, ok := unixQueue(answer, inode); ok {
				l.Queued, l.Limit = queued, limit
				list = append(list, l.Listener)
			}
		})
		if err != nil && !errors.Is(err, errNoSuchSocket) {
			return nil, err
		}
	}
	if tcp {
		for _, family := range inetFamilies {
			if err := d.tcpQueues(family, func(inode uint64, l sampler.Listener) {
				if wanted[inode] != nil {
					list = append(list, l)
				}
			}); err != nil {
				return nil, err
			}
		}
	}
	sorting.By(list, sampler.Listener.Compare)
	return list, nil
}

// tcpQueues calls take for each listening TCP socket of an address family (IPv4 or IPv6).
func (d *sockDiag) tcpQueues(family byte, take func(inode uint64, l sampler.Listener)) error {
	request := inetRequest(family, unix.IPPROTO_TCP)
	binary.NativeEndian.PutUint32(request[4:], statesListening)
	err := d.ask(request, true, func(answer []byte) {
		if len(answer) < inetAnswerSize || answer[inetStateAt] != stateListens {
			return
		}
		inode := uint64(binary.NativeEndian.Uint32(answer[inetInodeAt:]))
		take(inode, sampler.Listener{Inode: inode, Address: inetAnswer(answer, sampler.PeerTCP).Local,
			Queued: int64(binary.NativeEndian.Uint32(answer[inetQueuedAt:])),
			Limit:  int64(binary.NativeEndian.Uint32(answer[inetLimitAt:]))})
	})
	if errors.Is(err, errNoSuchSocket) { // a kernel without IPv6
		return nil
	}
	return err
}

func unixRequest(states, show uint32) []byte {
	request := make([]byte, unixRequestSize)
	request[0] = unix.AF_UNIX
	binary.NativeEndian.PutUint32(request[4:], states)
	binary.NativeEndian.PutUint32(request[unixShowAt:], show)
	binary.NativeEndian.PutUint64(request[unixCookieAt:], ^uint64(0))
	return request
}

// unixQueue reads the accept queue of a listening unix socket.
func unixQueue(answer []byte, inode uint64) (queued, limit int64, ok bool) {
	if len(answer) < unixAnswerSize || answer[unixStateAnswerAt] != stateListens ||
		uint64(binary.NativeEndian.Uint32(answer[unixInodeAnswerAt:])) != inode {
		return 0, 0, false
	}
	unixAttributes(answer, func(kind uint16, value []byte) {
		if kind == unixAttributeQueue && len(value) >= unixQueueSize {
			queued, limit = int64(binary.NativeEndian.Uint32(value)), int64(binary.NativeEndian.Uint32(value[4:]))
			ok = true
		}
	})
	return queued, limit, ok
}
