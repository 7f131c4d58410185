<?php
// SPDX-License-Identifier: MIT
// The front controller gets all requests (FallbackResource in apache.conf). With PHP's built-in server
// this file is the router. For each request PHP runs the file from its first line.

declare(strict_types=1);

const REDIRECTS = ['/redirect' => 302, '/old' => 301];

function serve(string $path): void
{
    if (isset(REDIRECTS[$path])) {
        header('Location: /guestbook', true, REDIRECTS[$path]);
        header('Content-Length: 0'); // otherwise nginx cannot send the length
        return;
    }
    if ($path === '/sorted') {
        require __DIR__ . '/sorted.php';
        $page = sorted_page();
        header('Content-Length: ' . strlen($page)); // HTTP/1.0 has no chunks
        echo $page;
        return;
    }
    http_response_code(404);
    echo "Not found\n";
}

serve((string) parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH));
