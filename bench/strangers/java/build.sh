#!/bin/sh
# SPDX-License-Identifier: MIT
# The jars that pom.xml names, fetched by Maven, and the class files, into a folder of the build;
# each only where it is older than what it is made of.
#
#     build.sh FOLDER
set -eu
source=src/main/java/Server.java
mkdir -p "$1"
if ! cmp -s pom.xml "$1/pom.xml"; then
    rm -rf "${1:?}/lib"
    mvn --quiet --batch-mode dependency:copy-dependencies -DincludeScope=runtime \
        -DoutputDirectory="$1/lib"
    cp pom.xml "$1/pom.xml"
fi
if [ -n "$(find "$1/Server.class" -newer "$source" -newer "$1/pom.xml" 2>/dev/null)" ]; then exit; fi
javac --release 17 -d "$1" -cp "$1/lib/*" "$source"
