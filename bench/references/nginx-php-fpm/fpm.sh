#!/bin/sh
# SPDX-License-Identifier: MIT
# Run PHP-FPM (its program's name contains the version) without the system's settings: fpm.sh FOLDER
set -eu
folder=$1
set -- /usr/sbin/php-fpm*
PHP_INI_SCAN_DIR='' exec "$1" --nodaemonize --fpm-config "$folder/fpm.conf" -c "$folder/php.ini"
