package code

import (
	"bytes"
	"unsafe"

	"github.com/ddtop/ddtop/attach"
	"github.com/ddtop/ddtop/sampler/ruby/internal/view"
)

const (
	// maxKeptFrames limits how many frames one Kept has. A Kept has the results of a stack's last Decode. For a deeper
	// stack, only the outer frames are kept.
	maxKeptFrames = 1024
	// maxKeptEnvs limits how many environments are kept with the frames of one stack. Most frames need one environment.
	maxKeptEnvs = 4 * maxKeptFrames
)

// Kept is what the last Decode of a stack found out about its outer frames. Decode uses the result for a frame again if
// three conditions are met. The frame and all frames outward of it have the same bytes in the same place. The
// environments that name their methods are unchanged. The Proof is valid. Equal bytes alone are not enough: if two C
// functions are called at one place with one receiver, their frames are equal.
//
// The innermost frame is not kept, because its meaning depends on whether its thread runs. The zero value keeps
// nothing.
type Kept struct {
	ec, end attach.Address
	proof   Proof
	losses  lossNumber
	frames  []byte      // the control frames, outermost first, without the dummy at the bottom
	decoded []keptFrame // the results of Decode for frames, in the same order
	envs    []envPlace  // the environments on the VM stack that the frames need, in the order of the frames
}

// keptFrame is a control frame as classify found it. Its outerFrames describe it and the frames outward of it.
type keptFrame struct {
	outerFrames
	work frameWork
	// envs is how many elements of Kept.envs this frame and the frames outward of it need.
	envs int32
}

// lossNumber counts how often the cache dropped something. A Kept may refer to a dropped entry, so it is valid only
// while the number is unchanged.
type lossNumber uint32

// outer returns the outerFrames of the n outermost frames.
func (k *Kept) outer(n int) outerFrames {
	if n == 0 {
		return outerFrames{old: true, final: true}
	}
	return k.decoded[n-1].outerFrames
}

func (k *Kept) envsOf(frame int) []envPlace {
	from := int32(0)
	if frame > 0 {
		from = k.decoded[frame-1].envs
	}
	return k.envs[from:k.decoded[frame].envs]
}

// Bytes returns how much memory the Kept takes, in bytes.
func (k *Kept) Bytes() int {
	return cap(k.frames) + cap(k.decoded)*int(unsafe.Sizeof(keptFrame{})) + cap(k.envs)*int(unsafe.Sizeof(envPlace{}))
}

// reuse compares a stack with the kept results of its last Decode, from the outermost frame inward. found is the number
// of frames whose result of classify is still valid. meant is the number of frames for which it is also certain whether
// a backtrace shows them.
func (d *Decoder) reuse(raw *Stack) (found, meant int) {
	k := raw.Kept
	if k == nil || raw.Cut > 0 || k.ec != raw.EC || k.end != raw.End || k.losses != d.losses || !d.Holds(k.proof) {
		return 0, 0
	}
	fs := d.o.FrameSize
	n := min(len(k.decoded), len(raw.Frames)/fs-2) // without the dummy frame and the innermost frame
	for found < n {
		at := len(raw.Frames) - (found+2)*fs
		if !bytes.Equal(raw.Frames[at:at+fs], k.frames[found*fs:(found+1)*fs]) || !raw.sameEnvs(k.envsOf(found)) {
			break
		}
		found++
	}
	return found, d.meant(k, found)
}

// meant returns for how many of the found outermost frames it is certain whether a backtrace shows them. Frames further
// inward can decide whether a frame is shown. Until they are known, this is uncertain.
func (d *Decoder) meant(k *Kept, found int) int {
	if !d.rules.rescueHidesCaller {
		return found
	}
	// If the next frame inward is a rescue, a backtrace leaves out the innermost frame with code. So neither this frame
	// nor the frames inward of it are certain.
	for found > 0 {
		found--
		if k.decoded[found].work.code != nil {
			break
		}
	}
	return found
}

// sameEnvs reports whether the given environments, which are on the VM stack, still have the same content.
func (raw *Stack) sameEnvs(envs []envPlace) bool {
	for i := range envs {
		e := &envs[i]
		at := uint64(e.ep - envBelow - raw.ValuesAt)
		if at > uint64(len(raw.Values)) || len(raw.Values)-int(at) < envSize {
			return false
		}
		if b := raw.Values[at : at+envSize]; view.U64(b) != e.me || view.U64(b[8:]) != e.specval || view.U64(b[16:]) != e.flags {
			return false
		}
	}
	return true
}

// keepFrames keeps the results of this Decode for the outer frames of a stack. The reused outermost frames are already
// kept. losses is the value of d.losses before this Decode.
func (d *Decoder) keepFrames(raw *Stack, reused int, losses lossNumber) {
	k, fs := raw.Kept, d.o.FrameSize
	if k == nil {
		return
	}
	k.ec, k.end, k.proof, k.losses = raw.EC, raw.End, d.info.Proof, losses
	k.decoded = k.decoded[:reused]
	k.frames, k.envs = k.frames[:reused*fs], k.envs[:k.outerEnvs()]
	if raw.Cut > 0 || d.target.ZJITFrames { // the bytes of ZJIT's frames do not show which code they run
		return
	}
	for i := len(d.work) - 1; i >= 1; i-- {
		w := &d.work[i]
		if d.made[i].unnamed || w.failed || w.fleeting || len(k.decoded) >= maxKeptFrames ||
			len(k.envs)+int(w.envsTo-w.envs) > maxKeptEnvs {
			break
		}
		k.frames = append(k.frames, raw.Frames[i*fs:(i+1)*fs]...)
		k.envs = append(k.envs, d.seen[w.envs:w.envsTo]...)
		k.decoded = append(k.decoded, keptFrame{d.made[i], *w, int32(len(k.envs))})
	}
}

func (k *Kept) outerEnvs() int {
	if n := len(k.decoded); n > 0 {
		return int(k.decoded[n-1].envs)
	}
	return 0
}
