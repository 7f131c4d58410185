# SPDX-License-Identifier: MIT
# frozen_string_literal: true

# A minimal server as in tutorials: accept, read, write, close, one connection after another. It only
# reads the lines of a request, without parsing HTTP; in production, Puma with a Rack application is
# usual.

require 'socket'

REDIRECTS = {
  '/redirect' => '302 Found',
  '/old' => '301 Moved Permanently'
}.freeze

address, port, backlog = ARGV
server = TCPServer.new(address, Integer(port))
server.listen(Integer(backlog)) # as in the seven servers; SOMAXCONN by default

trap('TERM') { exit }

loop do
  client = server.accept
  _method, path, = client.gets&.split
  # Read up to the blank line: close() with unread data would reset the connection.
  nil until [nil, "\r\n"].include?(client.gets)
  status = REDIRECTS[path]
  client.print(
    if status
      "HTTP/1.1 #{status}\r\nLocation: /guestbook\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    else
      "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    end
  )
rescue SystemCallError
  # The client has closed the connection; continue with the next client.
ensure
  client&.close
end
