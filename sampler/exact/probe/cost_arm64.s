#include "textflag.h"

// func probed()
//
// It begins with an instruction that the kernel simulates, as those do that are probed in a target: b, to the next one.
TEXT ·probed(SB), NOSPLIT|NOFRAME, $0-0
	WORD $0x14000001
	RET

// func addressOfProbed() uintptr
TEXT ·addressOfProbed(SB), NOSPLIT|NOFRAME, $0-8
	MOVD $·probed(SB), R0
	MOVD R0, ret+0(FP)
	RET
