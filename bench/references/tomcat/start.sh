#!/bin/sh
# SPDX-License-Identifier: MIT
# Run Tomcat with its own base folder (CATALINA_BASE): start.sh ROOT FOLDER. Tomcat uses the
# distribution's settings for servlets, file types and class paths. This script executes catalina.sh, which
# executes java.
set -eu
root=$1
CATALINA_BASE=$2
CATALINA_TMPDIR=$CATALINA_BASE/temp
export CATALINA_BASE CATALINA_TMPDIR
cp /usr/share/tomcat10/etc/web.xml /usr/share/tomcat10/etc/catalina.properties "$CATALINA_BASE/conf/"
cp -pR "$root/public/files" "$CATALINA_BASE/site/"
mkdir "$CATALINA_TMPDIR" "$CATALINA_BASE/apps"
# Java writes no file with performance data to /tmp.
export CATALINA_OPTS=-XX:-UsePerfData
exec /usr/share/tomcat10/bin/catalina.sh run
