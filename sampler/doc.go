// Package sampler has the types that all of ddtop shares: the Sample, the Dictionary that its IDs point into, and the
// Source that produces samples. Of ddtop's packages it imports only sampler/intern. A live process, a core file and a
// recording produce the same stream, and its consumers need not know which one produced it.
//
// A Sample carries evidence and no conclusions: what was read from the target's memory and from the kernel. Package
// gvl turns evidence into states, so a better rule also improves old recordings.
package sampler
