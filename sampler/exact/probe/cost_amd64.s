#include "textflag.h"

// func probed()
//
// It begins with an instruction that the kernel emulates, as those do that are probed in a target.
TEXT ·probed(SB), NOSPLIT, $0-0
	PUSHQ AX
	POPQ AX
	RET

// func addressOfProbed() uintptr
TEXT ·addressOfProbed(SB), NOSPLIT, $0-8
	LEAQ ·probed(SB), AX
	MOVQ AX, ret+0(FP)
	RET
