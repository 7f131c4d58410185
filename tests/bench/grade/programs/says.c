/* SPDX-License-Identifier: MIT */
/* A server that prints SAID at its start, and runs the code DONE for each
 * client. */
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int main(void) {
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof a;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    char room[9000] = "", end[] = "\r\n\r\n";

    bind(listener, (struct sockaddr *)&a, sizeof a);
    listen(listener, 9);
    getsockname(listener, (struct sockaddr *)&a, &length);
    int port = ntohs(a.sin_port);
    (void)port;
    memset(room, '9', 5000);
    printf(SAID);
    fflush(stdout);
    for (;;) {
        int client = accept(listener, NULL, NULL);
        if (client < 0 || recv(client, room + 5000, 4000, 0) < 0)
            continue;
        room[5000] = 0;
        DONE;
        dprintf(client, "%s", end);
        close(client);
    }
}
