/* SPDX-License-Identifier: MIT */
#include "proto/http.h"

#include "config.h"
#include "proto/encoding.h"

/* ---- Which bytes are allowed where ---- */

#define LETTERS_AND_DIGITS BYTES('0', '9'), BYTES('A', 'Z'), BYTES('a', 'z')

/* RFC 9110, section 5.6.2: letters, digits and !#$%&'*+-.^_`|~ */
__extension__ const struct byte_set http_token_bytes = {
    {LETTERS_AND_DIGITS, BYTES('!', '!'), BYTES('#', '\''), BYTES('*', '+'),
     BYTES('-', '.'), BYTES('^', '`'), BYTES('|', '|'), BYTES('~', '~')}};

/* RFC 9110, section 5.5: no control byte except HTAB. */
__extension__ const struct byte_set http_value_bytes = {
    {BYTES('\t', '\t'), BYTES(' ', '~'), BYTES(0x80, 0xff)}};

/* Printable ASCII, except the space and #. */
BYTE_SET target_bytes = {{BYTES('!', '"'), BYTES('$', '~')}};

/* RFC 3986, section 3.2.2, except escapes: letters, digits and
   !$&'()*+,-.;=_~ */
BYTE_SET host_bytes = {{LETTERS_AND_DIGITS, BYTES('!', '!'), BYTES('$', '$'),
                        BYTES('&', '.'), BYTES(';', ';'), BYTES('=', '='),
                        BYTES('_', '_'), BYTES('~', '~')}};

static bool is_made_of(struct view view, const struct byte_set *set) {
    return view.length > 0 && view_span(view, set) == view.length;
}

/* ---- The request line ---- */

/* RFC 3986, section 3.2.2: a name or an IPv4 address. */
static bool is_registered_name(struct view view) {
    for (;;) {
        view = view_skip(view, view_span(view, &host_bytes));
        if (view.length == 0)
            return true;
        if (percent_decode(view) < 0)
            return false;
        view = view_skip(view, 3);
    }
}

/* Has the text only bytes of an IPv6 address (RFC 3986, section 3.2.2)? */
static bool is_ipv6(struct view view) {
    BYTE_SET address_bytes = {
        {BYTES('0', ':'), BYTES('A', 'F'), BYTES('a', 'f'), BYTES('.', '.')}};
    return view.length >= 2 && is_made_of(view, &address_bytes);
}

/* RFC 9110, section 7.2: a host, which a colon and a port may follow; the port
   may be empty.  The server does not use the host, but rejects an invalid one:
   it may be an attack. */
static bool is_host(struct view view) {
    uint64_t port;
    bool literal = view_starts_with(view, VIEW("["));
    size_t end = view_find(view, literal ? ']' : ':');

    if (literal && end == view.length)
        return false;
    struct view rest = view_skip(view, literal ? end + 1 : end);
    bool host_is_good = literal ? is_ipv6(view_slice(view, 1, end - 1))
                                : is_registered_name(view_slice(view, 0, end));
    return host_is_good && (rest.length == 0 || view_equal(rest, VIEW(":")) ||
                            (rest.data[0] == ':' &&
                             view_number(view_skip(rest, 1), 65535, &port)));
}

/* RFC 9112, section 3.2.3: a host and a port, neither of them empty. */
static bool is_authority(struct view view) {
    return is_host(view) && view.data[0] != ':' &&
           view_find(view, ':') < view.length &&
           hex_digit(view.data[view.length - 1]) >= 0;
}

static ssize_t reject(struct http_request *request, int status,
                      const char *complaint) {
    request->complaint = complaint;
    return -status;
}

/* RFC 9112, section 3.2: the origin-form of browsers, the absolute-form for
   proxies, or the asterisk-form of OPTIONS.  Returns 0, or minus a status. */
