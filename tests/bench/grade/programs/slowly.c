/* SPDX-License-Identifier: MIT */
/* Prints 100 MB and does not end. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(void) {
    static char lines[1 << 20];
    memset(lines, '\n', sizeof lines);
    for (int i = 0; i < 100; i++)
        if (write(STDOUT_FILENO, lines, sizeof lines) < 0)
            return 1;
    pause();
}
