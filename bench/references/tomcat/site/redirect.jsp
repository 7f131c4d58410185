<%-- SPDX-License-Identifier: MIT --%><%@ page session="false" %>
<% response.sendRedirect("/guestbook"); %>
