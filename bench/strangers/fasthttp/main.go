// SPDX-License-Identifier: MIT

// Command fasthttp is the stranger written with fasthttp, a faster HTTP server for Go than net/http:
// the redirect, the files and the guestbook of the seven servers. go-redis asks Redis as it does for
// the stranger go (package book); the page is made by fasttemplate, of the same author as fasthttp.
// (His documentation would rather have quicktemplate, which compiles templates into the program; the
// servers' own is read at the start.)
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

// The limits of the seven, from lib/config.h; fasthttp would wait for ever otherwise.
const (
	idleTimeout    = 5 * time.Second
	requestTimeout = 10 * time.Second
)

type site struct {
	guestbook *book.Book
	page      *fasttemplate.Template
	files     fasthttp.RequestHandler
}

// handle is the router: fasthttp has none of its own, and its documentation shows this switch.
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

// redirect leads to the guestbook. ctx.Redirect would make an absolute URI of the path, and so the
// answer longer than that of the others.
func redirect(ctx *fasthttp.RequestCtx, status int) {
	ctx.Response.Header.Set(fasthttp.HeaderLocation, "/guestbook")
	ctx.SetStatusCode(status)
}

func (s *site) showGuestbook(ctx *fasthttp.RequestCtx) {
	// The ctx ends with the server, not with its client: fasthttp does not watch for that.
	content, err := s.guestbook.Load(ctx)
	if err != nil {
		ctx.Error(book.Unreachable, fasthttp.StatusServiceUnavailable)
		ctx.Response.Header.Set(fasthttp.HeaderRetryAfter, "1")
		return
	}
	ctx.SetContentType("text/html; charset=utf-8")
	// A tag that is not here stands for nothing: a plain visit has nothing typed and no errors.
	s.page.Execute(ctx, map[string]any{
		"VISITOR_COUNT": content.Visitor,
		"REMARKS_COUNT": content.Written,
		"GUEST_REMARKS": listed(content.Remarks),
	})
}

// listed makes the list of the remarks, each escaped: the template engine does not do that.
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
	profileFile := flag.String("profile", "", "file for a CPU profile of it, written when it ends")
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
	// As it is by default: files stay open for 10 s; one of up to 8 KB is read anew for each
	// request, larger ones leave by sendfile.
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
