// SPDX-License-Identifier: MIT

// The page of sorted strings in C++ with the standard library, as a FastCGI
// program (see lib/app/sorted.c). One process answers one request at a time;
// lighttpd starts many processes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

#include <fcgiapp.h>
#include <fcgio.h>

namespace {

constexpr int strings = 1001;
constexpr int words_in_first = 1000;
constexpr int words_in_others = 10;
constexpr std::uint32_t longest_word = 10;
constexpr std::uint32_t seed = 20090401;

// The generator of lib/app/sorted.c: the same numbers, the same page.
class Random {
  public:
    std::uint32_t below(std::uint32_t limit) {
        state_ = state_ * 1664525u + 1013904223u;
        return (state_ >> 16) % limit;
    }

  private:
    std::uint32_t state_ = seed;
};

// Words separated by a space; they all have one random length.
std::string random_string(Random &random, int words) {
    const std::uint32_t length = 1 + random.below(longest_word);
    std::string text;

    text.reserve(static_cast<std::size_t>(words) * (length + 1));
    for (int word = 0; word < words; word++) {
        if (word > 0)
            text += ' ';
        for (std::uint32_t i = 0; i < length; i++)
            text += static_cast<char>('a' + random.below(26));
    }
    return text;
}

std::string sorted_page() {
    Random random;
    std::vector<std::string> all;

    all.reserve(strings);
    for (int i = 0; i < strings; i++)
        all.push_back(
            random_string(random, i == 0 ? words_in_first : words_in_others));
    std::sort(all.begin(), all.end());

    std::string page =
        "<!DOCTYPE html>\n<html lang=\"en\">\n"
        "<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width\">\n"
        "<title>Sorted strings</title>\n"
        "<link rel=\"stylesheet\" href=\"/style.css\">\n"
        "<h1>Sorted strings</h1>\n<ol>\n";
    for (const std::string &text : all)
        page.append("<li>").append(text).append("</li>\n");
    return page.append("</ol>\n</html>\n");
}

} // namespace

int main() {
    FCGX_Request request;

    if (FCGX_Init() != 0 || FCGX_InitRequest(&request, 0, 0) != 0) {
        std::cerr << "sorted: no FastCGI socket; start it with lighttpd\n";
        return 1;
    }
    while (FCGX_Accept_r(&request) == 0) {
        fcgi_streambuf buffer(request.out);
        std::ostream out(&buffer);
        const std::string page = sorted_page();

        // HTTP/1.0 can keep the connection only if the length is known.
        out << "Content-Type: text/html; charset=utf-8\r\n"
            << "Content-Length: " << page.size() << "\r\n\r\n"
            << page;
    }
    return 0;
}
