// SPDX-License-Identifier: MIT

// Command guestbook is the reference server in Go: the redirect, the files and the guestbook of the
// seven servers, with net/http (and go-redis, see package book).
package main

import (
	"bytes"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"zerohttpd/guestbook/book"
	"zerohttpd/guestbook/profile"
)

// The limits of the seven servers, from lib/config.h. By default net/http waits without limit, but its
// documentation advises to set limits.
const (
	idleTimeout    = 5 * time.Second
	requestTimeout = 10 * time.Second
)

func showGuestbook(guestbook *book.Book) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		if err := guestbook.Page(r.Context(), &body); err != nil {
			w.Header().Set("Retry-After", "1")
			http.Error(w, book.Unreachable, http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Length", strconv.Itoa(body.Len()))
		w.Write(body.Bytes())
	}
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
	mux := http.NewServeMux()
	mux.HandleFunc("GET /guestbook", showGuestbook(guestbook))
	mux.HandleFunc("GET /redirect", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/guestbook", http.StatusFound)
	})
	mux.HandleFunc("GET /old", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/guestbook", http.StatusMovedPermanently)
	})
	mux.Handle("GET /", http.FileServer(http.Dir(filepath.Join(*root, "public"))))
	listener, err := net.Listen("tcp", net.JoinHostPort(*address, *port))
	if err != nil {
		log.Fatalf("cannot listen: %v", err)
	}
	fmt.Printf("url           http://%s/\n", listener.Addr())
	server := &http.Server{Handler: mux, IdleTimeout: idleTimeout, ReadHeaderTimeout: requestTimeout}
	log.Fatal(server.Serve(listener))
}
