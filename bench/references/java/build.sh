#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Download the jars of pom.xml with Maven and compile the class files into a build folder, if they are
# missing or older than their sources.
#
#     build.sh FOLDER
set -euo pipefail

readonly out=${1:?} source=src/main/java/Server.java

mkdir -p "$out"
if ! cmp --silent pom.xml "$out/pom.xml"; then
    rm -rf "${out:?}/lib"
    MAVEN_OPTS=-XX:-UsePerfData mvn --quiet --batch-mode -Dstyle.color=never dependency:copy-dependencies \
        -DincludeScope=runtime -DoutputDirectory="$out/lib" > "$out/maven.log" 2>&1 || {
        # Maven's first line has the error; its last lines are hints.
        grep --max-count=1 --invert-match --extended-regexp '^(\[ERROR\])? *$' "$out/maven.log" >&2
        exit 1
    }
    cp pom.xml "$out/pom.xml"
fi
if [[ $out/Server.class -nt $source && $out/Server.class -nt $out/pom.xml ]]; then exit; fi
javac -J-XX:-UsePerfData --release 17 -d "$out" -cp "$out/lib/*" "$source"
