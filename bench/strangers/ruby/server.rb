# SPDX-License-Identifier: MIT
# frozen_string_literal: true

# The least that answers: accept, read, write, close, one connection after another, as such servers
# are written in tutorials. It knows nothing of HTTP but its lines; a Ruby programmer would put Puma
# with a Rack application in its place.

require 'socket'

REDIRECTS = {
  '/redirect' => '302 Found',
  '/old' => '301 Moved Permanently'
}.freeze

address, port, backlog = ARGV
server = TCPServer.new(address, Integer(port))
server.listen(Integer(backlog)) # as the seven; SOMAXCONN by default

trap('TERM') { exit }

loop do
  client = server.accept
  _method, path, = client.gets&.split
  # To its blank line: close() on what is not read yet would reset the connection.
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
  # The client has gone; the next one waits.
ensure
  client&.close
end
