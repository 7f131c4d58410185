/* SPDX-License-Identifier: MIT */
/* Stacks and switches (10_coroutines/stack.c), waiting and turns
   (coroutine.c). */
#include "harness.h"

#include "../../10_coroutines/coroutine.h"
#include "../../10_coroutines/limits.h"
#include "../../10_coroutines/stack.h"
#include "app/response.h"
#include "process/clock.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Stacks ---- */

enum { STACKS = 3, TURNS = 100, SIZE = 256 * 1024 };

static struct stack main_stack, stacks[STACKS];
static int turn_of, sums[STACKS];
static bool aligned[STACKS];

/* The compiler may keep these values in registers across a call, on some
   processors also in floating-point registers. */
static void count(void) {
    int self = turn_of, sum = 0;
    double halves = self, quarters = self, eighths = self;
    _Alignas(16) char here[16];

    aligned[self] = (uintptr_t)here % 16 == 0;
    for (int i = 0; i < TURNS; i++) {
        sum += self + 1;
        halves += 0.5;
        quarters += 0.25;
        eighths += 0.125;
        stack_switch(&stacks[self], &main_stack, i == TURNS - 1);
        if (halves != self + 0.5 * (i + 1) ||
            quarters != self + 0.25 * (i + 1) ||
            eighths != self + 0.125 * (i + 1))
            sum = -1000000;
        sums[self] = sum;
    }
}

TEST(a_function_finds_its_variables_after_a_switch) {
    char *memory[STACKS];
    double own = 0.25;

    main_stack = (struct stack){0};
    for (int i = 0; i < STACKS; i++) {
        memory[i] = malloc(SIZE);
        assert_non_null(memory[i]);
        stack_prepare(&stacks[i], memory[i], SIZE, count);
    }
    for (int turn = 0; turn < TURNS; turn++)
        for (turn_of = 0; turn_of < STACKS; turn_of++) {
            stack_switch(&main_stack, &stacks[turn_of], false);
            own += 1;
        }
    assert_true(own == 0.25 + TURNS * STACKS);
    for (int i = 0; i < STACKS; i++) {
        assert_int_equal(sums[i], (TURNS - 1) * (i + 1));
        assert_true(aligned[i]);
        stack_free(&stacks[i]);
        free(memory[i]);
    }
}

/* ---- Waiting ---- */

enum { MANY = 60 };

static int sockets[2];
static struct cached_time cached_time;
static int order[MANY + 1], ended;
static int64_t begun; /* the start of the current test, in milliseconds */

static void begin(size_t limit) {
    ended = 0;
    begun = clock_milliseconds();
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    coroutines_begin(limit, &cached_time);
}

static void end(void) {
    while (coroutines_alive() > 0)
        coroutines_wait_for_end();
    coroutines_end();
    close(sockets[0]);
    close(sockets[1]);
}

static void start(void (*function)(void *), void *argument) {
    assert_true(coroutine_reserve());
    coroutine_start(function, argument);
}

static void sleep_for(void *argument) {
    int time = *(int *)argument;
    enum woken woken = coroutine_wait(-1, 0, begun + 100 + 4 * time);

    if (woken == WOKEN_TIMEOUT)
        order[ended++] = time;
}

/* If a coroutine has a wrong index in the heap, some coroutines wake late. */
TEST(deadlines_are_kept_in_order) {
    int times[MANY];

    begin(MANY);
    for (int i = 0; i < MANY; i++) {
        times[i] = i * 37 % MANY; /* each number once */
        start(sleep_for, &times[i]);
    }
    assert_int_equal(ended, 0);
    while (coroutines_alive() > 0)
        coroutines_wait_for_end();
    assert_int_equal(ended, MANY);
    for (int i = 1; i < MANY; i++)
        assert_true(order[i - 1] <= order[i]);
    end();
}

static void receive(void *argument) {
    char byte = 0;
    enum woken woken =
        coroutine_wait(sockets[1], EPOLLIN, clock_milliseconds() + 10000);

    if (woken == WOKEN_READY && recv(sockets[1], &byte, 1, MSG_DONTWAIT) == 1)
        *(char *)argument = byte;
}

TEST(a_descriptor_wakes_the_coroutine_that_waits) {
    char got = 0;

    begin(1);
    start(receive, &got);
    assert_int_equal(coroutine_wait(-1, 0, clock_milliseconds() + 30),
                     WOKEN_TIMEOUT);
    assert_int_equal(got, 0);
    assert_int_equal(send(sockets[0], "x", 1, 0), 1);
    coroutines_wait_for_end();
    assert_int_equal(got, 'x');
    end();
}

