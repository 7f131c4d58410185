// SPDX-License-Identifier: MIT

// The reference server in JavaScript: the content of the seven servers, with Node's http module and the
// npm package redis. One thread runs the whole program. While a request waits for Redis, the thread
// serves other requests.

import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { createClient } from 'redis';

const REMARKS_SHOWN = 50;
const FILES = {
  '/files/hello.txt': 'text/plain; charset=utf-8',
  '/files/small.txt': 'text/plain; charset=utf-8',
  '/files/characters.html': 'text/html; charset=utf-8',
};
const REFERENCES = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

const text = { type: 'string' };
const { values: given } = parseArgs({
  options: {
    address: text, port: text, redis: text, root: text,
    backlog: text, 'idle-timeout': text, 'request-timeout': text, 'keep-alive-requests': text,
  },
});

const template = await readFile(join(given.root, 'templates/guestbook/index.html'), 'utf8');
const parts = template.split(/(\$[A-Z_]+\$)/);
const redis = createClient({ url: given.redis, disableOfflineQueue: true });
redis.on('error', (error) => console.error(`redis: ${error.message}`)); // the package connects again
redis.connect().catch(() => {}); // the handler above logs the error
await once(redis, 'ready').catch(() => {}); // without Redis, everything except the guestbook works

const escape = (remark) => remark.replace(/[&<>"']/g, (character) => REFERENCES[character]);

function redirect(response, status) {
  // HTTP/1.0 can keep the connection only with a length.
  response.writeHead(status, { Location: '/guestbook', 'Content-Length': 0 }).end();
}

// Reads the whole file, because all files are small. A stream takes twice the CPU time and saves memory only
// with large files.
async function sendFile(response, path) {
  const body = await readFile(join(given.root, 'public', path));
  response.writeHead(200, { 'Content-Type': FILES[path], 'Content-Length': body.length }).end(body);
}

function listOf(remarks) {
  if (remarks.length === 0) {
    return '<li class="remark none"><p>No remarks yet. Yours could be the first.</p></li>\n';
  }
  return remarks.reverse()
    .map((remark) => `<li class="remark"><p>${escape(remark)}</p></li>\n`)
    .join('');
}

async function sendGuestbook(response) {
  // The commands go one after another, as in the seven servers.
  const remarks = await redis.lRange('guestbook_remarks', -REMARKS_SHOWN, -1);
  const visitor = await redis.incr('visitor_count');
  const written = await redis.lLen('guestbook_remarks');
  const values = {
    $GUEST_REMARKS$: listOf(remarks),
    $VISITOR_COUNT$: visitor.toLocaleString('en-US'),
    $REMARKS_COUNT$: written.toLocaleString('en-US'),
    // A plain visit has no typed text and no errors.
    $GUEST_NAME$: '', $GUEST_NAME_ERROR$: '',
    $GUEST_REMARKS_TYPED$: '', $GUEST_REMARKS_ERROR$: '',
  };
  const body = Buffer.from(parts.map((part) => values[part] ?? part).join(''));
  response.writeHead(200, {
    'Content-Type': 'text/html; charset=utf-8',
    'Content-Length': body.length,
  }).end(body);
}

async function serve(request, response) {
  const path = request.url;
  if (path === '/redirect') return redirect(response, 302);
  if (path === '/old') return redirect(response, 301);
  if (path === '/guestbook') return sendGuestbook(response);
  if (Object.hasOwn(FILES, path)) return sendFile(response, path);
  response.writeHead(404, { 'Content-Length': 0 }).end();
}

const server = createServer(
  {
    keepAliveTimeout: Number(given['idle-timeout']),
    headersTimeout: Number(given['request-timeout']),
  },
  (request, response) => {
    serve(request, response).catch((error) => {
      console.error(error);
      if (response.headersSent) response.destroy();
      else response.writeHead(503, { 'Retry-After': 1, 'Content-Length': 0 }).end();
    });
  },
);
server.maxRequestsPerSocket = Number(given['keep-alive-requests']);
server.listen({ host: given.address, port: Number(given.port), backlog: Number(given.backlog) });
