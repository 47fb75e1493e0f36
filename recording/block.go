package recording

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

const (
	fileMagic  = "ddtoprec"
	fileHeader = 16

	blockMagic  = "ddtb"
	blockHeader = 48
)

// The kinds of blocks.
const (
	kindProcess = 1
	kindSamples = 2
	kindEnd     = 3
	kindNote    = 4
)

// The flags of blocks.
const (
	flagCompressed = 1 << 0
	flagGlobalIDs  = 1 << 1
)

// header is a block's header.
type header struct {
	kind, flags     uint8
	stored, raw     uint32
	firstNS, lastNS int64
	samples         uint32
	crc             uint32
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendBlock appends a block with its header and checksum to b.
func appendBlock(b []byte, h header, data []byte) []byte {
	start := len(b)
	b = append(b, blockMagic...)
	b = append(b, h.kind, h.flags, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(data)))
	b = binary.LittleEndian.AppendUint32(b, h.raw)
	b = binary.LittleEndian.AppendUint64(b, uint64(h.firstNS))
	b = binary.LittleEndian.AppendUint64(b, uint64(h.lastNS))
	b = binary.LittleEndian.AppendUint32(b, h.samples)
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0)
	crc := crc32.Update(crc32.Checksum(b[start:], castagnoli), castagnoli, data)
	b = binary.LittleEndian.AppendUint32(b, crc)
	return append(b, data...)
}

// parseHeader reads a block's header. ok is false if b cannot be a header.
func parseHeader(b []byte) (h header, ok bool) {
	if len(b) < blockHeader || string(b[:4]) != blockMagic {
		return h, false
	}
	h = header{
		kind:    b[4],
		flags:   b[5],
		stored:  binary.LittleEndian.Uint32(b[8:]),
		raw:     binary.LittleEndian.Uint32(b[12:]),
		firstNS: int64(binary.LittleEndian.Uint64(b[16:])),
		lastNS:  int64(binary.LittleEndian.Uint64(b[24:])),
		samples: binary.LittleEndian.Uint32(b[32:]),
		crc:     binary.LittleEndian.Uint32(b[44:]),
	}
	return h, h.stored <= maxBlockData && h.raw <= maxBlockData
}

// checksum returns the value of the field crc in a block's header. b is the header, and data is the block's data as
// stored.
func checksum(b, data []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:blockHeader-4], castagnoli), castagnoli, data)
}

func appendFileHeader(b []byte) []byte {
	b = append(b, fileMagic...)
	b = binary.LittleEndian.AppendUint32(b, Version)
	return append(b, 0, 0, 0, 0)
}

// checkFileHeader returns the version of a recording. It returns an error if the file is no recording, or has an
// unknown version.
func checkFileHeader(b []byte, name string) (version uint32, err error) {
	if len(b) < fileHeader || string(b[:len(fileMagic)]) != fileMagic {
		return 0, fmt.Errorf("%s: %w", name, errNotRecording)
	}
	v := binary.LittleEndian.Uint32(b[len(fileMagic):])
	if v < 1 || v > Version {
		return 0, fmt.Errorf("%s: %w: its format has version %d, this one reads up to %d", name, errVersion, v, Version)
	}
	return v, nil
}