static ssize_t parse_target(struct http_request *request, struct view method,
                            struct view target) {
    static const struct view scheme = VIEW_INITIALIZER("http://");
    bool is_absolute = false;

    if (!is_made_of(target, &target_bytes))
        return reject(request, 400,
                      "The request target is empty, or has a byte that "
                      "is not allowed there.");
    if (view_equal(method, VIEW("CONNECT")) && is_authority(target))
        return reject(request, 501, "This server does not open tunnels.");
    if (view_equal(method, VIEW("CONNECT")))
        return reject(request, 400, "CONNECT requires a host and a port.");
    if (view_starts_with_ignoring_case(target, scheme)) {
        struct view rest = view_skip(target, scheme.length);
        size_t slash = view_find(rest, '/');
        size_t question = view_find(rest, '?');
        size_t end = slash < question ? slash : question;
        if (end == 0 || rest.data[0] == ':' ||
            !is_host(view_slice(rest, 0, end)))
            return reject(request, 400,
                          "The request target has no valid host.");
        target = view_skip(rest, end);
        is_absolute = true;
    }
    bool has_query = view_find(target, '?') < target.length;
    request->path = view_cut(&target, '?');
    request->query = target;
    bool is_options = request->method == HTTP_OPTIONS;
    if (is_absolute && request->path.length == 0) /* http://host?query */
        request->path = is_options && !has_query ? VIEW("*") : VIEW("/");
    if (view_starts_with(request->path, VIEW("/")) ||
        (is_options && !has_query && view_equal(request->path, VIEW("*"))))
        return 0;
    return reject(request, 400, "The request target must start with a slash.");
}

/* RFC 9112, section 3: method SP target SP version, one space each. */
static ssize_t parse_request_line(struct http_request *request,
                                  struct view line) {
    struct view rest = line;
    struct view method = view_cut(&rest, ' ');
    struct view target = view_cut(&rest, ' ');
    struct view version = rest;

    request->line = line;
    if (!is_made_of(method, &http_token_bytes))
        return reject(request, 400, "The request line has no valid method.");
    if (version.length != 8 || !view_starts_with(version, VIEW("HTTP/")) ||
        version.data[5] < '0' || version.data[5] > '9' ||
        version.data[6] != '.' || version.data[7] < '0' ||
        version.data[7] > '9')
        return reject(request, 400,
                      "The request line must read: method, space, "
                      "target, space, HTTP/1.1.");
    if (version.data[5] != '1')
        return reject(request, 505,
                      "This server supports HTTP/1.1 and HTTP/1.0.");
    /* A higher minor version counts as 1: RFC 9110, section 2.5. */
    request->minor_version = version.data[7] == '0' ? 0 : 1;
    return parse_target(request, method, target);
}

/* ---- The fields ---- */

/* Values of fields that depend on each other; checked after the last field. */
struct framing {
    size_t fields;
    bool has_length;
    size_t codings;       /* of Transfer-Encoding */
    bool ends_in_chunked; /* the last transfer coding so far is chunked */
    bool early_chunked;   /* an earlier coding is chunked */
    bool close;
    bool keep_alive;
};

static void parse_connection(struct framing *framing, struct view value) {
    struct view option;

    while (view_next_element(&value, &option)) {
        if (view_equal_ignoring_case(option, VIEW("close")))
            framing->close = true;
        if (view_equal_ignoring_case(option, VIEW("keep-alive")))
            framing->keep_alive = true;
    }
}

static ssize_t parse_content_length(struct http_request *request,
                                    struct framing *framing,
                                    struct view value) {
    if (framing->has_length)
        return reject(request, 400, "There is more than one Content-Length.");
    framing->has_length = true;
    if (!view_number(value, INT64_MAX, &request->content_length))
        return reject(request, 400, "Content-Length is not a valid number.");
    return 0;
}

/* RFC 9112, section 6.1: all Transfer-Encoding lines form one list.  An empty
   element, which other lists may have, counts as an unknown coding: two
   programs might read it differently. */
static void parse_transfer_encoding(struct framing *framing,
                                    struct view value) {
    bool more = true;

    while (more) {
        more = view_find(value, ',') < value.length;
        struct view coding = view_trim(view_cut(&value, ','));
        framing->codings++;
        framing->early_chunked |= framing->ends_in_chunked;
        framing->ends_in_chunked =
            view_equal_ignoring_case(coding, VIEW("chunked"));
    }
}

