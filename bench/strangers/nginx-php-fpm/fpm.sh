#!/bin/sh
# SPDX-License-Identifier: MIT
# PHP-FPM, whose name has its version in it, with none of the system's settings for PHP: fpm.sh FOLDER
set -eu
folder=$1
set -- /usr/sbin/php-fpm*
PHP_INI_SCAN_DIR='' exec "$1" --nodaemonize --fpm-config "$folder/fpm.conf" -c "$folder/php.ini"
