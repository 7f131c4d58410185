module zerohttpd/hello

go 1.21
