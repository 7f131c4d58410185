// SPDX-License-Identifier: MIT
module zerohttpd/fasthttp

go 1.26.0

require (
	github.com/valyala/fasthttp v1.70.0
	github.com/valyala/fasttemplate v1.2.2
	zerohttpd/guestbook v0.0.0
)

require (
	github.com/andybalholm/brotli v1.2.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/klauspost/compress v1.18.5 // indirect
	github.com/redis/go-redis/v9 v9.23.0 // indirect
	github.com/valyala/bytebufferpool v1.0.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

// The guestbook page comes from the reference server `go`.
replace zerohttpd/guestbook => ../go
