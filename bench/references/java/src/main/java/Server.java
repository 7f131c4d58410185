// SPDX-License-Identifier: MIT

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpHandler;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import redis.clients.jedis.JedisPooled;
import redis.clients.jedis.exceptions.JedisException;

/**
 * The reference server in Java: the content of the seven servers, with the HTTP server of the JDK and
 * Jedis. One thread waits for all connections; a pool of threads serves the requests. A thread that
 * sends a command to Redis waits for the reply.
 */
public final class Server {
    private static final int REMARKS_SHOWN = 50;
    private static final Pattern PLACE = Pattern.compile("\\$([A-Z_]+)\\$");
    private static final Map<String, String> TYPES =
            Map.of("html", "text/html; charset=utf-8", "txt", "text/plain; charset=utf-8");

    private Server() {}

    public static void main(String[] given) throws IOException {
        if (given.length != 6) {
            System.err.println("Server ADDRESS PORT BACKLOG THREADS REDIS_URL ROOT");
            System.exit(2);
        }
        var address = new InetSocketAddress(given[0], Integer.parseInt(given[1]));
        var root = Path.of(given[5]);
        var server = HttpServer.create(address, Integer.parseInt(given[2]));
        server.createContext("/redirect", redirect(302));
        server.createContext("/old", redirect(301));
        server.createContext("/files/", new Folder(root.resolve("public")));
        server.createContext("/guestbook", new Guestbook(root, URI.create(given[4])));
        server.setExecutor(Executors.newFixedThreadPool(Integer.parseInt(given[3])));
        server.start();
    }

    private static HttpHandler redirect(int status) {
        return exchange -> {
            try (exchange) {
                exchange.getResponseHeaders().set("Location", "/guestbook");
                exchange.sendResponseHeaders(status, -1); // no body
            }
        };
    }

    private static void send(HttpExchange exchange, int status, String text) throws IOException {
        var body = text.getBytes(StandardCharsets.UTF_8);
        exchange.getResponseHeaders().set("Content-Type", TYPES.get("html"));
        exchange.sendResponseHeaders(status, body.length);
        exchange.getResponseBody().write(body);
    }

    /** The files below a folder. */
    private record Folder(Path root) implements HttpHandler {
        @Override
        public void handle(HttpExchange exchange) throws IOException {
            try (exchange) {
                var path = exchange.getRequestURI().getPath();
                var file = root.resolve(path.substring(1)).normalize();
                if (!file.startsWith(root) || !Files.isRegularFile(file)) {
                    send(exchange, 404, "Not found\n");
                    return;
                }
                var ending = path.substring(path.lastIndexOf('.') + 1);
                var type = TYPES.getOrDefault(ending, "application/octet-stream");
                exchange.getResponseHeaders().set("Content-Type", type);
                exchange.sendResponseHeaders(200, Files.size(file));
                Files.copy(file, exchange.getResponseBody());
            }
        }
    }

    /** The guestbook: three commands to Redis, one after another. */
    private static final class Guestbook implements HttpHandler {
        private final JedisPooled redis; // a pool of connections with the default size
        private final String template;

        Guestbook(Path root, URI url) throws IOException {
            redis = new JedisPooled(url);
            template = Files.readString(root.resolve("templates/guestbook/index.html"));
        }

        @Override
        public void handle(HttpExchange exchange) throws IOException {
            try (exchange) {
                String page;
                try {
                    page = page();
                } catch (JedisException unreachable) {
                    exchange.getResponseHeaders().set("Retry-After", "1");
                    exchange.sendResponseHeaders(503, -1);
                    return;
                }
                send(exchange, 200, page);
            }
        }

        private String page() {
            var remarks = redis.lrange("guestbook_remarks", -REMARKS_SHOWN, -1);
            var visitor = redis.incr("visitor_count");
            var written = redis.llen("guestbook_remarks");
            var values =
                    Map.of(
                            "GUEST_REMARKS", list(remarks),
                            "VISITOR_COUNT", grouped(visitor),
                            "REMARKS_COUNT", grouped(written));
            // A plain visit has no typed text and no errors: other values stay empty.
            return PLACE.matcher(template)
                    .replaceAll(
                            place ->
                                    Matcher.quoteReplacement(
                                            values.getOrDefault(place.group(1), "")));
        }

        private static String list(List<String> remarks) {
            if (remarks.isEmpty()) {
                return "<li class=\"remark none\"><p>No remarks yet. Yours could be the first.</p></li>\n";
            }
            Collections.reverse(remarks);
            var html = new StringBuilder();
            for (var remark : remarks) {
                html.append("<li class=\"remark\"><p>").append(escape(remark)).append("</p></li>\n");
            }
            return html.toString();
        }

        private static String grouped(long number) {
            return String.format(Locale.ROOT, "%,d", number);
        }

        private static String escape(String text) {
            return text.replace("&", "&amp;")
                    .replace("<", "&lt;")
                    .replace(">", "&gt;")
                    .replace("\"", "&quot;")
                    .replace("'", "&#39;");
        }
    }
}
