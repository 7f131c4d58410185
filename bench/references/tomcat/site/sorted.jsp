<%-- SPDX-License-Identifier: MIT --%><%@ page contentType="text/html; charset=utf-8" session="false" trimDirectiveWhitespaces="true" %>
<%@ page import="java.util.ArrayList, java.util.Collections, java.util.List" %>
<%-- The page of sorted strings of lib/app/sorted.c, with Java's standard library. --%>
<%!
    private static final int STRINGS = 1001;
    private static final int WORDS_IN_FIRST = 1000;
    private static final int WORDS_IN_OTHERS = 10;
    private static final int LONGEST_WORD = 10;
    private static final int SEED = 20090401;

    /** The generator of lib/app/sorted.c: the same numbers, the same page. */
    private static final class Generator {
        private int state = SEED;

        int below(int limit) {
            state = state * 1664525 + 1013904223;
            return (state >>> 16) % limit;
        }
    }

    private static String randomString(Generator random, int words) {
        int length = 1 + random.below(LONGEST_WORD);
        StringBuilder text = new StringBuilder(words * (length + 1));
        for (int word = 0; word < words; word++) {
            if (word > 0) {
                text.append(' ');
            }
            for (int i = 0; i < length; i++) {
                text.append((char) ('a' + random.below(26)));
            }
        }
        return text.toString();
    }

    private static List<String> sortedStrings() {
        Generator random = new Generator();
        List<String> strings = new ArrayList<>(STRINGS);
        strings.add(randomString(random, WORDS_IN_FIRST));
        while (strings.size() < STRINGS) {
            strings.add(randomString(random, WORDS_IN_OTHERS));
        }
        Collections.sort(strings);
        return strings;
    }
%>
<%
    // The buffer holds the whole page, so Tomcat sends its length, and HTTP/1.0 can keep the connection.
    response.setBufferSize(128 * 1024);
%>
<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Sorted strings</title>
<link rel="stylesheet" href="/style.css">
<h1>Sorted strings</h1>
<ol>
<% for (String text : sortedStrings()) { %><li><%= text %></li>
<% } %></ol>
</html>
