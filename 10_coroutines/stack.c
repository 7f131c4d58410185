/* SPDX-License-Identifier: MIT */
#include "stack.h"

#include <stdint.h>
#include <stdlib.h>

/* The stack that was switched to last: begin() calls its function. */
static struct stack *destination;

/* ---- Reports to the sanitizers: the stack that is in use ---- */

#ifdef SANITIZED
#include <sanitizer/asan_interface.h>
#include <sanitizer/tsan_interface.h>

#if defined __has_feature
#define HAS(feature) __has_feature(feature)
#else
#define HAS(feature) 0
#endif
#if defined __SANITIZE_ADDRESS__ || HAS(address_sanitizer)
#define ADDRESS_SANITIZER
#elif defined __SANITIZE_THREAD__ || HAS(thread_sanitizer)
#define THREAD_SANITIZER
#endif
#endif

#ifdef ADDRESS_SANITIZER
static struct stack *origin; /* the stack that the last switch left */

static void before_switch(struct stack *from, struct stack *to) {
    origin = from;
    __sanitizer_start_switch_fiber(from->left_forever ? NULL : &from->fiber,
                                   to->bottom, to->size);
}

/* Only the sanitizer has the main stack's address. */
static void after_switch(const struct stack *stack) {
    const void *bottom;
    size_t size;

    __sanitizer_finish_switch_fiber(stack->fiber, &bottom, &size);
    origin->bottom = (char *)(uintptr_t)bottom;
    origin->size = size;
}

/* Removes the sanitizer's marks around the variables of functions that never
   returned. */
void stack_free(struct stack *stack) {
    __asan_unpoison_memory_region(stack->bottom, stack->size);
}
#elif defined THREAD_SANITIZER
static void before_switch(struct stack *from, struct stack *to) {
    if (from->fiber == NULL)
        from->fiber = __tsan_get_current_fiber();
    if (to->fiber == NULL)
        to->fiber = __tsan_create_fiber(0);
    __tsan_switch_to_fiber(to->fiber, 0);
}

static void after_switch(const struct stack *stack) {
    (void)stack;
}

void stack_free(struct stack *stack) {
    if (stack->fiber != NULL)
        __tsan_destroy_fiber(stack->fiber);
    stack->fiber = NULL;
}
#else
static void before_switch(struct stack *from, struct stack *to) {
    (void)from, (void)to;
}

static void after_switch(const struct stack *stack) {
    (void)stack;
}

void stack_free(struct stack *stack) {
    (void)stack;
}
#endif

/* The first function on each new stack. */
static void begin(void) {
    after_switch(destination);
    destination->function();
    abort();
}

/* ---- The switch ---- */

#if defined PORTABLE_SWITCH

static void prepare(struct stack *stack) {
    getcontext(&stack->context);
    stack->context.uc_stack.ss_sp = stack->bottom;
    stack->context.uc_stack.ss_size = stack->size;
    makecontext(&stack->context, begin, 0);
}

static void switch_stacks(struct stack *from, struct stack *to) {
    swapcontext(&from->context, &to->context);
}

#else

/* Saves the registers on the current stack, and the stack pointer in *from.
   Then sets the stack pointer to `to`, and restores the registers from that
   stack. */
void switch_pointers(void **from, void *to);

#if defined __x86_64__

/* `ret` takes the address of the next instruction from the new stack. */
__asm__(".text\n"
        ".hidden switch_pointers\n"
        ".globl switch_pointers\n"
        ".type switch_pointers, @function\n"
        "switch_pointers:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size switch_pointers, . - switch_pointers\n");

/* A new stack has, from the top: a return address of 0, which ends a debugger's
   list of functions; the address for `ret`; the registers.  At the start of a
   function the stack pointer is 8 bytes below a multiple of 16. */
enum { FRAME = 8, START = 6, RETURN = 7 };

#elif defined __aarch64__

/* `ret` continues at the address in x30. */
__asm__(".text\n"
        ".hidden switch_pointers\n"
        ".globl switch_pointers\n"
        ".type switch_pointers, %function\n"
        "switch_pointers:\n"
        "    stp x29, x30, [sp, #-160]!\n"
        "    stp x19, x20, [sp, #16]\n"
        "    stp x21, x22, [sp, #32]\n"
        "    stp x23, x24, [sp, #48]\n"
        "    stp x25, x26, [sp, #64]\n"
        "    stp x27, x28, [sp, #80]\n"
        "    stp d8, d9, [sp, #96]\n"
        "    stp d10, d11, [sp, #112]\n"
        "    stp d12, d13, [sp, #128]\n"
        "    stp d14, d15, [sp, #144]\n"
        "    mov x9, sp\n"
        "    str x9, [x0]\n"
        "    mov sp, x1\n"
        "    ldp x19, x20, [sp, #16]\n"
        "    ldp x21, x22, [sp, #32]\n"
        "    ldp x23, x24, [sp, #48]\n"
        "    ldp x25, x26, [sp, #64]\n"
        "    ldp x27, x28, [sp, #80]\n"
        "    ldp d8, d9, [sp, #96]\n"
        "    ldp d10, d11, [sp, #112]\n"
        "    ldp d12, d13, [sp, #128]\n"
        "    ldp d14, d15, [sp, #144]\n"
        "    ldp x29, x30, [sp], #160\n"
        "    ret\n"
        ".size switch_pointers, . - switch_pointers\n");

/* The saved x30 is the start address.  The saved x29 is 0, which ends a
   debugger's backtrace. */
enum { FRAME = 20, START = 1, RETURN = 0 };

#endif

/* Prepares the stack as if a switch had left it right before `begin`. */
static void prepare(struct stack *stack) {
    uintptr_t *frame =
        (uintptr_t *)(void *)(stack->bottom + stack->size) - FRAME;

    frame[RETURN] = 0;
    frame[START] = (uintptr_t)begin;
    stack->pointer = frame;
}

static void switch_stacks(struct stack *from, struct stack *to) {
    switch_pointers(&from->pointer, to->pointer);
}

#endif

/* ---- The calls of stack.h ---- */

void stack_prepare(struct stack *stack, char *bottom, size_t size,
                   void (*function)(void)) {
    *stack = (struct stack){
        .bottom = bottom, .size = size & ~(size_t)15, .function = function};
    prepare(stack);
}

void stack_switch(struct stack *from, struct stack *to, bool last) {
#ifdef SANITIZED
    from->left_forever = last;
#else
    (void)last;
#endif
    destination = to;
    before_switch(from, to);
    switch_stacks(from, to);
    after_switch(from);
}
