// Package sampler is ddtop's vocabulary: the Sample, the Dictionary that its IDs point into, and the Source that
// produces samples. It holds types only and imports nothing of ddtop, so that a live process, a core file and a
// recording produce the same stream and the screen, the exports and the reports consume it without knowing which.
//
// A Sample carries evidence, never verdicts: what was read from the target's memory and from the kernel. Package gvl
// turns evidence into states, so a better rule improves old recordings.
package sampler
