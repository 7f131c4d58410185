/* SPDX-License-Identifier: MIT */
/* Limits of memory: ops/memory.c, and ops/budget.c. */
#include "harness.h"

#include "../../ops/start.h"
#include "ops.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

static char root[] = "/tmp/memory-XXXXXX";

/* Writes the text into a file below the root, and makes its folders. */
static void put(const char *name, const char *text) {
    char path[512];

    snprintf(path, sizeof path, "%s%s", root, name);
    for (char *c = path + sizeof root; *c != '\0'; c++)
        if (*c == '/') {
            *c = '\0';
            mkdir(path, 0700);
            *c = '/';
        }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

TEST(the_least_limit_holds) {
    char command[64];

    assert_non_null(mkdtemp(root));
    uint64_t machine = memory_granted(root); /* no files: no limit */
    assert_true(machine > 0);

    put("/proc/self/cgroup", "4:cpu,memory:/a/b\n0::/x/y\n");
    put("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes",
        "9223372036854771712\n"); /* version 1: unlimited */
    put("/sys/fs/cgroup/x/y/memory.max", "max\n");
    assert_int_equal(memory_granted(root), machine);

    put("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9000000\n");
    assert_int_equal(memory_granted(root), 9000000);
    put("/sys/fs/cgroup/x/memory.high", "8000000\n");
    assert_int_equal(memory_granted(root), 8000000);
    put("/sys/fs/cgroup/x/y/memory.max", "7000000\n");
    assert_int_equal(memory_granted(root), 7000000);
    /* A container may show only the top control group. */
    put("/proc/self/cgroup", "4:memory:/not/here\nnonsense\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "6000000\n");
    assert_int_equal(memory_granted(root), 6000000);

    snprintf(command, sizeof command, "rm -r %s", root);
    assert_int_equal(system(command), 0);
}

/* In a server each child calls budget_set_slot() once; this process acts as all
   of them. */
static bool take(size_t slot, size_t bytes) {
    budget_set_slot(slot);
    return budget_change(0, bytes);
}

TEST(processes_share_one_budget) {
    static _Atomic size_t taken[3];

    assert_true(budget_change(0, SIZE_MAX)); /* no limit yet */
    budget_init(100, 100, taken, 3);
    assert_true(take(0, 60));
    assert_false(take(2, 41));
    assert_true(take(2, 40));
    assert_false(take(0, 1));
    assert_true(budget_change(10, 0));
    assert_true(take(0, 10));
    budget_reset(2); /* the process with slot 2 was killed */
    assert_true(take(0, 40));
    assert_int_equal(taken[0], 100);
    assert_true(budget_change(100, 0));
    budget_init(100, 50, taken, 3); /* ulimit -d limits each process */
    assert_false(take(0, 51));
    assert_true(take(0, 50));
    assert_true(take(2, 50));
}
