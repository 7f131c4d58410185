// SPDX-License-Identifier: MIT

// Command hello is Go's part in the comparison of 2013, Go alone and behind nginx: 12 bytes, spoken
// as HTTP (net/http) or as FastCGI (net/http/fcgi). The handler is the same for both.
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

// The limits of the seven, from lib/config.h; without them net/http waits for ever.
const (
	idleTimeout    = 5 * time.Second
	requestTimeout = 10 * time.Second
)

// hello answers with a head that is longer by a field of so many bytes, if any: the subjects of this
// comparison send heads of the same size, and nginx adds fields of its own.
func hello(padding int) http.HandlerFunc {
	const name = "X-Padding"
	value := strings.Repeat("x", max(padding-len(name+": \r\n"), 0))
	return func(w http.ResponseWriter, r *http.Request) {
		if padding > 0 {
			w.Header().Set(name, value)
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		// net/http would find that out; without it FastCGI's answer has no length.
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		fmt.Fprint(w, body)
	}
}

func main() {
	network := flag.String("network", "tcp", "tcp or unix")
	address := flag.String("address", "127.0.0.1:8000", "host:port, or the path of a socket")
	fastCGI := flag.Bool("fastcgi", false, "speak FastCGI, not HTTP")
	padding := flag.Int("padding", 0, "make the head longer by so many bytes")
	flag.Parse()

	mux := http.NewServeMux()
	mux.Handle("/files/hello.txt", hello(*padding))
	listener, err := net.Listen(*network, *address)
	if err != nil {
		log.Fatalf("cannot listen: %v", err)
	}
	fmt.Printf("url           %s\n", listener.Addr()) // nginx is started when this is there
	if *fastCGI {
		log.Fatal(fcgi.Serve(listener, mux))
	}
	server := &http.Server{Handler: mux, IdleTimeout: idleTimeout, ReadHeaderTimeout: requestTimeout}
	log.Fatal(server.Serve(listener))
}
