// SPDX-License-Identifier: MIT

// Command guestbook is the stranger written in Go: the guestbook page of the seven servers, done as
// a Go programmer would do it, with net/http, html/template and go-redis. It asks Redis the same
// three commands, one after another, and fills the same template. Connections to Redis come from
// the client's own pool, at its default size.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"html/template"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// The limits of the seven, from lib/config.h.
const (
	remarksShown   = 50
	idleTimeout    = 5 * time.Second
	requestTimeout = 10 * time.Second
)

type page struct {
	Visitor string
	Written string
	Remarks []string
}

type guestbook struct {
	redis    *redis.Client
	template *template.Template
}

// parseTemplate turns the servers' own template into one for html/template.
func parseTemplate(root string) (*template.Template, error) {
	text, err := os.ReadFile(filepath.Join(root, "templates/guestbook/index.html"))
	if err != nil {
		return nil, err
	}
	translated := strings.NewReplacer(
		"$VISITOR_COUNT$", "{{.Visitor}}",
		"$REMARKS_COUNT$", "{{.Written}}",
		"$GUEST_REMARKS$", `{{range .Remarks}}<li class="remark"><p>{{.}}</p></li>`+
			`{{else}}<li class="remark none"><p>No remarks yet. Yours could be the first.</p></li>{{end}}`,
		// A plain visit has nothing typed and no errors.
		"$GUEST_NAME$", "", "$GUEST_NAME_ERROR$", "",
		"$GUEST_REMARKS_TYPED$", "", "$GUEST_REMARKS_ERROR$", "",
	).Replace(string(text))
	return template.New("guestbook").Parse(translated)
}

// withThousands writes 1234567 as 1,234,567.
func withThousands(number int64) string {
	digits := strconv.FormatInt(number, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// load asks Redis, three times, one after another.
func (g *guestbook) load(ctx context.Context) (page, error) {
	remarks, err := g.redis.LRange(ctx, "guestbook_remarks", -remarksShown, -1).Result()
	if err != nil {
		return page{}, err
	}
	visitor, err := g.redis.Incr(ctx, "visitor_count").Result()
	if err != nil {
		return page{}, err
	}
	written, err := g.redis.LLen(ctx, "guestbook_remarks").Result()
	if err != nil {
		return page{}, err
	}
	slices.Reverse(remarks)
	return page{withThousands(visitor), withThousands(written), remarks}, nil
}

func (g *guestbook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	content, err := g.load(r.Context())
	if err != nil {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "The guestbook's memory, Redis, cannot be reached just now.",
			http.StatusServiceUnavailable)
		return
	}
	// Into a buffer first, for the length: without one HTTP/1.0 cannot keep the connection.
	var body bytes.Buffer
	if err := g.template.Execute(&body, content); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(body.Len()))
	w.Write(body.Bytes())
}

func main() {
	address := flag.String("address", "127.0.0.1", "address to listen on")
	port := flag.String("port", "8000", "port to listen on")
	redisURL := flag.String("redis", "redis://127.0.0.1:6379", "redis://[user:password@]host:port/db")
	root := flag.String("root", ".", "folder that holds templates/")
	flag.Parse()

	parsed, err := parseTemplate(*root)
	if err != nil {
		log.Fatalf("no template: %v", err)
	}
	options, err := redis.ParseURL(*redisURL)
	if err != nil {
		log.Fatalf("--redis: %v", err)
	}
	client := redis.NewClient(options)
	mux := http.NewServeMux()
	mux.Handle("GET /guestbook", &guestbook{client, parsed})
	mux.HandleFunc("GET /redirect", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/guestbook", http.StatusFound)
	})
	mux.HandleFunc("GET /old", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/guestbook", http.StatusMovedPermanently)
	})
	listener, err := net.Listen("tcp", net.JoinHostPort(*address, *port))
	if err != nil {
		log.Fatalf("cannot listen: %v", err)
	}
	fmt.Printf("url           http://%s/\n", listener.Addr())
	server := &http.Server{Handler: mux, IdleTimeout: idleTimeout, ReadHeaderTimeout: requestTimeout}
	log.Fatal(server.Serve(listener))
}
