package heaps

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/ddtop/ddtop/export"
	"github.com/ddtop/ddtop/internal/cli/flags"
	"github.com/ddtop/ddtop/internal/cli/run"
	"github.com/ddtop/ddtop/internal/safefile"
	"github.com/ddtop/ddtop/sampler"
	"github.com/ddtop/ddtop/sampler/heapgraph"
)

const (
	dumpEnd, packedEnd = ".json", ".json.zst"
	// maxHeapFile limits the size of a heap file, and maxHeapWindow the memory for decompressing it, both in bytes.
	maxHeapFile, maxHeapWindow = 1 << 36, 128 << 20
)

// AreFiles reports whether all words are names of heap files, which end in .json or .json.zst.
func AreFiles(words []string) bool {
	return len(words) > 0 && !slices.ContainsFunc(words, func(w string) bool { return !strings.HasSuffix(w, dumpEnd) && !strings.HasSuffix(w, packedEnd) })
}

// Read runs `ddtop heap` on one file, or compares two files.
func (f *Flags) Read(ctx context.Context, files []string, asJSON bool, std run.Streams) error {
	switch {
	case len(files) > 2:
		return flags.Usagef("ddtop heap compares two files, not %d", len(files))
	case len(files) == 2 && f.Asked():
		return flags.Usagef("--holders and --biggest take one file")
	}
	var graphs []*heapgraph.Graph
	for _, name := range files {
		g, err := f.readFile(name)
		if err != nil {
			return err
		}
		graphs = append(graphs, g)
	}
	var result interface {
		WriteText(w io.Writer) error
		WriteJSON(w io.Writer) error
	}
	switch {
	case len(files) == 2:
		result = export.NewHeapDiff(files[0], files[1], graphs[0], graphs[1])
	case f.Asked():
		h := export.NewHeapGraphOfFile(files[0], graphs[0])
		if err := f.Answer(h, graphs[0]); err != nil {
			return fmt.Errorf("%s: %w", files[0], err)
		}
		result = h
	default:
		result = export.NewHeapOfFile(files[0], graphs[0])
	}
	if asJSON {
		return result.WriteJSON(std.Results(ctx))
	}
	return result.WriteText(std.Results(ctx))
}

func (f *Flags) readFile(name string) (*heapgraph.Graph, error) {
	file, err := safefile.Open(name, maxHeapFile)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var in io.Reader = io.NewSectionReader(file, 0, file.Info().Size())
	if strings.HasSuffix(name, packedEnd) {
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxHeapWindow))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		defer z.Close()
		in = z
	}
	return export.ReadHeapDump(in, name, sampler.HolderOptions{MaxObjects: f.MaxObjects, MaxBytes: uint64(f.MaxMemory)})
}

// IsProfile reports whether an output file is a pprof profile, by the ending of its name.
func IsProfile(out run.Output) bool {
	return strings.HasSuffix(string(out), ".pb.gz") || strings.HasSuffix(string(out), ".pprof")
}

// CheckOut refuses the name of an output file if its ending belongs to no format that ddtop writes.
func CheckOut(out run.Output, std run.Streams) error {
	switch name := string(out); {
	case IsProfile(out):
		return out.Check("ddtop heap", true, std)
	case name == "-" || strings.HasSuffix(name, dumpEnd) || strings.HasSuffix(name, packedEnd):
		return out.Check("ddtop heap", strings.HasSuffix(name, packedEnd), std)
	}
	return flags.Usagef("the end of %s stands for no format: take %s, %s or .pb.gz", out, dumpEnd, packedEnd)
}

// Write writes all objects of the heap into a file.
func Write(ctx context.Context, out run.Output, g *heapgraph.Graph, std run.Streams) error {
	return out.Write(ctx, std, func(w io.Writer) error {
		if !strings.HasSuffix(string(out), packedEnd) {
			return export.WriteHeapDump(w, g)
		}
		z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
		if err != nil {
			return err
		}
		if err := export.WriteHeapDump(z, g); err != nil {
			return err
		}
		return z.Close()
	})
}
