// SPDX-License-Identifier: MIT

// Package book makes the guestbook page of the seven servers in the usual way for Go: html/template
// for the page, go-redis for its content. The template and the three commands to Redis are those of
// the seven servers. Connections to Redis come from the pool of go-redis, with its default size. The
// reference server `fasthttp` uses the content with another template engine.
package book

import (
	"bytes"
	"context"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// remarksShown is REMARKS_SHOWN in lib/config.h.
const remarksShown = 50

// Unreachable is the text of the response with status 503 if Redis does not answer.
const Unreachable = "This request needs Redis, which is not available now."

// A Book is the guestbook. Any number of goroutines may use it at once.
type Book struct {
	redis    *redis.Client
	template *template.Template
}

// Content is the content of the page: both numbers as text, and the newest remark first.
type Content struct {
	Visitor string
	Written string
	Remarks []string
}

// New returns a book with the template below root, the project's folder, and the Redis at
// redis://[user:password@]host:port/db. New does not connect to Redis.
func New(root, redisURL string) (*Book, error) {
	parsed, err := parseTemplate(root)
	if err != nil {
		return nil, fmt.Errorf("no template: %w", err)
	}
	options, err := redis.ParseURL(redisURL)
	if err != nil {
		return nil, fmt.Errorf("--redis: %w", err)
	}
	return &Book{redis.NewClient(options), parsed}, nil
}

// Page counts a visitor and writes the page into a buffer. It returns an error if Redis cannot be
// reached. With a buffer, the length is known before the first byte is sent, which HTTP/1.0 needs to
// keep the connection.
func (b *Book) Page(ctx context.Context, to *bytes.Buffer) error {
	content, err := b.Load(ctx)
	if err != nil {
		return err
	}
	return b.template.Execute(to, content)
}

// Load counts a visitor and reads the page's content from Redis with three commands in sequence.
func (b *Book) Load(ctx context.Context) (Content, error) {
	remarks, err := b.redis.LRange(ctx, "guestbook_remarks", -remarksShown, -1).Result()
	if err != nil {
		return Content{}, err
	}
	visitor, err := b.redis.Incr(ctx, "visitor_count").Result()
	if err != nil {
		return Content{}, err
	}
	written, err := b.redis.LLen(ctx, "guestbook_remarks").Result()
	if err != nil {
		return Content{}, err
	}
	slices.Reverse(remarks)
	return Content{withThousands(visitor), withThousands(written), remarks}, nil
}

// parseTemplate converts the template of the seven servers for html/template.
func parseTemplate(root string) (*template.Template, error) {
	text, err := os.ReadFile(filepath.Join(root, "templates/guestbook/index.html"))
	if err != nil {
		return nil, err
	}
	translated := strings.NewReplacer(
		"$VISITOR_COUNT$", "{{.Visitor}}",
		"$REMARKS_COUNT$", "{{.Written}}",
		"$GUEST_REMARKS$", `{{range .Remarks}}<li class="remark"><p>{{.}}</p></li>`+"\n"+
			`{{else}}<li class="remark none"><p>No remarks yet. Yours could be the first.</p></li>`+
			"\n{{end}}",
		// A plain visit has no typed text and no errors.
		"$GUEST_NAME$", "", "$GUEST_NAME_ERROR$", "",
		"$GUEST_REMARKS_TYPED$", "", "$GUEST_REMARKS_ERROR$", "",
	).Replace(string(text))
	return template.New("guestbook").Parse(translated)
}

// withThousands formats 1234567 as 1,234,567.
func withThousands(number int64) string {
	digits := strconv.FormatInt(number, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
