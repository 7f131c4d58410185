<?php
// SPDX-License-Identifier: MIT
// The front controller: whatever is asked for comes here (FallbackResource in apache.conf; PHP's
// own server has it as its router). PHP runs it from the start for each request.

declare(strict_types=1);

const REDIRECTS = ['/redirect' => 302, '/old' => 301];

$path = parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH);
$status = REDIRECTS[$path] ?? null;
if ($status === null) {
    http_response_code(404);
    exit("Not found\n");
}
header('Location: /guestbook', true, $status);
