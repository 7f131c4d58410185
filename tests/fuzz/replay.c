/* SPDX-License-Identifier: MIT */
/*
 * Runs a fuzz target once for each file of the given folders, so inputs that
 * have revealed a fault are tested with any compiler, without libFuzzer.
 */
#include "must.h"

#include <dirent.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_LIMIT ((size_t)1024 * 1024)

static void replay(const char *folder, const char *name) {
    static uint8_t bytes[INPUT_LIMIT];
    char path[4096];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    must(file != NULL);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    must(!ferror(file) && size < sizeof bytes);
    fclose(file);
    /* A copy of the exact size: a sanitizer detects reads past the end. */
    uint8_t *copy = malloc(size + (size == 0));
    must(copy != NULL);
    for (size_t i = 0; i < size; i++)
        copy[i] = bytes[i];
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

int main(int argc, char **argv) {
    size_t count = 0;

    for (int i = 1; i < argc; i++) {
        struct dirent **names;
        int found = scandir(argv[i], &names, NULL, alphasort);
        must(found >= 0);
        for (int j = 0; j < found; j++) {
            if (names[j]->d_name[0] != '.') {
                replay(argv[i], names[j]->d_name);
                count++;
            }
            free(names[j]);
        }
        free(names);
    }
    printf("%s: %zu inputs replayed\n", argv[0], count);
    return count > 0 ? EXIT_SUCCESS : EXIT_FAILURE; /* no file: an error */
}
