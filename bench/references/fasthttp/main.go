// SPDX-License-Identifier: MIT

// Command fasthttp is the reference server with fasthttp, a faster HTTP server for Go than net/http:
// the redirect, the files and the guestbook of the seven servers. Like the reference server `go`, it
// uses go-redis through package book. For the page it uses fasttemplate by the author of fasthttp.
// (The documentation of fasttemplate recommends quicktemplate, which compiles templates into the
// program. But the template of the seven servers is read at the start.)
package main

import (
	"bytes"
	"flag"
	"fmt"
	"html"
	"log"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/valyala/fasthttp"
	"github.com/valyala/fasttemplate"

	"zerohttpd/guestbook/book"
	"zerohttpd/guestbook/profile"
)

// The limits of the seven servers, from lib/config.h; without them fasthttp waits without limit.
const (
	idleTimeout    = 5 * time.Second
	requestTimeout = 10 * time.Second
)

type site struct {
	guestbook *book.Book
	page      *fasttemplate.Template
	files     fasthttp.RequestHandler
}

// handle is the router: fasthttp has no router, and its documentation shows this switch.
func (s *site) handle(ctx *fasthttp.RequestCtx) {
	switch string(ctx.Path()) {
	case "/guestbook":
		s.showGuestbook(ctx)
	case "/redirect":
		redirect(ctx, fasthttp.StatusFound)
	case "/old":
		redirect(ctx, fasthttp.StatusMovedPermanently)
	default:
		s.files(ctx)
	}
}

// redirect sends the client to the guestbook. ctx.Redirect would send an absolute URI, so the response
// would be longer than the responses of the other servers.
func redirect(ctx *fasthttp.RequestCtx, status int) {
	ctx.Response.Header.Set(fasthttp.HeaderLocation, "/guestbook")
	ctx.SetStatusCode(status)
}

func (s *site) showGuestbook(ctx *fasthttp.RequestCtx) {
	// ctx is cancelled when the server ends, not when the client closes the connection.
	content, err := s.guestbook.Load(ctx)
	if err != nil {
		ctx.Error(book.Unreachable, fasthttp.StatusServiceUnavailable)
		ctx.Response.Header.Set(fasthttp.HeaderRetryAfter, "1")
		return
	}
	ctx.SetContentType("text/html; charset=utf-8")
	// A tag without a value becomes empty: a plain visit has no typed text and no errors.
	s.page.Execute(ctx, map[string]any{
		"VISITOR_COUNT": content.Visitor,
		"REMARKS_COUNT": content.Written,
		"GUEST_REMARKS": listed(content.Remarks),
	})
}

// listed returns the remarks as an HTML list, and escapes them, because fasttemplate does not.
func listed(remarks []string) []byte {
	if len(remarks) == 0 {
		return []byte(`<li class="remark none"><p>No remarks yet. Yours could be the first.</p></li>` + "\n")
	}
	var list bytes.Buffer
	for _, remark := range remarks {
		list.WriteString(`<li class="remark"><p>`)
		list.WriteString(html.EscapeString(remark))
		list.WriteString("</p></li>\n")
	}
	return list.Bytes()
}

func main() {
	address := flag.String("address", "127.0.0.1", "address to listen on")
	port := flag.String("port", "8000", "port to listen on")
	redisURL := flag.String("redis", "redis://127.0.0.1:6379", "redis://[user:password@]host:port/db")
	root := flag.String("root", ".", "folder that holds templates/ and public/")
	profileFile := flag.String("profile", "", "write a CPU profile to this file at the end")
	flag.Parse()

	if err := profile.Into(*profileFile); err != nil {
		log.Fatalf("cannot profile: %v", err)
	}
	guestbook, err := book.New(*root, *redisURL)
	if err != nil {
		log.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(*root, "templates/guestbook/index.html"))
	if err != nil {
		log.Fatalf("no template: %v", err)
	}
	page, err := fasttemplate.NewTemplate(string(text), "$", "$")
	if err != nil {
		log.Fatalf("no template: %v", err)
	}
	// The defaults: files stay open for 10 s; a file of up to 8 KB is read again for each request,
	// larger files are sent with sendfile().
	files := fasthttp.FS{Root: filepath.Join(*root, "public"), AcceptByteRange: true}
	handler := &site{guestbook, page, files.NewRequestHandler()}
	listener, err := net.Listen("tcp4", net.JoinHostPort(*address, *port))
	if err != nil {
		log.Fatalf("cannot listen: %v", err)
	}
	fmt.Printf("url           http://%s/\n", listener.Addr())
	server := &fasthttp.Server{
		Handler:     handler.handle,
		IdleTimeout: idleTimeout,
		ReadTimeout: requestTimeout,
	}
	log.Fatal(server.Serve(listener))
}
