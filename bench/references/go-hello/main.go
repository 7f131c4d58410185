// SPDX-License-Identifier: MIT

// Command hello is the Go server of the study of 2013, alone and behind nginx: it sends 12 bytes over
// HTTP (net/http) or FastCGI (net/http/fcgi) with one handler for both.
package main

import (
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/fcgi"
	"strconv"
	"strings"
	"time"
)

const body = "Hello World\n"

// The limits of the seven servers, from lib/config.h; without them net/http waits without limit.
const (
	idleTimeout    = 5 * time.Second
	requestTimeout = 10 * time.Second
)

// hello returns a handler that adds a header field of `padding` bytes. nginx adds fields of its own, so
// different paddings make the heads of all servers of this study equally long.
func hello(padding int) http.HandlerFunc {
	const name = "X-Padding"
	value := strings.Repeat("x", max(padding-len(name+": \r\n"), 0))
	return func(w http.ResponseWriter, r *http.Request) {
		if padding > 0 {
			w.Header().Set(name, value)
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		// net/http would add this field, but net/http/fcgi would not.
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		fmt.Fprint(w, body)
	}
}

func main() {
	network := flag.String("network", "tcp", "tcp or unix")
	address := flag.String("address", "127.0.0.1:8000", "host:port, or the path of a Unix socket")
	fastCGI := flag.Bool("fastcgi", false, "speak FastCGI, not HTTP")
	padding := flag.Int("padding", 0, "make the head N bytes longer")
	flag.Parse()

	mux := http.NewServeMux()
	mux.Handle("/files/hello.txt", hello(*padding))
	listener, err := net.Listen(*network, *address)
	if err != nil {
		log.Fatalf("cannot listen: %v", err)
	}
	fmt.Printf("url           %s\n", listener.Addr()) // behind.sh starts nginx after this line
	if *fastCGI {
		log.Fatal(fcgi.Serve(listener, mux))
	}
	server := &http.Server{Handler: mux, IdleTimeout: idleTimeout, ReadHeaderTimeout: requestTimeout}
	log.Fatal(server.Serve(listener))
}
