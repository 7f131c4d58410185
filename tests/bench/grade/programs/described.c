/* SPDX-License-Identifier: MIT */
/* The library calls that the skeleton's comments describe, with arguments. A
 * test appends this file to the skeleton. */
static const struct architecture described = {
    .has_workers = true,
    .requests_per_connection = KEEP_ALIVE_REQUESTS,
    .calls = {CALL(epoll_wait), CALL(epoll_ctl), FORKING_CALLS, THREADED_CALLS,
              THREAD_CREATING_CALLS},
};
void all_calls(struct blocking_conn *conn);
void all_calls(struct blocking_conn *conn) {
    struct connection *connection = &conn->connection;
    struct resp_reply reply;
    size_t size;
    int64_t begun = clock_milliseconds();
    char *room = connection_room(&conn->connection, &size);
    ssize_t count = recv(conn->client->socket, room, size, 0);
    cached_time_set(&conn->cached_time, time(NULL));
    connection_received(&conn->connection, (size_t)count);
    enum timeout kind = connection_timeout(connection);
    int whole =
        options_time(&conn->server->options, timeout_milliseconds(kind));
    if (clock_milliseconds() - begun > whole + SEND_TIMEOUT)
        connection_timed_out(connection);
    count = transmit(conn->client->socket, connection_pending(connection));
    connection_sent(&conn->connection, (uint64_t)count);
    struct redis_client *client = redis_pool_borrow(conn->redis);
    bool called = redis_pool_call(
        conn->redis, &client, exchange_command(&connection->exchange), &reply);
    if (!connection_replied(connection, called ? &reply : NULL) && called)
        redis_client_close(client);
    redis_pool_return(conn->redis, client);
    if (connection_is_idle(connection) && server_is_stopping() &&
        !server_is_out_of_time())
        connection_abandon(connection);
    bool several = conn->server->options.workers > 1 && described.has_workers;
    conn->counters = &conn->server->counters[several];
}