/* RFC 9110, section 10.1.1: a list, which may be empty. */
static ssize_t parse_expect(struct http_request *request, struct view value) {
    struct view expectation;

    while (view_next_element(&value, &expectation)) {
        if (!view_equal_ignoring_case(expectation, VIEW("100-continue")))
            return reject(request, 417,
                          "This server supports only the expectation "
                          "100-continue.");
        /* Ignored in HTTP/1.0, which has no status 100. */
        request->expects_continue = request->minor_version > 0;
    }
    return 0;
}

static ssize_t parse_host(struct http_request *request, struct view value) {
    if (request->host.data != NULL)
        return reject(request, 400, "There is more than one Host.");
    if (!is_host(value))
        return reject(request, 400, "The Host field is not valid.");
    request->host = value;
    return 0;
}

static ssize_t parse_field(struct http_request *request,
                           struct framing *framing, struct view name,
                           struct view value) {
    static const struct {
        struct view name;
        size_t place; /* offset of its view in the request */
    } plain[] = {
#define FIELD(name, member)                                                    \
    {VIEW_INITIALIZER(name), offsetof(struct http_request, member)}
        FIELD("Content-Type", content_type),
        FIELD("If-Match", if_match),
        FIELD("If-Unmodified-Since", if_unmodified_since),
        FIELD("If-None-Match", if_none_match),
        FIELD("If-Modified-Since", if_modified_since),
        FIELD("If-Range", if_range),
        FIELD("Range", range),
#undef FIELD
    };

    if (view_equal_ignoring_case(name, VIEW("Host")))
        return parse_host(request, value);
    if (view_equal_ignoring_case(name, VIEW("Content-Length")))
        return parse_content_length(request, framing, value);
    if (view_equal_ignoring_case(name, VIEW("Transfer-Encoding")))
        parse_transfer_encoding(framing, value);
    if (view_equal_ignoring_case(name, VIEW("Expect")))
        return parse_expect(request, value);
    if (view_equal_ignoring_case(name, VIEW("Connection")))
        parse_connection(framing, value);
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        if (!view_equal_ignoring_case(name, plain[i].name))
            continue;
        struct view *place =
            (struct view *)(void *)((char *)request + plain[i].place);
        *place = place->data == NULL ? value : VIEW("");
    }
    return 0;
}

/* RFC 9112, section 5: consumes a line of the rest, name ":" OWS value OWS. */
static ssize_t parse_field_line(struct http_request *request,
                                struct framing *framing, struct view *rest) {
    if (++framing->fields > HEAD_FIELDS_LIMIT)
        return reject(request, 431, "There are too many header fields.");
    if (rest->data[0] == ' ' || rest->data[0] == '\t')
        return reject(request, 400, "A header field is folded over two lines.");
    struct view name = view_take(rest, &http_token_bytes);
    if (name.length == 0 || !view_starts_with(*rest, VIEW(":")))
        return reject(request, 400, "A header line has no colon after a name.");
    *rest = view_skip(*rest, 1);
    struct view value = view_take(rest, &http_value_bytes);
    if (!view_starts_with(*rest, VIEW("\r\n")))
        return reject(request, 400, "A header field has a control byte in it.");
    *rest = view_skip(*rest, 2);
    return parse_field(request, framing, name, view_trim(value));
}

/* RFC 9112, section 6.3: how long is the body?  RFC 9112, section 9.3: does
   the connection persist? */
