/* SPDX-License-Identifier: MIT */
/*
 * A second stack, and the switch from one stack to another: all that a
 * coroutine needs from the processor.
 *
 * A function that is suspended in the middle has its local variables and its
 * return addresses on the stack, and some values in registers.  If the
 * registers are saved on the stack and the stack pointer is set to another
 * stack, the processor continues there.  After the switch back the function
 * continues, as after any call.
 *
 * The compiler expects that a called function preserves only some registers
 * (callee-saved registers).  So only these are saved: 6 on x86-64, 20 on
 * AArch64.  The control words for floating-point numbers are not saved, because
 * this program never changes them.
 *
 *     x86-64, AArch64             15 instructions, or 24 on AArch64
 *     others, -DPORTABLE_SWITCH   swapcontext(3), which also makes a system
 *                                 call each time, to set the blocked signals
 *
 * Only one thread may use these functions.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#if !defined __x86_64__ && !defined __aarch64__ && !defined PORTABLE_SWITCH
#define PORTABLE_SWITCH
#endif
#ifdef PORTABLE_SWITCH
#include <ucontext.h>
#endif

struct stack {
    char *bottom; /* the lowest address; the stack grows down to it */
    size_t size;
    void (*function)(void); /* the function that runs on it */
#ifdef PORTABLE_SWITCH
    ucontext_t context;
#else
    void *pointer; /* the stack pointer, while another stack is in use */
#endif
#ifdef SANITIZED
    void *fiber;       /* the sanitizer's data about this stack */
    bool left_forever; /* it will not run again */
#endif
};

/* Prepares a new stack of `size` bytes at `bottom`.  The first switch to it
   calls the function, which must never return.  The stack of the main program
   needs no preparation: pass a structure that is all zero; the first switch
   away from this stack fills it in. */
void stack_prepare(struct stack *stack, char *bottom, size_t size,
                   void (*function)(void));

/* Suspends the stack `from` and continues where `to` was suspended.  Returns
   when another call switches back to `from`; if `last` is true, it never
   returns. */
void stack_switch(struct stack *from, struct stack *to, bool last);

/* Call it after the last switch away from the stack, before its memory is
   unmapped or prepared again. */
void stack_free(struct stack *stack);
