/* SPDX-License-Identifier: MIT */
/* Tries to do harm to the grader's user, who listens at PORT and owns MINE. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

extern char **environ;

int main(void) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    int variables = 0, children = 0;

    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    int net = connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&to,
                      sizeof to);
    FILE *file = fopen(MINE, "a");
    FILE *other = fopen(MINE, "r");
    FILE *new = fopen(MINE ".new", "w");
    FILE *seed = fopen("/proc/1/cmdline", "r");
    while (environ[variables] != NULL)
        variables++;
    for (int i = 0; i < 3000; i++) {
        pid_t child = fork();
        if (child == 0)
            for (;;)
                pause();
        children += child > 0;
    }
    fprintf(stderr,
            "user %d net %d file %d read %d new %d seed %d variables %d "
            "children %d\n",
            (int)getuid(), net, file != NULL, other != NULL, new != NULL,
            seed != NULL, variables, children);
    return 1;
}