static ssize_t check_framing(struct http_request *request,
                             const struct framing *framing) {
    if (request->minor_version > 0 && request->host.data == NULL)
        return reject(request, 400, "HTTP/1.1 requires a Host field.");
    if (framing->codings > 0 && framing->has_length)
        return reject(request, 400,
                      "The length of the body is given twice, by "
                      "Content-Length and by Transfer-Encoding.");
    if (framing->codings > 0 && request->minor_version == 0)
        return reject(request, 400, "HTTP/1.0 has no Transfer-Encoding.");
    if (framing->codings > 0 &&
        (!framing->ends_in_chunked || framing->early_chunked))
        return reject(
            request, 400,
            "The coding chunked must be the last, and come only once: "
            "otherwise the end of the body is unknown.");
    if (framing->codings > 1)
        return reject(request, 501,
                      "This server supports only the transfer coding "
                      "chunked.");

    if (framing->codings > 0)
        request->body = HTTP_CHUNKED_BODY;
    else if (request->content_length > 0)
        request->body = HTTP_LENGTH_BODY;
    request->keep_alive =
        !framing->close && (request->minor_version > 0 || framing->keep_alive);
    return 0;
}

/* ---- The head ---- */

/* Returns the head's length, 0 if it is not whole, or minus a status. */
static ssize_t find_end(struct view input, size_t seen,
                        struct http_request *request) {
    size_t at = seen;

    while (at < input.length) {
        at += view_find(view_skip(input, at), '\n');
        if (at == input.length)
            break;
        if (at == 0 || input.data[at - 1] != '\r')
            return reject(request, 400, "A line must end in CR LF.");
        if (at >= 3 && input.data[at - 2] == '\n')
            break;
        at++;
    }
    if (view_find(input, '\n') > REQUEST_LINE_LIMIT + 1) /* and its CR */
        return reject(request, 414, "The request line is too long.");
    if (at >= HEAD_LIMIT)
        return reject(request, 431, "The header fields are too long.");
    return at < input.length ? (ssize_t)at + 1 : 0;
}

/* The method is parsed first, and kept even if the rest of the request is
   wrong: a response to HEAD has no body. */
static enum http_method find_method(struct view input) {
    /* In the order of enum http_method; those after OPTIONS are HTTP_OTHER. */
    static const char *const known[] = {"GET",     "HEAD",  "POST",
                                        "OPTIONS", "PUT",   "DELETE",
                                        "PATCH",   "TRACE", "CONNECT"};
    size_t end = view_find(input, ' ');
    struct view name = view_slice(input, 0, end);

    for (size_t i = 0; end < input.length && i < sizeof known / sizeof known[0];
         i++)
        if (view_equal(name, view_of(known[i])))
            return i < HTTP_OTHER ? (enum http_method)i : HTTP_OTHER;
    return HTTP_UNKNOWN;
}

size_t http_empty_lines(struct view input) {
    size_t length = 0;

    while (view_starts_with(view_skip(input, length), VIEW("\r\n")))
        length += 2;
    return length;
}

ssize_t http_parse_head(struct view input, size_t seen,
                        struct http_request *request) {
    struct framing framing = {0};

    *request = (struct http_request){.method = HTTP_UNKNOWN};
    /* Bytes that are not HTTP, such as TLS, are rejected at once. */
    if (input.length > 0 && input.data[0] != '\r' &&
        view_span(input, &http_token_bytes) == 0)
        return reject(request, 400, "This is not an HTTP request.");
    request->method = find_method(input);
    ssize_t end = find_end(input, seen, request);
    if (end <= 0)
        return end;

    /* All lines, each with its CR LF, but not the blank line. */
    struct view rest = view_slice(input, 0, (size_t)end - 2);
    struct view line = view_cut(&rest, '\n');
    line.length--; /* its CR, which find_end() has found */
    ssize_t result = parse_request_line(request, line);
    request->fields = rest;
    while (result == 0 && rest.length > 0)
        result = parse_field_line(request, &framing, &rest);
    if (result == 0)
        result = check_framing(request, &framing);
    return result < 0 ? result : end;
}

bool http_next_field_line(struct view *fields, struct view name,
                          struct view *value) {
    while (fields->length > 0) {
        struct view line = view_cut(fields, '\n');
        line = view_slice(line, 0, line.length - 1); /* its CR */
        bool found = view_equal_ignoring_case(view_cut(&line, ':'), name);
        *value = view_trim(line);
        if (found)
            return true;
    }
    return false;
}
