/* SPDX-License-Identifier: MIT */
/* Sends the commands ASKED to the Redis in its arguments; prints the beginning
 * of each reply. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int count, char **words) {
    for (int i = 0; i < count; i++) {
        if (strncmp(words[i], "redis://", 8) != 0)
            continue;
        struct sockaddr_in to = {.sin_family = AF_INET,
                                 .sin_addr = {htonl(INADDR_LOOPBACK)}};
        unsigned long port = strtoul(strrchr(words[i], ':') + 1, NULL, 10);
        to.sin_port = htons((unsigned short)port);
        const char *asked[] = {ASKED};
        for (size_t k = 0; k < sizeof asked / sizeof *asked; k++) {
            int redis = socket(AF_INET, SOCK_STREAM, 0);
            char reply[200] = "";
            if (connect(redis, (struct sockaddr *)&to, sizeof to) == 0 &&
                dprintf(redis, "%s\r\n", asked[k]) > 0 &&
                read(redis, reply, sizeof reply - 1) >= 0) {
                reply[strcspn(reply, "\r")] = '\0';
                fprintf(stderr, "%zu:%.7s;", k, reply);
            }
        }
    }
    return 1;
}
