// SPDX-License-Identifier: MIT
module zerohttpd/hello

go 1.21
