// Package sampler has the types that all of ddtop shares. A Sample is one reading of a process. A Dictionary has the
// entries to which the IDs in a Sample refer. A Source produces samples. A live process, a core file and a recording
// produce the same kind of samples. So the code that uses samples need not know their source. Of ddtop's packages,
// sampler imports only sampler/intern.
//
// A Sample has only what was read from the target's memory and from the kernel. It has no conclusions. Package gvl
// derives the states of threads from it. So a better rule in gvl also improves the results for old recordings.
package sampler
