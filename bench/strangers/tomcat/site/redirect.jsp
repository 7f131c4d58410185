<%@ page session="false" %>
<% response.sendRedirect("/guestbook"); %>