static void receive_all(void) {
    char bytes[2];

    assert_int_equal(recv(sockets[1], bytes, sizeof bytes, MSG_DONTWAIT), 1);
    coroutine_received_all(sockets[1]);
}

/* The end of a stream that arrived with the last bytes is still received. */
TEST(an_empty_socket_is_known) {
    begin(1);
    assert_int_equal(send(sockets[0], "x", 1, 0), 1);
    assert_int_equal(
        coroutine_wait(sockets[1], EPOLLIN, clock_milliseconds() + 10000),
        WOKEN_READY);
    receive_all();
    assert_false(coroutine_may_receive(sockets[1]));
    assert_int_equal(send(sockets[0], "y", 1, 0), 1);
    shutdown(sockets[0], SHUT_WR);
    (void)coroutine_wait(-1, 0, clock_milliseconds() + 1);
    assert_true(coroutine_may_receive(sockets[1]));
    receive_all();
    assert_true(coroutine_may_receive(sockets[1]));
    end();
}

static struct coroutine *sleepers[2];

/* Waits twice, and records its number each time that it is resumed. */
static void wait_twice(void *argument) {
    int number = *(int *)argument;

    sleepers[number] = coroutine_current();
    for (int i = 0; i < 2; i++)
        if (coroutine_wait(-1, 0, clock_milliseconds() + 10000) == WOKEN_READY)
            order[ended++] = number;
}

TEST(waits_are_ended_by_others) {
    int numbers[] = {0, 1};

    begin(2);
    start(wait_twice, &numbers[0]);
    start(wait_twice, &numbers[1]);
    coroutine_resume(sleepers[1]);
    assert_int_equal(ended, 1);
    coroutine_resume(sleepers[0]);
    coroutine_resume(sleepers[0]);
    coroutine_resume(sleepers[1]);
    end();
    assert_int_equal(ended, 4);
    assert_memory_equal(order, ((int[]){1, 0, 0, 1}), 4 * sizeof order[0]);
}

static int64_t resume_first(void) {
    if (ended == 0)
        coroutine_resume(sleepers[0]);
    return clock_milliseconds() + 1;
}

/* The loop calls the service before each sleep.  The service returns the time
   when the sleep must end. */
TEST(a_service_resumes_others) {
    int number = 0;

    begin(1);
    start(wait_twice, &number);
    coroutines_set_service(resume_first);
    (void)coroutine_wait(-1, 0, clock_milliseconds() + 1);
    assert_int_equal(ended, 1);
    coroutine_resume(sleepers[0]);
    end();
    assert_true(clock_milliseconds() < begun + 10000);
}

static void go_on(void *argument) {
    for (int i = 0; i < 10; i++)
        coroutine_yield_after(3);
    *(bool *)argument = true;
}

TEST(a_coroutine_that_never_waits_shares_its_turn) {
    bool first = false, second = false;

    begin(2);
    start(go_on, &first);
    assert_false(first);
    start(go_on, &second);
    end();
    assert_true(first && second);
}

/* ---- The end of a stack ---- */

/* Larger than the frame of any function of the server: even this frame must not
   reach across the guard. */
enum { FRAME = 20 * 1024 };

static volatile int *depth; /* the depth that was reached, also by a child */

/* Uses only the lower end of the frame.  The next call receives the frame's
   address, so the compiler cannot replace the recursion by a loop. */
__attribute__((noinline)) static int descend(int level,
                                             const volatile char *above) {
    volatile char frame[FRAME];

    *depth = level;
    frame[0] = (char)(*above + 1);
    return level < 1000 ? descend(level + 1, frame) + frame[0] : 0;
}

static void overflow(void *argument) {
    (void)coroutine_wait(-1, 0, begun + 50); /* until the others have stacks */
    *(int *)argument = descend(1, "");
}

/* A child process overflows the stack, because SIGSEGV ends the process. */
TEST(a_stack_that_overflows_ends_the_program) {
    int status, result = 0;

    depth = mmap(NULL, sizeof *depth, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(depth, MAP_FAILED);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        begin(9);
        start(overflow, &result);
        for (int i = 0; i < 4; i++)
            start(sleep_for, &result); /* the kernel maps their stacks below */
        end();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    assert_in_range(*depth, 2, COROUTINE_STACK / FRAME + 1);
}
