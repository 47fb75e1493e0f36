// Package sampler has the types that all of ddtop shares: the Sample, the Dictionary that its IDs point into, and the
// Source that produces samples. Of ddtop's packages it imports only sampler/intern. A live process, a core file and a
// recording produce the same kind of samples. The code that uses them need not know which one produced them.
//
// A Sample has no conclusions. It has only what was read from the target's memory and from the kernel. Package gvl
// concludes the states of threads from it, so a better rule also improves old recordings.
package sampler
