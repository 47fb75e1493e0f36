// Package sampler is ddtop's vocabulary: the Sample, the Dictionary that its IDs point into, and the Source that
// produces samples. It imports only sampler/intern of ddtop. A live process, a core file and a recording produce the
// same stream, and its consumers need not know which one produced it.
//
// A Sample carries evidence, never verdicts: what was read from the target's memory and from the kernel. Package gvl
// turns evidence into states, so a better rule improves old recordings.
package sampler
