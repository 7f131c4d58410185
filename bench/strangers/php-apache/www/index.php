<?php
// SPDX-License-Identifier: MIT
// The front controller: whatever is asked for comes here (FallbackResource in apache.conf; PHP's
// own server has it as its router). PHP runs it from the start for each request.

declare(strict_types=1);

const REDIRECTS = ['/redirect' => 302, '/old' => 301];

function serve(string $path): void
{
    if (isset(REDIRECTS[$path])) {
        header('Location: /guestbook', true, REDIRECTS[$path]);
        header('Content-Length: 0'); // nginx before PHP-FPM would not know it
        return;
    }
    if ($path === '/sorted') {
        require __DIR__ . '/sorted.php';
        $page = sorted_page();
        header('Content-Length: ' . strlen($page)); // else in chunks, which HTTP/1.0 cannot keep
        echo $page;
        return;
    }
    http_response_code(404);
    echo "Not found\n";
}

serve((string) parse_url($_SERVER['REQUEST_URI'], PHP_URL_PATH));
