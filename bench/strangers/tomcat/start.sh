#!/bin/sh
# SPDX-License-Identifier: MIT
# Tomcat with a base of its own (CATALINA_BASE): start.sh ROOT FOLDER. Of the distribution's settings it
# takes those that describe servlets, types of files and class paths; then the script becomes java.
set -eu
root=$1
CATALINA_BASE=$2
CATALINA_TMPDIR=$CATALINA_BASE/temp
export CATALINA_BASE CATALINA_TMPDIR
cp /usr/share/tomcat10/etc/web.xml /usr/share/tomcat10/etc/catalina.properties "$CATALINA_BASE/conf/"
cp -pR "$root/public/files" "$CATALINA_BASE/site/"
mkdir "$CATALINA_TMPDIR" "$CATALINA_BASE/apps"
# No file in /tmp that would tell monitors how it is.
export CATALINA_OPTS=-XX:-UsePerfData
exec /usr/share/tomcat10/bin/catalina.sh run
